"""Broadcasts to devices, and sums over them: each is the other's derivative."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd.recording.recorder import Derivative
from tensor.autograd.recording.several_devices import DevicesFormula
from tensor.core.base import view_of
from tensor.core.modes.grad_mode import modes

from .coalescing import copies, sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor
    from tensor.core.devices.state import CudaState
    from tensor.core.layout import Layout


def _summed(_: Any, grads: Any, layouts: tuple[Layout, ...], buffer_size: int) -> tuple[Tensor | None, ...]:
    """A broadcast's gradients: sums over the devices; ``None`` for an input that no gradient reached on any of them.

    Outputs are those on the first device, then those on the next one, ...; ``layouts`` are those of the inputs, without
    gaps.
    """
    grads = grads if isinstance(grads, tuple) else (grads,)
    count = len(layouts)
    columns = [grads[start : start + count] for start in range(0, len(grads), count)]
    del grads
    destination: Any = layouts[0].device_state
    # Inputs whose gradients came from the same devices are summed together.
    groups: dict[tuple[int, ...], list[int]] = {}
    for number in range(count):
        present = tuple([k for k, column in enumerate(columns) if column[number] is not None])
        if present:
            groups.setdefault(present, []).append(number)
    results: list[Any] = [None] * count
    for present, numbers in groups.items():
        summands = [[columns[k][number] for number in numbers] for k in present]
        summed = reduced(summands, destination, [layouts[number] for number in numbers], buffer_size)
        for number, result in zip(numbers, summed, strict=True):
            results[number] = result
        del summed, result
    return tuple(results)


def _sent_back(
    _: Any, grads: Any, states: Sequence[CudaState], buffer_size: int
) -> tuple[Tensor | None, ...]:
    """The gradients of sums: each sum's on the devices of all its summands, one of ``states`` for each.

    Inputs are those on the first device, then those on the next one, ...
    """
    grads = grads if isinstance(grads, tuple) else (grads,)
    numbers = [number for number, grad in enumerate(grads) if grad is not None]
    present = [grads[number] for number in numbers]
    results: list[Any] = []
    for column in broadcasted(present, states, buffer_size):
        row: list[Any] = [None] * len(grads)
        for number, x in zip(numbers, column, strict=True):
            row[number] = x
        results += row
    return tuple(results)


_BROADCAST = DevicesFormula("BroadcastBackward", "", joint=Derivative(_summed, needs=""))
_REDUCE = DevicesFormula("ReduceAddCoalescedBackward", "", joint=Derivative(_sent_back, needs=""))


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
    inputs = [tensors[number] for number in differentiable]
    layouts = tuple([x._layout.as_dense() for x in inputs])
    _BROADCAST.record(outputs, inputs, context=(layouts, buffer_size))
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
    states = tuple([column[0]._layout.device_state for column in columns])
    _REDUCE.record(outputs, inputs, context=(states, buffer_size))
    return outputs
