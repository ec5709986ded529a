"""Activation functions as users call them; those of ``nn.functional`` stand on the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvrtc_kernels.dtypes import Category, uint8
from tensor.operations.autocast import FLOAT32, LOWER, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import IN_PLACE, Pointwise
from tensor.operations.special.error_and_gamma import SIGMOID

from .activations import (
    CELU,
    ELU,
    GELU,
    GELU_TANH,
    HARDSHRINK,
    HARDSIGMOID,
    HARDSWISH,
    HARDTANH,
    LEAKY_RELU,
    LOG_SIGMOID,
    MISH,
    PRELU,
    RELU,
    SILU,
    SOFTPLUS,
    SOFTSHRINK,
    SOFTSIGN,
    THRESHOLD,
)
from .arithmetic import ABS, ADD, DIV, MUL, SUB
from .trigonometry import TANH

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


def _apply(operation: Pointwise, input: Tensor, inplace: bool, *numbers: float) -> Tensor:
    return operation.out(IN_PLACE if inplace else None, input, *numbers)


@operation(namespace="tensor nn.functional")
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(input, 0)``."""
    if input._layout.dtype.category is Category.BOOL:
        raise RuntimeError("Boolean inputs not supported for relu")
    return RELU.in_place(input) if inplace else RELU.unary(input)


@operation(namespace="nn.functional", method=False)
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(input, 0), 6)``."""
    return hardtanh(input, 0.0, 6.0, inplace)


@operation(namespace="nn.functional", method=False)
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``negative_slope * input``."""
    return _apply(LEAKY_RELU, input, inplace, negative_slope)


@operation(namespace="tensor nn.functional", method=False)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``input`` where it is above ``threshold``, else ``value``."""
    return _apply(THRESHOLD, input, inplace, threshold, value)


@operation(namespace="nn.functional", method=False)
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``alpha * (exp(input) - 1)``."""
    return _apply(ELU, input, inplace, alpha, 1.0, 1.0)


@operation(namespace="tensor nn.functional", method=False)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """:func:`elu` with the constants of self-normalising networks (G. Klambauer et al., 2017)."""
    return _apply(ELU, input, inplace, _SELU_ALPHA * _SELU_SCALE, _SELU_SCALE, 1.0)


@operation(namespace="tensor nn.functional", method=False)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``alpha * (exp(input / alpha) - 1)``.

    Raises
    ------
    RuntimeError
        If ``alpha`` is 0.
    """
    if alpha == 0:
        raise RuntimeError(
            "ZeroDivisionError: alpha cannot be 0 for celu(); of smaller and smaller ones the limit is relu()"
        )
    return _apply(CELU, input, inplace, alpha, 1.0, 1.0 / alpha)


@operation(namespace="tensor nn.functional", autocast=Autocast(cuda=LOWER, cpu=LOWER))
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``input`` where it is positive, else ``weight * input``.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, ...) where there are several weights.
    weight : Tensor
        One number, or one for each of the C channels.

    Raises
    ------
    RuntimeError
        If there are neither one weight nor C.
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


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32))
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``; ``input`` where ``beta * input`` is above ``threshold``."""
    return SOFTPLUS(input, beta, threshold)


@operation(namespace="nn.functional", method=False)
def logsigmoid(input: Tensor) -> Tensor:
    """``log(1 / (1 + exp(-input)))``."""
    return LOG_SIGMOID.unary(input)


@operation(namespace="nn.functional", method=False)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``."""
    if input._layout.dtype.is_complex:
        return MUL.out(IN_PLACE if inplace else None, input, SIGMOID.unary(input))
    return SILU.in_place(input) if inplace else SILU.unary(input)


@operation(namespace="nn.functional", method=False)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * tanh(softplus(input))``."""
    return MISH.in_place(input) if inplace else MISH.unary(input)


@operation(namespace="nn.functional", method=False)
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``input`` times the part of the normal distribution below it.

    Parameters
    ----------
    approximate
        ``"tanh"`` for the formula with a hyperbolic tangent.

    Raises
    ------
    RuntimeError
        For another name.
    """
    if approximate == "none":
        return GELU.unary(input)
    if approximate == "tanh":
        return GELU_TANH.unary(input)
    raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")


@operation(namespace="nn.functional", method=False)
def softsign(input: Tensor) -> Tensor:
    """``input / (1 + abs(input))``."""
    if not input._layout.dtype.is_floating_point:
        return DIV.binary(input, ADD.binary(ABS.unary(input), 1))
    return SOFTSIGN.unary(input)


@operation(namespace="nn.functional", method=False)
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` between ``min_val`` and ``max_val``.

    Raises
    ------
    ValueError
        If ``min_val`` is above ``max_val``.
    """
    if min_val > max_val:
        raise ValueError(f"min_val cannot be greater than max_val, got {min_val} and {max_val}")
    if min_val < 0 and input._layout.dtype is uint8:
        raise RuntimeError(
            f"cannot do hardtanh on an unsigned type with negative limits, got min_val={min_val}"
        )
    return _apply(HARDTANH, input, inplace, min_val, max_val)


@operation(namespace="nn.functional", method=False)
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``(input + 3) / 6`` between 0 and 1."""
    return _apply(HARDSIGMOID, input, inplace)


@operation(namespace="nn.functional", method=False)
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * hardsigmoid(input)``."""
    return _apply(HARDSWISH, input, inplace)


@operation(namespace="tensor nn.functional")
def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """``input``, and 0 between ``-lambd`` and ``lambd``."""
    return HARDSHRINK.out(out, input, lambd)


@operation(namespace="nn.functional", method=False)
def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """``input`` brought nearer to 0 by ``lambd``.

    Raises
    ------
    RuntimeError
        If ``lambd`` is negative.
    """
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}")
    return SOFTSHRINK.out(out, input, lambd)


@operation(namespace="nn.functional", method=False)
def tanhshrink(input: Tensor) -> Tensor:
    """``input - tanh(input)``."""
    return SUB.binary(input, TANH.unary(input))


@operation()
def relu_(input: Tensor) -> Tensor:
    """:func:`relu` in place."""
    return relu(input, inplace=True)


@operation(method=False)
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`~nn.functional.celu` in place."""
    return celu(input, alpha, inplace=True)


@operation(method=False)
def selu_(input: Tensor) -> Tensor:
    """:func:`~nn.functional.selu` in place."""
    return selu(input, inplace=True)


@operation(method=False)
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """:func:`~nn.functional.threshold` in place."""
    return _apply(THRESHOLD, input, True, threshold, value)
