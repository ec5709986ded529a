"""Many tensors copied behind each other, or summed up, in few launches: see ``cuda/coalescing.cuh``."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from .plans import includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
#: Packs of every source that a thread of a full chunk reads.
_PACKS = 4
#: Bytes of a table: with the other argument it stays under the 4 KiB that every device takes.
_TABLE_BYTES = 3840
_MAX_GRID = (1 << 31) - 1
#: Types that elements are copied as, by their size: bits stay as they are.
_BITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
#: Sources that are added by one launch at most. More are added in several.
MAX_SOURCES = 16


def plan(device: Device, kind: dtype, sources: int = 1) -> Callable[..., None]:
    """What copies tensors of one type that is not complex, or sums up ``sources`` of them, element by element.

    Returns
    -------
    callable
        ``run(stream_handle, addresses, counts)``: ``addresses`` are for each result its own, then those of its
        sources; ``counts`` are the elements of the results, which lie without gaps, as those of their sources do.
        A result may be the first of its sources.
    """
    if not 1 <= sources <= MAX_SOURCES:
        raise ValueError(f"one launch adds 1 to {MAX_SOURCES} sources, not {sources}")
    element = _BITS[kind.itemsize] if sources == 1 else kind.cuda
    operands = sources + 1
    capacity = _TABLE_BYTES // (8 * operands + 12)
    width = 16 // kind.itemsize
    chunk = _THREADS * _PACKS * width
    table = struct.Struct(f"={capacity * operands}Q{capacity}q{capacity}I")
    name = "copy_tensors" if sources == 1 else "sum_tensors"
    header = includes("coalescing.cuh") if sources == 1 else includes("coalescing.cuh", kind)
    launch = launcher(
        device,
        "coalescing.cu",
        f'{header}extern "C" __global__ void {name}(const __grid_constant__ Table<{operands}, {capacity}> table, '
        f"unsigned int tensors) {{\n    sum_sources<{element}, {chunk}, {width}>(table, tensors);\n}}\n",
        name,
        (-(-table.size // 8) * 8, "I"),
    )

    def run(stream: Any, addresses: Sequence[int], counts: Sequence[int]) -> None:
        for begin in range(0, len(counts), capacity):
            sizes = counts[begin : begin + capacity]
            missing = capacity - len(sizes)
            nothing = (0,) * missing
            first, grid = [], 0
            for size in sizes:
                first.append(grid)
                grid += -(-size // chunk)
            if grid > _MAX_GRID:
                raise ValueError(f"{sum(sizes)} elements are more than one launch can write")
            if not grid:
                continue
            packed = table.pack(
                *addresses[begin * operands : (begin + capacity) * operands],
                *(0,) * (missing * operands),
                *sizes,
                *nothing,
                *first,
                *nothing,
            )
            launch(grid, 1, 1, _THREADS, 1, 1, 0, stream, packed, len(sizes))

    return run
