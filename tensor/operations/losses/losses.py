"""Losses whose target is a class, as users call them."""

from __future__ import annotations

import warnings
from math import prod
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import int64, uint8
from nvrtc_kernels.losses import Classes
from tensor.core.arguments import two_devices
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.normalization.softmax import log_softmax

from .class_losses import loss_of_classes

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

#: What users may say for ``reduction``.
REDUCTIONS = ("none", "mean", "sum")


def reduction_of(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """The reduction that is meant, also by the two old arguments.

    Raises
    ------
    ValueError
        If there is no such reduction.
    """
    if size_average is not None or reduce is not None:
        if reduce is not None and not reduce:
            reduction = "none"
        else:
            reduction = "mean" if size_average is None or size_average else "sum"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            UserWarning,
            stacklevel=4,
        )
    if reduction not in REDUCTIONS:
        raise ValueError(
            f"{reduction} is not a valid value for reduction: it is one of {', '.join(map(repr, REDUCTIONS))}"
        )
    return reduction


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Losses as they are, their mean or their sum."""
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


def check_place(name: str, input: Tensor, **others: Tensor | None) -> None:
    """Raise RuntimeError if a tensor is on another device than ``input``."""
    for title, other in others.items():
        if other is not None and other._layout.place is not input._layout.place:
            raise two_devices(name, f"{input._layout.device} (input)", f"{other._layout.device} ({title})")


def _sizes(name: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> Classes:
    shape, given = tuple(input._layout.shape), tuple(target._layout.shape)
    if not shape:
        raise ValueError(
            f"{name}(): Expected input with at least 1 dimension, (C,), (N, C) or (N, C, d1, ...), got a number"
        )
    if not input._layout.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {input._layout.dtype!r}')
    classes = shape[0] if len(shape) == 1 else shape[1]
    expected = shape[:1][:0] if len(shape) == 1 else (shape[0], *shape[2:])
    if given != expected:
        if len(shape) > 1 and given and given[0] != shape[0]:
            raise ValueError(
                f"{name}(): Expected input batch_size ({shape[0]}) to match target batch_size ({given[0]}): input has "
                f"shape {list(shape)}, target {list(given)}"
            )
        raise RuntimeError(
            f"{name}(): Expected target size {list(expected)}, got {list(given)}, for an input of shape {list(shape)}"
        )
    if target._layout.dtype not in (int64, uint8):
        raise RuntimeError(
            f"{name}(): expected scalar type Long but found {target._layout.dtype!r}: targets are classes as int64, or "
            f"chances in the shape of the input, {list(shape)}, for cross_entropy"
        )
    if weight is not None and tuple(weight._layout.shape) != (classes,):
        raise RuntimeError(
            f"{name}(): weight tensor should be defined either for all {classes} classes or no classes but got weight "
            f"tensor of shape: {list(weight._layout.shape)}"
        )
    outer = 1 if len(shape) == 1 else shape[0]
    return Classes(outer, classes, prod(shape[2:]), ignore_index)


def _of_classes(
    name: str,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    smoothing: float | None,
) -> Tensor:
    check_place(name, input, target=target, weight=weight)
    sizes = _sizes(name, input, target, weight, ignore_index)
    if not sizes.lines or not sizes.classes:
        return reduced(input.sum() * 0 + input.new_zeros(target._layout.shape), reduction)
    return loss_of_classes(input, target.to(int64), weight, sizes, reduction, smoothing)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood: ``-weight[target] * input[target]`` of each line.

    Parameters
    ----------
    input : Tensor
        Logarithms of chances, of shape (C,), (N, C) or (N, C, d1, ...).
    target : Tensor
        Classes, int64 of shape (), (N,) or (N, d1, ...).
    weight : Tensor, optional
        What each class weighs, of shape (C,).
    ignore_index : int
        Target of lines that count nothing.
    reduction : str
        ``"none"``, ``"sum"``, or ``"mean"``, in which each line counts what its class weighs.

    Raises
    ------
    IndexError
        If a target is no class; on CUDA that is a failed assertion, which a later call raises.
    ValueError, RuntimeError
        If shapes or dtypes do not fit.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    return _of_classes("nll_loss", input, target, weight, ignore_index, reduction, None)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of logits and a target: classes, or the chance of each class.

    Classes need one kernel forward and one backward, and nothing of the input's size is kept.

    Parameters
    ----------
    input : Tensor
        Logits, of shape (C,), (N, C) or (N, C, d1, ...).
    target : Tensor
        Classes, int64 of shape (), (N,) or (N, d1, ...); or chances, of the input's shape.
    weight : Tensor, optional
        What each class weighs, of shape (C,).
    ignore_index : int
        Target of lines that count nothing; of classes only.
    reduction : str
        ``"none"``, ``"sum"``, or ``"mean"``, in which each line counts what its class weighs.
    label_smoothing : float
        How much of the target, between 0 and 1, is spread evenly over all classes.

    Raises
    ------
    IndexError
        If a target is no class; on CUDA that is a failed assertion, which a later call raises.
    ValueError, RuntimeError
        If shapes or dtypes do not fit.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if target._layout.shape == input._layout.shape and target._layout.dtype.is_floating_point:
        check_place("cross_entropy", input, target=target, weight=weight)
        return _of_chances(input, target, weight, reduction, label_smoothing, ignore_index)
    return _of_classes(
        "cross_entropy", input, target, weight, ignore_index, reduction, float(label_smoothing)
    )


def _of_chances(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float, ignored: int
) -> Tensor:
    if ignored >= 0:
        raise RuntimeError(
            f"ignore_index is not supported for floating point target: there are no classes to ignore, got {ignored}"
        )
    shape = input._layout.shape
    if not shape:
        raise ValueError("cross_entropy(): Expected input with at least 1 dimension, got a number")
    dim = 0 if len(shape) == 1 else 1
    classes = shape[dim]
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / max(classes, 1)
    losses: Any = log_softmax(input, dim) * target
    if weight is not None:
        if tuple(weight._layout.shape) != (classes,):
            raise RuntimeError(
                "cross_entropy: weight tensor should be defined either for all "
                f"{classes} classes or no classes but got weight tensor of shape: {list(weight._layout.shape)}"
            )
        losses = losses * weight.view([classes if d == dim else 1 for d in range(len(shape))])
    if reduction == "none":
        return -losses.sum(dim)  # type: ignore[no-any-return]
    total = -losses.sum()
    return total if reduction == "sum" else total / max(input._layout.numel // max(classes, 1), 1)  # type: ignore[no-any-return]
