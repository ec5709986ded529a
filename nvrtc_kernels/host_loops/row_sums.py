"""Sums of rows on the CPU as a native loop: of float32 in double precision, whose sums NumPy makes pairwise in single."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

import numpy as np

from .code import assembled
from .planning import worth
from .rows import over_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rows import Array

#: Columns that a single row is cut into, so that threads share it.
_COLUMNS = 1 << 14


@functools.cache
def row_sums_loop() -> Callable[..., None] | None:
    """``loop(first, last, n, x, sums)``, whose sums are float64; ``None`` where there is none."""

    def text() -> str:
        # Needed to compile only; the loop is on disk most of the time.
        from .row_writer import RowWriter

        w = RowWriter(False, ("x", "out"))
        w.double_sum(w.row_of("x"), "%out")
        return w.text()

    return assembled(("row sums",), text, [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 2])


def row_sums(array: Array) -> Array | None:
    """Sums of the rows of a contiguous ``(rows, n)`` array of float32, as float64; ``None`` if there is no loop for that."""
    loop = row_sums_loop() if worth(array.size) else None
    if loop is None:
        return None
    if len(array) > 1 or array.size < 2 * _COLUMNS:
        return _sums(loop, array)
    count = array.size // _COLUMNS * _COLUMNS
    row = array.reshape(-1)
    parts = _sums(loop, row[:count].reshape(-1, _COLUMNS))
    return np.array([parts.sum() + row[count:].sum(dtype=np.float64)])


def _sums(loop: Callable[..., None], array: Array) -> Array:
    rows, n = array.shape
    result = np.empty(rows)
    over_rows(loop, rows, n, array.ctypes.data, result.ctypes.data)
    return result
