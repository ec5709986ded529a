"""Signals, images and volumes at other sizes."""

from __future__ import annotations

from functools import cache
from math import floor, prod
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import interpolation as kernels
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import check_tensor, empty, wrap
from tensor.core.constants import device_constant
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous
from tensor.core.memory_format import suggested
from tensor.core.plans.copies import formatted, host_conversion
from tensor.core.plans.steps import one_step
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.pooling.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)

from .interpolation_weights import Band, band

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

#: Arguments of :func:`band` for each dimension.
Bands = tuple[tuple[str, int, int, bool, float | None, bool], ...]


#: Whose gradients PyTorch gives in row-major order whatever that of the result is.
_ROW_MAJOR_GRADIENTS = {
    f"Upsample{each}Backward" for each in ("Bicubic2D", "Bicubic2DAa", "Nearest3D", "NearestExact3D")
}


def _recorded(x: Tensor, bands: Bands, name: str, transposed: bool = False) -> Tensor:
    result = _product(x.detach().contiguous(), bands, transposed)
    if not transposed or name not in _ROW_MAJOR_GRADIENTS:
        result = formatted(result, suggested(x._layout))
    _formula(name).record((result,), (x,), context=(bands, name, transposed))
    return result


def _gradient(grad: Tensor, bands: Bands, name: str, transposed: bool) -> Tensor:
    """The product with the matrices transposed, or, of that, with the matrices."""
    return _recorded(grad, bands, f"{name}Backward", not transposed)


@cache
def _formula(name: str) -> BackwardFormula:
    return BackwardFormula(f"{name}Backward0", "x", [Derivative(_gradient, needs="")])


def _matrices(bands: Bands, transposed: bool) -> list[Band]:
    result = [band(*each) for each in bands]
    return [each.transposed for each in result] if transposed else result


@one_step
def _product(x: Tensor, bands: Bands, transposed: bool) -> Tensor:
    """A contiguous ``x`` with its last dimensions multiplied with matrices."""
    layout = x._layout
    outer = layout.shape[: -len(bands)]
    sizes = [each[1 if transposed else 2] for each in bands]
    out = contiguous[(*outer, *sizes), layout.dtype, layout.device_state]
    device_state = layout.device_state
    if not device_state.is_cuda:
        return _on_host(x, _matrices(bands, transposed), out)
    result = empty(out)
    if out.numel:
        key = ("interpolation", bands, transposed, prod(outer), out.dtype)
        run = device_state.plans.get(key)
        if run is None:
            run = device_state.plans[key] = _plan(device_state, bands, transposed, prod(outer), out)
        run(result._address, x._address)
    return result


def _plan(
    device_state: Any, bands: Bands, transposed: bool, planes: int, out: Layout
) -> Callable[[int, int], None]:
    matrices = _matrices(bands, transposed)
    while len(matrices) < 3:
        matrices = [band("nearest", 1, 1, False, None, False), *matrices]
    axes = [kernels.Axis(each.input_size, each.output_size, each.neighbours, each.spans) for each in matrices]
    used = [each for each in matrices if each.neighbours]
    run = kernels.plan(device_state.native, axes, planes, out.dtype)
    weights = np.concatenate([each.weights for each in used] or [np.empty(0, np.float32)])
    starts = np.cumsum([0, *(len(each.weights) for each in used)])
    rows = [
        part for each, start in zip(used, starts, strict=False) for part in (each.first, each.begin + start)
    ]
    # One block of memory for both.
    table = np.concatenate([weights.view(np.int32), *rows]).astype(np.int32, copy=False)
    if not len(table):
        return lambda result, argument: run(device_state.local.stream.handle, result, argument, 0, 0)
    key = ("interpolation table", bands, transposed)

    def launch(result: int, argument: int) -> None:
        at = device_constant(device_state, key, lambda: table)._address
        run(device_state.local.stream.handle, result, argument, at + weights.nbytes, at)

    return launch


def _on_host(x: Tensor, matrices: Sequence[Band], out: Layout) -> Tensor:
    dtype = out.dtype
    array: NDArray[Any] = x._host
    exact = all(each.selects for each in matrices)
    compute_dtype = rules.computes_in(dtype) if dtype.is_floating_point else None
    if not exact:
        array = _converted(array, dtype, compute_dtype)
    if out.numel:
        # What makes it smaller comes first, then what is slower: less is left to do for the others.
        order = sorted(
            range(len(matrices)),
            key=lambda axis: (matrices[axis].output_size / matrices[axis].input_size, -axis),
        )
        with np.errstate(all="ignore"):
            for axis in order:
                array = matrices[axis].times(array, axis - len(matrices))
    else:
        array = np.empty(out.shape, array.dtype)
    if exact:
        return wrap(np.array(array, copy=True) if array is x._host else np.ascontiguousarray(array), out)
    result = np.empty(out.shape, dtype.numpy)
    if compute_dtype is None:
        np.copyto(result, np.rint(array).clip(0, 255), casting="unsafe")
    else:
        host_conversion(compute_dtype, dtype)(result, array)
    return wrap(result, out)


