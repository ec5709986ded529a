"""Pooling layers: maxima, averages and norms over windows, and max unpooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import functional
from nn.module import Module

from .convolution import for_each_dimension

if TYPE_CHECKING:
    from tensor import Tensor


class _MaxPool(Module):
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
        """Maxima, and with ``return_indices`` where they stand."""
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
        """Windows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Largest elements of windows of signals; see :func:`nn.functional.max_pool1d`."""

    rank = 1


class MaxPool2d(_MaxPool):
    """Largest elements of windows of images; see :func:`nn.functional.max_pool2d`."""

    rank = 2


class MaxPool3d(_MaxPool):
    """Largest elements of windows of volumes; see :func:`nn.functional.max_pool3d`."""

    rank = 3


class AvgPool1d(Module):
    """Means over windows of signals; see :func:`nn.functional.avg_pool1d`."""

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
        """Means over windows."""
        return functional.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )

    def extra_repr(self) -> str:
        """Windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
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
        """Means over windows."""
        found: Tensor = getattr(functional, f"avg_pool{self.rank}d")(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )
        return found

    def extra_repr(self) -> str:
        """Windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """Means over windows of images; see :func:`nn.functional.avg_pool2d`."""

    rank = 2


class AvgPool3d(_AvgPool):
    """Means over windows of volumes; see :func:`nn.functional.avg_pool3d`."""

    rank = 3


class _AdaptiveMaxPool(Module):
    rank: int

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """Maxima, and with ``return_indices`` where they stand."""
        pool = getattr(functional, f"adaptive_max_pool{self.rank}d")
        return pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """Size of the output."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """As many maxima of signals as wanted."""

    rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """As many maxima of images as wanted; ``None`` keeps a dimension."""

    rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """As many maxima of volumes as wanted; ``None`` keeps a dimension."""

    rank = 3


class _AdaptiveAvgPool(Module):
    rank: int

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Means."""
        found: Tensor = getattr(functional, f"adaptive_avg_pool{self.rank}d")(input, self.output_size)
        return found

    def extra_repr(self) -> str:
        """Size of the output."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """As many means of signals as wanted."""

    rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """As many means of images as wanted; ``None`` keeps a dimension."""

    rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """As many means of volumes as wanted; ``None`` keeps a dimension."""

    rank = 3


class _FractionalMaxPool(Module):
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
        """Maxima, and with ``return_indices`` where they stand."""
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
    """Maxima over random windows of images; see :func:`nn.functional.fractional_max_pool2d`."""

    rank = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima over random windows of volumes; see :func:`nn.functional.fractional_max_pool3d`."""

    rank = 3


class _LPPool(Module):
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
        """Norms of windows."""
        pool = getattr(functional, f"lp_pool{self.rank}d")
        found: Tensor = pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)
        return found

    def extra_repr(self) -> str:
        """Power and windows."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """Norms of windows of signals; see :func:`nn.functional.lp_pool1d`."""

    rank = 1


class LPPool2d(_LPPool):
    """Norms of windows of images; see :func:`nn.functional.lp_pool2d`."""

    rank = 2


class LPPool3d(_LPPool):
    """Norms of windows of volumes; see :func:`nn.functional.lp_pool3d`."""

    rank = 3


class _MaxUnpool(Module):
    rank: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = for_each_dimension(kernel_size, self.rank)
        self.stride = for_each_dimension(kernel_size if stride is None else stride, self.rank)
        self.padding = for_each_dimension(padding, self.rank)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Zeros, with ``input`` at the places ``indices`` of their plane."""
        unpool = getattr(functional, f"max_unpool{self.rank}d")
        found: Tensor = unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)
        return found

    def extra_repr(self) -> str:
        """Windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Partial inverse of :class:`MaxPool1d`; see :func:`nn.functional.max_unpool1d`."""

    rank = 1


class MaxUnpool2d(_MaxUnpool):
    """Partial inverse of :class:`MaxPool2d`; see :func:`nn.functional.max_unpool2d`."""

    rank = 2


class MaxUnpool3d(_MaxUnpool):
    """Partial inverse of :class:`MaxPool3d`; see :func:`nn.functional.max_unpool3d`."""

    rank = 3
