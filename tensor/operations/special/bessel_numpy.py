"""Bessel functions of NumPy arrays, to a few units in the last place.

They are computed in double precision; single precision is rounded once. Near their zeros the oscillating ones
(J and Y) are exact to double precision in absolute terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import bessel_series as series
from .error_functions_numpy import chebyshev, in_double


def _near_or_far(x: Any, limit: float, near: Any, far: Any, inside: Any) -> Any:
    """A function of ``x >= 0`` from its series on both sides of ``limit``.

    ``inside(x)`` is the variable of the nearer one; that of the other is ``2 * limit / x - 1``.
    """
    small = x <= limit
    low, high = np.where(small, x, limit), np.where(small, limit, x)
    return np.where(small, chebyshev(near, inside(low)), chebyshev(far, 2 * limit / high - 1) / np.sqrt(high))


# Modified functions of the first kind


def _i0e(x: Any) -> Any:
    return _near_or_far(np.abs(x), 8.0, series.I0_NEAR, series.I0_FAR, lambda low: low / 4 - 1)


def _i1e(x: Any) -> Any:
    size = np.abs(x)
    found = _near_or_far(size, 8.0, series.I1_NEAR, series.I1_FAR, lambda low: low / 4 - 1)
    return np.where(size <= 8, x * found, np.copysign(found, x))


def _grown(scaled: Any, x: Any) -> Any:
    """``scaled * exp(|x|)`` in two steps: the second may overflow where the first would."""
    half = np.exp(np.abs(x) / 2)
    return np.where(np.isinf(x), np.copysign(np.inf, scaled), scaled * half * half)


@in_double
def i0(x: Any) -> Any:
    """Modified Bessel function of the first kind of order 0."""
    return _grown(_i0e(x), x)


@in_double
def i0e(x: Any) -> Any:
    """``exp(-|x|) * i0(x)``."""
    return _i0e(x)


@in_double
def i1(x: Any) -> Any:
    """Modified Bessel function of the first kind of order 1."""
    return _grown(_i1e(x), x)


@in_double
def i1e(x: Any) -> Any:
    """``exp(-|x|) * i1(x)``."""
    return _i1e(x)


# Modified functions of the second kind


def _k(x: Any, order: int, scaled: bool) -> Any:
    small = x <= 2
    low, high = np.where(small & (x > 0), x, 2.0), np.where(small, 2.0, x)
    near, far = (series.K0_NEAR, series.K0_FAR) if order == 0 else (series.K1_NEAR, series.K1_FAR)
    found = chebyshev(near, low * low / 2 - 1)
    logarithm = np.log(low / 2) * np.exp(low)
    found = found - logarithm * _i0e(low) if order == 0 else found / low + logarithm * _i1e(low)
    beyond = chebyshev(far, 4 / high - 1) / np.sqrt(high)
    if scaled:
        found = found * np.exp(low)
    else:
        half = np.exp(-high / 2)
        beyond = beyond * half * half
    found = np.where(small, found, beyond)
    return np.where(x == 0, np.inf, np.where(x < 0, np.nan, np.where(np.isnan(x), x, found)))


@in_double
def k0(x: Any) -> Any:
    """Modified Bessel function of the second kind of order 0."""
    return _k(x, 0, False)


@in_double
def k0e(x: Any) -> Any:
    """``exp(x) * k0(x)``."""
    return _k(x, 0, True)


@in_double
def k1(x: Any) -> Any:
    """Modified Bessel function of the second kind of order 1."""
    return _k(x, 1, False)


@in_double
def k1e(x: Any) -> Any:
    """``exp(x) * k1(x)``."""
    return _k(x, 1, True)


# Waves


def _inside(low: Any) -> Any:
    return low * low / 32 - 1


def _wave(x: Any, order: int, second: bool) -> Any:
    """Function of the first or the second kind, of ``x >= 8``, from that expansion."""
    inverse = 128 / (x * x) - 1
    p = chebyshev(series.P0 if order == 0 else series.P1, inverse)
    q = chebyshev(series.Q0 if order == 0 else series.Q1, inverse) / x
    sine, cosine = np.sin(x), np.cos(x)
    # Sine and cosine of x - pi / 4, times sqrt(2); and of x - 3 pi / 4.
    behind = (sine - cosine, sine + cosine) if order == 0 else (-sine - cosine, sine - cosine)
    found = p * behind[0] + q * behind[1] if second else p * behind[1] - q * behind[0]
    return np.where(np.isinf(x), 0.0, found / np.sqrt(np.pi * x))


def _first(x: Any, order: int) -> Any:
    size = np.abs(x)
    small = size <= 8
    low, high = np.where(small, size, 8.0), np.where(small, 8.0, size)
    near = (
        chebyshev(series.J0_NEAR, _inside(low))
        if order == 0
        else low * chebyshev(series.J1_NEAR, _inside(low))
    )
    found = np.where(small, near, _wave(high, order, False))
    found = found if order == 0 else np.where(np.signbit(x), -found, found)
    return np.where(np.isnan(x), x, found)


def _second(x: Any, order: int) -> Any:
    small = x <= 8
    low, high = np.where(small & (x > 0), x, 8.0), np.where(small, 8.0, x)
    turn = 2 / np.pi * np.log(low)
    if order == 0:
        near = chebyshev(series.Y0_NEAR, _inside(low)) + turn * _first(low, 0)
    else:
        near = low * chebyshev(series.Y1_NEAR, _inside(low)) + turn * _first(low, 1) - 2 / (np.pi * low)
    found = np.where(small, near, _wave(high, order, True))
    return np.where(x == 0, -np.inf, np.where(x < 0, np.nan, np.where(np.isnan(x), x, found)))


@in_double
def j0(x: Any) -> Any:
    """Bessel function of the first kind of order 0."""
    return _first(x, 0)


@in_double
def j1(x: Any) -> Any:
    """Bessel function of the first kind of order 1."""
    return _first(x, 1)


@in_double
def y0(x: Any) -> Any:
    """Bessel function of the second kind of order 0."""
    return _second(x, 0)


@in_double
def y1(x: Any) -> Any:
    """Bessel function of the second kind of order 1."""
    return _second(x, 1)
