"""Convolutions that read where offsets say, between elements: composed of a sampling and a product of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd import enable_grad, grad
from tensor.core.base import check_tensor
from tensor.core.dtypes import promotion as rules
from tensor.operations.creation.ranges import arange
from tensor.operations.resampling.grid_sampling import grid_sample
from tensor.operations.shapes.joining import stack

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


def _check(
    tensors: dict[str, Any], geometry: tuple[int, ...], groups: int, offset_groups: int, use_mask: bool
) -> tuple[int, int]:
    """The height and width of the result."""
    for name, each in tensors.items():
        check_tensor(each, "deform_conv2d", name)
    shapes = {name: each._layout.shape for name, each in tensors.items()}
    image, weight, offset = shapes["input"], shapes["weight"], shapes["offset"]
    for name in ("input", "weight", "offset"):
        if len(shapes[name]) != 4:
            raise RuntimeError(
                f"deform_conv2d(): expected {name} to have 4 dimensions, but got {list(shapes[name])}"
            )
    first = tensors["input"]
    for name, each in tensors.items():
        if each.device != first.device or each.dtype is not first.dtype:
            raise RuntimeError(
                f"deform_conv2d(): expected {name} on {first.device} with dtype {first.dtype!r} as input, but got "
                f"{each.device} and {each.dtype!r}"
            )
    if not first.dtype.is_floating_point:
        raise RuntimeError(f"deform_conv2d(): expected a floating-point dtype, but got {first.dtype!r}")
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w = geometry
    if min(stride_h, stride_w, dilation_h, dilation_w, groups, offset_groups) < 1 or min(pad_h, pad_w) < 0:
        raise RuntimeError(
            f"deform_conv2d(): strides, dilations and groups are positive and padding is not negative, but got strides "
            f"{(stride_h, stride_w)}, padding {(pad_h, pad_w)}, dilations {(dilation_h, dilation_w)}, {groups} groups and "
            f"{offset_groups} offset groups"
        )
    if weight[1] * groups != image[1] or weight[0] % groups or image[1] % offset_groups:
        raise RuntimeError(
            f"deform_conv2d(): {groups} groups and {offset_groups} offset groups do not fit input {list(image)} and weight "
            f"{list(weight)}"
        )
    places = weight[2] * weight[3]
    out = (
        (image[2] + 2 * pad_h - (dilation_h * (weight[2] - 1) + 1)) // stride_h + 1,
        (image[3] + 2 * pad_w - (dilation_w * (weight[3] - 1) + 1)) // stride_w + 1,
    )
    expected = (image[0], 2 * offset_groups * places, *out)
    if min(out) < 1 or tuple(offset) != expected:
        raise RuntimeError(
            f"deform_conv2d(): offset has sizes {list(offset)}, and has to have {list(expected)}"
        )
    expected = (image[0], offset_groups * places, *out)
    if use_mask and tuple(shapes["mask"]) != expected:
        raise RuntimeError(
            f"deform_conv2d(): mask has sizes {list(shapes['mask'])}, and has to have {list(expected)}"
        )
    if tuple(shapes["bias"]) != (weight[0],):
        raise RuntimeError(
            f"deform_conv2d(): bias has sizes {list(shapes['bias'])}, and has to have {[weight[0]]}"
        )
    return out


def _composed(
    tensors: tuple[Any, ...],
    geometry: tuple[int, ...],
    groups: int,
    offset_groups: int,
    use_mask: bool,
    out: tuple[int, int],
) -> Any:
    image, weight, offset, mask, bias = tensors
    count, channels, height, width = image.shape
    kernel_h, kernel_w = weight.shape[2:]
    places, area = kernel_h * kernel_w, out[0] * out[1]
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w = geometry

    def along(size: int, stride: int, pad: int, dilation: int, kernel: int) -> Any:
        """Where elements of the kernel read without offsets, ``(kernel, size)``."""
        places = arange(size, dtype=offset.dtype, device=offset.device) * stride - pad
        return arange(kernel, dtype=offset.dtype, device=offset.device)[:, None] * dilation + places

    offsets = offset.reshape(count * offset_groups, kernel_h, kernel_w, 2, *out)
    y = offsets[:, :, :, 0] + along(out[0], stride_h, pad_h, dilation_h, kernel_h)[:, None, :, None]
    x = offsets[:, :, :, 1] + along(out[1], stride_w, pad_w, dilation_w, kernel_w)[:, None, :]
    # From elements to -1 at one edge of the image and 1 at the other.
    grid = stack(((2 * x + 1) / width - 1, (2 * y + 1) / height - 1), -1)
    samples = grid_sample(
        image.reshape(count * offset_groups, channels // offset_groups, height, width),
        grid.reshape(count * offset_groups, places, area, 2),
        align_corners=False,
    )
    if use_mask:
        samples = samples * mask.reshape(count * offset_groups, 1, places, area)
    columns = samples.reshape(count, groups, channels // groups * places, area)
    product = weight.reshape(groups, weight.shape[0] // groups, -1) @ columns
    return product.reshape(count, -1, *out) + bias[:, None, None]


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """A convolution whose kernel reads between elements, each of its elements moved by an offset (Zhu et al., 2018).

    Positions are worked out relative to the size of the image, which rounds them: in single precision by about 1e-7 of it.

    Parameters
    ----------
    input
        ``(N, C_in, H, W)``.
    weight
        ``(C_out, C_in / groups, kernel_h, kernel_w)``.
    offset
        ``(N, 2 * offset_groups * kernel_h * kernel_w, H_out, W_out)``: down and to the right, in elements.
    mask
        ``(N, offset_groups * kernel_h * kernel_w, H_out, W_out)``: by what samples are multiplied, if ``use_mask``.
    bias
        ``(C_out,)``.
    stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups
        As of any convolution.
    offset_groups
        Groups of channels with offsets of their own.
    use_mask
        Whether ``mask`` counts.

    Returns
    -------
    Tensor
        ``(N, C_out, H_out, W_out)``.

    Raises
    ------
    RuntimeError
        If shapes, dtypes or devices do not fit.
    """
    geometry = (stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w)
    named = {"input": input, "weight": weight, "offset": offset, "mask": mask, "bias": bias}
    out = _check(named, geometry, groups, offset_groups, use_mask)
    dtype = rules.computes_in(input.dtype)
    tensors = tuple(each.to(dtype) for each in named.values())
    result: Tensor = _composed(tensors, geometry, groups, offset_groups, use_mask, out).to(input.dtype)
    return result


def deform_conv2d_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> tuple[Tensor, ...]:
    """Gradients of the input, weight, offset, mask and bias of :func:`deform_conv2d`, for one of its result."""
    geometry = (stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w)
    named = {"input": input, "weight": weight, "offset": offset, "mask": mask, "bias": bias}
    out = _check(named, geometry, groups, offset_groups, use_mask)
    dtype = rules.computes_in(input.dtype)
    with enable_grad():
        tensors = tuple(each.detach().to(dtype).requires_grad_() for each in named.values())
        result = _composed(tensors, geometry, groups, offset_groups, use_mask, out)
        gradients: Any = grad(
            result, tensors, grad_output.detach().to(dtype), allow_unused=True, materialize_grads=True
        )
    return tuple(each.to(input.dtype) for each in gradients)
