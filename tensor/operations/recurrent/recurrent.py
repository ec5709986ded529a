"""One direction of one layer of a recurrent network: the operation, with one node in the graph.

The input is multiplied with its weights for all steps at once, and so are gradients with what they go through; what
is left for the steps is in :mod:`.on_device` and :mod:`.on_host`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.autograd.recording.recorder import BackwardFormula, Composition, Derivative
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import modes, unrecorded
from tensor.core.plans.copies import copied
from tensor.core.plans.fills import filled
from tensor.operations.autocast import LOWER, Autocast
from tensor.operations.definition import autocasted
from tensor.operations.products.linear import linear
from tensor.operations.products.matrix_products import check_operands, mm

from .cells import Saved, Weights
from .composed import composed
from .on_device import BACKWARD, FORWARD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .cells import Cell, Spans


@autocasted(Autocast(cuda=LOWER, cpu=LOWER))
def recur(
    cell: Cell,
    data: Tensor,
    states: tuple[Tensor | None, Tensor | None],
    weights: Sequence[Tensor | None],
    spans: Spans,
    batch: int,
) -> tuple[Tensor, ...]:
    """Hidden states of all rows, and the states after the last step of each sequence.

    Parameters
    ----------
    data : Tensor
        Of shape (rows, inputs), the rows of all steps one after another.
    states
        Hidden state of shape (batch, size), and cell state of shape (batch, hidden) of an ``lstm``; ``None`` for zeros.
    weights
        Of the input, of the hidden state, the biases of both, and the projection; ``None`` where there is none.
    spans
        Where the rows of each step are.
    batch
        Rows that a step has at most.

    Returns
    -------
    tuple of Tensor
        Of shapes (rows, size), (batch, size) and, of an ``lstm``, (batch, hidden).

    Raises
    ------
    RuntimeError
        If dtypes or devices are not the same, or a shape is not the one above.
    """
    argument = (data, *states, *weights)
    check_operands(cell.name, *[x for x in argument if x is not None])
    _check_shapes(cell, argument, sum(count for _, count in spans), batch)
    dtype = data._layout.dtype
    if not dtype.is_floating_point:
        raise NotImplementedError(f'"{cell.name}" not implemented for {dtype!r}')
    keep = modes.recording and any(x is not None and x.requires_grad for x in argument)
    with unrecorded():
        result, saved = _forward(cell, data, states, weights, spans, batch, keep)
    if saved is not None:
        _FORMULAS[cell.name].record(result, argument, saved, (cell, spans, batch))
    return result


#: What there may be beside the data.
_NAMES = ("hx", "cx", "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")


def _check_shapes(cell: Cell, argument: Sequence[Tensor | None], rows: int, batch: int) -> None:
    """Raise RuntimeError if anything has another shape than the steps go by."""
    data, *others = argument
    assert data is not None
    shape = data._layout.shape
    if len(shape) != 2 or shape[0] != rows:
        raise RuntimeError(
            f"{cell.name}(): expected data of shape ({rows}, inputs), as the steps have {rows} rows together, got "
            f"{list(shape)}"
        )
    gates, size, hidden = cell.gates, cell.size, cell.hidden
    needed = (
        (batch, size),
        (batch, hidden),
        (gates, shape[1]),
        (gates, size),
        (gates,),
        (gates,),
        (cell.projected, hidden),
    )
    for name, each, expected in zip(_NAMES, others, needed, strict=True):
        if each is not None and tuple(each._layout.shape) != expected:
            raise RuntimeError(
                f"{cell.name}(): expected {name} of shape {list(expected)} for {hidden} units and input of shape "
                f"{list(shape)}, got {list(each._layout.shape)}"
            )


def _forward(
    cell: Cell,
    data: Tensor,
    states: tuple[Tensor | None, Tensor | None],
    weights: Sequence[Tensor | None],
    spans: Spans,
    batch: int,
    keep: bool,
) -> tuple[tuple[Tensor, ...], Saved | None]:
    of_input, _, input_bias, hidden_bias, _ = weights
    assert of_input is not None
    plain = _plain(weights)
    bias = input_bias
    if cell.name != "gru" and input_bias is not None and hidden_bias is not None:
        bias = input_bias + hidden_bias
        plain = plain._replace(bias=None)
    gates = linear(data, of_input, bias).contiguous()
    state, cell_state = _started(states, cell, batch, data._layout)
    run = data._layout.device_state.plans[FORWARD, cell, state._layout, keep]
    out, saved = run(gates, state, cell_state, plain, spans)
    _count_writes(gates, state, cell_state)
    return ((out, state) if cell_state is None else (out, state, cell_state)), saved


def _count_writes(*tensors: Tensor | None) -> None:
    """Note that a plan has written to ``tensors``."""
    for x in tensors:
        if x is not None:
            x._storage.version += 1


def _plain(weights: Sequence[Tensor | None]) -> Weights:
    """What the steps multiply with."""
    _, hidden, _, bias, projection = (None if x is None else x.contiguous() for x in weights)
    assert hidden is not None
    return Weights(hidden, bias, projection)


def _started(
    argument: Sequence[Tensor | None], cell: Cell, batch: int, data: Layout
) -> tuple[Tensor, Tensor | None]:
    """Hidden state and, of an ``lstm``, cell state that the steps may write; or gradients of them."""
    result = []
    for each, size in zip(argument, (cell.size, cell.hidden)[: 1 + (cell.name == "lstm")], strict=False):
        layout = contiguous[(batch, size), data.dtype, data.device_state]
        result.append(filled(layout, 0) if each is None else copied(each, layout))
    return result[0], result[1] if len(result) == 2 else None


def _gradients(
    expected: tuple[bool, ...],
    grads: Sequence[Tensor | None],
    data: Tensor,
    state: Tensor | None,
    cell_state: Tensor | None,
    of_input: Tensor,
    of_hidden: Tensor,
    input_bias: Tensor | None,
    hidden_bias: Tensor | None,
    projection: Tensor | None,
    gates: Tensor,
    before: Tensor,
    cell_before: Tensor | None,
    beside: Tensor | None,
    cell: Cell,
    spans: Spans,
    batch: int,
) -> tuple[Tensor | None, ...]:
    weights = of_input, of_hidden, input_bias, hidden_bias, projection
    dtype, device_state = data._layout.dtype, data._layout.device_state
    grad_state, grad_cell = _started(grads[1:], cell, batch, data._layout)
    grad = grads[0]
    if grad is not None:
        grad = grad.contiguous()
        if device_state.is_cuda and grad._address % 16:
            grad = grad.clone()
    saved = Saved(gates, before, cell_before, beside)
    run = device_state.plans[BACKWARD, cell, grad_state._layout]
    result = run(grad, grad_state, grad_cell, saved, _plain(weights), spans, expected[1])
    _count_writes(grad_state, grad_cell)
    return (
        mm(result.gates, of_input) if expected[0] else None,
        result.state if expected[1] else None,
        result.cell if expected[2] else None,
        mm(result.gates.t(), data) if expected[3] else None,
        mm(result.recurrent.t(), before.to(dtype)) if expected[4] else None,
        result.gates.sum(0) if expected[5] else None,
        result.recurrent.sum(0) if expected[6] else None,
        mm(result.projected.t(), beside.to(dtype)) if expected[7] and beside is not None else None,
    )


_FORMULAS = {
    name: BackwardFormula(
        node,
        "data hx cx weight_ih weight_hh bias_ih bias_hh weight_hr gates before cell_before beside",
        joint=Derivative(
            _gradients,
            needs="data hx cx weight_ih weight_hh bias_ih bias_hh weight_hr gates before cell_before beside",
        ),
        composition=Composition(composed, needs="data hx cx weight_ih weight_hh bias_ih bias_hh weight_hr"),
    )
    for name, node in (
        ("rnn_tanh", "RnnTanhBackward0"),
        ("rnn_relu", "RnnReluBackward0"),
        ("lstm", "LstmBackward0"),
        ("gru", "GruBackward0"),
    )
}
