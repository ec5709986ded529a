"""Large arrays in memory that is kept for the next of their size.

The C library gives large blocks back to the system, which clears every page of them when they come again. For
arrays that only live for a moment, as those of a training step do, that takes longer than what is computed. What is
kept is bounded; all of it goes when there would be more, and what is used then comes back by itself.

Their first bytes are those of a cache line: vectors that lie across two lines take NumPy's loops up to twice as long.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.host.addresses import address_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

#: Bytes of the smallest and the largest arrays whose memory is kept, and of all that is.
LEAST, MOST, LIMIT = 1 << 18, 32 << 20, 128 << 20

#: Bytes of a cache line.
LINE = 64

#: By size. Lists, as their ends are taken and added to in one step each, whatever other threads do.
_cached: dict[int, list[Bytes]] = {}


class _Lease:
    """Holds a block for an array and all views of it."""

    __slots__ = ("__array_interface__", "block")

    def __init__(self, block: Bytes) -> None:
        self.block = block
        self.__array_interface__: dict[str, Any] = {
            "shape": block.shape,
            "typestr": "|u1",
            "data": (address_of(block), False),
            "version": 3,
        }

    def __del__(self, cached: dict[int, list[Bytes]] = _cached, limit: int = LIMIT) -> None:
        # Names of the module may be gone when the interpreter ends.
        size = len(self.block)
        if size + sum(each * len(blocks) for each, blocks in list(cached.items())) > limit:
            cached.clear()
        cached.setdefault(size, []).append(self.block)


def kept_bytes() -> int:
    """Bytes that are kept and nobody uses."""
    return sum(size * len(blocks) for size, blocks in list(_cached.items()))


def aligned(nbytes: int) -> Bytes:
    """New bytes with undefined contents, from the beginning of a cache line on."""
    room = np.empty(nbytes + LINE, np.uint8)
    start = -address_of(room) % LINE
    return room[start : start + nbytes]


def empty(shape: Sequence[int], dtype: Any, nbytes: int) -> NDArray[Any]:
    """A C-contiguous array of ``nbytes`` with undefined contents.

    Raises
    ------
    MemoryError
        If there is not so much memory.
    """
    if not LEAST <= nbytes <= MOST:
        return np.empty(shape, dtype)
    # Sizes that differ little share blocks.
    step = 1 << (nbytes.bit_length() - 4)
    size = -(-nbytes // step) * step
    blocks = _cached.get(size)
    try:
        block = blocks.pop() if blocks else aligned(size)
    except IndexError:
        # Another thread took the last one.
        block = aligned(size)
    result: NDArray[Any] = np.asarray(_Lease(block))[:nbytes].view(dtype).reshape(shape)
    return result


def empty_array(shape: Sequence[int], dtype: Any) -> NDArray[Any]:
    """The same by shape and type alone."""
    dtype = np.dtype(dtype)
    return empty(shape, dtype, prod(shape) * dtype.itemsize)
