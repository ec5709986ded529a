"""The derivative of ``as_strided``, whose views may leave elements out and show others several times.

A view and what it is a view of are both ways to read one storage. The gradient is written to a storage of zeros as
the view reads it, with sums where it reads twice, and is read from there as the input reads it. The derivative of
that is the same with both ways exchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import empty, view_of
from .recording.modes import modes
from .recording.node import Node, attach

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .layout import Layout
    from .tensors import Tensor

    #: Shape, strides, and the place of the first element.
    Way = tuple[tuple[int, ...], tuple[int, ...], int]


def strided_gradient(
    grad: Tensor, layout: Layout, shape: tuple[int, ...], strides: tuple[int, ...], start: int
) -> Tensor:
    """Gradient of a tensor of ``layout`` from that of a view, which starts ``start`` elements behind it."""
    origin = (tuple(layout.shape), layout.strides, 0)
    return _moved(grad, (shape, strides, start), origin, origin)


def _moved(grad: Tensor, written: Way, read: Way, origin: Way) -> Tensor:
    """``grad``, written to a storage in one way and read in another.

    Elements that ``origin`` shows several times share what is there equally.
    """
    before, modes.recording = modes.recording, False
    try:
        made = _through_storage(grad, written, read, origin)
    finally:
        modes.recording = before
    if before and grad.requires_grad:
        node = MovedNode.__new__(MovedNode)
        node.written, node.read, node.origin, node.saved = written, read, origin, ()
        attach(node, (grad,), (made,))
    return made


def _through_storage(grad: Tensor, written: Way, read: Way, origin: Way) -> Tensor:
    first = min(written[2], read[2])
    last = max(start + _reach(shape, strides) for shape, strides, start in (written, read))
    storage = grad.new_zeros(last + 1 - first)
    if may_overlap(*written[:2]):
        storage.index_add_(0, _places(storage, written, first), grad.reshape(-1))
    elif grad._layout.numel:
        _show(storage, written, first).copy_(grad)
    if may_overlap(*origin[:2]):
        places = _places(storage, origin, first)
        counts = storage.new_zeros(storage.shape).index_add_(0, places, storage.new_ones(places.shape))
        storage = (
            storage / counts.real.clamp(min=1) if storage.is_complex() else storage / counts.clamp(min=1)
        )
    made = _show(storage, read, first)
    # What leaves memory out, or shows it twice, is no good gradient to add to.
    return made if made._layout.dense else made.clone()


def _show(storage: Tensor, way: Way, first: int) -> Tensor:
    shape, strides, start = way
    layout = storage._layout.with_strides(shape, strides)
    if not layout.numel:
        return empty(layout.as_dense())
    return view_of(storage._storage, layout, (start - first) * layout.itemsize)


def _places(storage: Tensor, way: Way, first: int) -> Tensor:
    """Where the elements of ``way`` are, in its order."""
    from .ranges import arange

    found: Tensor = _show(arange(storage.numel(), device=storage.device), way, first).reshape(-1)
    return found


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last that is read."""
    return sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) if 0 not in shape else 0


def may_overlap(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether an element may be shown several times. It is not where each stride is beyond all smaller ones."""
    reach = 0
    for step, size in sorted((t, s) for s, t in zip(shape, strides, strict=True) if s != 1):
        if step <= reach and size:
            return True
        reach += step * (size - 1)
    return False


class MovedNode(Node):
    """The derivative of ``as_strided``, recorded itself."""

    __slots__ = ("origin", "read", "written")

    written: Way
    read: Way
    origin: Way

    def name(self) -> str:
        """Name of the derivative."""
        return "AsStridedBackward0Backward"

    def release(self) -> None:
        """Keep everything: nothing was saved."""

    def backward(self, *grads: Any) -> Any:
        """The same, with the ways exchanged."""
        return _moved(grads[0], self.read, self.written, self.origin)
