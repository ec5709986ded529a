"""Layers that change the size of images: interpolation and pixel shuffling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import functional
from nn.module import Module

if TYPE_CHECKING:
    from tensor import Tensor


class Upsample(Module):
    """Resizes signals, images or volumes by interpolation; see :func:`nn.functional.interpolate`.

    Exactly one of ``size`` and ``scale_factor`` is given.

    Parameters
    ----------
    size : int or tuple of int, optional
        Size of the output, without batch and channels.
    scale_factor : float or tuple of float, optional
        Factor of the sizes.
    mode : str
        ``"nearest"``, ``"nearest-exact"``, ``"linear"`` (3 dimensions), ``"bilinear"`` or ``"bicubic"`` (4), or
        ``"trilinear"`` (5).
    align_corners : bool, optional
        Whether the centers of the corner elements of input and output coincide, instead of their outer corners.
    recompute_scale_factor : bool, optional
        Whether the factor for the interpolation is computed anew from the rounded sizes.

    Raises
    ------
    ValueError
        When it is called, if neither or both of ``size`` and ``scale_factor`` are given.
    NotImplementedError
        When it is called, if the input does not have the rank of the mode.

    Examples
    --------
    >>> nn.Upsample(scale_factor=2, mode="bilinear")(tensor.zeros(1, 3, 8, 8)).shape
    tensor.Size([1, 3, 16, 16])
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(each) for each in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Resize an input of shape (N, C, L), (N, C, H, W) or (N, C, D, H, W).

        Parameters
        ----------
        input : Tensor
            Of a floating dtype, or uint8.

        Returns
        -------
        Tensor
            The last dimensions have the sizes ``size``, or those of the input times ``scale_factor``, rounded down.

        Raises
        ------
        NotImplementedError
            If the mode does not take the input's number of dimensions, or its dtype.
        """
        return functional.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: size or factor, and mode."""
        size = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Nearest neighbour upsampling of images, of shape (N, C, H, W).

    Parameters
    ----------
    size : int or tuple of int, optional
        Height and width of the output.
    scale_factor : float or tuple of float, optional
        Factor of height and width, instead of ``size``.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Bilinear upsampling of images, of shape (N, C, H, W), with aligned corners.

    Parameters
    ----------
    size : int or tuple of int, optional
        Height and width of the output.
    scale_factor : float or tuple of float, optional
        Factor of height and width, instead of ``size``.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Module):
    """Rearranges channels into pixels: (..., C r², H, W) becomes (..., C, H r, W r).

    Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural
    Network", 2016.

    Parameters
    ----------
    upscale_factor : int
        The factor r.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Rearrange an input.

        Raises
        ------
        RuntimeError
            If there are fewer than 3 dimensions, or the channels are not divisible by r².
        """
        return functional.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: the factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Inverse of :class:`PixelShuffle`: (..., C, H r, W r) becomes (..., C r², H, W).

    Parameters
    ----------
    downscale_factor : int
        The factor r.
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Rearrange an input.

        Raises
        ------
        RuntimeError
            If there are fewer than 3 dimensions, or height or width is not divisible by r.
        """
        return functional.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: the factor."""
        return f"downscale_factor={self.downscale_factor}"
