"""Images and volumes sampled at the positions of a grid, and grids of affine maps."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import grid_sampling as kernels
from nvrtc_kernels.dtypes import float32
from nvrtc_kernels.grid_sampling import Sampling
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import check_tensor, empty, wrap
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous
from tensor.core.modes.determinism import determinism
from tensor.core.modes.grad_mode import modes, unrecorded
from tensor.core.plans.steps import one_step
from tensor.core.warning import warn_caller
from tensor.operations.autocast import FLOAT32, WIDEST, Autocast
from tensor.operations.creation.ranges import linspace
from tensor.operations.definition import operation

from . import sampling_on_host as on_host
from .sampling_formulas import gradients, taps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor


def _planned(device_state: Any, key: tuple[Any, ...], make: Callable[..., Any]) -> Any:
    run = device_state.plans.get(key)
    if run is None:
        run = device_state.plans[key] = make(device_state.native, *key[1:])
    return run


@one_step
def _forward(image: Tensor, grid: Tensor, sampling: Sampling) -> Tensor:
    layout = image._layout
    device_state = layout.device_state
    out = contiguous[(*layout.shape[:2], *sampling.out), layout.dtype, device_state]
    if not out.numel:
        return empty(out)
    if not device_state.is_cuda:
        compute_dtype = rules.computes_in(layout.dtype)
        planes, weights = _arrays(image.to(compute_dtype), grid.to(compute_dtype), sampling)
        with np.errstate(all="ignore"):
            result = on_host.sampled(planes, weights, prod(sampling.out))
        return wrap(result.reshape(out.shape)).to(layout.dtype)
    output, image, grid = empty(out), image.contiguous(), grid.contiguous()
    run = _planned(device_state, ("grid sample", sampling, layout.dtype), kernels.plan)
    run(device_state.local.stream.handle, output._address, image._address, grid._address)
    return output


def _backward(
    expected: tuple[bool, ...], grad: Any, image: Any, grid: Any, sampling: Sampling
) -> tuple[Any, Any]:
    """Gradients of image and grid: by the kernel, or in operations where these are to have derivatives or an order."""
    dtype, device_state = image._layout.dtype, image._layout.device_state
    ordered = determinism.required and expected[0]
    if device_state.is_cuda and not modes.recording and not ordered and grad._layout.numel:
        return _by_kernel(expected, grad.contiguous(), image.contiguous(), grid.contiguous(), sampling)
    compute_dtype = rules.computes_in(dtype)
    grad, image, grid = grad.to(compute_dtype), image.to(compute_dtype), grid.to(compute_dtype)
    if device_state.is_cuda or modes.recording or not grad._layout.numel:
        result: tuple[Any, ...] = gradients(expected, grad, image, grid, sampling)
    else:
        result = _gradients_on_host(expected, grad, image, grid, sampling)
    to_image, to_grid = (each if each is None else each.to(dtype) for each in result)
    return to_image, to_grid


@one_step
def _gradients_on_host(
    expected: tuple[bool, ...], grad: Any, image: Any, grid: Any, sampling: Sampling
) -> tuple[Any, ...]:
    planes, weights = _arrays(image, grid, sampling)
    argument = grad._host.reshape(*planes.shape[:2], -1)
    with np.errstate(all="ignore"):
        arrays = on_host.gradients(expected, argument, planes, weights, len(sampling.size))
    shapes = image._layout.shape, grid._layout.shape
    return tuple(
        each if each is None else wrap(np.ascontiguousarray(each).reshape(shape))
        for each, shape in zip(arrays, shapes, strict=True)
    )


#: By the number of dimensions that are sampled.
_FORMULAS = {
    dims: BackwardFormula(
        f"GridSampler{dims}DBackward0", "image grid", joint=Derivative(_backward, needs="image grid")
    )
    for dims in (2, 3)
}


def _arrays(image: Any, grid: Any, sampling: Sampling) -> tuple[Any, Any]:
    """Planes, and neighbours of the positions, for the functions on NumPy arrays."""
    planes = image._host.reshape(sampling.items, sampling.channels, prod(sampling.size))
    weights = (
        (index._host, inside._host, weight._host, [each._host for each in slopes])
        for index, inside, weight, slopes in taps_of(grid, sampling)
    )
    return planes, weights


@one_step
def _by_kernel(
    expected: tuple[bool, ...], grad: Any, image: Any, grid: Any, sampling: Sampling
) -> tuple[Any, Any]:
    dtype, device_state = image._layout.dtype, image._layout.device_state
    sum_dtype = dtype if dtype.name == "float64" else float32
    to_image = image.new_zeros(image.shape, dtype=sum_dtype) if expected[0] else None
    to_grid = empty(grid._layout) if expected[1] else None
    run = _planned(
        device_state,
        ("grid sample backward", sampling, dtype, expected),
        lambda device, sampling, dtype, needed: kernels.plan_backward(
            device, sampling, dtype, to_image=needed[0], to_grid=needed[1]
        ),
    )
    result = [0 if each is None else each._address for each in (to_image, to_grid)]
    run(device_state.local.stream.handle, *result, grad._address, image._address, grid._address)
    return (None if to_image is None else to_image.to(dtype)), to_grid


# As users call them


def _default_alignment(align_corners: bool | None) -> bool:
    if align_corners is None:
        warn_caller(
            "grid_sample and affine_grid take align_corners=False unless told otherwise, which older scripts may not "
            "expect. Pass align_corners to say which one is meant.",
        )
    return bool(align_corners)


def _check(input: Any, grid: Any, mode: str, padding_mode: str) -> None:
    for what, argument in (("input", input), ("grid", grid)):
        check_tensor(argument, "grid_sample", what)
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    image, positions = input._layout, grid._layout
    shapes = f"but got input with sizes {list(image.shape)} and grid with sizes {list(positions.shape)}"
    if image.device_state is not positions.device_state:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to be on same device, but input is on {image.device_state.device} and "
            f"grid is on {positions.device_state.device}"
        )
    if len(image.shape) not in (4, 5) or len(image.shape) != len(positions.shape):
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, {shapes}"
        )
    if image.shape[0] != positions.shape[0]:
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, {shapes}")
    if positions.shape[-1] != len(image.shape) - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(image.shape) - 2} in last dimension, {shapes}"
        )
    if 0 in image.shape[2:]:
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {list(image.shape)}"
        )
    if mode == "bicubic" and len(image.shape) == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if image.dtype is not positions.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have same dtype, but input has {image.dtype!r} and grid has "
            f"{positions.dtype!r}"
        )
    if not image.dtype.is_floating_point:
        raise NotImplementedError(f'"grid_sampler" not implemented for {image.dtype!r}')


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=WIDEST, cpu=FLOAT32))
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """``input`` sampled at the positions of ``grid``.

    The gradient of ``input`` is added up with atomics on CUDA, and in a fixed order under
    :func:`use_deterministic_algorithms`.

    Parameters
    ----------
    input
        ``(N, C, H, W)``, or volumes ``(N, C, D, H, W)``.
    grid
        ``(N, H_out, W_out, 2)`` or ``(N, D_out, H_out, W_out, 3)``: positions from -1 to 1, that along the width first.
    mode : {"bilinear", "nearest", "bicubic"}
        What is read between elements (of volumes trilinear); "bicubic" is for images only.
    padding_mode : {"zeros", "border", "reflection"}
        What is outside: zeros, the nearest element, or the image reflected at its ends.
    align_corners
        Whether -1 and 1 are the centres of the end elements, and not their outer edges. False by default, with a
        warning.

    Returns
    -------
    Tensor
        ``(N, C, H_out, W_out)`` or ``(N, C, D_out, H_out, W_out)``.

    Raises
    ------
    ValueError
        For another mode or padding.
    RuntimeError
        If the shapes are not those above, input and grid differ in N, or in dtype or device.

    Examples
    --------
    >>> image = tensor.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> nn.functional.grid_sample(image, tensor.zeros(1, 1, 1, 2), align_corners=True)
    tensor([[[[2.5000]]]])
    """
    _check(input, grid, mode, padding_mode)
    shape = input._layout.shape
    sampling = Sampling(
        shape[0],
        shape[1],
        tuple(shape[2:]),
        tuple(grid._layout.shape[1:-1]),
        mode,
        padding_mode,
        # Between the user and this function stands the one that asks for autocast.
        _default_alignment(align_corners),
    )
    with unrecorded():
        result = _forward(input.detach(), grid.detach(), sampling)
    _FORMULAS[len(shape) - 2].record((result,), (input, grid), context=(sampling,))
    return result


@operation(namespace="nn.functional", method=False)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Positions for :func:`grid_sample` at which affine maps read.

    Parameters
    ----------
    theta
        Maps ``(N, 2, 3)`` from positions of the result to positions of the input; for volumes ``(N, 3, 4)``.
    size
        Of the result: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
    align_corners
        As :func:`grid_sample` has it.

    Returns
    -------
    Tensor
        ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``.

    Raises
    ------
    ValueError
        If ``theta`` is not floating point, or has not the shape that ``size`` asks for.
    NotImplementedError
        For another number of sizes.

    Examples
    --------
    >>> theta = tensor.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> nn.functional.affine_grid(theta, (1, 1, 2, 2), align_corners=True)
    tensor([[[[-1., -1.],
              [ 1., -1.]],
    <BLANKLINE>
             [[-1.,  1.],
              [ 1.,  1.]]]])
    """
    check_tensor(theta, "affine_grid", "theta")
    aligned = _default_alignment(align_corners)
    dtype, shape = theta._layout.dtype, theta._layout.shape
    size = [int(each) for each in size]
    rank = len(size) - 2
    if not dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {dtype!r}")
    if rank not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {size}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if shape != (size[0], rank, rank + 1):
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape {size[0]}x{rank}x{rank + 1} for size {size}. Got "
            f"{list(shape)}."
        )
    # Products and sums of single elements: a matrix product might round to TF32, and positions need more.
    maps: Any = theta.to(rules.computes_in(dtype))
    moved = maps[:, :, rank].reshape(size[0], *[1] * rank, rank)
    for axis, length in enumerate(reversed(size[2:])):
        positions = _places(length, aligned, maps).reshape(-1, *[1] * (axis + 1))
        moved = moved + positions * maps[:, :, axis].reshape(size[0], *[1] * rank, rank)
    result: Tensor = moved.to(dtype)
    return result


def _places(length: int, aligned: bool, like: Any) -> Any:
    """Centres of the elements of a dimension, from -1 to 1."""
    if length == 1:
        return like.new_zeros(1)
    end = 1.0 if aligned else (length - 1) / length
    return linspace(-end, end, length, dtype=like.dtype, device=like.device)
