"""Maxima and means over windows of signals, images and volumes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import pooling as kernels
from nvrtc_kernels.convolution import Windows
from nvrtc_kernels.dtypes import int64
from tensor.autograd.recording.node import Node, attach
from tensor.autograd.recording.saved import freed, restore, save
from tensor.core.base import check_tensor, empty, wrap
from tensor.core.copy_plans import host_conversion
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import modes
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.shapes import views

from . import pooling_on_host as host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nvrtc_kernels.pooling import Pool
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


class _Pooling:
    """How a pooling goes: its windows, and how means are divided."""

    __slots__ = ("fixed", "kind", "pool", "rank", "with_padding")

    def __init__(
        self, kind: str, rank: int, pool: Pool, *, with_padding: bool = True, fixed: int = 0
    ) -> None:
        self.kind = kind
        self.rank = rank
        self.pool = pool
        self.with_padding = with_padding
        self.fixed = fixed

    @property
    def title(self) -> str:
        """Name of the node, as PyTorch shows it."""
        adaptive = "" if isinstance(self.pool, Windows) else "Adaptive"
        what = "Max" if self.kind == "max" else "Avg"
        indices = "WithIndices" if self.kind == "max" and not adaptive else ""
        return f"{adaptive}{what}Pool{max(self.rank, 2)}D{indices}Backward0"

    def sizes(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Of the image and of the result."""
        return (self.pool.size, self.pool.out) if isinstance(self.pool, Windows) else self.pool


def _kernel(place: Any, made: Layout, pooling: _Pooling, step: str, planes: int) -> Any:
    key = (
        "pooling",
        step,
        pooling.kind,
        pooling.pool,
        pooling.with_padding,
        pooling.fixed,
        planes,
        made.dtype,
    )
    run = place.plans.get(key)
    if run is None:
        if pooling.kind == "avg":
            run = kernels.plan_avg(
                place.native,
                pooling.pool,
                planes,
                made.dtype,
                with_padding=pooling.with_padding,
                fixed=pooling.fixed,
                backward=step == "backward",
            )
        else:
            plan = kernels.plan_max if step == "forward" else kernels.plan_max_backward
            run = plan(place.native, pooling.pool, planes, made.dtype)
        place.plans[key] = run
    return run


def _wide(x: Tensor, planes: int, size: Sequence[int]) -> NDArray[Any]:
    """Planes as arrays of the type to compute in."""
    kind = x._layout.dtype
    wide = rules.computes_in(kind)
    array = x._host.reshape(planes, *size)
    if wide is kind:
        return array
    made = np.empty(array.shape, wide.numpy)
    host_conversion(kind, wide)(made, array)
    return made


def _as_tensor(array: NDArray[Any], layout: Layout) -> Tensor:
    """A tensor of an array that nobody else has."""
    if rules.computes_in(layout.dtype) is layout.dtype and array.flags.c_contiguous:
        return wrap(array.reshape(layout.shape), layout)
    held = np.empty(array.shape, layout.dtype.numpy)
    host_conversion(rules.computes_in(layout.dtype), layout.dtype)(held, array)
    return wrap(held.reshape(layout.shape), layout)


def _forward(x: Tensor, pooling: _Pooling) -> tuple[Tensor, Tensor | None]:
    """The result for a contiguous input with three spatial dimensions, and the places of maxima."""
    layout = x._layout
    size, out_size = pooling.sizes()
    planes = prod(layout.shape[:-3])
    out = contiguous[(*layout.shape[:-3], *out_size), layout.dtype, layout.place]
    where = contiguous[out.shape, int64, layout.place]
    place: Any = layout.place
    if place.is_cuda:
        made = empty(out)
        places = empty(where) if pooling.kind == "max" else None
        if out.numel:
            addresses = [each._address for each in (made, places, x) if each is not None]
            _kernel(place, out, pooling, "forward", planes)(place.local.stream.handle, *addresses)
        return made, places
    array = _wide(x, planes, size)
    with np.errstate(all="ignore"):
        if pooling.kind == "avg":
            return _as_tensor(host.mean(array, pooling.pool, pooling.with_padding, pooling.fixed), out), None
        values, at = host.largest(array, pooling.pool)
    return _as_tensor(values, out), wrap(at.reshape(where.shape), where)


