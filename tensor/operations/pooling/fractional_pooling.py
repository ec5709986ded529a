"""Maxima over windows at random places (B. Graham, 2014)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tensor.core.base import check_tensor
from tensor.core.dtypes import promotion as rules
from tensor.core.modes.grad_mode import modes
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.creation.ranges import arange
from tensor.operations.definition import operation
from tensor.operations.recorder import record
from tensor.operations.shapes.joining import cat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


def _numbers(name: str, what: str, given: Any, rank: int) -> list[Any]:
    values = [given] * rank if isinstance(given, (int, float)) else list(given)
    if len(values) != rank:
        raise ValueError(
            f"{name} requires {what} to either be a single number or a tuple of {rank}, got {given!r}"
        )
    return values


def _sizes(
    name: str, shape: Sequence[int], rank: int, kernel_size: Any, output_size: Any, output_ratio: Any
) -> tuple[list[int], list[int]]:
    """Of the windows, and of the result."""
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    kernel = _numbers(name, "kernel_size", kernel_size, rank)
    if output_size is not None:
        out = _numbers(name, "output_size", output_size, rank)
    else:
        ratios = _numbers(name, "output_ratio", output_ratio, rank)
        out = [int(size * ratio) for size, ratio in zip(shape[-rank:], ratios, strict=True)]
    for given, window, made in zip(shape[-rank:], kernel, out, strict=True):
        if window < 1 or made < 1 or made + window - 1 > given:
            raise RuntimeError(
                f"{name}(): windows of {kernel} at {out} places do not fit into an input of {list(shape[-rank:])}: each "
                "size of the input must be at least the output's plus the window's less 1, and both at least 1"
            )
    return kernel, out


def _starts(share: Any, given: int, window: int, out: int) -> Any:
    """Where windows begin ``(N, C, out)``: steps of nearly the same size, at a random share of one."""
    last = share.new_full((*share.shape, 1), given - window).long()
    if out == 1:
        return last
    step = (given - window) / (out - 1)
    share = share.unsqueeze(-1)
    places = arange(out - 1, dtype=share.dtype, device=share.device)
    return cat([((places + share) * step).long() - (share * step).long(), last], -1)


def _places(x: Any, kernel: list[int], out: list[int], samples: Any) -> Any:
    """Indices in their planes of the elements of all windows: ``(N, C, positions, taps)``."""
    rank = len(kernel)
    sizes = x.shape[-rank:]
    index: Any = 0
    stride = 1
    for axis in reversed(range(rank)):
        # Images take the first number for their width, volumes for their depth.
        share = samples[..., rank - 1 - axis if rank == 2 else axis]
        starts = _starts(share, sizes[axis], kernel[axis], out[axis])
        taps = arange(kernel[axis], device=x.device)
        at = (starts.unsqueeze(-1) + taps) * stride
        shape = [*at.shape[:2], *[1] * (2 * rank)]
        shape[2 + axis], shape[2 + rank + axis] = out[axis], kernel[axis]
        index = index + at.reshape(shape)
        stride *= sizes[axis]
    return index.reshape(*index.shape[:2], prod(out), prod(kernel))


def _derivative(_: Any, grad: Any, places: Any, size: tuple[int, ...]) -> tuple[Any]:
    rank = len(size)
    planes = grad.new_zeros(*grad.shape[:-rank], prod(size))
    made = planes.scatter_add(-1, places.flatten(-rank), grad.flatten(-rank))
    return (made.reshape(*grad.shape[:-rank], *size),)


def _pool(
    rank: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{rank}d"
    check_tensor(input, name, "input")
    given: Any = input
    shape = input._layout.shape
    if len(shape) not in (rank + 1, rank + 2) or 0 in shape[-rank - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D input without empty dimensions other than the first, got "
            f"shape {list(shape)}"
        )
    if not input._layout.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {input._layout.dtype!r}')
    kernel, out = _sizes(name, shape, rank, kernel_size, output_size, output_ratio)
    outer = shape[:-rank] if len(shape) == rank + 2 else (1, shape[0])
    recording, modes.recording = modes.recording, False
    try:
        if samples is None:
            samples = given.new_empty(*outer, rank).uniform_()
        elif samples.shape != (*outer, rank):
            raise RuntimeError(
                f"{name}(): expected _random_samples of shape {[*outer, rank]}, but got {list(samples.shape)}"
            )
        x: Any = given.detach().reshape(*outer, *shape[-rank:])
        index = _places(x, kernel, out, samples.to(rules.computes_in(samples.dtype)))
        flat = x.flatten(-rank)
        values = flat.gather(-1, index.flatten(-2)).reshape(index.shape)
        best = values.argmax(-1, keepdim=True)
        places = index.gather(-1, best).squeeze(-1)
        made = flat.gather(-1, places).reshape(*shape[:-rank], *out)
        places = places.reshape(*shape[:-rank], *out)
        made._base = places._base = None
    finally:
        modes.recording = recording
    record(
        (made,),
        (input,),
        f"FractionalMaxPool{rank}DBackward0",
        _derivative,
        (places,),
        (tuple(shape[-rank:]),),
    )
    return made, places


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Largest elements of windows of images that begin at random places.

    Parameters
    ----------
    input
        ``(items, channels, height, width)``, or one item.
    output_size
        How many windows there are along height and width.
    output_ratio
        Their number as a share of the size of the input, in place of ``output_size``.
    return_indices
        Whether the places of the maxima in their plane are wanted too.
    _random_samples
        ``(items, channels, 2)`` from 0 to 1, which windows follow from.

    Raises
    ------
    ValueError
        Without ``output_size`` and ``output_ratio``.
    RuntimeError
        If windows do not fit into the input.
    """
    values, places = _pool(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return (values, places) if return_indices else values


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Largest elements of windows of volumes that begin at random places; see :func:`fractional_max_pool2d`."""
    values, places = _pool(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return (values, places) if return_indices else values
