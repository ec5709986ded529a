"""Gradients of convolutions with respect to their inputs and weights, as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import autograd, enable_grad, is_grad_enabled
from tensor.core.names.absent import hints as _hints

from . import functional

if TYPE_CHECKING:
    from tensor import Tensor

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _gradient(
    rank: int, size: Any, other: Tensor, grad_output: Tensor, *, of_weight: bool, options: tuple[Any, ...]
) -> Tensor:
    """Gradient of the operand of shape ``size``, whose elements do not matter: a convolution is linear in each operand."""
    recorded = is_grad_enabled() and (other.requires_grad or grad_output.requires_grad)
    convolve = getattr(functional, f"conv{rank}d")
    stride, padding, dilation, groups = options
    with enable_grad():
        operand = other.new_zeros(tuple(size)).requires_grad_()
        operands = (other, operand) if of_weight else (operand, other)
        output = convolve(*operands, None, stride, padding, dilation, groups)
        if output.shape != grad_output.shape:
            raise RuntimeError(
                f"conv{rank}d_{'weight' if of_weight else 'input'}(): expected grad_output of shape {list(output.shape)}, as "
                f"the convolution's result has it, but got {list(grad_output.shape)}"
            )
    gradient: Any = autograd.grad(output, operand, grad_output, create_graph=recorded)[0]
    return gradient  # type: ignore[no-any-return]


def conv1d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of :func:`nn.functional.conv1d` with respect to its input.

    Parameters
    ----------
    input_size : tuple of int
        Shape of the input, (N, C_in, L).
    weight : Tensor
        Weight of the convolution, of shape (C_out, C_in / groups, *kernel).
    grad_output : Tensor
        Gradient of the output.
    stride, padding, dilation, groups
        Those of the convolution.

    Returns
    -------
    Tensor
        Of shape ``input_size``.

    Raises
    ------
    RuntimeError
        If ``grad_output`` does not have the shape of the convolution's output.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(1, input_size, weight, grad_output, of_weight=False, options=options)


def conv1d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of :func:`nn.functional.conv1d` with respect to its weight.

    Parameters
    ----------
    input : Tensor
        Input of the convolution, of shape (N, C_in, L).
    weight_size : tuple of int
        Shape of the weight, (C_out, C_in / groups, *kernel).
    grad_output : Tensor
        Gradient of the output.
    stride, padding, dilation, groups
        Those of the convolution.

    Returns
    -------
    Tensor
        Of shape ``weight_size``.

    Raises
    ------
    RuntimeError
        If ``grad_output`` does not have the shape of the convolution's output.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(1, weight_size, input, grad_output, of_weight=True, options=options)


def conv2d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of :func:`nn.functional.conv2d` with respect to its input.

    Parameters
    ----------
    input_size : tuple of int
        Shape of the input, (N, C_in, H, W).
    weight : Tensor
        Weight of the convolution, of shape (C_out, C_in / groups, *kernel).
    grad_output : Tensor
        Gradient of the output.
    stride, padding, dilation, groups
        Those of the convolution.

    Returns
    -------
    Tensor
        Of shape ``input_size``.

    Raises
    ------
    RuntimeError
        If ``grad_output`` does not have the shape of the convolution's output.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(2, input_size, weight, grad_output, of_weight=False, options=options)


def conv2d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of :func:`nn.functional.conv2d` with respect to its weight.

    Parameters
    ----------
    input : Tensor
        Input of the convolution, of shape (N, C_in, H, W).
    weight_size : tuple of int
        Shape of the weight, (C_out, C_in / groups, *kernel).
    grad_output : Tensor
        Gradient of the output.
    stride, padding, dilation, groups
        Those of the convolution.

    Returns
    -------
    Tensor
        Of shape ``weight_size``.

    Raises
    ------
    RuntimeError
        If ``grad_output`` does not have the shape of the convolution's output.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(2, weight_size, input, grad_output, of_weight=True, options=options)


def conv3d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of :func:`nn.functional.conv3d` with respect to its input.

    Parameters
    ----------
    input_size : tuple of int
        Shape of the input, (N, C_in, D, H, W).
    weight : Tensor
        Weight of the convolution, of shape (C_out, C_in / groups, *kernel).
    grad_output : Tensor
        Gradient of the output.
    stride, padding, dilation, groups
        Those of the convolution.

    Returns
    -------
    Tensor
        Of shape ``input_size``.

    Raises
    ------
    RuntimeError
        If ``grad_output`` does not have the shape of the convolution's output.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(3, input_size, weight, grad_output, of_weight=False, options=options)


def conv3d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of :func:`nn.functional.conv3d` with respect to its weight.

    Parameters
    ----------
    input : Tensor
        Input of the convolution, of shape (N, C_in, D, H, W).
    weight_size : tuple of int
        Shape of the weight, (C_out, C_in / groups, *kernel).
    grad_output : Tensor
        Gradient of the output.
    stride, padding, dilation, groups
        Those of the convolution.

    Returns
    -------
    Tensor
        Of shape ``weight_size``.

    Raises
    ------
    RuntimeError
        If ``grad_output`` does not have the shape of the convolution's output.
    """
    options = (stride, padding, dilation, groups)
    return _gradient(3, weight_size, input, grad_output, of_weight=True, options=options)


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
