"""Pooling layers: maxima, averages and norms over windows, and max unpooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import functional
from nn.module import Module

from .dimensions import for_each_dimension, for_rank

if TYPE_CHECKING:
    from tensor import Tensor


class _MaxPool(Module):
    """Max pooling of $signals: the maximum of each window.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the window, for all dimensions or for each.
    stride : int or tuple of int, optional
        Distance between windows; ``kernel_size`` by default.
    padding : int or tuple of int
        Elements of -inf added at both ends of each dimension, at most half of ``kernel_size``.
    dilation : int or tuple of int
        Distance between the elements of a window.
    return_indices : bool
        Whether to return the positions of the maxima too, for :class:`MaxUnpool${rank}d`.
    ceil_mode : bool
        Whether the output size is rounded up, so that a window may begin in the input and end behind it.

    Raises
    ------
    RuntimeError
        When it is called, if the input is not $N, the padding is too large, or the output would be empty.

    Notes
    -----
    The output has size ``floor((size + 2 * padding - dilation * (kernel_size - 1) - 1) / stride + 1)`` in
    each dimension. See :func:`nn.functional.max_pool${rank}d`.
    """

    rank: int

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """Pool an input.

        Returns
        -------
        Tensor or tuple of Tensor
            The maxima; with ``return_indices`` also their int64 positions in the flattened channel.
        """
        return getattr(functional, f"max_pool{self.rank}d")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: window options."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    __doc__ = for_rank(_MaxPool.__doc__, 1)
    rank = 1


class MaxPool2d(_MaxPool):
    __doc__ = for_rank(_MaxPool.__doc__, 2)
    rank = 2


class MaxPool3d(_MaxPool):
    __doc__ = for_rank(_MaxPool.__doc__, 3)
    rank = 3


class AvgPool1d(Module):
    """Average pooling of signals: the mean of each window.

    Parameters
    ----------
    kernel_size : int
        Size of the window.
    stride : int, optional
        Distance between windows; ``kernel_size`` by default.
    padding : int
        Zeros added at both ends, at most half of ``kernel_size``.
    ceil_mode : bool
        Whether the output size is rounded up, so that a window may begin in the input and end behind it.
    count_include_pad : bool
        Whether the padding counts in the means.

    Raises
    ------
    RuntimeError
        When it is called, if the input is not (N, C, L) or (C, L), the padding is too large, or the output would be
        empty.
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = for_each_dimension(kernel_size, 1)
        self.stride = for_each_dimension(kernel_size if stride is None else stride, 1)
        self.padding = for_each_dimension(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Pool an input of shape (N, C, L) or (C, L).

        Parameters
        ----------
        input : Tensor
            Of an integer or floating dtype.

        Returns
        -------
        Tensor
            (N, C, L_out) or (C, L_out), of the input's dtype.

        Raises
        ------
        RuntimeError
            If the input has another number of dimensions, or is shorter than a window.
        """
        return functional.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: window options."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    """Average pooling of $signals: the mean of each window.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the window, for all dimensions or for each.
    stride : int or tuple of int, optional
        Distance between windows; ``kernel_size`` by default.
    padding : int or tuple of int
        Zeros added at both ends of each dimension, at most half of ``kernel_size``.
    ceil_mode : bool
        Whether the output size is rounded up, so that a window may begin in the input and end behind it.
    count_include_pad : bool
        Whether the padding counts in the means.
    divisor_override : int, optional
        Divisor of the sums instead of the number of elements.

    Raises
    ------
    RuntimeError
        When it is called, if the input is not $N, the padding is too large, or the output would be empty.

    Notes
    -----
    The output has size ``floor((size + 2 * padding - kernel_size) / stride + 1)`` in each dimension. See
    :func:`nn.functional.avg_pool${rank}d`.
    """

    rank: int

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Pool an input of shape (N, C, ...) or (C, ...).

        The result has the input's dtype. Raises RuntimeError if the input has another number of dimensions, or is smaller than a
        window.
        """
        result: Tensor = getattr(functional, f"avg_pool{self.rank}d")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )
        return result

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: window options."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    __doc__ = for_rank(_AvgPool.__doc__, 2)
    rank = 2


class AvgPool3d(_AvgPool):
    __doc__ = for_rank(_AvgPool.__doc__, 3)
    rank = 3


class _AdaptiveMaxPool(Module):
    """Adaptive max pooling of $signals: an output of a given size, whatever the size of the input.

    Output element i of a dimension is the maximum over ``input[floor(i * size / out) : ceil((i + 1) * size / out)]``.

    Parameters
    ----------
    output_size : int, None or tuple of these
        Size of the output, for all dimensions or for each; ``None`` keeps the input's.
    return_indices : bool
        Whether to return the positions of the maxima too.

    Raises
    ------
    RuntimeError
        When it is called, if the input is not $N.
    """

    rank: int

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """Pool an input.

        Returns
        -------
        Tensor or tuple of Tensor
            The maxima; with ``return_indices`` also their int64 positions in the flattened channel.
        """
        pool = getattr(functional, f"adaptive_max_pool{self.rank}d")
        return pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: size of the output."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    __doc__ = for_rank(_AdaptiveMaxPool.__doc__, 1)
    rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    __doc__ = for_rank(_AdaptiveMaxPool.__doc__, 2)
    rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    __doc__ = for_rank(_AdaptiveMaxPool.__doc__, 3)
    rank = 3


