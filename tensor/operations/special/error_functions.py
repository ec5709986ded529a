"""Error functions and the normal distribution's, to a few units in the last place.

The NumPy forms compute in double precision. In single precision most are rounded once, and have approximations of their
own, which are as exact as that needs; erf and the tail for gelu compute in single precision, and are off by 4 units at
most (the tail by more where the function is tiny). All were fitted with 30 digits or more at Chebyshev nodes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.dtypes import promotion as rules
from tensor.core.host.scratch import scratch
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.arithmetic import DIV, MUL, NEG, SUB
from tensor.operations.pointwise.powers import EXP, SQUARE
from tensor.operations.pointwise.selection import zero_where
from tensor.operations.pointwise_operation import Pointwise

from .evaluation import Ratio, chebyshev, constants, in_double, in_two_precisions, polynomial

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)

# Error functions

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


# In single precision NumPy's loops for float32 are several times as quick as those for float64.

# artanh(erf(x)) / x is a constant and x * x times this function of x * x, for abs(x) up to 4.2, where NumPy's tanh of it rounds
# to 1: relative errors of erf below 6e-8, and of 4 units with those of NumPy's float32 arithmetic.
_ARTANH_OF_ERF, _SLOPE_OF_ERF = (
    Ratio(
        (529.8890490609703, 76.77353987340777, 6.99106930825665),
        (5156.025374618533, 757.1414596492955, 99.70515316409848),
        np.float32,
    ),
    np.array(2 / math.sqrt(math.pi), np.float32),
)

# In single precision one rational function is exact enough, computed in double precision, for all numbers.

# The normal distribution function at -x, times exp(x * x / 2), by x in [0, 15]: relative errors below 7e-9. Beyond, the function
# itself rounds to 0.
_TAIL_NUMERATOR = (
    0.5000000031505902,
    0.4392830767709471,
    0.18396888381874266,
    0.04088104415742753,
    0.004153218058651195,
)
_TAIL_DENOMINATOR = (
    1.0,
    1.6764511605828534,
    1.205547206810761,
    0.471408027595856,
    0.10247969783508767,
    0.010410462148464262,
)


def _single_erf(x: Any, out: Any) -> None:
    argument = x.clip(*_ENDS_OF_ERF, out=scratch(x))
    square = np.square(argument, out=scratch(x))
    _ARTANH_OF_ERF(square, out)
    out *= square
    out += _SLOPE_OF_ERF
    out *= argument
    np.tanh(out, out=out)


_ENDS_OF_ERF = constants((-4.2, 4.2), np.float32)

# The normal distribution function at -x over exp(-x * x / 2), by x in [0, 14.5]: relative errors below 1.2e-7 up to x = 3,
# and 4e-7 up to 5.5.
_TAIL = Ratio(
    (13.520598776842167, 9.322668450875675, 2.967089159729255, 0.39882939864017075),
    (27.041197553684334, 40.22097551223683, 24.506542305554294, 7.427610362345658),
    np.float32,
)
_MINUS_HALF = np.array(-0.5, np.float32)
#: The distribution function times its argument rounds to 0 in single precision from the second on, and up to the largest one
#: powers are numbers.
_ENDS_OF_TAIL, _LARGEST = constants((0.0, 14.5), np.float32), 1e9


def single_normal_tail(x: Any, out: Any) -> tuple[Any, Any, Any, bool]:
    """The normal distribution function at ``-abs(x)``, of float32, in two factors.

    Their product has relative errors below 2e-6, and 1e-5 where ``x`` is beyond -5.

    Returns
    -------
    tuple
        ``out``, which has the first factor; ``exp(-x * x / 2)``, the second one; ``abs(x)``; and whether there are numbers beyond
        1e9 or NaN, in which case the third is at most 14.5, from where on the product times it rounds to 0. The second and the third
        are scratch memory.
    """
    size = np.abs(x, out=scratch(x))
    hard = not np.maximum.reduce(size, axis=None, initial=0.0) <= _LARGEST
    if hard:
        size.clip(*_ENDS_OF_TAIL, out=size)
    _TAIL(size, out)
    bell = np.square(size, out=scratch(size))
    bell *= _MINUS_HALF
    return out, np.exp(bell, out=bell), size, hard


def normal_tails(x: Any) -> tuple[Any, Any]:
    """The normal distribution function at ``x``, and ``exp(-x * x / 2)``: float64, as exact as float32 needs, in scratch memory.

    Parameters
    ----------
    x
        Array of float64 of at least one dimension.
    """
    size = np.abs(x, out=scratch(x))
    if not np.maximum.reduce(size, axis=None, initial=0.0) <= 15:
        np.minimum(size, 15.0, out=size)
    bell = np.square(size, out=scratch(x))
    bell *= -0.5
    np.exp(bell, out=bell)
    tail = polynomial(_TAIL_NUMERATOR, size, scratch(x))
    tail /= polynomial(_TAIL_DENOMINATOR, size, scratch(x))
    tail *= bell
    # 1 - tail at positive numbers, without a branch.
    np.multiply(tail, -2.0, out=size)
    size += 1.0
    tail += zero_where(~(x > 0), size, size)
    return tail, bell


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


#: Error function of NumPy arrays.
erf_on_host = in_two_precisions(_single_erf, _erf)


ERF = Pointwise(
    "erf",
    "erf(a)",
    erf_on_host,
    rule=rules.floating,
    categories=_REAL,
    derivatives=(lambda grad, a: BELL.binary(grad, a),),
    tabulated=True,
)

#: Gradient of the error function: of (gradient, element).
BELL: Pointwise = Pointwise(
    "erf_backward",
    f"Compute({2 / math.sqrt(math.pi)!r}) * exp(-b * b) * a",
    lambda a, b: b.dtype.type(2 / math.sqrt(math.pi)) * np.exp(-b * b) * a,
    derivatives=(
        lambda grad, b: BELL.binary(grad, b),
        lambda grad, a, b: MUL.binary(MUL.binary(BELL.binary(grad, b), a), MUL.binary(b, -2)),
    ),
)


@operation(namespace="tensor special", in_place=True, also="tensor.erf_")
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Error function: ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to ``input``.

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
    >>> tensor.erf(tensor.tensor([0.0, 0.5, 2.0]))
    tensor([0.0000, 0.5205, 0.9953])
    """
    return ERF.out(out, input)


