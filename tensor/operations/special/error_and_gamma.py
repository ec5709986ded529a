"""Error functions, gamma functions, logistic functions, and logarithms of sums."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.base import TensorBase
from tensor.core.dtypes import promotion as rules
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.arithmetic import ADD, DIV, MUL, NEG, SUB
from tensor.operations.pointwise.comparisons import EQ, LE
from tensor.operations.pointwise.complex_numbers import conjugate
from tensor.operations.pointwise.powers import EXP, SQUARE
from tensor.operations.pointwise.selection import DROP, clamp, where
from tensor.operations.pointwise.trigonometry import COS
from tensor.operations.pointwise_operation import IN_PLACE, Pointwise, by_kind

from . import error_functions_numpy as special_numpy
from . import gamma_numpy

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)
_FLOATING = (Category.FLOATING,)

# Error functions

ERF = Pointwise(
    "erf",
    "erf(a)",
    special_numpy.erf,
    rule=rules.floating,
    categories=_REAL,
    derivatives=(lambda grad, a: BELL.binary(grad, a),),
)
ERFC = Pointwise(
    "erfc",
    "erfc(a)",
    special_numpy.erfc,
    rule=rules.floating,
    categories=_REAL,
    derivatives=(lambda grad, a: NEG.unary(BELL.binary(grad, a)),),
)
ERFINV = Pointwise(
    "erfinv",
    "erfinv(a)",
    special_numpy.erfinv,
    rule=rules.floating,
    categories=_REAL,
    derivatives=(
        lambda grad, out: MUL.binary(grad, MUL.binary(EXP.unary(SQUARE.unary(out)), math.sqrt(math.pi) / 2)),
    ),
)
#: Gradient of the error function: of (gradient, number).
BELL = Pointwise(
    "erf_backward",
    f"Compute({2 / math.sqrt(math.pi)!r}) * exp(-b * b) * a",
    lambda a, b: b.dtype.type(2 / math.sqrt(math.pi)) * np.exp(-b * b) * a,
    derivatives=(
        lambda grad, b: BELL.binary(grad, b),
        lambda grad, a, b: MUL.binary(MUL.binary(BELL.binary(grad, b), a), MUL.binary(b, -2)),
    ),
)

# Gamma functions

LGAMMA = Pointwise(
    "lgamma",
    "lgamma(a)",
    gamma_numpy.lgamma,
    rule=rules.floating,
    categories=_REAL,
    derivatives=(lambda grad, a: MUL.binary(grad, DIGAMMA.unary(a)),),
)
DIGAMMA = Pointwise(
    "digamma",
    "digamma(a)",
    gamma_numpy.digamma,
    rule=rules.floating,
    categories=_REAL,
    include="special_functions.cuh",
    derivatives=(lambda grad, a: MUL.binary(grad, POLYGAMMA.binary(a, 1)),),
)
#: Of (number, order >= 1).
POLYGAMMA = Pointwise(
    "polygamma",
    "polygamma(a, b)",
    gamma_numpy.polygamma,
    rule=rules.floating,
    typed=1,
    categories=_REAL,
    include="special_functions.cuh",
    derivatives=(lambda grad, a, b: MUL.binary(grad, POLYGAMMA.binary(a, b + 1)),),
)

# Logistic functions

SIGMOID = Pointwise(
    "sigmoid",
    by_kind("1 / (1 + exp(-a))", complex="reciprocal(Compute{1, 0} + exp(-a))"),
    lambda a: np.reciprocal(1 + np.exp(-a)),
    rule=rules.floating,
    derivatives=(lambda grad, out: SIGMOID_BACKWARD.binary(grad, out),),
)
#: Of (gradient, result).
SIGMOID_BACKWARD = Pointwise(
    "sigmoid_backward",
    by_kind("a * ((1 - b) * b)", complex="a * conj((Compute{1, 0} - b) * b)"),
    lambda a, b: a * np.conjugate((1 - b) * b),
    derivatives=(
        lambda grad, b: SIGMOID_BACKWARD.binary(grad, conjugate(b)),
        lambda grad, a, b: MUL.binary(MUL.binary(conjugate(grad), a), conjugate(SUB(1, MUL.binary(b, 2)))),
    ),
)
#: Near 1/2, where the logarithm's operand is rounded, by a function that is 0 there.
LOGIT = Pointwise(
    "logit",
    "fabs(a - Compute(0.5)) < Compute(0.25) ? 2 * atanh(2 * a - 1) : log(a / (1 - a))",
    lambda a: np.where(np.abs(a - 0.5) < 0.25, 2 * np.arctanh(2 * a - 1), np.log(a / (1 - a))),
    rule=rules.floating,
    categories=_REAL,
    derivatives=(lambda grad, a: LOGIT_BACKWARD.binary(grad, a),),
)
#: Of (gradient, number).
LOGIT_BACKWARD = Pointwise(
    "logit_backward",
    'b >= 0 && b <= 1 ? a / (b * (1 - b)) : b * nan("")',
    lambda a, b: np.where((b >= 0) & (b <= 1), a / (b * (1 - b)), b.dtype.type(np.nan)),
    derivatives=(
        lambda grad, b: LOGIT_BACKWARD.binary(grad, b),
        lambda grad, a, b: MUL.binary(
            LOGIT_BACKWARD.binary(LOGIT_BACKWARD.binary(grad, b), b),
            MUL.binary(a, SUB.binary(MUL.binary(b, 2), 1)),
        ),
    ),
)

# Logarithms


LOGADDEXP = Pointwise(
    "logaddexp",
    by_kind(
        "a == b && isinf(a) ? a : a != a || b != b ? a + b : fmax(a, b) + log1p(exp(-fabs(a - b)))",
        complex="a.re < b.re ? b + log1p(exp(a - b)) : a + log1p(exp(b - a))",
    ),
    lambda a, b: np.logaddexp(a, b) if a.dtype.kind == "f" else _complex_logaddexp(a, b),
    rule=rules.floating,
    numbers="",
    categories=(Category.FLOATING, Category.COMPLEX),
    derivatives=(
        lambda grad, a, b: MUL.binary(grad, conjugate(SIGMOID.unary(SUB.binary(a, b)))),
        lambda grad, a, b: MUL.binary(grad, conjugate(SIGMOID.unary(SUB.binary(b, a)))),
    ),
)
LOGADDEXP2 = Pointwise(
    "logaddexp2",
    f"a == b && isinf(a) ? a : a != a || b != b ? a + b : "
    f"fmax(a, b) + log1p(exp2(-fabs(a - b))) * Compute({1 / math.log(2)!r})",
    np.logaddexp2,
    rule=rules.floating,
    numbers="",
    categories=_FLOATING,
    derivatives=(
        lambda grad, a, b: MUL.binary(grad, SIGMOID.unary(MUL.binary(SUB.binary(a, b), math.log(2)))),
        lambda grad, a, b: MUL.binary(grad, SIGMOID.unary(MUL.binary(SUB.binary(b, a), math.log(2)))),
    ),
)
XLOGY = Pointwise(
    "xlogy",
    "b != b ? b : a == 0 ? Compute(0) : a * log(b)",
    lambda a, b: np.where(np.isnan(b), b, np.where(a == 0, a.dtype.type(0), a * np.log(b))),
    node=lambda a, b: (
        f"XlogyBackward{1 if not isinstance(a, TensorBase) else 0 if isinstance(b, TensorBase) else 2}"
    ),
    rule=rules.floating,
    categories=_REAL,
    derivatives=(
        lambda grad, a, b: _xlogy_gradient(grad, a, b),
        lambda grad, a, b: DIV.binary(MUL.binary(grad, a), b),
    ),
)


def _complex_logaddexp(a: Any, b: Any) -> Any:
    first = a.real < b.real
    large, small = np.where(first, b, a), np.where(first, a, b)
    return large + np.log1p(np.exp(small - large))


def _xlogy_gradient(grad: Tensor, a: Tensor, b: Any) -> Tensor:
    """``grad * log(b)``; nothing where ``a`` is 0 and the logarithm is none."""
    if not isinstance(b, TensorBase):
        if b > 0:
            return MUL.binary(grad, math.log(b))
        return DROP.binary(XLOGY.binary(grad, b), EQ.binary(a, 0))
    nothing = LE.binary(b, 0) & EQ.binary(a, 0)
    return DROP.binary(XLOGY.binary(grad, b), nothing)


# Waves

SINC = Pointwise(
    "sinc",
    by_kind(
        f"a == 0 ? Compute(1) : sin(Compute({math.pi!r}) * a) / (Compute({math.pi!r}) * a)",
        complex=f"a == Compute{{0, 0}} ? Compute{{1, 0}} : sin({math.pi!r} * a) / ({math.pi!r} * a)",
    ),
    lambda a: _sinc(a),
    rule=rules.floating,
    derivatives=(lambda grad, a, out: _sinc_gradient(grad, a, out),),
)


def _sinc(a: Any) -> Any:
    angle = a * a.dtype.type(np.pi)
    return np.where(a == 0, a.dtype.type(1), np.sin(angle) / np.where(a == 0, a.dtype.type(1), angle))


def _sinc_gradient(grad: Tensor, a: Tensor, out: Tensor) -> Tensor:
    at_zero = EQ.binary(a, 0)
    slope = DIV.binary(SUB.binary(COS.unary(MUL.binary(a, math.pi)), out), ADD.binary(a, at_zero))
    # At 0 the slope goes through 0, steeply: the second derivative is there.
    slope = where(at_zero, MUL.binary(a, -(math.pi**2) / 3), DROP.binary(slope, at_zero))
    return MUL.binary(grad, conjugate(slope))


@operation(namespace="tensor special", in_place=True, also="tensor.erf_")
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Error function ``2 / sqrt(pi) * integral of exp(-t**2) from 0 to input``."""
    return ERF.out(out, input)


