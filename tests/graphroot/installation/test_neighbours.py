"""The package beside projects with folders of their own that are called as ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..projects import PAIRS, combinations, described, write

if TYPE_CHECKING:
    from pathlib import Path

    from .installed import Installed

pytestmark = pytest.mark.simulator_only


def _both_run(installed: Installed, folder: Path, forms: dict[str, str]) -> None:
    write(folder, forms)
    assert installed.out("python", "own.py", cwd=folder) == "own: right\n"
    out = installed.out("graphroot", "run", "--simulate", "both.py", cwd=folder)
    assert out == "both: right cuda:0\n"


@pytest.mark.parametrize("forms", PAIRS, ids=described)
@pytest.mark.sampled(3)
def test_every_pair(installed: Installed, tmp_path: Path, forms: dict[str, str]) -> None:
    _both_run(installed, tmp_path, forms)


@pytest.mark.nightly
@pytest.mark.parametrize("forms", list(combinations()), ids=described)
def test_every_combination(installed: Installed, tmp_path: Path, forms: dict[str, str]) -> None:
    _both_run(installed, tmp_path, forms)
    # The same from the folder as `python -m` and an import of ours in the program see it.
    done = installed.out("python", "-m", "graphroot", "run", "--simulate", "both.py", cwd=tmp_path)
    assert done == "both: right cuda:0\n"
    (tmp_path / "first.py").write_text(
        "import os\nos.environ['GRAPHROOT_DRIVER'] = 'simulator'\nimport tensor.as_torch\nimport both\n"
    )
    assert installed.out("python", "first.py", cwd=tmp_path) == "both: right cuda:0\n"
