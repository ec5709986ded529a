"""Recurrent layers over sequences: Elman RNN, LSTM and GRU."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from nn import init
from nn.module import Module
from nn.parameter import Parameter
from nn.utils.rnn import PackedSequence
from tensor import empty
from tensor.core.modes.grad_mode import modes
from tensor.operations.recurrent.layers import layers, padded_layers

if TYPE_CHECKING:
    from tensor import Tensor, dtype


#: Gates of a unit, and the name of the operation.
_MODES = {"RNN_TANH": (1, "rnn_tanh"), "RNN_RELU": (1, "rnn_relu"), "LSTM": (4, "lstm"), "GRU": (3, "gru")}


class RNNBase(Module):
    """Base class of the recurrent layers: their weights, and inputs that are batched, unbatched or packed.

    Parameters
    ----------
    mode : str
        ``"RNN_TANH"``, ``"RNN_RELU"``, ``"LSTM"`` or ``"GRU"``.
    input_size : int
        Features of the input.
    hidden_size : int
        Features of the hidden state.
    num_layers : int
        Number of stacked layers, each of which reads the hidden states of the one before.
    bias : bool
        Whether there are biases.
    batch_first : bool
        Whether inputs and outputs have shape (N, T, features) instead of (T, N, features); states do not change.
    dropout : float
        Probability of the inverted dropout on the output of each layer but the last, in training.
    bidirectional : bool
        Whether each layer runs in both directions of time, with concatenated outputs.
    proj_size : int
        If not 0, size of the hidden state after a linear projection (``"LSTM"`` only).
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_hr_l0 : Parameter
        Of layer 0: input and recurrent weights, of shapes (gates * hidden_size, input_size) and (gates * hidden_size,
        hidden_size), their biases, and the projection. Those of other layers end in their number, those of the
        reverse direction also in ``_reverse``. All are initialized uniformly in ``±1 / sqrt(hidden_size)``.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive int, a flag not a bool, ``dropout`` not in [0, 1], or ``mode`` unknown.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        _check_dropout(dropout, num_layers)
        for name, flag in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if not isinstance(size, int):
                raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero, got {size}")
        if num_layers <= 0:
            raise ValueError(f"num_layers must be greater than zero, got {num_layers}")
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"proj_size has to be smaller than hidden_size ({hidden_size}), and 0 for no projection, got {proj_size}"
            )
        if mode not in _MODES:
            raise ValueError(f"Unrecognized RNN mode: {mode}; it is one of {', '.join(_MODES)}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        gates = _MODES[mode][0] * hidden_size
        size = proj_size or hidden_size
        for layer in range(num_layers):
            inputs = size * (1 + bidirectional) if layer else input_size
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, inputs), "weight_hh": (gates, size)}
            if bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for suffix in ("", "_reverse")[: 1 + bidirectional]:
                names = []
                for name, shape in shapes.items():
                    names.append(f"{name}_l{layer}{suffix}")
                    setattr(self, names[-1], Parameter(empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self.reset_parameters()

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for names in self._all_weights for name in names]

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: there is no packed copy of the weights. For scripts that call it."""

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Check rank, features and dtype of an input.

        Parameters
        ----------
        input : Tensor
            What is checked.
        batch_sizes : Tensor or None
            Those of a packed sequence, whose data has two dimensions; ``None`` for a tensor, which has three.

        Raises
        ------
        ValueError
            If its dtype is not that of the weights, outside autocast.
        RuntimeError
            If it has another number of dimensions, or its last one is not ``input_size``.
        """
        dtype = self._flat_weights[0].dtype
        if input.dtype is not dtype and modes.autocast is None:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input: input.to({dtype}), "
                f"or convert model: model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.dim() != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Shape (D * num_layers, N, H_out) of the hidden states for an input, with ``batch_sizes`` if it is packed.

        Parameters
        ----------
        input : Tensor
            (L, N, H_in), with ``batch_first`` (N, L, H_in), or the data of a packed sequence.
        batch_sizes : Tensor, optional
            Of a packed sequence: how many samples each step has; the first is N.

        Returns
        -------
        tuple of int
            D is 2 for a bidirectional layer and 1 otherwise.
        """
        return self._states_of(input, batch_sizes, self.proj_size or self.hidden_size)

    def _states_of(self, input: Tensor, batch_sizes: Tensor | None, size: int) -> tuple[int, int, int]:
        batch = input.size(0 if self.batch_first else 1) if batch_sizes is None else int(batch_sizes[0])
        return self.num_layers * (1 + self.bidirectional), batch, size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Check the shape of the state ``hx``.

        Raises
        ------
        RuntimeError
            If it is not ``expected_hidden_size``; ``msg`` is the text, with both shapes in its braces.
        """
        if tuple(hx.shape) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Check the shapes of ``input`` and of the initial states ``hidden``, with ``batch_sizes`` if packed.

        Raises
        ------
        ValueError, RuntimeError
            See :meth:`check_input` and :meth:`check_hidden_size`.
        """
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The states ``hx`` with the samples of the batch in the order of ``permutation``; unchanged for ``None``.

        Parameters
        ----------
        hx : Tensor
            (D * num_layers, N, H_out).
        permutation : Tensor, optional
            (N,), int64.
        """
        return hx if permutation is None else hx.index_select(1, permutation)

    # States are tuples of one tensor, or of two for LSTM.

    def _run(self, input: Any, hx: Any) -> tuple[Any, tuple[Tensor, ...]]:
        """Output and last states, in the form of the input."""
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        name = type(self).__name__
        if input.dim() not in (2, 3):
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched = input.dim() == 3
        if hx is not None:
            ranks = [state.dim() for state in (hx if isinstance(hx, (tuple, list)) else (hx,))]
            if any(rank != input.dim() for rank in ranks):
                raise RuntimeError(
                    f"For {'batched 3-D' if batched else 'unbatched 2-D'} input, the first states should also be "
                    f"{input.dim()}-D but got {' and '.join(f'{rank}-D' for rank in ranks)} tensors"
                )
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
            if hx is not None:
                hx = (
                    tuple([state.unsqueeze(1) for state in hx])
                    if isinstance(hx, (tuple, list))
                    else hx.unsqueeze(1)
                )
        self._check(input, hx, None)
        out, *states = padded_layers(
            _MODES[self.mode][1], input, batch_first=self.batch_first, **self._arguments(hx)
        )
        if not batched:
            return out.squeeze(batch_dim), tuple([state.squeeze(1) for state in states])
        return out, tuple(states)

    def _run_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, tuple[Tensor, ...]]:
        data, batch_sizes, sorted_indices, unsorted_indices = input
        if hx is not None:
            hx = self.permute_hidden(hx, sorted_indices)
        self._check(data, hx, batch_sizes)
        out, *states = layers(_MODES[self.mode][1], data, batch_sizes.tolist(), **self._arguments(hx))
        if unsorted_indices is not None:
            states = [state.index_select(1, unsorted_indices) for state in states]
        return PackedSequence(out, batch_sizes, sorted_indices, unsorted_indices), tuple(states)

    def _check(self, input: Tensor, hx: Any, batch_sizes: Tensor | None) -> None:
        if hx is None:
            self.check_input(input, batch_sizes)
        else:
            self.check_forward_args(input, hx, batch_sizes)

    def _arguments(self, hx: Any) -> dict[str, Any]:
        """What the operation takes beside the data."""
        states = tuple(hx) if isinstance(hx, (tuple, list)) else (hx, None)
        return {
            "states": states[: 2 if self.mode == "LSTM" else 1],
            "params": self._flat_weights,
            "hidden": self.hidden_size,
            "projected": self.proj_size,
            "has_biases": self.bias,
            "num_layers": self.num_layers,
            "dropout": self.dropout,
            "train": self.training,
            "bidirectional": self.bidirectional,
        }

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: sizes, and options that are not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        return text


