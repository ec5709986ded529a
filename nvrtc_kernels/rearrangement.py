"""Elements in another order, and triangles of matrices: ``flip``, ``roll``, ``tril``, ``triu``.

Elements keep their bits, so a kernel is specialised by their size and not by their type. What a plan
launches follows from the layouts: dimensions are ordered by the output's strides and merged where they are
walked as one, and neighbours are taken together as words of up to 16 bytes where sizes, strides and addresses
allow it.
"""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from .indexing import THREADS, WORDS, launcher, nothing, unroll_and_grid
from .layouts import collapse, extent, stride_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv import Device

    from .dtypes import dtype
    from .layouts import Ints

#: Elements below which numbers have 32 bits: offsets wrap around there, and steps past the end stay below.
_SMALL = 1 << 30


class _Dimension(NamedTuple):
    """A dimension of an output, and where its elements come from; all in elements.

    Attributes
    ----------
    size : int
        Of the dimension.
    to, source : int
        Strides of the output and of what is read; the latter is negative in a flipped dimension.
    turn, jump : int
        From index ``turn`` on the source is ``jump`` elements away from where its stride leads.
    """

    size: int
    to: int
    source: int
    turn: int
    jump: int

    @property
    def rolled(self) -> bool:
        """Whether the source jumps."""
        return self.turn != self.size

    def around(self, inner: _Dimension) -> _Dimension | None:
        """Both, this dimension and the one inside it, as one, if they can be walked so."""
        if inner.rolled or self.to != inner.to * inner.size or self.source != inner.source * inner.size:
            return None
        size = self.size * inner.size
        return _Dimension(size, inner.to, inner.source, self.turn * inner.size, self.jump)


def plan_move(
    device: Device,
    operation: str,
    shape: Sequence[int],
    dtype: dtype,
    output: Sequence[int],
    input_strides: Sequence[int],
    *,
    flipped: Sequence[int] = (),
    shifts: Sequence[int] = (),
) -> Callable[[Any, int, int], None]:
    """What writes the elements of a tensor in another order.

    Parameters
    ----------
    operation
        What kernels are called: a C++ name, such as ``"flip"``.
    output, input_strides
        Strides of the two tensors.
    flipped
        Dimensions that run backward.
    shifts
        For each dimension by how many elements to roll, those at the end to the start; none at all for
        no moves.

    Returns
    -------
    callable
        ``run(stream_handle, output_address, input_address)``.
    """
    if 0 in shape:
        return nothing
    dimensions, start = _dimensions(shape, output, input_strides, flipped, shifts or (0,) * len(shape))
    last = dimensions[-1]
    width = 1
    if last.to == 1 and last.source in (1, -1):
        # A word that is read backward begins at its last element.
        origin = start + 1 if last.source < 0 else start
        numbers = [origin, last.size, last.turn]
        numbers += [n for d in dimensions[:-1] for n in (d.to, d.source)] + [d.jump for d in dimensions]
        width = _width(dtype.itemsize, numbers)
    small = _small(shape, output, input_strides)

    def specialized(width: int) -> Callable[[Any, int, int], None]:
        return _moving(device, operation, dtype, dimensions, start, width, small=small)

    return _aligned(dtype.itemsize, width, specialized)


def _dimensions(
    shape: Sequence[int],
    output: Sequence[int],
    input_strides: Sequence[int],
    flipped: Sequence[int],
    shifts: Sequence[int],
) -> tuple[list[_Dimension], int]:
    """Dimensions, outermost in the output first, and the element that the first one comes from."""
    dimensions: list[_Dimension] = []
    start = 0
    for axis in reversed(stride_order(shape, output, input_strides)):
        size, step = shape[axis], input_strides[axis]
        if size == 1:
            continue
        shift = shifts[axis] % size
        if axis in flipped:
            start += (size - 1) * step
            dimension = _Dimension(size, output[axis], -step, size, 0)
        elif shift:
            start += (size - shift) * step
            dimension = _Dimension(size, output[axis], step, shift, -size * step)
        else:
            dimension = _Dimension(size, output[axis], step, size, 0)
        merged = dimensions[-1].around(dimension) if dimensions else None
        if merged is None:
            dimensions.append(dimension)
        else:
            dimensions[-1] = merged
    return dimensions or [_Dimension(1, 1, 1, 1, 0)], start


