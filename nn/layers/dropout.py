"""Dropout layers. When they are not in training they do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn import functional
from nn.module import Module

if TYPE_CHECKING:
    from tensor import Tensor


class _Dropout(Module):
    """What dropout layers share.

    Parameters
    ----------
    p : float
        How probable it is that an element, or a channel, is left out.
    inplace : bool
        Whether the input is written.

    Raises
    ------
    ValueError
        If ``p`` is no probability.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Its arguments."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeros with probability ``p``, and the other elements divided by ``1 - p``."""

    def forward(self, input: Tensor) -> Tensor:
        """The input, some of whose elements are 0."""
        return functional.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """:class:`Dropout` of whole channels of an input of shape (N, C, L) or (C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        """The input, some of whose channels are 0."""
        return functional.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """:class:`Dropout` of whole channels of an input of shape (N, C, H, W) or (N, C, L)."""

    def forward(self, input: Tensor) -> Tensor:
        """The input, some of whose channels are 0."""
        return functional.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """:class:`Dropout` of whole channels of an input of shape (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """The input, some of whose channels are 0."""
        return functional.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1, for :class:`SELU`."""

    def forward(self, input: Tensor) -> Tensor:
        """The input, some of whose elements are dropped."""
        return functional.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """:class:`AlphaDropout` of whole channels of an input of shape (N, C, ...)."""

    def forward(self, input: Tensor) -> Tensor:
        """The input, some of whose channels are dropped."""
        return functional.feature_alpha_dropout(input, self.p, self.training, self.inplace)
