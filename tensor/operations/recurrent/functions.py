"""Recurrent networks as functions of their parameters, as PyTorch has them at the top level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.recurrent import GATES
from tensor.core.base import TensorBase
from tensor.operations.definition import operation

from .layers import layers, padded_layers

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_OPTIONS = ("has_biases", "num_layers", "dropout", "train", "bidirectional")
_PADDED = ("input", "hx", "params", *_OPTIONS, "batch_first")
_PACKED = ("data", "batch_sizes", "hx", "params", *_OPTIONS)


def _bound(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, in one of the two forms."""
    packed = not named.keys().isdisjoint(_PACKED[:2]) or (len(args) > 3 and not isinstance(args[3], bool))
    fields = _PACKED if packed else _PADDED
    result = dict(zip(fields, args, strict=False))
    if len(args) > len(fields) or result.keys() & named.keys() or {*result, *named} != set(fields):
        raise TypeError(
            f"{name}() takes ({', '.join(_PADDED)}) or ({', '.join(_PACKED)}), all of them, but got "
            f"{len(args)} arguments without names and {', '.join(named) or 'none'} with"
        )
    return result | named


def _run(name: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Tensor, ...]:
    argument = _bound(name, args, named)
    states, params = argument["hx"], list(argument["params"])
    states = (states,) if isinstance(states, TensorBase) else tuple(states)
    if len(states) != 1 + (name == "lstm"):
        raise RuntimeError(
            f"{name} expects {'two hidden states' if name == 'lstm' else 'one hidden state'}, got {len(states)}"
        )
    directions = argument["num_layers"] * (1 + argument["bidirectional"])
    each = 4 if argument["has_biases"] else 2
    if name == "lstm" and len(params) == directions * (each + 1):
        each += 1
    if not params or len(params) != directions * each:
        raise RuntimeError(
            f"{name}(): expected {directions * each} parameters for {argument['num_layers']} layers, {each} for each of their "
            f"directions, got {len(params)}"
        )
    rows, size = params[1]._layout.shape
    options = {
        "hidden": rows // GATES[name],
        "projected": size if each % 2 else 0,
        **{option: argument[option] for option in _OPTIONS},
    }
    if "data" in argument:
        return layers(name, argument["data"], argument["batch_sizes"].tolist(), states, params, **options)
    x = argument["input"]
    if x.dim() != 3:
        raise RuntimeError(f"{name}(): expected input of 3 dimensions, got {x.dim()}")
    return padded_layers(name, x, states, params, batch_first=argument["batch_first"], **options)


