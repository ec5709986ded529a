"""Operators that torchvision has compiled for PyTorch, as operators of ``tensor.ops.torchvision``.

They are defined when a program loads torchvision's compiled library, which its ``import`` does: the names and schemas are those
of that library (version 0.29), the kernels are this library's. torchvision says itself, in Python, how they are differentiated and cast.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from tensor.operations.regions import deformable_convolution, pooled_regions, suppression

from . import operators
from .schemas import Schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BINS = "SymInt pooled_height, SymInt pooled_width"
_IMAGE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_SIZES = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask"
)
_CONVOLUTION = f"Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_SIZES}"
_REGIONS = "Tensor input, Tensor rois, float spatial_scale"
_GRADIENT = "Tensor grad, Tensor rois"
_QUANTIZED = "float input_scale, int input_zero_point, float rois_scale, int rois_zero_point"

#: Schemas, and the kernels for all devices; without one, calls are refused by name.
_OPERATORS: dict[str, Callable[..., Any] | None] = {
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": suppression.nms,
    f"roi_align({_REGIONS}, {_BINS}, int sampling_ratio, bool aligned) -> Tensor": pooled_regions.roi_align,
    f"_roi_align_backward({_GRADIENT}, float spatial_scale, {_BINS}, {_IMAGE}, int sampling_ratio, bool aligned) -> Tensor": (
        pooled_regions.roi_align_backward
    ),
    f"roi_pool({_REGIONS}, {_BINS}) -> (Tensor, Tensor)": pooled_regions.roi_pool,
    f"_roi_pool_backward({_GRADIENT}, Tensor argmax, float spatial_scale, {_BINS}, {_IMAGE}) -> Tensor": (
        pooled_regions.roi_pool_backward
    ),
    f"ps_roi_align({_REGIONS}, {_BINS}, int sampling_ratio) -> (Tensor, Tensor)": pooled_regions.ps_roi_align,
    f"_ps_roi_align_backward({_GRADIENT}, Tensor channel_mapping, float spatial_scale, {_BINS}, int sampling_ratio, "
    f"{_IMAGE}) -> Tensor": pooled_regions.ps_roi_align_backward,
    f"ps_roi_pool({_REGIONS}, {_BINS}) -> (Tensor, Tensor)": pooled_regions.ps_roi_pool,
    f"_ps_roi_pool_backward({_GRADIENT}, Tensor channel_mapping, float spatial_scale, {_BINS}, {_IMAGE}) -> Tensor": (
        pooled_regions.ps_roi_pool_backward
    ),
    f"deform_conv2d({_CONVOLUTION}) -> Tensor": deformable_convolution.deform_conv2d,
    f"_deform_conv2d_backward(Tensor grad, {_CONVOLUTION}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)": (
        deformable_convolution.deform_conv2d_backward
    ),
    # None: it is not compiled for any, so that no version has to fit.
    "_cuda_version() -> int": lambda: -1,
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor": None,
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": None,
    f"qroi_align(Tensor input, Tensor rois, {_QUANTIZED}, float spatial_scale, {_BINS}, int sampling_ratio, bool aligned) "
    "-> Tensor": None,
}


def is_torchvisions(path: str) -> bool:
    """Whether this is the file of torchvision's operators, and not another one, as its decoders of images."""
    file = PurePath(path)
    return file.parent.name == "torchvision" and file.name.partition(".")[0] in ("_C", "_C_stable")


def define() -> None:
    """Register the operators, unless they are."""
    for schema, kernel in _OPERATORS.items():
        parsed = Schema.parse(schema, "torchvision")
        if operators.exists(parsed.name):
            continue
        operator = operators.add(parsed)
        if kernel is not None:
            operator.register("CompositeExplicitAutograd", kernel)
