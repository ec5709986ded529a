"""Recurrent layers over sequences: Elman networks, long short-term memories and gated recurrent units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .recurrent_base import RNNBase

if TYPE_CHECKING:
    from tensor import Tensor, dtype


class _OneState(RNNBase):
    """Layers whose cells have a hidden state and nothing else."""

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Hidden states of the last layer at all times, and those of all layers after the last step.

        Parameters
        ----------
        input : Tensor or PackedSequence
            Of shape (T, B, input_size), (B, T, input_size) if ``batch_first``, or (T, input_size), or packed.
        hx : Tensor, optional
            First hidden states, of shape (layers * directions, B, hidden_size), without B for an input without; zeros by
            default.

        Returns
        -------
        tuple
            The output, as the input with directions * hidden_size features, and last hidden states, as ``hx``.

        Raises
        ------
        ValueError, RuntimeError
            If shapes or dtypes do not fit.
        """
        out, (hidden,) = self._run(input, hx)
        return out, hidden


class RNN(_OneState):
    """Elman networks: ``h = tanh(weight_ih x + bias_ih + weight_hh h + bias_hh)``.

    Parameters
    ----------
    nonlinearity : str
        ``"tanh"`` or ``"relu"``.

    See :class:`RNNBase` for the others, and for the weights.
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
    """Gated recurrent units (Cho et al., 2014).

    ``h = (1 - z) n + z h``, where the gates r and z are sigmoids of ``weight_ih x + bias_ih + weight_hh h + bias_hh``,
    and ``n = tanh(weight_in x + bias_in + r (weight_hn h + bias_hn))``. The rows of weights and biases are those of r,
    of z, and of n. See :class:`RNNBase` for the parameters.
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
    """Long short-term memories (Hochreiter and Schmidhuber, 1997).

    ``c = f c + i g`` and ``h = o tanh(c)``, where the gates i, f and o are sigmoids, and g is the tanh, of
    ``weight_ih x + bias_ih + weight_hh h + bias_hh``. The rows of weights and biases are those of i, f, g and o. With a
    ``proj_size`` the hidden state is ``weight_hr h`` (Sak, Senior, Beaufays, 2014). See :class:`RNNBase` for the
    parameters.
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
        """Shape of the cell states for an input."""
        return self._states_of(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise if input and first states do not fit the layer, or each other."""
        self.check_input(input, batch_sizes)
        sizes = (
            self.get_expected_hidden_size(input, batch_sizes),
            self.get_expected_cell_size(input, batch_sizes),
        )
        for number, expected in enumerate(sizes):
            self.check_hidden_size(hidden[number], expected, f"Expected hidden[{number}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States with the sequences of the batch in another order."""
        return hx if permutation is None else tuple([state.index_select(1, permutation) for state in hx])

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Hidden states of the last layer at all times, and the states of all layers after the last step.

        Parameters
        ----------
        input : Tensor or PackedSequence
            Of shape (T, B, input_size), (B, T, input_size) if ``batch_first``, or (T, input_size), or packed.
        hx : tuple of Tensor, optional
            First hidden states, of shape (layers * directions, B, proj_size or hidden_size), and cell states, of shape
            (layers * directions, B, hidden_size), without B for an input without; zeros by default.

        Returns
        -------
        tuple
            The output, as the input with directions times the hidden state's features, and last states, as ``hx``.

        Raises
        ------
        ValueError, RuntimeError
            If shapes or dtypes do not fit.
        """
        if hx is not None and (not isinstance(hx, (tuple, list)) or len(hx) != 2):
            raise RuntimeError(
                f"LSTM: expected hx to be two tensors, hidden and cell states, got {type(hx).__name__}"
            )
        out, (hidden, cell) = self._run(input, hx)
        return out, (hidden, cell)
