"""The gamma function and its relatives, to a few units in the last place.

The NumPy forms compute in double precision; results in single precision are rounded once, and lgamma has approximations for them,
which are as exact as that needs. Polynomials and their quotients were fitted with 30 digits or more at Chebyshev nodes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.base import TensorBase
from tensor.core.dtypes import promotion as rules
from tensor.operations.creation.ranges import arange
from tensor.operations.definition import operation
from tensor.operations.pointwise.arithmetic import MUL, SUB, undefined
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.reductions.sums import sum

from .evaluation import Ratio, constants, in_double, in_two_precisions, polynomial

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)

# lgamma(2 + z) / z, in powers of z, for z in [-1/2, 1/2].
LGAMMA_NEAR_2 = (
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
    return np.sin(math.pi * folded)


def _stirling(z: Any) -> Any:
    """Logarithm of the gamma function by Stirling's series, from :data:`_FAR` on."""
    inverse = 1 / (z * z)
    series = polynomial([b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)], inverse) / z
    return (z - 0.5) * (np.log(z) - 1) - 0.5 + 0.5 * np.log(2 * math.pi) + series


def log_gamma(x: Any) -> Any:
    """Of ``x >= 1/2``."""
    far = x >= _FAR
    z = np.where(far, x, _FAR)
    stirling = _stirling(z)
    # Nearer, steps of 1 lead to [1.5, 2.5].
    z = np.where(far, 2.0, x)
    product = np.ones_like(x)
    for _ in range(int(_FAR) - 2):
        above = z > 2.5
        z = np.where(above, z - 1, z)
        product = np.where(above, product * z, product)
    below = z < 1.5
    z = z - np.where(below, 1, 2)
    near = z * polynomial(LGAMMA_NEAR_2, z) + np.log(product) - np.log1p(np.where(below, z, 0))
    return np.where(far, np.where(np.isinf(x), np.inf, stirling), near)


def _lgamma(x: Any) -> Any:
    negative = x < 0.5
    size = np.where(negative, 1 - x, x)
    result = log_gamma(np.where(size > 0, size, 1.0))
    # Euler's reflection.
    sine = np.abs(_sin_pi(np.where(negative, np.abs(x), 0.5)))
    reflected = np.log(math.pi) - np.log(sine) - result
    # Of the smallest numbers the sine has no digits left.
    reflected = np.where(np.abs(x) < 1e-20, -np.log(np.abs(x)), reflected)
    reflected = np.where(np.isinf(x) | ((x <= 0) & (x == np.floor(x))), np.inf, reflected)
    return np.where(np.isnan(x), x, np.where(negative, reflected, result))


# In single precision, with relative errors below 1e-12, which are those of results up to 1e-5 from a zero at a negative number:
# lgamma(x) / ((x - 1) * (x - 2)) by x in [0.5, 4],
_NEAR_LGAMMA = Ratio(
    (
        32.8673896868818,
        733.251669749478,
        3198.6877182247704,
        4137.786324296176,
        1705.1935439196384,
        204.07622495697467,
        4.700234386071322,
    ),
    (
        13.180421797810956,
        517.9199313661569,
        3558.5002555276037,
        7140.403988787504,
        4889.389053061909,
        1152.2386110417294,
        80.60971414806536,
    ),
    np.float64,
)
# lgamma(x) in [4, 16],
_MIDDLE_LGAMMA = Ratio(
    (
        -59616347.78159594,
        6557742.830493857,
        73478612.68297882,
        -11009931.603185529,
        -8636417.112834886,
        -643649.9458441894,
        -8628.191944687916,
    ),
    (
        -23209116.66359383,
        -75278928.75736257,
        -39735714.76304523,
        -5609603.565950183,
        -220260.80127590828,
        -1728.276419110073,
    ),
    np.float64,
)
# and sin(pi * x) / (pi * x), in powers of x * x, for abs(x) up to 1/2.
_SINC = constants(
    (
        0.9999999999999383,
        -1.6449340668251762,
        0.8117424238668627,
        -0.1907517911856182,
        0.026147480572433292,
        -0.002343966358478821,
        0.00014234924643568298,
    ),
    np.float64,
)


def _single_lgamma(x: Any, out: Any) -> None:
    values = x.astype(np.float64).reshape(-1)
    # x or 1 - x, whichever is at least 1/2.
    size = values - 0.5
    np.abs(size, out=size)
    size += 0.5
    result = _log_gamma_for_single(size)
    low = np.flatnonzero(values < 0.5)
    if low.size:
        # Euler's reflection. What is left of a number beside the nearest whole one has the same sine but for the sign.
        rest = values.take(low)
        rest -= np.rint(rest)
        sine = polynomial(_SINC, np.square(rest))
        sine *= rest
        np.log(np.abs(sine, out=sine), out=sine)
        sine += result.take(low)
        result[low] = np.negative(sine, out=sine)
    np.copyto(out, result.reshape(x.shape), casting="same_kind")
    if not x.min(initial=0.0) > -np.inf:
        out[np.isneginf(x)] = np.inf


