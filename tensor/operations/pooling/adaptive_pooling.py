"""Maxima and means over as many windows as asked for, as equal as can be.

Windows follow from the sizes of input and result; else it is pooling as in :mod:`.pooling`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import pooling as kernels
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation

from .pooling import Planned, Pooling, check_input, planned_pooling, pooled, size_of, three

if TYPE_CHECKING:
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


class _Adaptive:
    """``device_state.plans[operation, input, output_size]``: as many windows as asked for, as equal as can be."""

    def __init__(self, category: str, rank: int) -> None:
        self.category = category
        self.rank = rank
        self.name = f"adaptive_{category}_pool{rank}d"

    def plan(self, x: Layout, output_size: Any) -> Planned:
        """What pools tensors of a layout; raises if it or the options do not fit."""
        name, rank = self.name, self.rank
        single = isinstance(output_size, int) or output_size is None
        argument = (output_size,) * rank if single else tuple(output_size)
        if not single and rank > 1 and len(x.shape) <= len(argument):
            # PyTorch's class of error, which depends on how the sizes are given.
            raise ValueError(
                f"{name}(): Input dimension should be at least {len(argument) + 1}, got shape {list(x.shape)}"
            )
        check_input(name, x, rank)
        if len(argument) != rank:
            raise RuntimeError(f"{name}(): output_size must have {rank} numbers, got {output_size!r}")
        sizes = [size if each is None else each for each, size in zip(argument, x.shape[-rank:], strict=True)]
        out = three(name, "output_size", tuple(sizes), rank, 1, 0)
        # As in PyTorch, where means over whole images are taken as other means are.
        whole = self.category == "avg" and max(out) == 1
        batched = len(x.shape) == rank + 2
        pooling = Pooling(
            self.category,
            rank,
            kernels.Adaptive(size_of(x, rank), out),
            tuple(x.shape[:-rank]),
            keeps_format=batched and rank == 2 and not whole,
        )
        return planned_pooling(pooling, x, formatted=pooling.keeps_format or (batched and whole))


_ADAPTIVE_MAX1D, _ADAPTIVE_MAX2D, _ADAPTIVE_MAX3D = (_Adaptive("max", rank) for rank in (1, 2, 3))
_ADAPTIVE_AVG1D, _ADAPTIVE_AVG2D, _ADAPTIVE_AVG3D = (_Adaptive("avg", rank) for rank in (1, 2, 3))


@operation(namespace="nn.functional", method=False)
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Largest elements of windows of signals, as many as asked for and as equal as can be.

    Along a dimension window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Parameters
    ----------
    input
        ``(N, C, length)``, or one signal ``(C, length)``;
        of any dtype but bool and complex.
    output_size
        Size of the result: an integer; ``None`` is the size of the input.
    return_indices
        Whether the positions of the maxima are given too.

    Returns
    -------
    Tensor, or tuple of two
        The maxima ``(N, C, *output_size)``, and with ``return_indices`` their row-major positions in the signal, int64.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 2 nor 3 dimensions, or an empty one other than the first; if ``output_size``
        is not one integer, or has a negative one.

    Examples
    --------
    >>> nn.functional.adaptive_max_pool1d(tensor.tensor([[1.0, 4.0, 2.0, 3.0]]), 2)
    tensor([[4., 3.]])
    """
    result = pooled(_ADAPTIVE_MAX1D, input, output_size, indexed=return_indices)
    return result if return_indices else result[0]


