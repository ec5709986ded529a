"""Regions of images pooled to one size: RoIAlign, RoIPool, and their position-sensitive forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import regions as kernels
from nvrtc_kernels.dtypes import float32, int32
from nvrtc_kernels.regions import Regions
from tensor.core.base import check_tensor, empty, wrap
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous
from tensor.operations.creation.ranges import arange

from . import pooling_on_host as on_host

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_INT_LIMIT = 1 << 31


def _check(name: str, input: Any, boxes: Any, what: str) -> None:
    check_tensor(input, name, what)
    check_tensor(boxes, name, "rois")
    values, regions = input._layout, boxes._layout
    if len(regions.shape) != 2 or regions.shape[1] != 5:
        raise RuntimeError(
            f"{name}(): rois must have shape as Tensor[K, 5], with the number of an image before the corners, but got "
            f"{list(regions.shape)}"
        )
    if len(values.shape) != 4:
        raise RuntimeError(f"{name}(): expected a 4D {what} (N, C, H, W), but got sizes {list(values.shape)}")
    if not values.dtype.is_floating_point or values.dtype is not regions.dtype:
        raise RuntimeError(
            f"Expected tensor for {what} to have the same floating-point type as tensor for rois, but type {values.dtype!r} does "
            f"not equal {regions.dtype!r} (while checking arguments for {name})"
        )
    if values.device_state is not regions.device_state:
        raise RuntimeError(
            f"{name}(): {what} and rois should be on the same device, but got {values.device_state.device} and "
            f"{regions.device_state.device}"
        )


def _regions(
    name: str, shape: Any, method: str, sensitive: bool, scale: float, rows: int, columns: int, *options: Any
) -> Regions:
    images, channels, height, width = (int(each) for each in shape)
    if rows < 1 or columns < 1:
        raise RuntimeError(f"{name}(): expected an output size of at least 1x1, but got {rows}x{columns}")
    if height * width >= _INT_LIMIT:
        raise RuntimeError(f"{name}(): images have at most 2**31 - 1 elements, but got {height}x{width}")
    if sensitive and channels % (rows * columns):
        raise RuntimeError(
            f"{name}(): input channels must be a multiple of pooling height * pooling width, but got {channels} channels and "
            f"{rows}x{columns} bins"
        )
    return Regions(method, sensitive, images, channels, height, width, rows, columns, float(scale), *options)


def _arrays(name: str, regions: Regions, *values: Any) -> list[Any]:
    """NumPy arrays in the dtype of computations, the last of which are the regions."""
    arrays = [each.detach().to(rules.computes_in(each.dtype))._host for each in values]
    images = arrays[-1][:, 0]
    bad = np.nonzero(~((images >= 0) & (images < regions.images)))[0]
    if len(bad):
        raise RuntimeError(
            f"{name}(): region {bad[0]} is of image {images[bad[0]]:g}, and the batch has {regions.images} images"
        )
    return arrays


def _run(
    regions: Regions, dtype: Any, device_state: Any, backward: bool, count: int, *addresses: int
) -> None:
    key = ("regions", regions, dtype, backward)
    run = device_state.plans.get(key)
    if run is None:
        run = device_state.plans[key] = kernels.plan(device_state.native, regions, dtype, backward=backward)
    run(device_state.local.stream.handle, count, *addresses)


def _forward(name: str, input: Any, boxes: Any, regions: Regions) -> tuple[Any, Any]:
    """The result, and where maxima are if it is one of maxima."""
    layout, count = input._layout, boxes._layout.shape[0]
    shape = (count, regions.out_channels, regions.rows, regions.columns)
    out = contiguous[shape, layout.dtype, layout.device_state]
    has_maxima = regions.method == "pool" and not regions.sensitive
    if not layout.device_state.is_cuda:
        images, corners = _arrays(name, regions, input, boxes)
        if not has_maxima:
            return wrap(on_host.averaged(images, corners, regions)).to(layout.dtype), None
        values, where = on_host.maxima(images, corners, regions)
        return wrap(values).to(layout.dtype), wrap(where)
    result = empty(out)
    places = empty(contiguous[shape, int32, layout.device_state]) if has_maxima else None
    if out.numel:
        input, boxes = input.contiguous(), boxes.contiguous()
        where_address = 0 if places is None else places._address
        _run(
            regions, layout.dtype, layout.device_state, False, count,
            input._address, boxes._address, result._address, where_address,
        )  # fmt: skip
    return result, places


def _backward(name: str, grad: Any, boxes: Any, regions: Regions, where: Any = None) -> Any:
    layout = grad._layout
    shape = (regions.images, regions.channels, regions.height, regions.width)
    if not layout.device_state.is_cuda:
        outer, corners = _arrays(name, regions, grad, boxes)
        if where is None:
            return wrap(on_host.averaged_backward(outer, corners, regions)).to(layout.dtype)
        return wrap(on_host.maxima_backward(outer, where._host, corners, regions)).to(layout.dtype)
    sum_dtype = layout.dtype if layout.dtype.name == "float64" else float32
    result = grad.new_zeros(shape, dtype=sum_dtype)
    if layout.numel and result._layout.numel:
        grad, boxes = grad.contiguous(), boxes.contiguous()
        where = where if where is None else where.contiguous()
        where_address = 0 if where is None else where._address
        _run(
            regions, layout.dtype, layout.device_state, True, boxes._layout.shape[0],
            grad._address, boxes._address, where_address, result._address,
        )  # fmt: skip
    return result.to(layout.dtype)


def _mapping(regions: Regions, count: int, like: Any) -> Any:
    """The channel that each bin of a position-sensitive result reads, ``(K, C, rows, columns)`` of int32."""
    channels = arange(regions.channels, dtype=int32, device=like.device)
    by_bin = channels.reshape(1, regions.out_channels, regions.rows, regions.columns)
    return by_bin.expand(count, -1, -1, -1).contiguous()


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Regions of images, each bin the mean of samples between elements (RoIAlign of Mask R-CNN, He et al., 2017).

    Parameters
    ----------
    input
        Images ``(N, C, H, W)``.
    rois
        Regions ``(K, 5)`` of the same dtype: an image's number, x and y of the first corner, and of the last.
    spatial_scale
        From the coordinates of regions to those of elements.
    pooled_height, pooled_width
        Bins of a region.
    sampling_ratio
        Samples of a bin along each dimension; as many as it has elements if this is not positive.
    aligned
        Whether coordinates are those of the centres of elements.

    Returns
    -------
    Tensor
        ``(K, C, pooled_height, pooled_width)``.

    Raises
    ------
    RuntimeError
        If shapes, dtypes or devices do not fit, or, on the CPU, a region is of no image.
    """
    _check("roi_align", input, rois, "input")
    regions = _regions(
        "roi_align",
        input.shape,
        "align",
        False,
        spatial_scale,
        pooled_height,
        pooled_width,
        max(sampling_ratio, 0),
        bool(aligned),
    )
    result: Tensor = _forward("roi_align", input, rois, regions)[0]
    return result


