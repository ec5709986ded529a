"""Sums of rows on the CPU as a native loop, in double precision: NumPy makes those of float32 pairwise in single, and has none of halves."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

import numpy as np

from nvrtc_kernels.dtypes import bfloat16, dtype, float16, float32

from .code import assembled
from .planning import worth
from .rows import over_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rows import Array

#: Columns that a single row is cut into, so that threads share it.
_COLUMNS = 1 << 14


#: Dtypes that there are loops for.
_DTYPES = {each.numpy: each for each in (float32, float16, bfloat16)}


@functools.cache
def row_sums_loop(of: dtype = float32, squares: bool = False) -> Callable[..., None] | None:
    """``loop(first, last, n, x, sums)`` for ``x`` of a dtype, whose sums are float64; ``None`` where there is none.

    With ``squares`` they are sums of squares, in which nothing of single precision overflows.
    """

    def text() -> str:
        # Needed to compile only; the loop is on disk most of the time.
        from .row_writer import RowWriter

        w = RowWriter(False, ("x", "out"))
        if of is float32:
            row = w.row_of("x")
            w.double_sum(lambda i: w.load(row, i), "%out", squares=squares)
        else:
            half = w.emit("getelementptr inbounds i16, ptr %x, i64 %start")
            add_up = w.double_sum if of is bfloat16 else w.sum_of_halves
            add_up(lambda i: w.load_half(half, i, bfloat=of is bfloat16), "%out", squares=squares)
        return w.text()

    return assembled(("row sums", of.name, squares), text, [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 2])


def row_sums(array: Array, *, squares: bool = False) -> Array | None:
    """Sums of the rows of a contiguous ``(rows, n)`` array, or of their squares, as float64; ``None`` if there is no loop for that.

    Parameters
    ----------
    array
        Of float32 or half precision.
    """
    loop = row_sums_loop(_DTYPES[array.dtype], squares) if worth(array.size) else None
    if loop is None:
        return None
    if len(array) > 1 or array.size < 2 * _COLUMNS:
        return _sums(loop, array)
    count = array.size // _COLUMNS * _COLUMNS
    row = array.reshape(-1)
    parts = _sums(loop, row[:count].reshape(-1, _COLUMNS))
    if count < array.size:
        parts = np.append(parts, _sums(loop, row[count:].reshape(1, -1)))
    return np.array([parts.sum()])


def _sums(loop: Callable[..., None], array: Array) -> Array:
    rows, n = array.shape
    result = np.empty(rows)
    over_rows(loop, rows, n, array.ctypes.data, result.ctypes.data)
    return result
