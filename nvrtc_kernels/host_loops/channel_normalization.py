"""Normalization of channels on the CPU as native loops over planes, on threads.

Planes are ``(items, channels, inner)``; vectors have an element for each channel.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

import numpy as np

from .code import assembled
from .planning import worth
from .rows import fits, over_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rows import Array

#: Elements of a plane from which on it is worth a loop of its own.
_LEAST = 16


@functools.cache
def _loop(name: str, double: bool, arrays: int) -> Callable[..., None] | None:
    # Needed to compile only; most loops are on disk.
    from .channel_normalization_text import text

    types = [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * arrays]
    return assembled(("channels normalised", name, double), lambda: text(name, double), types)


def _run(
    name: str, planes: tuple[Array, ...], vectors: tuple[Array, ...], results: tuple[Array, ...]
) -> bool:
    """Run a loop over the rows of ``planes``, whose ``vectors`` are repeated for each item; whether there is such a loop."""
    first = planes[0]
    items, channels, inner = first.shape
    if not worth(first.size) or inner < _LEAST or not fits(*planes, *vectors, *results):
        return False
    loop = _loop(name, first.dtype.itemsize == 8, len(planes) + len(vectors) + len(results))
    if loop is None:
        return False
    rows = items * channels
    of_rows = [np.tile(each, items) for each in vectors]
    addresses = [each.ctypes.data for each in (*planes, *of_rows, *results)]
    over_rows(loop, rows, inner, *addresses)
    return True


def moments(array: Array, means: Array, squares: Array) -> bool:
    """Write the mean of each plane, and the sum of the squares of what elements are away from it, both ``(items, channels)``."""
    return _run("moments", (array,), (), (means, squares))


def apply(array: Array, mean: Array, scale: Array, bias: Array | None, out: Array) -> bool:
    """``out = (array - mean) * scale + bias``."""
    if bias is None:
        return _run("apply", (array,), (mean, scale), (out,))
    return _run("apply_with_bias", (array,), (mean, scale, bias), (out,))


def sums(grad: Array, array: Array, mean: Array, total: Array, products: Array) -> bool:
    """Write sums of the gradient of each plane, and of it times ``array - mean``, both ``(items, channels)``."""
    return _run("sums", (grad, array), (mean,), (total, products))


def input_gradient(
    grad: Array, array: Array, mean: Array, factor: Array, shift: Array, scale: Array, out: Array
) -> bool:
    """``out = (grad - shift - (array - mean) * factor) * scale``."""
    return _run("input_gradient", (grad, array), (mean, factor, shift, scale), (out,))
