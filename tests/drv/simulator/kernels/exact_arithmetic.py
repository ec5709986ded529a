"""Exactly rounded arithmetic to compare with, from fractions and from float64."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

#: Bits of the significand, exponent of the least normal number, largest finite number.
FORMATS: dict[np.dtype, tuple[int, int, float]] = {
    np.dtype(np.float16): (11, -14, 65504.0),
    np.dtype(ml_dtypes.bfloat16): (8, -126, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)),
    np.dtype(np.float32): (24, -126, float(np.finfo(np.float32).max)),
    np.dtype(np.float64): (53, -1022, float(np.finfo(np.float64).max)),
}


def rounded(value: Fraction, dtype: np.dtype, mode: str = "rn") -> float:
    """``value`` rounded to ``dtype``: ``rn`` to nearest even, ``rz`` to zero, ``rd`` down, ``ru`` up.

    The sign of an exact zero is the caller's business.
    """
    digits, least, largest = FORMATS[dtype]
    if value == 0:
        return 0.0
    size, sign = abs(value), -1.0 if value < 0 else 1.0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, least) - digits + 1)
    down = math.floor(value / unit)
    if mode == "rn":
        steps = round(value / unit)
    elif mode == "rd" or (mode == "rz" and value > 0):
        steps = down
    else:
        steps = -math.floor(-value / unit)
    result = steps * unit
    if abs(result) > Fraction(largest):
        outward = mode == "rn" or (mode == "ru" and value > 0) or (mode == "rd" and value < 0)
        return sign * (math.inf if outward else largest)
    return float(result) if result else sign * 0.0


def square_root(value: Fraction, dtype: np.dtype, mode: str = "rn") -> float:
    """The square root of ``value`` rounded to ``dtype``."""
    # The root of the least double has its last bit above 2 ** -640; one sticky bit below stands for the rest.
    scale = 640
    root = math.isqrt((value.numerator << (scale * 2)) // value.denominator)
    exact = Fraction(root, 1 << scale) ** 2 == value
    return rounded(Fraction(2 * root + (not exact), 1 << (scale + 1)), dtype, mode)


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """``a * b + c`` rounded once, for arrays of float32 or narrower.

    The product is exact in float64; the sum is rounded to odd there, which the second rounding cannot
    see (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
    """
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + addend
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    towards = np.where((error > 0) == (total > 0), 1, -1)
    moved = np.where(even & (error != 0) & np.isfinite(total), bits + towards, bits).view(np.float64)
    return narrowed(moved, a.dtype)


def narrowed(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """float64 values rounded to ``dtype`` in one step."""
    if dtype.kind == "f":
        return values.astype(dtype)
    # ml_dtypes goes by way of float32, which has to be rounded to odd so that bfloat16 is rounded once.
    single = values.astype(np.float32)
    error = values - single
    bits = single.view(np.int32)
    towards = np.where((error > 0) == (single > 0), 1, -1).astype(np.int32)
    moves = (error != 0) & (bits & 1 == 0) & np.isfinite(single)
    return np.where(moves, bits + towards, bits).view(np.float32).astype(dtype)


def units_in_last_place(actual: np.ndarray, expected: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Distance of ``actual`` from ``expected`` (of higher precision) in units of ``dtype``.

    Equal infinities and NaN beside NaN are at distance 0; other mismatches of them at infinity.
    """
    digits, least, largest = FORMATS[dtype]
    wide = expected.astype(np.longdouble)
    _, exponent = np.frexp(np.abs(wide))
    unit = np.ldexp(np.longdouble(1), np.maximum(exponent - 1, least) - digits + 1)
    got = actual.astype(np.longdouble)
    with np.errstate(invalid="ignore"):
        distance = np.abs(got - wide) / unit
    overflows = np.abs(wide) > largest
    distance = np.where(np.isinf(got) & overflows & (np.sign(got) == np.sign(wide)), 0, distance)
    distance = np.where((np.isnan(got) & np.isnan(wide)) | (got == wide), 0, distance)
    return np.where(np.isnan(distance), np.inf, distance).astype(np.float64)
