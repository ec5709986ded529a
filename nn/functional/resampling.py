"""Resampling of images: interpolation and sampling on grids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.warning import warn_caller
from tensor.operations.definition import operation
from tensor.operations.resampling.grid_sampling import affine_grid, grid_sample
from tensor.operations.resampling.interpolation import interpolate

if TYPE_CHECKING:
    from tensor import Tensor

__all__ = [
    "affine_grid",
    "grid_sample",
    "interpolate",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]


def _deprecated(name: str) -> None:
    warn_caller(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.")


@operation(namespace="nn.functional", method=False)
def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Deprecated name of :func:`interpolate`; the parameters are those of that function.

    A warning says so.

    Examples
    --------
    >>> nn.functional.interpolate(tensor.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@operation(namespace="nn.functional", method=False)
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated: :func:`interpolate` with ``mode="nearest"``.

    The parameters are those of that function.
    """
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


@operation(namespace="nn.functional", method=False)
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated: :func:`interpolate` with ``mode="bilinear"`` and ``align_corners=True``.

    The parameters are those of that function.
    """
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
