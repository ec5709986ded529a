"""What the steps of recurrent layers compute, work with, and leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nvrtc_kernels.recurrent import GATES

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

#: For each step, in the order in which they are done, its first row and how many it has.
Spans = Sequence[tuple[int, int]]


class Cell(NamedTuple):
    """What a step computes.

    Attributes
    ----------
    name : str
        ``"rnn_tanh"``, ``"rnn_relu"``, ``"lstm"`` or ``"gru"``.
    hidden : int
        Units.
    projected : int
        Size of the hidden state where that is a product of the units (of an ``lstm``), else 0.
    """

    name: str
    hidden: int
    projected: int = 0

    @property
    def size(self) -> int:
        """Size of the hidden state."""
        return self.projected or self.hidden

    @property
    def gates(self) -> int:
        """Gates of all units."""
        return GATES[self.name] * self.hidden


class Weights(NamedTuple):
    """What a direction of a layer is multiplied with, contiguous; ``None`` where there is none."""

    hidden: Tensor
    bias: Tensor | None
    projection: Tensor | None


class Saved(NamedTuple):
    """What the derivative needs of all rows, and ``None`` for what the cell does not have.

    Attributes
    ----------
    gates
        As they are after the activation.
    before, cell_before
        The states before the step.
    beside
        The hidden state's part of the new gate of a ``gru``, or the units of an ``lstm`` that is projected.
    """

    gates: Tensor
    before: Tensor
    cell_before: Tensor | None
    beside: Tensor | None


class Gradients(NamedTuple):
    """What goes on from the steps.

    Attributes
    ----------
    gates, recurrent
        Gradients of the gates of all rows, and of their part that comes from the hidden state; the same but for a
        ``gru``.
    projected
        Of the projected states of all rows; ``None`` without a projection.
    state, cell
        Of the states before the first step.
    """

    gates: Tensor
    recurrent: Tensor
    projected: Tensor | None
    state: Tensor
    cell: Tensor | None
