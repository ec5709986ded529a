"""What bounds every family of kernels, and which share of that limit is reached, by the model of the simulated driver.

Needs no GPU: kernels run on a simulated one that stands for an H200 (or what ``--model`` says), of large grids only a
sample. The limit of what only moves memory is the rate of a copy for the bytes that must be moved; of products,
convolutions and attention the rate of ``mma.sync`` on tensor cores, or of the FMA pipe. With a GPU the same work is
measured too, and the error of the model printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import drv
import nn
import tensor
from drv.simulator.device_models import MODELS
from drv.simulator.timing.figures import figures_of, pipe_rates
from drv.simulator.timing.recorder import recording
from tools.bench.measure import OURS, Row, on_gpu, work_times
from tools.bench.modelled_work import FAMILIES
from tools.counted import counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from drv.simulator.timing.records import TimedOperation

_DTYPES = {"float32": tensor.float32, "bfloat16": tensor.bfloat16}
#: What the figures of a row are, for the table that is kept.
COLUMNS = {
    "share": "% of limit",
    "limit": "limit",
    "us": "us",
    "launches": "launches",
    "bound": "bound by",
    "kernel": "longest kernel",
    "moved": "moved / needed",
    "over": "sectors / needed",
    "width": "bytes a load",
    "occupancy": "occupancy",
    "registers": "registers",
    "spills": "spills",
    "advice": "what would help",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the suite."""
    parser.add_argument("--model", choices=list(MODELS), default="h200", help="the GPU (h200)")
    parser.add_argument(
        "--dtype", choices=list(_DTYPES), action="append", help="float32 and bfloat16 by default"
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="where to write the table with all columns"
    )


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """The rows whose name contains ``only``."""
    if on_gpu():
        yield from _compared(only, options)
        return
    measured: list[Row] = []
    drv.reset()
    with drv.simulator.installed(model=options.model, check="off") as runtime:
        device = runtime.driver.machine[0]
        for row in _modelled(only, options, runtime, device):
            measured.append(row)
            print(f"{row.name}: {row.note}", file=sys.stderr)
            yield row
    if options.markdown is not None:
        options.markdown.write_text(_markdown(measured, options.model), encoding="utf-8")


def _modelled(only: str, options: argparse.Namespace, runtime: Any, device: Any) -> Iterator[Row]:
    figures, rates = figures_of(device.model), pipe_rates(device.capability)
    for family, works in FAMILIES.items():
        for name, make in works.items():
            for dtype_name in options.dtype or _DTYPES:
                row_name = f"{family}: {name}, {dtype_name}"
                if only not in row_name:
                    continue
                work = make(_DTYPES[dtype_name])
                if work is None:
                    continue
                try:
                    operations = _recorded(work, runtime)
                except NotImplementedError:
                    continue
                if operations:
                    yield _row(row_name, work, operations, figures, rates, device)
                del work
                tensor.cuda.empty_cache()


def _recorded(work: Any, runtime: Any) -> list[TimedOperation]:
    """What the second call of the work does on the device: the first one loads kernels and makes plans."""
    with recording(runtime.driver, results=work.numbers) as recorder:
        for _ in range(2):
            work.prepare()
            tensor.cuda.synchronize()
            before = len(recorder.operations)
            work.run()
            tensor.cuda.synchronize()
            operations = recorder.operations[before:]
    return [each for each in operations if each.category != "host"]


def _row(
    name: str, work: Any, operations: list[TimedOperation], figures: Any, rates: Any, device: Any
) -> Row:
    seconds = float(sum(each.seconds for each in operations))
    copy = work.moved / (figures.dram_bandwidth * figures.dram_reach)
    limits = {"DRAM": copy}
    if work.flops:
        per_clock = rates.tensor if work.tensor_cores else rates.fma
        # Factors of float32 go through tensor cores as TF32, at half the rate of 16 bits.
        factor = 0.5 if work.tensor_cores and "float32" in name else 1.0
        limits["mma.sync" if work.tensor_cores else "FMA pipe"] = work.flops / (
            2 * per_clock * factor * device.multiprocessors * figures.clock
        )
    limit = max(limits, key=lambda each: limits[each])
    share = limits[limit] / seconds
    kernels = [each for each in operations if each.kernel is not None]
    longest = max(operations, key=lambda each: each.seconds)
    bounds: Counter[str] = Counter()
    for each in operations:
        bounds[each.bound or each.category] += round(each.seconds * 1e9)
    moved = sum(each.metrics.get("dram_bytes", 2 * each.nbytes) for each in operations)
    metrics = longest.metrics
    details = {
        "share": share,
        "limit": limit,
        "us": seconds * 1e6,
        "launches": len(operations),
        "bound": bounds.most_common(1)[0][0],
        "kernel": longest.name,
        "moved": moved / work.moved if work.moved else 0.0,
        "over": max((each.metrics["sectors_over_needed"] for each in kernels), default=0.0),
        "width": _width(longest),
        "occupancy": metrics.get("occupancy", 0.0),
        "registers": metrics.get("registers", 0),
        "spills": sum(each.metrics["spills"] for each in kernels),
        "advice": _shortest(longest.advice),
        "limits_us": metrics.get("limits_us", {}),
        "sample_error": max((each.metrics["sample_error"] for each in kernels), default=0.0),
    }
    note = f"{details['us']:,.1f} us in {counted(details['launches'], 'call')}, bound by {details['bound']}"
    return Row(
        name, "% of limit", {OURS: 100 * share}, better="higher", reach=work.reach, note=note, details=details
    )


