"""The regularised incomplete gamma functions; their NumPy forms compute in double precision.

Which formula is exact depends on where the operands are: a power series below ``a``, a continued fraction
above, another series where both are small, and for large operands that are close together N. M. Temme's uniform
expansion ("The asymptotic expansion of the incomplete gamma functions", 1979), whose coefficients follow from
the recurrence 8.12.12 of the NIST Digital Library of Mathematical Functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.operations.definition import operation
from tensor.operations.pointwise.arithmetic import MUL, NEG, SUB, undefined
from tensor.operations.pointwise.powers import EXP, LOG
from tensor.operations.pointwise_operation import Pointwise

from .error_functions import erfc_on_host
from .evaluation import polynomial
from .gamma import LGAMMA, LGAMMA_NEAR_2, log_gamma

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_FLOATING = (Category.FLOATING,)

# Coefficients of eta ** n / a ** k, a row for each k; exact for a >= 200 and |x / a - 1| <= 0.3.
_TEMME = (
    (
        -0.3333333333333333,
        0.08333333333333333,
        -0.014814814814814815,
        0.0011574074074074073,
        0.0003527336860670194,
        -0.0001787551440329218,
        3.919263178522438e-05,
        -2.185448510679992e-06,
        -1.85406221071516e-06,
        8.296711340953087e-07,
        -1.7665952736826078e-07,
        6.707853543401498e-09,
        1.0261809784240309e-08,
        -4.382036018453353e-09,
        9.14769958223679e-10,
        -2.5514193994946248e-11,
        -5.830772132550426e-11,
    ),
    (
        -0.001851851851851852,
        -0.003472222222222222,
        0.0026455026455026454,
        -0.0009902263374485596,
        0.00020576131687242798,
        -4.018775720164609e-07,
        -1.8098550334489977e-05,
        7.64916091608111e-06,
        -1.6120900894563446e-06,
        4.647127802807434e-09,
        1.378633446915721e-07,
        -5.752545603517705e-08,
        1.1951628599778148e-08,
    ),
    (
        0.004133597883597883,
        -0.0026813271604938273,
        0.0007716049382716049,
        2.0093878600823047e-06,
        -0.0001073665322636516,
        5.2923448829120125e-05,
        -1.2760635188618728e-05,
        3.423578734096138e-08,
        1.3721957309062934e-06,
        -6.298992138380055e-07,
        1.4280614206064242e-07,
    ),
    (
        0.0006494341563786008,
        0.00022947209362139917,
        -0.0004691894943952557,
        0.00026772063206283885,
        -7.561801671883977e-05,
        -2.396505113867297e-07,
        1.1082654115347302e-05,
        -5.6749528269915965e-06,
        1.4230900732435883e-06,
    ),
    (
        -0.0008618882909167117,
        0.0007840392217200666,
        -0.0002990724803031902,
        -1.4638452578843418e-06,
        6.641498215465122e-05,
        -3.968365047179435e-05,
        1.1375726970678419e-05,
    ),
    (
        -0.00033679855336635813,
        -6.972813758365857e-05,
        0.0002772753244959392,
        -0.00019932570516188847,
        6.797780477937208e-05,
    ),
    (0.0005313079364639922,),
)
_LARGE = 200.0
_CLOSE = 0.3
_STEPS = 600


def _log_less(a: Any, x: Any) -> Any:
    """``log(x / a) - (x / a - 1)``, exact also where that is small."""
    u = (x - a) / a
    close = np.abs(u) <= 0.4
    r = np.where(close, u, 0.0) / (2 + np.where(close, u, 0.0))
    series = polynomial([2 / (2 * k + 3) for k in range(14)], r * r) * r * r * r
    return np.where(close, series - r * u, np.log(np.where(close, 1.0, x / a)) - u)


def _bell(a: Any, x: Any) -> Any:
    """``x ** a * exp(-x) / gamma(a + 1)``."""
    far = a >= 10
    large = np.where(far, a, 10.0)
    inverse = 1 / (large * large)
    series = (
        polynomial([1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156], inverse) / large
    )
    exponent = large * _log_less(large, np.where(far, x, 10.0)) - series
    stirling = np.exp(exponent) / np.sqrt(2 * np.pi * large)
    small, half = np.where(far, 1.0, a), np.exp(-np.where(far, 1.0, x) / 2)
    power = np.where(far, 1.0, x) ** small
    return np.where(far, stirling, half * power * half * np.exp(-log_gamma(small + 1)))


def _series(a: Any, x: Any) -> Any:
    """The lower function for ``x <= a``, or a small ``x``."""
    total, term, divisor = np.ones_like(a), np.ones_like(a), a.copy()
    for _ in range(_STEPS):
        divisor = divisor + 1
        term = term * (x / divisor)
        total = total + term
        if not np.any(term > 1e-17 * total):
            break
    return _bell(a, x) * total


def _fraction(a: Any, x: Any) -> Any:
    """The upper function for ``x > a``, by W. J. Lentz's method for continued fractions."""
    b = x + 1 - a
    c, d = np.full_like(x, 1e300), 1 / b
    result, going = d, np.ones(x.shape, dtype=bool)
    for k in range(1, _STEPS):
        factor = -k * (k - a)
        b = b + 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        change = c * d
        # What has converged is left alone, so that roundings do not add up.
        result = np.where(going, result * change, result)
        going &= np.abs(change - 1) > 1e-15
        if not going.any():
            break
    return _bell(a, x) * a * result


