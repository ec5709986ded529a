"""Memory formats of the weights of convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn.layers.spatial.convolution import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

if TYPE_CHECKING:
    import tensor

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Any, classes: tuple[type, ...], memory_format: tensor.memory_format) -> Any:
    convolutions: list[Any] = [each for each in module.modules() if isinstance(each, classes)]
    for each in convolutions:
        each.weight.data = each.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: tensor.memory_format) -> Any:
    """Convert the weights of all 2D convolutions and transposed convolutions in ``module`` to a memory format, in place.

    Shapes and values do not change, nor do other parameters, unlike with ``module.to(memory_format=...)``.

    Parameters
    ----------
    memory_format
        Such as ``tensor.channels_last``.

    Returns
    -------
    Module
        ``module``.
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: tensor.memory_format) -> Any:
    """Convert the weights of all 3D convolutions and transposed convolutions in ``module`` to a memory format, in place.

    Parameters
    ----------
    memory_format
        Such as ``tensor.channels_last_3d``.

    Returns
    -------
    Module
        ``module``.
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
