"""Layers that rearrange elements: Flatten, Unflatten, Fold, Unfold, ChannelShuffle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import functional
from nn.module import Module

if TYPE_CHECKING:
    from tensor import Size, Tensor


class Flatten(Module):
    """The dimensions from ``start_dim`` to ``end_dim``, both included, as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the same elements."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Dimension ``dim`` as several of sizes ``unflattened_size``, of which one may be -1.

    Raises
    ------
    TypeError
        If these are no integers.
    """

    def __init__(self, dim: int, unflattened_size: Size | list[int] | tuple[int, ...]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"dim must be an int (names of dimensions are not supported), got {dim!r}")
        sizes: Any = unflattened_size
        if not isinstance(sizes, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(sizes).__name__}"
            )
        for place, each in enumerate(sizes):
            if not isinstance(each, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(each).__name__} at pos "
                    f"{place}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the same elements."""
        return input.unflatten(self.dim, tuple(self.unflattened_size))

    def extra_repr(self) -> str:
        """Dimension and sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Unfold(Module):
    """Windows of images as columns; see :func:`nn.functional.unfold`."""

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Columns ``(items, channels * elements of a window, windows)``."""
        return functional.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Windows."""
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """Images as sums of the columns of their windows; see :func:`nn.functional.fold`."""

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Images ``(items, channels, height, width)``."""
        return functional.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        """Size of images, and windows."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class ChannelShuffle(Module):
    """Channels of all groups in turn; see :func:`nn.functional.channel_shuffle`."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """The same channels in another order."""
        return functional.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """How many groups."""
        return f"groups={self.groups}"
