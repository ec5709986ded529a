"""Recurrent networks: layers of one or two directions over sequences, and single cells."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tensor.operations.definition import operation
from tensor.operations.random.dropout import dropout as drop
from tensor.operations.shapes.joining import cat, stack

from .cells import Cell
from .recurrent import recur

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


def spans_of(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """First row and number of rows of each step, of which these are the numbers."""
    result, first = [], 0
    for count in sizes:
        result.append((first, count))
        first += count
    return result


def layers(
    name: str,
    data: Tensor,
    sizes: Sequence[int],
    states: Sequence[Tensor | None],
    params: Sequence[Tensor],
    hidden: int,
    *,
    projected: int = 0,
    has_biases: bool = True,
    num_layers: int = 1,
    dropout: float = 0.0,
    train: bool = False,
    bidirectional: bool = False,
) -> tuple[Tensor, ...]:
    """Go through all layers.

    Parameters
    ----------
    name
        ``"rnn_tanh"``, ``"rnn_relu"``, ``"lstm"`` or ``"gru"``.
    data : Tensor
        Of shape (rows, inputs), the rows of all steps one after another.
    sizes
        Rows of each step, which do not grow; those of a sequence have the same rows in each step.
    states
        The first hidden states, of shape (layers * directions, batch, size), and of an ``lstm`` the first cell states;
        ``None`` for zeros.
    params
        Of each layer and direction the weights of input and hidden state, their biases, and the projection.
    hidden, projected
        Units, and size of the hidden state where it is a projection of them.

    Returns
    -------
    tuple of Tensor
        The hidden states of the last layer, of shape (rows, directions * size), and the last states of all.

    Raises
    ------
    RuntimeError
        If dtypes or devices differ, a shape is not the one above, or ``sizes`` grow.
    """
    if any(later > former for former, later in pairwise(sizes)):
        raise RuntimeError(
            f"{name}(): expected numbers of sequences that do not grow from step to step, got {list(sizes)}: make packed "
            "sequences with pack_sequence or pack_padded_sequence"
        )
    cell = Cell(name, hidden, projected)
    forward = spans_of(sizes)
    orders = [forward, forward[::-1]] if bidirectional else [forward]
    each = 4 if has_biases else 2
    parts: Any = [None if state is None else state.unbind(0) for state in states]
    last: list[tuple[Tensor, ...]] = []
    position = 0
    for layer in range(num_layers):
        if layer and dropout and train:
            data = drop(data, dropout, True)
        output = []
        for spans in orders:
            weights: list[Tensor | None] = [*params[position : position + each], *[None] * (4 - each)]
            position += each
            weights.append(params[position] if cell.projected else None)
            position += bool(cell.projected)
            first, *other = [None if part is None else part[len(last)] for part in parts]
            result = recur(cell, data, (first, other[0] if other else None), weights, spans, sizes[0])
            output.append(result[0])
            last.append(result[1:])
        data = output[0] if len(output) == 1 else cat(output, 1)
    return (data, *[_stacked(kind) for kind in zip(*last, strict=True)])


def padded_layers(
    name: str,
    data: Tensor,
    states: Sequence[Tensor | None],
    params: Sequence[Tensor],
    hidden: int,
    *,
    batch_first: bool = False,
    **options: Any,
) -> tuple[Tensor, ...]:
    """:func:`layers` for sequences of the same length, ``(steps, batch, inputs)`` or with ``batch_first`` transposed.

    Raises
    ------
    RuntimeError
        If there are no steps, or as :func:`layers` does.
    """
    if batch_first:
        data = data.transpose(0, 1)
    steps, batch, features = data._layout.shape
    if not steps:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    rows = data.reshape(steps * batch, features)
    out, *last = layers(name, rows, [batch] * steps, states, params, hidden, **options)
    out = out.view(steps, batch, out._layout.shape[1])
    return (out.transpose(0, 1) if batch_first else out, *last)


def _stacked(states: Sequence[Tensor]) -> Tensor:
    return states[0].unsqueeze(0) if len(states) == 1 else stack(states)


def _cell(
    name: str,
    input: Tensor,
    states: tuple[Tensor | None, Tensor | None],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> tuple[Tensor, ...]:
    """The states after one step."""
    hidden = w_hh._layout.shape[-1]
    shape = input._layout.shape
    if len(shape) != 2:
        raise RuntimeError(f"{name}_cell(): expected input of shape (batch, inputs), got {list(shape)}")
    if shape[1] != w_ih._layout.shape[-1]:
        raise RuntimeError(
            f"input has inconsistent input_size: got {shape[1]} expected {w_ih._layout.shape[-1]}"
        )
    for number, state in enumerate(states):
        if state is None:
            continue
        argument = state._layout.shape
        if len(argument) != 2 or argument[1] != hidden:
            raise RuntimeError(
                f"hidden{number} has inconsistent hidden_size: got {argument[-1] if argument else 'no dimension'}, expected "
                f"{hidden}"
            )
        if argument[0] != shape[0]:
            raise RuntimeError(
                f"Input batch size {shape[0]} doesn't match hidden{number} batch size {argument[0]}"
            )
    weights = w_ih, w_hh, b_ih, b_hh, None
    return recur(Cell(name, hidden), input, states, weights, [(0, shape[0])], shape[0])[1:]


@operation(method=False)
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """``tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)``, of shape (batch, hidden).

    Parameters
    ----------
    input : Tensor
        (batch, inputs).
    hx : Tensor
        (batch, hidden).
    w_ih, w_hh : Tensor
        (hidden, inputs) and (hidden, hidden).
    b_ih, b_hh : Tensor, optional
        (hidden,).

    Raises
    ------
    RuntimeError
        If a shape is not the one above.

    Examples
    --------
    >>> w_ih, w_hh = tensor.ones(1, 2), tensor.zeros(1, 1)
    >>> hx = tensor.zeros(1, 1)
    >>> tensor.rnn_tanh_cell(tensor.tensor([[0.25, 0.25]]), hx, w_ih, w_hh)
    tensor([[0.4621]])
    """
    return _cell("rnn_tanh", input, (hx, None), w_ih, w_hh, b_ih, b_hh)[0]


@operation(method=False)
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """``relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)``, of shape (batch, hidden).

    Parameters
    ----------
    input : Tensor
        (batch, inputs).
    hx : Tensor
        (batch, hidden).
    w_ih, w_hh : Tensor
        (hidden, inputs) and (hidden, hidden).
    b_ih, b_hh : Tensor, optional
        (hidden,).

    Raises
    ------
    RuntimeError
        If a shape is not the one above.

    Examples
    --------
    >>> w_ih, w_hh = tensor.ones(1, 2), tensor.zeros(1, 1)
    >>> hx = tensor.zeros(1, 1)
    >>> tensor.rnn_relu_cell(tensor.tensor([[0.25, 0.25]]), hx, w_ih, w_hh)
    tensor([[0.5000]])
    """
    return _cell("rnn_relu", input, (hx, None), w_ih, w_hh, b_ih, b_hh)[0]


@operation(method=False)
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """Hidden state after one step of a gated recurrent unit, (batch, hidden); see :class:`nn.GRUCell`.

    Parameters
    ----------
    input : Tensor
        (batch, inputs).
    hx : Tensor
        (batch, hidden).
    w_ih, w_hh : Tensor
        (3 * hidden, inputs) and (3 * hidden, hidden), in the order reset, update and new gate.
    b_ih, b_hh : Tensor, optional
        (3 * hidden,).

    Raises
    ------
    RuntimeError
        If a shape is not the one above.

    Examples
    --------
    >>> w_ih, w_hh = tensor.ones(3, 2), tensor.zeros(3, 1)
    >>> hx = tensor.zeros(1, 1)
    >>> tensor.gru_cell(tensor.tensor([[0.25, 0.25]]), hx, w_ih, w_hh)
    tensor([[0.1745]])
    """
    return _cell("gru", input, (hx, None), w_ih, w_hh, b_ih, b_hh)[0]


@operation(method=False)
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Hidden and cell state after one step of a long short-term memory; see :class:`nn.LSTMCell`.

    Parameters
    ----------
    input : Tensor
        (batch, inputs).
    hx : sequence of Tensor
        Hidden and cell state, each (batch, hidden).
    w_ih, w_hh : Tensor
        (4 * hidden, inputs) and (4 * hidden, hidden), in the order input, forget, cell and output gate.
    b_ih, b_hh : Tensor, optional
        (4 * hidden,).

    Raises
    ------
    RuntimeError
        If a shape is not the one above.

    Examples
    --------
    >>> w_ih, w_hh = tensor.ones(4, 2), tensor.zeros(4, 1)
    >>> hx = (tensor.zeros(1, 1), tensor.zeros(1, 1))
    >>> tensor.lstm_cell(tensor.tensor([[0.25, 0.25]]), hx, w_ih, w_hh)
    (tensor([[0.1743]]), tensor([[0.2876]]))
    """
    if len(hx) != 2:
        raise RuntimeError(f"lstm_cell expects two hidden states, got {len(hx)}")
    hidden, cell = _cell("lstm", input, (hx[0], hx[1]), w_ih, w_hh, b_ih, b_hh)
    return hidden, cell