@operation(namespace="tensor special", in_place=True, also="tensor.erfc_")
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 - erf(input)``, exact also where that is tiny."""
    return ERFC.out(out, input)


@operation(namespace="tensor special", in_place=True, autocast=Autocast(cuda=FLOAT32))
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse of the error function; NaN outside of [-1, 1]."""
    return ERFINV.out(out, input)


@operation(in_place=True, also="special.gammaln")
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the absolute value of the gamma function."""
    return LGAMMA.out(out, input)


@operation(namespace="tensor special", in_place=True, also="special.psi")
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Derivative of :func:`lgamma`."""
    return DIGAMMA.out(out, input)


@operation(namespace="tensor special", method=False)
def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Derivative of order ``n`` of :func:`digamma`.

    Raises
    ------
    RuntimeError
        If ``n`` is negative.
    """
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got {n}")
    return DIGAMMA.out(out, input) if n == 0 else POLYGAMMA.out(out, input, n)


@operation(namespace="", method=False, also="Tensor.polygamma Tensor.polygamma_")
def polygamma_of(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """:func:`polygamma` as a method."""
    return polygamma(n, input, out=out)


@operation(namespace="tensor nn.functional", in_place=True, also="special.expit tensor.sigmoid_")
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``1 / (1 + exp(-input))``."""
    return SIGMOID.unary(input) if out is None else SIGMOID.out(out, input)


