"""Layers that put maxima of windows back where they stood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import functional
from .dimensions import for_each_dimension
from .module import Module

if TYPE_CHECKING:
    from tensor import Tensor


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
