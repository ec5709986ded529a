"""Where arrays lie in memory."""

from __future__ import annotations

from ctypes import addressof, c_char
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_char_at: Callable[[Any], c_char] = c_char.from_buffer


def address_of(array: NDArray[Any]) -> int:
    """The address of an array's first element.

    Parameters
    ----------
    array : ndarray
        What is C-contiguous, may be written and is of one of NumPy's own types is asked in a third of the time that
        ``array.ctypes.data`` takes (0.25 in place of 0.75 us, CPython 3.11).
    """
    if array.dtype.isbuiltin == 1:
        try:
            return addressof(_char_at(array))
        except (TypeError, ValueError, BufferError):
            # It is read-only, has gaps, or no elements.
            pass
    result: int = array.ctypes.data
    return result
