"""Activation functions: those of :mod:`tensor`, their in-place forms, and the few that consist of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor import empty_like, no_grad, where
from tensor.operations.definition import operation
from tensor.operations.pointwise.activation_functions import celu, elu, hardtanh, leaky_relu, relu, selu
from tensor.operations.pointwise.activation_functions import threshold as _threshold

if TYPE_CHECKING:
    from tensor import Tensor


@operation(namespace="nn.functional", method=False)
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """``input`` where it is positive, else a slope times it.

    The slope is drawn for each element from ``lower`` to ``upper`` in training, and their mean otherwise.

    Raises
    ------
    RuntimeError
        If ``lower`` is above ``upper``.
    """
    if lower > upper:
        raise RuntimeError(
            f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}"
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    with no_grad():
        slopes = empty_like(input).uniform_(lower, upper)
        slopes = where(input > 0, 1, slopes)
    return input.mul_(slopes) if inplace else input * slopes


# In place


@operation(namespace="nn.functional", method=False)
def relu_(input: Tensor) -> Tensor:
    """:func:`relu` in place."""
    return relu(input, True)


@operation(namespace="nn.functional", method=False)
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """:func:`leaky_relu` in place."""
    return leaky_relu(input, negative_slope, True)


@operation(namespace="nn.functional", method=False)
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`elu` in place."""
    return elu(input, alpha, True)


@operation(namespace="nn.functional", method=False)
def selu_(input: Tensor) -> Tensor:
    """:func:`selu` in place."""
    return selu(input, True)


@operation(namespace="nn.functional", method=False)
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`celu` in place."""
    return celu(input, alpha, True)


@operation(namespace="nn.functional", method=False)
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """:func:`hardtanh` in place."""
    return hardtanh(input, min_val, max_val, True)


@operation(namespace="nn.functional", method=False)
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """:func:`threshold` in place."""
    return _threshold(input, threshold, value, True)


@operation(namespace="nn.functional", method=False)
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """:func:`rrelu` in place."""
    return rrelu(input, lower, upper, training, True)
