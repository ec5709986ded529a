"""A direction of a recurrent layer as operations that have derivatives themselves: what second derivatives go through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.layout import contiguous
from tensor.core.plans.fills import filled
from tensor.operations.products.linear import linear
from tensor.operations.shapes.joining import cat

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

    from .cells import Cell, Spans


def composed(
    data: Tensor,
    state: Tensor | None,
    cell_state: Tensor | None,
    of_input: Tensor,
    of_hidden: Tensor,
    input_bias: Tensor | None,
    hidden_bias: Tensor | None,
    projection: Tensor | None,
    cell: Cell,
    spans: Spans,
    batch: int,
) -> tuple[Tensor, ...]:
    """What :func:`.recurrent.recur` gives."""
    dtype, device_state = data._layout.dtype, data._layout.device_state
    gates = linear(data, of_input, input_bias)
    h = filled(contiguous[(batch, cell.size), dtype, device_state], 0) if state is None else state
    c: Any = None
    if cell.name == "lstm":
        c = (
            filled(contiguous[(batch, cell.hidden), dtype, device_state], 0)
            if cell_state is None
            else cell_state
        )
    rows: dict[int, Tensor] = {}
    for first, count in spans:
        now, own = h[:count], gates[first : first + count]
        result, new_cell = _step(
            cell, own, linear(now, of_hidden, hidden_bias), now, None if c is None else c[:count]
        )
        if projection is not None:
            result = linear(result, projection)
        rows[first] = result
        # States of sequences that are over, or have not begun, stay.
        h = result if count == batch else cat((result, h[count:]))
        if c is not None:
            c = new_cell if count == batch else cat((new_cell, c[count:]))
    out = cat([rows[first] for first in sorted(rows)])
    return (out, h) if c is None else (out, h, c)


def _step(cell: Cell, own: Any, other: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """New hidden state, and cell state where there is one."""
    if cell.name == "gru":
        of_reset, of_stay, of_new = own.chunk(3, 1)
        reset, stay, candidate = other.chunk(3, 1)
        new = (of_new + (of_reset + reset).sigmoid() * candidate).tanh()
        return new + (of_stay + stay).sigmoid() * (h - new), None
    gates = own + other
    if cell.name == "lstm":
        i, f, g, o = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
    return gates.tanh() if cell.name == "rnn_tanh" else gates.relu(), None
