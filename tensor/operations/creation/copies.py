"""``copy_``, ``clone``, ``contiguous``: copies, and their derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import layouts
from tensor.autograd.recording.inplace import check_in_place, record_in_place
from tensor.autograd.recording.recorder import BackwardFormula, Derivative
from tensor.autograd.recording.several_devices import DevicesFormula
from tensor.core.base import wrap
from tensor.core.dtypes.scalars import dtype_of, element, is_number
from tensor.core.memory_format import format_of, preserve_format
from tensor.core.modes.grad_mode import modes
from tensor.core.plans.copies import COPY, copied
from tensor.operations.definition import operation
from tensor.operations.shapes import views

if TYPE_CHECKING:
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

    Examples
    --------
    >>> tensor.zeros(2, 2).copy_(tensor.tensor([1, 2]))
    tensor([[1., 2.],
            [1., 2.]])
    """
    to = input._layout
    try:
        origin = src._layout
    except AttributeError:
        src = _of_number(src)
        origin = src._layout
    recorded = modes.recording
    if recorded:
        check_in_place(input)
        recorded = input._autograd is not None or src._autograd is not None
    if origin.shape != to.shape:
        if layouts.broadcast_shapes(to.shape, origin.shape) != to.shape:
            raise RuntimeError(
                f"copy_(): output with shape {list(to.shape)} doesn't match the broadcast shape of "
                f"{list(to.shape)} and {list(origin.shape)}"
            )
        src = views.expand(src, to.shape)
        origin = src._layout
    storage = input._storage
    if storage is src._storage:
        _check_partial_overlap(input, src)
    device_state = to.device_state
    if not device_state.is_cuda:
        device_state = origin.device_state
    device_state.plans[COPY, to, origin](input, src, non_blocking)
    storage.version += 1
    if recorded:
        _record_write(input, src)
    return input


def _of_number(src: Any) -> Tensor:
    """A number as a tensor of its own type."""
    if not is_number(src):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
    dtype = dtype_of(src)
    return wrap(np.array(element(src, dtype), dtype.numpy))


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
    result = copied(input, layout, non_blocking=non_blocking, pin_memory=pin_memory)
    if input._autograd is not None and input._autograd.requires_grad and modes.recording:
        _record_new(result, input, name)
    return result


@operation()
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with its own memory, through which gradients flow to ``input``; see :meth:`Tensor.detach` to stop them.

    Parameters
    ----------
    memory_format : memory_format, optional
        By default the copy keeps the strides of a tensor without gaps or overlaps, and the order of the dimensions of
        any other.

    Examples
    --------
    >>> x = tensor.zeros(2)
    >>> y = x.clone()
    >>> y[0] = 1.0
    >>> x
    tensor([0., 0.])
    """
    if memory_format is None or memory_format is preserve_format:
        layout = input._layout
        if not layout.dense:
            layout = layout.as_dense()
    else:
        layout = format_of(memory_format, "clone").layout(input._layout)
    return copy_into_new(input, layout, name="CloneBackward0")


def contiguous(input: Tensor) -> Tensor:
    """The tensor itself where its elements lie in row-major order without gaps, else such a copy."""
    layout = input._layout
    return input if layout.contiguous else copy_into_new(input, layout.as_contiguous(), name="CloneBackward0")


def _brought_back(grad: Tensor, origin: Layout) -> Tensor:
    if grad._layout.device_state is origin.device_state:
        return grad
    # The dtype is converted where fewer bytes have to travel.
    dtype = min(grad._layout.dtype, origin.dtype, key=lambda each: each.itemsize)
    if dtype.is_complex is not grad._layout.dtype.is_complex:
        dtype = grad._layout.dtype
    return grad.to(dtype).to(origin.device)


def _write_gradients(mask: tuple[bool, bool], grad: Tensor, origin: Layout) -> tuple[Tensor | None, ...]:
    """Zeros for what was overwritten, and the gradient for what was copied."""
    former = grad.new_zeros(grad._layout.shape) if mask[0] else None
    return former, _brought_back(grad, origin) if mask[1] else None


#: By the name of the node.
_COPIES = {
    name: BackwardFormula(name, "input", [Derivative(_brought_back, needs="")])
    for name in ("CloneBackward0", "ToCopyBackward0")
}
_WRITTEN = BackwardFormula("CopyBackwards", "written source", joint=Derivative(_write_gradients, needs=""))
#: Between two devices, the host among them.
_TO_ANOTHER_DEVICE = DevicesFormula("ToCopyBackward0", "input", [Derivative(_brought_back, needs="")])
_WRITTEN_FROM_ANOTHER_DEVICE = DevicesFormula(
    "CopyBackwards", "written source", joint=Derivative(_write_gradients, needs="")
)


def _record_new(result: Tensor, input: Tensor, name: str) -> None:
    origin = input._layout
    formula = _COPIES[name] if result._layout.device_state is origin.device_state else _TO_ANOTHER_DEVICE
    formula.record((result,), (input,), (), (origin,), (True,))


def _record_write(written: Tensor, source: Tensor) -> None:
    origin = source._layout
    same = written._layout.device_state is origin.device_state
    formula = _WRITTEN if same else _WRITTEN_FROM_ANOTHER_DEVICE
    record_in_place(formula, written, (written, source), (), (origin,))
