"""Layers that take maxima over windows at random places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import functional
from .dimensions import for_each_dimension
from .module import Module

if TYPE_CHECKING:
    from tensor import Tensor


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
