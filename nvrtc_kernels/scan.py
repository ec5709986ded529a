"""Scans: running sums, products, maxima along a dimension; and compaction, which is built on one.

What a plan launches follows from the layouts:

=========  =========================================================================================
rows       neighbouring threads go along a line; a line has from 1 thread to a block of 256
columns    neighbouring threads take neighbouring lines, where those lie closer in memory
chunks     few long lines are cut: in rows each block reads its chunk once and looks back at the totals that
           others have published; in columns a first kernel leaves the totals of chunks in scratch memory
=========  =========================================================================================
"""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any

from .dtypes import Category
from .layouts import collapse, extent, stride_order
from .plans import NOTHING, Plan, includes, launcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drv import Device

    from .dtypes import dtype

_THREADS = 256
_MAX_GRID = (1 << 31) - 1
#: Offsets and counts below this leave room for a last step past the end in 32 bits.
_SMALL = 1 << 30
#: Blocks per multiprocessor that few long lines are cut into.
_BLOCKS = 4
#: Bytes of states that a thread keeps where memory is read once, and blocks from which on it takes more than one tile.
_KEPT_BYTES, _ONE_PASS_BLOCKS = 64, 512
_ITEMS = {1: 8, 2: 8, 4: 4, 8: 4, 16: 2}
_OPERATORS = {"cumsum": "Add", "cumprod": "Multiply", "logcumsumexp": "LogAddExp"}
_BEST = {"cummax": "true", "cummin": "false"}

#: Strides in elements and type.
Operand = tuple["Sequence[int]", "dtype"]


def plan(
    device: Device,
    operation: str,
    dim: int,
    shape: Sequence[int],
    output: Operand,
    operand: Operand,
    indices: Sequence[int] | None = None,
) -> Plan:
    """What scans ``operand`` along ``dim``: ``out[i] = in[0] op ... op in[i]``.

    Parameters
    ----------
    operation
        ``"cumsum"``, ``"cumprod"``, ``"logcumsumexp"``, ``"cummax"`` or ``"cummin"``. Elements are
        converted to the output's type first; half precision accumulates in float, integers wrap around.
        Of equal largest (smallest) elements the last is told, and a NaN wins over every number.
    shape
        Of all operands; a stretched dimension has stride 0.
    output, operand
        Strides and type. Both may be the same memory.
    indices
        Strides of the int64 indices that ``cummax`` and ``cummin`` write.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch_address, output_address, input_address[, indices_address])``.

    Raises
    ------
    ValueError
        For an operation that is not known or not defined for the types, and when ``indices`` are given to
        a scan that has none or missing for one that has.
    """
    _check(operation, output[1], operand[1], indices)
    if not shape:
        shape, output, operand = (1,), ((1,), output[1]), ((1,), operand[1])
        indices = None if indices is None else (1,)
        dim = 0
    if prod(shape) == 0:
        return NOTHING
    strides = [operand[0], output[0], *([] if indices is None else [indices])]
    operator, state, state_bytes = _operator(operation, output[1])
    lines = _Lines(device, dim, shape, strides, _ITEMS[operand[1].itemsize], state_bytes)
    lines_type = f"Lines<{lines.rank}, {len(strides)}, {lines.index}> lines"
    ins, out = f"const {operand[1].cuda}* in", f"{output[1].cuda}* out, long long* indices"
    head = f"{includes('scan.cuh')}typedef {operator} Op;\ntypedef {lines.shape} Shape;\n\n"
    if lines.chunks > 1 and lines.turns:
        return _one_pass(device, operation, lines, head, (lines_type, ins, out), state, state_bytes)
    packed = lines.packed
    source = (
        f'{head}extern "C" __global__ void {operation}_{lines.layout}'
        f"({lines_type}, const {state}* totals, {ins}, {out}) {{\n"
        "    scan_lines<Op, Shape>(lines, totals, in, out, indices);\n}\n"
    )
    scan = launcher(device, "scan.cu", source, f"{operation}_{lines.layout}", (len(packed), *"PPPP"))
    grid = min(lines.jobs, _MAX_GRID)

    def run(stream: Any, scratch: int, out: int, input_address: int, indices_address: int = 0) -> None:
        scan(grid, 1, 1, _THREADS, 1, 1, 0, stream, packed, scratch, input_address, out, indices_address)

    if lines.chunks == 1:
        return Plan(run)
    source = (
        f'{head}extern "C" __global__ void {operation}_totals({lines_type}, {ins}, {state}* totals) {{\n'
        "    scan_totals<Op, Shape>(lines, in, totals);\n}\n"
    )
    totals = launcher(device, "scan.cu", source, f"{operation}_totals", (len(packed), *"PP"))

    def run_chunks(stream: Any, scratch: int, out: int, input_address: int, indices_address: int = 0) -> None:
        totals(grid, 1, 1, _THREADS, 1, 1, 0, stream, packed, input_address, scratch)
        scan(grid, 1, 1, _THREADS, 1, 1, 0, stream, packed, scratch, input_address, out, indices_address)

    return Plan(run_chunks, lines.rows * lines.chunks * state_bytes)