def _log_gamma_for_single(x: Any) -> Any:
    """Of float64 ``x >= 1/2``, as exact as float32 needs."""
    near = np.minimum(x, 4.0)
    result = _NEAR_LGAMMA(near, np.empty_like(x))
    # (x - 1) * (x - 2), exact and without a negative zero.
    zeros = near - 3.0
    zeros *= near
    zeros += 2.0
    result *= zeros
    beyond = np.flatnonzero(x > 4.0)
    if beyond.size:
        z = x.take(beyond)
        middle = np.minimum(z, 16.0)
        values = _MIDDLE_LGAMMA(middle, np.empty_like(z))
        far = np.flatnonzero(z > 16.0)
        if far.size:
            values[far] = _stirling(z.take(far))
        result[beyond] = values
    return result


#: Of float32 arrays in other ways than of others.
lgamma_on_host = in_two_precisions(_single_lgamma, _lgamma)


LGAMMA = Pointwise(
    "lgamma",
    "lgamma(a)",
    lgamma_on_host,
    rule=rules.floating,
    categories=_REAL,
    derivatives=(lambda grad, a: MUL.binary(grad, DIGAMMA.unary(a)),),
    tabulated=True,
)


@operation(in_place=True, also="special.gammaln")
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the absolute value of the gamma function; infinite at 0 and negative whole numbers.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.lgamma(tensor.tensor([1.0, 5.0]))
    tensor([0.0000, 3.1781])
    """
    return LGAMMA.out(out, input)


@in_double
def digamma_on_host(x: Any) -> Any:
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
    tangent = np.tan(math.pi * np.where(negative & (fraction != 0), fraction, 0.25))
    result = np.where(negative, result - math.pi / tangent, result)
    result = np.where(negative & ((fraction == 0) | np.isinf(x)), np.nan, result)
    return np.where(x == 0, np.copysign(np.inf, -x), np.where(np.isnan(x), x, result))


DIGAMMA: Pointwise = Pointwise(
    "digamma",
    "digamma(a)",
    digamma_on_host,
    rule=rules.floating,
    categories=_REAL,
    include="special_functions.cuh",
    derivatives=(lambda grad, a: MUL.binary(grad, POLYGAMMA.binary(a, 1)),),
    tabulated=True,
)


@operation(namespace="tensor special", in_place=True, also="special.psi")
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithmic derivative of the gamma function; NaN at negative whole numbers, infinite at 0.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.digamma(tensor.tensor([0.5, 1.0]))
    tensor([-1.9635, -0.5772])
    """
    return DIGAMMA.out(out, input)


#: Factorials of the numbers up to twice the count of Bernoulli numbers.
_FACTORIALS = [math.factorial(n) for n in range(2 * len(_BERNOULLI) + 1)]


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


@in_double
def polygamma_on_host(x: Any, order: Any) -> Any:
    """Derivative of :func:`digamma` of an order of at least 1."""
    n = int(order)
    pole = (x <= 0) & (x == np.floor(x))
    factorial = 1.0
    # That of 171 is infinite.
    for k in range(2, min(n, 171) + 1):
        factorial *= k
    if n == 1:
        # Reflection spares the sum over all numbers up to 0.
        negative = x < 0.5
        z = np.where(pole | np.isinf(x) | np.isnan(x), 1.0, np.where(negative, 1 - x, x))
        sine = np.where(pole, 1.0, _sin_pi(np.where(negative & np.isfinite(x), x, 0.5)))
        result = _zeta(2.0, z)
        result = np.where(negative, (math.pi / sine) ** 2 - result, result)
    else:
        lost = pole | ~np.isfinite(x)
        result = (1 if n % 2 else -1) * factorial * _zeta(n + 1.0, np.where(lost, 1.0, x))
    result = np.where(pole, np.inf if n % 2 else -np.inf, result)
    result = np.where(np.isinf(x), np.where(x > 0, 0.0, np.nan), result)
    return np.where(np.isnan(x), x, result)


#: Integers up to here are exact in single precision.
_EXACT = 1 << 24

#: Of (element, order >= 1).
POLYGAMMA: Pointwise = Pointwise(
    "polygamma",
    "polygamma(a, b)",
    polygamma_on_host,
    rule=rules.floating,
    typed=1,
    categories=_REAL,
    include="special_functions.cuh",
    derivatives=(lambda grad, a, b: MUL.binary(grad, POLYGAMMA.binary(a, b + 1)),),
)


