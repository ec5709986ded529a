"""Pooling layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import functional
from .dimensions import for_each_dimension
from .module import Module

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
