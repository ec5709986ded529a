"""Losses: computed for all elements, and reduced over those of each sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.base import TensorBase
from tensor.func.dispatch import promoted, rule
from tensor.operations.indexing.gather import take
from tensor.operations.pointwise.selection import where

from .dimensions import as_rows

if TYPE_CHECKING:
    from tensor.func.dispatch import Call

_ELEMENTWISE = (
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div "
    "poisson_nll_loss soft_margin_loss hinge_embedding_loss margin_ranking_loss"
)


def _is_older(call: Call) -> bool:
    """Whether the reduction is said by the names that PyTorch gave up."""
    return call.get("size_average") is not None or call.get("reduce") is not None


@rule(" ".join(f"elementwise.{name}" for name in _ELEMENTWISE.split()))
def elementwise(call: Call) -> Any:
    """Means and sums over each sample's elements."""
    reduction = call.get("reduction", "mean")
    tensors = [x for x in call.arguments.values() if isinstance(x, TensorBase)]
    weighs = call.operation.name in ("mse_loss", "l1_loss", "huber_loss") and call.get("weight") is not None
    if _is_older(call) or weighs or reduction not in ("none", "mean", "sum", "batchmean"):
        return NotImplemented
    shape = max(tensors, key=lambda x: x.dim()).shape
    if any(x.shape != shape for x in tensors) and call.operation.name not in (
        "binary_cross_entropy_with_logits",
        "binary_cross_entropy",
    ):
        return NotImplemented
    flat = dict(zip(call.arguments, promoted(call, list(call.arguments.values())), strict=True))
    # Targets broadcast with a warning, and are never smaller than what is compared with them.
    flat = {
        name: call.full(call[name]) if name in ("input", "input1", "input2", "target") else each
        for name, each in flat.items()
    }
    losses = call.operation.call(flat | {"reduction": "none"})
    if reduction == "none":
        return call.wrap(losses)
    rows = as_rows(losses)
    if reduction == "batchmean":
        return call.wrap(rows.sum(1) / shape[0])
    return call.wrap(rows.mean(1) if reduction == "mean" else rows.sum(1))


@rule("classification.nll_loss classification.cross_entropy")
def classes(call: Call) -> Any:
    """Losses of classes, with a mean by weights."""
    input, target, weight = call["input"], call["target"], call.get("weight")
    reduction = call.get("reduction", "mean")
    if _is_older(call) or call.is_batched(weight) or reduction not in ("none", "mean", "sum"):
        return NotImplemented
    own_batch = input.dim() > 1
    x, y = call.full(input), call.full(target)
    if own_batch:
        x, y = x.flatten(0, 1), y.flatten(0, 1)
    losses = call.operation.call(call.arguments | {"input": x, "target": y, "reduction": "none"})
    rows = losses.reshape(call.size, *(input.shape[:1] if own_batch else ()), *losses.shape[1:])
    if reduction == "none":
        return call.wrap(rows)
    total = as_rows(rows).sum(1)
    if reduction == "sum":
        return call.wrap(total)
    if target.dtype.is_floating_point:
        count = input.numel() // input.shape[1 if own_batch else 0]
        return call.wrap(total / count)
    counted = y != call.get("ignore_index", -100)
    if weight is None:
        share = counted.to(total.dtype)
    else:
        share = where(counted, take(weight, where(counted, y, y.new_zeros(()))), weight.new_zeros(()))
    return call.wrap(total / as_rows(share.reshape(rows.shape)).sum(1))
