"""Activation functions: one kernel forward, one backward, and derivatives of every order.

The row of an activation says its value, slope (first derivative) and curvature (second derivative) at an element
``{x}``, with scalars ``{p}``, ``{q}``, ``{r}``: each as a CUDA C++ expression beside the same on NumPy arrays. The
curvature stands there a third time, as a composition of differentiable operations, from which the third derivative
and all higher ones follow.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nvrtc_kernels.dtypes import Category, uint8
from tensor.autograd.recording.recorder import Derivative
from tensor.core.host.scratch import scratch
from tensor.core.modes.grad_mode import modes
from tensor.operations.autocast import FLOAT32, LOWER, Autocast
from tensor.operations.creation.like import zeros_like
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import IN_PLACE, Pointwise, one_pass, takes_out, written
from tensor.operations.reduction import into_out
from tensor.operations.special.error_functions import ndtr_on_host, single_normal_tail
from tensor.operations.special.evaluation import constants, log1p_from_0
from tensor.operations.special.logistic import SIGMOID, logistic_on_host

from .arithmetic import ABS, ADD, DIV, MUL, SGN, SUB
from .powers import EXP
from .selection import FEW, blended, choose, where, zero_where
from .trigonometry import TANH

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor

    #: A function of arrays, and the same of tensors.
    _OnArrays: TypeAlias = Callable[..., Any]
    _OnTensors: TypeAlias = Callable[..., Tensor]

_FLOATING = (Category.FLOATING,)
_REAL = (Category.INTEGER, Category.FLOATING)
#: Decimal constants in a CUDA expression, which are doubles unless they are cast.
_DECIMAL = re.compile(r"(?<![\w.])(\d+\.\d+)")


def _no_curvature(grad: Tensor) -> Tensor:
    return zeros_like(grad)


#: Of each activation, the operation that gives the gradient of its operand, of that of its result and of the operand.
GRADIENTS: dict[Pointwise, Pointwise] = {}


def _activation(
    name: str,
    value: tuple[str, _OnArrays],
    slope: tuple[str, _OnArrays],
    curvature: tuple[str, _OnArrays, _OnTensors] | None,
    *,
    categories: tuple[Category, ...] = _FLOATING,
    tabulated: bool = False,
) -> Pointwise:
    """The operation with its derivatives.

    Parameters
    ----------
    value, slope, curvature
        CUDA expression and NumPy function ``f(x, *scalars)``, which may take an ``out``; of the curvature also a function of
        tensors, made of differentiable operations. ``None`` for the curvature of a piecewise linear function, which is 0.
    categories
        Of the dtypes that the function takes.
    tabulated
        See :class:`.Pointwise`.
    """
    expressions = [each[0] for each in (value, slope, curvature) if each is not None]
    scalars = [each for each in "pqr" if any(f"{{{each}}}" in text for text in expressions)]

    def cuda(expression: str, x: int) -> str:
        """The expression of an element that is operand number ``x``, behind which the scalars follow."""
        letters = dict(zip(("x", *scalars), "abcdef"[x:], strict=False))
        return "(" + _DECIMAL.sub(r"Compute(\1)", expression.format(**letters)) + ")"

    def needing(operands: str, first_scalar: int, function: Callable[..., Any]) -> Derivative:
        """``function`` as a derivative that needs ``operands`` and the scalars, which start at ``first_scalar``."""
        return Derivative(function, " ".join(operands + "abcdef"[first_scalar : first_scalar + len(scalars)]))

    if curvature is None:
        of_element: Callable[..., Any] | Derivative = _no_curvature
    else:
        expression, on_arrays, on_tensors = curvature
        second = Pointwise(
            f"{name}_double_backward",
            f"a * b * {cuda(expression, 2)}",
            lambda a, b, x, *scalars: a * b * on_arrays(x, *scalars),
            typed=3,
            include="activations.cuh",
        )

        def second_derivative(grad: Tensor, a: Tensor, x: Tensor, *scalars: float) -> Tensor:
            if modes.recording:
                return MUL.binary(MUL.binary(grad, a), on_tensors(x, *scalars))
            return second(grad, a, x, *scalars)

        of_element = needing("ab", 2, second_derivative)
    slope_on_arrays = slope[1]
    if takes_out(slope_on_arrays):

        def gradient(a: Any, x: Any, *scalars: Any, out: Any = None) -> Any:
            return np.multiply(a, slope_on_arrays(x, *scalars, out=out), out=out)

    else:

        def gradient(a: Any, x: Any, *scalars: Any, out: Any = None) -> Any:
            return np.multiply(a, slope_on_arrays(x, *scalars), out=out)

    first = Pointwise(
        f"{name}_backward",
        f"a * {cuda(slope[0], 1)}",
        gradient,
        typed=2,
        include="activations.cuh",
        derivatives=(needing("b", 2, lambda grad, x, *scalars: first(grad, x, *scalars)), of_element),
    )
    activation = Pointwise(
        name,
        cuda(value[0], 0),
        value[1],
        typed=1,
        categories=categories,
        include="activations.cuh",
        tabulated=tabulated,
        derivatives=(needing("a", 1, lambda grad, x, *scalars: first(grad, x, *scalars)),),
    )
    GRADIENTS[activation] = first
    return activation


def _expm1_below_0(x: Any) -> Any:
    """``np.expm1(x)`` of numbers up to 0, whose loop has no vector instructions as the tangent's has; of others anything."""
    if x.dtype != np.float32 or x.size <= FEW:
        return np.expm1(x)
    half = np.tanh(x * x.dtype.type(0.5))
    return (half + half) / (1 - half)


