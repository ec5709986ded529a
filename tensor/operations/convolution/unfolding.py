"""``unfold`` and ``fold``: windows of images as columns, and sums of such columns as images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from nvrtc_kernels import convolution as kernels
from nvrtc_kernels.convolution import Windows
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.core.base import check_tensor, empty, maker
from tensor.core.dtypes import promotion as rules
from tensor.core.layout import contiguous
from tensor.core.plans import planned
from tensor.core.plans.copies import on_contiguous
from tensor.operations.definition import operation
from tensor.operations.planned_options import plan_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


class _Columns:
    """Images of one shape, and their windows as columns: both ways, each of which is the other's derivative.

    Attributes
    ----------
    image, columns : tuple of int
        Shapes: ``(items, channels, height, width)`` and ``(items, channels * elements of a window, windows)``, or
        both without items.
    unfold, fold : _Way
        From images to columns, and back.
    """

    __slots__ = ("channels", "columns", "fold", "image", "items", "unfold", "windows")

    def __init__(self, windows: Windows, items: int, channels: int, *, batched: bool) -> None:
        self.windows = windows
        self.items, self.channels = items, channels
        outer = (items,) if batched else ()
        self.image = (*outer, channels, *windows.size[1:])
        self.columns = (*outer, channels * windows.kernel_elements, windows.positions)
        self.unfold, self.fold = _Unfold(self), _Fold(self)

    def kernel_elements(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Each kernel element: where it is in ``(items, channels, *kernel)``, and what windows see of a padded image."""
        windows = self.windows
        for index in np.ndindex(*windows.kernel):
            seen = []
            for element, dilation, n, step in zip(
                index, windows.dilation, windows.out, windows.stride, strict=True
            ):
                start = element * dilation
                seen.append(slice(start, start + (n - 1) * step + 1, step))
            yield (slice(None), slice(None), *index), (..., *seen)

    def padded(self) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        """Shape of padded images, and where the images are in them."""
        windows = self.windows
        inner = [slice(p, p + n) for p, n in zip(windows.padding, windows.size, strict=True)]
        return (self.items, self.channels, *windows.padded), (..., *inner)