def _single_erfc(x: Any, out: Any) -> None:
    argument = scratch(x, np.float64)
    np.copyto(argument, x)
    argument *= -math.sqrt(2)
    tail, _ = normal_tails(argument)
    tail *= 2.0
    np.copyto(out, tail, casting="same_kind")


#: ``1 - erf(x)`` of NumPy arrays, exact also where that is tiny.
erfc_on_host = in_two_precisions(_single_erfc, _erfc)


ERFC = Pointwise(
    "erfc",
    "erfc(a)",
    erfc_on_host,
    rule=rules.floating,
    categories=_REAL,
    derivatives=(lambda grad, a: NEG.unary(BELL.binary(grad, a)),),
    tabulated=True,
)


@operation(namespace="tensor special", in_place=True, also="tensor.erfc_")
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complementary error function ``1 - erf(input)``, with full relative precision where it is tiny.

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
    >>> tensor.erfc(tensor.tensor([0.0, 0.5, 2.0]))
    tensor([1.0000, 0.4795, 0.0047])
    """
    return ERFC.out(out, input)


def _erfinv(x: Any) -> Any:
    """Inverse of the error function.

    S. Winitzki's formula ("A handy approximation for the error function and its inverse", 2008) is right to
    three digits; two steps of Halley's method leave nothing to do.
    """
    size = np.abs(x)
    inside = size < 1
    size = np.where(inside, size, 0.0)
    logarithm = np.log1p(-size * size)
    middle = 2 / (math.pi * 0.147) + logarithm / 2
    result = np.sqrt(np.maximum(np.sqrt(middle * middle - logarithm / 0.147) - middle, 0))
    for _ in range(2):
        # Near 1 what is left to 1 is compared.
        off = np.where(size < 0.5, _erf(result) - size, (1 - size) - _erfc(result))
        step = off / (2 / math.sqrt(math.pi) * np.exp(-result * result))
        result = result - step / (1 + result * step)
    edge = np.where(np.abs(x) == 1, np.inf, np.nan)
    return np.copysign(np.where(inside, result, edge), x)


# The normal quantile at 1/2 + q over q, by 0.425**2 - q * q, up to sizes of q of 0.425; beyond, the quantile's size by
# sqrt(-log(p)) - 1.6, where p is the distance to 0 or 1, from 1e-46 on: the variables of M. J. Wichura, "Algorithm AS 241: The
# Percentage Points of the Normal Distribution", 1988. Relative errors are below 2e-9, so that float32 is rounded once.
_CENTRAL = (
    (3.3871328718091176, 71.18548404406899, 423.5008485370653, 697.7438663902371, 151.82168679434972),
    (1.0, 24.02169943623067, 175.16578867433472, 410.8244745567162, 209.54839682296796),
)
_FAR = (
    (1.4234371131859203, 3.2119075732426254, 2.150389803748474, 0.5280190763869157, 0.03948338532997375),
    (1.0, 1.0567091745772541, 0.32938637015035765, 0.027903855206468896, 2.3351966555415145e-07),
)


def _single_quantile(q: Any, distance: Any) -> Any:
    """The normal quantile at ``1/2 + q``, as exact as float32 needs, in scratch memory.

    Parameters
    ----------
    q, distance
        Arrays of float64 and one dimension; the second is the distance of ``1/2 + q`` to the nearer one of 0 and 1.
    """
    square = np.square(q, out=scratch(q))
    np.subtract(0.425**2, square, out=square)
    result = polynomial(_CENTRAL[0], square, scratch(q))
    result /= polynomial(_CENTRAL[1], square, scratch(q))
    result *= q
    far = np.flatnonzero(~(np.abs(q, out=square) <= 0.425))
    if far.size:
        left = distance[far]
        t = np.sqrt(-np.log(left))
        t -= 1.6
        size = polynomial(_FAR[0], t)
        size /= polynomial(_FAR[1], t)
        size[left == 0] = np.inf
        result[far] = np.copysign(size, q[far])
    return result


def _single_erfinv(x: Any, out: Any) -> None:
    q = scratch(x, np.float64)
    np.copyto(q, x)
    q = q.reshape(-1)
    q *= 0.5
    distance = np.subtract(0.5, np.abs(q, out=scratch(q)))
    result = _single_quantile(q, distance)
    result *= _ROOT_HALF
    np.copyto(out, result.reshape(out.shape), casting="same_kind")


#: Inverse of the error function, of NumPy arrays.
erfinv_on_host = in_two_precisions(_single_erfinv, _erfinv)


ERFINV = Pointwise(
    "erfinv",
    "erfinv(a)",
    erfinv_on_host,
    rule=rules.floating,
    categories=_REAL,
    derivatives=(
        lambda grad, out: MUL.binary(grad, MUL.binary(EXP.unary(SQUARE.unary(out)), math.sqrt(math.pi) / 2)),
    ),
    tabulated=True,
)


@operation(namespace="tensor special", in_place=True, autocast=Autocast(cuda=FLOAT32))
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse of the error function: infinite at -1 and 1, NaN outside of that interval.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
        Autocast computes it in float32.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.erfinv(tensor.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.4769,    inf])
    """
    return ERFINV.out(out, input)


