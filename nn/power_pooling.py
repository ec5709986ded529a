"""Layers that take norms of windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import functional
from .module import Module

if TYPE_CHECKING:
    from tensor import Tensor


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
