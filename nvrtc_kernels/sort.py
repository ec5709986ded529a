"""Stable sorts of the rows of a contiguous ``(rows, n)`` array, with the indices that elements come from.

Rows of up to 2048 elements are sorted in shared memory, several in a block, by one launch. Longer rows are
sorted by radix, 8 bits at a time: one launch clears counters, one counts all digits, and one for each digit reads every
element once and writes it once.
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
#: Elements of a thread, and of one where rows of at most 4-byte elements are as long as said. Longer tiles have more of a digit,
#: and look back less often, but many of them must be left for every multiprocessor.
_ITEMS, _LONGER = 8, ((32, 1 << 22), (16, 1 << 18))
_TILE = _THREADS * _ITEMS
#: Blocks per multiprocessor that few long rows are cut into.
_BLOCKS = 2
#: Threads of a block that counts digits, and bytes of its counters, the first that the device gives a block; any one gives the
#: last. More copies of a counter than lanes of a warp are of no use.
_COUNTING_THREADS, _COUNTERS, _WARP = 512, (128 << 10, 64 << 10), 32
#: Shared memory of a block that sorts by a digit, without its tile, at most.
_BLOCK_BYTES = 11 << 10
#: Loops count in 32 bits, and go beyond the end by less than a block's step: 8192 elements where they are bytes.
_LONGEST = (1 << 32) - 1 - _COUNTING_THREADS * 16

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
    items = _items(device, n, dtype.itemsize)
    tile_bytes = [_tile_bytes(items, dtype.itemsize, first=stage == 0) for stage in range(passes)]
    tiles = -(-n // (_THREADS * items))
    # A word has two bits for what it says, and the rest for a count.
    word, word_bytes = ("unsigned", 4) if n < 1 << 30 else ("unsigned long long", 8)
    chunked, grid, _ = cut(device, rows, n)
    room = device.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
    counters_bytes = next((each for each in _COUNTERS if each <= room), _COUNTERS[-1])
    copies = min(counters_bytes // (4 * passes * _RADIX), _WARP)
    counting_bytes = 4 * passes * _RADIX * copies
    source = order(dtype, descending=descending)
    source += (
        'extern "C" __global__ void radix_clear(unsigned* counts, long long count) {\n'
        "    clear_counts(counts, count);\n}\n"
        f'extern "C" __global__ void radix_histograms_of_{passes}(Chunks c, unsigned tiles, const {bits}* in, '
        f"unsigned* counts, {word}* published) {{\n"
        f"    radix_histograms<KeyOrder, {passes}, {copies}, {_COUNTING_THREADS}>(c, tiles, in, counts, published);\n}}\n"
    )
    for stage in range(passes):
        which = _stage(stage, passes)
        first, last = ("true" if "first" in which else "false"), ("true" if "last" in which else "false")
        if f"radix_pass_{which}(" not in source:
            source += (
                f'extern "C" __global__ void __launch_bounds__({_THREADS}, {_resident(items)}) radix_pass_{which}(RadixPass p, '
                f"unsigned* drawn, const unsigned* counts, {word}* published, {word}* published_next, "
                f"const {bits}* in, const unsigned* in_positions, const long long* source, {bits}* out, "
                "void* out_positions) {\n"
                f"    radix_pass<KeyOrder, {items}, {first}, {last}>(p, drawn, counts, published, published_next, in, "
                "in_positions, source, out, out_positions);\n}\n"
            )
    clear = launcher(device, "sort.cu", source, "radix_clear", "Pq")
    count = launcher(
        device, "sort.cu", source, f"radix_histograms_of_{passes}", (len(chunked), *"IPPP"), counting_bytes
    )
    stages = [
        (
            launcher(
                device,
                "sort.cu",
                source,
                f"radix_pass_{_stage(stage, passes)}",
                (24, *"PPPPPPPPP"),
                tile_bytes[stage],
            ),
            struct.pack("=qIIii", rows, n, tiles, stage, passes),
        )
        for stage in range(passes)
    ]
    # Elements go to and fro between scratch memory and the outputs, where the last pass must leave them.
    buffer_bytes = aligned(rows * n * dtype.itemsize) if passes > 1 else 0
    positions_bytes = aligned(4 * rows * n) if passes > 1 else 0
    counters = rows * passes * _RADIX + passes
    counts_bytes, published_bytes = aligned(4 * counters), aligned(word_bytes * rows * tiles * _RADIX)
    counts_at = buffer_bytes + positions_bytes
    published_at = counts_at + counts_bytes, counts_at + counts_bytes + published_bytes
    clear_grid = -(-counters // _THREADS)

    def launch(
        stream: Any, scratch: int, input_address: int, sources: int, values: int, indices: int
    ) -> None:
        buffer, counts = (scratch, scratch + buffer_bytes), scratch + counts_at
        published, published_next = (scratch + at for at in published_at)
        here, drawn = (input_address, 0), counts + 4 * rows * passes * _RADIX
        clear(clear_grid, 1, 1, _THREADS, 1, 1, 0, stream, counts, counters)
        count(
            grid, 1, 1, _COUNTING_THREADS, 1, 1, counting_bytes, stream,
            chunked, tiles, input_address, counts, published,
        )  # fmt: skip
        for stage, (sweep, packed) in enumerate(stages):
            there = (values, indices) if (passes - stage) % 2 else buffer
            sweep(
                rows * tiles, 1, 1, _THREADS, 1, 1, tile_bytes[stage], stream,
                packed, drawn + 4 * stage, counts, published, published_next, *here, sources, *there,
            )  # fmt: skip
            here, published, published_next = there, published_next, published

    return launch, counts_at + counts_bytes + (2 if passes > 1 else 1) * published_bytes


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


def _tile_bytes(items: int, itemsize: int, *, first: bool) -> int:
    """Shared memory of a tile's elements: as words, each with its position, which the first pass counts in the same word."""
    word = 8 if itemsize == 8 else 4
    return _THREADS * items * word * (1 if first and itemsize < 4 else 2)


def _items(device: Device, n: int, itemsize: int) -> int:
    """Elements of a thread: more in longer rows, as far as the device's shared memory allows."""
    room = device.attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR")
    for items, least in _LONGER if itemsize <= 4 else ():
        block = _tile_bytes(items, itemsize, first=False) + _BLOCK_BYTES
        if n >= least and _resident(items) * block <= room:
            return items
    return _ITEMS


def _resident(items: int) -> int:
    """Blocks that a multiprocessor is to hold at once."""
    return 2 if items > 16 else 3


def _stage(stage: int, passes: int) -> str:
    names = [*(["first"] if stage == 0 else []), *(["last"] if stage == passes - 1 else [])]
    return "_and_".join(names) or "middle"
