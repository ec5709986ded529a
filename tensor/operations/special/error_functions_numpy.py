"""Error functions of NumPy arrays, to a few units in the last place, and what other special functions are made of.

They are computed in double precision; single precision is rounded once. Polynomials were fitted with 60
digits at Chebyshev nodes.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PI = np.pi

# erf(x) / x, in powers of x * x, for x * x in [0, 1].
_ERF = (
    1.1283791670955126,
    -0.3761263890318375,
    0.11283791670954879,
    -0.026866170645076792,
    0.0052239776248180145,
    -0.000854832698083379,
    0.0001205533111164271,
    -1.4925595266831182e-05,
    1.6461000484121368e-06,
    -1.6350312701054695e-07,
    1.4659775274047436e-08,
    -1.1372848856791674e-09,
    5.957176147748911e-11,
)
# (1 + 2 * x) * exp(x * x) * erfc(x), Chebyshev series in (x - 3.75) / (x + 3.75), for x >= 0. The variable
# is that of M. M. Shepherd and J. G. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", 1981.
_ERFC = (
    1.1775789345674017,
    -0.004590054580646478,
    -0.08424913336651792,
    0.05920993999819189,
    -0.026658668435305753,
    0.009074997670705265,
    -0.002413163540417608,
    0.0004907758365258086,
    -6.916973302501207e-05,
    4.13902798607301e-06,
    7.74038306619849e-07,
    -2.1886401049234397e-07,
    1.076499946567091e-08,
    4.521959811218287e-09,
    -7.754400208831351e-10,
    -6.318088340886684e-11,
    2.86879501093067e-11,
    1.9455868545777938e-13,
    -9.654696748433504e-13,
    3.2525481481363487e-14,
    3.3478119482752794e-14,
    -1.8645628782428707e-15,
    -1.250795046938718e-15,
    7.418231959528878e-17,
    5.068131210430141e-17,
)


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` computed in double precision, on arrays with one dimension."""

    @wraps(function)
    def computed(a: Any, *rest: Any) -> Any:
        array = np.asarray(a)
        found = function(array.astype(np.float64).reshape(-1), *rest)
        return found.reshape(array.shape).astype(array.dtype)

    return computed


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Sum of ``coefficients[k] * x**k``."""
    result = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result *= x
        result += coefficient
    return result


def chebyshev(coefficients: Sequence[float], x: Any) -> Any:
    """Sum of a Chebyshev series by Clenshaw's recurrence."""
    twice = 2 * x
    first, second, next_ = np.zeros_like(x), np.zeros_like(x), np.empty_like(x)
    for coefficient in coefficients[:0:-1]:
        np.multiply(twice, first, out=next_)
        next_ -= second
        next_ += coefficient
        first, second, next_ = next_, first, second
    return x * first - second + coefficients[0]


# The error function


def _small_erf(x: Any) -> Any:
    return x * polynomial(_ERF, x * x)


def _bell(x: Any, width: float) -> Any:
    """``exp(-x * x / width)``. The square is taken apart, so that its rounding does not grow in the exponential."""
    head = x.astype(np.float32).astype(np.float64)
    return np.exp(-head * head / width) * np.exp(-(x - head) * (x + head) / width)


def _scaled_erfc(x: Any) -> Any:
    """``exp(x * x) * erfc(x)`` of ``x >= 0``."""
    finite = np.minimum(x, 1e300)
    return chebyshev(_ERFC, (finite - 3.75) / (finite + 3.75)) / (1 + 2 * finite)


def _large_erfc(x: Any) -> Any:
    """Of ``x >= 0``."""
    return np.where(x > 30, 0.0, _bell(x, 1) * _scaled_erfc(x))


def _erf(x: Any) -> Any:
    size = np.abs(x)
    small = size < 1
    result = np.copysign(1 - _large_erfc(np.where(small, 1.0, size)), x)
    return np.where(small, _small_erf(np.where(small, x, 0.0)), np.where(np.isnan(x), x, result))


def _erfc(x: Any) -> Any:
    small = np.abs(x) < 0.5
    far = _large_erfc(np.where(small, 1.0, np.abs(x)))
    result = np.where(small, 1 - _small_erf(np.where(small, x, 0.0)), np.where(x < 0, 2 - far, far))
    return np.where(np.isnan(x), x, result)


@in_double
def erf(x: Any) -> Any:
    """Error function."""
    return _erf(x)


@in_double
def erfc(x: Any) -> Any:
    """``1 - erf(x)``, exact also where that is tiny."""
    return _erfc(x)