@operation(namespace="nn.functional", method=False)
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Largest elements of windows of images, as many as asked for and as equal as can be.

    Along a dimension window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Parameters
    ----------
    input
        ``(N, C, height, width)``, or one image ``(C, height, width)``;
        of any dtype but bool and complex.
    output_size
        Size of the result: an integer, or 2 of them, one for each of height and width; ``None`` is the size of the input.
    return_indices
        Whether the positions of the maxima are given too.

    Returns
    -------
    Tensor, or tuple of two
        The maxima ``(N, C, *output_size)``, and with ``return_indices`` their row-major positions in each channel's image, int64.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 3 nor 4 dimensions, or an empty one other than the first; if ``output_size``
        has neither one number nor 2, or has a negative one.

    Examples
    --------
    >>> nn.functional.adaptive_max_pool2d(tensor.randn(1, 64, 8, 9), (5, None)).shape
    tensor.Size([1, 64, 5, 9])
    """
    result = pooled(_ADAPTIVE_MAX2D, input, output_size, indexed=return_indices)
    return result if return_indices else result[0]


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Largest elements of windows of volumes, as many as asked for and as equal as can be.

    Along a dimension window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Parameters
    ----------
    input
        ``(N, C, depth, height, width)``, or one volume ``(C, depth, height, width)``;
        of any dtype but bool and complex.
    output_size
        Size of the result: an integer, or 3 of them, one for each of depth, height and width; ``None`` is the size of the input.
    return_indices
        Whether the positions of the maxima are given too.

    Returns
    -------
    Tensor, or tuple of two
        The maxima ``(N, C, *output_size)``, and with ``return_indices`` their row-major positions in each channel's volume, int64.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 4 nor 5 dimensions, or an empty one other than the first; if ``output_size``
        has neither one number nor 3, or has a negative one.

    Examples
    --------
    >>> nn.functional.adaptive_max_pool3d(tensor.randn(1, 64, 8, 9, 10), (5, None, None)).shape
    tensor.Size([1, 64, 5, 9, 10])
    """
    result = pooled(_ADAPTIVE_MAX3D, input, output_size, indexed=return_indices)
    return result if return_indices else result[0]


@operation(namespace="nn.functional", method=False)
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows of signals, as many as asked for and as equal as can be.

    Along a dimension window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Parameters
    ----------
    input
        ``(N, C, length)``, or one signal ``(C, length)``;
        of any dtype but bool and complex.
    output_size
        Size of the result: an integer; ``None`` is the size of the input.

    Returns
    -------
    Tensor
        ``(N, C, *output_size)``, of the dtype of ``input``.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 2 nor 3 dimensions, or an empty one other than the first; if ``output_size``
        is not one integer, or has a negative one.

    Examples
    --------
    >>> nn.functional.adaptive_avg_pool1d(tensor.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    return pooled(_ADAPTIVE_AVG1D, input, output_size)[0]


@operation(namespace="nn.functional", method=False)
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows of images, as many as asked for and as equal as can be.

    Along a dimension window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Parameters
    ----------
    input
        ``(N, C, height, width)``, or one image ``(C, height, width)``;
        of any dtype but bool and complex.
    output_size
        Size of the result: an integer, or 2 of them, one for each of height and width; ``None`` is the size of the input.

    Returns
    -------
    Tensor
        ``(N, C, *output_size)``, of the dtype of ``input``.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 3 nor 4 dimensions, or an empty one other than the first; if ``output_size``
        has neither one number nor 2, or has a negative one.
    ValueError
        If ``input`` has too few dimensions for an ``output_size`` of 2 numbers.

    Examples
    --------
    >>> nn.functional.adaptive_avg_pool2d(tensor.randn(1, 64, 8, 9), 1).shape
    tensor.Size([1, 64, 1, 1])
    """
    return pooled(_ADAPTIVE_AVG2D, input, output_size)[0]


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over windows of volumes, as many as asked for and as equal as can be.

    Along a dimension window ``i`` of ``n`` covers the elements from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.

    Parameters
    ----------
    input
        ``(N, C, depth, height, width)``, or one volume ``(C, depth, height, width)``;
        of any dtype but bool and complex.
    output_size
        Size of the result: an integer, or 3 of them, one for each of depth, height and width; ``None`` is the size of the input.

    Returns
    -------
    Tensor
        ``(N, C, *output_size)``, of the dtype of ``input``.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 4 nor 5 dimensions, or an empty one other than the first; if ``output_size``
        has neither one number nor 3, or has a negative one.
    ValueError
        If ``input`` has too few dimensions for an ``output_size`` of 3 numbers.

    Examples
    --------
    >>> nn.functional.adaptive_avg_pool3d(tensor.randn(1, 64, 8, 9, 10), 1).shape
    tensor.Size([1, 64, 1, 1, 1])
    """
    return pooled(_ADAPTIVE_AVG3D, input, output_size)[0]