def _backward(grad: Tensor, places: Tensor | None, pooling: _Pooling) -> Tensor:
    layout = grad._layout
    size, out_size = pooling.sizes()
    planes = prod(layout.shape[:-3])
    out = contiguous[(*layout.shape[:-3], *size), layout.dtype, layout.place]
    place: Any = layout.place
    if place.is_cuda:
        made = empty(out)
        if out.numel:
            addresses = [each._address for each in (made, grad, places) if each is not None]
            _kernel(place, out, pooling, "backward", planes)(place.local.stream.handle, *addresses)
        return made
    array = _wide(grad, planes, out_size)
    if places is None:
        return _as_tensor(host.mean_gradient(array, pooling.pool, pooling.with_padding, pooling.fixed), out)
    return _as_tensor(host.largest_gradient(array, places._host, size), out)


def _lifted(x: Tensor, rank: int) -> Tensor:
    """With three spatial dimensions."""
    for _ in range(3 - rank):
        x = views.unsqueeze(x, -rank - 1)
    return x


def _finished(x: Tensor | None, rank: int) -> Any:
    """With the dimensions that users know, and no view of another tensor."""
    if x is not None:
        for _ in range(3 - rank):
            x = views.squeeze(x, -rank - 1)
        x._base = None
    return x


class PoolNode(Node):
    """A recorded pooling, or its derivative."""

    __slots__ = ("pooling", "step")

    pooling: _Pooling
    step: str

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return self.pooling.title if self.step == "forward" else f"{self.pooling.title[:-1]}Backward0"

    def backward(self, *grads: Any) -> Any:
        """Gradients go back to the elements of the windows, and gradients of these come from there."""
        if self.saved is None:
            raise freed(self)
        places = restore(self.saved[0], self) if self.saved else None
        if self.step == "forward":
            return _recorded_backward(grads[0], places, self.pooling)
        if places is None:
            return _recorded(grads[0], self.pooling)[0]
        rank = self.pooling.rank
        return grads[0].flatten(-rank).gather(-1, places.flatten(-rank)).view(places.shape)


def _recorded(x: Tensor, pooling: _Pooling) -> tuple[Tensor, Tensor | None]:
    recording, modes.recording = modes.recording, False
    try:
        found = _forward(_lifted(x.detach().contiguous(), pooling.rank), pooling)
        result, places = (_finished(each, pooling.rank) for each in found)
    finally:
        modes.recording = recording
    if recording and x.requires_grad:
        _attach(x, result, places, pooling, "forward")
    return result, places


def _recorded_backward(grad: Tensor, places: Tensor | None, pooling: _Pooling) -> Tensor:
    recording, modes.recording = modes.recording, False
    try:
        lifted = (
            _lifted(each, pooling.rank) for each in (grad.detach().contiguous(), places) if each is not None
        )
        result = _finished(_backward(next(lifted), next(lifted, None), pooling), pooling.rank)
    finally:
        modes.recording = recording
    if recording and grad.requires_grad:
        _attach(grad, result, places, pooling, "backward")
    return result


def _attach(x: Tensor, result: Tensor, places: Tensor | None, pooling: _Pooling, step: str) -> None:
    node = PoolNode.__new__(PoolNode)
    node.pooling, node.step = pooling, step
    node.saved = () if places is None else (save(places),)
    attach(node, (x,), (result,))


# As users call them


def _three(name: str, what: str, given: Any, rank: int, fill: int, least: int) -> tuple[int, int, int]:
    values = (given,) * rank if isinstance(given, int) else tuple(given)
    if len(values) == 1:
        values *= rank
    if len(values) != rank or not all(isinstance(each, int) for each in values):
        raise RuntimeError(
            f"{name}: {what} must either be a single int, or a tuple of {rank} ints, got {given!r}"
        )
    if min(values) < least:
        raise RuntimeError(f"{name}: {what} should be at least {least}, but got {given!r}")
    depth, height, width = (fill,) * (3 - rank) + values
    return depth, height, width


def _check(name: str, input: Any, rank: int) -> None:
    check_tensor(input, name, "input")
    shape = input._layout.shape
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D input, but got shape {list(shape)}"
        )
    if 0 in shape[-rank - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected input's non-batch dimensions to have positive length, but got shape {list(shape)}"
        )
    if input._layout.dtype.is_complex or input._layout.dtype.name == "bool":
        raise NotImplementedError(f'"{name}" not implemented for {input._layout.dtype!r}')


def _size(x: Tensor, rank: int) -> tuple[int, int, int]:
    """Depth, height and width."""
    depth, height, width = (1,) * (3 - rank) + tuple(x._layout.shape[-rank:])
    return depth, height, width