class _AdaptiveAvgPool(Module):
    """Adaptive average pooling of $signals: an output of a given size, whatever the size of the input.

    Output element i of a dimension is the mean over ``input[floor(i * size / out) : ceil((i + 1) * size / out)]``.
    With ``output_size=1`` it is global average pooling.

    Parameters
    ----------
    output_size : int, None or tuple of these
        Size of the output, for all dimensions or for each; ``None`` keeps the input's.

    Raises
    ------
    RuntimeError
        When it is called, if the input is not $N.
    """

    rank: int

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Pool an input of shape (N, C, ...) or (C, ...) to ``output_size``.

        The result has the input's dtype, an integer or floating one. Raises RuntimeError if the input has another number of
        dimensions.
        """
        result: Tensor = getattr(functional, f"adaptive_avg_pool{self.rank}d")(input, self.output_size)
        return result

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: size of the output."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    __doc__ = for_rank(_AdaptiveAvgPool.__doc__, 1)
    rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    __doc__ = for_rank(_AdaptiveAvgPool.__doc__, 2)
    rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    __doc__ = for_rank(_AdaptiveAvgPool.__doc__, 3)
    rank = 3


class _FractionalMaxPool(Module):
    """Fractional max pooling of $signals: maxima over windows at pseudorandom positions (Graham, 2014).

    The windows are drawn anew at every call, for each sample and channel. Exactly one of ``output_size`` and
    ``output_ratio`` is given.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the window, for all dimensions or for each.
    output_size : int or tuple of int, optional
        Size of the output.
    output_ratio : float or tuple of float, optional
        Size of the output as a part of the input's, between 0 and 1.
    return_indices : bool
        Whether to return the positions of the maxima too, for :class:`MaxUnpool${rank}d`.

    Raises
    ------
    ValueError
        If neither or both of ``output_size`` and ``output_ratio`` are given, a ratio is not between 0 and 1, or a
        size of the window is below 1.
    """

    rank: int

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size = for_each_dimension(kernel_size, self.rank)
        if min(self.kernel_size) < 1:
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else for_each_dimension(output_size, self.rank)
        self.output_ratio = None if output_ratio is None else for_each_dimension(output_ratio, self.rank)
        if self.output_ratio is not None and not all(0 < each < 1 for each in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        """Pool an input.

        Returns
        -------
        Tensor or tuple of Tensor
            The maxima; with ``return_indices`` also their int64 positions in the flattened channel.
        """
        pool = getattr(functional, f"fractional_max_pool{self.rank}d")
        return pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    __doc__ = for_rank(_FractionalMaxPool.__doc__, 2)
    rank = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    __doc__ = for_rank(_FractionalMaxPool.__doc__, 3)
    rank = 3


class _LPPool(Module):
    """Power-average pooling of $signals: ``sum(x ** p) ** (1 / p)`` of each window.

    ``p = 1`` is sum pooling, and large ``p`` approaches max pooling. The gradient of a window that sums to 0 is 0.

    Parameters
    ----------
    norm_type : float
        The power p.
    kernel_size : int or tuple of int
        Size of the window, for all dimensions or for each.
    stride : int or tuple of int, optional
        Distance between windows; ``kernel_size`` by default.
    ceil_mode : bool
        Whether the output size is rounded up.
    """

    rank: int

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Pool an input of shape (N, C, ...) or (C, ...).

        The result has the input's dtype if that is floating. Raises RuntimeError if the input has another number of
        dimensions, or is smaller than a window.
        """
        pool = getattr(functional, f"lp_pool{self.rank}d")
        result: Tensor = pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)
        return result

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: power and window options."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    __doc__ = for_rank(_LPPool.__doc__, 1)
    rank = 1


class LPPool2d(_LPPool):
    __doc__ = for_rank(_LPPool.__doc__, 2)
    rank = 2


class LPPool3d(_LPPool):
    __doc__ = for_rank(_LPPool.__doc__, 3)
    rank = 3


class _MaxUnpool(Module):
    """Partial inverse of :class:`MaxPool${rank}d`: writes the maxima to the positions they came from, and 0 elsewhere.

    Parameters
    ----------
    kernel_size, stride, padding : int or tuple of int
        Those of the pooling, which determine the output size ``(size - 1) * stride - 2 * padding + kernel_size``.

    Examples
    --------
    >>> x = tensor.randn((1, 3) + (4,) * ${rank})
    >>> pool = nn.MaxPool${rank}d(2, return_indices=True)
    >>> maxima, indices = pool(x)
    >>> restored = nn.MaxUnpool${rank}d(2)(maxima, indices, output_size=x.shape)
    >>> restored.shape == x.shape
    True
    """

    rank: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = for_each_dimension(kernel_size, self.rank)
        self.stride = for_each_dimension(kernel_size if stride is None else stride, self.rank)
        self.padding = for_each_dimension(padding, self.rank)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Place the maxima at the positions that the pooling returned, and zeros elsewhere.

        Parameters
        ----------
        input, indices : Tensor
            What the pooling returned; the indices are int64.
        output_size : tuple of int, optional
            Size of the output, where several inputs of the pooling have this output size.

        Raises
        ------
        ValueError
            If ``output_size`` cannot be that of the pooling's input.
        RuntimeError
            If an index lies outside the output.
        """
        unpool = getattr(functional, f"max_unpool{self.rank}d")
        result: Tensor = unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)
        return result

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: window options."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    __doc__ = for_rank(_MaxUnpool.__doc__, 1)
    rank = 1


class MaxUnpool2d(_MaxUnpool):
    __doc__ = for_rank(_MaxUnpool.__doc__, 2)
    rank = 2


class MaxUnpool3d(_MaxUnpool):
    __doc__ = for_rank(_MaxUnpool.__doc__, 3)
    rank = 3
