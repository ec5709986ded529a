"""Maxima over windows at random positions (B. Graham, 2014)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import pooling as kernels
from nvrtc_kernels.dtypes import int64
from tensor.core.arguments import two_devices
from tensor.core.base import check_tensor, empty, maker
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous
from tensor.core.plans import planned
from tensor.core.plans.copies import on_contiguous
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation

from . import pooling_on_host as on_host
from .pooling import Computed, Pooling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


def _numbers(name: str, what: str, argument: Any, rank: int) -> list[Any]:
    values = [argument] * rank if isinstance(argument, (int, float)) else list(argument)
    if len(values) != rank:
        raise ValueError(
            f"{name} requires {what} to either be a single number or a tuple of {rank}, got {argument!r}"
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
    for argument, window, result in zip(shape[-rank:], kernel, out, strict=True):
        if window < 1 or result < 1 or result + window - 1 > argument:
            raise RuntimeError(
                f"{name}(): windows of {kernel} at {out} positions do not fit into an input of {list(shape[-rank:])}: each "
                "size of the input must be at least the output's plus the window's less 1, and both at least 1"
            )
    return kernel, out


class _Fractional:
    """``device_state.plans[operation, input, kernel, out]``: how inputs of a layout are pooled, and the shape of their samples."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.name = f"fractional_max_pool{rank}d"

    def plan(self, x: Layout, kernel: tuple[int, ...], out: tuple[int, ...]) -> Pooling:
        """The pooling of tensors of a layout."""
        rank, ones = self.rank, (1,) * (3 - self.rank)
        whole = ((*ones, *each) for each in (x.shape[-rank:], out, kernel))
        return Pooling("max", rank, kernels.Fractional(*whole), tuple(x.shape[:-rank]))  # type: ignore[arg-type]


