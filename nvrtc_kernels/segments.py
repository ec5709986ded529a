"""Combining values with the elements that index tensors select, in an order that is the same in every run.

Positions of the index tensors are sorted by the element (or slice) that they select; equal ones stay in
row-major order. Runs of them, the segments, are then combined as trees that do not depend on the device.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from . import sort
from .dtypes import int16, int32, int64, uint8
from .indexing import MAX_GRID, THREADS, bounds, index_parameters, unroll_and_grid, walk
from .layouts import collapse, contiguous_strides, extent
from .plans import Plan, includes, launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype
    from .indexing import Selection
    from .layouts import Ints

    Values = tuple[Sequence[int], dtype] | None

COUNT, LAST = "count", "last"
#: Types of ``cuda/reducers.cuh``.
REDUCERS = {
    "sum": "Sum",
    "prod": "Product",
    "amax": "Largest",
    "amin": "Smallest",
    COUNT: "Sum",
    LAST: "",
}
#: Positions that a thread goes through.
_LENGTH = 32
#: Types of keys: the fewer bytes, the fewer rounds the sort takes.
_KEYS = ((1 << 8, uint8), (1 << 15, int16), (1 << 31, int32), (1 << 63, int64))


def source_of(values: Values) -> tuple[str, str]:
    """C++ type that ``values`` points to, and what the kernels take values from."""
    return ("char", "Ones()") if values is None else (values[1].cuda, f"Given<{values[1].cuda}>{{values}}")


def plan(device: Device, operation: str, reducer: str, selection: Selection, values: Values) -> Plan:
    """What combines values with the selected elements, as :func:`.accumulation.plan` says."""
    work = _work(selection, (0,) * len(selection.shape) if values is None else values[0])
    keys = _keys(device, operation, selection, work)
    order = sort.plan(device, 1, work.positions, work.key, below=work.keys)
    reduce, open_bytes = (_last if reducer == LAST else _reduction)(
        device, operation, reducer, selection.element_dtype, values, work
    )
    # What the sort begins with and needs meanwhile is not needed any more when segments are combined.
    keys_bytes = sort.aligned(work.positions * work.key.itemsize)
    positions_at, rest_at = keys_bytes, keys_bytes + sort.aligned(8 * work.positions)
    sort_at = rest_at + keys_bytes

    def run(stream: Any, scratch: int, target: int, values: int, *indices: int) -> None:
        sorted_keys, positions, rest = scratch, scratch + positions_at, scratch + rest_at
        keys(stream, rest, *indices)
        order.run(stream, scratch + sort_at, sorted_keys, positions, rest)
        reduce(stream, rest, sorted_keys, positions, values, target)

    return Plan(run, max(sort_at + order.scratch_bytes, rest_at + open_bytes))


class _Work(NamedTuple):
    """How a selection falls into positions, keys (from 0 to below ``keys``) and slices, and where they lie."""

    indexed: Selection
    key: dtype
    keys: int
    positions: int
    slices: int
    geometry: bytes
    declaration: str
    code: str


def _work(selection: Selection, values: Sequence[int]) -> _Work:
    shape, (sizes, strides, _) = selection.shape, selection.array
    positions = selection.positions
    slices = [dim for dim in range(len(shape)) if dim not in positions]
    # Keys number what may be selected in row-major order: over the dimensions that are indexed, and those that
    # positions walk along.
    walked = [selection.axes[dim] for dim in positions]
    keyed = sorted({*selection.indexed, *(axis for axis in walked if axis is not None)})
    key_shape = tuple(sizes[axis] for axis in keyed)
    indexed = replace(
        selection,
        array=(key_shape, contiguous_strides(key_shape), selection.element_dtype),
        shape=tuple(shape[dim] for dim in positions),
        axes=tuple(None if axis is None else keyed.index(axis) for axis in walked),
        indexed=tuple(keyed.index(axis) for axis in selection.indexed),
        indices=tuple(tuple(steps[dim] for dim in positions) for steps in selection.indices),
        positions=tuple(range(len(positions))),
    )
    total = prod(key_shape)
    key = next(key_dtype for limit, key_dtype in _KEYS if total <= limit)
    collapsed = [
        collapse(indexed.shape, [values[dim] for dim in positions]),
        collapse(key_shape, [strides[axis] for axis in keyed]),
        collapse(
            [shape[dim] for dim in slices],
            [values[dim] for dim in slices],
            [selection.strides[dim] for dim in slices],
        ),
    ]
    count, width = prod(indexed.shape), prod(shape[dim] for dim in slices)
    reach = sum(max(extent(part[0], steps)[1] for steps in part[1]) for part in collapsed)
    index, code = ("unsigned int", "I") if max(count * width, total, reach) < 1 << 31 else ("long long", "q")
    numbers = [count, width]
    for part_sizes, part_strides in collapsed:
        numbers += [*part_sizes, *(step for steps in part_strides for step in steps)]
    ranks = ", ".join(str(len(part[0])) for part in collapsed)
    return _Work(
        indexed,
        key,
        total,
        count,
        width,
        struct.pack(f"={len(numbers)}{code}", *numbers),
        f"typedef Segmented<{ranks}, {index}> Geometries;\n",
        code,
    )


def _keys(device: Device, operation: str, selection: Selection, work: _Work) -> Callable[..., None]:
    """``launch(stream, keys, *indices)``"""
    plain = contiguous_strides(work.indexed.shape)
    geometry = walk(work.indexed, plain, widen=False)
    unroll, grid = unroll_and_grid(geometry.count)
    parameters, index = index_parameters(work.indexed)
    name = f"{operation}_keys"
    source = (
        f"{includes('segments.cuh')}{bounds(operation, selection)}{geometry.declarations}\n"
        f'extern "C" __global__ void {name}(Walk walk, Lookup lookup, Walk::Number count, {work.key.cuda}* keys'
        f"{parameters}) {{\n{index}"
        f"    write_keys<Bounds, {unroll}>(walk, lookup, count, keys, index);\n}}\n"
    )
    kernel = launcher(
        device, f"{operation}.cu", source, name, (*geometry.codes, "P", *"P" * len(selection.indices))
    )
    arguments = geometry.arguments

    def launch(stream: Any, keys: int, *indices: int) -> None:
        kernel(grid, 1, 1, THREADS, 1, 1, 0, stream, *arguments, keys, *indices)

    return launch


def _last(
    device: Device, operation: str, _: str, dtype: dtype, values: Values, work: _Work
) -> tuple[Callable[..., None], int]:
    """``launch(stream, scratch, keys, positions, values, target)``, and bytes of scratch."""
    assert values is not None
    name = f"{operation}_last_of_{dtype.name}"
    source = (
        f"{includes('segments.cuh')}{work.declaration}\n"
        f'extern "C" __global__ void {name}(Geometries geometry, const {work.key.cuda}* keys, '
        f"const long long* positions, const {values[1].cuda}* values, {dtype.cuda}* target) {{\n"
        "    write_last(geometry, keys, positions, values, target);\n}\n"
    )
    kernel = launcher(device, f"{operation}.cu", source, name, (len(work.geometry), *"PPPP"))
    grid = min(-(-work.positions * work.slices // THREADS), MAX_GRID)

    def launch(stream: Any, _: int, *addresses: int) -> None:
        kernel(grid, 1, 1, THREADS, 1, 1, 0, stream, work.geometry, *addresses)

    return launch, 0


def _reduction(
    device: Device, operation: str, reducer: str, dtype: dtype, values: Values, work: _Work
) -> tuple[Callable[..., None], int]:
    """``launch(stream, scratch, keys, positions, values, target)``, and bytes of scratch."""
    source_type, source_code = source_of(values)
    name = f"{operation}_{reducer}_of_{dtype.name}"
    head = f"Geometries geometry, Geometries::Number n, const {{}}* keys, {dtype.cuda}* target, "
    tail = "long long* open_keys, Operation::State* open"
    reduce = (
        f"reduce_segments<Operation, {_LENGTH}>(geometry, n, keys, entries, target, open_keys, open);\n}}\n"
    )
    source = (
        f"{includes('segments.cuh')}{work.declaration}"
        f"typedef {REDUCERS[reducer]}<ComputeType<{dtype.cuda}>::type, int> Operation;\n\n"
        f'extern "C" __global__ void {name}_values({head.format(work.key.cuda)}'
        f"const long long* positions, const {source_type}* values, {tail}) {{\n"
        f"    typedef decltype({source_code}) Source;\n"
        f"    const SortedValues<Operation, {dtype.cuda}, Geometries, Source> entries{{geometry, positions, {source_code}}};\n"
        f"    {reduce}"
        f'extern "C" __global__ void {name}_parts({head.format("long long")}'
        f"const Operation::State* states, {tail}) {{\n"
        "    const OpenStates<Operation, Geometries::Number> entries{geometry.slices, states};\n"
        f"    {reduce}"
    )
    file, codes = f"{operation}.cu", (len(work.geometry), work.code)
    first = launcher(device, file, source, f"{name}_values", (*codes, *"PPPPPP"))
    lengths = _lengths(work.positions)
    more = launcher(device, file, source, f"{name}_parts", (*codes, *"PPPPP")) if len(lengths) > 1 else None
    grids = [min(-(-(-(-n // _LENGTH) * work.slices) // THREADS), MAX_GRID) for n in lengths]
    # Lists are read and written in turns: the third may lie over the first.
    sizes = [
        (sort.aligned(8 * n), sort.aligned(_state_bytes(reducer, dtype) * n * work.slices))
        for n in lengths[1:3]
    ]
    starts = [0, sum(sizes[0]) if sizes else 0]

    def launch(stream: Any, scratch: int, keys: int, positions: int, values: int, target: int) -> None:
        lists = [(scratch + at, scratch + at + size[0]) for at, size in zip(starts, sizes, strict=False)]
        out = lists[0] if lists else (0, 0)
        first(
            grids[0], 1, 1, THREADS, 1, 1, 0, stream,
            work.geometry, lengths[0], keys, target, positions, values, *out,
        )  # fmt: skip
        for level in range(1, len(lengths)):
            assert more is not None
            previous, out = out, lists[level % len(lists)]
            more(
                grids[level], 1, 1, THREADS, 1, 1, 0, stream,
                work.geometry, lengths[level], previous[0], target, previous[1], *out,
            )  # fmt: skip

    return launch, sum(sum(size) for size in sizes)


def _lengths(n: int) -> Ints:
    """Lengths of the sorted list and of the lists of what is open in the one before."""
    lengths = [n]
    while lengths[-1] > _LENGTH:
        lengths.append(2 * -(-lengths[-1] // _LENGTH))
    return tuple(lengths)


def _state_bytes(reducer: str, dtype: dtype) -> int:
    """Bytes of a state of ``cuda/reducers.cuh``."""
    itemsize: int = dtype.itemsize
    if dtype.is_floating_point or dtype.is_complex:
        return max(itemsize, 4)
    return 8 if reducer in ("sum", "prod", COUNT) else itemsize
