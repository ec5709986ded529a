"""Allocators: time of an allocation and a free from the cache, whatever is live or free beside it."""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING

import drv
from drv.allocators import AllocatorOptions, CachingAllocator, device_allocator, pinned_allocator
from tools.bench.measure import OURS, Row, host_times

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

#: Pairs in one timed call, so that the call itself costs nothing.
PAIRS = 256
#: Nanoseconds for a pair on a 3 GHz core.
REACH = 2000.0
MANY = 100_000


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the rows whose name contains ``only``."""
    suite: dict[str, Callable[[], Row]] = {
        "one size": lambda: _pairs("one size", [1000], [1]),
        "one large size": lambda: _pairs("one large size", [5 << 20], [1]),
        "two blocks of one size in turn": lambda: _in_turn("two blocks of one size in turn", [1000], 2),
        "mixed sizes, 10 live": lambda: _in_turn("mixed sizes, 10 live", _mixed(), 10),
        "mixed sizes, 10^5 live": lambda: _in_turn("mixed sizes, 10^5 live", _mixed(), MANY),
        "across 4 streams": lambda: _pairs("across 4 streams", [1000], [1, 11, 12, 13]),
        "one size, 10^5 live": lambda: _pairs("one size, 10^5 live", [1000], [1], live=MANY),
        "one size, 10^5 free": lambda: _pairs("one size, 10^5 free", [1000], [1], free=MANY),
        "expandable segments": lambda: _pairs("expandable segments", [1000], [1], "expandable_segments:True"),
        "used on another stream": _recorded,
        "pinned": _pinned,
    }
    for name, measure in suite.items():
        if only in name:
            yield measure()


def _runtime() -> drv.Runtime:
    """NVIDIA's driver, or else a simulated one that runs nothing: no row does work on the device."""
    if drv.is_available():
        return drv.runtime()
    return drv.simulator.install(memory="32GiB", execute=False, check="off")


def _fresh(options: str = "") -> CachingAllocator:
    """An allocator that nothing was allocated from."""
    drv.reset()
    allocator = device_allocator(_runtime(), 0)
    assert isinstance(allocator, CachingAllocator)
    if options:
        allocator.set_options(AllocatorOptions.from_text(options))
    return allocator


def _mixed() -> list[int]:
    """Sizes from 4 bytes to 4 MiB, most of them small."""
    choose = random.Random(0)
    return [int(4 * 2 ** (20 * choose.random() ** 2)) for _ in range(997)]


def _row(
    name: str, calls: dict[str, Callable[[], object]], note: str = "", reach: float | None = REACH
) -> Row:
    times = {contender: time / PAIRS for contender, time in host_times(calls).items()}
    return Row(name, "ns", times, reach=reach, note=note)


def _pairs(
    name: str,
    sizes: Sequence[int],
    streams: Sequence[int],
    options: str = "",
    *,
    live: int = 0,
    free: int = 0,
) -> Row:
    """Allocate and free at once."""
    allocator = _fresh(options)
    blocks = [allocator.allocate(sizes[0], streams[0]) for _ in range(live + 2 * free)]
    for block in blocks[: 2 * free : 2]:
        allocator.free(block)
    order = [(sizes[i % len(sizes)], streams[i % len(streams)]) for i in range(PAIRS)]

    def ours() -> None:
        allocate, release = allocator.allocate, allocator.free
        for size, stream in order:
            release(allocate(size, stream))

    calls: dict[str, Callable[[], object]] = {OURS: ours}
    if not (options or live or free) and len(streams) == 1:
        calls |= _peers(sizes[0])
    return _row(name, calls)


def _in_turn(name: str, sizes: Sequence[int], live: int) -> Row:
    """Free the oldest of ``live`` blocks, and allocate another."""
    allocator = _fresh()
    held = deque(allocator.allocate(sizes[i % len(sizes)], 1) for i in range(live))
    position = live

    def ours() -> None:
        nonlocal position
        allocate, release = allocator.allocate, allocator.free
        count = len(sizes)
        for index in range(position, position + PAIRS):
            release(held.popleft())
            held.append(allocate(sizes[index % count], 1))
        position += PAIRS

    return _row(name, {OURS: ours})


def _recorded() -> Row:
    """Blocks that another stream uses: an event is recorded and asked about for each."""
    allocator = _fresh()
    stream = int(drv.Stream(drv.Device(0)).handle)

    def ours() -> None:
        for _ in range(PAIRS):
            block = allocator.allocate(1000, 1)
            allocator.record_stream(block, stream)
            allocator.free(block)

    return _row("used on another stream", {OURS: ours}, "with the driver's record and query", None)


def _pinned() -> Row:
    drv.reset()
    allocator = pinned_allocator(_runtime())

    def ours() -> None:
        allocate, release = allocator.allocate, allocator.free
        for _ in range(PAIRS):
            release(allocate(1000))

    return _row("pinned", {OURS: ours})


def _peers(size: int) -> dict[str, Callable[[], object]]:
    """The same in PyTorch and CuPy, where they and a GPU are there."""
    calls: dict[str, Callable[[], object]] = {}
    try:
        import torch
    except ImportError:
        pass
    else:
        if torch.cuda.is_available():
            # PyTorch annotates neither.
            give: Callable[[int], int] = torch.cuda.caching_allocator_alloc
            take: Callable[[int], None] = torch.cuda.caching_allocator_delete

            def torch_pairs() -> None:
                for _ in range(PAIRS):
                    take(give(size))

            calls["torch"] = torch_pairs
    try:
        import cupy
    except ImportError:
        pass
    else:
        if cupy.cuda.is_available():
            pool = cupy.cuda.MemoryPool()

            def cupy_pairs() -> None:
                for _ in range(PAIRS):
                    pool.malloc(size)

            calls["cupy"] = cupy_pairs
    return calls