def _pool_plan(
    pooling: Pooling, x: Layout, samples: Layout
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """``device_state.plans[operation, pooling, input, samples](input, samples)``: the result, and the positions of maxima."""
    device_state = x.device_state
    out = contiguous[(*pooling.outer, *pooling.pool.out[3 - pooling.rank :]), x.dtype, device_state]
    where = contiguous[out.shape, int64, device_state]
    if not out.numel:
        return lambda *_: (empty(out), empty(where))
    run = (_on_device if device_state.is_cuda else _on_host)(pooling, samples, out, where)
    return on_contiguous(run, x, samples)


def _on_device(
    pooling: Any, samples: Layout, out: Layout, where: Layout
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    device_state: Any = out.device_state
    local, make, make_places = device_state.local, maker(out), maker(where)
    find = kernels.plan_fractional_max(
        device_state.native, pooling.pool, pooling.planes, pooling.rank, out.dtype, samples.dtype
    )

    def run(x: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        result, positions = make(), make_places()
        find(local.stream.handle, result._address, positions._address, x._address, samples._address)
        return result, positions

    return run


def _on_host(
    pooling: Any, samples: Layout, out: Layout, where: Layout
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    computed, compute_dtype = Computed(out), rules.computes_in(samples.dtype).numpy
    find = on_host.fractional(pooling.pool, pooling.planes, pooling.rank)
    argument, shape = (pooling.planes, *pooling.pool.size), (pooling.planes, pooling.rank)

    def run(x: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        result, array = computed.new()
        positions = empty(where)
        shares = samples._host.reshape(shape).astype(compute_dtype, copy=False)
        find(computed.widened(x._host.reshape(argument)), shares, array, positions._array)  # type: ignore[arg-type]
        computed.finish(result, array)
        return result, positions

    return run


_POOL, _OPERATIONS = planned(_pool_plan), {rank: _Fractional(rank) for rank in (2, 3)}


def _pool(
    rank: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any
) -> tuple[Tensor, Tensor]:
    operation = _OPERATIONS[rank]
    name = operation.name
    check_tensor(input, name, "input")
    layout = input._layout
    shape = layout.shape
    if len(shape) not in (rank + 1, rank + 2) or 0 in shape[-rank - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D input without empty dimensions other than the first, got "
            f"shape {list(shape)}"
        )
    if not layout.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {layout.dtype!r}')
    kernel, out = _sizes(name, shape, rank, kernel_size, output_size, output_ratio)
    outer = tuple(shape[:-rank]) if len(shape) == rank + 2 else (1, shape[0])
    if samples is None:
        samples = input.new_empty(*outer, rank).uniform_()
    elif samples.shape != (*outer, rank):
        raise RuntimeError(
            f"{name}(): expected _random_samples of shape {[*outer, rank]}, but got {list(samples.shape)}"
        )
    elif samples._layout.device_state is not layout.device_state:
        raise two_devices(name, layout.device, samples._layout.device)
    elif not samples._layout.dtype.is_floating_point:
        samples = samples.to(layout.dtype)
    plans = layout.device_state.plans
    pooling = plans[operation, layout, tuple(kernel), tuple(out)]
    result, positions = plans[_POOL, pooling, layout, samples._layout](input, samples)
    pooling.formulas[0].record((result,), (input,), (positions,), (pooling,))
    return result, positions


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Largest elements of windows of images that begin at random positions (B. Graham, 2014).

    The steps between windows are nearly of one size, which need not be an integer; the last window ends with the input.

    Parameters
    ----------
    input
        ``(N, C, height, width)``, or one image ``(C, height, width)``, of floating point.
    kernel_size
        Size of a window: an integer, or 2 of them, one for each of height and width.
    output_size
        Size of the result: an integer, or 2 of them.
    output_ratio
        The same as a share of the size of ``input``: a number between 0 and 1, or 2 of them.
    return_indices
        Whether the positions of the maxima are given too.
    _random_samples
        ``(N, C, 2)`` numbers from 0 to 1 that say where windows begin, width first; drawn from the default generator where there
        are none.

    Returns
    -------
    Tensor, or tuple of two
        The maxima ``(N, C, ...)``, and with ``return_indices`` their row-major positions in each channel's image, int64.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    ValueError
        Without ``output_size`` and ``output_ratio``, or if an option has neither one number nor 2.
    NotImplementedError
        For tensors that are not of floating point.
    RuntimeError
        If ``input`` has neither 3 nor 4 dimensions, or an empty one other than the first; if the windows and the
        output size together exceed its size, or the samples have another shape or device.

    Examples
    --------
    >>> nn.functional.fractional_max_pool2d(tensor.randn(20, 16, 50, 32), 3, output_size=(13, 12)).shape
    tensor.Size([20, 16, 13, 12])
    >>> nn.functional.fractional_max_pool2d(tensor.randn(20, 16, 50, 32), 2, output_ratio=0.5).shape
    tensor.Size([20, 16, 25, 16])
    """
    values, positions = _pool(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return (values, positions) if return_indices else values


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Largest elements of windows of volumes that begin at random positions (B. Graham, 2014).

    The steps between windows are nearly of one size, which need not be an integer; the last window ends with the input.

    Parameters
    ----------
    input
        ``(N, C, depth, height, width)``, or one volume ``(C, depth, height, width)``, of floating point.
    kernel_size
        Size of a window: an integer, or 3 of them, one for each of depth, height and width.
    output_size
        Size of the result: an integer, or 3 of them.
    output_ratio
        The same as a share of the size of ``input``: a number between 0 and 1, or 3 of them.
    return_indices
        Whether the positions of the maxima are given too.
    _random_samples
        ``(N, C, 3)`` numbers from 0 to 1 that say where windows begin; drawn from the default generator where there
        are none.

    Returns
    -------
    Tensor, or tuple of two
        The maxima ``(N, C, ...)``, and with ``return_indices`` their row-major positions in each channel's volume, int64.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    ValueError
        Without ``output_size`` and ``output_ratio``, or if an option has neither one number nor 3.
    NotImplementedError
        For tensors that are not of floating point.
    RuntimeError
        If ``input`` has neither 4 nor 5 dimensions, or an empty one other than the first; if the windows and the
        output size together exceed its size, or the samples have another shape or device.

    Examples
    --------
    >>> nn.functional.fractional_max_pool3d(tensor.randn(2, 4, 8, 8, 8), 2, output_size=5).shape
    tensor.Size([2, 4, 5, 5, 5])
    """
    values, positions = _pool(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return (values, positions) if return_indices else values
