"""The logistic function and its inverse, and logarithms of sums and products that do not overflow or become NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.core.base import TensorBase
from tensor.core.dtypes import promotion as rules
from tensor.core.host.scratch import scratch
from tensor.operations.definition import operation
from tensor.operations.pointwise.arithmetic import ADD, DIV, MUL, NEG, SUB
from tensor.operations.pointwise.comparisons import EQ, LE
from tensor.operations.pointwise.complex_numbers import conjugate
from tensor.operations.pointwise.powers import LOG
from tensor.operations.pointwise.selection import DROP, FEW, clamp
from tensor.operations.pointwise_operation import IN_PLACE, Pointwise, by_category, written

from .evaluation import log1p_from_0

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

_REAL = (Category.BOOL, Category.INTEGER, Category.FLOATING)
_FLOATING = (Category.FLOATING,)

# The logistic function


def logistic_on_host(a: Any, out: Any = None) -> Any:
    """``1 / (1 + exp(-a))`` of a NumPy array, written to ``out``, which may be ``a``; a new array without it."""
    # In one array: further ones cost more than the arithmetic.
    result = np.negative(a, out=np.empty_like(a) if out is None else out)
    np.exp(result, out=result)
    result += 1
    # With the bits of the reciprocal, whose loop for float32 takes twice as long.
    return np.divide(1, result, out=result)


def _gradient(a: Any, b: Any, out: Any = None) -> Any:
    result = np.subtract(1, b, out=out)
    result *= b
    if np.iscomplexobj(result):
        result = np.conjugate(result, out=out)
    result *= a
    return result


SIGMOID = Pointwise(
    "sigmoid",
    by_category("1 / (1 + exp(-a))", complex="reciprocal(Compute{1, 0} + exp(-a))"),
    logistic_on_host,
    rule=rules.floating,
    derivatives=(lambda grad, out: SIGMOID_BACKWARD.binary(grad, out),),
    tabulated=True,
)

#: Of (gradient, result).
SIGMOID_BACKWARD: Pointwise = Pointwise(
    "sigmoid_backward",
    by_category("a * ((1 - b) * b)", complex="a * conj((Compute{1, 0} - b) * b)"),
    _gradient,
    derivatives=(
        lambda grad, b: SIGMOID_BACKWARD.binary(grad, conjugate(b)),
        lambda grad, a, b: MUL.binary(MUL.binary(conjugate(grad), a), conjugate(SUB(1, MUL.binary(b, 2)))),
    ),
)


@operation(namespace="tensor nn.functional", in_place=True, also="special.expit tensor.sigmoid_")
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logistic function ``1 / (1 + exp(-input))``.

    Parameters
    ----------
    input : Tensor
        Of any shape and dtype. The result has its shape; integers and bools give the default floating dtype.
    out : Tensor, optional
        Tensor that the result is written to.

    Examples
    --------
    >>> tensor.sigmoid(tensor.tensor([-2.0, 0.0, 2.0]))
    tensor([0.1192, 0.5000, 0.8808])
    """
    return SIGMOID.unary(input) if out is None else SIGMOID.out(out, input)


#: Numbers below this are their own odds; reciprocals of smaller ones may be infinite.
_LEAST_ODDS = 1e-30


def _logit(a: Any, out: Any = None) -> Any:
    distance = np.add(a, a, out=_room(a))
    distance -= 1
    # Of a and 1 - a the larger over the smaller, less 1: rounded three times, and as exact near 1/2.
    rest = np.subtract(1, a, out=_room(a))
    rest = np.minimum(a, rest, out=rest if np.ndim(a) else None)
    size = np.abs(distance, out=_room(a))
    size = np.divide(size, rest, out=size if np.ndim(a) else None)
    result = log1p_from_0(size, out)
    if np.ndim(a) == 0:
        return written(np.where(a < _LEAST_ODDS, np.log(a), np.copysign(result, distance)), out)
    # By bits, as copysign takes longer.
    bits = f"i{a.itemsize}"
    signs = np.bitwise_and(distance.view(bits), np.array(-0.0, a.dtype).view(bits), out=distance.view(bits))
    np.bitwise_or(result.view(bits), signs, out=result.view(bits))
    if not np.minimum.reduce(a, axis=None, initial=1.0) >= _LEAST_ODDS:
        small = a < _LEAST_ODDS
        result[small] = np.log(a[small])
    return result


def _room(a: Any) -> Any:
    """Scratch memory for ``a``; ``None`` where it has no dimensions."""
    return scratch(a) if np.ndim(a) else None


