"""Every block of Python code in the documents runs; the README's are in :mod:`tests.examples.test_examples`."""

from __future__ import annotations

import re

import pytest

from .running import ROOT, run

pytestmark = pytest.mark.simulator_only
PAGES = {
    path.stem: blocks
    for path in sorted((ROOT / "docs").glob("*.md"))
    if (blocks := re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
}
#: A process for each page, as most of the time of a block is a start of Python. Blocks share nothing but that.
_ONE_AFTER_THE_OTHER = """
import sys
import types

for number, block in enumerate({blocks!r}):
    print(f"block {{number}}", flush=True)
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(block, f"<block {{number}}>", "exec"), vars(module))
    if "drv" in sys.modules:
        sys.modules["drv"].reset()
"""


@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page: str) -> None:
    blocks = PAGES[page]
    printed = run("-c", _ONE_AFTER_THE_OTHER.format(blocks=blocks))
    said = re.split(r"^block \d+\n", printed, flags=re.MULTILINE)
    assert said.pop(0) == ""
    assert len(said) == len(blocks)
    for block, lines in zip(blocks, said, strict=True):
        assert lines.strip(), block
        if "collecting" in block:
            assert set(lines.splitlines()) == {"race 1024"}


def test_a_block_collects_findings() -> None:
    assert [block for blocks in PAGES.values() for block in blocks if "collecting" in block]