@operation(namespace="tensor special", method=False)
def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Derivative of order ``n`` of :func:`digamma`.

    Parameters
    ----------
    n : int
        Order; 0 is :func:`digamma` itself.
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    RuntimeError
        If ``n`` is negative.
    ValueError
        If ``n`` needs more than 64 bits.
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.polygamma(1, tensor.tensor([0.5, 1.0]))
    tensor([4.9348, 1.6449])
    """
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got {n}")
    if n >= 1 << 63:
        raise ValueError(f"polygamma(n, x): n must be an integer of 64 bits, got {n}")
    if n > _EXACT:
        # As infinite as the derivative of the same parity that single precision has a number for.
        n = _EXACT - 2 + n % 2
    return DIGAMMA.out(out, input) if n == 0 else POLYGAMMA.out(out, input, n)


@operation(namespace="", method=False, also="Tensor.polygamma Tensor.polygamma_")
def polygamma_of(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """:func:`polygamma` with the arguments in the order of the method: derivative ``n`` of the digamma function.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype; integers and bools give the default floating dtype.
    n : int
        Order of the derivative, not negative.

    Raises
    ------
    RuntimeError
        If ``n`` is negative.
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.tensor([1.0, 2.0]).polygamma(1)
    tensor([1.6449, 0.6449])
    """
    return polygamma(n, input, out=out)


def zeta_on_host(s: Any, x: Any) -> Any:
    """Hurwitz's zeta function: the sum of ``(x + k) ** -s`` over all k >= 0."""
    dtype = np.result_type(s, x)
    s, x = np.broadcast_arrays(np.asarray(s, np.float64), np.asarray(x, np.float64))
    pole = (x <= 0) & (x == np.floor(x))
    lost = ~((s > 1) & (s < np.inf)) | pole | np.isnan(x) | ((x < 0) & (s != np.floor(s)))
    result = np.where(lost, np.nan, _zeta(np.where(lost, 2.0, s), np.where(lost, 1.0, x)))
    return np.where((s == 1) | (pole & (s > 1)), np.inf, result).astype(dtype)


def _next(a: Tensor | float, b: Tensor) -> Tensor:
    return ZETA(a + 1, b)


ZETA = Pointwise(
    "zeta",
    "zeta(a, b)",
    zeta_on_host,
    rule=rules.floating,
    categories=_REAL,
    include="special_functions.cuh",
    node=lambda a, b: (
        f"SpecialZetaBackward{1 if not isinstance(a, TensorBase) else 0 if isinstance(b, TensorBase) else 2}"
    ),
    derivatives=(
        undefined("zeta"),
        lambda grad, a, b: MUL.binary(MUL.binary(grad, -a), _next(a, b)),
    ),
)


@operation(namespace="special", method=False)
def zeta(input: Tensor | float, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """Hurwitz zeta function: the sum of ``(other + k)**-input`` over all whole ``k >= 0``.

    Infinite where ``input`` is 1, NaN where it is smaller. The derivative with respect to ``input`` is not
    implemented.

    Parameters
    ----------
    input, other : Tensor or float
        Of real dtypes and shapes that broadcast, at most one of them a number; integers give the default floating
        dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If both are numbers.
    NotImplementedError
        If a dtype is complex.

    Examples
    --------
    >>> tensor.special.zeta(tensor.tensor([2.0, 4.0]), 1.0)
    tensor([1.6449, 1.0823])
    """
    return ZETA.out(out, input, other)


@in_double
def mvlgamma_on_host(x: Any, p: Any) -> Any:
    """Logarithm of the multivariate gamma function of dimension ``p``."""
    p = int(p)
    total = np.full_like(x, p * (p - 1) / 4 * np.log(math.pi))
    rows = max(_TERMS // max(x.size, 1), 1)
    for start in range(0, p, rows):
        steps = np.arange(start, min(start + rows, p)).reshape(-1, *[1] * x.ndim) / 2
        total += np.sum(lgamma_on_host(x - steps), axis=0)
    return total


#: Terms of the sum that are computed at once on the host.
_TERMS = 1 << 14
#: Dimensions beyond which mvlgamma, a sum of as many terms for each element, would hold up a device.
_MOST_TERMS = 1 << 20


def _sum_of_digammas(a: Tensor, p: int) -> Tensor:
    steps = arange(int(p), dtype=a.dtype, device=a.device)
    return sum(digamma(SUB.binary(a.unsqueeze(-1), MUL.binary(steps, 0.5))), -1)


#: Of (element, dimension).
MVLGAMMA = Pointwise(
    "mvlgamma",
    "multivariate_lgamma(a, b)",
    mvlgamma_on_host,
    rule=rules.floating,
    typed=1,
    categories=_REAL,
    include="special_functions.cuh",
    derivatives=(lambda grad, a, b: MUL.binary(grad, _sum_of_digammas(a, b)),),
)


@operation(in_place=True, also="special.multigammaln")
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the absolute value of the multivariate gamma function of dimension ``p``.

    That is ``log(pi) * p * (p - 1) / 4`` and the sum of ``lgamma(input - j / 2)`` over ``0 <= j < p``.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype. The result has its shape; integers give the default floating dtype.
    p : int
        Dimension, at least 1.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    RuntimeError
        If ``p`` is smaller than 1 or larger than 2**20, or the dtype is bool.
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.mvlgamma(tensor.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    if input._layout.dtype.category is Category.BOOL:
        raise RuntimeError("mvlgamma(): The input tensor may not be a boolean tensor.")
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1, got {p}")
    if p > _MOST_TERMS:
        raise RuntimeError(
            f"mvlgamma(): p is at most {_MOST_TERMS}, as each element is a sum of p terms, but got {p}"
        )
    return MVLGAMMA.out(out, input, p)
