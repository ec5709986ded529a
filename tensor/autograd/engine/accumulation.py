"""Adding gradients up, on the right stream and in place where nobody else holds the memory."""

from __future__ import annotations

import threading
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from tensor.core.modes.grad_mode import modes
from tensor.core.plans.copies import copied
from tensor.core.plans.steps import innermost, recorders
from tensor.core.sparse import SparseLayout, storage_of

if TYPE_CHECKING:
    from tensor.autograd.recording.node import AccumulateGrad, Node
    from tensor.core.devices.stream import Stream
    from tensor.methods.tensor import Tensor

#: Passes of several threads may reach one leaf at once.
_adding = threading.RLock()


class Awaited:
    """A gradient that was made on another stream than the one that is to use it.

    Attributes
    ----------
    value : Tensor
        The gradient.
    event
        Recorded when it was made.
    """

    __slots__ = ("event", "value")

    def __init__(self, value: Tensor, event: Any) -> None:
        self.value = value
        self.event = event

    def take(self, target: Stream) -> Tensor:
        """The gradient, which work on ``target`` may use from now on."""
        value = self.value
        del self.value
        _await(value, self.event, target)
        return value


def hold(value: Tensor, stream: Stream | None, target: Stream | None) -> Tensor | Awaited:
    """A gradient, ready on ``stream``, until it is used on ``target``."""
    event = _mark(stream, target)
    return value if event is None else Awaited(value, event)


def add(slots: list[Any], number: int, other: Tensor, stream: Stream | None, target: Stream | None) -> None:
    """Add a gradient, ready on ``stream``, to the one in ``slots``, on ``target``."""
    if target is None:
        _sum(slots, number, other, None)
        return
    event = _mark(stream, target)
    if event is not None:
        _await(other, event, target)
    if type(slots[number]) is Awaited:
        slots[number] = slots[number].take(target)
    local = target.device_state.local
    before, local.stream = local.stream, target
    try:
        _sum(slots, number, other, target)
    finally:
        local.stream = before


def _sum(slots: list[Any], number: int, other: Tensor, target: Stream | None) -> None:
    if type(slots[number]._layout) is SparseLayout:
        slots[number] = _added_to_sparse(slots[number], other)
        return
    # Only the list, and getrefcount's argument, refer to the value.
    if (
        not modes.recording
        and getrefcount(slots[number]) == 2
        and _owns_memory(slots[number])
        # Those that referred to it may still read it on other streams.
        and (target is None or slots[number]._storage.belongs_to(target))
    ):
        slots[number].add_(other)
    else:
        slots[number] = slots[number] + other


def _added_to_sparse(held: Tensor, other: Tensor) -> Tensor:
    """The sum of a sparse gradient and another one: dense if that is."""
    return held + other if type(other._layout) is SparseLayout else other + held


def _mark(stream: Stream | None, target: Stream | None) -> Any:
    """An event after what ``stream`` holds now, if ``target`` is another stream."""
    if stream is target or stream is None or target is None or stream == target:
        return None
    return stream.native.record_event()


def _await(value: Tensor, event: Any, target: Stream) -> None:
    """Let ``target`` wait for ``event``, and keep the memory of ``value`` until it has used it."""
    target.native.wait_event(event)
    value.record_stream(target)


def _owns_memory(value: Tensor) -> bool:
    """Whether nothing else shows the memory of ``value``, and all of it is shown once."""
    storage = value._storage
    # The tensor, the name above and getrefcount's argument refer to the storage.
    if getrefcount(storage) != 3 or not value._layout.dense:
        return False
    owner = storage.owner
    if owner is None:
        return True
    # NumPy arrays that show the memory refer to the array that owns it: the tensor's own one, and a user's.
    return getrefcount(owner) == 3 + (value._array is not None)


def fit(gradient: Tensor, node: Node, number: int, maker: Node | None, position: int) -> Tensor:
    """``gradient`` with the shape and dtype that output ``number`` of ``node`` has.

    What was broadcast is summed up, a complex gradient of a real tensor loses its imaginary part, and
    other types are converted. It is the gradient that ``maker`` gave for its input ``position``.

    Raises
    ------
    RuntimeError
        If the shape or device cannot be right.
    """
    expected = node.layouts[number]
    have = gradient._layout
    if have is expected:
        return gradient
    if have.shape != expected.shape:
        lead = len(have.shape) - len(expected.shape)
        if lead < 0 or any(
            size not in (1, got) for size, got in zip(expected.shape, have.shape[lead:], strict=True)
        ):
            raise RuntimeError(
                f"{_given_by(maker, position)} - got {list(have.shape)} but expected shape compatible with "
                f"{list(expected.shape)}: give a gradient of the input's shape, or one that sums to it"
            )
        gradient = gradient.sum_to_size(expected.shape)
        have = gradient._layout
    if have.dtype is not expected.dtype:
        if have.dtype.is_complex and not expected.dtype.is_complex:
            gradient = gradient.real
        if gradient._layout.dtype is not expected.dtype:
            gradient = gradient.to(expected.dtype)
    if have.device_state is not expected.device_state:
        raise RuntimeError(
            f"{_given_by(maker, position)} - expected device {expected.device} but got {have.device}: give the gradient "
            "on the input's device"
        )
    return gradient


def _given_by(maker: Node | None, position: int) -> str:
    name = "GraphRoot" if maker is None else maker.name()
    return f"Function {name} returned an invalid gradient at index {position}"


def accumulate(node: AccumulateGrad, grads: list[Any]) -> None:
    """Add the gradient in ``grads`` to the leaf's ``grad``, and run the hooks that follow.

    The memory is taken over where nobody else holds it and its layout is the leaf's, and added to in place
    where the pass is not recorded.
    """
    variable = node.variable
    state = variable._autograd
    if recorders and (recorder := innermost()) is not None:
        recorder.gradient_asked(variable)
    with _adding:
        held = state.grad
        if held is None:
            state.grad = _first(variable, grads)
        elif type(held._layout) is SparseLayout:
            if node.stream is not None:
                held.record_stream(node.stream)
            gradient = grads.pop()
            if modes.recording or type(gradient._layout) is not SparseLayout:
                state.grad = _added_to_sparse(held, gradient)
            else:
                held.add_(gradient)
        elif modes.recording:
            state.grad = held + grads.pop()
        else:
            if node.stream is not None:
                # An earlier pass may have made it on another stream.
                held.record_stream(node.stream)
            held.add_(grads.pop())
    if state.post_hooks:
        for hook in list(state.post_hooks.values()):
            hook(variable)


def _first(variable: Tensor, grads: list[Any]) -> Tensor:
    gradient: Tensor = grads.pop()
    if modes.recording:
        return gradient
    if type(gradient._layout) is SparseLayout:
        values = storage_of(gradient).values
        # Nobody else refers to the values: the storage's tensor of them, and getrefcount's argument.
        is_own = (
            getrefcount(gradient) == 2 and getrefcount(values._storage) == 2 and values._layout.contiguous
        )
        return gradient.detach() if is_own else gradient.detach().clone()
    if type(variable._layout) is SparseLayout:
        return gradient.detach().clone()
    expected = variable._layout.as_dense()
    # This name and getrefcount's argument.
    if gradient._layout.strides == expected.strides and getrefcount(gradient) == 2 and _owns_memory(gradient):
        gradient._autograd = None
        return gradient
    return copied(gradient, expected)
