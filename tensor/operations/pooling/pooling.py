"""Maxima and means over windows of signals, images and volumes.

How a pooling goes follows from the layout of the input and the options, and is worked out once for them: see
:class:`_Regular`. A call then is one look-up, the allocations of the results and one launch.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nvrtc_kernels import pooling as kernels
from nvrtc_kernels.convolution import Windows
from nvrtc_kernels.dtypes import int64
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.arguments import as_int64
from tensor.core.base import check_tensor, empty, maker
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous
from tensor.core.memory_format import suggested
from tensor.core.modes.grad_mode import modes
from tensor.core.plans.copies import host_conversion, in_format, on_contiguous
from tensor.core.plans.steps import one_step
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.planned_options import PLAIN, plan_for
from tensor.operations.reduction import into_out

from . import pooling_on_host as on_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvrtc_kernels.pooling import Pool
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


class Pooling:
    """A pooling of inputs of one shape, and its derivative.

    Attributes
    ----------
    category : str
        ``"max"`` or ``"avg"``.
    rank : int
        Number of spatial dimensions.
    pool : Windows, Adaptive or Fractional
        Where windows lie, in three spatial dimensions.
    outer, planes
        The dimensions before the spatial ones, and how many planes these are.
    with_padding, fixed
        How means are divided: whether padding counts; by a number, unless that is 0.
    forward
        ``device_state.plans[pooling.forward, input](input)`` gives the result and the positions of maxima, or ``None``.
    values
        The same without positions, which are then not written on devices.
    backward
        ``device_state.plans[pooling.backward, grad, positions](grad, positions)`` gives the gradient of the input.
    keeps_format : bool
        Whether gradients have the memory format of the result's gradients, as in PyTorch, where others are row-major.
    formulas : tuple of BackwardFormula
        How it is run backward, and how its gradient is.
    """

    __slots__ = (
        "backward",
        "category",
        "fixed",
        "formulas",
        "forward",
        "keeps_format",
        "outer",
        "planes",
        "pool",
        "rank",
        "values",
        "with_padding",
    )

    def __init__(
        self,
        category: str,
        rank: int,
        pool: Pool,
        outer: tuple[int, ...],
        *,
        with_padding: bool = True,
        fixed: int = 0,
        keeps_format: bool = False,
    ) -> None:
        self.category = category
        self.rank = rank
        self.pool = pool
        self.outer, self.planes = outer, prod(outer)
        self.with_padding = with_padding
        self.fixed = fixed
        self.keeps_format = keeps_format
        self.forward = _Forward(self)
        self.values = _Values(self) if category == "max" else self.forward
        self.backward = _Backward(self)
        self.formulas = _formulas(category, self.name())

    @property
    def sizes(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Of a plane of the input and of the result."""
        return self.pool.size, self.pool.out

    def name(self) -> str:
        """Name of the nodes, without what differs between the pooling and its gradient; PyTorch's."""
        variant = "" if isinstance(self.pool, Windows) else type(self.pool).__name__
        what = "Max" if self.category == "max" else "Avg"
        indices = "WithIndices" if self.category == "max" and not variant else ""
        return f"{variant}{what}Pool{max(self.rank, 2)}D{indices}Backward"


class _Step:
    """What the pooling and its derivative share."""

    __slots__ = ("pooling",)

    def __init__(self, pooling: Pooling) -> None:
        self.pooling = pooling

    def out(self, layout: Layout, position: int) -> Layout:
        """Layout of results that have the size of the input (0) or of the output (1)."""
        shape = (*self.pooling.outer, *self.pooling.sizes[position][3 - self.pooling.rank :])
        return contiguous[shape, layout.dtype, layout.device_state]

    def whole(self, position: int) -> tuple[int, ...]:
        """Shape of the planes of the input (0) or of the output (1)."""
        return (self.pooling.planes, *self.pooling.sizes[position])


