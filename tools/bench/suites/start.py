"""Time of imports, and to the first result, with kernels still to be compiled and found in the cache on disk.

Every figure is the median over fresh interpreters, contenders in turn. Byte code is there, as an installation leaves
it, and the interpreter's own start is not counted. Without a GPU the first result is that of a simulated device,
against PyTorch's on the CPU.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from tools.bench.interpreters import environment, figures, torch_module
from tools.bench.measure import OURS, Row, on_gpu

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

#: An import should take this share of PyTorch's.
IMPORT_SHARE = 0.25
#: Milliseconds to the first result with a warm cache.
REACH = 1000.0

_TIMED = """
from time import perf_counter
start = perf_counter()
{code}
print((perf_counter() - start) * 1000)
"""


class Start(NamedTuple):
    """What a fresh interpreter runs: code by contender, and whether kernels are in the cache already."""

    name: str
    code: Mapping[str, str]
    warm: bool = True


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the suite."""
    parser.add_argument("--rounds", type=int, default=9, help="interpreters started for each figure")


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    gpu = on_gpu()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        variables = environment(folder, gpu)
        for start in _starts(gpu):
            if only not in start.name:
                continue
            times = _times(start, options.rounds, folder, variables)
            yield Row(start.name, "ms", times, reach=_reach(start, times, gpu))


def _reach(start: Start, times: Mapping[str, float], gpu: bool) -> float | None:
    if start.name.startswith("import"):
        return next((IMPORT_SHARE * time for name, time in times.items() if name.startswith("torch")), None)
    return REACH if gpu and start.warm else None


def _starts(gpu: bool) -> Iterator[Start]:
    torch = torch_module(gpu)
    cupy = {"cupy": "cupy"} if gpu and importlib.util.find_spec("cupy") else {}
    for ours in ("tensor", "tensor, nn, parallel"):
        names = {OURS: ours, **torch, **cupy}
        yield Start(f"import {ours}", {name: f"import {module}" for name, module in names.items()})
    device = {OURS: "cuda"} | {name: name.split()[1] for name in torch}
    pointwise = {
        name: f"import {module} as lib\nx = lib.ones(1000, device={device[name]!r})\n(x * 2 + 1).sum().item()"
        for name, module in ({OURS: "tensor"} | torch).items()
    }
    if cupy:
        pointwise["cupy"] = "import cupy\nx = cupy.ones(1000)\n(x * 2 + 1).sum().item()"
    layer = {
        name: f"{imports}\n"
        f"layer = nn.Linear(64, 64, device={device[name]!r})\n"
        f"layer(lib.ones(8, 64, device={device[name]!r})).relu().sum().backward()\n"
        "layer.weight.grad.sum().item()"
        for name, imports in (
            {OURS: "import tensor as lib, nn"}
            | dict.fromkeys(torch, "import torch as lib\nfrom torch import nn")
        ).items()
    }
    for work, code in (("x * 2 + 1 summed", pointwise), ("a layer's gradient", layer)):
        yield Start(f"first result, {work}, kernels cached", code)
        yield Start(f"first result, {work}, kernels compiled", {OURS: code[OURS]}, warm=False)


def _times(start: Start, rounds: int, folder: Path, variables: Mapping[str, str]) -> dict[str, float]:
    """Median milliseconds by contender."""
    result: dict[str, list[float]] = {name: [] for name in start.code}
    kernels = Path(tempfile.mkdtemp(dir=folder))
    for turn in range(rounds + 1):
        cache = kernels / ("warm" if start.warm else str(turn))
        for name, code in start.code.items():
            (time,) = figures(_TIMED.format(code=code), {**variables, "GRAPHROOT_CACHE_DIR": str(cache)})
            # The first start compiles what later ones find.
            if turn:
                result[name].append(time)
    return {name: median(times) for name, times in result.items()}
