"""The steps of one direction of a recurrent layer with NumPy; see :mod:`.recurrent_steps`.

They are computed, and what they keep is kept, in single precision where the tensors have half of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import wrap
from ..layout import contiguous
from ..operations import rules
from .recurrent_cells import Gradients, Kept
from .row_normalization import tensor_of, wide_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ..layout import Layout
    from ..tensors import Tensor
    from .recurrent_cells import Cell, Spans, Weights

    Array = NDArray[Any]


def _array(x: Tensor | None) -> Array | None:
    return None if x is None else wide_array(x)


def _sigmoid(x: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-x))
    return found


def _parts(gates: Array, hidden: int) -> list[Array]:
    """The gates one by one, as views."""
    return [gates[:, at : at + hidden] for at in range(0, gates.shape[1], hidden)]


def forward(
    cell: Cell, state: Layout, keep: bool
) -> Callable[[Tensor, Tensor, Tensor | None, Weights, Spans], tuple[Tensor, Kept | None]]:
    """What :data:`.recurrent_steps.FORWARD` plans for the CPU."""
    kind, hidden, size = state.dtype, cell.hidden, cell.size
    wide = rules.computes_in(kind)

    def run(
        gates: Tensor, state: Tensor, cell_state: Tensor | None, weights: Weights, spans: Spans
    ) -> tuple[Tensor, Kept | None]:
        every = np.array(wide_array(gates)) if kind is not wide else gates._writable
        states, cells = np.array(wide_array(state)), _array(cell_state)
        cells = None if cells is None else np.array(cells)
        weight, bias, projection = (_array(each) for each in weights)
        assert weight is not None
        rows = len(every)

        def new(width: int) -> Array:
            return np.empty((rows, width), wide.numpy)

        out, before = new(size), new(size) if keep else None
        cell_before = new(hidden) if keep and cells is not None else None
        beside = new(hidden) if keep and (projection is not None or cell.name == "gru") else None
        with np.errstate(all="ignore"):
            for first, count in spans:
                here = slice(first, first + count)
                own, h = every[here], states[:count]
                product = h @ weight.T
                if before is not None:
                    before[here] = h
                if cell.name == "gru":
                    if bias is not None:
                        product += bias
                    reset, stay, new_gate = _parts(own, hidden)
                    from_reset, from_stay, candidate = _parts(product, hidden)
                    reset[...] = _sigmoid(reset + from_reset)
                    stay[...] = _sigmoid(stay + from_stay)
                    new_gate[...] = np.tanh(new_gate + reset * candidate)
                    made = new_gate + stay * (h - new_gate)
                    if beside is not None:
                        beside[here] = candidate
                elif cells is not None:
                    own += product
                    i, f, g, o = _parts(own, hidden)
                    for part in (i, f, o):
                        part[...] = _sigmoid(part)
                    np.tanh(g, out=g)
                    c = cells[:count]
                    if cell_before is not None:
                        cell_before[here] = c
                    c[...] = f * c + i * g
                    made = o * np.tanh(c)
                    if projection is not None:
                        if beside is not None:
                            beside[here] = made
                        made = made @ projection.T
                else:
                    own += product
                    made = np.tanh(own, out=own) if cell.name == "rnn_tanh" else np.maximum(own, 0, out=own)
                h[...] = made
                out[here] = made
        _deliver(state, states)
        if cell_state is not None and cells is not None:
            _deliver(cell_state, cells)
        kept = None
        if before is not None:
            kept = Kept(_wide(every), _wide(before), _optional(cell_before), _optional(beside))
        return tensor_of(out, contiguous[(rows, size), kind, state._layout.place]), kept

    return run


def _wide(array: Array) -> Tensor:
    """A tensor of the elements as they are."""
    return wrap(array)


def _optional(array: Array | None) -> Tensor | None:
    return None if array is None else _wide(array)


def _deliver(to: Tensor, array: Array) -> None:
    to._writable[...] = tensor_of(array, to._layout)._host


def backward(cell: Cell, state: Layout) -> Callable[..., Gradients]:
    """What :data:`.recurrent_steps.BACKWARD` plans for the CPU."""
    kind, hidden, size, place = state.dtype, cell.hidden, cell.size, state.place

    def run(
        grad: Tensor | None,
        grad_state: Tensor,
        grad_cell: Tensor | None,
        kept: Kept,
        weights: Weights,
        spans: Spans,
        first: bool,
    ) -> Gradients:
        given, states, cells = _array(grad), np.array(wide_array(grad_state)), _array(grad_cell)
        cells = None if cells is None else np.array(cells)
        gates, before, cell_before, beside = (_array(each) for each in kept)
        weight, _, projection = (_array(each) for each in weights)
        assert gates is not None
        assert weight is not None
        made = np.empty_like(gates)
        recurrent = np.empty_like(gates) if cell.name == "gru" else made
        projected = None if projection is None else np.empty((len(gates), size), gates.dtype)
        with np.errstate(all="ignore"):
            for start, count in reversed(spans):
                here = slice(start, start + count)
                own, later = gates[here], states[:count]
                h = later if given is None else later + given[here]
                if projected is not None and projection is not None:
                    projected[here] = h
                    h = h @ projection
                if cell.name == "gru":
                    assert before is not None
                    assert beside is not None
                    reset, stay, new = _parts(own, hidden)
                    of_new = h * (1 - stay) * (1 - new * new)
                    for into, last in ((made[here], of_new), (recurrent[here], of_new * reset)):
                        of_reset, of_stay, of_last = _parts(into, hidden)
                        of_reset[...] = of_new * beside[here] * reset * (1 - reset)
                        of_stay[...] = h * (before[here] - new) * stay * (1 - stay)
                        of_last[...] = last
                    later[...] = h * stay + recurrent[here] @ weight
                    continue
                if cells is not None and cell_before is not None:
                    i, f, g, o = _parts(own, hidden)
                    was, c = cell_before[here], cells[:count]
                    shown = np.tanh(f * was + i * g)
                    c += h * o * (1 - shown * shown)
                    of_i, of_f, of_g, of_o = _parts(made[here], hidden)
                    of_i[...] = c * g * i * (1 - i)
                    of_f[...] = c * was * f * (1 - f)
                    of_g[...] = c * i * (1 - g * g)
                    of_o[...] = h * shown * o * (1 - o)
                    c *= f
                elif cell.name == "rnn_tanh":
                    made[here] = h * (1 - own * own)
                else:
                    made[here] = np.where(own > 0, h, 0)
                later[...] = made[here] @ weight
        _deliver(grad_state, states)
        if grad_cell is not None and cells is not None:
            _deliver(grad_cell, cells)
        of_gates = tensor_of(made, contiguous[made.shape, kind, place])
        of_recurrent = of_gates if recurrent is made else tensor_of(recurrent, of_gates._layout)
        of_projected = None
        if projected is not None:
            of_projected = tensor_of(projected, contiguous[projected.shape, kind, place])
        return Gradients(of_gates, of_recurrent, of_projected, grad_state, grad_cell)

    return run
