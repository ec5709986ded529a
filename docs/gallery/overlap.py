"""A step of DistributedDataParallel: the backward pass of one rank, and the reductions of its buckets meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from docs.drawing.svg import Drawing

_PROGRAM = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

dist.init_process_group("gloo")
torch.manual_seed(0)
layers = [layer for _ in range(6) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU())]
model = DistributedDataParallel(torch.nn.Sequential(*layers, torch.nn.Linear(512, 10)).cuda(), bucket_cap_mb=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 512, device="cuda"), torch.randint(0, 10, (64,), device="cuda")


def step():
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


step()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
    step()
if dist.get_rank() == 0:
    profiled.export_chrome_trace(sys.argv[1])
dist.destroy_process_group()
"""


def measure() -> list[dict[str, Any]]:
    """The operations of one rank's device in the order in which they began: what each is, and its stream."""
    with tempfile.TemporaryDirectory() as folder:
        program, trace = Path(folder, "program.py"), Path(folder, "trace.json")
        program.write_text(_PROGRAM, encoding="utf-8")
        command = ["--as-torch", "--simulate=model=h200", "--nproc-per-node", "2", str(program), str(trace)]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
        subprocess.run([sys.executable, "-m", "tools.launch", *command], check=True, env=environment)
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    nodes = [each for each in events if each.get("cat") == "autograd_node"]
    begin, end = min(each["ts"] for each in nodes), max(each["ts"] + each["dur"] for each in nodes)
    device = sorted(
        (each for each in events if each.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")),
        key=lambda each: each["ts"],
    )
    first = next(k for k, each in enumerate(device) if each["cat"] == "kernel")
    return [
        {
            "name": each["name"],
            "stream": each["args"]["stream"],
            "part": "forward" if each["ts"] < begin else "backward" if each["ts"] < end else "update",
        }
        for each in device[first:]
    ]


def draw(operations: list[dict[str, Any]]) -> Drawing:
    """A column for each operation; a bucket's reduction reaches from its copy to the host until its copy back."""
    buckets, back = [], []
    for column, each in enumerate(operations):
        if "to pinned host" in each["name"]:
            buckets.append(column)
        elif "from pinned host" in each["name"]:
            back.append(column)
    colours = {"forward": "blue", "backward": "orange", "update": "green"}
    step = 640 / len(operations)
    left = 60
    height = 82 + 18 * len(buckets)
    drawing = Drawing(
        720, height + 46, "DistributedDataParallel: buckets are reduced while the backward pass goes on"
    )
    drawing.text(
        16,
        18,
        "Operations of one rank's device in the order in which they began",
        anchor="start",
        colour="faint",
        size=12,
    )
    for column, each in enumerate(operations):
        if "pinned" not in each["name"]:
            colour = colours[each["part"]]
            drawing.box(
                left + column * step, 34, step * 0.86, 30, fill=colour, line=None, radius=1, opacity=0.9
            )
    drawing.text(52, 54, "kernels", anchor="end", colour="faint", size=11)
    for row, (start, end) in enumerate(zip(buckets, back, strict=True)):
        y = 78 + 18 * row
        drawing.box(
            left + start * step,
            y,
            (end - start + 0.86) * step,
            13,
            fill="violet",
            line=None,
            radius=2,
            opacity=0.35,
        )
        for column in (start, end):
            drawing.box(left + column * step, y, step * 0.86, 13, fill="violet", line=None, radius=1)
        drawing.text(52, y + 11, f"bucket {row}", anchor="end", colour="faint", size=11)
    x = left
    for name, colour in (*colours.items(), ("copy to the host, sum over the ranks, copy back", "violet")):
        drawing.box(x, height + 12, 14, 12, fill=colour, line=None, radius=2)
        drawing.text(x + 20, height + 22, name, anchor="start", size=12)
        x += 110
    return drawing
