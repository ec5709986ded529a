"""Gradients of convolutions by their inputs and weights, as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import autograd, enable_grad, is_grad_enabled

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
    rank: int, size: Any, known: Tensor, grad_output: Tensor, *, of_weight: bool, options: tuple[Any, ...]
) -> Tensor:
    """Of the operand of shape ``size``, whose elements do not matter: a convolution is linear in each operand."""
    recorded = is_grad_enabled() and (known.requires_grad or grad_output.requires_grad)
    convolve = getattr(functional, f"conv{rank}d")
    stride, padding, dilation, groups = options
    with enable_grad():
        wanted = known.new_zeros(tuple(size)).requires_grad_()
        operands = (known, wanted) if of_weight else (wanted, known)
        made = convolve(*operands, None, stride, padding, dilation, groups)
        if made.shape != grad_output.shape:
            raise RuntimeError(
                f"conv{rank}d_{'weight' if of_weight else 'input'}(): expected grad_output of shape {list(made.shape)}, as "
                f"the convolution's result has it, but got {list(grad_output.shape)}"
            )
    found: Any = autograd.grad(made, wanted, grad_output, create_graph=recorded)[0]
    return found  # type: ignore[no-any-return]


def conv1d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Gradient of the input of a convolution of signals.

    Parameters
    ----------
    input_size
        Shape of the input.
    weight
        Of the convolution.
    grad_output
        Gradient of its result.

    Raises
    ------
    RuntimeError
        If shapes do not fit.
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
    """Gradient of the weight of a convolution of signals.

    Parameters
    ----------
    input
        Of the convolution.
    weight_size
        Shape of the weight.
    grad_output
        Gradient of the result.

    Raises
    ------
    RuntimeError
        If shapes do not fit.
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
    """Gradient of the input of a convolution of images; see :func:`conv1d_input`."""
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
    """Gradient of the weight of a convolution of images; see :func:`conv1d_weight`."""
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
    """Gradient of the input of a convolution of volumes; see :func:`conv1d_input`."""
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
    """Gradient of the weight of a convolution of volumes; see :func:`conv1d_weight`."""
    options = (stride, padding, dilation, groups)
    return _gradient(3, weight_size, input, grad_output, of_weight=True, options=options)