@in_double
def erfcx_on_host(x: Any) -> Any:
    """``exp(x * x) * erfc(x)``."""
    size = np.abs(x)
    result = _scaled_erfc(np.where(np.isnan(x), 0.0, size))
    near = np.maximum(np.where(np.isnan(x), 0.0, x), -27.0)
    grown = np.where(x < -26.7, np.inf, 2 / _bell(near, 1) - result)
    return np.where(np.isnan(x), x, np.where(x < 0, grown, np.where(np.isinf(x), 0.0, result)))


ERFCX = Pointwise(
    "erfcx",
    "erfcx(a)",
    erfcx_on_host,
    rule=rules.floating,
    categories=_REAL,
    node="SpecialErfcxBackward0",
    derivatives=(
        lambda grad, a, out: MUL.binary(
            grad, SUB.binary(MUL.binary(MUL.binary(a, 2), out), 2 / math.sqrt(math.pi))
        ),
    ),
    tabulated=True,
)


@operation(namespace="special", method=False)
def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Scaled complementary error function ``exp(input**2) * erfc(input)``, without underflow.

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
    >>> tensor.special.erfcx(tensor.tensor([0.0, 1.0, 100.0]))
    tensor([1.0000, 0.4276, 0.0056])
    """
    return ERFCX.out(out, input)


# The normal distribution

_ROOT_HALF = math.sqrt(0.5)


def _lower_tail(size: Any) -> Any:
    """The normal distribution function at ``-size <= 0``."""
    return np.where(size > 40, 0.0, 0.5 * _bell(np.minimum(size, 40.0), 2) * _scaled_erfc(size * _ROOT_HALF))


def _ndtr(x: Any) -> Any:
    tail = _lower_tail(np.abs(np.where(np.isnan(x), 0.0, x)))
    middle = 0.5 + 0.5 * _erf(np.where(np.abs(x) < 1, x, 0.0) * _ROOT_HALF)
    return np.where(np.isnan(x), x, np.where(np.abs(x) < 1, middle, np.where(x < 0, tail, 1 - tail)))


def _single_ndtr(x: Any, out: Any) -> None:
    argument = scratch(x, np.float64)
    np.copyto(argument, x)
    np.copyto(out, normal_tails(argument)[0], casting="same_kind")


#: Distribution function of the standard normal distribution, of NumPy arrays.
ndtr_on_host = in_two_precisions(_single_ndtr, _ndtr)


NDTR = Pointwise(
    "ndtr",
    "normcdf(a)",
    ndtr_on_host,
    rule=rules.floating,
    categories=_REAL,
    node="SpecialNdtrBackward0",
    derivatives=(
        lambda grad, a: MUL.binary(
            grad, MUL.binary(EXP.unary(MUL.binary(SQUARE.unary(a), -0.5)), 1 / math.sqrt(2 * math.pi))
        ),
    ),
    tabulated=True,
)


@operation(namespace="special", method=False)
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Distribution function of the standard normal distribution: ``erfc(-input / sqrt(2)) / 2``.

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
    >>> tensor.special.ndtr(tensor.tensor([-1.0, 0.0, 1.0]))
    tensor([0.1587, 0.5000, 0.8413])
    """
    return NDTR.out(out, input)


