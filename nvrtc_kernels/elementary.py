"""Elementary functions whose bits are the same on every device.

NumPy's and CUDA's own differ in the last bits. These use only operations that every IEEE machine rounds
alike, in a fixed order and never fused; ``distributions.cuh`` has the same functions in the same order.
"""

from __future__ import annotations

from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
#: Terms of ``log((1 + s) / (1 - s)) / (2 s)`` in powers of ``s * s``: enough for each precision.
LOGARITHM_TERMS = {_SINGLE: 6, _DOUBLE: 13}
#: Terms of Taylor's series of the exponential up to ``log(2) / 2``.
EXPONENTIAL_TERMS = {_SINGLE: 8, _DOUBLE: 14}
#: Terms of the series of sine and cosine up to ``pi / 4``, in powers of the square.
CIRCULAR_TERMS = {_SINGLE: 6, _DOUBLE: 10}


def polynomial(x: Floats, coefficients: tuple[float, ...]) -> Floats:
    """Horner's rule; ``coefficients`` start with the constant."""
    dtype = x.dtype.type
    result = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result *= x
        result += dtype(coefficient)
    return result


def logarithm(x: Floats) -> Floats:
    """Natural logarithm of positive normal numbers, within 3 ulp.

    ``x = m * 2**e`` with ``m`` in ``[0.70, 1.42)``, and ``log m`` by the series of the inverse
    hyperbolic tangent.
    """
    dtype = x.dtype.type
    mantissa, exponent = np.frexp(x)
    low = mantissa < dtype(0.70710678118654752)
    mantissa = np.where(low, mantissa * dtype(2), mantissa)
    power = (exponent - low).astype(x.dtype)
    s = (mantissa - dtype(1)) / (mantissa + dtype(1))
    series = tuple(1.0 / (2 * term + 1) for term in range(LOGARITHM_TERMS[x.dtype]))
    small = s * polynomial(s * s, series)
    result: Floats = power * dtype(0.69314718055994531) + (small + small)
    return result


def exponential(x: Floats) -> Floats:
    """Exponential of any number but NaN, within 2 ulp where the result is normal; too large gives infinity.

    ``x = k log 2 + r`` with ``log 2`` in two parts (Cody and Waite), Taylor's series in ``r``, and a power
    of two that is multiplied in two steps, so that tiny results are rounded once.
    """
    dtype = x.dtype.type
    single = x.dtype == _SINGLE
    x = np.clip(x, dtype(-110 if single else -760), dtype(100 if single else 720))
    k = np.rint(x * dtype(1.4426950408889634))
    high, low = (0.693359375, -2.12194440e-4) if single else (0.6931471803691238, 1.9082149292705877e-10)
    r = x - k * dtype(high) - k * dtype(low)
    series = polynomial(r, tuple(1.0 / factorial(term) for term in range(EXPONENTIAL_TERMS[x.dtype])))
    power = k.astype(np.int32)
    half = power >> 1
    with np.errstate(over="ignore", under="ignore"):
        result: Floats = series * _power_of_two(half, x.dtype) * _power_of_two(power - half, x.dtype)
    return result


def _power_of_two(exponent: NDArray[np.int32], dtype: np.dtype[Any]) -> Floats:
    if dtype == _SINGLE:
        return ((exponent + np.int32(127)) << np.int32(23)).view(np.float32)
    return ((exponent.astype(np.int64) + 1023) << 52).view(np.float64)


def cotangent_pi(x: Floats) -> Floats:
    """``cot(pi x)`` of numbers in ``(0, 0.5)``, within 4 ulp."""
    dtype = x.dtype.type
    terms = CIRCULAR_TERMS[x.dtype]
    upper = x > dtype(0.25)
    z = np.where(upper, dtype(0.5) - x, x) * dtype(3.14159265358979324)
    square = -(z * z)
    sine = z * polynomial(square, tuple(1.0 / factorial(2 * term + 1) for term in range(terms)))
    cosine = polynomial(square, tuple(1.0 / factorial(2 * term) for term in range(terms)))
    result: Floats = np.where(upper, sine, cosine) / np.where(upper, cosine, sine)
    return result