class _Way:
    """``device_state.plans[way, input](input)`` for inputs of a layout. Not recorded."""

    __slots__ = ("whole",)

    #: How it is run backward.
    formula: ClassVar[BackwardFormula]

    def __init__(self, whole: _Columns) -> None:
        self.whole = whole

    def planned(self, x: Layout, shape: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
        """What makes tensors of ``shape`` from those of a layout."""
        device_state = x.device_state
        out = contiguous[shape, x.dtype, device_state]
        if not out.numel:
            return lambda _: empty(out)
        run = self.on_device(out) if device_state.is_cuda else self.on_host(out)
        return on_contiguous(run, x)

    def on_device(self, out: Layout) -> Callable[[Tensor], Tensor]:
        """With a kernel."""
        device_state: Any = out.device_state
        launch, make, local = self.launch(device_state.native, out), maker(out), device_state.local

        def run(x: Tensor) -> Tensor:
            stream = local.stream
            result = make(stream)
            launch(stream.handle, result._storage.address, x._storage.address + x._offset)
            return result

        return run

    def launch(self, device: Any, out: Layout) -> Callable[..., None]:
        """``run(stream, out, given)`` for addresses."""
        raise NotImplementedError

    def on_host(self, out: Layout) -> Callable[[Tensor], Tensor]:
        """With NumPy."""
        raise NotImplementedError


class _Unfold(_Way):
    __slots__ = ()

    @property
    def reverse(self) -> _Way:
        """The derivative."""
        return self.whole.fold

    def plan(self, x: Layout) -> Callable[[Tensor], Tensor]:
        """What makes columns of images of a layout."""
        return self.planned(x, self.whole.columns)

    def launch(self, device: Any, out: Layout) -> Callable[..., None]:
        """``run(stream, columns, image)`` for addresses."""
        whole, windows = self.whole, self.whole.windows
        rows, count = whole.channels * windows.kernel_elements, windows.positions
        return kernels.plan_unfold(
            device, windows, whole.channels, out.itemsize,
            whole.channels, whole.items, 0, count, count, rows * count,
        )  # fmt: skip

    def on_host(self, out: Layout) -> Callable[[Tensor], Tensor]:
        """With NumPy."""
        whole, windows = self.whole, self.whole.windows
        kernel_elements, (shape, inner) = list(whole.kernel_elements()), whole.padded()
        image = (whole.items, whole.channels, *windows.size)
        columns = (whole.items, whole.channels, *windows.kernel, *windows.out)

        def run(x: Tensor) -> Tensor:
            result = empty(out)
            array: Any = result._array
            argument, into = x._host.reshape(image), array.reshape(columns)
            if shape != image:
                padded = np.zeros(shape, argument.dtype)
                padded[inner] = argument
                argument = padded
            for index, seen in kernel_elements:
                into[index] = argument[seen]
            return result

        return run


class _Fold(_Way):
    __slots__ = ()

    @property
    def reverse(self) -> _Way:
        """The derivative."""
        return self.whole.unfold

    def plan(self, x: Layout) -> Callable[[Tensor], Tensor]:
        """What makes images of columns of a layout."""
        return self.planned(x, self.whole.image)

    def launch(self, device: Any, out: Layout) -> Callable[..., None]:
        """``run(stream, image, columns)`` for addresses."""
        whole, windows = self.whole, self.whole.windows
        rows, count = whole.channels * windows.kernel_elements, windows.positions
        return kernels.plan_fold(
            device, windows, whole.channels, out.dtype, whole.channels, whole.items, count, rows * count
        )

    def on_host(self, out: Layout) -> Callable[[Tensor], Tensor]:
        """With NumPy."""
        whole, windows = self.whole, self.whole.windows
        kernel_elements, (shape, inner) = list(whole.kernel_elements()), whole.padded()
        columns = (whole.items, whole.channels, *windows.kernel, *windows.out)
        compute_dtype = rules.computes_in(out.dtype).numpy

        def run(x: Tensor) -> Tensor:
            result = empty(out)
            array: Any = result._array
            argument = x._host.reshape(columns)
            padded = np.zeros(shape, compute_dtype)
            for index, seen in kernel_elements:
                padded[seen] += argument[index]
            array[...] = padded[inner].reshape(array.shape)
            return result

        return run


def _recorded(way: Any, x: Tensor) -> Tensor:
    """One of the two, recorded."""
    layout = x._layout
    result: Tensor = layout.device_state.plans[way, layout](x)
    way.formula.record((result,), (x,), (), (way,))
    return result


def _reversed(grad: Tensor, way: Any) -> Tensor:
    """The other operation on the gradient."""
    return _recorded(way.reverse, grad)


_Unfold.formula, _Fold.formula = (
    BackwardFormula(name, "x", [Derivative(_reversed, needs="")])
    for name in ("Im2ColBackward0", "Col2ImBackward0")
)


# As users call them


def _two(name: str, what: str, argument: Any, least: int) -> tuple[int, int]:
    values = (argument, argument) if isinstance(argument, int) else tuple(argument)
    if len(values) == 1:
        values *= 2
    if len(values) != 2 or min(values) < least:
        raise RuntimeError(f"{name}(): {what} must be one or two integers from {least} on, got {argument!r}")
    return values[0], values[1]


def _windows(
    name: str, size: tuple[int, int], kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Windows:
    kernel, steps = _two(name, "kernel_size", kernel_size, 1), _two(name, "stride", stride, 1)
    dilations, pads = _two(name, "dilation", dilation, 1), _two(name, "padding", padding, 0)
    windows = Windows((1, *size), (1, *kernel), (1, *steps), (0, *pads), (1, *dilations))
    if min(windows.out) <= 0:
        raise RuntimeError(
            f"{name}(): an image of {list(size)} with padding {list(pads)} has no windows of {list(kernel)} with dilation "
            f"{list(dilations)}"
        )
    return windows


class _Planned(NamedTuple):
    """A call for inputs of a layout and with some options."""

    run: Callable[[Tensor], Tensor]
    way: _Way


def _unfold_plan(
    name: str, x: Layout, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> _Planned:
    """What unfolds tensors of a layout; raises if it or the options do not fit."""
    shape = x.shape
    if len(shape) not in (3, 4):
        raise RuntimeError(
            f"{name}(): expected a 3D or 4D input (items, channels, height, width), got shape {list(shape)}"
        )
    windows = _windows(name, (shape[-2], shape[-1]), kernel_size, dilation, padding, stride)
    batched = len(shape) == 4
    whole = _Columns(windows, shape[0] if batched else 1, shape[-3], batched=batched)
    return _Planned(x.device_state.plans[whole.unfold, x], whole.unfold)


def _fold_plan(
    name: str, x: Layout, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> _Planned:
    """What folds tensors of a layout; raises if it or the options do not fit."""
    shape = x.shape
    if len(shape) not in (2, 3):
        raise RuntimeError(
            f"{name}(): expected a 2D or 3D input (items, rows, windows), got shape {list(shape)}"
        )
    size = _two(name, "output_size", output_size, 1)
    windows = _windows(name, size, kernel_size, dilation, padding, stride)
    if shape[-2] % windows.kernel_elements:
        raise RuntimeError(
            f"{name}(): Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={shape[-2]} and kernel_size={list(windows.kernel[1:])}."
        )
    if shape[-1] != windows.positions:
        raise RuntimeError(
            f"{name}(): Given output_size={list(size)}, kernel_size={list(windows.kernel[1:])}, "
            f"dilation={list(windows.dilation[1:])}, padding={list(windows.padding[1:])}, "
            f"stride={list(windows.stride[1:])}, expected size of input's dimension 2 to match the calculated number of "
            f"sliding blocks {' * '.join(map(str, windows.out[1:]))} = {windows.positions}, but got input.size(2)="
            f"{shape[-1]}."
        )
    batched = len(shape) == 3
    whole = _Columns(
        windows, shape[0] if batched else 1, shape[-2] // windows.kernel_elements, batched=batched
    )
    return _Planned(x.device_state.plans[whole.fold, x], whole.fold)


def _called(operation: Any, input: Tensor, *options: Any) -> Tensor:
    try:
        layout = input._layout
    except AttributeError:
        check_tensor(input, operation.name, "input")
        raise
    run, way = plan_for(operation, (layout,), options)
    result: Tensor = run(input)
    if input._autograd is not None:
        way.formula.record((result,), (input,), (), (way,))
    return result


_UNFOLD, _FOLD = planned(_unfold_plan, "unfold"), planned(_fold_plan, "fold")


@operation(namespace="nn.functional", method=False)
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Windows of images as columns (im2col).

    Element ``(n, c * kernel_elements + t, w)`` of the result is element ``t`` of window ``w`` in channel ``c`` of image ``n``; windows,
    and the ``kernel_elements`` of one, are counted row by row. The derivative is :func:`fold`, which adds up what windows share.

    Parameters
    ----------
    input
        ``(N, C, height, width)``, or one image ``(C, height, width)``, of any dtype.
    kernel_size
        Size of a window: an integer, or height and width.
    dilation
        Steps from one element of a window to the next.
    padding
        Zeros at both ends of each dimension.
    stride
        Steps from one window to the next.

    Returns
    -------
    Tensor
        ``(N, C * kernel_elements, windows)``, or ``(C * kernel_elements, windows)`` for one image. There are
        ``(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`` windows along each dimension.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    RuntimeError
        If ``input`` has neither 3 nor 4 dimensions, if an option makes no sense, or if no window fits into the padded image.

    Examples
    --------
    >>> nn.functional.unfold(tensor.randn(2, 5, 3, 4), kernel_size=(2, 3)).shape
    tensor.Size([2, 30, 4])
    """
    return _called(_UNFOLD, input, kernel_size, dilation, padding, stride)


@operation(namespace="nn.functional", method=False)
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Images in which every element is the sum of what columns hold of it (col2im): the transpose of :func:`unfold`.

    Parameters
    ----------
    input
        Columns ``(N, C * kernel_elements, windows)``, or of one image ``(C * kernel_elements, windows)``, as :func:`unfold` makes them; ``kernel_elements`` are
        the elements of a window.
    output_size
        Size of the images: an integer, or height and width.
    kernel_size, dilation, padding, stride
        As :func:`unfold` has them: an integer, or one for height and width each.

    Returns
    -------
    Tensor
        ``(N, C, *output_size)``, or ``(C, *output_size)`` for one image. Half precision is added up in float32.

    Raises
    ------
    TypeError
        If ``input`` is no tensor.
    RuntimeError
        If ``input`` has neither 2 nor 3 dimensions, if an option makes no sense, or if the columns are not those of all
        windows of such images.

    Examples
    --------
    >>> columns = nn.functional.unfold(tensor.ones(1, 1, 3, 3), 2)
    >>> nn.functional.fold(columns, (3, 3), 2)[0, 0]
    tensor([[1., 2., 1.],
            [2., 4., 2.],
            [1., 2., 1.]])
    """
    return _called(_FOLD, input, output_size, kernel_size, dilation, padding, stride)
