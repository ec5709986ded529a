"""Layouts of reductions: dimensions collapsed into rows and elements of rows, and how threads share them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING, NamedTuple

from .layouts import collapse, extent, stride_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .layouts import Ints
    from .lookups import Lookup

#: Threads of a block.
THREADS = 256
#: Bytes of the widest load.
_WORD = 16
_WARP = 32
_UNROLL = 4
#: Blocks that fill any GPU several times over. Not asked of the device, so that sums are the same on all of them.
_BLOCKS = 1024
#: Threads of a block that takes a whole row, where there are few rows, and packs of the row, at most: nothing but a row's own loads
#: are in flight then, and a thread has few, fewest of rows that are read by indices, where each load waits for another.
_MOST_THREADS, _MOST_PACKS = 1024, 3072
#: Packs for each thread that are worth a chunk of their own, and chunks that are worth a second kernel.
_PACKS, _CHUNKS = 4, 4
#: Packs of a row from which on a block shares it, and from which on where there are few rows.
_LONG, _LONG_ENOUGH = 1024, 128
#: Elements that a thread of a column takes at once, for it keeps a state for each.
_WIDEST_COLUMN = 8


class Work(NamedTuple):
    """How the threads of a kernel are laid out, and what each loads at once.

    Attributes
    ----------
    walk : str
        How the elements of a row are loaded: a class of ``cuda/reduction.cuh``, or "" for work by columns.
    width : int
        Elements of a load.
    along, across : int
        Threads that share a row, or a pack of ``width`` rows; and how many of these a block takes.
    chunks, piece : int
        Blocks that share a row, and elements for each of them.
    stretched : tuple of int
        Inputs of which all elements of a load are the same one.
    """

    walk: str
    width: int
    along: int
    across: int
    chunks: int
    piece: int
    stretched: Ints = ()

    @property
    def columns(self) -> bool:
        """Whether neighbouring threads work on neighbouring rows."""
        return not self.walk

    @property
    def call(self) -> str:
        """The function that does it, with the arguments of its template."""
        if self.columns:
            return f"reduce_columns<Reducer, {self.along}, {self.across}, {self.width}>"
        return f"reduce_rows<Reducer, {self.along}, {self.walk}<{self.width}>>"


@dataclass(frozen=True, slots=True)
class Rows:
    """Collapsed dimensions, innermost last: outer ones count the rows, reduced ones the elements of a row."""

    outer: Ints
    output_strides: tuple[Ints, ...]  # of outputs over the outer dimensions
    input_strides: tuple[Ints, ...]  # of inputs over the outer dimensions
    reduced: Ints
    reduced_strides: tuple[Ints, ...]  # of inputs over the reduced dimensions
    lookups: tuple[Lookup, ...] = ()  # inputs that are read by an index

    @property
    def count(self) -> int:
        """Number of rows."""
        return prod(self.outer)

    @property
    def length(self) -> int:
        """Elements of a row."""
        return prod(self.reduced)

    def pack(self, work: Work) -> tuple[bytes, str]:
        """The structure ``Rows`` of ``cuda/reduction.cuh`` as bytes, and its type."""
        index, code = ("long long", "q") if self._is_far() else ("unsigned int", "I")
        strides = (*self.output_strides, *self.input_strides)
        numbers = [*self.outer, *(step for each in strides for step in each)]
        numbers += [*self.reduced, *(step for strides in self.reduced_strides for step in strides)]
        numbers += [self.count, self.length, work.chunks, work.piece]
        ranks = f"{len(self.outer)}, {len(self.reduced)}"
        operands = f"{len(self.output_strides)}, {len(self.input_strides)}"
        return struct.pack(f"={len(numbers)}{code}", *numbers), f"Rows<{ranks}, {operands}, {index}>"

    def _is_far(self) -> bool:
        """Whether indices need 64 bits; half of 32 is kept for a thread's last step, which goes past the end."""
        reach = [self.count * self.length, self.count + _BLOCKS * THREADS]
        reach += [extent(self.outer, strides)[1] for strides in self.output_strides]
        for outer, reduced in zip(self.input_strides, self.reduced_strides, strict=True):
            reach.append(extent((*self.outer, *self.reduced), (*outer, *reduced))[1])
        reach += [each.reach for each in self.lookups]
        return max(reach) >= 1 << 31


def collapsed(
    shape: Sequence[int],
    dims: Sequence[int],
    outputs: Sequence[Sequence[int]],
    inputs: Sequence[Sequence[int]],
    *,
    keep_order: bool,
    lookups: tuple[Lookup, ...] = (),
) -> Rows:
    """Dimensions apart, ordered as the inputs walk memory, and collapsed.

    Parameters
    ----------
    outputs, inputs
        Strides over ``shape``; those of outputs at ``dims`` do not matter.
    keep_order
        Whether the reduced dimensions stay in their order, in which their elements are counted.
    lookups
        Inputs that are read by an index.
    """
    others = [dim for dim in range(len(shape)) if dim not in dims]
    sizes, strides = _taken(shape, others, (*outputs, *inputs))
    sizes, strides = _taken(sizes, stride_order(sizes, *strides[len(outputs) :])[::-1], strides)
    outer, outer_strides = collapse(sizes, *strides)
    sizes, strides = _taken(shape, sorted(dims), inputs)
    if not keep_order:
        sizes, strides = _taken(sizes, stride_order(sizes, *strides)[::-1], strides)
    reduced, reduced_strides = collapse(sizes, *strides)
    return Rows(
        outer, outer_strides[: len(outputs)], outer_strides[len(outputs) :], reduced, reduced_strides, lookups
    )