def roi_align_backward(
    grad: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """The gradient ``(N, C, H, W)`` of what :func:`roi_align` reads; on CUDA added up in no fixed order."""
    _check("roi_align_backward", grad, rois, "grad")
    shape = (batch_size, channels, height, width)
    regions = _regions(
        "roi_align_backward", shape, "align", False, spatial_scale, pooled_height, pooled_width, max(sampling_ratio, 0),
        bool(aligned),
    )  # fmt: skip
    result: Tensor = _backward("roi_align_backward", grad, rois, regions)
    return result


def ps_roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> tuple[Tensor, Tensor]:
    """:func:`roi_align` in which each bin reads channels of its own (Light-Head R-CNN, Li et al., 2017).

    Returns
    -------
    tuple of Tensor
        ``(K, C / (pooled_height * pooled_width), pooled_height, pooled_width)``, and the channel that each element is of.

    Raises
    ------
    RuntimeError
        If the bins do not divide the channels, or as :func:`roi_align`.
    """
    _check("ps_roi_align", input, rois, "input")
    regions = _regions(
        "ps_roi_align",
        input.shape,
        "align",
        True,
        spatial_scale,
        pooled_height,
        pooled_width,
        max(sampling_ratio, 0),
    )
    return _forward("ps_roi_align", input, rois, regions)[0], _mapping(regions, rois.shape[0], input)


def ps_roi_align_backward(
    grad: Tensor,
    rois: Tensor,
    channel_mapping: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """The gradient ``(N, C, H, W)`` of what :func:`ps_roi_align` reads; on CUDA added up in no fixed order."""
    _check("ps_roi_align_backward", grad, rois, "grad")
    shape = (batch_size, channels, height, width)
    regions = _regions(
        "ps_roi_align_backward",
        shape,
        "align",
        True,
        spatial_scale,
        pooled_height,
        pooled_width,
        max(sampling_ratio, 0),
    )
    result: Tensor = _backward("ps_roi_align_backward", grad, rois, regions)
    return result


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Regions of images, rounded to elements, each bin its largest element (RoIPool of Fast R-CNN, Girshick, 2015).

    Parameters
    ----------
    input, rois, spatial_scale, pooled_height, pooled_width
        As :func:`roi_align` has them.

    Returns
    -------
    tuple of Tensor
        ``(K, C, pooled_height, pooled_width)``, 0 where a bin is empty, and the position of each in its plane, int32,
        -1 where a bin is empty.

    Raises
    ------
    RuntimeError
        As :func:`roi_align`.
    """
    _check("roi_pool", input, rois, "input")
    regions = _regions("roi_pool", input.shape, "pool", False, spatial_scale, pooled_height, pooled_width)
    return _forward("roi_pool", input, rois, regions)


def roi_pool_backward(
    grad: Tensor,
    rois: Tensor,
    argmax: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """The gradient ``(N, C, H, W)`` of what :func:`roi_pool` reads; on CUDA added up in no fixed order."""
    _check("roi_pool_backward", grad, rois, "grad")
    shape = (batch_size, channels, height, width)
    regions = _regions("roi_pool_backward", shape, "pool", False, spatial_scale, pooled_height, pooled_width)
    result: Tensor = _backward("roi_pool_backward", grad, rois, regions, argmax)
    return result


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Means of regions rounded to elements, in which each bin reads channels of its own (R-FCN, Dai et al., 2016).

    The last row and the last column of images are left out, as they are by torchvision.

    Returns
    -------
    tuple of Tensor
        As of :func:`ps_roi_align`.

    Raises
    ------
    RuntimeError
        As :func:`ps_roi_align`.
    """
    _check("ps_roi_pool", input, rois, "input")
    regions = _regions("ps_roi_pool", input.shape, "pool", True, spatial_scale, pooled_height, pooled_width)
    return _forward("ps_roi_pool", input, rois, regions)[0], _mapping(regions, rois.shape[0], input)


def ps_roi_pool_backward(
    grad: Tensor,
    rois: Tensor,
    channel_mapping: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> Tensor:
    """The gradient ``(N, C, H, W)`` of what :func:`ps_roi_pool` reads; on CUDA added up in no fixed order."""
    _check("ps_roi_pool_backward", grad, rois, "grad")
    shape = (batch_size, channels, height, width)
    regions = _regions(
        "ps_roi_pool_backward", shape, "pool", True, spatial_scale, pooled_height, pooled_width
    )
    result: Tensor = _backward("ps_roi_pool_backward", grad, rois, regions)
    return result
