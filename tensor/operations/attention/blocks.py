"""In which blocks attention goes over its scores, so that only some of them are in memory at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from nvrtc_kernels.attention import ALIGNMENT, Block, stride

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Rows of a block, below which its keys are divided too: products of fewer rows are slow.
_FEW_ROWS = 256
#: Positions of a tile of a causal sequence, and those from which on it is divided: what lies above the diagonal
#: of the tiles is left out.
_CAUSAL_ROWS, _CAUSAL_LENGTH = 512, 1024
_ROUND = 64


class Problem(NamedTuple):
    """Sizes of an attention.

    Attributes
    ----------
    batch : tuple of int
        Leading dimensions that queries, keys and values have in common.
    groups : tuple of int
        Dimensions after these that only the queries have: what they index shares keys and values.
    positions, keys : int
        Lengths of the sequences of queries and of keys.
    width, values : int
        Elements of a query and of a value.
    causal : bool
        Whether a query sees no keys behind its own position.
    """

    batch: tuple[int, ...]
    groups: tuple[int, ...]
    positions: int
    keys: int
    width: int
    values: int
    causal: bool

    @property
    def matrices(self) -> int:
        """Matrices of keys."""
        return prod(self.batch)

    @property
    def rows(self) -> int:
        """Queries for each of them."""
        return prod(self.groups) * self.positions


@dataclass(frozen=True, slots=True)
class Tile:
    """Some rows of some matrices.

    Attributes
    ----------
    matrix, matrices, row, rows : int
        The first of each, and how many.
    index : tuple of slice
        The same as an index into an array of shape ``(*batch, *groups, positions)``.
    blocks : tuple of Block
        The keys that they see.
    first : bool
        Whether it is the first tile of its matrices; it sees all keys that later ones see.
    """

    matrix: int
    matrices: int
    row: int
    rows: int
    index: tuple[slice, ...]
    blocks: tuple[Block, ...]
    first: bool

    def region(self, block: Block) -> tuple[slice, ...]:
        """Where the block's scores stand in an array of shape ``(*batch, *groups, positions, keys)``."""
        return (*self.index, slice(block.first_key, block.first_key + block.keys))


def _ranges(length: int, most: int) -> Iterator[slice]:
    for start in range(0, length, most):
        yield slice(start, min(start + most, length))


def _chunks(dims: Sequence[int], most: int) -> Iterator[tuple[tuple[slice, ...], int, int]]:
    """Boxes of at most ``most`` elements of ``dims``, contiguous in row-major order: index, start, and elements."""
    axis, inner = len(dims), 1
    while axis and inner * dims[axis - 1] <= most:
        axis -= 1
        inner *= dims[axis]
    whole = tuple(slice(0, size) for size in dims[axis:])
    if not axis:
        yield whole, 0, inner
        return
    start = 0
    for lead in product(*(range(size) for size in dims[: axis - 1])):
        for some in _ranges(dims[axis - 1], max(most // inner, 1)):
            count = (some.stop - some.start) * inner
            yield (*(slice(i, i + 1) for i in lead), some, *whole), start, count
            start += count


def tiles(problem: Problem, capacity: int, most_keys: int) -> Iterator[Tile]:
    """All tiles, none of whose blocks holds more than ``capacity`` scores, unless a few keys of one row do.

    Tiles of the same matrices come one after the other, and of causal ones those with most keys first.
    """
    length, total = problem.positions, problem.keys
    keys = min(total, most_keys)
    if min(length, _FEW_ROWS) * stride(keys) > capacity:
        keys = min(keys, max(capacity // min(length, _FEW_ROWS) // _ROUND * _ROUND, ALIGNMENT))
    rows = max(capacity // stride(keys), 1)
    if problem.causal and length >= _CAUSAL_LENGTH:
        rows = min(rows, _CAUSAL_ROWS)
    if rows < length:
        # Tiles of about the same size.
        rows = -(-length // -(-length // rows))
        if rows > _ROUND and -(-rows // _ROUND) * _ROUND * stride(keys) <= capacity:
            rows = -(-rows // _ROUND) * _ROUND
    own = min(rows, problem.rows) if rows >= length else rows
    for index, matrix, matrices in _chunks(problem.batch, max(capacity // stride(keys) // own, 1)):
        first = True
        for heads, group, count in _chunks(problem.groups, max(rows // length, 1)):
            for some in reversed(list(_ranges(length, min(rows, length)))):
                row = group * length + some.start
                number = (some.stop - some.start) * count
                seen = min(total, some.stop) if problem.causal else total
                blocks = tuple(
                    Block(
                        matrices, number, matrix * problem.rows + row, problem.rows, length, each.start,
                        each.stop - each.start, problem.causal,
                    )
                    for each in _ranges(seen, keys)
                )  # fmt: skip
                yield Tile(matrix, matrices, row, number, (*index, *heads, some), blocks, first)
                first = False