def _one_pass(
    device: Device,
    operation: str,
    lines: _Lines,
    head: str,
    parameters: tuple[str, str, str],
    state: str,
    state_bytes: int,
) -> Plan:
    """What scans long lines whose blocks look back at each other."""
    lines_type, ins, out = parameters
    source = (
        f'{head}extern "C" __global__ void {operation}_clear(unsigned int* flags, long long count) {{\n'
        "    clear_flags(flags, count);\n}\n"
        f'extern "C" __global__ void __launch_bounds__({_THREADS}) {operation}_chunks('
        f"{lines_type}, {state}* totals, unsigned int* flags, {ins}, {out}) {{\n"
        f"    const Published<{state}> published = {{totals, flags + 1}};\n"
        f"    scan_chunks<Op, Shape, {lines.turns}>(lines, published, flags, in, out, indices);\n}}\n"
    )
    packed, chunks = lines.packed, lines.chunks
    totals = lines.rows * (chunks + chunks // 32 + chunks // 1024)
    count, values = 1 + totals, -(-totals * state_bytes // 16) * 16
    clear = launcher(device, "scan.cu", source, f"{operation}_clear", "Pq")
    scan = launcher(device, "scan.cu", source, f"{operation}_chunks", (len(packed), *"PPPPP"))
    clear_grid, grid = min(-(-count // _THREADS), _MAX_GRID), lines.rows * chunks

    def run(stream: Any, scratch: int, out: int, input_address: int, indices_address: int = 0) -> None:
        flags = scratch + values
        clear(clear_grid, 1, 1, _THREADS, 1, 1, 0, stream, flags, count)
        scan(
            grid, 1, 1, _THREADS, 1, 1, 0, stream,
            packed, scratch, flags, input_address, out, indices_address,
        )  # fmt: skip

    return Plan(run, values + 4 * count)


def plan_compact(device: Device, shape: Sequence[int], strides: Sequence[int], dtype: dtype) -> Plan:
    """What lists the indices of the elements that are not zero (or true), in row-major order.

    Parameters
    ----------
    shape, strides, dtype
        Of the input, whose elements may have any type; NaN is not zero.

    Returns
    -------
    Plan
        ``run(stream_handle, scratch_address, count_address, indices_address, input_address)``. The number
        of them goes to one int64 at ``count_address``, the flat row-major indices to int64 at
        ``indices_address``, which needs room for as many as there are elements: only those counted are
        written.
    """
    count = prod(shape)
    sizes, (steps,) = collapse(shape, strides) if count else ((1,), ((1,),))
    items = _ITEMS[dtype.itemsize]
    tile = _THREADS * items
    chunks = max(min(-(-count // (2 * tile)), device.attribute("MULTIPROCESSOR_COUNT") * _BLOCKS), 1)
    piece = max(-(-count // (chunks * tile)), 1) * tile
    chunks = max(-(-count // piece), 1)
    index, code = _index(count + piece, extent(sizes, steps)[1])
    rank = len(sizes)
    geometry = struct.pack(f"={2 * rank}{code}", *sizes, *steps)
    head = f"Geometry<{rank}, 1, {index}> geometry, {index} count, {index} piece"
    source = (
        f"{includes('scan.cuh')}typedef {_team(_THREADS, items, columns=False)} Shape;\n\n"
        f'extern "C" __global__ void count_chunks_of_nonzero({head}, const {dtype.cuda}* in, long long* totals) {{\n'
        "    count_chunks<Shape>(geometry, count, piece, in, totals);\n}\n"
        f'extern "C" __global__ void compact_nonzero({head}, const long long* totals, const {dtype.cuda}* in, '
        "long long* number, long long* indices) {\n"
        "    compact_chunks<Shape>(geometry, count, piece, totals, in, number, indices);\n}\n"
    )
    codes = (len(geometry), code, code)
    totals = launcher(device, "scan.cu", source, "count_chunks_of_nonzero", (*codes, *"PP"))
    compact = launcher(device, "scan.cu", source, "compact_nonzero", (*codes, *"PPPP"))

    def run(stream: Any, scratch: int, number: int, indices: int, input_address: int) -> None:
        if chunks > 1:
            totals(chunks, 1, 1, _THREADS, 1, 1, 0, stream, geometry, count, piece, input_address, scratch)
        compact(
            chunks, 1, 1, _THREADS, 1, 1, 0, stream,
            geometry, count, piece, scratch, input_address, number, indices,
        )  # fmt: skip

    return Plan(run, 8 * chunks if chunks > 1 else 0)


class _Lines:
    """Which threads take which part of the lines of a scan, and the kernel's argument that says so."""

    def __init__(
        self,
        device: Device,
        dim: int,
        shape: Sequence[int],
        strides: Sequence[Sequence[int]],
        items: int,
        state_bytes: int,
    ) -> None:
        others = [axis for axis in range(len(shape)) if axis != dim]
        outer = [shape[axis] for axis in others]
        outer_strides = [[steps[axis] for axis in others] for steps in strides]
        order = stride_order(outer, *outer_strides)[::-1]
        sizes, columns = collapse(
            [outer[axis] for axis in order], *([steps[axis] for axis in order] for steps in outer_strides)
        )
        length, step = shape[dim], [steps[dim] for steps in strides]
        self.rows, self.rank = prod(sizes), len(sizes)
        processors = device.attribute("MULTIPROCESSOR_COUNT")
        closer = sum(steps[-1] for steps in columns) < sum(step)
        self.layout = "columns" if closer and sizes[-1] >= 8 and length > 1 else "rows"
        if self.layout == "columns":
            along = 1 if length <= 4 * items or self.rows >= processors * 2 * _THREADS else 8
        else:
            along = next((each for each in (1, 2, 4, 8, 16, 32) if each * items >= length), 32)
            if length > 4 * 32 * items:
                along = _THREADS
        tile, across = along * items, _THREADS // along
        groups = -(-self.rows // across)
        chunks = 1
        if groups < processors and length >= 4 * tile and along > 1:
            chunks = max(min(-(-length // (2 * tile)), processors * _BLOCKS // groups), 1)
        piece = -(-length // (chunks * tile)) * tile
        #: Tiles of a chunk that a block keeps in registers; 0 where it reads them again.
        self.turns = 0
        if chunks > 1 and self.layout == "rows":
            fill = length * self.rows // (tile * _ONE_PASS_BLOCKS)
            self.turns = max(min(_KEPT_BYTES // (items * state_bytes), fill), 1)
            piece = tile * self.turns
        self.chunks = -(-length // piece)
        self.jobs = groups * self.chunks
        self.shape = _team(along, items, columns=self.layout == "columns")
        spans = [
            extent((*sizes, length), (*steps, each))[1] for steps, each in zip(columns, step, strict=True)
        ]
        self.index, code = _index(*spans, self.rows * self.chunks + _THREADS, length + piece)
        numbers = [*sizes, *(each for steps in columns for each in steps), *step]
        numbers += [self.rows, length, self.chunks, piece]
        self.packed = struct.pack(f"={len(numbers)}{code}", *numbers)


def _check(operation: str, output: dtype, input_dtype: dtype, indices: Sequence[int] | None) -> None:
    if operation in _OPERATORS:
        if indices is not None:
            raise ValueError(f"{operation} has no indices; leave them out")
        if operation == "logcumsumexp" and not (output.is_floating_point or output.is_complex):
            raise ValueError(f"logcumsumexp needs a floating point or complex output, {output!r} was given")
    elif operation in _BEST:
        if indices is None:
            raise ValueError(f"{operation} writes indices; give the strides of an int64 tensor for them")
        if input_dtype.is_complex or output is not input_dtype:
            raise ValueError(
                f"{operation} needs a real type, the same for input and output; "
                f"{input_dtype!r} and {output!r} were given"
            )
    else:
        known = ", ".join((*_OPERATORS, *_BEST))
        raise ValueError(f"there is no scan {operation!r}; there are {known}")


def _operator(operation: str, dtype: dtype) -> tuple[str, str, int]:
    """Operation on elements of ``dtype``, its state, and the state's bytes, in CUDA C++."""
    half = dtype.is_floating_point and dtype.itemsize == 2
    if operation in _BEST:
        value = "float" if half else "int" if dtype.itemsize < 4 else dtype.cuda
        return f"Best<{value}, {_BEST[operation]}>", f"Found<{value}>", 16
    if dtype.category in (Category.BOOL, Category.INTEGER):
        # Signed overflow is undefined in C++; unsigned sums and products have the same bits.
        value, size = ("unsigned long long", 8) if dtype.itemsize == 8 else ("unsigned", 4)
    else:
        value, size = ("float", 4) if half else (dtype.cuda, dtype.itemsize)
    return f"{_OPERATORS[operation]}<{value}, {dtype.cuda}>", value, size


def _team(along: int, items: int, *, columns: bool) -> str:
    return f"TeamShape<{along}, {_THREADS // along}, {items}, {'true' if columns else 'false'}>"


def _index(*reaches: int) -> tuple[str, str]:
    """Type of offsets and counts up to ``reaches``, in CUDA C++ and in :mod:`struct`."""
    return ("int", "i") if max(reaches) < _SMALL else ("long long", "q")