def _log_ndtr(x: Any) -> Any:
    left = np.minimum(np.where(np.isnan(x), 0.0, x), -1.0)
    far = np.log(_scaled_erfc(-left * _ROOT_HALF) / 2) - left * left / 2
    near = np.log1p(-_ndtr(-np.where(x < -1, 0.0, x)))
    return np.where(np.isnan(x), x, np.where(x < -1, far, near))


def _single_log_ndtr(x: Any, out: Any) -> None:
    argument = scratch(x, np.float64)
    np.copyto(argument, x)
    value, _ = normal_tails(argument)
    np.log(value, out=value)
    limit = _LARGEST_OF_LOGARITHM
    if not (np.maximum.reduce(x, axis=None, initial=0.0) <= limit and np.min(x, initial=0.0) >= -limit):
        beyond = ~(np.abs(x) <= limit)
        value[beyond] = _log_ndtr(x[beyond].astype(np.float64))
    np.copyto(out, value, casting="same_kind")


#: Up to this size the distribution function is neither as tiny nor as near 1 that its logarithm would be inexact.
_LARGEST_OF_LOGARITHM = 5.0
#: Logarithm of :func:`ndtr` of NumPy arrays, exact also where that is tiny.
log_ndtr_on_host = in_two_precisions(_single_log_ndtr, _log_ndtr)


LOG_NDTR = Pointwise(
    "log_ndtr",
    f"a < -1 ? log(erfcx(a * Compute({-_ROOT_HALF!r})) / 2) - a * a / 2 : log1p(-normcdf(-a))",
    log_ndtr_on_host,
    rule=rules.floating,
    categories=_REAL,
    node="SpecialLogNdtrBackward0",
    derivatives=(
        lambda grad, a: DIV.binary(
            MUL.binary(grad, math.sqrt(2 / math.pi)), ERFCX.unary(MUL.binary(a, -_ROOT_HALF))
        ),
    ),
    tabulated=True,
)


@operation(namespace="special", method=False)
def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of :func:`ndtr`, with full relative precision in the lower tail.

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
    >>> tensor.special.log_ndtr(tensor.tensor([-10.0, 0.0]))
    tensor([-53.2313,  -0.6931])
    """
    return LOG_NDTR.out(out, input)


def _ndtri(p: Any) -> Any:
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
        slope = _scaled_erfc(np.maximum(size, 0.0) * _ROOT_HALF) * np.sqrt(math.pi / 2)
        size = np.maximum(size, 0.0) + slope * (_log_ndtr(-np.maximum(size, 0.0)) - np.log(least))
    # Near the middle the distance from it is exact, its logarithm is not.
    middle = np.abs(p - 0.5) < 0.25
    centre = np.sqrt(2.0) * _erfinv(np.where(middle, 2 * p - 1, 0.0))
    result = np.where(middle, centre, np.where(p < 0.5, -size, size))
    edge = np.where(p == 0, -np.inf, np.where(p == 1, np.inf, np.nan))
    return np.where(inside, result, edge)


def _single_ndtri(p: Any, out: Any) -> None:
    q = p.astype(np.float64).reshape(-1)
    distance = np.minimum(q, np.subtract(1, q, out=scratch(q)))
    q -= 0.5
    out[...] = _single_quantile(q, distance).reshape(out.shape)


#: Inverse of :func:`ndtr`, of NumPy arrays.
ndtri_on_host = in_two_precisions(_single_ndtri, _ndtri)

NDTRI = Pointwise(
    "ndtri",
    "normcdfinv(a)",
    ndtri_on_host,
    rule=rules.floating,
    categories=_REAL,
    node="SpecialNdtriBackward0",
    derivatives=(
        lambda grad, out: MUL.binary(
            grad, MUL.binary(EXP.unary(MUL.binary(SQUARE.unary(out), 0.5)), math.sqrt(2 * math.pi))
        ),
    ),
    tabulated=True,
)


@operation(namespace="special", method=False)
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Quantile function of the standard normal distribution, the inverse of :func:`ndtr`; NaN outside of [0, 1].

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
    >>> tensor.special.ndtri(tensor.tensor([0.025, 0.5, 0.975]))
    tensor([-1.9600,  0.0000,  1.9600])
    """
    return NDTRI.out(out, input)
