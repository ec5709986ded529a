"""Special functions of NumPy arrays, to a few units in the last place.

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
# lgamma(2 + z) / z, in powers of z, for z in [-1/2, 1/2].
_LGAMMA = (
    0.42278433509846713,
    0.3224670334241132,
    -0.06735230105319814,
    0.02058080842778457,
    -0.0073855510286681535,
    0.002890510330738737,
    -0.0011927539120010226,
    0.0005096695248853096,
    -0.00022315475074520367,
    9.945750909889392e-05,
    -4.4926351103833334e-05,
    2.050726741605779e-05,
    -9.438458716242811e-06,
    4.374374916915131e-06,
    -2.0449201467015115e-06,
    9.578663334114758e-07,
    -4.303558760359961e-07,
    2.0304806751615227e-07,
    -1.3412819758517287e-07,
    6.379047507619774e-08,
)
# Bernoulli numbers B(2), B(4), ...: what the asymptotic series are made of.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
#: From here on the asymptotic series with these terms are exact to double precision.
_FAR = 10.0


def _in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` computed in double precision, on arrays with one dimension."""

    @wraps(function)
    def computed(a: Any, *rest: Any) -> Any:
        array = np.asarray(a)
        found = function(array.astype(np.float64).reshape(-1), *rest)
        return found.reshape(array.shape).astype(array.dtype)

    return computed


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    result = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result *= x
        result += coefficient
    return result


def _chebyshev(coefficients: Sequence[float], x: Any) -> Any:
    """Sum of a Chebyshev series by Clenshaw's recurrence."""
    twice = 2 * x
    first, second = np.zeros_like(x), np.zeros_like(x)
    for coefficient in coefficients[:0:-1]:
        first, second = twice * first - second + coefficient, first
    return x * first - second + coefficients[0]


# The error function


def _small_erf(x: Any) -> Any:
    return x * _polynomial(_ERF, x * x)


def _large_erfc(x: Any) -> Any:
    """Of ``x >= 0``. The square is taken apart, so that its rounding does not grow in the exponential."""
    head = x.astype(np.float32).astype(np.float64)
    bell = np.exp(-head * head) * np.exp(-(x - head) * (x + head))
    series = _chebyshev(_ERFC, (x - 3.75) / (x + 3.75))
    return np.where(x > 30, 0.0, bell * series / (1 + 2 * x))


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


@_in_double
def erf(x: Any) -> Any:
    """Error function."""
    return _erf(x)


@_in_double
def erfc(x: Any) -> Any:
    """``1 - erf(x)``, exact also where that is tiny."""
    return _erfc(x)


@_in_double
def erfinv(x: Any) -> Any:
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


# The gamma function


def _sin_pi(x: Any) -> Any:
    """``sin(pi * x)``, exact at whole numbers."""
    rest = x - 2 * np.floor(x / 2)
    folded = np.where(rest > 1, rest - 2, rest)
    folded = np.where(folded > 0.5, 1 - folded, np.where(folded < -0.5, -1 - folded, folded))
    return np.sin(_PI * folded)


def _lgamma(x: Any) -> Any:
    """Of ``x >= 1/2``."""
    far = x >= _FAR
    z = np.where(far, x, _FAR)
    inverse = 1 / (z * z)
    series = _polynomial([b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)], inverse) / z
    stirling = (z - 0.5) * (np.log(z) - 1) - 0.5 + 0.5 * np.log(2 * _PI) + series
    # Nearer, steps of 1 lead to [1.5, 2.5].
    z = np.where(far, 2.0, x)
    product = np.ones_like(x)
    for _ in range(int(_FAR) - 2):
        above = z > 2.5
        z = np.where(above, z - 1, z)
        product = np.where(above, product * z, product)
    below = z < 1.5
    z = z - np.where(below, 1, 2)
    near = z * _polynomial(_LGAMMA, z) + np.log(product) - np.log1p(np.where(below, z, 0))
    return np.where(far, np.where(np.isinf(x), np.inf, stirling), near)