def _windows(
    name: str,
    x: Tensor,
    rank: int,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> Windows:
    kernel = _three(name, "kernel_size", kernel_size, rank, 1, 1)
    empty_stride = stride is None or (not isinstance(stride, int) and not len(stride))
    steps = kernel if empty_stride else _three(name, "stride", stride, rank, 1, 1)
    pads = _three(name, "padding", padding, rank, 0, 0)
    dilations = _three(name, "dilation", dilation, rank, 1, 1)
    if any(p > k // 2 for p, k in zip(pads, kernel, strict=True)):
        raise RuntimeError(
            f"{name}(): pad should be at most half of kernel size, but got padding={padding} and "
            f"kernel_size={kernel_size}"
        )
    windows = Windows(_size(x, rank), kernel, steps, pads, dilations, bool(ceil_mode))
    if min(windows.out) < 1:
        raise RuntimeError(
            f"{name}(): Given input size: {list(x._layout.shape[-rank:])}. Calculated output size: "
            f"{list(windows.out[3 - rank :])}. Output size is too small"
        )
    return windows


def _max_pool(
    rank: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    name = f"max_pool{rank}d"
    _check(name, input, rank)
    windows = _windows(name, input, rank, kernel_size, stride, padding, dilation, ceil_mode)
    found, places = _recorded(input, _Pooling("max", rank, windows))
    return (found, places) if return_indices else found


def _avg_pool(
    rank: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    name = f"avg_pool{rank}d"
    _check(name, input, rank)
    if divisor_override == 0:
        raise RuntimeError(f"{name}(): divisor must be not zero")
    windows = _windows(name, input, rank, kernel_size, stride, padding, 1, ceil_mode)
    pooling = _Pooling("avg", rank, windows, with_padding=count_include_pad, fixed=divisor_override or 0)
    return _recorded(input, pooling)[0]


def _adaptive(kind: str, rank: int, input: Tensor, output_size: Any) -> tuple[Tensor, Tensor | None]:
    name = f"adaptive_{kind}_pool{rank}d"
    _check(name, input, rank)
    given = (
        (output_size,) * rank if isinstance(output_size, int) or output_size is None else tuple(output_size)
    )
    if len(given) != rank:
        raise RuntimeError(f"{name}(): output_size must have {rank} numbers, got {output_size!r}")
    sizes = input._layout.shape[-rank:]
    wanted = [size if each is None else each for each, size in zip(given, sizes, strict=True)]
    out = _three(name, "output_size", tuple(wanted), rank, 1, 0)
    return _recorded(input, _Pooling(kind, rank, (_size(input, rank), out)))


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

    Parameters
    ----------
    input
        ``(items, channels, length)``, or one item.
    stride
        Steps between windows; the size of a window by default.
    padding
        At both ends, never a maximum; at most half a window.
    ceil_mode
        Whether a last window may be cut off by the end.
    return_indices
        Whether the places of the maxima in their plane are wanted too.

    Raises
    ------
    RuntimeError
        If shapes do not fit.
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


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
    """Largest elements of windows of images; see :func:`max_pool1d`."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


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
    """Largest elements of windows of volumes; see :func:`max_pool1d`."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@operation(namespace="nn.functional", method=False)
def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Means over windows of signals; see :func:`max_pool1d`.

    Parameters
    ----------
    count_include_pad
        Whether padding counts as elements that are 0.
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@operation(namespace="nn.functional", method=False)
def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Means over windows of images; see :func:`avg_pool1d`. ``divisor_override`` is what sums are divided by."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Means over windows of volumes; see :func:`avg_pool2d`."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@operation(namespace="nn.functional", method=False)
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """As many maxima of signals as wanted, over windows as equal as can be."""
    values, places = _adaptive("max", 1, input, output_size)
    return (values, places) if return_indices else values


@operation(namespace="nn.functional", method=False)
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """As many maxima of images as wanted; ``None`` keeps a dimension."""
    values, places = _adaptive("max", 2, input, output_size)
    return (values, places) if return_indices else values


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """As many maxima of volumes as wanted; ``None`` keeps a dimension."""
    values, places = _adaptive("max", 3, input, output_size)
    return (values, places) if return_indices else values


@operation(namespace="nn.functional", method=False)
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """As many means of signals as wanted, over windows as equal as can be."""
    return _adaptive("avg", 1, input, output_size)[0]


@operation(namespace="nn.functional", method=False)
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """As many means of images as wanted; ``None`` keeps a dimension."""
    return _adaptive("avg", 2, input, output_size)[0]


@operation(namespace="nn.functional", method=False, autocast=Autocast(cpu=FLOAT32))
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """As many means of volumes as wanted; ``None`` keeps a dimension."""
    return _adaptive("avg", 3, input, output_size)[0]
