"""Norms over windows."""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Any

from tensor.operations.definition import operation

from .pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_MAXIMA = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}
_MEANS = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}


def _pool(rank: int, x: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    if norm_type == inf:
        return _MAXIMA[rank](x.abs(), kernel_size, stride, 0, 1, ceil_mode)  # type: ignore[no-any-return]
    if norm_type == -inf:
        return -_MAXIMA[rank](-x.abs(), kernel_size, stride, 0, 1, ceil_mode)  # type: ignore[no-any-return]
    means: Any = _MEANS[rank](x.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    count = kernel_size**rank if isinstance(kernel_size, int) else prod(kernel_size)
    # Its derivative is 0 where the sum is, and not that of a root.
    means = means.sign() * means.abs().relu()
    return (means * count).pow(1.0 / norm_type)  # type: ignore[no-any-return]


@operation(namespace="nn.functional", method=False)
def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """``norm_type``-norms of windows of signals; elements are not made positive before they are raised to the power.

    Parameters
    ----------
    input
        ``(items, channels, length)``, or one item.
    norm_type
        The power; infinity for the largest absolute value.
    stride
        Steps between windows; the size of a window by default.
    ceil_mode
        Whether a last window may be cut off by the end; it counts as if it were filled up with its mean.
    """
    return _pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@operation(namespace="nn.functional", method=False)
def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """``norm_type``-norms of windows of images; see :func:`lp_pool1d`."""
    return _pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@operation(namespace="nn.functional", method=False)
def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """``norm_type``-norms of windows of volumes; see :func:`lp_pool1d`."""
    return _pool(3, input, norm_type, kernel_size, stride, ceil_mode)
