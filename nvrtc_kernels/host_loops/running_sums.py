"""Running sums along rows on the CPU as a native loop, in double precision."""

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
