"""The steps of one direction of a recurrent layer, on a device: products of matrices, and a kernel after each.

Rows of all steps lie one after another, those of the first step first. A step has the first so many rows of the
batch (all of them, but in packed sequences), so that states are always the first rows of one matrix, which the
steps go on with in place. On the CPU the same is in :mod:`.on_host`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import recurrent as kernels
from tensor.core.base import empty
from tensor.core.layout import contiguous
from tensor.core.plans import planned
from tensor.operations.products import blas

from . import on_host as recurrent_on_host
from .cells import Gradients, Saved

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvrtc_kernels.dtypes import dtype
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
        for first, count in spans:
            if not count:
                continue
            at, units = first * bytes_of, first * hidden * bytes_of
            own, shown, was = (
                gates_at + at * gates_width,
                out_at + at * size,
                before_at + at * size if keep else 0,
            )
            if recurrent_at:
                into_gates[count](recurrent_at, states, weight)
                candidate = beside_at + units if keep else 0
                step(stream, count, own, recurrent_at, bias, states, shown, was, candidate)
                continue
            into_gates[count](own, states, weight, 1, 1)
            if advance is not None:
                result = beside_at + units if keep else beside_at
                step(stream, count, own, cells, 0, result, cell_before_at + units if keep else 0, 0)
                into_state[count](shown, result, projection)
                advance(stream, count, shown, states, was)
            elif cells:
                step(stream, count, own, cells, states, shown, cell_before_at + units if keep else 0, was)
            else:
                step(stream, count, own, states, shown, was)
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
        last = len(spans) - 1
        for number, (start, count) in enumerate(reversed(spans)):
            if not count:
                continue
            at, units = start * bytes_of, start * hidden * bytes_of
            own, result = gates_at + at * gates_width, made_at + at * gates_width
            argument = grad_at + at * size if grad_at else 0
            if collect is not None:
                collected = collected_at + at * size
                collect(stream, count, argument, states, collected)
                into_units[count](units_at, collected, projection)
                step(stream, count, units_at, 0, cells, own, cell_before_at + units, result)
            elif recurs:
                into = recurrent_at + at * gates_width
                was = before_at + at * size
                step(stream, count, argument, states, own, beside_at + units, was, result, into)
            elif cells:
                step(stream, count, argument, states, cells, own, cell_before_at + units, result)
            else:
                step(stream, count, argument, states, own, result)
            if first or number < last:
                into_state[count](states, recurrent_at + at * gates_width, weight, 1, int(recurs))
        return Gradients(grad_gates, grad_recurrent, grad_out, grad_state, grad_cell)

    return run


FORWARD, BACKWARD = planned(_forward_plan), planned(_backward_plan)