def _erfinv(x: Any) -> Any:
    """Inverse of the error function.

    S. Winitzki's formula ("A handy approximation for the error function and its inverse", 2008) is right to
    three digits; two steps of Halley's method leave nothing to do.
    """
    size = np.abs(x)
    inside = size < 1
    size = np.where(inside, size, 0.0)
    logarithm = np.log1p(-size * size)
    middle = 2 / (_PI * 0.147) + logarithm / 2
    found = np.sqrt(np.maximum(np.sqrt(middle * middle - logarithm / 0.147) - middle, 0))
    for _ in range(2):
        # Near 1 what is left to 1 is compared.
        off = np.where(size < 0.5, _erf(found) - size, (1 - size) - _erfc(found))
        step = off / (2 / np.sqrt(_PI) * np.exp(-found * found))
        found = found - step / (1 + found * step)
    edge = np.where(np.abs(x) == 1, np.inf, np.nan)
    return np.copysign(np.where(inside, found, edge), x)


@in_double
def erfinv(x: Any) -> Any:
    """Inverse of the error function."""
    return _erfinv(x)


@in_double
def erfcx(x: Any) -> Any:
    """``exp(x * x) * erfc(x)``."""
    size = np.abs(x)
    found = _scaled_erfc(np.where(np.isnan(x), 0.0, size))
    near = np.maximum(np.where(np.isnan(x), 0.0, x), -27.0)
    grown = np.where(x < -26.7, np.inf, 2 / _bell(near, 1) - found)
    return np.where(np.isnan(x), x, np.where(x < 0, grown, np.where(np.isinf(x), 0.0, found)))


# The normal distribution

_ROOT = np.sqrt(0.5)


def _lower_tail(size: Any) -> Any:
    """The normal distribution function at ``-size <= 0``."""
    return np.where(size > 40, 0.0, 0.5 * _bell(np.minimum(size, 40.0), 2) * _scaled_erfc(size * _ROOT))


def _ndtr(x: Any) -> Any:
    tail = _lower_tail(np.abs(np.where(np.isnan(x), 0.0, x)))
    middle = 0.5 + 0.5 * _erf(np.where(np.abs(x) < 1, x, 0.0) * _ROOT)
    return np.where(np.isnan(x), x, np.where(np.abs(x) < 1, middle, np.where(x < 0, tail, 1 - tail)))


def _log_ndtr(x: Any) -> Any:
    left = np.minimum(np.where(np.isnan(x), 0.0, x), -1.0)
    far = np.log(_scaled_erfc(-left * _ROOT) / 2) - left * left / 2
    near = np.log1p(-_ndtr(-np.where(x < -1, 0.0, x)))
    return np.where(np.isnan(x), x, np.where(x < -1, far, near))


@in_double
def ndtr(x: Any) -> Any:
    """Distribution function of the standard normal distribution."""
    return _ndtr(x)


@in_double
def log_ndtr(x: Any) -> Any:
    """Logarithm of :func:`ndtr`, exact also where that is tiny."""
    return _log_ndtr(x)


@in_double
def ndtri(p: Any) -> Any:
    """Inverse of :func:`ndtr`.

    Formula 26.2.23 of M. Abramowitz and I. A. Stegun's "Handbook of Mathematical Functions" is right to three
    digits; steps of Newton's method on the logarithm leave nothing to do.
    """
    inside = (p > 0) & (p < 1)
    least = np.where(inside, np.minimum(p, 1 - p), 0.25)
    t = np.sqrt(-2 * np.log(least))
    numerator = polynomial((2.515517, 0.802853, 0.010328), t)
    size = t - numerator / polynomial((1.0, 1.432788, 0.189269, 0.001308), t)
    for _ in range(3):
        slope = _scaled_erfc(np.maximum(size, 0.0) * _ROOT) * np.sqrt(_PI / 2)
        size = np.maximum(size, 0.0) + slope * (_log_ndtr(-np.maximum(size, 0.0)) - np.log(least))
    # Near the middle the distance from it is exact, its logarithm is not.
    middle = np.abs(p - 0.5) < 0.25
    centre = np.sqrt(2.0) * _erfinv(np.where(middle, 2 * p - 1, 0.0))
    found = np.where(middle, centre, np.where(p < 0.5, -size, size))
    edge = np.where(p == 0, -np.inf, np.where(p == 1, np.inf, np.nan))
    return np.where(inside, found, edge)
