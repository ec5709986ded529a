"""Memory for what NumPy forms compute on the way: blocks that lie in the cache, which each thread uses again and again.

New memory for each step would not lie there, nor begin where a cache line does.
"""

from __future__ import annotations

import sys
import threading
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .memory import LINE

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Bytes of a block: 65,536 elements of double precision.
BLOCK = 1 << 19
#: Bytes up to which new memory costs less than looking for a block.
_FEW = 1 << 12


class _Blocks(threading.local):
    def __init__(self) -> None:
        #: The owner of each block's memory, which all views refer to, and the byte that the block starts at.
        self.rooms: list[tuple[NDArray[np.uint8], int]] = []


_blocks = _Blocks()


def scratch(like: NDArray[Any], dtype: Any = None) -> NDArray[Any]:
    """A C-contiguous array of the shape of ``like`` with undefined contents.

    Its memory belongs to it as long as there is a reference to it or a view of it: also where a signal's handler or a finalizer
    computes something in between.

    Parameters
    ----------
    dtype : numpy.dtype, optional
        That of ``like`` by default.
    """
    dtype = like.dtype if dtype is None else np.dtype(dtype)
    nbytes = like.size * dtype.itemsize
    if not _FEW < nbytes <= BLOCK:
        return np.empty(like.shape, dtype)
    room, start = _unused(_blocks.rooms)
    result: NDArray[Any] = room[start : start + nbytes].view(dtype)
    return result if like.ndim == 1 else result.reshape(like.shape)


def scratch_of(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """The same of any shape."""
    nbytes = prod(shape) * np.dtype(dtype).itemsize
    if not _FEW < nbytes <= BLOCK:
        return np.empty(shape, dtype)
    room, start = _unused(_blocks.rooms)
    result: NDArray[Any] = room[start : start + nbytes].view(dtype).reshape(shape)
    return result


def _unused(rooms: list[tuple[NDArray[np.uint8], int]]) -> tuple[NDArray[np.uint8], int]:
    for room, start in rooms:
        if sys.getrefcount(room) == _REFERENCES:
            return room, start
    room = np.empty(BLOCK + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    rooms.append((room, start))
    return room, start


def _references(rooms: list[tuple[NDArray[np.uint8], int]]) -> int:
    for room, _start in rooms:
        return sys.getrefcount(room)
    raise AssertionError


#: References to memory that nobody uses, as they are counted in :func:`_unused`.
_REFERENCES = _references([(np.empty(1, np.uint8), 0)])
