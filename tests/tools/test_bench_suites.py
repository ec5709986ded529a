"""Suites of the bench run where there is no GPU, and know what is to be reached."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

import tensor
from tools.bench import report
from tools.bench.measure import OURS, Row
from tools.bench.suites import copy, start, train

pytestmark = pytest.mark.simulator_only


@pytest.fixture(autouse=True)
def without_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for suite in (copy, train):
        monkeypatch.setattr(suite, "libraries", lambda device: {OURS: tensor})


def _checked(rows: list[Row], names: set[str]) -> None:
    assert {row.name for row in rows} == names
    assert all(row.values[OURS] >= 0 for row in rows)
    assert OURS in report.table(rows)


def test_copies() -> None:
    rows = list(copy.rows("to the device", argparse.Namespace(bytes=4096)))
    names = {"pinned, to the device", "pageable, to the device", "pinned, to the device, beside products"}
    _checked([row for row in rows if not row.name.startswith("host time")], names)
    assert "host time, copy_ to the device" in {row.name for row in rows}


def test_training_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "ON_CPU", train.ON_HOST)
    rows = list(train.rows("GPT", argparse.Namespace()))
    _checked(rows, {"GPT, 2 layers, 8 wide, 4 long, bf16", "host time, GPT, a step"})
    assert "tokens a second" in rows[0].note


def test_starts(tmp_path: Path) -> None:
    begun = start.Start("import json", {OURS: "import json", "torch cpu": "import json, argparse"})
    times = start._times(begun, 1, tmp_path, start._environment(tmp_path, gpu=False))
    assert set(times) == {OURS, "torch cpu"}
    assert start._reach(begun, times, gpu=False) == pytest.approx(times["torch cpu"] / 4)
    assert start._reach(start.Start("first result", {}), {}, gpu=True) == start.REACH