def _taken(
    shape: Sequence[int], dims: Sequence[int], operands: Sequence[Sequence[int]]
) -> tuple[Ints, tuple[Ints, ...]]:
    """Sizes and strides of some dimensions."""
    return tuple(shape[d] for d in dims), tuple(tuple(strides[d] for d in dims) for strides in operands)


def work_for(rows: Rows, itemsizes: Sequence[int]) -> tuple[Work, Work | None]:
    """The layout of work, and the one for addresses that are no multiples of a load, where it is another.

    ``itemsizes`` are those of the inputs, in bytes.
    """
    outer = _Walked(rows.outer, rows.input_strides, rows.lookups)
    reduced = _Walked(rows.reduced, rows.reduced_strides, rows.lookups)
    if _along_kept(outer, reduced, itemsizes):
        width = _load_width(outer, reduced, itemsizes, _WIDEST_COLUMN)
        work = _by_columns(rows, width)._replace(stretched=outer.stretched if width > 1 else ())
        return work, _by_columns(rows, 1) if width > 1 else None
    unit = all(strides == (1,) for strides in rows.reduced_strides) and not rows.lookups
    widest = max(_WORD // max(itemsizes), 1)
    if unit and widest > 1 and rows.length >= 8 * widest:
        return _by_rows(rows, "Ragged", widest), None
    width = _load_width(reduced, outer, itemsizes, _WORD)
    work = _by_rows(rows, "Strided", width)._replace(stretched=reduced.stretched if width > 1 else ())
    return work, _by_rows(rows, "Strided", 1) if width > 1 else None


class _Walked(NamedTuple):
    """Some dimensions, and the strides of the inputs over them."""

    sizes: Ints
    strides: tuple[Ints, ...]
    lookups: tuple[Lookup, ...]

    @property
    def stretched(self) -> Ints:
        """Inputs that stand still along the last dimension."""
        return tuple(k for k, each in enumerate(self.strides) if each[-1] == 0)

    def elements(self, k: int) -> int:
        """How many an input has, each counted once; of a table, those that its indices name."""
        walked = [self.strides[k], *(self.strides[each.index] for each in self.lookups if each.table == k)]
        return prod(size for size, *steps in zip(self.sizes, *walked, strict=True) if any(steps))

    def step(self, k: int) -> float:
        """Smallest step in memory from one element of an input to another."""
        steps = (step for size, step in zip(self.sizes, self.strides[k], strict=True) if size > 1 and step)
        return min(steps, default=inf)


def _along_kept(outer: _Walked, reduced: _Walked, itemsizes: Sequence[int]) -> bool:
    """Whether neighbours in memory belong to different rows, in inputs that are more than half of the bytes."""
    balance = 0
    for k, itemsize in enumerate(itemsizes):
        moved = outer.elements(k) * reduced.elements(k) * itemsize
        if outer.step(k) == reduced.step(k) == inf and any(each.table == k for each in outer.lookups):
            # Its neighbours are wherever its indices say.
            continue
        balance += moved if outer.step(k) < reduced.step(k) else -moved
    return balance > 0


def _load_width(walked: _Walked, others: _Walked, itemsizes: Sequence[int], most: int) -> int:
    """The most elements, up to ``most``, that lie together along the last dimension walked, in packs without rest."""
    packed = [k for k, strides in enumerate(walked.strides) if strides[-1]]
    if walked.sizes[-1] == 0 or not packed or any(walked.strides[k][-1] != 1 for k in packed):
        return 1
    if any(each.index in packed for each in walked.lookups):
        return 1
    numbers = [walked.sizes[-1], *(step for k in packed for step in walked.strides[k][:-1])]
    for k in packed:
        numbers += [step for size, step in zip(others.sizes, others.strides[k], strict=True) if size > 1]
        numbers += [each.step for each in walked.lookups if each.table == k]
    widest = max(min(_WORD // max(itemsizes[k] for k in packed), most), 1)
    while any(number % widest for number in numbers):
        widest //= 2
    return widest


def _by_rows(rows: Rows, walk: str, width: int) -> Work:
    packs = -(-rows.length // width)
    few = rows.count * _WARP < _BLOCKS * THREADS
    if packs < (_LONG_ENOUGH if few else _LONG):
        along = min(_power_above(-(-packs // 2)), _WARP)
        return Work(walk, width, along, THREADS // along, 1, rows.length)
    if rows.count * _MOST_THREADS <= _BLOCKS * THREADS and packs <= _MOST_PACKS:
        along = min(max(_power_above(-(-packs // _PACKS)), THREADS), _MOST_THREADS)
        return Work(walk, width, along, 1, 1, rows.length)
    chunks = min(packs // (THREADS * _PACKS), _BLOCKS // rows.count)
    if chunks < _CHUNKS:
        return Work(walk, width, THREADS, 1, 1, rows.length)
    piece = -(-packs // (chunks * THREADS)) * THREADS * width
    return Work(walk, width, THREADS, 1, -(-rows.length // piece), piece)


def _by_columns(rows: Rows, width: int) -> Work:
    packs = rows.count // width
    across = min(_power_above(packs), _WARP)
    along = min(_power_above(-(-rows.length // _UNROLL)), THREADS // across)
    across = min(_power_above(packs), THREADS // along)
    chunks = min(rows.length // (along * _UNROLL * _PACKS), _BLOCKS // -(-packs // across))
    if chunks < _CHUNKS:
        return Work("", width, along, across, 1, rows.length)
    piece = -(-rows.length // (chunks * along)) * along
    return Work("", width, along, across, -(-rows.length // piece), piece)


def _power_above(number: int) -> int:
    """The smallest power of two that is not below ``number``."""
    return 1 << max(number - 1, 0).bit_length()
