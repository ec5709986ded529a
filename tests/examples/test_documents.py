"""Every block of Python code in the documents runs; the README's are in :mod:`tests.examples.test_examples`."""

from __future__ import annotations

import re

import pytest

from .running import ROOT, run

pytestmark = pytest.mark.simulator_only
BLOCKS = [
    pytest.param(code, id=f"{path.stem}-{number}")
    for path in sorted((ROOT / "docs").glob("*.md"))
    for number, code in enumerate(
        re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize("code", BLOCKS)
def test_block_runs(code: str) -> None:
    said = run("-c", code)
    assert said.strip()
    if "collecting" in code:
        assert set(said.splitlines()) == {"race 1024"}


def test_a_block_collects_findings() -> None:
    assert [block for block in BLOCKS if "collecting" in str(block.values[0])]