def _apply(operation: Pointwise, input: Tensor, inplace: bool, *scalars: float) -> Tensor:
    return operation.out(IN_PLACE if inplace else None, input, *scalars)


# Rectifiers


@one_pass
def _rectified(a: Any, out: Any = None) -> Any:
    # By a limit above, too, as that loop is several times as quick as the maximum with a number.
    return np.clip(a, 0, np.inf, out=out) if a.dtype.kind == "f" else np.maximum(a, a.dtype.type(0), out=out)


def _rectified_half(bits: Any, infinity: Any, out: Any) -> None:
    # Negative numbers lie between the negative zero and NaN.
    offset = np.subtract(bits, _BEYOND_NEGATIVE_ZERO, out=scratch(bits))
    mask = (offset <= infinity - _ONE).view(np.int8)
    mask -= 1
    np.copyto(offset.view(np.int16), mask)
    np.bitwise_and(bits, offset, out=out)


_BEYOND_NEGATIVE_ZERO, _ONE = constants((0x8001, 1), np.uint16)

RELU = Pointwise(
    "relu",
    "a <= 0 ? Compute(0) : a",
    _rectified,
    categories=_REAL,
    half=_rectified_half,
    derivatives=(lambda grad, out: RELU_BACKWARD.binary(grad, out),),
)
#: Of (gradient, result).
RELU_BACKWARD: Pointwise = Pointwise(
    "threshold_backward",
    "b <= 0 ? Compute(0) : a",
    lambda a, b, out=None: zero_where(b <= 0, a, out),
    derivatives=(
        lambda grad, b: RELU_BACKWARD.binary(grad, b),
        _no_curvature,
    ),
)


@operation(namespace="tensor nn.functional")
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Rectified linear unit: ``max(input, 0)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    RuntimeError
        If the dtype is bool, or ``inplace`` is true for a leaf that requires a gradient.
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> nn.functional.relu(tensor.tensor([-1.0, 0.0, 2.0]))
    tensor([0., 0., 2.])
    """
    if input._layout.dtype.category is Category.BOOL:
        raise RuntimeError("Boolean inputs not supported for relu")
    return RELU.in_place(input) if inplace else RELU.unary(input)


def _leaky(x: Any, p: Any, out: Any = None) -> Any:
    product = np.multiply(x, p, out=out)
    if 0 < p <= 1:
        return np.maximum(x, product, out=out)
    # Of infinite elements and a slope of 0 the product is NaN, which the maximum would be, too.
    return written(choose(x > 0, x, product), out)


LEAKY_RELU = _activation(
    "leaky_relu",
    value=("{x} > 0 ? {x} : {x} * {p}", _leaky),
    slope=(
        "{x} > 0 ? Compute(1) : {p}",
        lambda x, p, out=None: choose(x > 0, x.dtype.type(1), p, out),
    ),
    curvature=None,
)


@operation(namespace="nn.functional", method=False)
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Leaky rectified linear unit: ``input`` where it is positive, else ``negative_slope * input``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.leaky_relu(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-0.0200,  0.0000,  1.0000,  8.0000])
    """
    return _apply(LEAKY_RELU, input, inplace, negative_slope)


def _prelu(a: Any, b: Any, out: Any = None) -> Any:
    # Of a slope that is stretched over many elements one is enough.
    slopes = b[tuple([slice(None if step else 1) for step in b.strides])]
    if slopes.min() > 0 and slopes.max() <= 1:
        return np.maximum(a, np.multiply(a, b, out=out), out=out)
    return choose(a > 0, a, a * b, out)


#: Of (element, slope for negative elements); both have gradients.
PRELU = Pointwise(
    "prelu",
    "a > 0 ? a : a * b",
    _prelu,
    node="PreluKernelBackward0",
    categories=_FLOATING,
    derivatives=(
        lambda grad, a, b: PRELU_BACKWARD(grad, a, b),
        lambda grad, a, b: PRELU_WEIGHT_BACKWARD(grad, a, b),
    ),
)
#: Of (gradient, element, slope).
PRELU_BACKWARD: Pointwise = Pointwise(
    "prelu_backward",
    "b > 0 ? a : a * c",
    lambda a, b, c, out=None: choose(b > 0, a, a * c, out),
    derivatives=(
        lambda grad, b, c: PRELU_BACKWARD(grad, b, c),
        _no_curvature,
        lambda grad, a, b: RELU_BACKWARD.binary(grad * a, -b),
    ),
)
#: Of (gradient, element, slope), which does not depend on the slope: its second derivative is 0, and not absent.
PRELU_WEIGHT_BACKWARD: Pointwise = Pointwise(
    "prelu_weight_backward",
    "b > 0 ? Compute(0) : a * b",
    lambda a, b, _, out=None: zero_where(b > 0, a * b, out),
    derivatives=(
        lambda grad, b, c: PRELU_WEIGHT_BACKWARD(grad, b, c),
        lambda grad, a, b: RELU_BACKWARD.binary(grad * a, -b),
        _no_curvature,
    ),
)


