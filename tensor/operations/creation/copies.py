"""``copy_``, ``clone``, ``contiguous``: copies, and their derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import layouts
from tensor.autograd.recording.inplace import attach_in_place, check_in_place
from tensor.autograd.recording.node import Node, attach
from tensor.core.base import wrap
from tensor.core.copy_plans import COPY, copied
from tensor.core.dtypes.scalars import dtype_of, is_number
from tensor.core.memory_format import preserve_format
from tensor.core.modes.grad_mode import modes
from tensor.operations.definition import operation
from tensor.operations.shapes import views

if TYPE_CHECKING:
    from tensor.core.devices.stream import Stream
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor


@operation(namespace="")
def copy_(input: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy the elements of ``src``, broadcast to this shape, converted to this dtype, from any device.

    Parameters
    ----------
    non_blocking
        Whether the host goes on at once where pinned memory allows it. The caller then must not touch the
        host's side before the stream has done the copy.

    Raises
    ------
    RuntimeError
        If ``src`` does not broadcast to this shape, or this tensor's elements overlap in memory.
    TypeError
        If ``src`` is neither a tensor nor a number.
    """
    to = input._layout
    try:
        origin = src._layout
    except AttributeError:
        src = _of_number(src)
        origin = src._layout
    recorded = modes.recording and (input._autograd is not None or src._autograd is not None)
    if modes.recording:
        check_in_place(input)
    if origin.shape != to.shape:
        if layouts.broadcast_shapes(to.shape, origin.shape) != to.shape:
            raise RuntimeError(
                f"copy_(): output with shape {list(to.shape)} doesn't match the broadcast shape of "
                f"{list(to.shape)} and {list(origin.shape)}"
            )
        src = views.expand(src, to.shape)
        origin = src._layout
    if input._storage is src._storage:
        _check_partial_overlap(input, src)
    (to.place if to.place.is_cuda else origin.place).plans[COPY, to, origin](input, src, non_blocking)
    input._storage.version += 1
    if recorded:
        _record_write(input, src)
    return input


def _of_number(src: Any) -> Tensor:
    """A number as a tensor of its own type."""
    if not is_number(src):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
    return wrap(np.array(src, dtype_of(src).numpy))


def _check_partial_overlap(input: Tensor, src: Tensor) -> None:
    """Raise RuntimeError if what is written certainly is read too, in another order.

    As in PyTorch, only tensors without gaps are looked at.
    """
    to, origin = input._layout, src._layout
    if not to.dense or not origin.dense or not to.numel:
        return
    start, other = input._offset, src._offset
    if start >= other + origin.nbytes or other >= start + to.nbytes:
        return
    if start == other and to.nbytes == origin.nbytes and to.strides == origin.strides:
        return
    raise RuntimeError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
        f"memory location (written are the bytes from {start} on, strides {list(to.strides)}; read are those from "
        f"{other} on, strides {list(origin.strides)}). Please clone() the tensor before performing the operation."
    )


def copy_into_new(
    input: Tensor,
    layout: Layout,
    *,
    non_blocking: bool = False,
    pin_memory: bool = False,
    name: str = "ToCopyBackward0",
) -> Tensor:
    """A new tensor of ``layout``, which has ``input``'s shape, with ``input``'s elements.

    ``name`` is what its node in the graph is called.
    """
    made = copied(input, layout, non_blocking=non_blocking, pin_memory=pin_memory)
    if input._autograd is not None and input._autograd.requires_grad and modes.recording:
        _record_new(made, input, name)
    return made


@operation()
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy; a dense tensor's copy has the same strides."""
    if memory_format is None or memory_format is preserve_format:
        layout = input._layout
        if not layout.dense:
            layout = layout.as_dense()
    else:
        layout = memory_format.layout(input._layout)
    return copy_into_new(input, layout, name="CloneBackward0")


def contiguous(input: Tensor) -> Tensor:
    """The tensor itself where its elements lie in row-major order without gaps, else such a copy."""
    layout = input._layout
    return input if layout.contiguous else copy_into_new(input, layout.as_contiguous(), name="CloneBackward0")


class CopyNode(Node):
    """A recorded copy.

    Attributes
    ----------
    title : str
        The node's name.
    origin : Layout
        Of what was copied.
    there : Stream or None
        The stream of the copied tensor's device, where that is another device than the copy's.
    """

    __slots__ = ("origin", "there", "title")

    title: str
    origin: Layout
    there: Stream | None

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return self.title

    def streams(self) -> tuple[Stream, ...]:
        """Streams of both devices."""
        found = super().streams()
        return found if self.there is None else (*found, self.there)

    def release(self) -> None:
        """Keep everything: nothing was saved."""

    def backward(self, *grads: Any) -> Any:
        """The gradient, where the copied tensor was."""
        return _brought_back(grads[0], self.origin)


class WriteNode(CopyNode):
    """A recorded copy into a tensor that was there before."""

    __slots__ = ()

    def backward(self, *grads: Any) -> Any:
        """Zeros for what was overwritten, and the gradient for what was copied."""
        former = None if self.next[0] is None else grads[0].new_zeros(grads[0].shape)
        return former, None if self.next[1] is None else _brought_back(grads[0], self.origin)


def _brought_back(grad: Tensor, origin: Layout) -> Tensor:
    if grad._layout.place is origin.place:
        return grad
    # The dtype is converted where fewer bytes have to travel.
    kind = min(grad._layout.dtype, origin.dtype, key=lambda each: each.itemsize)
    if kind.is_complex is not grad._layout.dtype.is_complex:
        kind = grad._layout.dtype
    return grad.to(kind).to(origin.device)


def _node(cls: type[CopyNode], title: str, made: Tensor, input: Tensor) -> CopyNode:
    node = cls.__new__(cls)
    node.title, node.origin, node.saved = title, input._layout, ()
    here, there = made._layout.place, input._layout.place
    node.there = there.local.stream if there.is_cuda and here.is_cuda and there is not here else None
    return node


def _record_new(made: Tensor, input: Tensor, name: str) -> None:
    kind = made._layout.dtype
    if kind.is_floating_point or kind.is_complex:
        attach(_node(CopyNode, name, made, input), (input,), (made,))


def _record_write(written: Tensor, source: Tensor) -> None:
    kind = written._layout.dtype
    if (written.requires_grad or source.requires_grad) and (kind.is_floating_point or kind.is_complex):
        attach_in_place(_node(WriteNode, "CopyBackwards", written, source), (written, source), written)