class _Forward(_Step):
    __slots__ = ()

    def plan(self, x: Layout) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
        """What pools tensors of a layout."""
        pooling, device_state = self.pooling, x.device_state
        out = self.out(x, 1)
        where = contiguous[out.shape, int64, device_state] if pooling.category == "max" else None
        if not out.numel:
            return lambda _: (empty(out), None if where is None else empty(where))
        run = self._on_device(out, where) if device_state.is_cuda else self._on_host(out, where)
        return on_contiguous(run, x)

    def _on_device(
        self, out: Layout, where: Layout | None
    ) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
        device_state: Any = out.device_state
        pooling, local, make = self.pooling, device_state.local, maker(out)
        if where is None:
            take = kernels.plan_avg(
                device_state.native, pooling.pool, pooling.planes, out.dtype,
                with_padding=pooling.with_padding, fixed=pooling.fixed, backward=False,
            )  # fmt: skip

            def run_avg(x: Tensor) -> tuple[Tensor, None]:
                stream = local.stream
                result = make(stream)
                take(stream.handle, result._storage.address, x._storage.address + x._offset)
                return result, None

            return run_avg
        make_places = maker(where)
        find = kernels.plan_max(device_state.native, pooling.pool, pooling.planes, out.dtype)

        def run_max(x: Tensor) -> tuple[Tensor, Tensor]:
            stream = local.stream
            result, positions = make(stream), make_places(stream)
            find(
                stream.handle,
                result._storage.address,
                positions._storage.address,
                x._storage.address + x._offset,
            )
            return result, positions

        return run_max

    def _on_host(self, out: Layout, where: Layout | None) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
        pooling, argument, whole = self.pooling, self.whole(0), self.whole(1)
        computed = Computed(out)
        if where is None:
            take = on_host.mean(pooling.pool, pooling.with_padding, pooling.fixed)

            def run_avg(x: Tensor) -> tuple[Tensor, None]:
                result, array = computed.new()
                with np.errstate(all="ignore"):
                    take(computed.widened(x._host.reshape(argument)), array.reshape(whole))
                computed.finish(result, array)
                return result, None

            return run_avg
        find = on_host.largest(pooling.pool, pooling.planes, computed.compute_dtype.numpy)

        def run_max(x: Tensor) -> tuple[Tensor, Tensor]:
            result, array = computed.new()
            positions = empty(where)
            seen: Any = positions._array
            with np.errstate(all="ignore"):
                find(computed.widened(x._host.reshape(argument)), array.reshape(whole), seen.reshape(whole))
            computed.finish(result, array)
            return result, positions

        return run_max


class _Values(_Forward):
    __slots__ = ()

    def _on_device(self, out: Layout, where: Layout | None) -> Callable[[Tensor], tuple[Tensor, None]]:
        device_state: Any = out.device_state
        pooling, local, make = self.pooling, device_state.local, maker(out)
        find = kernels.plan_max(device_state.native, pooling.pool, pooling.planes, out.dtype, indexed=False)

        def run(x: Tensor) -> tuple[Tensor, None]:
            stream = local.stream
            result = make(stream)
            find(stream.handle, result._storage.address, 0, x._storage.address + x._offset)
            return result, None

        return run


