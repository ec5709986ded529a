"""Multiply-add with one rounding, by float64 arithmetic and error-free transformations.

The product of two float32 is exact in float64, so ``float32(float64(a * b) + c)`` rounds twice, which
is wrong only where the first rounding, if there is one, lands on a tie of the second. Rounding those lanes to odd (of
the two neighbours of an inexact sum, the one whose last bit is set) makes the second rounding right:
Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding
to odd", IEEE Transactions on Computers 57(4), 2008, which also gives the algorithm for float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .exact import fix_lanes, multiply_add

if TYPE_CHECKING:
    from drv.simulator.arithmetic.operation import Lanes

_SPLITTER = 2.0**27 + 1
#: Between these no error-free transformation overflows or loses bits to underflow.
_SMALL, _LARGE, _LARGE_PRODUCT = 2.0**-960, 2.0**490, 2.0**1000
_LOWEST = np.iinfo(np.int64).min


def fma_f32(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Return ``a * b + c`` of float32 lanes, rounded once to nearest, ties to even."""
    product = a.astype(np.float64) * b
    addend = c.astype(np.float64)
    total = product + addend
    result: Lanes = total.astype(np.float32)
    # A tie has 1 and then zeros in the 29 bits that float32 drops; subnormals drop more.
    dropped = total.view(np.int64) << 35
    if np.minimum.reduce(dropped) == _LOWEST or _any_subnormal(result):
        # One of the two differences is exact, and differs from its term where the sum was rounded.
        rounded = (total - product != addend) | (total - addend != product)
        if np.logical_or.reduce(rounded):
            doubtful = np.flatnonzero(rounded & ((dropped == _LOWEST) | _are_subnormal(result)))
            product, addend = (each[doubtful] if len(each) > 1 else each for each in (product, addend))
            result[doubtful] = sum_to_odd(product, addend).astype(np.float32)
    return result


def _any_subnormal(values: Lanes) -> bool:
    """Tell whether there is a subnormal number among float32 lanes."""
    magnitude = values.view(np.uint32) << 1
    if np.minimum.reduce(magnitude) >= 0x1000000:
        return False
    # Zeros, which are common, become the largest.
    magnitude -= np.uint32(1)
    return bool(np.minimum.reduce(magnitude) < 0xFFFFFF)


def _are_subnormal(values: Lanes) -> Lanes:
    """Tell which float32 lanes are subnormal numbers."""
    small: Lanes = (values.view(np.uint32) << 1) - np.uint32(1) < 0xFFFFFF
    return small


def two_sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``a + b`` of float64 lanes and its rounding error, exactly (Knuth)."""
    total = a + b
    b_virtual = total - a
    return total, (a - (total - b_virtual)) + (b - b_virtual)


def sum_to_odd(a: Lanes, b: Lanes) -> Lanes:
    """Return ``a + b`` of float64 lanes rounded to odd."""
    total, error = two_sum(a, b)
    return to_odd(total, error)


def to_odd(rounded: Lanes, error: Lanes) -> Lanes:
    """Return what ``rounded``, nearest to ``rounded + error``, would be when rounded to odd."""
    bits = rounded.view(np.int64)
    # NaN errors come from infinities, which are exact.
    inexact = (error < 0) | (error > 0)
    away = np.where((error > 0) == (rounded > 0), 1, -1)
    return (bits + np.where(inexact & (bits & 1 == 0), away, 0)).view(np.float64)


def two_product(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``a * b`` of float64 lanes and its rounding error, exactly (Dekker, with Veltkamp's split).

    Exact where ``a`` and ``b`` are below 2^990 and their product is 0 or between 2^-960 and 2^1020 in size.
    """
    product = a * b
    spread = a * _SPLITTER
    a_high = spread - (spread - a)
    a_low = a - a_high
    spread = b * _SPLITTER
    b_high = spread - (spread - b)
    b_low = b - b_high
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def fma_f64(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Return ``a * b + c`` of float64 lanes, rounded once to nearest, ties to even."""
    high, odd = sum_of_product(a, b, c)
    result: Lanes = high + odd
    if not within_range(a * b, a, b, c):
        fix_extremes(result, a, b, c, "rn")
    return result


def sum_of_product(a: Lanes, b: Lanes, c: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``a * b + c`` as a sum of two: the larger, and the rest rounded to odd."""
    product, error = two_product(a, b)
    partial, first = two_sum(c, error)
    high, second = two_sum(product, partial)
    return high, sum_to_odd(first, second)


def within_range(product: Lanes, *operands: Lanes) -> bool:
    """Tell whether nothing can overflow, underflow or be special; False when in doubt."""
    if not np.abs(product).min() > _SMALL:
        return False
    return all(np.abs(operand).max() < _LARGE for operand in operands)


def fix_extremes(result: Lanes, a: Lanes, b: Lanes, c: Lanes, rounding: str) -> None:
    """Recompute the lanes of ``result``, nearly ``a * b + c``, that error-free transformations get wrong."""
    product = a * b
    finite = np.isfinite(a) & np.isfinite(b)
    size = np.abs(product)
    usual = (size < _LARGE_PRODUCT) & (size > _SMALL)
    usual = usual & (np.abs(a) < _LARGE) & (np.abs(b) < _LARGE) & (np.abs(c) < _LARGE_PRODUCT)
    # An infinite addend wins even where the product of finite numbers overflows.
    plain = np.where(finite & np.isinf(c), c, product + c)
    trivial = ~finite | ~np.isfinite(c) | (a == 0) | (b == 0)
    np.copyto(result, plain, where=trivial)
    fix_lanes(result, np.flatnonzero(~usual & ~trivial), multiply_add, (a, b, c), rounding)
