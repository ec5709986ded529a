"""Weights of convolutions with channels last in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn.layers.convolution import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

if TYPE_CHECKING:
    import tensor

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Any, kinds: tuple[type, ...], memory_format: tensor.memory_format) -> Any:
    convolutions: list[Any] = [each for each in module.modules() if isinstance(each, kinds)]
    for each in convolutions:
        each.weight.data = each.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: tensor.memory_format) -> Any:
    """Give the weights of all two-dimensional convolutions in ``module`` another order in memory.

    Their shapes and values stay; other parameters are left alone, unlike by ``module.to(memory_format=...)``.
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: tensor.memory_format) -> Any:
    """Give the weights of all three-dimensional convolutions in ``module`` another order in memory."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
