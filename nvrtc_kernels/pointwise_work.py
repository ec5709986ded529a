"""Layouts of pointwise work on operands of any strides: how threads share it, and what each reads at once.

The kernels are in ``cuda/pointwise_strided.cuh``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import gcd, prod
from typing import TYPE_CHECKING, NamedTuple

from .layouts import collapse, extent, stride_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .layouts import Ints

#: Threads of a block.
THREADS = 256
#: Elements below which a thread for each hides latency better than fewer threads with wide accesses.
FEW = 1 << 15
#: Bytes of the widest access.
WORD = 16
_UNROLL = 4
#: Offsets from which on they have 64 bits.
_FAR = 1 << 31
#: Bytes of a pack where an operand is read element by element, so that neighbouring threads still share sectors.
_ELEMENTS = 4
#: Elements from which on a dimension of the input, and of the output, has tiles: in shorter rows of the output a block's
#: reads have sectors in common.
_ROWS, _COLUMNS = 3, 16
#: Squares of a tile, and of its side where neither dimension is short.
_SQUARES, _SIDE = 1024, 32
#: Bytes of a tile's word, and of all tiles of a block; tiles that fill any GPU.
_TILE_WORD, _TILES, _MANY = 8, 48 << 10, 512


class Work(NamedTuple):
    """A kernel, and the layout that it works by.

    Attributes
    ----------
    name : str
        What the kernel is called, after its operation.
    call : str
        The function that does it, with the first arguments of its template.
    layout_type : str
        Type of the structure that says where operands lie.
    layout : bytes
        The structure.
    accesses : tuple of str
        How each input is read: an ``Access`` of the kernels.
    blocks : int
        Blocks of the grid.
    alignment : int
        Bytes that addresses must be multiples of.
    """

    name: str
    call: str
    layout_type: str
    layout: bytes
    accesses: tuple[str, ...]
    blocks: int
    alignment: int


@dataclass(frozen=True, slots=True)
class Indexed:
    """An operand that another one indexes.

    Attributes
    ----------
    operand, index : int
        Numbers of both.
    step : int
        Between neighbours along the dimension that is indexed, in elements.
    reach : int
        From the operand's first element to behind its last one.
    """

    operand: int
    index: int
    step: int
    reach: int


class Operands(NamedTuple):
    """Dimensions that all operands are walked along, innermost last.

    Attributes
    ----------
    sizes : tuple of int
        Of the dimensions.
    strides : tuple of tuple of int
        In elements, of each operand, output first.
    itemsizes : tuple of int
        Bytes of an element.
    alignments : tuple of int
        Elements that addresses are multiples of: powers of two.
    indexed : tuple of Indexed
        Those that lie where others say.
    """

    sizes: Ints
    strides: tuple[Ints, ...]
    itemsizes: Ints
    alignments: Ints
    indexed: tuple[Indexed, ...] = ()

    @property
    def flat(self) -> bool:
        """Whether all are contiguous."""
        return self.sizes == (1,) or all(each == (1,) for each in self.strides)

    @property
    def widest(self) -> int:
        """Bytes of the largest element."""
        return max(self.itemsizes)

    @property
    def offset(self) -> tuple[str, str]:
        """Type of offsets, and its code for :mod:`struct`."""
        # Offsets of the last tile's rows are worked out beyond the last one too.
        span = max(
            *(extent(self.sizes, each)[1] for each in self.strides), *(each.reach for each in self.indexed), 0
        )
        return ("unsigned int", "I") if span < _FAR else ("long long", "q")

    def has_words(self, operand: int, axis: int, width: int) -> bool:
        """Whether an operand consists of aligned words of ``width`` elements along a dimension."""
        strides = self.strides[operand]
        others = [step for d, step in enumerate(strides) if d != axis]
        others += [each.step for each in self.indexed if each.operand == operand]
        whole = strides[axis] == 1 and not self.sizes[axis] % width and not self.alignments[operand] % width
        return whole and not any(step % width for step in others)

    def access(self, operand: int, width: int) -> str:
        """How packs of ``width`` neighbours along the last dimension are read."""
        if self.has_words(operand, len(self.sizes) - 1, width):
            return "WORD"
        return "ELEMENTS" if self.strides[operand][-1] else "SAME"


def operands_of(
    shape: Sequence[int],
    strides: Sequence[Sequence[int]],
    itemsizes: Sequence[int],
    indexed: Sequence[Indexed] = (),
) -> Operands:
    """Dimensions sorted by the strides of the output, which is the first operand, and merged."""
    order = stride_order(shape, *strides)[::-1]
    sizes, steps = collapse(
        [shape[axis] for axis in order], *([each[axis] for axis in order] for each in strides)
    )
    return Operands(sizes, steps, tuple(itemsizes), (WORD,) * len(itemsizes), tuple(indexed))


def work_for(operands: Operands) -> Work:
    """The layout of work on operands of at least one element."""
    if prod(operands.sizes) < FEW:
        return _packs(operands, 1, 1)
    tiled = _tiled(operands)
    return _packs(operands, _width(operands), _UNROLL) if tiled is None else tiled


def packs_for(operands: Operands, *, wide: bool) -> Work:
    """The same without tiles; unless ``wide``, with an element for each thread."""
    return _packs(operands, _width(operands), _UNROLL) if wide else _packs(operands, 1, 1)


def _width(operands: Operands) -> int:
    """The most neighbours along the last dimension that are written as a word, and are worth being read as packs."""
    if any(operands.strides[each.index][-1] for each in operands.indexed):
        # Neighbours lie wherever their indices say.
        return 1
    width = max(WORD // operands.widest, 1)
    while width > 1:
        accesses = [operands.access(k, width) for k in range(len(operands.itemsizes))]
        scattered = "ELEMENTS" in accesses and width * operands.widest > _ELEMENTS
        if accesses[0] == "WORD" and not scattered:
            break
        width //= 2
    return width


def _packs(operands: Operands, width: int, unroll: int) -> Work:
    """Packs of ``width`` elements along the last dimension."""
    count = len(operands.strides)
    dimensions = [(size, *steps) for size, *steps in zip(operands.sizes, *operands.strides, strict=True)]
    last, *steps = dimensions.pop()
    if last > width or not dimensions:
        dimensions.append((last // width, *(step * width for step in steps)))
    if unroll > 1:
        dimensions = _shared(dimensions, unroll)
    walk_type, walk = _walk(dimensions, count, *operands.offset)
    code = operands.offset[1]
    rank = len(dimensions)
    return Work(
        name=f"strided_{rank}" if unroll == 1 else f"strided_{rank}_by_{width}",
        call=f"pointwise_strided<{width}, {unroll}>",
        layout_type=f"Packs<{walk_type}>",
        layout=struct.pack(f"={count}{code}", *steps) + walk,
        accesses=tuple(operands.access(k, width) if unroll > 1 else "ELEMENTS" for k in range(1, count)),
        blocks=-(-prod(size for size, *_ in dimensions) // (THREADS * unroll)),
        alignment=width * operands.widest if width > 1 else 1,
    )


def _shared(dimensions: list[Ints], unroll: int) -> list[Ints]:
    """The dimensions in another order, in which a block reads stretched inputs once for several of its packs.

    Packs that stretched inputs have in common lie as far from each other as the dimensions inside the stretched one reach.
    Of the stretched dimension ``unroll`` go inside, around as many packs of the last as a block has threads.
    """
    *outer, (last, *last_steps) = dimensions
    inner = last
    for axis in range(len(outer) - 1, -1, -1):
        size, *steps = outer[axis]
        stretched = any(step == 0 and last_step for step, last_step in zip(steps, last_steps, strict=True))
        if stretched and inner > THREADS and size % unroll == 0:
            neighbours = gcd(last, THREADS)
            split = [
                (size // unroll, *(step * unroll for step in steps)),
                *outer[axis + 1 :],
                (last // neighbours, *(step * neighbours for step in last_steps)),
                (unroll, *steps),
                (neighbours, *last_steps),
            ]
            return [*outer[:axis], *(each for each in split if each[0] > 1)]
        inner *= size
    return dimensions


def _tiled(operands: Operands) -> Work | None:
    """Tiles of the last dimension and of one along which inputs have their neighbours, where there are such inputs."""
    column = len(operands.sizes) - 1
    if operands.strides[0][column] != 1 or operands.sizes[column] < _COLUMNS:
        return None
    turned = [k for k, each in enumerate(operands.strides) if each[column] > 1]
    for row in range(column):
        tiled = [k for k in turned if operands.strides[k][row] == 1]
        if tiled and operands.sizes[row] >= _ROWS:
            break
    else:
        return None
    width = max(_TILE_WORD // operands.widest, 1)
    while width > 1 and not _fit(operands, row, tiled, width):
        width //= 2
    while sum(_tile_bytes(operands, k, width) for k in tiled) > _TILES:
        tiled.pop()
    return _tiles(operands, row, tiled, width)


def _fit(operands: Operands, row: int, tiled: Sequence[int], width: int) -> bool:
    """Whether words of ``width`` elements lie on both sides, their tiles have room, and are many."""
    words = operands.has_words(0, len(operands.sizes) - 1, width)
    words = words and all(operands.has_words(k, row, width) for k in tiled)
    room = sum(_tile_bytes(operands, k, width) for k in tiled) <= _TILES
    return words and room and prod(operands.sizes) >= _MANY * _SQUARES * width**2


def _tile_bytes(operands: Operands, operand: int, width: int) -> int:
    # An eighth more than the squares, for padding.
    return _SQUARES * 9 // 8 * width**2 * operands.itemsizes[operand]


def _tiles(operands: Operands, row: int, tiled: Sequence[int], width: int) -> Work:
    """Tiles of squares of ``width`` along ``row`` and the last dimension; inputs ``tiled`` go through them."""
    column, count = len(operands.sizes) - 1, len(operands.strides)
    down = min(_power_above(-(-operands.sizes[row] // width)), _SIDE)
    across = min(_power_above(-(-operands.sizes[column] // width)), _SQUARES // down)
    down = _SQUARES // across
    dimensions: list[Ints] = [
        (size, *(each[axis] for each in operands.strides), 0, 0)
        for axis, size in enumerate(operands.sizes)
        if axis not in (row, column)
    ]
    for axis, side in ((row, down * width), (column, across * width)):
        tiles = -(-operands.sizes[axis] // side)
        position = (side, 0) if axis == row else (0, side)
        dimensions.append((tiles, *(each[axis] * side for each in operands.strides), *position))
    dimensions = [each for each in dimensions if each[0] > 1] or dimensions[:1]
    walk_type, walk = _walk(dimensions, count, *operands.offset)
    numbers = [each[axis] for axis in (row, column) for each in operands.strides]
    numbers += [operands.sizes[row], operands.sizes[column]]
    return Work(
        name=f"tiled_{len(dimensions)}_by_{width}",
        call=f"pointwise_tiled<{width}, {down}>",
        layout_type=f"Tiles<{walk_type}>",
        layout=struct.pack(f"={len(numbers)}{operands.offset[1]}", *numbers) + walk,
        accesses=tuple("TILE" if k in tiled else operands.access(k, width) for k in range(1, count)),
        blocks=prod(size for size, *_ in dimensions),
        alignment=width * operands.widest if width > 1 else 1,
    )


def _power_above(number: int) -> int:
    """The smallest power of two that is not below ``number``."""
    return 1 << max(number - 1, 0).bit_length()


def _walk(dimensions: Sequence[Ints], operands: int, offset: str, code: str) -> tuple[str, bytes]:
    """Arguments of the template ``Walk``, and its bytes; dimensions are sizes and the operands' strides."""
    sizes = [size for size, *_ in dimensions]
    steps = [step for each in zip(*(rest for _, *rest in dimensions), strict=True) for step in each]
    small = prod(sizes) < _FAR
    count, count_code = ("unsigned int", "I") if small else ("long long", "q")
    divisors = [number for size in sizes for number in ((size, *divisor(size)) if small else (size,))]
    numbers = struct.pack(
        f"={len(steps)}{code}{len(divisors) + 1}{count_code}", *steps, *divisors, prod(sizes)
    )
    padding = bytes(-len(numbers) % struct.calcsize(f"={code}"))
    return f"{len(sizes)}, {operands}, {count}, {offset}", numbers + padding


def divisor(size: int) -> Iterator[int]:
    """Multiplier and shift: ``n // size == n * multiplier >> 32 + shift`` for ``n`` below ``1 << 31``.

    The multiplier is ``2**p / size`` rounded up, with ``p = 31 + bits`` and ``size <= 2**bits``. What is rounded is less
    than ``size``, and less than ``2**p`` times ``n`` (Granlund and Montgomery, Division by Invariant Integers using
    Multiplication, 1994). Only the outermost dimension, which is not divided by, may have a size of 1.
    """
    bits = max((size - 1).bit_length(), 1)
    yield -(-(1 << 31 + bits) // size) & 0xFFFFFFFF
    yield bits - 1
