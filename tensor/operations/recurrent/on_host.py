"""The steps of one direction of a recurrent layer with NumPy; see :mod:`.on_device`.

They are computed, and what they keep is kept, in single precision where the tensors have half of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.base import wrap
from tensor.core.dtypes import promotion as rules
from tensor.core.host.memory import empty_array
from tensor.core.layout import contiguous
from tensor.operations.normalization.row_normalization import in_compute_dtype, tensor_of
from tensor.operations.special.logistic import logistic_on_host

from . import lstm_on_host
from .cells import Gradients, Saved

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .cells import Cell, Spans, Weights

    Array = NDArray[Any]

#: Elements of gates that are worked on at a time.
_BLOCK = 1 << 15


def _array(x: Tensor | None) -> Array | None:
    return None if x is None else in_compute_dtype(x)


def _parts(gates: Array, hidden: int) -> list[Array]:
    """The gates one by one, as views."""
    return [gates[:, at : at + hidden] for at in range(0, gates.shape[1], hidden)]


def forward(
    cell: Cell, state: Layout, keep: bool
) -> Callable[[Tensor, Tensor, Tensor | None, Weights, Spans], tuple[Tensor, Saved | None]]:
    """What :data:`.on_device.FORWARD` plans for the CPU."""
    dtype, hidden, size = state.dtype, cell.hidden, cell.size
    compute_dtype = rules.computes_in(dtype)

    def run(
        gates: Tensor, state: Tensor, cell_state: Tensor | None, weights: Weights, spans: Spans
    ) -> tuple[Tensor, Saved | None]:
        every = np.array(in_compute_dtype(gates)) if dtype is not compute_dtype else gates._writable
        states, cells = np.array(in_compute_dtype(state)), _array(cell_state)
        cells = None if cells is None else np.array(cells)
        weight, bias, projection = (_array(each) for each in weights)
        assert weight is not None
        # BLAS packs it again in each step, which takes longer of columns.
        weight = np.ascontiguousarray(weight.T) if len(spans) > 1 else weight.T
        rows = len(every)

        def new(width: int) -> Array:
            return empty_array((rows, width), compute_dtype.numpy)

        out, before = new(size), new(size) if keep else None
        cell_before = new(hidden) if keep and cells is not None else None
        beside = new(hidden) if keep and (projection is not None or cell.name == "gru") else None
        steps = spans
        if (
            cell.name == "lstm"
            and projection is None
            and cells is not None
            and lstm_on_host.forward(every, states, cells, weight, spans, out, before, cell_before)
        ):
            steps = ()
        with np.errstate(all="ignore"):
            for first, count in steps:
                here = slice(first, first + count)
                own, h = every[here], states[:count]
                product = h @ weight
                if before is not None:
                    before[here] = h
                if cell.name == "gru":
                    if bias is not None:
                        product += bias
                    candidate = product[:, 2 * hidden :]
                    if beside is not None:
                        beside[here] = candidate
                    result = _gru(own, product, candidate, h, hidden)
                elif cells is not None:
                    own += product
                    c = cells[:count]
                    if cell_before is not None:
                        cell_before[here] = c
                    result = _lstm(own, c, hidden)
                    if projection is not None:
                        if beside is not None:
                            beside[here] = result
                        result = result @ projection.T
                else:
                    own += product
                    result = np.tanh(own, out=own) if cell.name == "rnn_tanh" else np.maximum(own, 0, out=own)
                h[...] = result
                out[here] = result
        _deliver(state, states)
        if cell_state is not None and cells is not None:
            _deliver(cell_state, cells)
        saved = None
        if before is not None:
            saved = Saved(wrap(every), wrap(before), _optional(cell_before), _optional(beside))
        layout = contiguous[(rows, size), dtype, state._layout.device_state]
        return tensor_of(out, layout, fresh=True), saved

    return run


def _gru(own: Array, product: Array, candidate: Array, h: Array, hidden: int) -> Array:
    """New state; the gates are activated in place."""
    both, new = own[:, : 2 * hidden], own[:, 2 * hidden :]
    both += product[:, : 2 * hidden]
    logistic_on_host(both, both)
    reset, stay = _parts(both, hidden)
    new += reset * candidate
    np.tanh(new, out=new)
    result: Array = h - new
    result *= stay
    result += new
    return result


def _lstm(own: Array, c: Array, hidden: int) -> Array:
    """Units; the gates are activated and the cell state is changed in place."""
    i, f, g, o = _parts(own, hidden)
    value = np.tanh(g)
    # Of all at once: fewer calls are worth more than a quarter that is thrown away.
    logistic_on_host(own, own)
    g[...] = value
    value *= i
    c *= f
    c += value
    result: Array = np.tanh(c)
    result *= o
    return result


def _optional(array: Array | None) -> Tensor | None:
    return None if array is None else wrap(array)


def _deliver(to: Tensor, array: Array) -> None:
    to._writable[...] = tensor_of(array, to._layout)._host


def backward(cell: Cell, state: Layout) -> Callable[..., Gradients]:
    """What :data:`.on_device.BACKWARD` plans for the CPU.

    What the gradients of gates are multiples of is computed for all steps at once; that leaves little for each step.
    """
    dtype, hidden, size, device_state = state.dtype, cell.hidden, cell.size, state.device_state

    def run(
        grad: Tensor | None,
        grad_state: Tensor,
        grad_cell: Tensor | None,
        saved: Saved,
        weights: Weights,
        spans: Spans,
        first: bool,
    ) -> Gradients:
        argument, states, cells = _array(grad), np.array(in_compute_dtype(grad_state)), _array(grad_cell)
        cells = None if cells is None else np.array(cells)
        gates, before, cell_before, beside = (_array(each) for each in saved)
        weight, _, projection = (_array(each) for each in weights)
        assert gates is not None
        assert weight is not None
        result = empty_array(gates.shape, gates.dtype)
        recurrent = result
        parts = result.reshape(len(result), result.shape[1] // hidden, hidden)
        projected = None if projection is None else np.empty((len(gates), size), gates.dtype)
        with np.errstate(all="ignore"):
            into_cell: Array | None = None
            if cell.name == "gru":
                assert before is not None
                assert beside is not None
                recurrent = _gru_factors(gates, before, beside, result, hidden)
                others = recurrent.reshape(parts.shape)
            elif cell.name == "lstm":
                assert cells is not None
                assert cell_before is not None
                if projection is None and lstm_on_host.backward(
                    argument, states, cells, gates, cell_before, weight, spans, result
                ):
                    spans = ()
                else:
                    into_cell = _lstm_factors(gates, cell_before, result, hidden)
            elif cell.name == "rnn_tanh":
                np.multiply(gates, gates, out=result)
                np.subtract(1, result, out=result)
            for start, count in reversed(spans):
                here = slice(start, start + count)
                own, later = parts[here], states[:count]
                h = later if argument is None else later + argument[here]
                if projected is not None and projection is not None:
                    projected[here] = h
                    h = h @ projection
                if cell.name == "gru":
                    own *= h[:, None]
                    others[here] *= h[:, None]
                    through = h * gates[here, hidden : 2 * hidden]
                    through += recurrent[here] @ weight
                    later[...] = through
                    continue
                if cells is not None and into_cell is not None:
                    c = cells[:count]
                    c += h * into_cell[here]
                    own[:, :3] *= c[:, None]
                    own[:, 3] *= h
                    c *= gates[here, hidden : 2 * hidden]
                elif cell.name == "rnn_tanh":
                    own[:, 0] *= h
                else:
                    own[:, 0] = np.where(gates[here] > 0, h, 0)
                np.matmul(result[here], weight, out=later)
        _deliver(grad_state, states)
        if grad_cell is not None and cells is not None:
            _deliver(grad_cell, cells)
        of_gates = tensor_of(result, contiguous[result.shape, dtype, device_state], fresh=True)
        of_recurrent = of_gates if recurrent is result else tensor_of(recurrent, of_gates._layout)
        of_projected = None
        if projected is not None:
            of_projected = tensor_of(projected, contiguous[projected.shape, dtype, device_state])
        return Gradients(of_gates, of_recurrent, of_projected, grad_state, grad_cell)

    return run


def _lstm_factors(gates: Array, cell_before: Array, result: Array, hidden: int) -> Array:
    """What the gradient of the new cell state is to be multiplied with for that of i, f and g, and that of h for o.

    It gives what the gradient of h is to be multiplied with for that of the cell state.
    """
    shown: Array = empty_array((len(gates), hidden), gates.dtype)
    # Some rows at a time stay in a cache.
    step = max(_BLOCK // gates.shape[1], 1)
    for start in range(0, len(gates), step):
        rows = slice(start, start + step)
        _lstm_factors_of(gates[rows], cell_before[rows], result[rows], shown[rows], hidden)
    return shown


def _lstm_factors_of(gates: Array, cell_before: Array, result: Array, shown: Array, hidden: int) -> None:
    i, f, g, o = _parts(gates, hidden)
    of_i, of_f, of_g, of_o = _parts(result, hidden)
    np.multiply(f, cell_before, out=shown)
    np.multiply(i, g, out=of_g)
    shown += of_g
    np.tanh(shown, out=shown)
    np.subtract(1, gates, out=result)
    result *= gates
    of_i *= g
    of_f *= cell_before
    of_o *= shown
    np.multiply(g, g, out=of_g)
    np.subtract(1, of_g, out=of_g)
    of_g *= i
    np.multiply(shown, shown, out=shown)
    np.subtract(1, shown, out=shown)
    shown *= o


def _gru_factors(gates: Array, before: Array, candidate: Array, result: Array, hidden: int) -> Array:
    """What the gradient of h is to be multiplied with for that of the gates.

    It gives the same for their part that comes from the state.
    """
    reset, stay, new = _parts(gates, hidden)
    of_reset, of_stay, of_new = _parts(result, hidden)
    np.multiply(1 - stay, 1 - new * new, out=of_new)
    np.multiply(of_new * candidate, reset * (1 - reset), out=of_reset)
    np.multiply(before - new, stay * (1 - stay), out=of_stay)
    recurrent = result.copy()
    recurrent[:, 2 * hidden :] *= reset
    return recurrent
