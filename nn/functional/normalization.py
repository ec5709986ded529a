"""Normalization functions with PyTorch's argument order and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.operations.definition import operation
from tensor.operations.normalization import normalization as functions
from tensor.operations.normalization.normalization import group_norm as _group_norm
from tensor.operations.normalization.normalization import layer_norm as _layer_norm
from tensor.operations.normalization.normalization import local_response_norm, rms_norm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "rms_norm",
]


def check_values_per_channel(sizes: Sequence[int]) -> None:
    """Raise ValueError if each channel of a tensor of ``sizes`` has a single value."""
    count = sizes[0]
    for size in sizes[2:]:
        count *= size
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {list(sizes)}"
        )


@operation(namespace="nn.functional", method=False)
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Batch normalization: ``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel.

    Parameters
    ----------
    input : Tensor
        Shape (N, C, ...).
    running_mean, running_var : Tensor or None
        Shape (C,). In training they are updated in place, otherwise they are used.
    weight, bias : Tensor, optional
        Shape (C,).
    training : bool
        Whether to use the mean and the biased variance of the batch.
    momentum : float
        Weight of the batch in the running statistics.
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    ValueError
        In training, if each channel has a single value, or ``eps`` is not positive; otherwise if it is negative.
    """
    if training:
        check_values_per_channel(input.shape)
        if eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return functions.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@operation(namespace="nn.functional", method=False)
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Layer normalization over the last dimensions: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Parameters
    ----------
    input : Tensor
        Shape ``(..., *normalized_shape)``.
    normalized_shape : sequence of int
        Sizes of the last dimensions.
    weight, bias : Tensor, optional
        Shape ``normalized_shape``.
    eps : float
        Added to the biased variance.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    RuntimeError
        If the last dimensions of the input differ from ``normalized_shape``.
    """
    return _layer_norm(input, normalized_shape, weight, bias, eps)


@operation(namespace="nn.functional", method=False)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Group normalization: ``(x - mean) / sqrt(var + eps) * weight + bias``, over groups of channels of each sample.

    Parameters
    ----------
    input : Tensor
        Shape (N, C, ...).
    num_groups : int
        Number of groups, which divides C.
    weight, bias : Tensor, optional
        Shape (C,).
    eps : float
        Added to the biased variance.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    ValueError
        If each group has a single value.
    RuntimeError
        If C is not divisible by ``num_groups``.
    """
    shape = input.shape
    if len(shape) > 1 and num_groups > 0:
        check_values_per_channel((shape[0] * shape[1] // num_groups, num_groups, *shape[2:]))
    return _group_norm(input, num_groups, weight, bias, eps)


@operation(namespace="nn.functional", method=False)
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Tensor:
    """Instance normalization: ``(x - mean) / sqrt(var + eps) * weight + bias`` for each channel of each sample.

    Parameters
    ----------
    input : Tensor
        Shape (N, C, ...).
    running_mean, running_var : Tensor, optional
        Shape (C,). With ``use_input_stats`` they are updated in place, otherwise they are used.
    weight, bias : Tensor, optional
        Shape (C,).
    use_input_stats : bool
        Whether to use the mean and the biased variance of the input.
    momentum : float
        Weight of the input in the running statistics.
    eps : float
        Added to the variance.

    Returns
    -------
    Tensor
        Of the input's shape and dtype.

    Raises
    ------
    ValueError
        With ``use_input_stats``, if each channel of a sample has a single value.
    """
    if use_input_stats:
        count = 1
        for size in input.shape[2:]:
            count *= size
        if count == 1:
            raise ValueError(
                f"Expected more than 1 spatial element when training, got input size {list(input.shape)}"
            )
    return functions.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps
    )