def _width(operation: TimedOperation) -> float:
    """Bytes that a thread's load or store moves on average, weighted by bytes."""
    if operation.kernel is None:
        return 0.0
    sites = [each for each in operation.kernel.counts.sites if each.space == "global"]
    total = sum(each.lanes * each.width for each in sites)
    return sum(each.lanes * each.width**2 for each in sites) / total if total else 0.0


def _shortest(advice: list[str]) -> str:
    """The most telling sentence that is not what bounds it."""
    return next((each for each in advice if not each.startswith(("bound by", "too little"))), "")


def _markdown(rows: list[Row], model: str) -> str:
    figures = MODELS[model]
    lines = [
        f"# Our kernels by the model: {figures.name}",
        "",
        "Written by `python -m tools.bench model --markdown FILE`; times are modelled on the simulated driver, not measured",
        "([how](../model.md)). The share is the time of the limit (the bytes that must be moved at the rate of a copy, or",
        "multiply-adds at the rate of `mma.sync` or of the FMA pipe) over the modelled time of all device calls. Figures of",
        "accesses are those of the kernel that takes longest. Launch cost is in all times.",
        "",
        "| work | " + " | ".join(COLUMNS.values()) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    for row in rows:
        details: Any = row.details
        reach = "" if row.reach is None else " ✓" if row.reached else f" (< {row.reach:.0f})"
        cells = {
            "share": f"{100 * details['share']:.0f}{reach}",
            "us": f"{details['us']:,.1f}",
            "moved": f"{details['moved']:.2f}",
            "over": f"{details['over']:.2f}",
            "width": f"{details['width']:.1f}",
            "occupancy": f"{100 * details['occupancy']:.0f} %",
        }
        lines.append(
            f"| {row.name} | " + " | ".join(str(cells.get(name, details[name])) for name in COLUMNS) + " |"
        )
    return "\n".join(lines) + "\n"


def _compared(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """With a GPU: modelled times of another process beside measured ones."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "modelled.json"
        command = [sys.executable, "-m", "tools.bench", "model", "--model", _nearest(options.model)]
        command += ["--json", str(path), "--only", only]
        for dtype in options.dtype or ():
            command += ["--dtype", dtype]
        environment = {**os.environ, "GRAPHROOT_DRIVER": "simulator", "GRAPHROOT_SIMULATOR": ""}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        modelled = {row["name"]: row["us"] for row in json.loads(path.read_text())["rows"]}
    errors = []
    for family, works in FAMILIES.items():
        for name, make in works.items():
            for dtype_name in options.dtype or _DTYPES:
                row_name = f"{family}: {name}, {dtype_name}"
                if row_name not in modelled:
                    continue
                work = make(_DTYPES[dtype_name])

                def call(work: Any = work) -> None:
                    work.prepare()
                    work.run()

                measured = work_times({OURS: call}, {OURS: tensor})[OURS] / 1e3
                error = modelled[row_name] / measured
                errors.append(max(error, 1 / error) - 1)
                yield Row(
                    row_name,
                    "us",
                    {OURS: measured, "model": modelled[row_name]},
                    note=f"modelled {error:.2f} times the measured time; median error so far {median(errors):.0%}",
                )


def _nearest(default: str) -> str:
    """The model of the GPU that is there, by its name; ``default`` if none has it."""
    name = tensor.cuda.get_device_name().lower()
    return next((key for key in MODELS if key in name.replace(" ", "")), default)


#: Its functions are what most work calls.
assert nn
