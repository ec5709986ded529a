"""Broadcasts to devices, and sums over them: each is the other's derivative."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.node import Node, place_in_graph
from tensor.autograd.recording.state import recorded
from tensor.core.base import view_of
from tensor.core.modes.grad_mode import modes

from .coalescing import copies, sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor
    from tensor.core.devices.state import CudaState
    from tensor.core.layout import Layout
    from tensor.cuda import Stream


class DevicesNode(Node):
    """A recorded operation on several devices.

    It is a class of its own because it runs on a stream of each device, and gradients of some outputs may be missing.

    Attributes
    ----------
    used_streams : tuple of Stream
        The current one of each device.
    """

    __slots__ = ("used_streams",)

    used_streams: tuple[Stream, ...]

    def streams(self) -> tuple[Stream, ...]:
        """The current one of each device."""
        return self.used_streams

    def release(self) -> None:
        """Keep everything: nothing was saved."""

    def attach(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Put the node into the graph, as the operation that produced ``outputs``."""
        self.saved = ()
        place_in_graph(self, inputs, outputs)
        states: dict[Any, None] = {x._layout.device_state: None for x in (*outputs, *inputs)}
        self.used_streams = tuple([each.local.stream for each in states if each.is_cuda])
        self.stream = self.used_streams[0]
        for number, output in enumerate(outputs):
            output._autograd = recorded(self, number)


class BroadcastNode(DevicesNode):
    """A recorded broadcast. Outputs are those on the first device, then those on the next one, ...

    Attributes
    ----------
    layouts_here : tuple of Layout
        Of the inputs, without gaps.
    buffer_size : int
        See :func:`parallel.data_parallel.coalescing.copies`.
    """

    __slots__ = ("buffer_size", "layouts_here")

    layouts_here: tuple[Layout, ...]
    buffer_size: int

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "BroadcastBackward"

    def backward(self, *grads: Any) -> Any:
        """Sums over the devices; ``None`` for an input that no gradient reached on any of them."""
        count = len(self.layouts_here)
        columns = [grads[start : start + count] for start in range(0, len(grads), count)]
        del grads
        destination: Any = self.layouts_here[0].device_state
        # Inputs whose gradients came from the same devices are summed together.
        groups: dict[tuple[int, ...], list[int]] = {}
        for number in range(count):
            present = tuple([k for k, column in enumerate(columns) if column[number] is not None])
            if present:
                groups.setdefault(present, []).append(number)
        results: list[Any] = [None] * count
        for present, numbers in groups.items():
            layouts = [self.layouts_here[number] for number in numbers]
            summands = [[columns[k][number] for number in numbers] for k in present]
            summed = reduced(summands, destination, layouts, self.buffer_size)
            for number, result in zip(numbers, summed, strict=True):
                results[number] = result
            del summed, result
        return tuple(results)


class ReduceNode(DevicesNode):
    """Recorded sums. Inputs are those on the first device, then those on the next one, ...

    Attributes
    ----------
    states : tuple of CudaState
        One for each summand.
    buffer_size : int
        See :func:`parallel.data_parallel.coalescing.sums`.
    """

    __slots__ = ("buffer_size", "states")

    states: tuple[CudaState, ...]
    buffer_size: int

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "ReduceAddCoalescedBackward"

    def backward(self, *grads: Any) -> Any:
        """Each sum's gradient on the devices of all its summands."""
        numbers = [number for number, grad in enumerate(grads) if grad is not None]
        present = [grads[number] for number in numbers]
        results: list[Any] = []
        for column in broadcasted(present, self.states, self.buffer_size):
            row: list[Any] = [None] * len(grads)
            for number, x in zip(numbers, column, strict=True):
                row[number] = x
            results += row
        return tuple(results)


def broadcasted(
    tensors: Sequence[Tensor], states: Sequence[CudaState], buffer_size: int, *, sum_all: bool = False
) -> list[list[Tensor]]:
    """Copies of ``tensors`` on the device of each of ``states``; on their own device they are themselves.

    Parameters
    ----------
    tensors
        All on one device.
    sum_all
        Whether those on their own device are recorded too, so that one node sums the gradients of all devices: they are
        other tensors with the same memory then.
    """
    if not tensors:
        return [[] for _ in states]
    source: Any = tensors[0]._layout.device_state
    others = [state for state in states if state is not source]
    copied = iter(copies(tensors, others, buffer_size))
    columns = [list(tensors) if state is source else next(copied) for state in states]
    differentiable = (
        [number for number, x in enumerate(tensors) if x.requires_grad] if modes.recording else []
    )
    if not differentiable or not others:
        return columns
    outputs = []
    for state, column in zip(states, columns, strict=True):
        if state is source:
            if not sum_all:
                continue
            for number in differentiable:
                x = column[number]
                column[number] = view_of(x._storage, x._layout, x._offset)
        outputs += [column[number] for number in differentiable]
    node = BroadcastNode.__new__(BroadcastNode)
    inputs = [tensors[number] for number in differentiable]
    node.layouts_here = tuple([x._layout.as_dense() for x in inputs])
    node.buffer_size = buffer_size
    node.attach(inputs, outputs)
    return columns


def reduced(
    columns: Sequence[Sequence[Tensor]],
    destination: CudaState,
    layouts: Sequence[Layout] | None,
    buffer_size: int,
) -> list[Tensor]:
    """Sums over ``columns``, each of tensors on one device, on ``destination``.

    See :func:`parallel.data_parallel.coalescing.sums`.
    """
    if len(columns) == 1 and all(x._layout.device_state is destination for x in columns[0]):
        return list(columns[0])
    outputs = sums(columns, destination, layouts, buffer_size)
    inputs = [x for column in columns for x in column]
    if not modes.recording or not any(x.requires_grad for x in inputs):
        return outputs
    node = ReduceNode.__new__(ReduceNode)
    node.states = tuple([column[0]._layout.device_state for column in columns])  # type: ignore[misc]
    node.buffer_size = buffer_size
    node.attach(inputs, outputs)
    return outputs