@operation(namespace="tensor nn.functional", autocast=Autocast(cuda=LOWER, cpu=LOWER))
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Parametric rectified linear unit: ``input`` where it is positive, else ``weight * input``.

    Parameters
    ----------
    input : Tensor
        Of a floating dtype, of any shape, or (N, C, ...) where there is a weight for each of C channels; the
        result has its shape.
    weight : Tensor
        Of shape (1,) or (), or (C,).

    Raises
    ------
    RuntimeError
        If there are neither one weight nor C.
    NotImplementedError
        If the promoted dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.prelu(tensor.tensor([-2.0, 4.0]), tensor.tensor([0.25]))
    tensor([-0.5000,  4.0000])
    """
    shape, count = input._layout.shape, weight._layout.numel
    if count != 1 or len(weight._layout.shape) > 1:
        channels = shape[1] if len(shape) > 1 else 1
        if len(weight._layout.shape) != 1 or count != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} and channel "
                f"size = {channels}."
            )
        weight = weight.view(1, count, *[1] * (len(shape) - 2)) if len(shape) > 1 else weight
    elif not shape:
        weight = weight.reshape(())
    return PRELU(input, weight)


THRESHOLD = _activation(
    "threshold",
    value=("{x} <= {p} ? {q} : {x}", lambda x, p, q, out=None: choose(x <= p, q, x, out)),
    slope=("{x} <= {p} ? Compute(0) : Compute(1)", lambda x, p, q: (~(x <= p)).astype(x.dtype)),
    curvature=None,
    categories=_REAL,
)


@operation(namespace="tensor nn.functional", method=False)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``input`` where it is above ``threshold``, else ``value``.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    NotImplementedError
        If the dtype is bool or complex.

    Examples
    --------
    >>> nn.functional.threshold(tensor.tensor([-2.0, 0.0, 1.0, 8.0]), 0.0, 20.0)
    tensor([20., 20.,  1.,  8.])
    """
    return _apply(THRESHOLD, input, inplace, threshold, value)


def _elu_curvature_of(x: Any, p: float, q: float, r: float) -> Any:
    negative = x < 0
    # The exponential of large elements would overflow, and its derivative be NaN.
    return where(negative, MUL.binary(EXP.unary(where(negative, x, 0.0) * r), p * r * r), 0.0)


#: Of (element, factor of the exponential, factor of positive elements, factor inside the exponential).
ELU = _activation(
    "elu",
    value=(
        "{x} <= 0 ? expm1({x} * {r}) * {p} : {x} * {q}",
        lambda x, p, q, r, out=None: choose(x <= 0, _expm1_below_0(x * r) * p, x * q, out),
    ),
    slope=(
        "{x} <= 0 ? {p} * {r} * exp({x} * {r}) : {q}",
        lambda x, p, q, r, out=None: choose(x <= 0, p * r * np.exp(x * r), q, out),
    ),
    curvature=(
        "{x} < 0 ? {p} * {r} * {r} * exp({x} * {r}) : Compute(0)",
        lambda x, p, q, r: choose(x < 0, p * r * r * np.exp(x * r), x.dtype.type(0)),
        _elu_curvature_of,
    ),
    tabulated=True,
)
CELU = ELU.shown_as("CeluBackward0")
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


@operation(namespace="nn.functional", method=False)
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Exponential linear unit: ``input`` where it is positive, else ``alpha * (exp(input) - 1)``.

    D.-A. Clevert, T. Unterthiner, S. Hochreiter, "Fast and Accurate Deep Network Learning by Exponential Linear
    Units", 2016.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.elu(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-0.8647,  0.0000,  1.0000,  8.0000])
    """
    return _apply(ELU, input, inplace, alpha, 1.0, 1.0)


@operation(namespace="tensor nn.functional", method=False)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled exponential linear unit: ``scale * elu(input, alpha)`` with the constants of self-normalising networks.

    ``alpha`` is 1.6732632423543772 and ``scale`` 1.0507009873554805: G. Klambauer et al., "Self-Normalizing Neural
    Networks", 2017.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.selu(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-1.5202,  0.0000,  1.0507,  8.4056])
    """
    return _apply(ELU, input, inplace, _SELU_ALPHA * _SELU_SCALE, _SELU_SCALE, 1.0)