def _moving(
    device: Device,
    operation: str,
    dtype: dtype,
    dimensions: Sequence[_Dimension],
    start: int,
    width: int,
    *,
    small: bool,
) -> Callable[[Any, int, int], None]:
    """What moves words of ``width`` elements."""
    *outer, last = dimensions
    backward = width > 1 and last.source < 0
    if width > 1:
        # The last word of those that are read backward is the first to be read.
        start = (start + 1) // width - 1 if backward else start // width
        outer = [_Dimension(d.size, d.to // width, d.source // width, d.turn, d.jump // width) for d in outer]
        last = _Dimension(last.size // width, 1, last.source, last.turn // width, last.jump // width)
    walked = [*outer, last]
    # Of each number those of all dimensions together, as the kernel's structure has them.
    rows = zip(*((d.size, d.to, d.source, d.turn, d.jump) for d in walked), strict=True)
    index, code, moves = _packed(small, [start, *(number for row in rows for number in row)])
    count = prod(d.size for d in walked)
    unroll, grid = unroll_and_grid(count)
    name = f"{operation}_{width * dtype.itemsize}_bytes"
    direction = "Backward" if backward else "Forward"
    word = f"Pack<{WORDS[dtype.itemsize]}, {width}>" if backward else WORDS[width * dtype.itemsize]
    source = (
        f'#include "rearrange.cuh"\n\ntypedef Moves<{len(walked)}, {index}> Walk;\n'
        f'extern "C" __global__ void {name}(Walk moves, Walk::Number count, {word}* out, const {word}* in) {{\n'
        f"    move_words<{direction}, {unroll}>(moves, count, out, in);\n}}\n"
    )
    launch = launcher(device, name, source, (len(moves), code, "P", "P"))

    def run(stream: Any, out: int, input_address: int) -> None:
        launch(grid, 1, 1, THREADS, 1, 1, 0, stream, moves, count, out, input_address)

    return run


def plan_band(
    device: Device,
    operation: str,
    shape: Sequence[int],
    dtype: dtype,
    output: Sequence[int],
    input_strides: Sequence[int],
    diagonal: int,
    *,
    upper: bool,
) -> Callable[[Any, int, int], None]:
    """What writes matrices (the last two dimensions) with zeros on one side of a diagonal.

    Parameters
    ----------
    operation
        What kernels are called: a C++ name, such as ``"tril"``.
    output, input_strides
        Strides of the two tensors, which may be one.
    diagonal
        The last that is kept; 0 is the main one, positive ones are above it.
    upper
        Whether what is above it is kept; otherwise what is below.

    Returns
    -------
    callable
        ``run(stream_handle, output_address, input_address)``.
    """
    if 0 in shape:
        return nothing
    rows, columns = shape[-2:]
    sign = -1 if upper else 1
    # Heights lie within the matrix, and so may the bound, one beyond either end at most.
    bound = -sign * min(max(diagonal, -rows), columns)
    order = stride_order(shape, output, input_strides)[::-1]
    height = (*(0,) * (len(shape) - 2), sign, -sign)
    sizes, strides = collapse(
        [shape[axis] for axis in order],
        *([steps[axis] for axis in order] for steps in (output, input_strides, height)),
    )
    small = _small(shape, output, input_strides)

    def specialized(width: int) -> Callable[[Any, int, int], None]:
        return _band(device, operation, dtype, sizes, strides, bound, width, small=small)

    width = 1
    if strides[0][-1] == 1 and strides[1][-1] == 1:
        width = _width(dtype.itemsize, [sizes[-1], *strides[0][:-1], *strides[1][:-1]])
    return _aligned(dtype.itemsize, width, specialized)


def _band(
    device: Device,
    operation: str,
    dtype: dtype,
    sizes: Ints,
    strides: Sequence[Ints],
    bound: int,
    width: int,
    *,
    small: bool,
) -> Callable[[Any, int, int], None]:
    """What keeps a band of words of ``width`` elements; ``strides`` are of output, input and height."""
    slope = strides[2][-1] if width > 1 else 0
    if width > 1:
        sizes = (*sizes[:-1], sizes[-1] // width)
        moved = [(*(step // width for step in each[:-1]), 1) for each in strides[:2]]
        strides = [*moved, (*strides[2][:-1], slope * width)]
    index, code, walk = _packed(small, [*sizes, *(step for each in strides for step in each)])
    count = prod(sizes)
    unroll, grid = unroll_and_grid(count)
    name = f"{operation}_{width * dtype.itemsize}_bytes"
    word = f"Pack<{WORDS[dtype.itemsize]}, {width}>"
    source = (
        f'#include "rearrange.cuh"\n\ntypedef Geometry<{len(sizes)}, 3, {index}> Walk;\n'
        f'extern "C" __global__ void {name}(Walk walk, Signed<Walk::Number>::Number bound, Walk::Number count, '
        f"{word}* out, const {word}* in) {{\n"
        f"    keep_band<{slope}, {unroll}>(walk, bound, count, out, in);\n}}\n"
    )
    signed = "i" if small else "q"
    launch = launcher(device, name, source, (len(walk), signed, code, "P", "P"))

    def run(stream: Any, out: int, input_address: int) -> None:
        launch(grid, 1, 1, THREADS, 1, 1, 0, stream, walk, bound, count, out, input_address)

    return run


def _width(itemsize: int, numbers: Sequence[int]) -> int:
    """Elements of the widest word that all these numbers of elements are multiples of."""
    widths = (16 // itemsize >> k for k in range(5))
    return next(width for width in widths if width and all(number % width == 0 for number in numbers))


def _aligned(
    itemsize: int, width: int, specialized: Callable[[int], Callable[[Any, int, int], None]]
) -> Callable[[Any, int, int], None]:
    """``specialized(width)`` where both addresses are multiples of such words, and else ``specialized(1)``."""
    if width == 1:
        return specialized(1)
    low, wide = width * itemsize - 1, specialized(width)
    narrow: list[Callable[[Any, int, int], None]] = []

    def run(stream: Any, out: int, input_address: int) -> None:
        if not (out | input_address) & low:
            wide(stream, out, input_address)
            return
        if not narrow:
            narrow.append(specialized(1))
        narrow[0](stream, out, input_address)

    return run


def _small(shape: Sequence[int], *operands: Sequence[int]) -> bool:
    """Whether 32 bits are enough for every offset and count."""
    return max(prod(shape), *(extent(shape, each)[1] for each in operands)) < _SMALL


def _packed(small: bool, numbers: Sequence[int]) -> tuple[str, str, bytes]:
    """Type of a kernel's numbers, its code for :mod:`struct`, and the bytes of ``numbers``."""
    if small:
        wrapped = [number & 0xFFFFFFFF for number in numbers]
        return "unsigned int", "I", struct.pack(f"={len(wrapped)}I", *wrapped)
    return "long long", "q", struct.pack(f"={len(numbers)}q", *numbers)