@operation(namespace="tensor special", in_place=True, also="tensor.logit_")
def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """Inverse of :func:`sigmoid`: ``log(input / (1 - input))``.

    Parameters
    ----------
    eps
        Elements are brought between ``eps`` and ``1 - eps`` before; by default they are left, and give NaN
        outside of [0, 1].
    """
    if eps is None:
        return LOGIT.out(out, input)
    if out is IN_PLACE:
        return LOGIT.in_place(clamp(input, eps, 1 - eps, out=IN_PLACE))
    kind = input._layout.dtype
    if kind.is_complex:
        return LOGIT.out(out, input)
    return LOGIT.out(out, clamp(input if kind.is_floating_point else input.float(), eps, 1 - eps))


@operation()
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log(exp(input) + exp(other))`` without overflow."""
    return LOGADDEXP.out(out, input, other)


@operation()
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log2(2**input + 2**other)`` without overflow."""
    return LOGADDEXP2.out(out, input, other)


@operation(namespace="tensor special", in_place=True, also="tensor.xlogy_")
def xlogy(input: Tensor | float, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``input * log(other)``, and 0 where ``input`` is 0, unless ``other`` is NaN."""
    return XLOGY.out(out, input, other)


@operation(namespace="tensor special", in_place=True, also="tensor.sinc_")
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``sin(pi * input) / (pi * input)``, 1 at 0."""
    return SINC.out(out, input)
