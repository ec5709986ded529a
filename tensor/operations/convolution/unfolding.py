"""``unfold`` and ``fold``: windows of images as columns, and sums of such columns as images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.node import Node, attach
from tensor.core.base import check_tensor, empty
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import modes
from tensor.operations.definition import operation
from tensor.operations.shapes import views

from .columns import Windows, fold_into, unfold_into

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


class WindowsNode(Node):
    """A recorded unfold, or fold: each is the other's derivative."""

    __slots__ = ("part", "windows")

    part: str
    windows: Windows

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "Im2ColBackward0" if self.part == "unfold" else "Col2ImBackward0"

    def release(self) -> None:
        """Keep everything: nothing was saved."""

    def backward(self, *grads: Any) -> Any:
        """The other operation on the gradient."""
        return _recorded("fold" if self.part == "unfold" else "unfold", grads[0], self.windows)


def _recorded(part: str, x: Tensor, windows: Windows) -> Tensor:
    layout = x._layout
    items = layout.shape[0]
    plain = x.detach().contiguous()
    if part == "unfold":
        made = empty(
            contiguous[(items, layout.shape[1] * windows.taps, windows.positions), layout.dtype, layout.place]
        )
        if made._layout.numel:
            unfold_into(made, plain, windows, 0, each=True)
    else:
        made = empty(
            contiguous[(items, layout.shape[1] // windows.taps, *windows.size), layout.dtype, layout.place]
        )
        if made._layout.numel:
            fold_into(made, plain, windows)
    if modes.recording and x.requires_grad:
        node = WindowsNode.__new__(WindowsNode)
        node.part, node.windows, node.saved = part, windows, ()
        attach(node, (x,), (made,))
    return made


def _two(name: str, what: str, given: Any, least: int) -> tuple[int, int]:
    values = (given, given) if isinstance(given, int) else tuple(given)
    if len(values) == 1:
        values *= 2
    if len(values) != 2 or min(values) < least:
        raise RuntimeError(f"{name}(): {what} must be one or two integers from {least} on, got {given!r}")
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


@operation(namespace="nn.functional", method=False)
def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """Windows of images as columns.

    Parameters
    ----------
    input
        ``(items, channels, height, width)``, or one item without the first dimension.
    kernel_size, dilation, padding, stride
        An integer, or one for height and width each.

    Returns
    -------
    Tensor
        ``(items, channels * elements of a window, windows)``.

    Raises
    ------
    RuntimeError
        If shapes do not fit.
    """
    check_tensor(input, "unfold", "input")
    shape = input._layout.shape
    if len(shape) not in (3, 4):
        raise RuntimeError(
            f"unfold(): expected a 3D or 4D input (items, channels, height, width), got shape {list(shape)}"
        )
    windows = _windows("unfold", (shape[-2], shape[-1]), kernel_size, dilation, padding, stride)
    x = views.unsqueeze(input if len(shape) == 4 else views.unsqueeze(input, 0), 2)
    found = _recorded("unfold", x, windows)
    return found if len(shape) == 4 else views.squeeze(found, 0)


@operation(namespace="nn.functional", method=False)
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """Images in which every element is the sum of what columns hold of it.

    Parameters
    ----------
    input
        ``(items, channels * elements of a window, windows)``, or without items.
    output_size
        Height and width of the images.

    Returns
    -------
    Tensor
        ``(items, channels, height, width)``.

    Raises
    ------
    RuntimeError
        If shapes do not fit.
    """
    check_tensor(input, "fold", "input")
    shape = input._layout.shape
    if len(shape) not in (2, 3):
        raise RuntimeError(
            f"fold(): expected a 2D or 3D input (items, rows, windows), got shape {list(shape)}"
        )
    size = _two("fold", "output_size", output_size, 1)
    windows = _windows("fold", size, kernel_size, dilation, padding, stride)
    if shape[-2] % windows.taps:
        raise RuntimeError(
            f"fold(): Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={shape[-2]} and kernel_size={list(windows.kernel[1:])}."
        )
    if shape[-1] != windows.positions:
        raise RuntimeError(
            f"fold(): Given output_size={list(size)}, kernel_size={list(windows.kernel[1:])}, "
            f"dilation={list(windows.dilation[1:])}, padding={list(windows.padding[1:])}, "
            f"stride={list(windows.stride[1:])}, expected size of input's dimension 2 to match the calculated number of "
            f"sliding blocks {' * '.join(map(str, windows.out[1:]))} = {windows.positions}, but got input.size(2)="
            f"{shape[-1]}."
        )
    found = _recorded("fold", input if len(shape) == 3 else views.unsqueeze(input, 0), windows)
    found = views.squeeze(found, 2)
    return found if len(shape) == 3 else views.squeeze(found, 0)