class _Backward(_Step):
    __slots__ = ()

    def plan(self, grad: Layout, positions: Layout | None) -> Callable[[Tensor, Tensor | None], Tensor]:
        """What makes the gradient of the input from those of tensors of a layout."""
        device_state = grad.device_state
        out = self.out(grad, 0)
        if not out.numel:
            return lambda *_: empty(out)
        run = on_contiguous(
            self._on_device(out) if device_state.is_cuda else self._on_host(out), grad, positions
        )
        return in_format(run, suggested(grad)) if self.pooling.keeps_format else run

    def _on_device(self, out: Layout) -> Callable[[Tensor, Tensor | None], Tensor]:
        device_state: Any = out.device_state
        pooling, local, make = self.pooling, device_state.local, maker(out)
        if pooling.category == "avg":
            spread = kernels.plan_avg(
                device_state.native, pooling.pool, pooling.planes, out.dtype,
                with_padding=pooling.with_padding, fixed=pooling.fixed, backward=True,
            )  # fmt: skip

            def run_avg(grad: Tensor, _: Any) -> Tensor:
                stream = local.stream
                result = make(stream)
                spread(stream.handle, result._storage.address, grad._storage.address + grad._offset)
                return result

            return run_avg
        put = kernels.plan_max_backward(device_state.native, pooling.pool, pooling.planes, out.dtype)

        def run_max(grad: Tensor, positions: Any) -> Tensor:
            stream = local.stream
            result = make(stream)
            put(
                stream.handle,
                result._storage.address,
                grad._storage.address + grad._offset,
                positions._storage.address + positions._offset,
            )
            return result

        return run_max

    def _on_host(self, out: Layout) -> Callable[[Tensor, Tensor | None], Tensor]:
        pooling, argument, whole = self.pooling, self.whole(1), self.whole(0)
        computed = Computed(out)
        if pooling.category == "avg":
            spread = on_host.mean_gradient(pooling.pool, pooling.with_padding, pooling.fixed)

            def run_avg(grad: Tensor, _: Any) -> Tensor:
                result, array = computed.new()
                spread(computed.widened(grad._host.reshape(argument)), array.reshape(whole))
                computed.finish(result, array)
                return result

            return run_avg
        put = on_host.largest_gradient(pooling.planes, prod(pooling.sizes[0]))

        def run_max(grad: Tensor, positions: Any) -> Tensor:
            result, array = computed.new()
            put(computed.widened(grad._host.reshape(argument)), positions._host, array)
            computed.finish(result, array)
            return result

        return run_max


class Computed:
    """New CPU tensors of a layout that are computed in the type of arithmetic on theirs."""

    __slots__ = ("_to_compute", "_to_storage", "compute_dtype", "out")

    def __init__(self, out: Layout) -> None:
        self.out = out
        self.compute_dtype = compute_dtype = rules.computes_in(out.dtype)
        same = compute_dtype is out.dtype
        self._to_compute = None if same else host_conversion(out.dtype, compute_dtype)
        self._to_storage = None if same else host_conversion(compute_dtype, out.dtype)

    def new(self) -> tuple[Tensor, Any]:
        """A tensor, and the array to write, which is its own where the types are the same."""
        result = empty(self.out)
        return result, result._array if self._to_storage is None else np.empty(
            self.out.shape, self.compute_dtype.numpy
        )

    def widened(self, array: Any) -> Any:
        """An array as it is computed with."""
        if self._to_compute is None:
            return array
        result = np.empty(array.shape, self.compute_dtype.numpy)
        self._to_compute(result, array)
        return result

    def finish(self, result: Tensor, array: Any) -> None:
        """Give a tensor what was written."""
        if self._to_storage is not None:
            self._to_storage(result._writable, array)


# Recorded


def _mean_gradient(grad: Tensor, pooling: Pooling) -> Tensor:
    """The gradient of what means were taken of: gradients go back to the elements of the windows."""
    layout = grad._layout
    result: Tensor = layout.device_state.plans[pooling.backward, layout, None](grad, None)
    if modes.recording:
        pooling.formulas[1].record((result,), (grad,), (), (pooling,))
    return result


def _mean_second_gradient(grad: Tensor, pooling: Pooling) -> Tensor:
    """The gradient of that: means of gradients."""
    layout = grad._layout
    result: Tensor = layout.device_state.plans[pooling.forward, layout](grad)[0]
    pooling.formulas[0].record((result,), (grad,), (), (pooling,))
    return result


def _largest_gradient(grad: Tensor, positions: Tensor, pooling: Pooling) -> Tensor:
    """The gradient of what maxima were taken of: gradients go back to where these stood."""
    layout = grad._layout
    result: Tensor = layout.device_state.plans[pooling.backward, layout, positions._layout](grad, positions)
    if modes.recording:
        pooling.formulas[1].record((result,), (grad,), (positions,), (pooling,))
    return result


