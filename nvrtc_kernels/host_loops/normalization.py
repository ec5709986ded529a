"""Normalization of rows on the CPU as native loops, on threads."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

import numpy as np

from drv.host.threads import share

from .code import assembled
from .planning import worth
from .rows import bounds_of, fits, over_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from .rows import Array


@functools.cache
def forward_loop(double: bool, center: bool, weight: bool, bias: bool) -> Callable[..., None] | None:
    """``loop(first, last, n, x, weight, bias, out, means, scales, eps)``; ``None`` where there is none."""
    # Needed to compile only; most loops are on disk.
    from .normalization_text import forward as text

    number = ctypes.c_double if double else ctypes.c_float
    return assembled(
        ("rows normalised", double, center, weight, bias),
        lambda: text(double, center=center, weight=weight, bias=bias),
        [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 6, number],
    )


@functools.cache
def backward_loop(
    double: bool, center: bool, weight: bool, out: bool, sums: bool
) -> Callable[..., None] | None:
    """``loop(first, last, n, grad, x, weight, means, scales, out, weight_sums, bias_sums)``; ``None`` where there is none."""
    # Needed to compile only; most loops are on disk.
    from .normalization_text import backward as text

    return assembled(
        ("gradient of rows normalised", double, center, weight, out, sums),
        lambda: text(double, center=center, weight=weight, out=out, sums=sums),
        [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 8],
    )


def _address(array: Array | None) -> int | None:
    return None if array is None else array.ctypes.data


def forward(
    array: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
    out: Array,
    means: Array | None,
    scales: Array,
) -> bool:
    """Write the normalised rows of ``array`` ``(rows, n)`` to ``out``, their means and scales; whether there is a loop for that.

    Weight and bias have ``n`` elements; without ``means`` none are taken away.
    """
    if not worth(array.size) or not fits(array, weight, bias, out, means, scales):
        return False
    loop = forward_loop(array.dtype == np.float64, means is not None, weight is not None, bias is not None)
    if loop is None:
        return False
    rows, n = array.shape
    addresses = list(map(_address, (array, weight, bias, out, means, scales)))
    over_rows(loop, rows, n, *addresses, eps)
    return True


def backward(
    grad: Array,
    array: Array,
    weight: Array | None,
    means: Array | None,
    scales: Array,
    out: Array | None,
    sums: bool,
) -> tuple[Array, Array] | bool:
    """Write the gradient of ``array`` to ``out``; with ``sums`` those of weight and bias are the result.

    ``False`` if there is no loop for that.
    """
    if not worth(array.size) or not fits(grad, array, weight, means, scales, out):
        return False
    double = array.dtype == np.float64
    loop = backward_loop(double, means is not None, weight is not None, out is not None, sums)
    if loop is None:
        return False
    rows, n = array.shape
    bounds = bounds_of(rows, n)
    parts = np.zeros((2, len(bounds) - 1, n), array.dtype) if sums else None
    addresses = list(map(_address, (grad, array, weight, means, scales, out)))

    def run(piece: int) -> None:
        own = (None, None) if parts is None else (_address(parts[0, piece]), _address(parts[1, piece]))
        loop(bounds[piece], bounds[piece + 1], n, *addresses, *own)

    share(run, len(bounds) - 1)
    return True if parts is None else (parts[0].sum(0), parts[1].sum(0))
