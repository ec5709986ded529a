"""Running sums, in double precision, and running extremes along rows on the CPU, as native loops."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

from .code import assembled
from .planning import worth
from .rows import fits, over_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rows import Array


@functools.cache
def _loop(double: bool) -> Callable[..., None] | None:
    def text() -> str:
        # Needed to compile only; the loop is on disk most of the time.
        from .row_writer import RowWriter

        w = RowWriter(double, ("x", "out"))
        w.running_sums(w.row_of("x"), w.row_of("out"))
        return w.text()

    return assembled(("running sums", double), text, [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 2])


def running_sums(array: Array, out: Array) -> bool:
    """Write the running sums of the rows of ``array`` ``(rows, n)`` to ``out``; whether there is a loop for that."""
    if not worth(array.size) or not fits(array, out):
        return False
    loop = _loop(array.dtype.itemsize == 8)
    if loop is None:
        return False
    rows, n = array.shape
    over_rows(loop, rows, n, array.ctypes.data, out.ctypes.data)
    return True


@functools.cache
def _extremes_loop(double: bool, largest: bool) -> Callable[..., None] | None:
    def text() -> str:
        # As above.
        from .row_writer import RowWriter

        w = RowWriter(double, ("x", "values", "positions"))
        positions = w.emit("getelementptr inbounds i64, ptr %positions, i64 %start")
        w.running_extremes(w.row_of("x"), w.row_of("values"), positions, largest=largest)
        return w.text()

    types = [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 3]
    return assembled(("running extremes", double, largest), text, types)


def running_extremes(array: Array, values: Array, positions: Array, *, largest: bool) -> bool:
    """Write running extremes of the rows of ``array`` ``(rows, n)``, and where the last of equal ones stands; whether there is a loop.

    Parameters
    ----------
    positions
        Contiguous and of int64.
    largest
        Whether it is the largest, or the smallest; a NaN is either.
    """
    if not worth(array.size) or not fits(array, values):
        return False
    loop = _extremes_loop(array.dtype.itemsize == 8, largest)
    if loop is None:
        return False
    rows, n = array.shape
    over_rows(loop, rows, n, array.ctypes.data, values.ctypes.data, positions.ctypes.data)
    return True
