"""The gamma function of NumPy arrays and what belongs to it, to a few units in the last place.

They are computed in double precision; single precision is rounded once. The polynomial was fitted with 60
digits at Chebyshev nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .error_functions_numpy import in_double, polynomial

_PI = np.pi

# lgamma(2 + z) / z, in powers of z, for z in [-1/2, 1/2].
LGAMMA = (
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


def _sin_pi(x: Any) -> Any:
    """``sin(pi * x)``, exact at whole numbers."""
    rest = x - 2 * np.floor(x / 2)
    folded = np.where(rest > 1, rest - 2, rest)
    folded = np.where(folded > 0.5, 1 - folded, np.where(folded < -0.5, -1 - folded, folded))
    return np.sin(_PI * folded)


def log_gamma(x: Any) -> Any:
    """Of ``x >= 1/2``."""
    far = x >= _FAR
    z = np.where(far, x, _FAR)
    inverse = 1 / (z * z)
    series = polynomial([b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)], inverse) / z
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
    near = z * polynomial(LGAMMA, z) + np.log(product) - np.log1p(np.where(below, z, 0))
    return np.where(far, np.where(np.isinf(x), np.inf, stirling), near)


@in_double
def lgamma(x: Any) -> Any:
    """Logarithm of the absolute value of the gamma function."""
    negative = x < 0.5
    size = np.where(negative, 1 - x, x)
    result = log_gamma(np.where(size > 0, size, 1.0))
    # Euler's reflection.
    sine = np.abs(_sin_pi(np.where(negative, np.abs(x), 0.5)))
    reflected = np.log(_PI) - np.log(sine) - result
    # Of the smallest numbers the sine has no digits left.
    reflected = np.where(np.abs(x) < 1e-20, -np.log(np.abs(x)), reflected)
    reflected = np.where(np.isinf(x) | ((x <= 0) & (x == np.floor(x))), np.inf, reflected)
    return np.where(np.isnan(x), x, np.where(negative, reflected, result))


@in_double
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
    series = polynomial([b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)], inverse) * inverse
    result += np.log(z) - 0.5 / z - np.where(np.isinf(z), 0, series)
    fraction = x - np.trunc(x)
    tangent = np.tan(_PI * np.where(negative & (fraction != 0), fraction, 0.25))
    result = np.where(negative, result - _PI / tangent, result)
    result = np.where(negative & ((fraction == 0) | np.isinf(x)), np.nan, result)
    return np.where(x == 0, np.copysign(np.inf, -x), np.where(np.isnan(x), x, result))


def _zeta(s: Any, x: Any) -> Any:
    """Sum of ``(x + k) ** -s`` over all k >= 0, for ``s > 1``, by Euler and Maclaurin's formula.

    Negative ``x`` are for whole ``s``.
    """
    total = np.zeros_like(x)
    z = x.copy()
    rest = np.ones(x.shape, dtype=bool)
    while np.any(near := rest & (z < _FAR + s)):
        term = np.where(near, np.where(near, z, 1.0) ** -s, 0)
        total += term
        # Large powers vanish long before the formula for the rest holds.
        rest &= ~near | (z <= 0) | (term > 1e-18 * np.abs(total))
        z = np.where(near & rest, z + 1, z)
    z = np.where(rest, z, _FAR + s)
    power = z**-s
    tail = power * z / (s - 1) + power / 2
    factor, term = s, power / z
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        tail += bernoulli * factor / float(_FACTORIALS[2 * k]) * term
        factor = factor * (s + 2 * k - 1) * (s + 2 * k)
        term = term / (z * z)
    return np.where(np.isinf(x), 0.0, total + np.where(rest, tail, 0.0))


_FACTORIALS = [1]
for _number in range(1, 2 * len(_BERNOULLI) + 1):
    _FACTORIALS.append(_FACTORIALS[-1] * _number)


@in_double
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


def zeta(s: Any, x: Any) -> Any:
    """Hurwitz's zeta function: the sum of ``(x + k) ** -s`` over all k >= 0."""
    kind = np.result_type(s, x)
    s, x = np.broadcast_arrays(np.asarray(s, np.float64), np.asarray(x, np.float64))
    pole = (x <= 0) & (x == np.floor(x))
    lost = ~((s > 1) & (s < np.inf)) | pole | np.isnan(x) | ((x < 0) & (s != np.floor(s)))
    found = np.where(lost, np.nan, _zeta(np.where(lost, 2.0, s), np.where(lost, 1.0, x)))
    return np.where((s == 1) | (pole & (s > 1)), np.inf, found).astype(kind)


@in_double
def mvlgamma(x: Any, p: Any) -> Any:
    """Logarithm of the multivariate gamma function of dimension ``p``."""
    p = int(p)
    total = np.full_like(x, p * (p - 1) / 4 * np.log(_PI))
    for j in range(p):
        total += lgamma(x - j / 2)
    return total