def _largest_second_gradient(grad: Tensor, positions: Tensor, pooling: Pooling) -> Tensor:
    """The gradient of that: gradients from where the maxima stood."""
    rank = pooling.rank
    result: Tensor = grad.flatten(-rank).gather(-1, positions.flatten(-rank)).view(positions.shape)
    return result


@cache
def _formulas(category: str, name: str) -> tuple[BackwardFormula, BackwardFormula]:
    """How a pooling is run backward, and how its gradient is."""
    if category == "avg":
        first, second = Derivative(_mean_gradient, needs=""), Derivative(_mean_second_gradient, needs="")
    else:
        first = Derivative(_largest_gradient, needs="positions")
        second = Derivative(_largest_second_gradient, needs="positions")
    return (
        BackwardFormula(f"{name}0", "x positions", [first]),
        BackwardFormula(f"{name}Backward0", "grad positions", [second]),
    )


# As users call them


def three(name: str, what: str, argument: Any, rank: int, fill: int, least: int) -> tuple[int, int, int]:
    """An option for depth, height and width, with ``fill`` for dimensions that there are not; raises if it does not fit."""
    values = (argument,) * rank if isinstance(argument, int) else tuple(argument)
    if len(values) == 1:
        values *= rank
    if len(values) != rank or not all(isinstance(each, int) for each in values):
        raise RuntimeError(
            f"{name}: {what} must either be a single int, or a tuple of {rank} ints, got {argument!r}"
        )
    if min(values) < least:
        raise RuntimeError(f"{name}: {what} should be at least {least}, but got {argument!r}")
    depth, height, width = (fill,) * (3 - rank) + tuple(as_int64(each, name, what) for each in values)
    return depth, height, width


def check_input(name: str, input: Layout, rank: int) -> None:
    """Raise if tensors of a layout cannot be pooled in ``rank`` dimensions."""
    shape = input.shape
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D input, but got shape {list(shape)}"
        )
    if 0 in shape[-rank - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected input's non-batch dimensions to have positive length, but got shape {list(shape)}"
        )
    if input.dtype.is_complex or input.dtype.name == "bool":
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype!r}')


def size_of(x: Layout, rank: int) -> tuple[int, int, int]:
    """Depth, height and width."""
    depth, height, width = (1,) * (3 - rank) + tuple(x.shape[-rank:])
    return depth, height, width


class Planned(NamedTuple):
    """A call for inputs of a layout and with some options."""

    run: Callable[[Tensor], tuple[Tensor, Tensor | None]]
    pooling: Pooling
    values: Callable[[Tensor], tuple[Tensor, Tensor | None]]


def planned_pooling(pooling: Pooling, x: Layout, *, formatted: bool) -> Planned:
    """How inputs of a layout are pooled; ``formatted``: the results have their memory format."""
    plans = x.device_state.plans

    # Most programs need one of the two: kernels are made with the first call.
    def with_positions(input: Tensor) -> tuple[Tensor, Tensor | None]:
        result: tuple[Tensor, Tensor | None] = plans[pooling.forward, x](input)
        return result

    @one_step
    def values_only(input: Tensor) -> tuple[Tensor, Tensor | None]:
        result: tuple[Tensor, Tensor | None] = plans[pooling.values, x](input)
        return result

    run = with_positions if pooling.category == "max" else plans[pooling.forward, x]
    values = values_only if pooling.category == "max" else run
    if formatted:
        run, values = in_format(run, suggested(x)), in_format(values, suggested(x))
    return Planned(run, pooling, values)


