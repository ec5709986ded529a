"""Losses of elements of an input and of a target, as users call them."""

from __future__ import annotations

import warnings
from math import log as log_of
from math import pi
from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.operations.autocast import FLOAT32, REFUSED, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.powers import exp, log
from tensor.operations.pointwise.selection import where

from .losses import check_place, reduced, reduction_of
from .pointwise_losses import BCE, BCE_WITH_LOGITS, HUBER, KL_DIV, KL_DIV_LOG, L1, MSE, SMOOTH_L1

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

    from .pointwise_losses import Loss


def _compared(
    loss: Loss,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    *numbers: float,
    batchmean: bool = False,
) -> Tensor:
    """A loss of tensors that broadcast, of which it is said where their sizes differ."""
    if batchmean and reduction == "batchmean":
        total = loss(input, target, *numbers, reduction="sum")
        return total / input._layout.shape[0] if input._layout.shape else total
    reduction = reduction_of(reduction)
    mine, given = tuple(input._layout.shape), tuple(target._layout.shape)
    if mine != given and not batchmean:
        warnings.warn(
            f"Using a target size ({list(given)}) that is different to the input size ({list(mine)}). This will likely "
            "lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            UserWarning,
            stacklevel=4,
        )
    check_place(loss.name, input, target=target, weight=weight)
    if weight is None:
        return loss(input, target, *numbers, reduction=reduction)
    losses = loss(input, target, *numbers, reduction="none")
    if tuple(weight._layout.shape) != tuple(losses._layout.shape):
        raise ValueError(
            f"Weights and input must have the same size: got {list(weight._layout.shape)} and "
            f"{list(losses._layout.shape)}"
        )
    losses = losses * weight
    if reduction == "mean":
        return losses.sum() / weight.sum()  # type: ignore[no-any-return]
    return reduced(losses, reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``(input - target) ** 2``, their mean or their sum.

    Parameters
    ----------
    reduction : str
        ``"none"``, ``"mean"`` or ``"sum"``.
    weight : Tensor, optional
        What each loss weighs.
    """
    return _compared(MSE, input, target, weight, reduction_of(reduction, size_average, reduce))


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``abs(input - target)``, their mean or their sum."""
    reduction = reduction_of(reduction, size_average, reduce)
    kinds = input._layout.dtype, target._layout.dtype
    if any(kind.is_complex for kind in kinds) or not any(kind.is_floating_point for kind in kinds):
        # Integers and complex numbers have other derivatives, or none.
        return reduced((input - target).abs(), reduction)
    return _compared(L1, input, target, weight, reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Quadratic for differences below ``beta``, linear above: ``d ** 2 / (2 beta)`` or ``abs(d) - beta / 2``.

    Raises
    ------
    RuntimeError
        If ``beta`` is negative.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    if beta == 0:
        return _compared(L1, input, target, None, reduction)
    return _compared(SMOOTH_L1, input, target, None, reduction, float(beta))


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Quadratic for differences below ``delta``, linear above: ``d ** 2 / 2`` or ``delta (abs(d) - delta / 2)``.

    Raises
    ------
    RuntimeError
        If ``delta`` is not positive.
    """
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}")
    return _compared(HUBER, input, target, weight, reduction, float(delta))


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=REFUSED, cpu=FLOAT32))
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(target * log(input) + (1 - target) * log(1 - input))``, logarithms cut off at -100.

    Parameters
    ----------
    input, target : Tensor
        Chances, of the same shape.
    weight : Tensor, optional
        What losses are multiplied with; it broadcasts.

    Raises
    ------
    ValueError
        If shapes differ.
    RuntimeError
        If an input is not between 0 and 1; on CUDA that is a failed assertion, which a later call raises.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if input._layout.shape != target._layout.shape:
        raise ValueError(
            f"Using a target size ({list(target._layout.shape)}) that is different to the input size "
            f"({list(input._layout.shape)}) is deprecated. Please ensure they have the same size."
        )
    check_place("binary_cross_entropy", input, target=target, weight=weight)
    if not input._layout.place.is_cuda and not ((input._host >= 0) & (input._host <= 1)).all():
        raise RuntimeError("all elements of input should be between 0 and 1")
    if weight is None:
        return BCE(input, target, reduction=reduction)
    return reduced(BCE(input, target, reduction="none") * weight, reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """:func:`binary_cross_entropy` of ``sigmoid(input)``, computed without overflow.

    Parameters
    ----------
    weight : Tensor, optional
        What losses are multiplied with; it broadcasts.
    pos_weight : Tensor, optional
        What the part of ``target`` is multiplied with; it broadcasts.

    Raises
    ------
    ValueError
        If shapes differ.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if input._layout.shape != target._layout.shape:
        raise ValueError(
            f"Target size ({list(target._layout.shape)}) must be the same as input size ({list(input._layout.shape)})"
        )
    check_place(
        "binary_cross_entropy_with_logits", input, target=target, weight=weight, pos_weight=pos_weight
    )
    if weight is None and pos_weight is None:
        return BCE_WITH_LOGITS(input, target, reduction=reduction)
    if pos_weight is None:
        losses = BCE_WITH_LOGITS(input, target, reduction="none")
    else:
        # Softplus of -input is the loss of target 1.
        positive = BCE_WITH_LOGITS(input, input.new_ones(()), reduction="none")
        losses = (1 - target) * input + ((pos_weight - 1) * target + 1) * positive
    if weight is not None:
        losses = losses * weight
    return reduced(losses, reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """``target * (log(target) - input)``: the divergence of chances from those whose logarithms are the input.

    Parameters
    ----------
    reduction : str
        ``"none"``, ``"mean"`` (over elements), ``"sum"`` or ``"batchmean"`` (the sum divided by the batch's size,
        which is what the divergence is).
    log_target : bool
        Whether the target has logarithms too.
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(reduction, size_average, reduce)
    elif reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' "
            "divides only by the batch size, and aligns with the KL div math definition.",
            UserWarning,
            stacklevel=3,
        )
    loss = KL_DIV_LOG if log_target else KL_DIV
    return _compared(loss, input, target, None, reduction, batchmean=True)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of counts ``target`` with Poisson rates ``input``, or with their logarithms.

    Parameters
    ----------
    log_input : bool
        Whether the input has logarithms: the loss is ``exp(input) - target * input``, else
        ``input - target * log(input + eps)``.
    full : bool
        Whether Stirling's approximation of ``log(target!)`` is added, where the target is above 1.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    losses: Any = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        stirling = target * log(target) - target + 0.5 * log(2 * pi * target)
        losses = losses + stirling.masked_fill(target <= 1, 0)
    return reduced(losses, reduction)


@operation(namespace="nn.functional", method=False)
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of ``target`` under normal distributions of mean ``input`` and variance ``var``.

    Parameters
    ----------
    var : Tensor or float
        Of the input's shape, or without its last dimension, or with 1 there.
    full : bool
        Whether the constant ``log(2 pi) / 2`` is added.
    eps : float
        Smallest variance; gradients go through it.

    Raises
    ------
    ValueError
        If a variance is negative, or shapes do not fit.
    """
    if not isinstance(var, TensorBase):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.new_full((), float(var)).expand(input._layout.shape)
    mine, given = tuple(input._layout.shape), tuple(var._layout.shape)
    if given != mine:
        if given == mine[:-1]:
            var = var.unsqueeze(-1)
        elif len(mine) != len(given) or mine[:-1] != given[:-1] or given[-1] != 1:
            raise ValueError(f"var is of incorrect size: {list(given)}, for an input of shape {list(mine)}")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    if (var < 0).any():
        raise ValueError("var has negative entry/entries")
    # Gradients pass as if nothing had been cut off.
    plain = var.detach()
    spread: Any = var + (plain.clamp(min=eps) - plain)
    difference = input - target
    losses = 0.5 * (log(spread) + difference * difference / spread)
    if full:
        losses = losses + 0.5 * log_of(2 * pi)
    return reduced(losses, reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-target * input))`` of targets 1 and -1."""
    reduction = reduction_of(reduction, size_average, reduce)
    check_place("soft_margin_loss", input, target=target)
    return reduced(_softplus(-target * input), reduction)


def _softplus(x: Tensor) -> Tensor:
    """``log(1 + exp(x))``; its derivative is the logistic function."""
    return BCE_WITH_LOGITS(x, x.new_zeros(()), reduction="none")


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1."""
    reduction = reduction_of(reduction, size_average, reduce)
    check_place("hinge_embedding_loss", input, target=target)
    zero = input.new_zeros(())
    apart = where(target != 1, (margin - input).clamp(min=0), zero)
    return reduced(apart + where(target != -1, input, zero), reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)``: 1 says that the first ranks higher, -1 the second."""
    reduction = reduction_of(reduction, size_average, reduce)
    ranks = len(input1._layout.shape), len(input2._layout.shape), len(target._layout.shape)
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{list(input1._layout.shape)}, input2: {list(input2._layout.shape)}, target: {list(target._layout.shape)} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


@operation(namespace="nn.functional", method=False)
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropy of the logits of each class, whose mean over the classes is the loss of a sample."""
    reduction = reduction_of(reduction, size_average, reduce)
    losses = target * _softplus(-input) + (1 - target) * _softplus(input)
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
    """``sum over i of max(0, margin - input[target] + input[i]) ** p / C``, without ``i = target``.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C) or (C,).
    target : Tensor
        Classes, of shape (N,) or ().
    p : int
        1 or 2.
    weight : Tensor, optional
        What each class weighs, of shape (C,).
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
    shape = input._layout.shape
    classes = shape[-1] if shape else 1
    if weight is not None and tuple(weight._layout.shape) != (classes,):
        raise ValueError(
            f"weight must have one element for each of {classes} classes, got {list(weight._layout.shape)}"
        )
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
    goals = target.reshape(*shape[:-1], 1)
    own = input.gather(-1, goals)
    losses = (margin - own + input).clamp(min=0)
    if p == 2:
        losses = losses * losses
    if weight is not None:
        losses = losses * weight[goals]
    # What the target's own class adds is the margin itself, whatever the input.
    losses = losses.scatter(-1, goals, 0.0)
    return reduced(losses.sum(-1) / classes, reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``sum of max(0, 1 - (input[label] - input[i])) / C`` over the labels, and over ``i`` that are none.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C) or (C,).
    target : Tensor
        Of the same shape: the labels of a sample, then -1, behind which nothing counts.
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
    counts = (target < 0).to(target._layout.dtype).cumsum(-1) == 0
    goals = target.masked_fill(~counts, 0)
    marks = target.new_zeros(shape, dtype=input._layout.dtype)
    labels = marks.scatter_add(-1, goals, counts.to(input._layout.dtype)) > 0
    own = input.gather(-1, goals)
    losses = (1 - own.unsqueeze(-1) + input.unsqueeze(-2)).clamp(min=0)
    losses = losses.masked_fill(~counts.unsqueeze(-1) | labels.unsqueeze(-2), 0)
    return reduced(losses.sum((-1, -2)) / classes, reduction)


__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
]
