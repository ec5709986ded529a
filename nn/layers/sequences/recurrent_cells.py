"""Recurrent cells: one step of an Elman RNN, an LSTM or a GRU."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nn import init
from nn.module import Module
from nn.parameter import Parameter
from tensor import empty, zeros
from tensor.operations.recurrent.layers import gru_cell, lstm_cell, rnn_relu_cell, rnn_tanh_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor import Tensor, dtype


class RNNCellBase(Module):
    """Base class of the recurrent cells, with their weights.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input and of the hidden state.
    bias : bool
        Whether there are biases.
    num_chunks : int
        Number of gates.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight_ih, weight_hh : Parameter
        Shapes (num_chunks * hidden_size, input_size) and (num_chunks * hidden_size, hidden_size), initialized
        uniformly in ``±1 / sqrt(hidden_size)``.
    bias_ih, bias_hh : Parameter or None
        Shape (num_chunks * hidden_size,), initialized in the same way.
    """

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            parameter = Parameter(empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: sizes, and options that are not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _zeros(self, input: Tensor) -> Tensor:
        return zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)

    def _check(self, x: Tensor, name: str) -> None:
        if x.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: Expected {name} to be 1D or 2D, got {x.dim()}D instead")

    def _step(self, cell: Callable[..., Tensor], input: Tensor, hx: Tensor | None) -> Tensor:
        """The next hidden state of a ``cell`` that has no other one, with samples or without."""
        self._check(input, "input")
        if hx is not None:
            self._check(hx, "hidden")
        batched = input.dim() == 2
        rows = input if batched else input.unsqueeze(0)
        if hx is None:
            states = self._zeros(rows)
        else:
            states = hx if batched else hx.unsqueeze(0)
        result = cell(rows, states, *self._weights())
        return result if batched else result.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of an Elman network: ``h' = tanh(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)``.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input and of the hidden state.
    bias : bool
        Whether there are biases.
    nonlinearity : str
        ``"tanh"`` or ``"relu"``.
    device, dtype
        Of the parameters, which :class:`RNNCellBase` describes.

    Raises
    ------
    RuntimeError
        When it is called, if the nonlinearity is unknown.

    Examples
    --------
    >>> cell, h = nn.RNNCell(10, 20), tensor.zeros(3, 20)
    >>> for x in tensor.randn(6, 3, 10):
    ...     h = cell(x, h)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next hidden state.

        Parameters
        ----------
        input : Tensor
            Shape (N, input_size) or (input_size,).
        hx : Tensor, optional
            Hidden state of shape (N, hidden_size) or (hidden_size,); zeros by default.

        Returns
        -------
        Tensor
            Of the shape of ``hx``.

        Raises
        ------
        ValueError
            If an argument has another number of dimensions than 1 or 2.
        RuntimeError
            If ``nonlinearity`` was set to something else than ``"tanh"`` and ``"relu"``.
        """
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}; it is 'tanh' or 'relu'")
        return self._step(rnn_tanh_cell if self.nonlinearity == "tanh" else rnn_relu_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory; see :class:`LSTM` for the formula.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input and of the states.
    bias : bool
        Whether there are biases.
    device, dtype
        Of the parameters, which :class:`RNNCellBase` describes.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The next hidden and cell state.

        Parameters
        ----------
        input : Tensor
            Shape (N, input_size) or (input_size,).
        hx : tuple of Tensor, optional
            Hidden and cell state, of shape (N, hidden_size) or (hidden_size,) each; zeros by default.

        Returns
        -------
        tuple of Tensor
            Of the shapes of ``hx``.

        Raises
        ------
        ValueError
            If an argument has another number of dimensions than 1 or 2.
        """
        self._check(input, "input")
        if hx is not None:
            for number, state in enumerate(hx):
                self._check(state, f"hx[{number}]")
        batched = input.dim() == 2
        rows = input if batched else input.unsqueeze(0)
        if hx is None:
            states: Any = (self._zeros(rows),) * 2
        else:
            states = hx if batched else tuple([state.unsqueeze(0) for state in hx])
        hidden, cell = lstm_cell(rows, states, *self._weights())
        return (hidden, cell) if batched else (hidden.squeeze(0), cell.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit; see :class:`GRU` for the formula.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of the input and of the hidden state.
    bias : bool
        Whether there are biases.
    device, dtype
        Of the parameters, which :class:`RNNCellBase` describes.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next hidden state.

        Parameters
        ----------
        input : Tensor
            Shape (N, input_size) or (input_size,).
        hx : Tensor, optional
            Hidden state of shape (N, hidden_size) or (hidden_size,); zeros by default.

        Returns
        -------
        Tensor
            Of the shape of ``hx``.

        Raises
        ------
        ValueError
            If an argument has another number of dimensions than 1 or 2.
        """
        return self._step(gru_cell, input, hx)