LOGIT = Pointwise(
    "logit",
    f"a < Compute({_LEAST_ODDS}) ? log(a) : copysign(log1p(fabs(2 * a - 1) / fmin(a, 1 - a)), a - Compute(0.5))",
    _logit,
    rule=rules.floating,
    categories=_REAL,
    derivatives=(lambda grad, a: LOGIT_BACKWARD.binary(grad, a),),
    tabulated=True,
)

#: Of (gradient, element).
LOGIT_BACKWARD: Pointwise = Pointwise(
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


@operation(namespace="tensor special", in_place=True, also="tensor.logit_")
def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """Inverse of :func:`sigmoid`: ``log(input / (1 - input))``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype. The result has its shape; integers and bools give the default floating dtype.
    eps : float, optional
        Elements are clamped to ``eps`` and ``1 - eps`` first; by default elements outside of [0, 1] give NaN.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> tensor.logit(tensor.tensor([0.1, 0.5, 0.9]))
    tensor([-2.1972,  0.0000,  2.1972])
    """
    if eps is None:
        return LOGIT.out(out, input)
    if out is IN_PLACE:
        return LOGIT.in_place(clamp(input, eps, 1 - eps, out=IN_PLACE))
    dtype = input._layout.dtype
    if dtype.is_complex:
        return LOGIT.out(out, input)
    return LOGIT.out(out, clamp(input if dtype.is_floating_point else input.float(), eps, 1 - eps))


# Logarithms of sums


def _log_of_sum(
    ufunc: np.ufunc,
    power: np.ufunc,
    per_logarithm: float,
    of_complex: Callable[[Any, Any], Any] | None = None,
) -> Callable[..., Any]:
    """``ufunc``; of many elements of float32 by ``power``, a logarithm and its factor ``per_logarithm``."""

    def computed(a: Any, b: Any, out: Any = None) -> Any:
        if of_complex is not None and a.dtype.kind == "c":
            return written(of_complex(a, b), out)
        if a.dtype != np.float32 or max(np.size(a), np.size(b)) <= FEW:
            return ufunc(a, b, out=out)
        if out is None:
            out = np.empty(np.broadcast_shapes(a.shape, b.shape), a.dtype)
        distance = np.subtract(a, b, out=scratch(out))
        np.abs(distance, out=distance)
        np.negative(distance, out=distance)
        rest = log1p_from_0(power(distance, out=distance), scratch(out))
        if per_logarithm != 1:
            rest *= out.dtype.type(per_logarithm)
        np.add(np.maximum(a, b, out=out), rest, out=out)
        if np.isnan(np.minimum.reduce(out, axis=None)):
            # The difference of two infinities of one sign is NaN, too.
            doubtful = np.isnan(out)
            out[doubtful] = ufunc(*[np.broadcast_to(x, out.shape)[doubtful] for x in (a, b)])
        return out

    return computed


def _complex_logaddexp(a: Any, b: Any) -> Any:
    first = a.real < b.real
    large, small = np.where(first, b, a), np.where(first, a, b)
    return large + np.log1p(np.exp(small - large))


LOGADDEXP = Pointwise(
    "logaddexp",
    by_category(
        "a == b && isinf(a) ? a : a != a || b != b ? a + b : fmax(a, b) + log1p(exp(-fabs(a - b)))",
        complex="a.re < b.re ? b + log1p(exp(a - b)) : a + log1p(exp(b - a))",
    ),
    _log_of_sum(np.logaddexp, np.exp, 1.0, _complex_logaddexp),
    rule=rules.floating,
    numbers="",
    categories=(Category.FLOATING, Category.COMPLEX),
    derivatives=(
        lambda grad, a, b: MUL.binary(grad, conjugate(SIGMOID.unary(SUB.binary(a, b)))),
        lambda grad, a, b: MUL.binary(grad, conjugate(SIGMOID.unary(SUB.binary(b, a)))),
    ),
)


@operation()
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log(exp(input) + exp(other))`` without overflow.

    Parameters
    ----------
    input, other : Tensor
        Of floating or complex dtypes and shapes that broadcast.
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
    >>> tensor.logaddexp(tensor.tensor([1000.0]), tensor.tensor([1000.0]))
    tensor([1000.6932])
    """
    return LOGADDEXP.out(out, input, other)


LOGADDEXP2 = Pointwise(
    "logaddexp2",
    f"a == b && isinf(a) ? a : a != a || b != b ? a + b : "
    f"fmax(a, b) + log1p(exp2(-fabs(a - b))) * Compute({1 / math.log(2)!r})",
    _log_of_sum(np.logaddexp2, np.exp2, 1 / math.log(2)),
    rule=rules.floating,
    numbers="",
    categories=_FLOATING,
    derivatives=(
        lambda grad, a, b: MUL.binary(grad, SIGMOID.unary(MUL.binary(SUB.binary(a, b), math.log(2)))),
        lambda grad, a, b: MUL.binary(grad, SIGMOID.unary(MUL.binary(SUB.binary(b, a), math.log(2)))),
    ),
)


@operation()
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log2(2**input + 2**other)`` without overflow.

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
    >>> tensor.logaddexp2(tensor.tensor([1.0, 100.0]), tensor.tensor([1.0, 100.0]))
    tensor([  2., 101.])
    """
    return LOGADDEXP2.out(out, input, other)


# Products with a logarithm


def _xlogy_gradient(grad: Tensor, a: Tensor, b: Any) -> Tensor:
    """``grad * log(b)``; 0 where ``a`` is 0 and the logarithm is undefined."""
    if not isinstance(b, TensorBase):
        if b > 0:
            return MUL.binary(grad, math.log(b))
        return DROP.binary(XLOGY.binary(grad, b), EQ.binary(a, 0))
    nothing = LE.binary(b, 0) & EQ.binary(a, 0)
    return DROP.binary(XLOGY.binary(grad, b), nothing)


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


@operation(namespace="tensor special", in_place=True, also="tensor.xlogy_")
def xlogy(input: Tensor | float, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``input * log(other)``, and 0 where ``input`` is 0, unless ``other`` is NaN.

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
    >>> tensor.xlogy(tensor.tensor([0.0, 2.0]), tensor.tensor([0.0, 1.0]))
    tensor([0., 0.])
    """
    return XLOGY.out(out, input, other)


def _xlog1py_gradient(grad: Tensor, a: Tensor, b: Any) -> Tensor:
    """``grad * log1p(b)``; 0 where ``a`` is 0 and the logarithm is undefined."""
    if not isinstance(b, TensorBase):
        if b > -1:
            return MUL.binary(grad, math.log1p(b))
        return DROP.binary(XLOG1PY.binary(grad, b), EQ.binary(a, 0))
    nothing = LE.binary(b, -1) & EQ.binary(a, 0)
    return DROP.binary(XLOG1PY.binary(grad, b), nothing)


XLOG1PY = Pointwise(
    "xlog1py",
    "b != b ? b : a == 0 ? Compute(0) : a * log1p(b)",
    lambda a, b: np.where(np.isnan(b), b, np.where(a == 0, a.dtype.type(0), a * np.log1p(b))),
    rule=rules.floating,
    categories=_REAL,
    node=lambda a, b: (
        f"SpecialXlog1PyBackward{1 if not isinstance(a, TensorBase) else 0 if isinstance(b, TensorBase) else 2}"
    ),
    derivatives=(
        lambda grad, a, b: _xlog1py_gradient(grad, a, b),
        lambda grad, a, b: DIV.binary(MUL.binary(grad, a), ADD.binary(b, 1)),
    ),
)


@operation(namespace="special", method=False)
def xlog1py(input: Tensor | float, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:
    """``input * log1p(other)``, and 0 where ``input`` is 0, unless ``other`` is NaN.

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
    >>> tensor.special.xlog1py(tensor.tensor([0.0, 2.0]), tensor.tensor([-1.0, 1.0]))
    tensor([0.0000, 1.3863])
    """
    return XLOG1PY.out(out, input, other)


ENTR = Pointwise(
    "entr",
    "a != a ? a : a > 0 ? -a * log(a) : a == 0 ? Compute(0) : -1 / Compute(0)",
    lambda a: np.where(a >= 0, np.where(a > 0, -a * np.log(a), 0), np.where(a < 0, -np.inf, a)).astype(
        a.dtype
    ),
    rule=rules.floating,
    categories=_REAL,
    node="SpecialEntrBackward0",
    derivatives=(lambda grad, a: MUL.binary(grad, SUB.binary(NEG.unary(LOG.unary(a)), 1)),),
    tabulated=True,
)


@operation(namespace="special", method=False)
def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Entropy ``-input * log(input)`` of each element: 0 at 0, minus infinity below.

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
    >>> tensor.special.entr(tensor.tensor([-1.0, 0.0, 0.5]))
    tensor([  -inf, 0.0000, 0.3466])
    """
    return ENTR.out(out, input)
