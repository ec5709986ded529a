"""Activation functions: those of :mod:`tensor`, their in-place forms, and those composed of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor import empty_like, no_grad, where
from tensor.operations.definition import operation
from tensor.operations.pointwise.activations import celu, elu, hardtanh, leaky_relu, relu, selu
from tensor.operations.pointwise.activations import threshold as _threshold

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
    """Randomized leaky rectified linear unit: ``input`` where it is positive, else a slope times ``input``.

    Parameters
    ----------
    input : Tensor
        Floating point tensor of any shape.
    lower, upper : float
        Bounds of the slope.
    training : bool
        Whether the slope of each element is drawn uniformly; otherwise it is the mean of the bounds.
    inplace : bool
        Whether the result overwrites the input.

    Returns
    -------
    Tensor
        Of the input's shape.

    Raises
    ------
    RuntimeError
        If ``lower`` is greater than ``upper``.
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
    """In-place :func:`relu`: the result is written to ``input``, which is returned.

    The parameters are those of that function.

    Raises
    ------
    RuntimeError
        If ``input`` is a leaf that requires grad, outside :func:`tensor.no_grad`.
    """
    return relu(input, True)


@operation(namespace="nn.functional", method=False)
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """In-place :func:`leaky_relu`: the result is written to ``input``, which is returned.

    The parameters are those of that function.

    Raises
    ------
    RuntimeError
        If ``input`` is a leaf that requires grad, outside :func:`tensor.no_grad`.
    """
    return leaky_relu(input, negative_slope, True)


@operation(namespace="nn.functional", method=False)
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place :func:`elu`: the result is written to ``input``, which is returned.

    The parameters are those of that function.

    Raises
    ------
    RuntimeError
        If ``input`` is a leaf that requires grad, outside :func:`tensor.no_grad`.
    """
    return elu(input, alpha, True)


@operation(namespace="nn.functional", method=False)
def selu_(input: Tensor) -> Tensor:
    """In-place :func:`selu`: the result is written to ``input``, which is returned.

    The parameters are those of that function.

    Raises
    ------
    RuntimeError
        If ``input`` is a leaf that requires grad, outside :func:`tensor.no_grad`.
    """
    return selu(input, True)


@operation(namespace="nn.functional", method=False)
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place :func:`celu`: the result is written to ``input``, which is returned.

    The parameters are those of that function.

    Raises
    ------
    RuntimeError
        If ``input`` is a leaf that requires grad, outside :func:`tensor.no_grad`.
    """
    return celu(input, alpha, True)


@operation(namespace="nn.functional", method=False)
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In-place :func:`hardtanh`: the result is written to ``input``, which is returned.

    The parameters are those of that function.

    Raises
    ------
    RuntimeError
        If ``input`` is a leaf that requires grad, outside :func:`tensor.no_grad`.
    """
    return hardtanh(input, min_val, max_val, True)


@operation(namespace="nn.functional", method=False)
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """In-place :func:`threshold`: the result is written to ``input``, which is returned.

    The parameters are those of that function.

    Raises
    ------
    RuntimeError
        If ``input`` is a leaf that requires grad, outside :func:`tensor.no_grad`.
    """
    return _threshold(input, threshold, value, True)


@operation(namespace="nn.functional", method=False)
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """In-place :func:`rrelu`: the result is written to ``input``, which is returned.

    The parameters are those of that function.

    Raises
    ------
    RuntimeError
        If ``input`` is a leaf that requires grad, outside :func:`tensor.no_grad`.
    """
    return rrelu(input, lower, upper, training, True)