@operation(namespace="tensor nn.functional", method=False)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Continuously differentiable ELU: ``input`` where it is positive, else ``alpha * (exp(input / alpha) - 1)``.

    J. T. Barron, "Continuously Differentiable Exponential Linear Units", 2017.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    RuntimeError
        If ``alpha`` is 0.
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.celu(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-0.8647,  0.0000,  1.0000,  8.0000])
    """
    if alpha == 0:
        raise RuntimeError(
            "ZeroDivisionError: alpha cannot be 0 for celu(); of smaller and smaller ones the limit is relu()"
        )
    return _apply(CELU, input, inplace, alpha, 1.0, 1.0 / alpha)


# Smooth rectifiers


def _softplus_curvature_of(x: Any, p: float, q: float) -> Any:
    scaled = MUL.binary(x, p)
    bell = MUL.binary(SIGMOID.unary(scaled), SIGMOID.unary(-scaled))
    return where(scaled > q, 0.0, MUL.binary(bell, p))


def _softplus(x: Any, p: Any, q: Any, out: Any = None) -> Any:
    scaled = x if p == 1 else np.multiply(x, p, out=_room(x))
    linear = scaled > q
    value = log1p_from_0(np.exp(scaled, out=_room(x)), _room(x))
    if p != 1:
        value = np.divide(value, p, out=_room(x))
    return choose(linear, x, value, out)


def _room(x: Any) -> Any:
    """Scratch memory for ``x``; ``None`` where it has no dimensions."""
    return scratch(x) if np.ndim(x) else None


SOFTPLUS = _activation(
    "softplus",
    value=(
        "{x} * {p} > {q} ? {x} : log1p(exp({x} * {p})) / {p}",
        _softplus,
    ),
    slope=(
        "{x} * {p} > {q} ? Compute(1) : logistic({x} * {p})",
        lambda x, p, q, out=None: choose(x * p > q, x.dtype.type(1), logistic_on_host(x * p), out),
    ),
    curvature=(
        "{x} * {p} > {q} ? Compute(0) : {p} * logistic({x} * {p}) * logistic(-{x} * {p})",
        lambda x, p, q: choose(
            x * p > q, x.dtype.type(0), p * logistic_on_host(x * p) * logistic_on_host(-x * p)
        ),
        _softplus_curvature_of,
    ),
    tabulated=True,
)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32))
def softplus(
    input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None
) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``, a smooth :func:`relu`; ``input`` where ``beta * input > threshold``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both. Autocast computes it in float32.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.
    RuntimeError
        If ``out`` has another dtype.

    Examples
    --------
    >>> nn.functional.softplus(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([0.1269, 0.6931, 1.3133, 8.0003])
    """
    result = SOFTPLUS(input, beta, threshold)
    return result if out is None else into_out(result, out, "softplus")


def _log_sigmoid(x: Any, out: Any = None) -> Any:
    if np.ndim(x) == 0:
        return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))
    rest = np.abs(x, out=scratch(x))
    np.negative(rest, out=rest)
    rest = log1p_from_0(np.exp(rest, out=rest), scratch(x))
    return np.subtract(x.clip(-np.inf, 0, out=out), rest, out=out)


LOG_SIGMOID = _activation(
    "log_sigmoid",
    value=(
        "{x} != {x} ? {x} : fmin({x}, Compute(0)) - log1p(exp(-fabs({x})))",
        _log_sigmoid,
    ),
    slope=("logistic(-{x})", lambda x: logistic_on_host(-x)),
    curvature=(
        "-logistic({x}) * logistic(-{x})",
        lambda x: -logistic_on_host(x) * logistic_on_host(-x),
        lambda x: MUL.binary(-SIGMOID.unary(x), SIGMOID.unary(-x)),
    ),
    tabulated=True,
)


@operation(namespace="nn.functional", method=False)
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``log(1 / (1 + exp(-input)))``, the logarithm of the logistic function, without overflow.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.
    RuntimeError
        If ``out`` has another dtype.

    Examples
    --------
    >>> nn.functional.logsigmoid(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-2.1269e+00, -6.9315e-01, -3.1326e-01, -3.3541e-04])
    """
    result = LOG_SIGMOID.unary(input)
    return result if out is None else into_out(result, out, "logsigmoid")


def _silu(x: Any, out: Any = None) -> Any:
    result = np.negative(x, out=np.empty_like(x) if out is None else out)
    np.exp(result, out=result)
    result += 1
    return np.divide(x, result, out=result)


def _silu_slope(x: Any, out: Any = None) -> Any:
    s = logistic_on_host(x, scratch(x) if np.ndim(x) else None)
    result = np.subtract(1, s, out=out)
    result *= x
    result += 1
    result *= s
    return result


def _silu_curvature(x: Any) -> Any:
    s = logistic_on_host(x)
    return s * (1 - s) * (2 + x * (1 - 2 * s))


def _silu_curvature_of(x: Any) -> Any:
    s, rest = SIGMOID.unary(x), SIGMOID.unary(-x)
    return s * rest * (2 + x * (rest - s))


SILU = _activation(
    "silu",
    value=("{x} / (1 + exp(-{x}))", _silu),
    slope=("silu_slope({x})", _silu_slope),
    curvature=("silu_curvature({x})", _silu_curvature, _silu_curvature_of),
    tabulated=True,
)


@operation(namespace="nn.functional", method=False)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Sigmoid linear unit, also called swish: ``input * sigmoid(input)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating or complex dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    NotImplementedError
        If the dtype is bool or an integer one.

    Examples
    --------
    >>> nn.functional.silu(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-0.2384,  0.0000,  0.7311,  7.9973])
    """
    if input._layout.dtype.is_complex:
        return MUL.out(IN_PLACE if inplace else None, input, SIGMOID.unary(input))
    return SILU.in_place(input) if inplace else SILU.unary(input)


