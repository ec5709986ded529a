"""Activation functions. Each is one kernel forward and one backward.

An activation is its value, slope and curvature as expressions of an element ``{x}`` and of numbers ``{p}``,
``{q}``, ``{r}``; from them follow the function, its derivative, and that one's derivative.
"""

from __future__ import annotations

import re
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.special.error_functions_numpy import erfc

if TYPE_CHECKING:
    from collections.abc import Callable

_FLOATING = (Category.FLOATING,)
_REAL = (Category.INTEGER, Category.FLOATING)
_DECIMAL = re.compile(r"(?<![\w.])(\d+\.\d+)")


def _activation(
    name: str,
    cuda: tuple[str, str, str],
    numpy: tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]],
    *,
    categories: tuple[Category, ...] = _FLOATING,
) -> Pointwise:
    """An activation function; value, slope and curvature in CUDA C++ and on NumPy arrays.

    Its derivatives are operations of their own: the slope times a gradient, and the curvature times two.
    """
    numbers = [each for each in "pqr" if any(f"{{{each}}}" in text for text in cuda)]

    def placed(text: str, x: int) -> str:
        names = dict(zip(("x", *numbers), "abcdef"[x:], strict=False))
        return "(" + _DECIMAL.sub(r"Compute(\1)", text.format(**names)) + ")"

    def needs(operands: str, first: int, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` as a derivative that needs ``operands``, and the numbers from operand ``first`` on."""
        names = ("grad", *operands, *"abcdef"[first : first + len(numbers)])
        parameters = [Parameter(each, Parameter.POSITIONAL_OR_KEYWORD) for each in names]
        function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return function

    def third(_: Any) -> Any:
        raise NotImplementedError(f"the third derivative of {name} is not implemented")

    value, slope, curvature = numpy
    second = Pointwise(
        f"{name}_double_backward",
        f"a * b * {placed(cuda[2], 2)}",
        lambda a, b, x, *rest: a * b * curvature(x, *rest),
        typed=3,
        include="activations.cuh",
        derivatives=(
            needs("bc", 3, lambda grad, b, x, *rest: second(grad, b, x, *rest)),
            needs("ac", 3, lambda grad, a, x, *rest: second(grad, a, x, *rest)),
            third,
        ),
    )
    first = Pointwise(
        f"{name}_backward",
        f"a * {placed(cuda[1], 1)}",
        lambda a, x, *rest: a * slope(x, *rest),
        typed=2,
        include="activations.cuh",
        derivatives=(
            needs("b", 2, lambda grad, x, *rest: first(grad, x, *rest)),
            needs("ab", 2, lambda grad, a, x, *rest: second(grad, a, x, *rest)),
        ),
    )
    return Pointwise(
        name,
        placed(cuda[0], 0),
        value,
        typed=1,
        categories=categories,
        include="activations.cuh",
        derivatives=(needs("a", 1, lambda grad, x, *rest: first(grad, x, *rest)),),
    )


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _none(x: Any, *_: Any) -> Any:
    return np.zeros_like(x)


def _zero_where(condition: Any, values: Any) -> Any:
    """``values``, and 0 where ``condition`` holds: by their bits, as a choice for each element takes many times that."""
    kept = condition.view(np.int8) - np.int8(1)
    kind = values.dtype
    return (values.view(f"i{kind.itemsize}") & kept).view(kind)


# Rectifiers

RELU = Pointwise(
    "relu",
    "a <= 0 ? Compute(0) : a",
    lambda a: np.maximum(a, a.dtype.type(0)),
    categories=_REAL,
    derivatives=(lambda grad, out: RELU_BACKWARD.binary(grad, out),),
)
#: Of (gradient, result).
RELU_BACKWARD = Pointwise(
    "threshold_backward",
    "b <= 0 ? Compute(0) : a",
    lambda a, b: _zero_where(b <= 0, a),
    derivatives=(lambda grad, b: RELU_BACKWARD.binary(grad, b),),
)
LEAKY_RELU = _activation(
    "leaky_relu",
    ("{x} > 0 ? {x} : {x} * {p}", "{x} > 0 ? Compute(1) : {p}", "Compute(0)"),
    (lambda x, p: np.where(x > 0, x, x * p), lambda x, p: np.where(x > 0, x.dtype.type(1), p), _none),
)
THRESHOLD = _activation(
    "threshold",
    ("{x} <= {p} ? {q} : {x}", "{x} <= {p} ? Compute(0) : Compute(1)", "Compute(0)"),
    (lambda x, p, q: np.where(x <= p, q, x), lambda x, p, q: (~(x <= p)).astype(x.dtype), _none),
    categories=_REAL,
)
#: Of (element, factor of the exponential, factor of what is positive, factor inside the exponential).
ELU = _activation(
    "elu",
    (
        "{x} <= 0 ? expm1({x} * {r}) * {p} : {x} * {q}",
        "{x} <= 0 ? {p} * {r} * exp({x} * {r}) : {q}",
        "{x} < 0 ? {p} * {r} * {r} * exp({x} * {r}) : Compute(0) * {q}",
    ),
    (
        lambda x, p, q, r: np.where(x <= 0, np.expm1(x * r) * p, x * q),
        lambda x, p, q, r: np.where(x <= 0, p * r * np.exp(x * r), q),
        lambda x, p, q, r: np.where(x < 0, p * r * r * np.exp(x * r), x.dtype.type(0)),
    ),
)
CELU = ELU.shown_as("CeluBackward0")
#: Of (element, slope), where the slope has a gradient too.
PRELU = Pointwise(
    "prelu",
    "a > 0 ? a : a * b",
    lambda a, b: np.where(a > 0, a, a * b),
    node="PreluKernelBackward0",
    categories=_FLOATING,
    derivatives=(
        lambda grad, a, b: PRELU_BACKWARD(grad, a, b),
        lambda grad, a: PRELU_WEIGHT_BACKWARD(grad, a),
    ),
)
#: Of (gradient, element, slope).
PRELU_BACKWARD = Pointwise(
    "prelu_backward",
    "b > 0 ? a : a * c",
    lambda a, b, c: np.where(b > 0, a, a * c),
    derivatives=(
        lambda grad, b, c: PRELU_BACKWARD(grad, b, c),
        None,
        lambda grad, a, b: RELU_BACKWARD.binary(grad * a, -b),
    ),
)
#: Of (gradient, element).
PRELU_WEIGHT_BACKWARD = Pointwise(
    "prelu_weight_backward",
    "b > 0 ? Compute(0) : a * b",
    lambda a, b: _zero_where(b > 0, a * b),
    derivatives=(
        lambda grad, b: PRELU_WEIGHT_BACKWARD(grad, b),
        lambda grad, a, b: RELU_BACKWARD.binary(grad * a, -b),
    ),
)

# Smooth rectifiers

SOFTPLUS = _activation(
    "softplus",
    (
        "{x} * {p} > {q} ? {x} : log1p(exp({x} * {p})) / {p}",
        "{x} * {p} > {q} ? Compute(1) : logistic({x} * {p})",
        "{x} * {p} > {q} ? Compute(0) : {p} * logistic({x} * {p}) * logistic(-{x} * {p})",
    ),
    (
        lambda x, p, q: np.where(x * p > q, x, np.log1p(np.exp(x * p)) / p),
        lambda x, p, q: np.where(x * p > q, x.dtype.type(1), _logistic(x * p)),
        lambda x, p, q: np.where(x * p > q, x.dtype.type(0), p * _logistic(x * p) * _logistic(-x * p)),
    ),
)
LOG_SIGMOID = _activation(
    "log_sigmoid",
    (
        "{x} != {x} ? {x} : fmin({x}, Compute(0)) - log1p(exp(-fabs({x})))",
        "logistic(-{x})",
        "-logistic({x}) * logistic(-{x})",
    ),
    (
        lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
        lambda x: _logistic(-x),
        lambda x: -_logistic(x) * _logistic(-x),
    ),
)


def _silu_slope(x: Any) -> Any:
    s = _logistic(x)
    return s * (1 + x * (1 - s))


def _silu_curvature(x: Any) -> Any:
    s = _logistic(x)
    return s * (1 - s) * (2 + x * (1 - 2 * s))


SILU = _activation(
    "silu",
    ("{x} / (1 + exp(-{x}))", "silu_slope({x})", "silu_curvature({x})"),
    (lambda x: x / (1 + np.exp(-x)), _silu_slope, _silu_curvature),
)


def _mish_factor(x: Any) -> Any:
    return np.tanh(np.log1p(np.exp(x)))


def _mish_slope(x: Any) -> Any:
    t = _mish_factor(x)
    return t + x * _logistic(x) * (1 - t * t)


def _mish_curvature(x: Any) -> Any:
    t, s = _mish_factor(x), _logistic(x)
    return (1 - t * t) * s * (2 + x * (1 - s) - 2 * x * t * s)


MISH = _activation(
    "mish",
    ("{x} * mish_factor({x})", "mish_slope({x})", "mish_curvature({x})"),
    (lambda x: x * _mish_factor(x), _mish_slope, _mish_curvature),
)


def _normal_part(x: Any) -> Any:
    return x.dtype.type(0.5) * erfc(x * x.dtype.type(-np.sqrt(0.5)))


def _normal_density(x: Any) -> Any:
    return x.dtype.type(1 / np.sqrt(2 * np.pi)) * np.exp(x.dtype.type(-0.5) * x * x)


GELU = _activation(
    "gelu",
    ("{x} * normal_part({x})", "gelu_slope({x})", "gelu_curvature({x})"),
    (
        lambda x: x * _normal_part(x),
        lambda x: _normal_part(x) + x * _normal_density(x),
        lambda x: _normal_density(x) * (2 - x * x),
    ),
)
_C = float(np.sqrt(2 / np.pi))


def _gelu_tanh_part(x: Any) -> Any:
    """``(1 + tanh(u)) / 2`` as ``logistic(2 * u)``, which does not cancel for negative numbers."""
    return _logistic(x.dtype.type(2 * _C) * (x + x.dtype.type(0.044715) * x * x * x))


def _gelu_tanh_inner(x: Any) -> Any:
    return x.dtype.type(2 * _C) * (1 + x.dtype.type(0.134145) * x * x)


def _gelu_tanh_slope(x: Any) -> Any:
    s = _gelu_tanh_part(x)
    return s + x * s * (1 - s) * _gelu_tanh_inner(x)


def _gelu_tanh_curvature(x: Any) -> Any:
    s, v = _gelu_tanh_part(x), _gelu_tanh_inner(x)
    return s * (1 - s) * (2 * v + x * ((1 - 2 * s) * v * v + x.dtype.type(4 * _C * 0.134145) * x))


GELU_TANH = _activation(
    "gelu",
    ("{x} * gelu_tanh_part({x})", "gelu_tanh_slope({x})", "gelu_tanh_curvature({x})"),
    (
        lambda x: x * _gelu_tanh_part(x),
        _gelu_tanh_slope,
        _gelu_tanh_curvature,
    ),
)
SOFTSIGN = _activation(
    "softsign",
    (
        "{x} / (1 + fabs({x}))",
        "1 / ((1 + fabs({x})) * (1 + fabs({x})))",
        "Compute(2 * (({x} < 0) - ({x} > 0))) / ((1 + fabs({x})) * (1 + fabs({x})) * (1 + fabs({x})))",
    ),
    (
        lambda x: x / (1 + np.abs(x)),
        lambda x: 1 / (1 + np.abs(x)) ** 2,
        lambda x: -2 * np.sign(x) / (1 + np.abs(x)) ** 3,
    ),
)

# Piecewise linear

HARDTANH = _activation(
    "hardtanh",
    (
        "{x} < {p} ? {p} : {x} > {q} ? {q} : {x}",
        "{x} <= {p} || {x} >= {q} ? Compute(0) : Compute(1)",
        "Compute(0)",
    ),
    (
        lambda x, p, q: np.where(x < p, p, np.where(x > q, q, x)),
        lambda x, p, q: (~((x <= p) | (x >= q))).astype(x.dtype),
        _none,
    ),
    categories=_REAL,
)
HARDSIGMOID = _activation(
    "hardsigmoid",
    (
        "{x} <= -3 ? Compute(0) : {x} >= 3 ? Compute(1) : ({x} + 3) / 6",
        "{x} > -3 && {x} < 3 ? Compute(1) / 6 : Compute(0)",
        "Compute(0)",
    ),
    (
        lambda x: np.where(x <= -3, x.dtype.type(0), np.where(x >= 3, x.dtype.type(1), (x + 3) / 6)),
        lambda x: ((x > -3) & (x < 3)) / x.dtype.type(6),
        _none,
    ),
)
HARDSWISH = _activation(
    "hardswish",
    (
        "{x} <= -3 ? Compute(0) : {x} >= 3 ? {x} : {x} * ({x} + 3) / 6",
        "{x} <= -3 ? Compute(0) : {x} >= 3 ? Compute(1) : {x} / 3 + 0.5",
        "{x} > -3 && {x} < 3 ? Compute(1) / 3 : Compute(0)",
    ),
    (
        lambda x: np.where(x <= -3, x.dtype.type(0), np.where(x >= 3, x, x * (x + 3) / 6)),
        lambda x: np.where(x <= -3, x.dtype.type(0), np.where(x >= 3, x.dtype.type(1), x / 3 + 0.5)),
        lambda x: ((x > -3) & (x < 3)) / x.dtype.type(3),
    ),
)
HARDSHRINK = _activation(
    "hardshrink",
    (
        "{x} >= -{p} && {x} <= {p} ? Compute(0) : {x}",
        "{x} >= -{p} && {x} <= {p} ? Compute(0) : Compute(1)",
        "Compute(0)",
    ),
    (
        lambda x, p: np.where((x >= -p) & (x <= p), x.dtype.type(0), x),
        lambda x, p: (~((x >= -p) & (x <= p))).astype(x.dtype),
        _none,
    ),
)
SOFTSHRINK = _activation(
    "softshrink",
    (
        "{x} > {p} ? {x} - {p} : {x} < -{p} ? {x} + {p} : {x} * 0",
        "{x} >= -{p} && {x} <= {p} ? Compute(0) : Compute(1)",
        "Compute(0)",
    ),
    (
        lambda x, p: np.where(x > p, x - p, np.where(x < -p, x + p, x * 0)),
        lambda x, p: (~((x >= -p) & (x <= p))).astype(x.dtype),
        _none,
    ),
)
