"""Normalisations."""

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
    """Raise ValueError unless each of ``sizes[1]`` channels has several values in a tensor of ``sizes``."""
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
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` of each channel: see :func:`tensor.batch_norm`.

    Raises
    ------
    ValueError
        In training, if a channel has a single value, whose variance is nothing.
    """
    if training:
        check_values_per_channel(input.shape)
    return functions.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


@operation(namespace="nn.functional", method=False)
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Mean 0 and variance 1 over the last dimensions: see :func:`tensor.layer_norm`."""
    return _layer_norm(input, normalized_shape, weight, bias, eps)


@operation(namespace="nn.functional", method=False)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Mean 0 and variance 1 over groups of channels: see :func:`tensor.group_norm`.

    Raises
    ------
    ValueError
        If a group has a single value.
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
    """Mean 0 and variance 1 of each channel of each sample: see :func:`tensor.instance_norm`.

    Raises
    ------
    ValueError
        With the input's own moments, if a channel of a sample has a single value.
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
