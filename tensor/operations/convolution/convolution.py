"""Convolutions in one, two and three dimensions, and transposed ones.

Three operations are each other's derivatives: the convolution, the gradient of its input (which is the transposed
convolution) and the gradient of its weight. On the CPU :mod:`.convolution_on_host` has them. On devices each is a matrix product of the weight, or the result's gradient, with
the windows of the image as columns. The columns of as many items are made at a time as fit into a workspace of
bounded size; where windows are single elements the image itself is the matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nvrtc_kernels import convolution as kernels
from tensor.autograd.recording.node import Node, attach
from tensor.autograd.recording.saved import freed, restore, save
from tensor.core.arguments import two_devices
from tensor.core.base import TensorBase, empty
from tensor.core.copy_plans import host_conversion
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import modes
from tensor.operations.autocast import LOWER, Autocast
from tensor.operations.definition import operation
from tensor.operations.normalization.row_normalization import wide_array
from tensor.operations.products.matrix_products import CONVOLUTION_PRODUCT
from tensor.operations.resampling.padding import constant_pad
from tensor.operations.shapes import reshaping, views
from tensor.operations.shapes import slices as parts

from . import convolution_on_host as on_host
from .columns import fold_into, unfold_into

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor

#: Bytes of columns at a time.
WORKSPACE = 64 << 20
#: Positions of an image from which on every item has a matrix product of its own.
_LONG = 128

Windows = kernels.Windows


class Geometry(NamedTuple):
    """Shapes of a convolution with three spatial dimensions."""

    windows: Windows
    items: int
    channels: int
    filters: int
    groups: int

    @property
    def image(self) -> tuple[int, ...]:
        """Shape of the input."""
        return (self.items, self.channels, *self.windows.size)

    @property
    def weight(self) -> tuple[int, ...]:
        """Shape of the weight."""
        return (self.filters, self.channels // self.groups, *self.windows.kernel)

    @property
    def result(self) -> tuple[int, ...]:
        """Shape of the output."""
        return (self.items, self.filters, *self.windows.out)

    @property
    def depthwise(self) -> bool:
        """Whether every channel has filters of its own."""
        return self.groups == self.channels > 1

    @property
    def plain(self) -> bool:
        """Whether the windows are single elements, and the image is the matrix."""
        w = self.windows
        ones = (1, 1, 1)
        return w.kernel == ones and w.stride == ones and w.padding == (0, 0, 0)


def _made(like: Tensor, shape: Sequence[int]) -> Tensor:
    return empty(contiguous[tuple(shape), like._layout.dtype, like._layout.place])


def _multiply(c: Tensor, a: Tensor, b: Tensor, beta: int = 0) -> None:
    """``c = a @ b + beta * c`` for batches of matrices."""
    c._layout.place.plans[CONVOLUTION_PRODUCT, c._layout, a._layout, b._layout](c, a, b, 1, beta)


def _batch(x: Tensor) -> Tensor:
    return views.unsqueeze(x, 0)


def _spread(x: Tensor, count: int) -> Tensor:
    """A matrix as a batch of ``count`` equal ones."""
    return views.expand(_batch(x), (count, *x._layout.shape))


class _Chunks:
    """How the work is cut: items, and positions of one item, whose columns fit into the workspace."""

    def __init__(self, geometry: Geometry, itemsize: int) -> None:
        rows = geometry.channels // geometry.groups * geometry.windows.taps
        positions = geometry.windows.positions
        room = max(WORKSPACE // max(rows * itemsize, 1), 1)
        self.items = max(min(room // max(positions, 1), geometry.items), 1)
        self.positions = positions if room >= positions else room
        self.each = geometry.windows.positions >= _LONG

    def ranges(self, geometry: Geometry) -> Any:
        """``(first item, items, first position, positions)`` of each chunk."""
        total = geometry.windows.positions
        for item in range(0, geometry.items, self.items):
            count = min(self.items, geometry.items - item)
            for at in range(0, total, self.positions):
                yield item, count, at, min(self.positions, total - at)


def _columns(
    x: Tensor, geometry: Geometry, group: int, chunk: tuple[int, int, int, int], each: bool
) -> Tensor:
    """Windows of a chunk: ``(items, rows, positions)``, or ``(rows, items, positions)`` unless ``each``."""
    item, items, at, count = chunk
    width = geometry.channels // geometry.groups
    image = parts.narrow(parts.narrow(x, 0, item, items), 1, group * width, width)
    if geometry.plain:
        matrix = reshaping.flatten(image, 2)
        matrix = parts.narrow(matrix, 2, at, count)
        return matrix if each else views.transpose(matrix, 0, 1).contiguous()
    rows = width * geometry.windows.taps
    made = _made(x, (items, rows, count) if each else (rows, items, count))
    unfold_into(made, image, geometry.windows, at, each=each)
    return made


def forward(x: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    """The convolution of contiguous tensors."""
    out = _made(x, geometry.result)
    if not out._layout.numel:
        return out
    if weight._layout.numel and not x._layout.place.is_cuda:
        return _with_numpy(on_host.forward, out, x, weight, geometry)
    if geometry.depthwise and x._layout.place.is_cuda:
        return _depthwise("forward", out, x, weight, geometry)
    flat = reshaping.flatten(out, 2)
    filters = geometry.filters // geometry.groups
    matrix = views.view(weight, (geometry.filters, -1)) if weight._layout.numel else None
    if matrix is None:
        return out.zero_()
    chunks = _Chunks(geometry, x._layout.itemsize)
    for chunk in chunks.ranges(geometry):
        item, items, at, count = chunk
        for group in range(geometry.groups):
            taken = parts.narrow(matrix, 0, group * filters, filters)
            columns = _columns(x, geometry, group, chunk, chunks.each)
            target = parts.narrow(parts.narrow(flat, 0, item, items), 1, group * filters, filters)
            target = parts.narrow(target, 2, at, count)
            if chunks.each:
                _multiply(target, _spread(taken, items), columns)
            else:
                found = _made(x, (1, filters, items * count))
                _multiply(found, _batch(taken), _batch(reshaping.flatten(columns, 1)))
                target.copy_(views.transpose(views.view(found, (filters, items, count)), 0, 1))
    return out


def input_gradient(grad: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    """Gradient of the input from that of the result: the transposed convolution."""
    out = _made(grad, geometry.image)
    if not out._layout.numel:
        return out
    if not grad._layout.numel or not weight._layout.numel:
        return out.zero_()
    if not grad._layout.place.is_cuda:
        return _with_numpy(on_host.input_gradient, out, grad, weight, geometry)
    if geometry.depthwise:
        return _depthwise("input", out, grad, weight, geometry)
    flat = reshaping.flatten(grad, 2)
    filters, width = geometry.filters // geometry.groups, geometry.channels // geometry.groups
    taps, positions = geometry.windows.taps, geometry.windows.positions
    room = max(WORKSPACE // max(taps * positions * grad._layout.itemsize, 1), 1)
    # As many channels as fit, and as many items of all channels.
    channels = min(width, room)
    items = max(min(room // width, geometry.items), 1)
    for item in range(0, geometry.items, items):
        count = min(items, geometry.items - item)
        for group in range(geometry.groups):
            given = parts.narrow(parts.narrow(flat, 0, item, count), 1, group * filters, filters)
            for channel in range(0, width, channels):
                some = min(channels, width - channel)
                taken = parts.narrow(parts.narrow(weight, 0, group * filters, filters), 1, channel, some)
                matrix = views.transpose(taken.reshape(filters, some * taps), 0, 1)
                target = parts.narrow(parts.narrow(out, 0, item, count), 1, group * width + channel, some)
                if geometry.plain:
                    _multiply(reshaping.flatten(target, 2), _spread(matrix, count), given)
                    continue
                columns = _made(grad, (count, some * taps, positions))
                _multiply(columns, _spread(matrix, count), given)
                fold_into(target, columns, geometry.windows)
    return out


def weight_gradient(x: Tensor, grad: Tensor, geometry: Geometry) -> Tensor:
    """Gradient of the weight from the input and the gradient of the result."""
    out = _made(x, geometry.weight)
    if not out._layout.numel:
        return out
    if not x._layout.numel or not grad._layout.numel:
        return out.zero_()
    if not x._layout.place.is_cuda:
        return _with_numpy(on_host.weight_gradient, out, x, grad, geometry)
    if geometry.depthwise:
        return _depthwise("weight", out, x, grad, geometry)
    filters = geometry.filters // geometry.groups
    matrix = views.view(out, (geometry.filters, -1))
    flat = reshaping.flatten(grad, 2)
    chunks = _Chunks(geometry, x._layout.itemsize)
    for number, chunk in enumerate(chunks.ranges(geometry)):
        item, items, at, count = chunk
        for group in range(geometry.groups):
            target = _batch(parts.narrow(matrix, 0, group * filters, filters))
            columns = _columns(x, geometry, group, chunk, each=False)
            given = parts.narrow(parts.narrow(flat, 0, item, items), 1, group * filters, filters)
            # All items in one product, which adds them up.
            given = views.transpose(parts.narrow(given, 2, at, count), 0, 1).reshape(filters, items * count)
            turned = views.transpose(reshaping.flatten(columns, 1), 0, 1)
            _multiply(target, _batch(given), _batch(turned), int(number > 0))
    return out


def _with_numpy(
    run: Callable[..., None], out: Tensor, first: Tensor, second: Tensor, geometry: Geometry
) -> Tensor:
    kind = out._layout.dtype
    wide = rules.computes_in(kind)
    made = out._writable if wide is kind else np.empty(out._layout.shape, wide.numpy)
    with np.errstate(all="ignore"):
        run(wide_array(first), wide_array(second), geometry, made)
    if wide is not kind:
        host_conversion(wide, kind)(out._writable, made)
    return out


def _depthwise(part: str, out: Tensor, first: Tensor, second: Tensor, geometry: Geometry) -> Tensor:
    place: Any = out._layout.place
    key = ("depthwise", part, geometry, out._layout.dtype)
    run = place.plans.get(key)
    if run is None:
        run = place.plans[key] = kernels.plan_depthwise(
            place.native,
            part,
            geometry.windows,
            geometry.items,
            geometry.channels,
            geometry.filters // geometry.channels,
            out._layout.dtype,
        )
    run(place.local.stream.handle, out._address, first._address, second._address)
    return out


# Recorded

_PARTS = {"forward": forward, "input": input_gradient, "weight": weight_gradient}


class ConvolutionNode(Node):
    """One of the three operations, recorded."""

    __slots__ = ("geometry", "part")

    geometry: Geometry
    part: str

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "ConvolutionBackward0" if self.part == "forward" else "ConvolutionBackwardBackward0"

    def backward(self, *grads: Any) -> Any:
        """Gradients of both operands, by the other two operations."""
        if self.saved is None:
            raise freed(self)
        first, second = (None if entry is None else _conjugate(restore(entry, self)) for entry in self.saved)
        grad, geometry = grads[0], self.geometry
        mine: list[Any] = [None, None]
        # Which operation makes the gradient of each operand, and of what.
        if self.next[0] is not None:
            mine[0] = {
                "forward": lambda: _recorded("input", grad, second, geometry),
                "input": lambda: _recorded("forward", grad, second, geometry),
                "weight": lambda: _recorded("input", second, grad, geometry),
            }[self.part]()
        if self.next[1] is not None:
            mine[1] = {
                "forward": lambda: _recorded("weight", first, grad, geometry),
                "input": lambda: _recorded("weight", grad, first, geometry),
                "weight": lambda: _recorded("forward", first, grad, geometry),
            }[self.part]()
        return tuple(mine)


def _conjugate(x: Tensor) -> Tensor:
    return x.conj() if x._layout.dtype.is_complex else x


def _recorded(part: str, first: Tensor, second: Tensor, geometry: Geometry) -> Tensor:
    """Carry an operation out, and put it into the graph."""
    recording, modes.recording = modes.recording, False
    try:
        result = _PARTS[part](first.detach().contiguous(), second.detach().contiguous(), geometry)
    finally:
        modes.recording = recording
    if recording and (first.requires_grad or second.requires_grad):
        node = ConvolutionNode.__new__(ConvolutionNode)
        node.part, node.geometry = part, geometry
        node.saved = (
            save(first) if second.requires_grad else None,
            save(second) if first.requires_grad else None,
        )
        attach(node, (first, second), (result,))
    return result


# As users call them


def _three(name: str, what: str, given: Any, rank: int, fill: int) -> tuple[int, int, int]:
    if isinstance(given, int):
        given = (given,) * rank
    values = tuple(int(x) for x in given)
    if len(values) == 1:
        values *= rank
    if len(values) != rank:
        raise RuntimeError(
            f"{name}(): expected {what} to be a single integer or {rank} of them, got {given!r}"
        )
    depth, height, width = (fill,) * (3 - rank) + values
    return depth, height, width


def _checked(
    name: str, rank: int, input: Any, weight: Any, bias: Any, groups: int, *, transposed: bool
) -> None:
    for what, x in (("input", input), ("weight", weight), *([("bias", bias)] if bias is not None else [])):
        if not isinstance(x, TensorBase):
            raise TypeError(f"{name}(): argument '{what}' must be Tensor, not {type(x).__name__}")
        if x._layout.place is not input._layout.place:
            raise two_devices(name, input._layout.device, x._layout.device)
        if x._layout.dtype is not input._layout.dtype:
            raise RuntimeError(
                f"{name}(): Input type ({input._layout.dtype!r}) and {what} type ({x._layout.dtype!r}) should be the same"
            )
    shape, filters = tuple(input._layout.shape), tuple(weight._layout.shape)
    if len(filters) != rank + 2:
        raise RuntimeError(
            f"{name}(): expected {rank + 2}D weight, but got {len(filters)}D weight of size {list(filters)}"
        )
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(shape)}"
        )
    if groups <= 0:
        raise RuntimeError(f"{name}(): non-positive groups is not supported, got {groups}")
    channels = shape[-rank - 1]
    wanted = filters[0] if transposed else filters[1] * groups
    if channels != wanted:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(filters)}, expected input{list(shape)} to have {wanted} "
            f"channels, but got {channels} channels instead"
        )
    if filters[0] % groups or (not transposed and filters[0] < groups):
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size "
            f"{list(filters)} instead"
        )
    made = filters[1] * groups if transposed else filters[0]
    if bias is not None and tuple(bias._layout.shape) != (made,):
        raise RuntimeError(
            f"Given weight of size {list(filters)}, expected bias to be 1-dimensional with {made} elements, but got bias "
            f"of size {list(bias._layout.shape)} instead"
        )


def _lifted(x: Tensor, rank: int) -> Tensor:
    """With three spatial dimensions."""
    for _ in range(3 - rank):
        x = views.unsqueeze(x, 2)
    return x


def _finished(result: Tensor, bias: Tensor | None, rank: int, batched: bool) -> Tensor:
    for _ in range(3 - rank):
        result = views.squeeze(result, 2)
    if bias is not None:
        result = result + views.view(bias, (-1, *[1] * rank))
    return result if batched else views.squeeze(result, 0)


def convolution(
    name: str,
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    """Convolution of an input ``(items, channels, *spatial)``, or of one item."""
    _checked(name, rank, input, weight, bias, groups, transposed=False)
    strides = _three(name, "stride", stride, rank, 1)
    dilations = _three(name, "dilation", dilation, rank, 1)
    if min(strides) <= 0 or min(dilations) <= 0:
        raise RuntimeError(
            f"{name}(): non-positive stride or dilation is not supported, got {stride}, {dilation}"
        )
    batched = len(input._layout.shape) == rank + 2
    x = _lifted(input if batched else views.unsqueeze(input, 0), rank)
    w = _lifted(weight, rank)
    kernel = w._layout.shape[2:]
    if isinstance(padding, str):
        x, paddings = _named_padding(name, padding, x, kernel, strides, dilations)
    else:
        paddings = _three(name, "padding", padding, rank, 0)
        if min(paddings) < 0:
            raise RuntimeError(f"{name}(): negative padding is not supported, got {padding}")
    size = x._layout.shape[2:]
    for n, k, p, d in zip(size, kernel, paddings, dilations, strict=True):
        if n + 2 * p < d * (k - 1) + 1:
            raise RuntimeError(
                f"Calculated padded input size per channel: ({' x '.join(str(a + 2 * b) for a, b in zip(size[3 - rank :], paddings[3 - rank :], strict=True))}). "
                f"Kernel size: ({' x '.join(map(str, kernel[3 - rank :]))}). Kernel size can't be greater than actual input size"
            )
    windows = Windows(tuple(size), tuple(kernel), strides, paddings, dilations)  # type: ignore[arg-type]
    geometry = Geometry(windows, x._layout.shape[0], x._layout.shape[1], w._layout.shape[0], groups)
    return _finished(_recorded("forward", x, w, geometry), bias, rank, batched)


def _named_padding(
    name: str,
    padding: str,
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> tuple[Tensor, tuple[int, int, int]]:
    """The input, padded where it must be by more at one end, and the padding of both ends."""
    if padding == "valid":
        return x, (0, 0, 0)
    if padding != "same":
        raise RuntimeError(f"{name}(): Invalid padding string: {padding!r}: expected 'valid' or 'same'")
    if any(step != 1 for step in strides):
        raise RuntimeError(f"{name}(): padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
    if any(each % 2 for each in total):
        sizes = [n + each % 2 for n, each in zip(x._layout.shape[2:], total, strict=True)]
        wide = x.new_zeros((*x._layout.shape[:2], *sizes))
        part = wide
        for axis, n in enumerate(x._layout.shape[2:], 2):
            part = parts.narrow(part, axis, 0, n)
        part.copy_(x)
        x = wide
    depth, height, width = (each // 2 for each in total)
    return x, (depth, height, width)


def transposed_convolution(
    name: str,
    rank: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    """The gradient of a convolution's input, as an operation of its own."""
    _checked(name, rank, input, weight, bias, groups, transposed=True)
    strides = _three(name, "stride", stride, rank, 1)
    paddings = _three(name, "padding", padding, rank, 0)
    extra = _three(name, "output_padding", output_padding, rank, 0)
    dilations = _three(name, "dilation", dilation, rank, 1)
    if min(strides) <= 0 or min(dilations) <= 0 or min(paddings) < 0 or min(extra) < 0:
        raise RuntimeError(
            f"{name}(): stride and dilation must be positive, paddings not negative, got {stride}, {dilation}, {padding} "
            f"and {output_padding}"
        )
    if any(e >= max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding {output_padding}, "
            f"stride {stride} and dilation {dilation}"
        )
    batched = len(input._layout.shape) == rank + 2
    x = _lifted(input if batched else views.unsqueeze(input, 0), rank)
    w = _lifted(weight, rank)
    kernel = w._layout.shape[2:]
    size = [
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(
            x._layout.shape[2:], strides, paddings, dilations, kernel, extra, strict=True
        )
    ]
    if min(size) <= 0:
        raise RuntimeError(
            f"Given input size per channel: {list(x._layout.shape[2:])[3 - rank :]}. Calculated output size per channel: "
            f"{size[3 - rank :]}. Output size is too small"
        )
    if any(e >= s for e, s in zip(extra, strides, strict=True)):
        # Whole windows begin in the output's padding; there is no input for them.
        ends = tuple((0, e // s) for e, s in zip(extra, strides, strict=True))
        x = constant_pad(x, ((0, 0), (0, 0), *ends), 0)
    windows = Windows(tuple(size), tuple(kernel), strides, paddings, dilations)  # type: ignore[arg-type]
    geometry = Geometry(windows, x._layout.shape[0], w._layout.shape[1] * groups, w._layout.shape[0], groups)
    return _finished(_recorded("input", x, w, geometry), bias, rank, batched)


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution (cross-correlation) of signals.

    Parameters
    ----------
    input
        ``(items, channels, length)``, or without items.
    weight
        ``(filters, channels / groups, kernel)``.
    bias
        ``(filters,)``.
    padding
        Zeros at both ends, or ``"same"`` or ``"valid"``.

    Returns
    -------
    Tensor
        ``(items, filters, length)``.

    Raises
    ------
    RuntimeError
        If shapes, dtypes or devices do not fit.
    """
    return convolution("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of images ``(items, channels, height, width)``; see :func:`conv1d`."""
    return convolution("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution of volumes ``(items, channels, depth, height, width)``; see :func:`conv1d`."""
    return convolution("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution of signals: what the derivative of :func:`conv1d` by its input is.

    Parameters
    ----------
    weight
        ``(channels, filters / groups, kernel)``.
    output_padding
        Added to one end of the result's size, which several inputs of a convolution share.
    """
    return transposed_convolution(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution of images; see :func:`conv_transpose1d`."""
    return transposed_convolution(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Transposed convolution of volumes; see :func:`conv_transpose1d`."""
    return transposed_convolution(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )
