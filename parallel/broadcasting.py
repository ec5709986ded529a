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
    from tensor.core.devices.state import CudaPlace
    from tensor.core.layout import Layout
    from tensor.cuda import Stream


class DevicesNode(Node):
    """A recorded operation on several devices.

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

    def place(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        """Put the node into the graph: the operation that made ``outputs``."""
        self.saved = ()
        place_in_graph(self, inputs, outputs)
        places: dict[Any, None] = {x._layout.place: None for x in (*outputs, *inputs)}
        self.used_streams = tuple([each.local.stream for each in places if each.is_cuda])
        self.stream = self.used_streams[0]
        for number, output in enumerate(outputs):
            output._autograd = recorded(self, number)


class BroadcastNode(DevicesNode):
    """A recorded broadcast. Outputs are those on the first place, then those on the next one, ...

    Attributes
    ----------
    layouts_here : tuple of Layout
        Of the inputs, without gaps.
    buffer_size : int
        See :func:`parallel.coalescing.copies`.
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
        destination: Any = self.layouts_here[0].place
        # Inputs whose gradients came from the same devices are summed together.
        groups: dict[tuple[int, ...], list[int]] = {}
        for number in range(count):
            present = tuple([k for k, column in enumerate(columns) if column[number] is not None])
            if present:
                groups.setdefault(present, []).append(number)
        results: list[Any] = [None] * count
        for present, numbers in groups.items():
            layouts = [self.layouts_here[number] for number in numbers]
            chosen = [[columns[k][number] for number in numbers] for k in present]
            summed = reduced(chosen, destination, layouts, self.buffer_size)
            for number, result in zip(numbers, summed, strict=True):
                results[number] = result
            del summed, result
        return tuple(results)


class ReduceNode(DevicesNode):
    """Recorded sums. Inputs are those on the first place, then those on the next one, ...

    Attributes
    ----------
    places : tuple of CudaPlace
        One for each summand.
    buffer_size : int
        See :func:`parallel.coalescing.sums`.
    """

    __slots__ = ("buffer_size", "places")

    places: tuple[CudaPlace, ...]
    buffer_size: int

    def name(self) -> str:
        """Name as PyTorch shows it."""
        return "ReduceAddCoalescedBackward"

    def backward(self, *grads: Any) -> Any:
        """Each sum's gradient on the devices of all its summands."""
        numbers = [number for number, grad in enumerate(grads) if grad is not None]
        given = [grads[number] for number in numbers]
        results: list[Any] = []
        for column in broadcasted(given, self.places, self.buffer_size):
            row: list[Any] = [None] * len(grads)
            for number, x in zip(numbers, column, strict=True):
                row[number] = x
            results += row
        return tuple(results)


def broadcasted(
    tensors: Sequence[Tensor], places: Sequence[CudaPlace], buffer_size: int, *, sum_all: bool = False
) -> list[list[Tensor]]:
    """``tensors``, which are on one device, on each of ``places``. On their own place they are themselves.

    Parameters
    ----------
    sum_all
        Whether those on their own place are recorded too, so that one node sums up the gradients of all places: they
        are other tensors with the same memory then.
    """
    if not tensors:
        return [[] for _ in places]
    source: Any = tensors[0]._layout.place
    others = [place for place in places if place is not source]
    made = iter(copies(tensors, others, buffer_size))
    columns = [list(tensors) if place is source else next(made) for place in places]
    wanted = [number for number, x in enumerate(tensors) if x.requires_grad] if modes.recording else []
    if not wanted or not others:
        return columns
    outputs = []
    for place, column in zip(places, columns, strict=True):
        if place is source:
            if not sum_all:
                continue
            for number in wanted:
                x = column[number]
                column[number] = view_of(x._storage, x._layout, x._offset)
        outputs += [column[number] for number in wanted]
    node = BroadcastNode.__new__(BroadcastNode)
    inputs = [tensors[number] for number in wanted]
    node.layouts_here = tuple([x._layout.as_dense() for x in inputs])
    node.buffer_size = buffer_size
    node.place(inputs, outputs)
    return columns


def reduced(
    columns: Sequence[Sequence[Tensor]],
    destination: CudaPlace,
    layouts: Sequence[Layout] | None,
    buffer_size: int,
) -> list[Tensor]:
    """Sums over ``columns``, each of tensors on one device, on ``destination``; see :func:`parallel.coalescing.sums`."""
    if len(columns) == 1 and all(x._layout.place is destination for x in columns[0]):
        return list(columns[0])
    made = sums(columns, destination, layouts, buffer_size)
    inputs = [x for column in columns for x in column]
    if not modes.recording or not any(x.requires_grad for x in inputs):
        return made
    node = ReduceNode.__new__(ReduceNode)
    node.places = tuple([column[0]._layout.place for column in columns])  # type: ignore[misc]
    node.buffer_size = buffer_size
    node.place(inputs, made)
    return made
