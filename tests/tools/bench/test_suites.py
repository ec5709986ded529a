"""Suites of the bench run where there is no GPU, and know what is to be reached."""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nn
import tensor
from tools.bench import interpreters, measure, report
from tools.bench.measure import OURS, Row
from tools.bench.suites import collectives, compiled, copy, cpu, growth, peaks, start, train
from tools.bench.training_models import Training

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.simulator_only


@pytest.fixture(autouse=True)
def without_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for suite in (copy, train):
        monkeypatch.setattr(suite, "libraries", lambda device: {OURS: tensor})


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """That there are times is what is tested, and not how exact they are."""
    for timing in (measure.host_times, measure.host_time, measure.device_times):
        monkeypatch.setitem(timing.__kwdefaults__, "seconds", 0.02)
    monkeypatch.setattr(copy, "host_times", lambda calls, **_: measure.host_times(calls))


def _checked(rows: list[Row], names: set[str]) -> None:
    assert {row.name for row in rows} == names
    assert all(row.values[OURS] >= 0 for row in rows)
    assert OURS in report.table(rows)


def test_copies() -> None:
    rows = list(copy.rows("to the device", argparse.Namespace(bytes=4096)))
    names = {"pinned, to the device", "pageable, to the device", "pinned, to the device, beside products"}
    _checked([row for row in rows if not row.name.startswith("host time")], names)
    assert "host time, copy_ to the device" in {row.name for row in rows}


def test_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives, "has_torch", lambda: False)
    options = argparse.Namespace(ranks=2, rounds=1)
    assert list(collectives.rows("no such size", options)) == []
    (row,) = collectives.rows("1 MiB", options)
    _checked([row], {"all_reduce, 2 ranks, 1 MiB"})
    assert row.reach is None


def test_training_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "ON_CPU", train.ON_HOST)
    rows = list(train.rows("GPT", argparse.Namespace()))
    _checked(rows, {"GPT, 2 layers, 8 wide, 4 long, bf16", "host time, GPT, a step"})
    assert "tokens a second" in rows[0].note


def test_training_steps_as_libraries_compile_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "ON_CPU", train.ON_HOST)
    # PyTorch takes a minute.
    monkeypatch.setattr(train, "libraries", lambda device: {OURS: tensor})
    rows = list(train.rows("perceptron, 784", argparse.Namespace(compiled=True)))
    assert [set(row.values) for row in rows] == [{OURS, f"{OURS}, compiled"}]


def test_compiled_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def training(capturable: bool) -> Training:
        model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.1)).to("cuda")
        optimizer = nn.optim.AdamW(model.parameters(), capturable=capturable)
        return Training(optimizer, lambda x: model(x).square().mean(), (tensor.ones(4, 8, device="cuda"),))

    monkeypatch.setattr(compiled, "TRAININGS", {"layer": training})
    figures = {row.name: row.values for row in compiled.rows("layer", argparse.Namespace(repeat=1))}
    calls = figures["layer: device calls"]
    assert 0 < calls[OURS] < calls["eager"]
    assert figures["layer: bytes of DRAM"].keys() == figures["layer: device time"].keys() == calls.keys()
    assert set(figures["layer: host time"]) == {"eager", OURS, "reduce-overhead", "graph"}


def test_starts(tmp_path: Path) -> None:
    begun = start.Start("import json", {OURS: "import json", "torch cpu": "import json, argparse"})
    times = start._times(begun, 1, tmp_path, interpreters.environment(tmp_path, gpu=False))
    assert set(times) == {OURS, "torch cpu"}
    assert start._reach(begun, times, gpu=False) == pytest.approx(times["torch cpu"] / 4)
    assert start._reach(start.Start("first result", {}), {}, gpu=True) == start.REACH


def test_operations_on_the_cpu() -> None:
    options = argparse.Namespace(threads=1, elements=4096)
    threads = tensor.get_num_threads()
    rows = list(cpu.rows("gelu", options))
    assert [row.name for row in rows] == ["gelu", "gelu, forward and backward"]
    assert all(row.values[OURS] > 0 for row in rows)
    assert tensor.get_num_threads() == threads


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read as Linux tells them")
def test_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = list(peaks.rows("elements, added to", argparse.Namespace(share=0.1)))
    assert [row.name for row in rows] == ["10,000,000 elements, added to and summed"]
    # The sum of 40 MB, and next to nothing for the sum of the sum.
    assert 39 < rows[0].values[OURS] < 60
    monkeypatch.setattr(peaks, "available_memory", lambda: 1e6)
    assert list(peaks.rows("", argparse.Namespace(share=1.0))) == []


@pytest.mark.parametrize("peak", peaks.PEAKS, ids=lambda peak: peak.name)
def test_works_whose_peaks_are_measured(peak: peaks.Peak) -> None:
    names: dict[str, Any] = {"lib": tensor, "device": "cpu"}
    exec(peak.work, names)
    call = names["prepared"](100)
    call()


def test_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    # Garbage is collected before each measurement: what earlier tests loaded would be walked over 36 times.
    gc.freeze()
    sizes = {"elements": (100, 1000), "bytes of a checkpoint": (1_000_000, 3_000_000)}
    small = [replace(each, sizes=sizes.get(each.name, (8, 64, 1 << 60)), memory=1) for each in growth.GROWTHS]
    monkeypatch.setattr(growth, "GROWTHS", small)
    rows = list(growth.rows("", argparse.Namespace(largest=10_000_000)))
    _checked([replace(row, values={OURS: 1.0}) for row in rows], {each.name for each in small})
    assert all(len(row.details["seconds"]) == 2 and row.unit == "exponent" for row in rows)
    assert [row.name for row in growth.rows("stream", argparse.Namespace(largest=None))] == ["streams"]
    assert growth.exponent((1, 10, 100), (3, 30, 300)) == pytest.approx(1)
    assert growth.exponent((1, 10, 100), (3, 300, 30_000)) == pytest.approx(2)


@pytest.mark.parametrize(
    "name",
    [
        "queued operations",
        "queued operations that wait for each other",
        "streams",
        "live blocks",
        "graph nodes",
        "parameters of an optimizer",
    ],
)
def test_calls_grow_as_the_work_does(name: str) -> None:
    """Python calls are counted, which no other program on the machine changes."""
    (row,) = (each for each in growth.GROWTHS if each.name == name)
    sizes = (100, 800)
    counts = []
    for size in sizes:
        with row.prepared(size) as call:
            call()
            count = 0

            def count_call(frame: object, event: str, argument: object) -> None:
                nonlocal count
                count += event in ("call", "c_call")

            sys.setprofile(count_call)
            try:
                call()
            finally:
                sys.setprofile(None)
        counts.append(count)
    assert counts[0] > sizes[0]
    assert growth.exponent(sizes, counts) < 1.05


def test_the_model_says_what_bounds_our_kernels(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    command = [
        sys.executable,
        "-m",
        "tools.bench",
        "model",
        "--only",
        "pointwise: compare",
        "--json",
        str(tmp_path / "m.json"),
    ]
    subprocess.run(
        [*command, "--markdown", str(table)], cwd=ROOT, check=True, capture_output=True, timeout=250
    )
    rows = json.loads((tmp_path / "m.json").read_text())["rows"]
    assert [row["name"] for row in rows] == ["pointwise: compare, float32", "pointwise: compare, bfloat16"]
    for row in rows:
        assert row["limit"] == "DRAM"
        assert row["launches"] == 1
        assert 0.95 < row["moved"] < 1.05
        assert 0 < row["values"]["graphroot"] <= 101
        assert f"| {row['name']} | " in table.read_text()
