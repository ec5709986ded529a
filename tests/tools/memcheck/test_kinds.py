from __future__ import annotations

import re

import pytest

from drv.simulator.faults import FaultKind
from tests.tools.running import ROOT
from tools.memcheck import conversion, options
from tools.memcheck.kinds import link, pages


def test_every_kind_has_a_page() -> None:
    kinds = {*conversion._KINDS.values(), *map(str, FaultKind), "stopped kernel", "leak"} - {"stopped"}
    assert kinds == pages().keys()
    assert all(len(text) > 100 for text in pages().values())
    listed = re.findall(
        r"^\| `([a-z ]+)` \| .* \| .* \| .* \|$", (ROOT / "docs/memcheck.md").read_text(), re.MULTILINE
    )
    assert set(listed) == kinds


def test_the_page_in_the_documentation() -> None:
    assert "{include} ../tools/memcheck/kinds.md" in (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert link("race within a kernel") == "findings.html#race-within-a-kernel"


def test_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    for words, title in (("Race", "race\n----\n"), ("all", "out of bounds\n-------------\n")):
        with pytest.raises(SystemExit) as ended:
            options.parse(["--explain", words])
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(title)
    with pytest.raises(SystemExit) as ended:
        options.parse(["--explain", "races"])
    assert ended.value.code == 2
    assert "there is no kind of finding 'races'; there are out of bounds, " in capsys.readouterr().err
