"""The command: rows as a table, as JSON and as a picture, and what it refuses."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from tools.scale.command_line import main

pytestmark = pytest.mark.simulator_only

_SCRIPT = """
import nn
import tensor


def model():
    return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))


def loss(model):
    return model(tensor.ones(4, 8)).sum()
"""


def test_a_script_is_predicted(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, plot = tmp_path / "script.py", tmp_path / "plot.svg"
    script.write_text(_SCRIPT)
    arguments = ["--model", str(script), "--devices", "1,8,64", "--gpu", "a100", "--network", "dgx-a100"]
    assert main([*arguments, "--json", "--plot", str(plot)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [each["devices"] for each in rows] == [1, 8, 64]
    assert {"step_ms", "memory_bytes", "efficiency", "compute_ms", "exposed_ms", "idle_ms"} <= rows[0].keys()
    shapes = list(ElementTree.fromstring(plot.read_text()).iter())
    names = [each.tag.rpartition("}")[2] for each in shapes]
    # A point and a bar of three parts for each number, and the legend's three.
    assert names.count("circle") == 3 and names.count("rect") == 3 * 3 + 3
    assert main(arguments) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[0] == "devices" and [line.split()[0] for line in table[1:]] == ["1", "8", "64"]


def test_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in [
        (["--devices", "9"], "no whole number of nodes"),
        (["--devices", "8,many"], "numbers with commas between them, as 8,64, not '8,many'"),
        (["--model", "gpt9"], "no model"),
        (["--network", "token-ring"], "no network"),
    ]:
        with pytest.raises(SystemExit) as raised:
            main(arguments)
        assert raised.value.code == 2 and words in capsys.readouterr().err