class _Regular:
    """``device_state.plans[operation, input, *options]``: windows of one size at steps of one size."""

    def __init__(self, category: str, rank: int) -> None:
        self.category = category
        self.rank = rank
        self.name = f"{category}_pool{rank}d"

    def plan(
        self,
        x: Layout,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Planned:
        """What pools tensors of a layout; raises if it or the options do not fit."""
        name, rank = self.name, self.rank
        check_input(name, x, rank)
        if divisor_override == 0:
            raise RuntimeError(f"{name}(): divisor must be not zero")
        kernel = three(name, "kernel_size", kernel_size, rank, 1, 1)
        empty_stride = stride is None or (not isinstance(stride, int) and not len(stride))
        steps = kernel if empty_stride else three(name, "stride", stride, rank, 1, 1)
        pads = three(name, "padding", padding, rank, 0, 0)
        dilations = three(name, "dilation", dilation, rank, 1, 1)
        if any(p > k // 2 for p, k in zip(pads, kernel, strict=True)):
            raise RuntimeError(
                f"{name}(): pad should be at most half of kernel size, but got padding={padding} and "
                f"kernel_size={kernel_size}"
            )
        windows = Windows(size_of(x, rank), kernel, steps, pads, dilations, bool(ceil_mode))
        if min(windows.out) < 1:
            raise RuntimeError(
                f"{name}(): Given input size: {list(x.shape[-rank:])}. Calculated output size: "
                f"{list(windows.out[3 - rank :])}. Output size is too small"
            )
        pooling = Pooling(
            self.category,
            rank,
            windows,
            tuple(x.shape[:-rank]),
            with_padding=count_include_pad,
            fixed=divisor_override or 0,
            # As in PyTorch, means of volumes do not keep it.
            keeps_format=len(x.shape) == rank + 2 and (rank == 2 or self.category == "max"),
        )
        return planned_pooling(pooling, x, formatted=pooling.keeps_format)


#: The gradient of the only input is asked for.
_ASKED = (True,)


def pooled(
    operation: Any, input: Tensor, *options: Any, indexed: bool = True
) -> tuple[Tensor, Tensor | None]:
    """The result, and the positions of maxima, which need not be there if not ``indexed``."""
    try:
        layout = input._layout
    except AttributeError:
        check_tensor(input, operation.name, "input")
        raise
    for each in options:
        if type(each) not in PLAIN:
            run, pooling, values = plan_for(operation, (layout,), options)
            break
    else:
        # The commonest options, without a call.
        run, pooling, values = layout.device_state.plans[operation, layout, *options]
    state = input._autograd
    if state is not None and state.requires_grad and modes.recording:
        result, positions = run(input)
        pooling.formulas[0].record((result,), (input,), (positions,), (pooling,), _ASKED)
        return result, positions
    largest: tuple[Tensor, Tensor | None] = run(input) if indexed else values(input)
    return largest


_MAX1D, _MAX2D, _MAX3D = (_Regular("max", rank) for rank in (1, 2, 3))
_AVG1D, _AVG2D, _AVG3D = (_Regular("avg", rank) for rank in (1, 2, 3))


@operation(namespace="nn.functional", method=False)
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest elements of windows of signals.

    Along each dimension the result has ``(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`` elements.
    A NaN in a window is its largest element. A gradient goes to the element that was the largest, the first of equal ones.

    Parameters
    ----------
    input
        ``(N, C, length)``, or one signal ``(C, length)``;
        of any dtype but bool and complex.
    kernel_size
        Size of a window: an integer.
    stride
        Steps from one window to the next: an integer; the size of a window by default.
    padding
        Elements at both ends, which are never the largest: an integer, at most half a window.
    dilation
        Steps from one element of a window to the next: an integer.
    ceil_mode
        Whether a last window may be cut off by the end; the size above is rounded up then.
    return_indices
        Whether the positions of the maxima are given too, as :func:`max_unpool1d` takes them.

    Returns
    -------
    Tensor, or tuple of two
        The maxima ``(N, C, ...)``, and with ``return_indices`` their row-major positions in the signal, int64.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 2 nor 3 dimensions, or an empty one other than the first; if an option is not one integer,
        or has one that makes no sense; if the padding is more than half a window; if the result would be empty.

    Examples
    --------
    >>> nn.functional.max_pool1d(tensor.tensor([[1.0, 4.0, 2.0, 3.0]]), 2, return_indices=True)
    (tensor([[4., 3.]]), tensor([[1, 3]]))
    """
    result = pooled(_MAX1D, input, kernel_size, stride, padding, dilation, ceil_mode, indexed=return_indices)
    return result if return_indices else result[0]


@operation(namespace="nn.functional", method=False)
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest elements of windows of images.

    Along each dimension the result has ``(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`` elements.
    A NaN in a window is its largest element. A gradient goes to the element that was the largest, the first of equal ones.

    Parameters
    ----------
    input
        ``(N, C, height, width)``, or one image ``(C, height, width)``;
        of any dtype but bool and complex.
    kernel_size
        Size of a window: an integer, or 2 of them, one for each of height and width.
    stride
        Steps from one window to the next: an integer, or 2 of them; the size of a window by default.
    padding
        Elements at both ends, which are never the largest: an integer, or 2 of them, at most half a window.
    dilation
        Steps from one element of a window to the next: an integer, or 2 of them.
    ceil_mode
        Whether a last window may be cut off by the end; the size above is rounded up then.
    return_indices
        Whether the positions of the maxima are given too, as :func:`max_unpool2d` takes them.

    Returns
    -------
    Tensor, or tuple of two
        The maxima ``(N, C, ...)``, and with ``return_indices`` their row-major positions in each channel's image, int64.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 3 nor 4 dimensions, or an empty one other than the first; if an option has
        neither one number nor 2, or has one that makes no sense; if the padding is more than half a window; if the result would be empty.

    Examples
    --------
    >>> nn.functional.max_pool2d(tensor.randn(20, 16, 50, 32), 3, stride=2).shape
    tensor.Size([20, 16, 24, 15])
    """
    result = pooled(_MAX2D, input, kernel_size, stride, padding, dilation, ceil_mode, indexed=return_indices)
    return result if return_indices else result[0]


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest elements of windows of volumes.

    Along each dimension the result has ``(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`` elements.
    A NaN in a window is its largest element. A gradient goes to the element that was the largest, the first of equal ones.

    Parameters
    ----------
    input
        ``(N, C, depth, height, width)``, or one volume ``(C, depth, height, width)``;
        of any dtype but bool and complex.
    kernel_size
        Size of a window: an integer, or 3 of them, one for each of depth, height and width.
    stride
        Steps from one window to the next: an integer, or 3 of them; the size of a window by default.
    padding
        Elements at both ends, which are never the largest: an integer, or 3 of them, at most half a window.
    dilation
        Steps from one element of a window to the next: an integer, or 3 of them.
    ceil_mode
        Whether a last window may be cut off by the end; the size above is rounded up then.
    return_indices
        Whether the positions of the maxima are given too, as :func:`max_unpool3d` takes them.

    Returns
    -------
    Tensor, or tuple of two
        The maxima ``(N, C, ...)``, and with ``return_indices`` their row-major positions in each channel's volume, int64.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 4 nor 5 dimensions, or an empty one other than the first; if an option has
        neither one number nor 3, or has one that makes no sense; if the padding is more than half a window; if the result would be empty.

    Examples
    --------
    >>> nn.functional.max_pool3d(tensor.randn(2, 4, 8, 8, 8), 2).shape
    tensor.Size([2, 4, 4, 4, 4])
    """
    result = pooled(_MAX3D, input, kernel_size, stride, padding, dilation, ceil_mode, indexed=return_indices)
    return result if return_indices else result[0]


@operation(namespace="nn.functional", method=False)
def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Means over windows of signals.

    Along each dimension the result has ``(size + 2 * padding - kernel_size) // stride + 1`` elements.

    Parameters
    ----------
    input
        ``(N, C, length)``, or one signal ``(C, length)``;
        of any dtype but bool and complex.
    kernel_size
        Size of a window: an integer.
    stride
        Steps from one window to the next: an integer; the size of a window by default.
    padding
        Zeros at both ends: an integer, at most half a window.
    ceil_mode
        Whether a last window may be cut off by the end; the size above is rounded up then.
    count_include_pad
        Whether the padding counts as elements. What is beyond it, with ``ceil_mode``, never does.

    Returns
    -------
    Tensor
        ``(N, C, ...)``, of the dtype of ``input``. Half precision is added up in float32; means of integers are rounded
        towards zero.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 2 nor 3 dimensions, or an empty one other than the first; if an option is not one integer,
        or has one that makes no sense; if the padding is more than half a window; if the result would be empty.

    Examples
    --------
    >>> nn.functional.avg_pool1d(tensor.tensor([[1.0, 3.0, 5.0, 7.0]]), 2)
    tensor([[2., 6.]])
    """
    return pooled(_AVG1D, input, kernel_size, stride, padding, 1, ceil_mode, count_include_pad)[0]


@operation(namespace="nn.functional", method=False)
def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Means over windows of images.

    Along each dimension the result has ``(size + 2 * padding - kernel_size) // stride + 1`` elements.

    Parameters
    ----------
    input
        ``(N, C, height, width)``, or one image ``(C, height, width)``;
        of any dtype but bool and complex.
    kernel_size
        Size of a window: an integer, or 2 of them, one for each of height and width.
    stride
        Steps from one window to the next: an integer, or 2 of them; the size of a window by default.
    padding
        Zeros at both ends: an integer, or 2 of them, at most half a window.
    ceil_mode
        Whether a last window may be cut off by the end; the size above is rounded up then.
    count_include_pad
        Whether the padding counts as elements. What is beyond it, with ``ceil_mode``, never does.
    divisor_override
        What sums are divided by, in place of the number of elements.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Returns
    -------
    Tensor
        ``(N, C, ...)``, of the dtype of ``input``. Half precision is added up in float32; means of integers are rounded
        towards zero.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 3 nor 4 dimensions, or an empty one other than the first; if an option has
        neither one number nor 2, or has one that makes no sense; if the padding is more than half a window; if the result would be empty; for a divisor of 0.

    Examples
    --------
    >>> nn.functional.avg_pool2d(tensor.randn(20, 16, 50, 32), (3, 2), stride=2).shape
    tensor.Size([20, 16, 24, 16])
    """
    result = pooled(
        _AVG2D, input, kernel_size, stride, padding, 1, ceil_mode, count_include_pad, divisor_override
    )[0]
    return result if out is None else into_out(result, out, "avg_pool2d")


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Means over windows of volumes.

    Along each dimension the result has ``(size + 2 * padding - kernel_size) // stride + 1`` elements.

    Parameters
    ----------
    input
        ``(N, C, depth, height, width)``, or one volume ``(C, depth, height, width)``;
        of any dtype but bool and complex.
    kernel_size
        Size of a window: an integer, or 3 of them, one for each of depth, height and width.
    stride
        Steps from one window to the next: an integer, or 3 of them; the size of a window by default.
    padding
        Zeros at both ends: an integer, or 3 of them, at most half a window.
    ceil_mode
        Whether a last window may be cut off by the end; the size above is rounded up then.
    count_include_pad
        Whether the padding counts as elements. What is beyond it, with ``ceil_mode``, never does.
    divisor_override
        What sums are divided by, in place of the number of elements.
    out : Tensor, optional
        Tensor of the result's dtype that the result is written to, resized to its shape.

    Returns
    -------
    Tensor
        ``(N, C, ...)``, of the dtype of ``input``. Half precision is added up in float32; means of integers are rounded
        towards zero.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    NotImplementedError
        For bool and complex tensors.
    RuntimeError
        If ``input`` has neither 4 nor 5 dimensions, or an empty one other than the first; if an option has
        neither one number nor 3, or has one that makes no sense; if the padding is more than half a window; if the result would be empty; for a divisor of 0.

    Examples
    --------
    >>> nn.functional.avg_pool3d(tensor.randn(2, 4, 8, 8, 8), 2).shape
    tensor.Size([2, 4, 4, 4, 4])
    """
    result = pooled(
        _AVG3D, input, kernel_size, stride, padding, 1, ceil_mode, count_include_pad, divisor_override
    )[0]
    return result if out is None else into_out(result, out, "avg_pool3d")
