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

    ``lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`` for (T, B, features),
    or ``lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)`` for packed sequences.

    Returns
    -------
    tuple of Tensor
        Output, and the last hidden and cell states.
    """
    out, hidden, cell = _run("lstm", args, named)
    return out, hidden, cell


@operation(method=False)
def gru(*args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """Layers of gated recurrent units: arguments as :func:`lstm`, with one state. See :class:`nn.GRU`."""
    out, hidden = _run("gru", args, named)
    return out, hidden


@operation(method=False)
def rnn_tanh(*args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """Layers of an Elman network with tanh: arguments as :func:`lstm`, with one state. See :class:`nn.RNN`."""
    out, hidden = _run("rnn_tanh", args, named)
    return out, hidden


@operation(method=False)
def rnn_relu(*args: Any, **named: Any) -> tuple[Tensor, Tensor]:
    """Layers of an Elman network with the rectifier: arguments as :func:`lstm`, with one state. See :class:`nn.RNN`."""
    out, hidden = _run("rnn_relu", args, named)
    return out, hidden