def _small(a: Any, x: Any) -> Any:
    """The upper function for ``a <= 1`` and ``x <= 1.1``, exact also where the lower one is nearly 1."""
    total, term = np.zeros_like(a), np.ones_like(a)
    for k in range(1, 25):
        term = term * (-x / k)
        total = total + term / (a + k)
    near = a <= 0.5
    z = np.where(near, a, 0.0)
    log_of_next = np.where(near, z * polynomial(LGAMMA_NEAR_2, z) - np.log1p(z), log_gamma(a + 1))
    exponent = a * np.log(x) - log_of_next
    return -np.expm1(exponent) - np.exp(exponent) * a * total


def _uniform(a: Any, x: Any) -> tuple[Any, Any]:
    """Both functions for large operands that are close together."""
    square = -_log_less(a, x)
    eta = np.copysign(np.sqrt(2 * square), x - a)
    total = np.zeros_like(a)
    for row in _TEMME[::-1]:
        total = total / a + polynomial(row, eta)
    rest = np.exp(-a * square) / np.sqrt(2 * np.pi * a) * total
    point = eta * np.sqrt(a / 2)
    return 0.5 * erfc_on_host(-point) - rest, 0.5 * erfc_on_host(point) + rest


def _both(a: Any, x: Any) -> tuple[Any, Any]:
    """The lower and the upper function of arrays with one dimension, by the formula for each element."""
    lower, upper = np.full_like(a, np.nan), np.full_like(a, np.nan)
    valid = (a >= 0) & (x >= 0) & ~((a == 0) & (x == 0)) & ~(np.isinf(a) & np.isinf(x))
    below = valid & ((x == 0) | np.isinf(a)) & (a != 0)
    above = valid & ((a == 0) | np.isinf(x))
    lower[below], upper[below] = 0, 1
    lower[above], upper[above] = 1, 0
    rest = valid & ~below & ~above
    close = rest & (a >= _LARGE) & (np.abs(x - a) <= _CLOSE * a)
    small = rest & (a <= 1) & (x <= 1.1)
    outer = rest & ~close & (x > a) & (x > 1.1)
    inner = rest & ~close & ~outer
    if close.any():
        lower[close], upper[close] = _uniform(a[close], x[close])
    if inner.any():
        lower[inner] = _series(a[inner], x[inner])
        upper[inner] = 1 - lower[inner]
    if outer.any():
        upper[outer] = _fraction(a[outer], x[outer])
        lower[outer] = 1 - upper[outer]
    if small.any():
        upper[small] = _small(a[small], x[small])
    return lower, upper


def _computed(a: Any, x: Any, which: int) -> Any:
    dtype = np.result_type(a, x)
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    result = _both(a.reshape(-1), x.reshape(-1))[which]
    return result.reshape(a.shape).astype(dtype)


def _density(a: Tensor, b: Tensor) -> Tensor:
    """Density of the gamma distribution of shape ``a`` at ``b``."""
    power = MUL.binary(SUB.binary(a, 1), LOG.unary(b))
    return EXP.unary(SUB.binary(SUB.binary(power, b), LGAMMA.unary(a)))


def igamma_on_host(a: Any, x: Any) -> Any:
    """Regularised lower incomplete gamma function."""
    return _computed(a, x, 0)


#: The derivative with respect to the first operand has no closed form.
IGAMMA = Pointwise(
    "igamma",
    "incomplete_gamma(a, b, false)",
    igamma_on_host,
    numbers="",
    categories=_FLOATING,
    include="incomplete_gamma.cuh",
    derivatives=(undefined("igamma: input"), lambda grad, a, b: MUL.binary(grad, _density(a, b))),
)


@operation(in_place=True, also="special.gammainc")
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularised lower incomplete gamma function.

    The integral of ``t**(input - 1) * exp(-t)`` from 0 to ``other``, divided by the gamma function at ``input``: the
    distribution function of the gamma distribution. NaN where an argument is negative. The derivative with respect
    to ``input`` is not implemented.

    Parameters
    ----------
    input, other : Tensor
        Of floating dtypes and shapes that broadcast.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If one is a number.
    NotImplementedError
        If the common dtype is another one.

    Examples
    --------
    >>> tensor.special.gammainc(tensor.tensor([1.0]), tensor.tensor([2.0]))
    tensor([0.8647])
    """
    return IGAMMA.out(out, input, other)


def igammac_on_host(a: Any, x: Any) -> Any:
    """Regularised upper incomplete gamma function."""
    return _computed(a, x, 1)


IGAMMAC = Pointwise(
    "igammac",
    "incomplete_gamma(a, b, true)",
    igammac_on_host,
    numbers="",
    categories=_FLOATING,
    include="incomplete_gamma.cuh",
    derivatives=(
        undefined("igammac: input"),
        lambda grad, a, b: NEG.unary(MUL.binary(grad, _density(a, b))),
    ),
)


@operation(in_place=True, also="special.gammaincc")
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Regularised upper incomplete gamma function ``1 - igamma(input, other)``, precise where it is tiny.

    NaN where an argument is negative. The derivative with respect to ``input`` is not implemented.

    Parameters
    ----------
    input, other : Tensor
        Of floating dtypes and shapes that broadcast.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    TypeError
        If one is a number.
    NotImplementedError
        If the common dtype is another one.

    Examples
    --------
    >>> tensor.special.gammaincc(tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 1.0]))
    tensor([0.3679, 0.7358])
    """
    return IGAMMAC.out(out, input, other)
