"""Copies and products on one stream, and on two with waits between them: timelines of the model of time."""

from __future__ import annotations

from typing import Any

import drv
import tensor
from docs.drawing.svg import Drawing

from .chart import Axes

#: Side of the matrices, and how many of them come from the host.
SIZE, COUNT = 4096, 5


def measure() -> dict[str, list[dict[str, Any]]]:
    """What each operation is, its stream and its times in milliseconds, by how many streams there are."""
    drv.simulator.install(model="h200")
    weight = tensor.empty(SIZE, SIZE, device="cuda")
    host = [tensor.empty(SIZE, SIZE).pin_memory() for _ in range(COUNT)]
    weight @ weight
    return {
        name: _timeline(host, weight, streams) for name, streams in (("one stream", 1), ("two streams", 2))
    }


def _timeline(host: list[Any], weight: Any, streams: int) -> list[dict[str, Any]]:
    # A graph, so that no time of the host is in the picture: a simulated device's host is slower than a GPU's.
    graph = tensor.cuda.CUDAGraph()
    with tensor.cuda.graph(graph):
        compute = tensor.cuda.current_stream()
        copies = tensor.cuda.Stream() if streams == 2 else compute
        copies.wait_stream(compute)
        for matrix in host:
            with tensor.cuda.stream(copies):
                x = matrix.to("cuda", non_blocking=True)
            compute.wait_stream(copies)
            x.record_stream(compute)
            for _ in range(3):
                x = x @ weight
    with drv.simulator.timed(results=False) as timing:
        graph.replay()
        tensor.cuda.synchronize()
    operations = [each for each in timing.operations if each.category in ("copy", "library")]
    begin = min(each.start for each in operations)
    return [
        {
            "name": "copy" if each.category == "copy" else "product",
            "stream": "copies" if each.category == "copy" and streams == 2 else "compute",
            "start": 1000 * (each.start - begin),
            "end": 1000 * (each.end - begin),
        }
        for each in operations
    ]


def draw(timelines: dict[str, list[dict[str, Any]]]) -> Drawing:
    """A row for each stream, time to the right, and an arrow for each wait."""
    drawing = Drawing(720, 272, "The same work on one stream and on two: copies and products overlap on two")
    last = max(each["end"] for operations in timelines.values() for each in operations)
    axes = Axes(drawing, 96, 0, 600, 196, (0, last * 1.02), (0, 1))
    top = 26.0
    for name, operations in timelines.items():
        end = max(each["end"] for each in operations)
        drawing.text(16, top, f"{name}: {end:.1f} ms", anchor="start", bold=True)
        rows = {
            stream: top + 12 + 34 * row
            for row, stream in enumerate(dict.fromkeys(x["stream"] for x in operations))
        }
        for stream, y in rows.items():
            drawing.text(88, y + 17, stream, anchor="end", colour="faint", size=12)
            drawing.line([(axes.left, y + 13), (axes.left + axes.width, y + 13)], colour="rule", width=1)
        for each, following in zip(operations, [*operations[1:], None], strict=True):
            x, _ = axes.at(each["start"], 0)
            right, _ = axes.at(each["end"], 0)
            fill, y = ("violet" if each["name"] == "copy" else "orange"), rows[each["stream"]]
            drawing.box(x, y, max(right - x - 1, 1), 26, fill=fill, line=None, radius=2, opacity=0.9)
            if len(rows) == 2 and each["name"] == "copy" and following is not None:
                drawing.line([(right - 1, y + 26), (right - 1, rows["compute"])], colour="green", arrow=True)
        top += 34 * len(rows) + 40
    axes.frame("milliseconds, modelled of an H200", "")
    x = 96.0
    for name, colour in (
        ("copy from pinned memory", "violet"),
        ("product of matrices", "orange"),
        ("a wait", "green"),
    ):
        drawing.box(x, 252, 14, 12, fill=colour, line=None, radius=2)
        drawing.text(x + 20, 262, name, anchor="start", size=12)
        x += 210
    return drawing