def _mish_factor(x: Any) -> Any:
    return np.tanh(log1p_from_0(np.exp(x)))


def _mish_slope(x: Any) -> Any:
    t = _mish_factor(x)
    return t + x * logistic_on_host(x) * (1 - t * t)


def _mish_curvature(x: Any) -> Any:
    t, s = _mish_factor(x), logistic_on_host(x)
    return (1 - t * t) * s * (2 + x * (1 - s) - 2 * x * t * s)


def _mish_curvature_of(x: Any) -> Any:
    t, s = TANH.unary(-LOG_SIGMOID.unary(-x)), SIGMOID.unary(x)
    return (1 - t * t) * s * (2 + x * (1 - s) - 2 * x * t * s)


MISH = _activation(
    "mish",
    value=("{x} * mish_factor({x})", lambda x: x * _mish_factor(x)),
    slope=("mish_slope({x})", _mish_slope),
    curvature=("mish_curvature({x})", _mish_curvature, _mish_curvature_of),
    tabulated=True,
)


@operation(namespace="nn.functional", method=False)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * tanh(softplus(input))``.

    D. Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2020.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.mish(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-0.2525,  0.0000,  0.8651,  8.0000])
    """
    return MISH.in_place(input) if inplace else MISH.unary(input)


_INVERSE_ROOT = float(1 / np.sqrt(2 * np.pi))


def _normal_density(x: Any) -> Any:
    return x.dtype.type(_INVERSE_ROOT) * np.exp(x.dtype.type(-0.5) * x * x)


def _gelu(x: Any, out: Any = None) -> Any:
    if x.dtype != np.float32 or np.ndim(x) == 0:
        return np.multiply(x, ndtr_on_host(x), out=out)
    # x - x * F(-x) and x * F(x), F the normal distribution function, are the larger of x and 0, less abs(x) * F(-abs(x)).
    result, bell, size, hard = single_normal_tail(x, np.empty_like(x) if out is None else out)
    result *= bell
    result *= size
    # Not below the negative zero: results have the sign of x also where they are 0.
    np.subtract(x.clip(*_FROM_NEGATIVE_ZERO, out=size), result, out=result)
    if hard:
        # The limit is 0, and the product, which a device computes, NaN.
        result[np.isneginf(x)] = np.nan
    return result


def _gelu_slope(x: Any, out: Any = None) -> Any:
    if x.dtype != np.float32 or np.ndim(x) == 0:
        return np.add(ndtr_on_host(x), x * _normal_density(x), out=out)
    slope, bell, size, _ = single_normal_tail(x, np.empty_like(x) if out is None else out)
    # The slope at -abs(x), which infinite numbers make NaN.
    np.multiply(x, _SINGLE_INVERSE_ROOT, out=size)
    slope -= np.abs(size, out=size)
    slope *= bell
    # At positive numbers 1 less that: without a branch, and by bits, as copysign takes longer.
    signs = np.bitwise_and(x.view(np.int32), _SIGN, out=bell.view(np.int32))
    np.bitwise_xor(slope.view(np.int32), signs, out=slope.view(np.int32))
    signs |= _HALF.view(np.int32)
    bell += _HALF
    return np.subtract(bell, slope, out=slope)


_FROM_NEGATIVE_ZERO = constants((-0.0, np.inf), np.float32)
_SINGLE_INVERSE_ROOT, _HALF = constants((_INVERSE_ROOT, 0.5), np.float32)
_SIGN = np.array(-(2**31), np.int32)


def _gelu_curvature_of(x: Any) -> Any:
    square = x * x
    return EXP.unary(square * -0.5) * _INVERSE_ROOT * (2 - square)


GELU = _activation(
    "gelu",
    value=("gelu<Result>({x})", _gelu),
    slope=("gelu_slope<Result>({x})", _gelu_slope),
    curvature=(
        "gelu_curvature({x})",
        lambda x: _normal_density(x) * (2 - x * x),
        _gelu_curvature_of,
    ),
    tabulated=True,
)
#: Of the approximation ``x * (1 + tanh(u)) / 2``, where ``u = _SCALE * (x + _CUBIC * x**3)``.
_SCALE = float(np.sqrt(2 / np.pi))
_CUBIC = 0.044715


def _gelu_tanh_factor(x: Any) -> Any:
    """``(1 + tanh(u)) / 2`` as ``logistic(2 * u)``, which does not cancel for negative elements."""
    return logistic_on_host(x.dtype.type(2 * _SCALE) * (x + x.dtype.type(_CUBIC) * x * x * x))


def _gelu_tanh_inner(x: Any) -> Any:
    """Derivative of ``2 * u``."""
    return x.dtype.type(2 * _SCALE) * (1 + x.dtype.type(3 * _CUBIC) * x * x)


def _gelu_tanh_slope(x: Any) -> Any:
    s = _gelu_tanh_factor(x)
    return s + x * s * (1 - s) * _gelu_tanh_inner(x)


def _gelu_tanh_curvature(x: Any) -> Any:
    s, v = _gelu_tanh_factor(x), _gelu_tanh_inner(x)
    return s * (1 - s) * (2 * v + x * ((1 - 2 * s) * v * v + x.dtype.type(12 * _SCALE * _CUBIC) * x))


def _gelu_tanh_curvature_of(x: Any) -> Any:
    square = x * x
    u, v = x * (1 + square * _CUBIC) * (2 * _SCALE), (1 + square * (3 * _CUBIC)) * (2 * _SCALE)
    s, rest = SIGMOID.unary(u), SIGMOID.unary(-u)
    # The bell first: it is 0 where the square of v would overflow.
    bell = s * rest
    bell_v = bell * v
    return 2 * bell_v + x * ((rest - s) * bell_v * v + bell * x * (12 * _SCALE * _CUBIC))


GELU_TANH = _activation(
    "gelu",
    value=("{x} * gelu_tanh_factor({x})", lambda x: x * _gelu_tanh_factor(x)),
    slope=("gelu_tanh_slope({x})", _gelu_tanh_slope),
    curvature=("gelu_tanh_curvature({x})", _gelu_tanh_curvature, _gelu_tanh_curvature_of),
    tabulated=True,
)


@operation(namespace="nn.functional", method=False)
def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """Gaussian error linear unit: ``input`` times the standard normal distribution function at ``input``.

    D. Hendrycks, K. Gimpel, "Gaussian Error Linear Units (GELUs)", 2016.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    approximate : str
        ``"none"``, or ``"tanh"`` for
        ``input * (1 + tanh(sqrt(2 / pi) * (input + 0.044715 * input**3))) / 2``.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Raises
    ------
    RuntimeError
        If ``approximate`` is anything else, or ``out`` has another dtype.
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.gelu(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-0.0455,  0.0000,  0.8413,  8.0000])
    """
    if approximate == "none":
        result = GELU.unary(input)
    elif approximate == "tanh":
        result = GELU_TANH.unary(input)
    else:
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")
    return result if out is None else into_out(result, out, "gelu")


def _softsign_curvature_of(x: Any) -> Any:
    return SGN.unary(x) * -2 / (x.abs() + 1) ** 3


SOFTSIGN = _activation(
    "softsign",
    value=("{x} / (1 + fabs({x}))", lambda x: x / (1 + np.abs(x))),
    slope=("1 / ((1 + fabs({x})) * (1 + fabs({x})))", lambda x: 1 / (1 + np.abs(x)) ** 2),
    curvature=(
        "Compute(2 * (({x} < 0) - ({x} > 0))) / ((1 + fabs({x})) * (1 + fabs({x})) * (1 + fabs({x})))",
        lambda x: -2 * np.sign(x) / (1 + np.abs(x)) ** 3,
        _softsign_curvature_of,
    ),
)


@operation(namespace="nn.functional", method=False)
def softsign(input: Tensor) -> Tensor:
    """``input / (1 + abs(input))``.

    Parameters
    ----------
    input : Tensor
        Of any shape and numeric dtype. The result has its shape; integers give the default floating dtype.

    Raises
    ------
    NotImplementedError
        If the dtype is bool.

    Examples
    --------
    >>> nn.functional.softsign(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-0.6667,  0.0000,  0.5000,  0.8889])
    """
    if not input._layout.dtype.is_floating_point:
        return DIV.binary(input, ADD.binary(ABS.unary(input), 1))
    return SOFTSIGN.unary(input)


# Piecewise linear and piecewise quadratic functions


def _limited(x: Any, p: Any, q: Any, out: Any = None) -> Any:
    if x.dtype.kind == "f":
        return x.clip(p, q, out=out)
    return written(np.where(x < p, p, np.where(x > q, q, x)), out)


def _hard_logistic(x: Any, out: Any = None) -> Any:
    zero, three, six, _ = _HARD_LIMITS[x.dtype.char]
    sum_ = np.add(x, three, out=out)
    return np.divide(sum_.clip(zero, six, out=out), six, out=out)


#: 0, 3, 6 and a sixth by the type of an array, whose dtype ``clip`` would have to find out of Python's numbers.
_HARD_LIMITS = {dtype: constants((0, 3, 6, 1 / 6), dtype) for dtype in "efd"}


def _hard_swish(x: Any, out: Any = None) -> Any:
    zero, three, six, sixth = _HARD_LIMITS[x.dtype.char]
    if np.ndim(x) == 0:
        return np.where(np.isneginf(x), x.dtype.type(0), x * (x + three).clip(zero, six) * sixth)
    result = np.add(x, three, out=out)
    result.clip(zero, six, out=result)
    # Of numbers up to 6 times a sixth, so that no product overflows.
    result *= sixth
    result *= x
    if np.isnan(np.minimum.reduce(result, axis=None, initial=np.inf)):
        # The product of an infinite element and 0, too.
        result[np.isneginf(x)] = 0
    return result


def _hard_swish_slope(x: Any, out: Any = None) -> Any:
    _, three, _, _ = _HARD_LIMITS[x.dtype.char]
    slope = np.divide(x, three, out=out)
    slope += x.dtype.type(0.5)
    if np.ndim(x) == 0:
        return np.where(np.abs(x) < three, slope, x.clip(0, 1))
    # Outside of the parabola it is 0 or 1, by the sign.
    step = x.clip(0, 1, out=scratch(x))
    # Numbers without their signs are ordered as their bits are: below 3 the difference is negative.
    bits = np.dtype(f"i{x.itemsize}")
    inside = np.abs(x, out=scratch(x)).view(bits)
    inside -= three.view(bits)
    inside >>= 8 * x.itemsize - 1
    slope_bits = slope.view(bits)
    return blended(inside, slope_bits, step.view(bits), slope_bits).view(x.dtype)


HARDTANH = _activation(
    "hardtanh",
    value=(
        "{x} < {p} ? {p} : {x} > {q} ? {q} : {x}",
        _limited,
    ),
    slope=(
        "{x} <= {p} || {x} >= {q} ? Compute(0) : Compute(1)",
        lambda x, p, q: (~((x <= p) | (x >= q))).astype(x.dtype),
    ),
    curvature=None,
    categories=_REAL,
)


@operation(namespace="nn.functional", method=False)
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` clipped to the interval from ``min_val`` to ``max_val``; its gradient is 0 at both ends.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    ValueError
        If ``min_val`` is above ``max_val``.
    RuntimeError
        If ``min_val`` is negative and the dtype is uint8.
    NotImplementedError
        If the dtype is bool or complex.

    Examples
    --------
    >>> nn.functional.hardtanh(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-1.,  0.,  1.,  1.])
    """
    if min_val > max_val:
        raise ValueError(f"min_val cannot be greater than max_val, got {min_val} and {max_val}")
    if min_val < 0 and input._layout.dtype is uint8:
        raise RuntimeError(
            f"cannot do hardtanh on an unsigned type with negative limits, got min_val={min_val}"
        )
    return _apply(HARDTANH, input, inplace, min_val, max_val)


