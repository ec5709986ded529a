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
    """Norms of windows of signals: ``(sum of x ** norm_type) ** (1 / norm_type)``.

    Elements are not made positive before they are raised to the power. Where the sum is 0 the gradient is 0.

    Parameters
    ----------
    input
        ``(N, C, length)``, or one signal ``(C, length)``, of floating point.
    norm_type
        The power; infinity for the largest absolute value, minus infinity for the smallest.
    kernel_size
        Size of a window: an integer.
    stride
        Steps from one window to the next: an integer; the size of a window by default.
    ceil_mode
        Whether a last window may be cut off by the end; it counts as if it were filled up with its mean.

    Returns
    -------
    Tensor
        ``(N, C, ...)``, as :func:`avg_pool1d` has it, of the dtype of ``input``.

    Raises
    ------
    TypeError, NotImplementedError, RuntimeError
        As :func:`avg_pool1d` does, whose name errors have (:func:`max_pool1d`'s for infinity).

    Examples
    --------
    >>> nn.functional.lp_pool1d(tensor.tensor([[3.0, 4.0, 6.0, 8.0]]), 2, 2)
    tensor([[ 5., 10.]])
    """
    return _pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@operation(namespace="nn.functional", method=False)
def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """Norms of windows of images: ``(sum of x ** norm_type) ** (1 / norm_type)``.

    Elements are not made positive before they are raised to the power. Where the sum is 0 the gradient is 0.

    Parameters
    ----------
    input
        ``(N, C, height, width)``, or one image ``(C, height, width)``, of floating point.
    norm_type
        The power; infinity for the largest absolute value, minus infinity for the smallest.
    kernel_size
        Size of a window: an integer, or 2 of them, one for each of height and width.
    stride
        Steps from one window to the next: an integer, or 2 of them; the size of a window by default.
    ceil_mode
        Whether a last window may be cut off by the end; it counts as if it were filled up with its mean.

    Returns
    -------
    Tensor
        ``(N, C, ...)``, as :func:`avg_pool2d` has it, of the dtype of ``input``.

    Raises
    ------
    TypeError, NotImplementedError, RuntimeError
        As :func:`avg_pool2d` does, whose name errors have (:func:`max_pool2d`'s for infinity).

    Examples
    --------
    >>> nn.functional.lp_pool2d(tensor.rand(20, 16, 50, 32), 2, 3, stride=2).shape
    tensor.Size([20, 16, 24, 15])
    """
    return _pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@operation(namespace="nn.functional", method=False)
def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """Norms of windows of volumes: ``(sum of x ** norm_type) ** (1 / norm_type)``.

    Elements are not made positive before they are raised to the power. Where the sum is 0 the gradient is 0.

    Parameters
    ----------
    input
        ``(N, C, depth, height, width)``, or one volume ``(C, depth, height, width)``, of floating point.
    norm_type
        The power; infinity for the largest absolute value, minus infinity for the smallest.
    kernel_size
        Size of a window: an integer, or 3 of them, one for each of depth, height and width.
    stride
        Steps from one window to the next: an integer, or 3 of them; the size of a window by default.
    ceil_mode
        Whether a last window may be cut off by the end; it counts as if it were filled up with its mean.

    Returns
    -------
    Tensor
        ``(N, C, ...)``, as :func:`avg_pool3d` has it, of the dtype of ``input``.

    Raises
    ------
    TypeError, NotImplementedError, RuntimeError
        As :func:`avg_pool3d` does, whose name errors have (:func:`max_pool3d`'s for infinity).

    Examples
    --------
    >>> nn.functional.lp_pool3d(tensor.rand(2, 4, 8, 8, 8), 2, 2).shape
    tensor.Size([2, 4, 4, 4, 4])
    """
    return _pool(3, input, norm_type, kernel_size, stride, ceil_mode)