def _converted(array: NDArray[Any], dtype: Any, compute_dtype: Any) -> NDArray[Any]:
    if compute_dtype is None:
        return array.astype(np.float32)
    if compute_dtype is dtype:
        return array
    result = np.empty(array.shape, compute_dtype.numpy)
    host_conversion(dtype, compute_dtype)(result, array)
    return result


# As users call it

#: For each mode the dimensions that it is for, and the part of its name in PyTorch.
_MODES = {
    "nearest": ((1, 2, 3), "Nearest"),
    "nearest-exact": ((1, 2, 3), "NearestExact"),
    "area": ((1, 2, 3), ""),
    "linear": ((1,), "Linear"),
    "bilinear": ((2,), "Bilinear"),
    "trilinear": ((3,), "Trilinear"),
    "bicubic": ((2,), "Bicubic"),
}
_KINDS = {"linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
_AVERAGES = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32))
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Signals, images or volumes at another size.

    Parameters
    ----------
    input
        ``(items, channels, [depth, [height,]] width)``; floating point, or uint8, which is rounded to.
    size
        Of the result: an integer for all dimensions, or one for each.
    scale_factor
        How much larger the result is, in place of ``size``: a number for all dimensions, or one for each.
    mode : {"nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", "area"}
        The nearest element, as older libraries and as image libraries find it; the neighbours weighted, for one, two
        and three dimensions; or means.
    align_corners
        Whether the centres of the corner elements stay where they are, instead of their outer edges.
    recompute_scale_factor
        Whether positions follow from the sizes, and not from ``scale_factor``.
    antialias
        Whether a smaller image averages over all that it stands for; with "bilinear" and "bicubic".

    Raises
    ------
    ValueError
        For arguments that exclude one another, or the wrong number of sizes.
    NotImplementedError
        For another mode or type, or dimensions that a mode is not for.
    RuntimeError
        For empty images.

    Examples
    --------
    >>> x = tensor.tensor([[[1.0, 2.0]]])
    >>> nn.functional.interpolate(x, size=4)
    tensor([[[1., 1., 2., 2.]]])
    >>> nn.functional.interpolate(x, scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.2500, 1.7500, 2.0000]]])
    """
    check_tensor(input, "interpolate", "input")
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    rank = len(input._layout.shape) - 2
    sizes, factors = _sizes(input, rank, size, scale_factor, mode, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic") and rank == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    _check_mode(rank, mode)
    if mode == "area":
        return _AVERAGES[rank](input, sizes)
    dtype = input._layout.dtype
    if not dtype.is_floating_point and dtype.name != "uint8":
        raise NotImplementedError(f'"interpolate" with mode {mode!r} is not implemented for {dtype!r}')
    argument = input._layout.shape[2:]
    if min(sizes) < 1 or 0 in input._layout.shape[1:]:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {list(input._layout.shape)} and output "
            f"size {list(sizes)}"
        )
    name = f"Upsample{_MODES[mode][1]}{rank}D{'Aa' if antialias else ''}"
    band_kind = f"smooth {_KINDS[mode]}" if antialias else _KINDS.get(mode, mode)
    double = dtype.name == "float64"
    bands = tuple(
        (band_kind, *pair, bool(align_corners), factor, double)
        for *pair, factor in zip(argument, sizes, factors, strict=True)
    )
    return _recorded(input, bands, name)  # type: ignore[arg-type]


def _sizes(
    x: Tensor, rank: int, size: Any, scale_factor: Any, mode: str, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    """Sizes of the result, and the factors that positions follow from."""
    argument = list(x._layout.shape[2:])
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    what, values = ("output size", size) if size is not None else ("scale_factor", scale_factor)
    values = list(values) if isinstance(values, (tuple, list)) else [values] * rank
    if len(values) != rank:
        raise ValueError(
            f"Input and output must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {argument} and {what} of {values}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            f"{what} in (o1, o2, ...,oK) format."
        )
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        try:
            return [index(each) for each in values], [None] * rank
        except TypeError:
            raise TypeError(f"expected size to be integers, but got {values}") from None
    factors = [float(each) for each in values]
    sizes = [floor(float(each) * factor) for each, factor in zip(argument, factors, strict=True)]
    return sizes, [None] * rank if recompute or mode == "area" else list(factors)


def _check_mode(rank: int, mode: str) -> None:
    if mode in _MODES and rank in _MODES[mode][0]:
        return
    if mode in _MODES and rank in (1, 2, 3):
        needed = _MODES[mode][0][0] + 2
        raise NotImplementedError(f"Got {rank + 2}D input, but {mode} mode needs {needed}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank + 2}D) for the modes: nearest | linear | "
        f"bilinear | bicubic | trilinear | area | nearest-exact (got {mode})"
    )
