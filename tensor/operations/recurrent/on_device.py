"""The steps of one direction of a recurrent layer, on a device.

Many steps of the same number of rows are one launch, where their weights fit into the device's shared memory. Others are
products of matrices, and a kernel after each.

Rows of all steps lie one after another, those of the first step first. A step has the first so many rows of the
batch (all of them, but in packed sequences), so that states are always the first rows of one matrix, which the
steps go on with in place. On the CPU the same is in :mod:`.on_host`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import recurrent as kernels
from nvrtc_kernels import recurrent_sequences as sequences
from nvrtc_kernels.dtypes import uint8
from tensor.core.base import empty
from tensor.core.layout import contiguous
from tensor.core.plans import planned
from tensor.operations.products import blas

from . import on_host as recurrent_on_host
from .cells import Gradients, Saved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.devices.state import CudaState
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .cells import Cell, Spans, Weights


class _Products(dict[int, "Callable[..., None]"]):
    """Products of so many rows, which are made where they are used first: ``products[rows](c, a, b, alpha, beta)``."""

    def __init__(
        self, device_state: Any, dtype: dtype, inner: int, columns: int, *, transposed: bool
    ) -> None:
        self.operands = device_state, dtype
        self.sizes = columns, inner
        right = blas.Factor(transposed, inner if transposed else columns, 0)
        self.factors = blas.Factor(False, inner, 0), right, blas.Factor(False, columns, 0)

    def __missing__(self, rows: int) -> Callable[..., None]:
        result = self[rows] = blas.product(*self.operands, (1, rows, *self.sizes), *self.factors)
        return result


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x._address


#: Steps from which one launch takes less time than two for each.
_FEWEST = 4


def _launches(spans: Spans, sequence: sequences.Sequence | None) -> Iterator[tuple[int, int, int, int, bool]]:
    """First row, rows, distance to the next step's first row, and steps of each launch; and whether it is the last.

    More than one step is a launch of ``sequence``.
    """
    most = 1 if sequence is None else sequence.most_steps
    at = 0
    while at < len(spans):
        first, count = spans[at]
        steps = stride = 1
        if most > 1 and at + 1 < len(spans):
            stride = spans[at + 1][0] - first
            while steps < min(most, len(spans) - at) and spans[at + steps] == (first + steps * stride, count):
                steps += 1
            if steps < _FEWEST:
                steps = 1
        at += steps
        if count:
            yield first, count, stride, steps, at == len(spans)


def _counter(sequence: sequences.Sequence | None, device_state: CudaState) -> Tensor | None:
    """Scratch memory of ``sequence``."""
    return None if sequence is None else empty(contiguous[(sequence.counter_bytes,), uint8, device_state])


def _forward_plan(
    cell: Cell, state: Layout, keep: bool
) -> Callable[[Tensor, Tensor, Tensor | None, Weights, Spans], tuple[Tensor, Saved | None]]:
    """What goes through time for a contiguous ``state`` of shape ``(batch, size)``.

    ``device_state.plans[operation, cell, state, keep]``: ``run(gates, state, cell_state, weights, spans)``.

    Gates are those of the input with the biases that can be added there, and are written, as the states are. It gives
    the hidden states of all rows, and what is to be kept, if ``keep`` says so.
    """
    if not state.device_state.is_cuda:
        return recurrent_on_host.forward(cell, state, keep)
    device_state = state.device_state
    dtype, (batch, size) = state.dtype, state.shape
    native, bytes_of = device_state.native, dtype.itemsize
    projected = bool(cell.projected)
    step = kernels.plan(native, cell.name, dtype, cell.hidden, batch, keep=keep, projected=projected)
    advance = kernels.plan(native, "projection", dtype, size, batch, keep=keep) if projected else None
    sequence = None if projected else sequences.plan(native, cell.name, dtype, cell.hidden, batch, keep=keep)
    local, gates_width, hidden = device_state.local, cell.gates, cell.hidden
    into_gates = _Products(device_state, dtype, size, gates_width, transposed=True)
    into_state = _Products(device_state, dtype, hidden, size, transposed=True)

    def run(
        gates: Tensor, state: Tensor, cell_state: Tensor | None, weights: Weights, spans: Spans
    ) -> tuple[Tensor, Saved | None]:
        rows = gates._layout.shape[0]

        def new(width: int, count: int = rows) -> Tensor:
            return empty(contiguous[(count, width), dtype, device_state])

        out = new(size)
        before = new(size) if keep else None
        cell_before = new(hidden) if keep and cell_state is not None else None
        beside = recurrent = None
        if projected:
            beside = new(hidden, rows if keep else batch)
        elif cell.name == "gru":
            recurrent = new(gates_width, batch)
            beside = new(hidden) if keep else None
        stream = local.stream.handle
        states, cells = state._address, _address(cell_state)
        weight, bias, projection = (_address(each) for each in weights)
        gates_at, out_at, before_at, cell_before_at, beside_at, recurrent_at = (
            _address(each) for each in (gates, out, before, cell_before, beside, recurrent)
        )
        arrived = _counter(sequence, device_state)
        for first, count, stride, steps, _ in _launches(spans, sequence):
            at, units = first * bytes_of, first * hidden * bytes_of
            own, shown, was = (
                gates_at + at * gates_width,
                out_at + at * size,
                before_at + at * size if keep else 0,
            )
            operands: tuple[int, ...]
            if recurrent_at:
                operands = own, recurrent_at, bias, states, shown, was, beside_at + units if keep else 0
            elif advance is not None:
                result = beside_at + units if keep else beside_at
                operands = own, cells, 0, result, cell_before_at + units if keep else 0, 0
            elif cells:
                operands = own, cells, states, shown, cell_before_at + units if keep else 0, was
            else:
                operands = own, states, shown, was
            if sequence is not None and steps > 1:
                sequence.run(stream, _address(arrived), steps, count, stride, weight, *operands)
                continue
            if recurrent_at:
                into_gates[count](recurrent_at, states, weight)
            else:
                into_gates[count](own, states, weight, 1, 1)
            step(stream, count, *operands)
            if advance is not None:
                into_state[count](shown, operands[3], projection)
                advance(stream, count, shown, states, was)
        return out, Saved(gates, before, cell_before, beside) if before is not None else None

    return run


def _backward_plan(cell: Cell, state: Layout) -> Callable[..., Gradients]:
    """What goes back through time for a contiguous ``state`` of shape ``(batch, size)``.

    ``device_state.plans[operation, cell, state]``: ``run(grad, grad_state, grad_cell, saved, weights, spans, first)``.

    ``grad`` is that of the hidden states of all rows, or ``None``; the gradients of the states are written. ``first``
    says whether that of the first hidden state is wanted. Spans are in the order of the forward pass.
    """
    if not state.device_state.is_cuda:
        return recurrent_on_host.backward(cell, state)
    device_state = state.device_state
    dtype, (batch, size) = state.dtype, state.shape
    native, bytes_of = device_state.native, dtype.itemsize
    projected = bool(cell.projected)
    step = kernels.plan_backward(native, cell.name, dtype, cell.hidden, batch, projected=projected)
    collect = kernels.plan_backward(native, "projection", dtype, size, batch) if projected else None
    sequence = None if projected else sequences.plan_backward(native, cell.name, dtype, cell.hidden, batch)
    local, gates_width, hidden, recurs = device_state.local, cell.gates, cell.hidden, cell.name == "gru"
    into_state = _Products(device_state, dtype, gates_width, size, transposed=False)
    into_units = _Products(device_state, dtype, size, hidden, transposed=False)

    def run(
        grad: Tensor | None,
        grad_state: Tensor,
        grad_cell: Tensor | None,
        saved: Saved,
        weights: Weights,
        spans: Spans,
        first: bool,
    ) -> Gradients:
        rows = saved.gates._layout.shape[0]

        def new(width: int, count: int = rows) -> Tensor:
            return empty(contiguous[(count, width), dtype, device_state])

        grad_gates = new(gates_width)
        grad_recurrent = new(gates_width) if recurs else grad_gates
        grad_out = new(size) if projected else None
        grad_units = new(hidden, batch) if projected else None
        stream = local.stream.handle
        states, cells = grad_state._address, _address(grad_cell)
        weight, projection = weights.hidden._address, _address(weights.projection)
        gates_at, before_at, cell_before_at, beside_at = (_address(each) for each in saved)
        grad_at, made_at, recurrent_at = _address(grad), grad_gates._address, grad_recurrent._address
        collected_at, units_at = _address(grad_out), _address(grad_units)
        arrived = _counter(sequence, device_state)
        for start, count, stride, steps, is_last in _launches(spans[::-1], sequence):
            at, units = start * bytes_of, start * hidden * bytes_of
            own, result = gates_at + at * gates_width, made_at + at * gates_width
            argument = grad_at + at * size if grad_at else 0
            into = recurrent_at + at * gates_width
            goes_on = first or not is_last
            operands: tuple[int, ...]
            if collect is not None:
                operands = units_at, 0, cells, own, cell_before_at + units, result
                collected = collected_at + at * size
                collect(stream, count, argument, states, collected)
                into_units[count](units_at, collected, projection)
            elif recurs:
                operands = argument, states, own, beside_at + units, before_at + at * size, result, into
            elif cells:
                operands = argument, states, cells, own, cell_before_at + units, result
            else:
                operands = argument, states, own, result
            if sequence is not None and steps > 1:
                sequence.run(stream, _address(arrived), steps, count, stride, goes_on, weight, *operands)
                continue
            step(stream, count, *operands)
            if goes_on:
                into_state[count](states, into, weight, 1, int(recurs))
        return Gradients(grad_gates, grad_recurrent, grad_out, grad_state, grad_cell)

    return run


FORWARD, BACKWARD = planned(_forward_plan), planned(_backward_plan)