@operation(method=False)
def lstm(*args: Any, **named: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Layers of a long short-term memory; see :class:`nn.LSTM`.

    ``lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`` for input of shape
    (T, B, features), or (B, T, features) with ``batch_first``; ``lstm(data, batch_sizes, hx, params, has_biases,
    num_layers, dropout, train, bidirectional)`` for packed sequences.

    Parameters
    ----------
    hx : sequence of Tensor
        Hidden and cell state, each (layers * directions, B, hidden).
    params : sequence of Tensor
        For each layer and direction ``w_ih``, ``w_hh`` and with ``has_biases`` ``b_ih`` and ``b_hh``, and for
        projections ``w_hr``.

    Returns
    -------
    tuple of Tensor
        The outputs of the last layer, (T, B, directions * hidden), and the last hidden and cell states.

    Raises
    ------
    TypeError
        If arguments are missing or unknown.
    RuntimeError
        If there are not as many states or parameters as the options ask for, a shape is not the one above, or there
        are no steps.

    Examples
    --------
    >>> params = [tensor.zeros(4, 2), tensor.zeros(4, 1)]
    >>> hx = (tensor.zeros(1, 4, 1), tensor.zeros(1, 4, 1))
    >>> output, hidden, cell = tensor.lstm(tensor.ones(3, 4, 2), hx, params, False, 1, 0.0, False, False, False)
    >>> output.shape
    tensor.Size([3, 4, 1])
    """
    out, hidden, cell = _run("lstm", args, named)
    return out, hidden, cell


@operation(method=False)
def gru(*args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """Layers of gated recurrent units; see :class:`nn.GRU`.

    ``gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`` for input of shape
    (T, B, features), or (B, T, features) with ``batch_first``; ``gru(data, batch_sizes, hx, params, has_biases,
    num_layers, dropout, train, bidirectional)`` for packed sequences.

    Parameters
    ----------
    hx : Tensor
        Hidden state (layers * directions, B, hidden).
    params : sequence of Tensor
        For each layer and direction ``w_ih``, ``w_hh`` and with ``has_biases`` ``b_ih`` and ``b_hh``.

    Returns
    -------
    tuple of Tensor
        The outputs of the last layer, (T, B, directions * hidden), and the last hidden state.

    Raises
    ------
    TypeError
        If arguments are missing or unknown.
    RuntimeError
        If there are not as many states or parameters as the options ask for, a shape is not the one above, or there
        are no steps.

    Examples
    --------
    >>> params = [tensor.zeros(3, 2), tensor.zeros(3, 1)]
    >>> hx = tensor.zeros(1, 4, 1)
    >>> output, hidden = tensor.gru(tensor.ones(3, 4, 2), hx, params, False, 1, 0.0, False, False, False)
    >>> output.shape
    tensor.Size([3, 4, 1])
    """
    out, hidden = _run("gru", args, named)
    return out, hidden


@operation(method=False)
def rnn_tanh(*args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """Layers of an Elman network with tanh; see :class:`nn.RNN`.

    ``rnn_tanh(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`` for input of
    shape (T, B, features), or (B, T, features) with ``batch_first``; ``rnn_tanh(data, batch_sizes, hx, params,
    has_biases, num_layers, dropout, train, bidirectional)`` for packed sequences.

    Parameters
    ----------
    hx : Tensor
        Hidden state (layers * directions, B, hidden).
    params : sequence of Tensor
        For each layer and direction ``w_ih``, ``w_hh`` and with ``has_biases`` ``b_ih`` and ``b_hh``.

    Returns
    -------
    tuple of Tensor
        The outputs of the last layer, (T, B, directions * hidden), and the last hidden state.

    Raises
    ------
    TypeError
        If arguments are missing or unknown.
    RuntimeError
        If there are not as many states or parameters as the options ask for, a shape is not the one above, or there
        are no steps.

    Examples
    --------
    >>> params = [tensor.zeros(1, 2), tensor.zeros(1, 1)]
    >>> hx = tensor.zeros(1, 4, 1)
    >>> output, hidden = tensor.rnn_tanh(tensor.ones(3, 4, 2), hx, params, False, 1, 0.0, False, False, False)
    >>> output.shape
    tensor.Size([3, 4, 1])
    """
    out, hidden = _run("rnn_tanh", args, named)
    return out, hidden


@operation(method=False)
def rnn_relu(*args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """Layers of an Elman network with the rectifier; see :class:`nn.RNN`.

    ``rnn_relu(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`` for input of
    shape (T, B, features), or (B, T, features) with ``batch_first``; ``rnn_relu(data, batch_sizes, hx, params,
    has_biases, num_layers, dropout, train, bidirectional)`` for packed sequences.

    Parameters
    ----------
    hx : Tensor
        Hidden state (layers * directions, B, hidden).
    params : sequence of Tensor
        For each layer and direction ``w_ih``, ``w_hh`` and with ``has_biases`` ``b_ih`` and ``b_hh``.

    Returns
    -------
    tuple of Tensor
        The outputs of the last layer, (T, B, directions * hidden), and the last hidden state.

    Raises
    ------
    TypeError
        If arguments are missing or unknown.
    RuntimeError
        If there are not as many states or parameters as the options ask for, a shape is not the one above, or there
        are no steps.

    Examples
    --------
    >>> params = [tensor.zeros(1, 2), tensor.zeros(1, 1)]
    >>> hx = tensor.zeros(1, 4, 1)
    >>> output, hidden = tensor.rnn_relu(tensor.ones(3, 4, 2), hx, params, False, 1, 0.0, False, False, False)
    >>> output.shape
    tensor.Size([3, 4, 1])
    """
    out, hidden = _run("rnn_relu", args, named)
    return out, hidden
