"""A GPT is predicted under two strategies, and both are tabulated and drawn."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import TYPE_CHECKING

import pytest

from .running import run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulator_only

SMALL = ("--layers", "1", "--width", "64", "--heads", "2", "--length", "32", "--batch-size", "2")


def test_a_table_and_a_panel_for_each_strategy(tmp_path: Path) -> None:
    drawn = tmp_path / "scaling.svg"
    said = run("examples/plot_scaling.py", *SMALL, "--devices", "1", "8", "64", "--output", str(drawn))
    assert re.findall(r"^(\w+):$", said, re.MULTILINE) == ["ddp", "fully_shard"]
    rows = re.findall(r"^ +(\d+) +([\d.]+) .* ([\d.]+)% +[\d.]+$", said, re.MULTILINE)
    assert [devices for devices, _, _ in rows] == ["1", "8", "64"] * 2
    for alone, *others in (rows[:3], rows[3:]):
        assert alone[2] == "100.0"
        # Its gradients are small, and the network's latencies are not.
        assert float(alone[1]) < float(others[0][1]) < float(others[1][1])
    shapes = list(ElementTree.fromstring(drawn.read_text(encoding="utf-8")).iter())
    names = [each.tag.rpartition("}")[2] for each in shapes]
    assert names.count("g") == names.count("polyline") == 2
    assert names.count("circle") == 6
    titles = [each.text or "" for each in shapes if each.tag.endswith("}text")]
    assert [title for title in titles if title.startswith("GPT, 1 blocks of width 64")] == [
        f"GPT, 1 blocks of width 64, {strategy}, h100, dgx-h100" for strategy in ("ddp", "fully_shard")
    ]
