"""Memory of a device over two steps of training, coloured by the line that allocated it."""

from __future__ import annotations

import json
import linecache
import tempfile
from pathlib import Path
from typing import Any

import drv
import nn
import tensor
from docs.drawing.svg import Drawing
from nn import optim
from tensor.profiler import ProfilerActivity, profile

from .chart import Axes

_COLOURS = ("blue", "green", "orange", "violet", "red")


def _step(model: Any, optimizer: Any, x: Any, y: Any) -> None:
    out = model(x)
    loss = nn.functional.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def measure() -> dict[str, Any]:
    """The bytes of each line after each allocation and each release."""
    drv.simulator.install()
    # What is allocated once, the workspace of cuBLAS, is not of the steps.
    tensor.ones(64, 64, device="cuda") @ tensor.ones(64, 64, device="cuda")
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())]
    with profile(activities=activities, profile_memory=True, with_stack=True) as profiled:
        model = nn.Sequential(*layers, nn.Linear(64, 10)).cuda()
        optimizer = optim.AdamW(model.parameters(), lr=1e-3)
        x, y = tensor.randn(256, 64, device="cuda"), tensor.randint(0, 10, (256,), device="cuda")
        for _ in range(2):
            _step(model, optimizer, x, y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.json")
        profiled.export_memory_timeline(str(path))
        timeline: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    timeline["lines"] = [_code(each) for each in timeline["lines"]]
    return timeline


def _code(line: str) -> str:
    """The code of ``path:number``."""
    path, _, number = line.rpartition(":")
    return linecache.getline(path, int(number)).strip() or line


def draw(timeline: dict[str, Any]) -> Drawing:
    """Areas, one on the other."""
    lines, sizes = timeline["lines"], timeline["bytes"]
    order = sorted(range(len(lines)), key=lambda k: -max(row[k] for row in sizes))
    first, rest = order[: len(_COLOURS)], order[len(_COLOURS) :]
    layers = [(lines[k], [row[k] / 2**10 for row in sizes]) for k in first]
    if rest:
        layers.append(("other lines", [sum(row[k] for k in rest) / 2**10 for row in sizes]))
    # What stays lies below.
    layers.sort(key=lambda layer: -layer[1][-1])
    top = max(map(sum, zip(*(values for _, values in layers), strict=True)))
    at = list(map(float, range(len(sizes))))
    legend = 20 * len(layers)
    drawing = Drawing(
        720, 350 + legend, "Device memory over two training steps, by the line that allocated it"
    )
    axes = Axes(drawing, 50, 36, 640, 260, (0, at[-1]), (0, top * 1.05))
    axes.frame("allocations and releases, one after the other", "KiB on the device")
    below = [0.0] * len(at)
    for row, (name, values) in enumerate(layers):
        above = [a + b for a, b in zip(below, values, strict=True)]
        colour = "faint" if name == "other lines" else _COLOURS[row % len(_COLOURS)]
        edge = [axes.at(*each) for each in _steps(at, above)]
        floor = [axes.at(*each) for each in _steps(at, below)]
        drawing.polygon([*edge, *reversed(floor)], colour, opacity=0.75)
        y = 352 + 20 * row
        drawing.box(50, y - 11, 14, 12, fill=colour, line=None, radius=2, opacity=0.75)
        drawing.text(72, y, name, anchor="start", size=12)
        below = above
    return drawing


def _steps(at: list[float], values: list[float]) -> list[tuple[float, float]]:
    """The corners of a line that holds each value until the next one."""
    corners = []
    for k, (time, value) in enumerate(zip(at, values, strict=True)):
        if k:
            corners.append((time, values[k - 1]))
        corners.append((time, value))
    return corners
