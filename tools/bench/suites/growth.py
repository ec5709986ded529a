"""How cost grows with size: each row runs one thing at several sizes and gives the exponent of its growth.

An exponent of 1 is cost that grows as the work does, 2 is quadratic; fixed costs make it smaller. Sizes that do not fit
into the machine's free memory are left out.
"""

from __future__ import annotations

import gc
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import log
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import drv
import tensor
from drv.allocators import device_allocator
from nn import optim
from tools.bench.measure import OURS, Row, on_gpu

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

#: Largest exponent that still counts as linear: searches in sorted lists and the processor's caches take a little.
REACH = 1.25
#: How often each size is measured; the best counts.
ROUNDS = 2


@dataclass(slots=True, frozen=True)
class Growth:
    """A row: ``prepared(size)`` gives the call to measure, ``memory`` the bytes that one unit of size needs."""

    name: str
    sizes: Sequence[int]
    prepared: Callable[[int], AbstractContextManager[Callable[[], object]]]
    memory: int = 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this suite."""
    parser.add_argument(
        "--largest", type=int, default=None, metavar="N", help="leave out the sizes above N (default: none)"
    )


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    for growth in GROWTHS:
        if only not in growth.name:
            continue
        free = available_memory() * 0.6
        sizes = [
            size
            for size in growth.sizes
            if size * growth.memory < free and (options.largest is None or size <= options.largest)
        ]
        if len(sizes) > 1:
            yield _row(growth, sizes)


def _row(growth: Growth, sizes: Sequence[int]) -> Row:
    times = []
    for size in sizes:
        with growth.prepared(size) as call:
            times.append(min(_seconds(call) for _ in range(ROUNDS)))
    measured = ", ".join(f"{size:,}: {_duration(time)}" for size, time in zip(sizes, times, strict=True))
    details = {"sizes": list(sizes), "seconds": times}
    return Row(
        growth.name, "exponent", {OURS: exponent(sizes, times)}, reach=REACH, note=measured, details=details
    )


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Slope of the line through ``(log size, log cost)`` by least squares."""
    x, y = [log(size) for size in sizes], [log(cost) for cost in costs]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


def available_memory() -> float:
    """Bytes that can be allocated without swapping; a guess where the system does not tell."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="utf-8")
    except OSError:
        return 4e9
    (line,) = (line for line in text.splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) * 1024.0


def _seconds(call: Callable[[], object]) -> float:
    gc.collect()
    start = perf_counter()
    call()
    return perf_counter() - start


def _duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


@contextmanager
def _device(**options: object) -> Iterator[drv.Device]:
    """Device 0: a GPU, or else a simulated one that runs queued work as late as it may."""
    if on_gpu():
        yield drv.Device(0)
        return
    drv.reset()
    drv.simulator.install(**{"schedule": "lazy", "memory": "32GiB"} | options)
    try:
        yield drv.Device(0)
    finally:
        drv.reset()


@contextmanager
def _queue(size: int) -> Iterator[Callable[[], object]]:
    """A stream with ``size`` operations in a row, and a wait for the last."""
    with _device() as device:
        memory, stream = drv.DeviceMemory(64, device), drv.Stream(device)

        def call() -> None:
            for _ in range(size):
                drv.memset(memory, 0, 64, stream=stream)
            stream.synchronize()

        yield call


@contextmanager
def _relay(size: int) -> Iterator[Callable[[], object]]:
    """Two streams, each of whose operations waits for one of the other."""
    with _device() as device:
        memory, streams = drv.DeviceMemory(64, device), (drv.Stream(device), drv.Stream(device))

        def call() -> None:
            for turn in range(size):
                mine, other = streams[turn % 2], streams[1 - turn % 2]
                mine.wait_stream(other)
                drv.memset(memory, 0, 64, stream=mine)
            device.synchronize()

        yield call


@contextmanager
def _streams(size: int) -> Iterator[Callable[[], object]]:
    """``size`` streams, each of which waits for the one before."""
    with _device() as device:
        memory, streams = drv.DeviceMemory(64, device), [drv.Stream(device) for _ in range(size)]

        def call() -> None:
            for before, stream in pairwise(streams):
                stream.wait_stream(before)
                drv.memset(memory, 0, 64, stream=stream)
            device.synchronize()

        yield call


@contextmanager
def _blocks(size: int) -> Iterator[Callable[[], object]]:
    """``size`` blocks of mixed sizes that are live at once, freed in another order than they were made in."""
    with _device(execute=False, check="off") as device:
        allocator = device_allocator(device.runtime, 0)

        def call() -> None:
            live = [allocator.allocate(512 * (1 + index % 37), 1) for index in range(size)]
            for block in live[::2] + live[1::2]:
                allocator.free(block)

        yield call


@contextmanager
def _nodes(size: int) -> Iterator[Callable[[], object]]:
    """A graph of ``size`` nodes in a row, made and run backward."""
    leaf = tensor.ones(1, requires_grad=True)

    def call() -> None:
        leaf.grad = None
        result = leaf
        for _ in range(size):
            result = result + 1.0
        result.backward()

    yield call


@contextmanager
def _parameters(size: int) -> Iterator[Callable[[], object]]:
    """A step of Adam on ``size`` parameters."""
    parameters = [tensor.ones(4, requires_grad=True) for _ in range(size)]
    for parameter in parameters:
        parameter.grad = tensor.ones(4)
    optimizer = optim.Adam(parameters)
    optimizer.step()
    yield optimizer.step


@contextmanager
def _elements(size: int) -> Iterator[Callable[[], object]]:
    """``size`` elements, added to and summed up."""
    x = tensor.ones(size)
    yield lambda: (x + 1.0).sum()


@contextmanager
def _checkpoint(size: int) -> Iterator[Callable[[], object]]:
    """``size`` bytes in tensors of 1 MB, saved and loaded."""
    state = {f"layer {index}": tensor.ones(250_000) for index in range(size // 1_000_000)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"

        def call() -> None:
            tensor.save(state, path)
            tensor.load(path)

        yield call


#: Each at sizes up to the largest that is to work without errors.
GROWTHS = (
    Growth("queued operations", (1_000, 10_000, 100_000), _queue, 2_000),
    Growth("queued operations that wait for each other", (1_000, 10_000), _relay, 4_000),
    Growth("streams", (8, 64, 512), _streams),
    Growth("live blocks", (1_000, 10_000, 100_000), _blocks, 2_000),
    Growth("graph nodes", (10_000, 100_000, 1_000_000), _nodes, 2_000),
    Growth("parameters of an optimizer", (100, 1_000, 10_000), _parameters, 20_000),
    Growth("elements", (1_000_000, 10_000_000, 100_000_000), _elements, 12),
    Growth("bytes of a checkpoint", (20_000_000, 200_000_000, 2_000_000_000), _checkpoint, 3),
)
