"""Softmax of rows of float32 on the CPU as native loops, on threads."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

import numpy as np

from .code import assembled
from .planning import worth
from .rows import fits as lie_as_loops_take
from .rows import over_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rows import Array

#: Columns of a row from which on it is worth a loop of its own.
_LEAST = 16


@functools.cache
def forward_loop(log: bool) -> Callable[..., None] | None:
    """``loop(first, last, n, x, out)``; ``None`` where there is none."""
    # Needed to compile only; most loops are on disk.
    from .softmax_text import forward as text

    types = [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 2]
    return assembled(("softmax", log), lambda: text(log=log), types)


@functools.cache
def backward_loop(log: bool) -> Callable[..., None] | None:
    """``loop(first, last, n, grad, result, out)``; ``None`` where there is none."""
    # Needed to compile only; most loops are on disk.
    from .softmax_text import backward as text

    types = [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 3]
    return assembled(("gradient of softmax", log), lambda: text(log=log), types)


def forward(array: Array, out: Array, *, log: bool) -> bool:
    """Write the softmax of the rows of ``array`` ``(rows, n)``, or its logarithm, to ``out``; whether there is a loop for that."""
    return _run(forward_loop, (array, out), log)


def backward(grad: Array, result: Array, out: Array, *, log: bool) -> bool:
    """Write the gradient of rows whose softmax is ``result`` to ``out``; whether there is a loop for that."""
    return _run(backward_loop, (grad, result, out), log)


def fits(rows: int, n: int) -> bool:
    """Whether so many rows of ``n`` elements are worth a loop."""
    return n >= _LEAST and worth(rows * n)


def _run(
    loop_for: Callable[[bool], Callable[..., None] | None], arrays: tuple[Array, ...], log: bool
) -> bool:
    rows, n = arrays[0].shape
    if not fits(rows, n) or arrays[0].dtype != np.float32 or not lie_as_loops_take(*arrays):
        return False
    loop = loop_for(log)
    if loop is None:
        return False
    addresses = [each.ctypes.data for each in arrays]
    over_rows(loop, rows, n, *addresses)
    return True
