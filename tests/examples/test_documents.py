"""Every block of Python code in the documents runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .running import ROOT, run

pytestmark = pytest.mark.simulator_only
BLOCKS = [
    pytest.param(code, id=f"{path.stem}-{number}")
    for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
    for number, code in enumerate(
        re.findall(r"```python\n(.*?)```", Path(path).read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize("code", BLOCKS)
def test_block_runs(code: str) -> None:
    assert run("-c", code).strip()


def test_findings_of_the_guide() -> None:
    code = next(block.values[0] for block in BLOCKS if "collecting" in str(block.values[0]))
    assert set(run("-c", str(code)).splitlines()) == {"race 1024"}