@_in_double
def lgamma(x: Any) -> Any:
    """Logarithm of the absolute value of the gamma function."""
    negative = x < 0.5
    size = np.where(negative, 1 - x, x)
    result = _lgamma(np.where(size > 0, size, 1.0))
    # Euler's reflection.
    sine = np.abs(_sin_pi(np.where(negative, np.abs(x), 0.5)))
    reflected = np.log(_PI) - np.log(sine) - result
    # Of the smallest numbers the sine has no digits left.
    reflected = np.where(np.abs(x) < 1e-20, -np.log(np.abs(x)), reflected)
    reflected = np.where(np.isinf(x) | ((x <= 0) & (x == np.floor(x))), np.inf, reflected)
    return np.where(np.isnan(x), x, np.where(negative, reflected, result))


@_in_double
def digamma(x: Any) -> Any:
    """Logarithmic derivative of the gamma function."""
    negative = x < 0
    z = np.where(negative, 1 - x, x)
    z = np.where(z > 0, z, 1.0)
    result = np.zeros_like(x)
    for _ in range(int(_FAR)):
        near = z < _FAR
        result -= np.where(near, 1 / z, 0)
        z = np.where(near, z + 1, z)
    inverse = 1 / (z * z)
    series = _polynomial([b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)], inverse) * inverse
    result += np.log(z) - 0.5 / z - np.where(np.isinf(z), 0, series)
    fraction = x - np.trunc(x)
    tangent = np.tan(_PI * np.where(negative & (fraction != 0), fraction, 0.25))
    result = np.where(negative, result - _PI / tangent, result)
    result = np.where(negative & ((fraction == 0) | np.isinf(x)), np.nan, result)
    return np.where(x == 0, np.copysign(np.inf, -x), np.where(np.isnan(x), x, result))


def _zeta(s: float, x: Any) -> Any:
    """Sum of ``(x + k) ** -s`` over all k >= 0, for a whole ``s > 1``, by Euler and Maclaurin's formula."""
    total = np.zeros_like(x)
    z = x.copy()
    while np.any(near := z < _FAR + s):
        total += np.where(near, np.where(near, z, 1.0) ** -s, 0)
        z = np.where(near, z + 1, z)
    power = z**-s
    total += power * z / (s - 1) + power / 2
    factor, term = s, power / z
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total += bernoulli * factor / float(_FACTORIALS[2 * k]) * term
        factor *= (s + 2 * k - 1) * (s + 2 * k)
        term = term / (z * z)
    return np.where(np.isinf(x), 0.0, total)


_FACTORIALS = [1]
for _number in range(1, 2 * len(_BERNOULLI) + 1):
    _FACTORIALS.append(_FACTORIALS[-1] * _number)


@_in_double
def polygamma(x: Any, order: Any) -> Any:
    """Derivative of :func:`digamma` of an order of at least 1."""
    n = int(order)
    pole = (x <= 0) & (x == np.floor(x))
    factorial = 1.0
    for k in range(2, n + 1):
        factorial *= k
    if n == 1:
        # Reflection spares the sum over all numbers up to 0.
        negative = x < 0.5
        z = np.where(pole | np.isinf(x) | np.isnan(x), 1.0, np.where(negative, 1 - x, x))
        sine = np.where(pole, 1.0, _sin_pi(np.where(negative & np.isfinite(x), x, 0.5)))
        result = _zeta(2.0, z)
        result = np.where(negative, (_PI / sine) ** 2 - result, result)
    else:
        lost = pole | ~np.isfinite(x)
        result = (1 if n % 2 else -1) * factorial * _zeta(n + 1.0, np.where(lost, 1.0, x))
    result = np.where(pole, np.inf if n % 2 else -np.inf, result)
    result = np.where(np.isinf(x), np.where(x > 0, 0.0, np.nan), result)
    return np.where(np.isnan(x), x, result)
