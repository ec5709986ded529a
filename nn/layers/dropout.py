"""Dropout layers. In evaluation mode they return their input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn import functional
from nn.module import Module

if TYPE_CHECKING:
    from tensor import Tensor


class _Dropout(Module):
    """Base class of the dropout layers, with their parameters ``p`` and ``inplace``."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: parameters."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Inverted dropout: in training, zeroes elements with probability ``p`` and scales the others by ``1 / (1 - p)``.

    Each element is drawn independently at every call (Hinton et al., "Improving neural networks by preventing
    co-adaptation of feature detectors", 2012). In evaluation mode the input is returned as it is.

    Parameters
    ----------
    p : float
        Probability of an element to be zeroed.
    inplace : bool
        Whether the result overwrites the input.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].

    Examples
    --------
    >>> layer = nn.Dropout(p=0.5)
    >>> sorted(set(layer(tensor.ones(1000)).tolist()))  # about half of the elements are 0
    [0.0, 2.0]
    >>> layer.eval()(tensor.ones(4))
    tensor([1., 1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Zero elements at random, in training.

        Parameters
        ----------
        input : Tensor
            Of any shape, of a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype; in evaluation mode the input itself.

        Raises
        ------
        RuntimeError
            In training, if the dtype is not floating.
        """
        return functional.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Inverted dropout of whole channels of inputs of shape (N, C, L) or (C, L).

    A channel is zeroed with probability ``p`` in training, and the others are scaled by ``1 / (1 - p)`` (Tompson et
    al., "Efficient Object Localization Using Convolutional Networks", 2014). For inputs whose neighbouring elements
    are correlated, where independent dropout would only lower the learning rate.

    Parameters
    ----------
    p : float
        Probability of a channel to be zeroed.
    inplace : bool
        Whether the result overwrites the input.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].
    RuntimeError
        When it is called, if the input has another number of dimensions than 2 or 3.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Zero channels at random, in training.

        Parameters
        ----------
        input : Tensor
            (N, C, L) or (C, L), of a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype; in evaluation mode the input itself.

        Raises
        ------
        RuntimeError
            In training, if the dtype is not floating;
            in both modes, if the input has another number of dimensions than 2 or 3.
        """
        return functional.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Inverted dropout of whole channels of inputs of shape (N, C, H, W).

    As :class:`Dropout1d`. An input of 3 dimensions is taken as (N, C, L), with a warning; other ranks warn too.

    Parameters
    ----------
    p : float
        Probability of a channel to be zeroed.
    inplace : bool
        Whether the result overwrites the input.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].
    """

    def forward(self, input: Tensor) -> Tensor:
        """Zero channels at random, in training.

        Parameters
        ----------
        input : Tensor
            (N, C, H, W), of a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype; in evaluation mode the input itself.

        Raises
        ------
        RuntimeError
            In training, if the dtype is not floating.
        """
        return functional.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Inverted dropout of whole channels of inputs of shape (N, C, D, H, W) or (C, D, H, W).

    As :class:`Dropout1d`. Inputs with other than 4 or 5 dimensions warn.

    Parameters
    ----------
    p : float
        Probability of a channel to be zeroed.
    inplace : bool
        Whether the result overwrites the input.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].
    """

    def forward(self, input: Tensor) -> Tensor:
        """Zero channels at random, in training.

        Parameters
        ----------
        input : Tensor
            (N, C, D, H, W) or (C, D, H, W), of a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype; in evaluation mode the input itself.

        Raises
        ------
        RuntimeError
            In training, if the dtype is not floating.
        """
        return functional.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout for self-normalizing networks: elements are set to the negative saturation value of :class:`SELU`.

    The result is scaled and shifted so that an input of mean 0 and variance 1 keeps both (Klambauer et al.,
    "Self-Normalizing Neural Networks", 2017). In evaluation mode the input is returned as it is.

    Parameters
    ----------
    p : float
        Probability of an element to be dropped.
    inplace : bool
        Whether the result overwrites the input.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].
    """

    def forward(self, input: Tensor) -> Tensor:
        """Set elements at random to the negative saturation value of SELU, in training.

        Parameters
        ----------
        input : Tensor
            Of any shape, of a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype; in evaluation mode the input itself.

        Raises
        ------
        RuntimeError
            In training, if the dtype is not floating.
        """
        return functional.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """:class:`AlphaDropout` of whole channels of inputs of shape (N, C, ...).

    Parameters
    ----------
    p : float
        Probability of a channel to be dropped.
    inplace : bool
        Whether the result overwrites the input.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].
    """

    def forward(self, input: Tensor) -> Tensor:
        """Set channels at random to the negative saturation value of SELU, in training.

        Parameters
        ----------
        input : Tensor
            (N, C, ...), of a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype; in evaluation mode the input itself.

        Raises
        ------
        RuntimeError
            In training, if the dtype is not floating.
        """
        return functional.feature_alpha_dropout(input, self.p, self.training, self.inplace)
