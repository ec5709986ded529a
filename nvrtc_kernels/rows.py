"""How the rows of contiguous ``(rows, n)`` arrays are shared out among threads: see ``cuda/rows.cuh``."""

from __future__ import annotations

from typing import NamedTuple

#: Bytes of elements that a thread keeps in registers, at most. 1024 threads have 64 registers each.
_MOST_BYTES = 64
_SMALLEST_ITEM = 4
_WARP = 32
_LARGEST = 1024
_SMALL_BLOCK = 128
#: Bytes of the widest load.
_LOAD_BYTES = 16


class Team(NamedTuple):
    """Threads of a block, threads of a row, and what each of these has.

    Attributes
    ----------
    threads, along : int
        Threads of a block, and how many of them have a row.
    packs, width : int
        Loads of a thread, and elements of each.
    """

    threads: int
    along: int
    packs: int
    width: int

    @property
    def template(self) -> str:
        """Arguments of the templates of ``cuda/rows.cuh``."""
        return f"{self.threads}, {self.along}, {self.packs}, {self.width}"

    def blocks(self, rows: int) -> int:
        """Blocks that ``rows`` rows take."""
        return -(-rows * self.along // self.threads)


def team(n: int, itemsize: int, *, packed: bool = True, summing: bool = False) -> Team | None:
    """Threads for rows of ``n`` elements, of which the widest have ``itemsize`` bytes.

    ``packed`` says that rows start at multiples of 16 bytes wherever their length allows it, ``summing`` that threads keep
    sums over rows besides. The answer is ``None`` where a row does not fit into the registers of a block.
    """
    width = max(_LOAD_BYTES // itemsize, 1) if packed else 1
    while n % width:
        width //= 2
    # Half precision is widened in registers.
    few = _MOST_BYTES // max(itemsize, _SMALLEST_ITEM)
    if n > _LARGEST * few:
        return None
    # A warp may have twice as much: its exchange needs no barrier.
    most = few if summing else 2 * few
    warp = n <= _WARP * most
    most = most if warp else few
    along = 1 if warp else _SMALL_BLOCK
    limit = _WARP if warp else _LARGEST
    while along < limit and (along * most < n or (warp and along * width < n)):
        along *= 2
    packs = max(-(-n // (along * width)), 1)
    return Team(max(along, _SMALL_BLOCK), along, packs, width)
