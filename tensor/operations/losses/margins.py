"""Losses of margins between the scores of classes, and of several classes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation

from .elementwise import softplus_of
from .loss import reduced, reduction_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    Array = NDArray[Any]


@operation(namespace="nn.functional", method=False)
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy of the logits of each class, averaged over the classes of a sample.

    Parameters
    ----------
    input, target : Tensor
        Logits, and probabilities or 0 and 1, of shape (N, C).
    weight : Tensor, optional
        Weights of the classes, of shape (C,).
    reduction : str
        ``"none"`` (a loss for each sample), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    ValueError
        If there is no such reduction.
    RuntimeError
        If shapes do not broadcast, or the tensors are on different devices.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    losses = target * softplus_of(-input) + (1 - target) * softplus_of(input)
    if weight is not None:
        losses = losses * weight
    return reduced(losses.sum(-1) / input.size(-1), reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Multi-class margin loss ``sum over i != target of max(0, margin - input[target] + input[i]) ** p / C``.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C) or (C,).
    target : Tensor
        Classes, int64 of shape (N,), or for one sample () or (1,), which the loss without a reduction has too.
    p : int
        1 or 2.
    weight : Tensor, optional
        Weights of the classes, of shape (C,).
    reduction : str
        ``"none"`` (a loss for each sample), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    ValueError
        If ``p`` is neither 1 nor 2, the weight is no vector, or there is no such reduction.
    RuntimeError
        If the input or the target has another number of dimensions or elements, or the weight of elements.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
    shape: tuple[int, ...] = input._layout.shape
    classes = shape[-1] if shape else 1
    if weight is not None and len(weight._layout.shape) != 1:
        raise ValueError(f"weight must be one-dimensional, got shape {list(weight._layout.shape)}")
    if weight is not None and weight._layout.shape[0] != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {weight._layout.shape[0]}")
    if not shape:
        input, shape = input.reshape(1), (1,)
    if len(shape) > 2:
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )
    if target._layout.numel != (shape[0] if len(shape) == 2 else 1):
        raise RuntimeError(
            f"inconsistent target size, expected {shape[0]} but got {list(target._layout.shape)}"
        )
    classes_of = target.reshape(*shape[:-1], 1)
    losses = (margin - input.gather(-1, classes_of) + input).clamp(min=0)
    if p == 2:
        losses = losses * losses
    if weight is not None:
        losses = losses * weight[classes_of]
    # The target's own class would add the margin itself, whatever the input.
    losses = losses.scatter(-1, classes_of, 0.0)
    return reduced((losses.sum(-1) / classes).reshape(target._layout.shape), reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Multi-label margin loss: ``max(0, 1 - (input[label] - input[i])) / C`` summed over labels and other classes.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C) or (C,).
    target : Tensor
        Int64 of the same shape: the labels of a sample, up to the first -1.
    reduction : str
        ``"none"`` (a loss for each sample), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    ValueError
        If there is no such reduction.
    RuntimeError
        If the shapes differ, or the input has neither one nor two dimensions.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    shape = tuple(input._layout.shape)
    if len(shape) > 2:
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(shape)}"
        )
    if shape != tuple(target._layout.shape):
        raise RuntimeError(
            f"inconsistent target size: {list(target._layout.shape)} for input of size: {list(shape)}"
        )
    if not shape:
        input, target, shape = input.reshape(1), target.reshape(1), (1,)
    classes = shape[-1]
    valid = (target < 0).to(target._layout.dtype).cumsum(-1) == 0
    labels = target.masked_fill(~valid, 0)
    counts = target.new_zeros(shape, dtype=input._layout.dtype)
    is_label = counts.scatter_add(-1, labels, valid.to(input._layout.dtype)) > 0
    losses = (1 - input.gather(-1, labels).unsqueeze(-1) + input.unsqueeze(-2)).clamp(min=0)
    losses = losses.masked_fill(~valid.unsqueeze(-1) | is_label.unsqueeze(-2), 0)
    return reduced(losses.sum((-1, -2)) / classes, reduction)