def _check_dropout(dropout: Any, num_layers: int) -> None:
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed, got "
            f"{dropout!r}"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )


class _OneState(RNNBase):
    """Base class of layers whose only state is the hidden state."""

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Run over sequences.

        Parameters
        ----------
        input : Tensor or PackedSequence
            Shape (T, N, input_size), (N, T, input_size) if ``batch_first``, or (T, input_size).
        hx : Tensor, optional
            Initial hidden states of shape (num_layers * directions, N, hidden_size), without N for an unbatched
            input; zeros by default.

        Returns
        -------
        tuple
            Hidden states of the last layer at every step, with directions * hidden_size features, and the hidden
            states of all layers after the last step, of the shape of ``hx``.

        Raises
        ------
        ValueError, RuntimeError
            If a shape is not the one above, or a dtype is not that of the weights.
        """
        out, (hidden,) = self._run(input, hx)
        return out, hidden


class RNN(_OneState):
    """Elman recurrent network: ``h' = tanh(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)``, over sequences.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input and of the hidden state.
    num_layers : int
        Number of stacked layers.
    nonlinearity : str
        ``"tanh"`` or ``"relu"``.
    bias : bool
        Whether there are biases.
    batch_first : bool
        Whether inputs and outputs have shape (N, T, features) instead of (T, N, features).
    dropout : float
        Probability of the dropout between layers, in training.
    bidirectional : bool
        Whether each layer runs in both directions of time.
    device, dtype
        Of the parameters, which :class:`RNNBase` describes.

    Raises
    ------
    TypeError, ValueError
        If an option is not valid.

    Examples
    --------
    >>> output, hidden = nn.RNN(10, 20, num_layers=2)(tensor.randn(5, 3, 10))
    >>> output.shape, hidden.shape
    (tensor.Size([5, 3, 20]), tensor.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(
            mode,
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )
        self.nonlinearity = nonlinearity


class GRU(_OneState):
    """Gated recurrent unit over sequences (Cho et al., 2014).

    ``h' = (1 - z) * n + z * h``, with the reset gate ``r`` and the update gate ``z`` the sigmoids of
    ``weight_ih @ x + bias_ih + weight_hh @ h + bias_hh``, and ``n = tanh(W_in @ x + b_in + r * (W_hn @ h + b_hn))``.
    Weights and biases hold the rows of r, z and n, in this order.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input and of the hidden state.
    num_layers : int
        Number of stacked layers.
    bias : bool
        Whether there are biases.
    batch_first : bool
        Whether inputs and outputs have shape (N, T, features) instead of (T, N, features).
    dropout : float
        Probability of the dropout between layers, in training.
    bidirectional : bool
        Whether each layer runs in both directions of time.
    device, dtype
        Of the parameters, which :class:`RNNBase` describes.

    Raises
    ------
    TypeError, ValueError
        If an option is not valid.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )


class LSTM(RNNBase):
    """Long short-term memory over sequences (Hochreiter and Schmidhuber, 1997).

    ``c' = f * c + i * g`` and ``h' = o * tanh(c')``, where the input, forget and output gates i, f and o are the
    sigmoids, and the candidate g the tanh, of ``weight_ih @ x + bias_ih + weight_hh @ h + bias_hh``. Weights and
    biases hold the rows of i, f, g and o, in this order.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input and of the states.
    num_layers : int
        Number of stacked layers.
    bias : bool
        Whether there are biases.
    batch_first : bool
        Whether inputs and outputs have shape (N, T, features) instead of (T, N, features).
    dropout : float
        Probability of the dropout between layers, in training.
    bidirectional : bool
        Whether each layer runs in both directions of time.
    proj_size : int
        If not 0, the hidden state is ``weight_hr @ h'``, of this size (Sak, Senior and Beaufays, 2014).
    device, dtype
        Of the parameters, which :class:`RNNBase` describes.

    Raises
    ------
    TypeError, ValueError
        If an option is not valid.

    Examples
    --------
    >>> output, (hidden, cell) = nn.LSTM(10, 20, batch_first=True)(tensor.randn(3, 5, 10))
    >>> output.shape, hidden.shape
    (tensor.Size([3, 5, 20]), tensor.Size([1, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device,
            dtype,
        )  # fmt: skip

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Shape (D * num_layers, N, hidden_size) of the cell states for an input, with ``batch_sizes`` if it is packed.

        Parameters
        ----------
        input : Tensor
            (L, N, H_in), with ``batch_first`` (N, L, H_in), or the data of a packed sequence.
        batch_sizes : Tensor, optional
            Of a packed sequence: how many samples each step has; the first is N.

        Returns
        -------
        tuple of int
            D is 2 for a bidirectional layer and 1 otherwise.
        """
        return self._states_of(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Check the shapes of ``input`` and of the initial states ``hidden``, a pair, with ``batch_sizes`` if packed.

        Raises
        ------
        ValueError, RuntimeError
            See :meth:`RNNBase.check_input` and :meth:`RNNBase.check_hidden_size`.
        """
        self.check_input(input, batch_sizes)
        sizes = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        for number, expected in enumerate(sizes):
            self.check_hidden_size(hidden[number], expected, f"Expected hidden[{number}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Both states of ``hx`` with the samples of the batch in the order of ``permutation``; unchanged for ``None``.

        Parameters
        ----------
        hx : tuple of two Tensor
            Hidden state (D * num_layers, N, H_out) and cell state (D * num_layers, N, hidden_size).
        permutation : Tensor, optional
            (N,), int64.
        """
        return hx if permutation is None else tuple([state.index_select(1, permutation) for state in hx])

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Run over sequences.

        Parameters
        ----------
        input : Tensor or PackedSequence
            Shape (T, N, input_size), (N, T, input_size) if ``batch_first``, or (T, input_size).
        hx : tuple of Tensor, optional
            Initial hidden states of shape (num_layers * directions, N, proj_size or hidden_size), and cell states of
            shape (num_layers * directions, N, hidden_size), without N for an unbatched input; zeros by default.

        Returns
        -------
        tuple
            Hidden states of the last layer at every step, and the pair of the hidden and cell states of all layers
            after the last step, of the shapes of ``hx``.

        Raises
        ------
        ValueError, RuntimeError
            If a shape is not the one above, or a dtype is not that of the weights.
        """
        if hx is not None and (not isinstance(hx, (tuple, list)) or len(hx) != 2):
            raise RuntimeError(
                f"LSTM: expected hx to be two tensors, hidden and cell states, got {type(hx).__name__}"
            )
        out, (hidden, cell) = self._run(input, hx)
        return out, (hidden, cell)
