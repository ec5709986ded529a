"""Losses at the top level, whose reductions are numbers: 0 for none, 1 for the mean, 2 for the sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.operations.definition import operation

from . import element_losses, sequence_losses, similarities
from .losses import REDUCTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor


def _named(reduction: int) -> str:
    if reduction not in (0, 1, 2):
        raise ValueError(
            f"{reduction!r} is not a valid value for reduction: it is 0 (none), 1 (mean) or 2 (sum); functions of "
            "nn.functional take names"
        )
    return REDUCTIONS[reduction]


@operation(method=False)
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """Binary cross entropy of ``sigmoid(input)``: see :func:`nn.functional.binary_cross_entropy_with_logits`."""
    return element_losses.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_named(reduction), pos_weight=pos_weight
    )


@operation(method=False)
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """``1 - cos`` or ``max(0, cos - margin)``: see :func:`nn.functional.cosine_embedding_loss`."""
    return similarities.cosine_embedding_loss(input1, input2, target, margin, reduction=_named(reduction))


@operation(method=False)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification: see :func:`nn.functional.ctc_loss`."""
    return sequence_losses.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _named(reduction), zero_infinity
    )


@operation(method=False)
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """``input`` or ``max(0, margin - input)``: see :func:`nn.functional.hinge_embedding_loss`."""
    return element_losses.hinge_embedding_loss(input, target, margin, reduction=_named(reduction))


@operation(method=False)
def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """``target * (log(target) - input)``: see :func:`nn.functional.kl_div`."""
    if _named(reduction) == "mean":
        losses = element_losses.kl_div(input, target, reduction="none", log_target=log_target)
        return losses.mean()  # type: ignore[no-any-return]
    return element_losses.kl_div(input, target, reduction=_named(reduction), log_target=log_target)


@operation(method=False)
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)``: see :func:`nn.functional.margin_ranking_loss`."""
    return element_losses.margin_ranking_loss(input1, input2, target, margin, reduction=_named(reduction))


@operation(method=False)
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """Negative log-likelihood of counts: see :func:`nn.functional.poisson_nll_loss`."""
    return element_losses.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_named(reduction)
    )


@operation(method=False)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """Distance to the positive less that to the negative: see :func:`nn.functional.triplet_margin_loss`."""
    return similarities.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_named(reduction)
    )
