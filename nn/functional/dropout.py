"""Dropout of elements and of whole channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.core.warning import warn_caller
from tensor.operations.definition import operation
from tensor.operations.random.dropout import drop

if TYPE_CHECKING:
    from tensor import Tensor


@operation(namespace="nn.functional", method=False)
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Inverted dropout: zero elements with probability ``p`` and scale the others by ``1 / (1 - p)``.

    Parameters
    ----------
    input : Tensor
        Floating point or complex tensor of any shape.
    p : float
        Probability of an element to be zeroed.
    training : bool
        If False, the input is returned.
    inplace : bool
        Whether the result overwrites the input.

    Returns
    -------
    Tensor
        Of the input's shape.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].
    """
    return drop(input, p, training, inplace=inplace)


@operation(namespace="nn.functional", method=False)
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that preserves mean 0 and variance 1 of activations of :func:`selu`; see :class:`nn.AlphaDropout`.

    The parameters are those of :func:`dropout`.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].
    """
    return drop(input, p, training, inplace=inplace, alpha=True)


@operation(namespace="nn.functional", method=False)
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """:func:`alpha_dropout` of whole channels of an input of shape (N, C, ...).

    The parameters are those of :func:`dropout`.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].
    """
    return drop(input, p, training, inplace=inplace, alpha=True, features=True)


@operation(namespace="nn.functional", method=False)
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Inverted dropout of whole channels of an input of shape (N, C, L) or (C, L).

    The parameters are those of :func:`dropout`, with ``p`` the probability of a channel.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].
    RuntimeError
        If the input does not have 2 or 3 dimensions.
    """
    rank = input.dim()
    if rank not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {rank}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch "
            "dimension (i.e. 2D or 3D inputs)."
        )
    return _channels(input, p, training, inplace, batched=rank == 3)


@operation(namespace="nn.functional", method=False)
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Inverted dropout of whole channels of an input of shape (N, C, H, W).

    The parameters are those of :func:`dropout`, with ``p`` the probability of a channel. An input with 3 dimensions
    is taken as (N, C, L), with a warning; ranks other than 3 and 4 warn too.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].
    """
    rank = input.dim()
    if rank not in (3, 4):
        warn_caller(
            f"dropout2d: Received a {rank}-D input to dropout2d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            "dropout2d exists to provide channel-wise dropout on inputs with 2 spatial dimensions, a channel dimension, "
            "and an optional batch dimension (i.e. 3D or 4D inputs).",
        )
    if rank == 3:
        warn_caller(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - "
            "input is interpreted as shape (N, C, L), where C is the channel dim. Please use dropout1d for that.",
        )
    return _channels(input, p, training, inplace, batched=True)


@operation(namespace="nn.functional", method=False)
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Inverted dropout of whole channels of an input of shape (N, C, D, H, W) or (C, D, H, W).

    The parameters are those of :func:`dropout`, with ``p`` the probability of a channel. Ranks other than 4 and 5
    warn.

    Raises
    ------
    ValueError
        If ``p`` is not in [0, 1].
    """
    rank = input.dim()
    if rank not in (4, 5):
        warn_caller(
            f"dropout3d: Received a {rank}-D input to dropout3d, which is deprecated and will result in an error in a "
            "future release. To retain the behavior and silence this warning, please use dropout instead. Note that "
            "dropout3d exists to provide channel-wise dropout on inputs with 3 spatial dimensions, a channel dimension, "
            "and an optional batch dimension (i.e. 4D or 5D inputs).",
        )
    return _channels(input, p, training, inplace, batched=rank != 4)


def _channels(input: Tensor, p: float, training: bool, inplace: bool, *, batched: bool) -> Tensor:
    if batched:
        return drop(input, p, training, inplace=inplace, features=True)
    result = drop(input.unsqueeze(0), p, training, inplace=inplace, features=True)
    return input if inplace else result.squeeze(0)