@operation(namespace="nn.functional", method=False)
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(input, 0), 6)``; its gradient is 0 at 0 and at 6.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    NotImplementedError
        If the dtype is bool or complex.

    Examples
    --------
    >>> nn.functional.relu6(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([0., 0., 1., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


HARDSIGMOID = _activation(
    "hardsigmoid",
    value=(
        "{x} <= -3 ? Compute(0) : {x} >= 3 ? Compute(1) : ({x} + 3) / 6",
        _hard_logistic,
    ),
    slope=(
        "{x} > -3 && {x} < 3 ? Compute(1) / 6 : Compute(0)",
        lambda x: ((x > -3) & (x < 3)) / x.dtype.type(6),
    ),
    curvature=None,
)


@operation(namespace="nn.functional", method=False)
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``(input + 3) / 6`` clipped to the interval from 0 to 1, a piecewise linear sigmoid.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.hardsigmoid(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([0.1667, 0.5000, 0.6667, 1.0000])
    """
    return _apply(HARDSIGMOID, input, inplace)


HARDSWISH = _activation(
    "hardswish",
    value=(
        "{x} <= -3 ? Compute(0) : {x} >= 3 ? {x} : {x} * ({x} + 3) / 6",
        _hard_swish,
    ),
    slope=(
        "{x} <= -3 ? Compute(0) : {x} >= 3 ? Compute(1) : {x} / 3 + 0.5",
        _hard_swish_slope,
    ),
    curvature=(
        "{x} > -3 && {x} < 3 ? Compute(1) / 3 : Compute(0)",
        lambda x: ((x > -3) & (x < 3)) / x.dtype.type(3),
        lambda x: DIV.binary(((x > -3) & (x < 3)).to(x.dtype), 3),
    ),
    tabulated=True,
)


@operation(namespace="nn.functional", method=False)
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * hardsigmoid(input)``, a piecewise quadratic :func:`silu`.

    A. Howard et al., "Searching for MobileNetV3", 2019.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    inplace : bool
        Whether the result is written to ``input``.

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.hardswish(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-0.3333,  0.0000,  0.6667,  8.0000])
    """
    return _apply(HARDSWISH, input, inplace)


# Shrinkage functions


def _hard_shrunk(x: Any, p: Any, out: Any = None) -> Any:
    if np.ndim(x) == 0 or not p >= 0:
        return written(np.where((x >= -p) & (x <= p), x.dtype.type(0), x), out)
    # Numbers without their signs are ordered as their bits are: where the difference is negative, all bits stay.
    bits = np.dtype(f"i{x.itemsize}")
    size = np.abs(x, out=out).view(bits)
    np.subtract(np.abs(p).view(bits), size, out=size)
    np.right_shift(size, 8 * x.itemsize - 1, out=size)
    return np.bitwise_and(size, x.view(bits), out=size).view(x.dtype)


HARDSHRINK = _activation(
    "hardshrink",
    value=(
        "{x} >= -{p} && {x} <= {p} ? Compute(0) : {x}",
        _hard_shrunk,
    ),
    slope=(
        "{x} >= -{p} && {x} <= {p} ? Compute(0) : Compute(1)",
        lambda x, p: (~((x >= -p) & (x <= p))).astype(x.dtype),
    ),
    curvature=None,
)


@operation(namespace="tensor nn.functional")
def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """``input``, and 0 from ``-lambd`` to ``lambd``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> tensor.hardshrink(tensor.tensor([-1.0, 0.25, 2.0]))
    tensor([-1.,  0.,  2.])
    """
    return HARDSHRINK.out(out, input, lambd)


def _shrunk(x: Any, p: Any, out: Any = None) -> Any:
    if np.ndim(x) == 0:
        return np.copysign(x - x.clip(-p, p), x)
    limited = x.clip(-p, p, out=scratch(x))
    result = np.subtract(x, limited, out=out)
    # Zeros have the sign of what they come from: by bits, as copysign takes longer.
    bits = f"i{x.itemsize}"
    signs = np.bitwise_and(x.view(bits), np.array(-0.0, x.dtype).view(bits), out=limited.view(bits))
    np.bitwise_or(result.view(bits), signs, out=result.view(bits))
    return result


SOFTSHRINK = _activation(
    "softshrink",
    value=(
        "{x} > {p} ? {x} - {p} : {x} < -{p} ? {x} + {p} : {x} * 0",
        _shrunk,
    ),
    slope=(
        "{x} >= -{p} && {x} <= {p} ? Compute(0) : Compute(1)",
        lambda x, p: (~((x >= -p) & (x <= p))).astype(x.dtype),
    ),
    curvature=None,
)


@operation(namespace="nn.functional", method=False)
def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Soft thresholding: ``sign(input) * max(abs(input) - lambd, 0)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype; the result has both.
    out : Tensor, optional
        Tensor that the result is written to.

    Raises
    ------
    RuntimeError
        If ``lambd`` is negative.
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> nn.functional.softshrink(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-1.5000,  0.0000,  0.5000,  7.5000])
    """
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}")
    return SOFTSHRINK.out(out, input, lambd)


@operation(namespace="nn.functional", method=False)
def tanhshrink(input: Tensor) -> Tensor:
    """``input - tanh(input)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a numeric dtype. The result has its shape; integers give the default floating dtype.

    Raises
    ------
    RuntimeError
        If the dtype is bool.

    Examples
    --------
    >>> nn.functional.tanhshrink(tensor.tensor([-2.0, 0.0, 1.0, 8.0]))
    tensor([-1.0360,  0.0000,  0.2384,  7.0000])
    """
    return SUB.binary(input, TANH.unary(input))


# In place. nn.functional has functions of these names with its own arguments.


@operation()
def relu_(input: Tensor) -> Tensor:
    """Replace ``input`` by ``max(input, 0)``, and return it; see :func:`~nn.functional.relu`.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype.

    Raises
    ------
    RuntimeError
        If the dtype is bool, or ``input`` is a leaf that requires a gradient.
    NotImplementedError
        If the dtype is complex.

    Examples
    --------
    >>> x = tensor.tensor([-1.0, 2.0])
    >>> tensor.relu_(x) is x
    True
    >>> x
    tensor([0., 2.])
    """
    return relu(input, inplace=True)


@operation(method=False)
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Replace ``input`` by its continuously differentiable ELU, and return it; see :func:`~nn.functional.celu`.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype.

    Raises
    ------
    RuntimeError
        If ``alpha`` is 0, or ``input`` is a leaf that requires a gradient.
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> tensor.celu_(tensor.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return celu(input, alpha, inplace=True)


@operation(method=False)
def selu_(input: Tensor) -> Tensor:
    """Replace ``input`` by its scaled exponential linear unit, and return it; see :func:`~nn.functional.selu`.

    Parameters
    ----------
    input : Tensor
        Of any shape and a floating dtype.

    Raises
    ------
    RuntimeError
        If ``input`` is a leaf that requires a gradient.
    NotImplementedError
        If the dtype is not a floating one.

    Examples
    --------
    >>> tensor.selu_(tensor.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return selu(input, inplace=True)


@operation(method=False)
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Replace elements that are not above ``threshold`` by ``value``; see :func:`~nn.functional.threshold`.

    Parameters
    ----------
    input : Tensor
        Of any shape and an integer or floating dtype; it is returned.

    Raises
    ------
    RuntimeError
        If ``input`` is a leaf that requires a gradient.
    NotImplementedError
        If the dtype is bool or complex.

    Examples
    --------
    >>> tensor.threshold_(tensor.tensor([-1.0, 2.0]), 0.5, 9.0)
    tensor([9., 2.])
    """
    return THRESHOLD.in_place(input, threshold, value)
