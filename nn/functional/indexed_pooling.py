"""Max pooling that always returns the positions of the maxima."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.operations.definition import operation
from tensor.operations.pooling import adaptive_pooling, fractional_pooling, pooling

if TYPE_CHECKING:
    from tensor import Tensor

__all__ = [
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d_with_indices",
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
]


@operation(namespace="nn.functional", method=False)
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """:func:`max_pool1d` with ``return_indices=True``; the parameters are those of that function.

    Returns
    -------
    (Tensor, Tensor)
        The maxima, and their int64 positions in the flattened channel.
    """
    result: tuple[Tensor, Tensor] = pooling.max_pool1d(
        input, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True
    )
    return result


@operation(namespace="nn.functional", method=False)
def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """:func:`max_pool2d` with ``return_indices=True``; the parameters are those of that function.

    Returns
    -------
    (Tensor, Tensor)
        The maxima, and their int64 positions in the flattened channel.
    """
    result: tuple[Tensor, Tensor] = pooling.max_pool2d(
        input, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True
    )
    return result


@operation(namespace="nn.functional", method=False)
def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """:func:`max_pool3d` with ``return_indices=True``; the parameters are those of that function.

    Returns
    -------
    (Tensor, Tensor)
        The maxima, and their int64 positions in the flattened channel.
    """
    result: tuple[Tensor, Tensor] = pooling.max_pool3d(
        input, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True
    )
    return result


@operation(namespace="nn.functional", method=False)
def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """:func:`adaptive_max_pool1d` with ``return_indices=True``; the parameters are those of that function.

    Returns
    -------
    (Tensor, Tensor)
        The maxima, and their int64 positions in the flattened channel.
    """
    result: tuple[Tensor, Tensor] = adaptive_pooling.adaptive_max_pool1d(
        input, output_size, return_indices=True
    )
    return result


@operation(namespace="nn.functional", method=False)
def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """:func:`adaptive_max_pool2d` with ``return_indices=True``; the parameters are those of that function.

    Returns
    -------
    (Tensor, Tensor)
        The maxima, and their int64 positions in the flattened channel.
    """
    result: tuple[Tensor, Tensor] = adaptive_pooling.adaptive_max_pool2d(
        input, output_size, return_indices=True
    )
    return result


@operation(namespace="nn.functional", method=False)
def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """:func:`adaptive_max_pool3d` with ``return_indices=True``; the parameters are those of that function.

    Returns
    -------
    (Tensor, Tensor)
        The maxima, and their int64 positions in the flattened channel.
    """
    result: tuple[Tensor, Tensor] = adaptive_pooling.adaptive_max_pool3d(
        input, output_size, return_indices=True
    )
    return result


@operation(namespace="nn.functional", method=False)
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """:func:`fractional_max_pool2d` with ``return_indices=True``; the parameters are those of that function.

    Returns
    -------
    (Tensor, Tensor)
        The maxima, and their int64 positions in the flattened channel.
    """
    result: tuple[Tensor, Tensor] = fractional_pooling.fractional_max_pool2d(
        input, kernel_size, output_size, output_ratio, return_indices=True, _random_samples=_random_samples
    )
    return result


@operation(namespace="nn.functional", method=False)
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """:func:`fractional_max_pool3d` with ``return_indices=True``; the parameters are those of that function.

    Returns
    -------
    (Tensor, Tensor)
        The maxima, and their int64 positions in the flattened channel.
    """
    result: tuple[Tensor, Tensor] = fractional_pooling.fractional_max_pool3d(
        input, kernel_size, output_size, output_ratio, return_indices=True, _random_samples=_random_samples
    )
    return result
