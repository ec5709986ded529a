"""What the pictures show, as data: the timeline, the roofline, memory over time, and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import drv
from drv.simulator.timing.advice import METRICS
from drv.simulator.timing.figures import DEFAULT, FIGURES, figures_of, pipe_rates
from drv.simulator.timing.work_time import PEAK
from tensor.core.spans import ANNOTATION, MODULE, NODE, OPERATION, STEP
from tensor.profiler.events import DeviceType, module_of, node_of
from tensor.profiler.memory_picture import memory_series, short
from tools.profile.kernels import TOTALS, kernels_of

if TYPE_CHECKING:
    from tensor.profiler import profile

#: Bars of the timeline at the most: the longest of each row.
_MOST_BARS = 6000


def pictures(run: profile) -> dict[str, Any]:
    """Data of all pictures of a profile; times in microseconds from its first event."""
    starts = [span.start for span in run.spans()] + [each.start for each in run.device_events()]
    begin = min(starts, default=0)
    return {
        "timeline": _timeline(run, begin),
        "roofline": _roofline(run),
        "memory": memory_series(run.memory_events(), begin),
        "operations": _operations(run),
        "units": {name: f"{unit}: {meaning}" for name, (unit, meaning) in (METRICS | TOTALS).items()},
    }


def _timeline(run: profile, begin: int) -> dict[str, Any]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for each in run.device_events():
        row = f"GPU {each.device}: {each.stream_name}"
        bound = each.details.get("bound", "")
        rows.setdefault(row, []).append(
            {
                "name": each.name,
                "kind": each.category,
                "start": (each.start - begin) / 1e3,
                "us": each.nanoseconds / 1e3,
                "more": [
                    text
                    for text in (
                        f"bound by {bound}" if bound else "",
                        module_of(each.span),
                        node_of(each.span),
                        short(each.line),
                    )
                    if text
                ],
            }
        )
    devices = list(rows)
    threads: dict[int, str] = {}
    for span in run.spans():
        thread = threads.setdefault(span.thread, f"thread {len(threads) + 1}" if threads else "host")
        level = {
            STEP: "steps",
            ANNOTATION: "annotations",
            MODULE: "modules",
            NODE: "backward",
            OPERATION: "operations",
        }
        if span.category in (MODULE, OPERATION) and _inside(span, span.category):
            continue
        row = f"{thread}: {level.get(span.category, span.category)}"
        rows.setdefault(row, []).append(
            {
                "name": span.name,
                "kind": span.category,
                "start": (span.start - begin) / 1e3,
                "us": max(span.end - span.start, 0) / 1e3,
                "more": [text for text in (module_of(span),) if text and span.category != MODULE],
            }
        )
    left_out = 0
    for row, bars in rows.items():
        if len(bars) > _MOST_BARS:
            left_out += len(bars) - _MOST_BARS
            rows[row] = sorted(bars, key=lambda bar: -bar["us"])[:_MOST_BARS]
    order = devices + [row for row in rows if row not in devices]
    return {"rows": [{"row": row, "bars": rows[row]} for row in order], "left_out": left_out}


def _inside(span: Any, category: str) -> bool:
    """Whether a span is inside another of its category: the row shows the outermost."""
    around = span.parent
    while around is not None:
        if around.category == category:
            return True
        around = around.parent
    return False


def _roofline(run: profile) -> dict[str, Any]:
    figures, capability = FIGURES[DEFAULT], (9, 0)
    if drv.is_initialized() and drv.runtime().simulated:
        device = drv.runtime().driver.machine[0]
        figures, capability = figures_of(device.model), device.capability
    rates = pipe_rates(capability)
    peaks = {
        "FMA pipe, float32": 2 * rates.fma * figures.model.multiprocessors * figures.clock,
        "tensor cores, bfloat16": PEAK[figures.name]["bf16"] * 1e12,
    }
    points = []
    for kernel in kernels_of(run):
        flops = sum(kernel.values("flops"))
        moved = sum(kernel.values("dram_bytes"))
        seconds = kernel.total_us * 1e-6
        if flops and moved and seconds:
            points.append(
                {
                    "name": kernel.name,
                    "intensity": flops / moved,
                    "rate": flops / seconds,
                    "us": kernel.total_us,
                    "bound": kernel.metric("bound") or "",
                    "launches": len(kernel.launches),
                }
            )
    return {
        "points": points,
        "bandwidth": figures.dram_bandwidth,
        "peaks": peaks,
        "device": figures.name,
    }


def _operations(run: profile) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {
            "name": each.key,
            "calls": each.count,
            "self_host_us": each.self_cpu_time_total,
            "host_us": each.cpu_time_total,
            "self_device_us": each.self_device_time_total,
            "device_us": each.device_time_total,
            "memory": each.self_device_memory_usage,
        }
        for each in run.key_averages()
        if each.device_type is DeviceType.CPU
    ]
    return sorted(rows, key=lambda row: -(row["device_us"] + row["self_host_us"]))
