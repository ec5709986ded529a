"""Layers of softmax and its like, and those that move channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import functional
from .module import Module

if TYPE_CHECKING:
    from tensor import Tensor


class _Softmax(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_Softmax):
    """``exp(x)`` divided by its sum along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """Positive numbers with the sum 1."""
        return functional.softmax(input, self.dim)


class Softmin(_Softmax):
    """:class:`Softmax` of ``-x``."""

    def forward(self, input: Tensor) -> Tensor:
        """Positive numbers with the sum 1."""
        return functional.softmin(input, self.dim)


class LogSoftmax(_Softmax):
    """Logarithm of :class:`Softmax`."""

    def forward(self, input: Tensor) -> Tensor:
        """Numbers whose exponentials have the sum 1."""
        return functional.log_softmax(input, self.dim)


class Softmax2d(Module):
    """:class:`Softmax` over the channels of images."""

    def forward(self, input: Tensor) -> Tensor:
        """Images of which every pixel's channels have the sum 1."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return functional.softmax(input, -3)


class PixelShuffle(Module):
    """Channels moved to pixels; see :func:`nn.functional.pixel_shuffle`."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Larger images with fewer channels."""
        return functional.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Inverse of :class:`PixelShuffle`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Smaller images with more channels."""
        return functional.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


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
