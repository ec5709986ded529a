"""Stable sorts of the rows of a contiguous ``(rows, n)`` array, with the indices that elements come from.

Rows of up to 2048 elements are sorted in shared memory, several in a block, by one launch. Longer rows are
sorted by radix, 8 bits at a time, each by as many blocks as fill the device.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from .plans import NOTHING, Plan, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
_MAX_GRID = (1 << 31) - 1
_RADIX = 256
#: Longest row that is sorted in shared memory.
SHORT = 2048
_ITEMS = 8
_TILE = _THREADS * _ITEMS
#: Blocks per multiprocessor that few long rows are cut into.
_BLOCKS = 2
_LONGEST = (1 << 32) - 1 - _TILE

#: Elements are moved as unsigned integers of their size.
BITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}


def plan(
    device: Device, rows: int, n: int, dtype: dtype, *, descending: bool = False, below: int | None = None
) -> Plan:
    """What sorts every row of ``n`` elements.

    The sort is stable in both directions: equal elements keep their order. -0.0 equals 0.0; NaN is larger
    than every number.

    Parameters
    ----------
    rows, n
        Shape of the contiguous input, values and indices.
    dtype
        Type of the elements, not complex.
    below
        Where elements are integers from 0 on that are smaller than this: fewer of their digits are looked at.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch_address, values_address, indices_address, input_address)``; indices are
        int64. The outputs must not overlap the input.

    Raises
    ------
    ValueError
        For a complex type, and for rows too long to count in 32 bits.
    """
    check(n, dtype)
    if rows * n == 0:
        return NOTHING
    if n <= SHORT:
        launch = short(device, rows, n, dtype, descending=descending)

        def run(stream: Any, _: int, values: int, indices: int, input_address: int) -> None:
            launch(stream, 0, n, input_address, 0, values, indices)

        return Plan(run)
    sort, scratch_bytes = long(device, rows, n, dtype, descending=descending, below=below)

    def run_long(stream: Any, scratch: int, values: int, indices: int, input_address: int) -> None:
        sort(stream, scratch, input_address, 0, values, indices)

    return Plan(run_long, scratch_bytes)


def short(
    device: Device, rows: int, n: int, dtype: dtype, *, descending: bool, pick: str = "range"
) -> Callable[..., None]:
    """``launch(stream, first, count, input_address, source, values, indices)`` for rows of up to 2048 elements.

    Writes ``count`` elements of each sorted row from rank ``first`` on, or with ``pick`` of ``"median"`` or
    ``"nan_median"`` that one. ``source``, if not 0, has int64 indices to write instead of those in the row.
    """
    size = 1 << max(n - 1, 1).bit_length()
    name = f"sort_{pick}_of_{size}"
    bits = BITS[dtype.itemsize]
    source = (
        f"{order(dtype, descending=descending)}"
        f'extern "C" __global__ void {name}(long long rows, unsigned n, unsigned first, unsigned count, '
        f"const {bits}* in, const long long* source, {bits}* values, long long* indices) {{\n"
        f"    sort_tile<KeyOrder, {size}, Pick::{pick}>(rows, n, first, count, in, source, values, indices);\n}}\n"
    )
    kernel = launcher(device, "sort.cu", source, name, "qIIIPPPP")
    grid = min(-(-rows * size // max(size, 1024)), _MAX_GRID)

    def launch(stream: Any, first: int, count: int, *addresses: int) -> None:
        kernel(grid, 1, 1, _THREADS, 1, 1, 0, stream, rows, n, first, count, *addresses)

    return launch


def long(
    device: Device, rows: int, n: int, dtype: dtype, *, descending: bool, below: int | None = None
) -> tuple[Callable[..., None], int]:
    """``launch(stream, scratch, input_address, source, values, indices)`` by radix, and its bytes of scratch."""
    bits, passes = BITS[dtype.itemsize], dtype.itemsize
    if below is not None:
        # Digits that are the same in all elements change no order.
        passes = min(passes, max(-(-(below - 1).bit_length() // 8), 1))
    chunked, grid, chunks = cut(device, rows, n)
    source = order(dtype, descending=descending)
    source += (
        f'extern "C" __global__ void radix_count_digits(Chunks c, int shift, const {bits}* in, unsigned* counts) '
        "{\n    radix_count<KeyOrder>(c, shift, in, counts);\n}\n"
        'extern "C" __global__ void radix_offsets_of_digits(Chunks c, unsigned* counts) {\n'
        f"    radix_offsets<TeamShape<{_THREADS}, 1, 4, false>>(c, counts);\n}}\n"
    )
    for stage in range(passes):
        which = _stage(stage, passes)
        first, last = ("true" if "first" in which else "false"), ("true" if "last" in which else "false")
        if f"radix_scatter_{which}(" not in source:
            source += (
                f'extern "C" __global__ void radix_scatter_{which}(Chunks c, int shift, const unsigned* offsets, '
                f"const {bits}* in, const unsigned* in_places, const long long* source, {bits}* out, "
                "void* out_places) {\n"
                f"    radix_scatter<KeyOrder, {_ITEMS}, {first}, {last}>"
                "(c, shift, offsets, in, in_places, source, out, out_places);\n}\n"
            )
    count = launcher(device, "sort.cu", source, "radix_count_digits", (len(chunked), *"iPP"))
    offset = launcher(device, "sort.cu", source, "radix_offsets_of_digits", (len(chunked), "P"))
    scatters = [
        launcher(
            device, "sort.cu", source, f"radix_scatter_{_stage(stage, passes)}", (len(chunked), *"iPPPPPP")
        )
        for stage in range(passes)
    ]
    row_grid = min(rows, _MAX_GRID)
    # Elements go to and fro between scratch memory and the outputs, where the last pass must leave them.
    buffer_bytes = aligned(rows * n * dtype.itemsize) if passes > 1 else 0
    positions_bytes = aligned(4 * rows * n) if passes > 1 else 0
    counts_bytes = 4 * rows * _RADIX * chunks

    def launch(
        stream: Any, scratch: int, input_address: int, sources: int, values: int, indices: int
    ) -> None:
        buffer, counts = (scratch, scratch + buffer_bytes), scratch + buffer_bytes + positions_bytes
        here = input_address, 0
        for stage, scatter in enumerate(scatters):
            there = (values, indices) if (passes - stage) % 2 else buffer
            shift = 8 * stage
            count(grid, 1, 1, _THREADS, 1, 1, 0, stream, chunked, shift, here[0], counts)
            offset(row_grid, 1, 1, _THREADS, 1, 1, 0, stream, chunked, counts)
            scatter(
                grid, 1, 1, _THREADS, 1, 1, 0, stream,
                chunked, shift, counts, *here, sources, *there,
            )  # fmt: skip
            here = there

    return launch, buffer_bytes + positions_bytes + counts_bytes


def cut(device: Device, rows: int, n: int) -> tuple[bytes, int, int]:
    """How long rows are cut into chunks: the kernels' ``Chunks``, blocks, and chunks of each row."""
    target = -(-device.attribute("MULTIPROCESSOR_COUNT") * _BLOCKS // rows)
    chunks = max(min(target, -(-n // (2 * _TILE))), 1)
    piece = -(-n // (chunks * _TILE)) * _TILE
    chunks = -(-n // piece)
    return struct.pack("=qIIIxxxx", rows, n, chunks, piece), min(rows * chunks, _MAX_GRID), chunks


def order(dtype: dtype, *, descending: bool, header: str = "sort.cuh") -> str:
    """Beginning of a program that sorts elements of ``dtype``: the types ``KeyOrder`` and what it needs."""
    signed = dtype.is_signed and not dtype.is_floating_point
    infinity = f"{_INFINITY.get(dtype.name, 0):#x}{'ull' if dtype.itemsize == 8 else ''}"
    flags = ", ".join("true" if flag else "false" for flag in (signed, descending))
    return (
        f'#include "elements.cuh"\n#include "{header}"\n\n'
        f"typedef Order<{BITS[dtype.itemsize]}, {infinity}, {flags}> KeyOrder;\n\n"
    )


def check(n: int, dtype: dtype) -> None:
    """Raise for what cannot be sorted."""
    if dtype.is_complex:
        raise ValueError(f"complex numbers have no order; {dtype!r} was given, sort their absolute values")
    if n > _LONGEST:
        raise ValueError(f"rows of up to {_LONGEST} elements can be sorted, {n} were given; sort parts of it")


def aligned(count: int) -> int:
    """``count`` bytes, up to where any type may begin."""
    return -(-count // 256) * 256


def _stage(stage: int, passes: int) -> str:
    names = [*(["first"] if stage == 0 else []), *(["last"] if stage == passes - 1 else [])]
    return "_and_".join(names) or "middle"
