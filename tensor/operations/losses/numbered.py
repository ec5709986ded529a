"""Losses of the top-level namespace, whose ``reduction`` is a number: 0 for none, 1 for the mean, 2 for the sum.

They are those of ``nn.functional``, which name their reductions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.operations.definition import operation

from . import elementwise, sequence, similarity
from .loss import REDUCTIONS

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
    """Binary cross entropy of ``sigmoid(input)``, as :func:`nn.functional.binary_cross_entropy_with_logits`.

    Parameters
    ----------
    input, target : Tensor
        Logits and probabilities, of the same shape.
    weight, pos_weight : Tensor, optional
        Factors of the losses, and of their terms with ``target``; broadcast.
    reduction : int
        0 (no reduction), 1 (mean) or 2 (sum).

    Raises
    ------
    ValueError
        If ``reduction`` is none of these, or the shapes differ.
    RuntimeError
        If the tensors are on different devices.
    """
    return elementwise.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_named(reduction), pos_weight=pos_weight
    )


@operation(method=False)
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """``1 - cos`` for target 1, ``max(0, cos - margin)`` for -1, as :func:`nn.functional.cosine_embedding_loss`.

    Parameters
    ----------
    input1, input2 : Tensor
        Of shape (N, D) or (D,).
    target : Tensor
        1 and -1, of shape (N,) or ().
    reduction : int
        0 (no reduction), 1 (mean) or 2 (sum).

    Raises
    ------
    ValueError
        If ``reduction`` is none of these.
    RuntimeError
        If the numbers of dimensions are not those above, or the shapes cannot be broadcast together.
    """
    return similarity.cosine_embedding_loss(input1, input2, target, margin, reduction=_named(reduction))


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
    """Connectionist temporal classification, as :func:`nn.functional.ctc_loss`.

    Parameters
    ----------
    log_probs : Tensor
        Log-probabilities of a floating dtype, of shape (T, N, C), or (T, C) of a single sample.
    targets : Tensor
        Labels, int64 or int32, of shape (N, S), or (sum of the target lengths,), or (S,) of a single sample.
    input_lengths, target_lengths : Tensor or sequence of int
        Lengths of each sample, N of them.
    blank : int
        The class that is not a label.
    reduction : int
        0 (no reduction), 1 (mean) or 2 (sum).
    zero_infinity : bool
        Whether infinite losses and their gradients become 0.

    Raises
    ------
    ValueError
        If ``reduction`` is none of these.
    RuntimeError
        If a shape is not the one above, there is not a length for each sample, one is longer than its data, or a
        label or ``blank`` is not a class.
    """
    return sequence.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _named(reduction), zero_infinity
    )


@operation(method=False)
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """``input`` for target 1, ``max(0, margin - input)`` for -1, as :func:`nn.functional.hinge_embedding_loss`.

    Parameters
    ----------
    input, target : Tensor
        Of shapes that broadcast.
    reduction : int
        0 (no reduction), 1 (mean) or 2 (sum).

    Raises
    ------
    ValueError
        If ``reduction`` is none of these.
    RuntimeError
        If the tensors are on different devices, or their shapes do not broadcast.
    """
    return elementwise.hinge_embedding_loss(input, target, margin, reduction=_named(reduction))


@operation(method=False)
def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """Kullback-Leibler divergence ``target * (log(target) - input)``, as :func:`nn.functional.kl_div`.

    Parameters
    ----------
    input : Tensor
        Log-probabilities.
    target : Tensor
        Probabilities, or log-probabilities with ``log_target``, of a shape that broadcasts.
    reduction : int
        0 (no reduction), 1 (mean) or 2 (sum).

    Raises
    ------
    ValueError
        If ``reduction`` is none of these.
    RuntimeError
        If the tensors are on different devices, or their shapes do not broadcast.
    """
    if _named(reduction) == "mean":
        losses = elementwise.kl_div(input, target, reduction="none", log_target=log_target)
        return losses.mean()
    return elementwise.kl_div(input, target, reduction=_named(reduction), log_target=log_target)


@operation(method=False)
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """``max(0, -target * (input1 - input2) + margin)``, as :func:`nn.functional.margin_ranking_loss`.

    Parameters
    ----------
    input1, input2, target : Tensor
        Of shapes with the same number of dimensions that broadcast.
    reduction : int
        0 (no reduction), 1 (mean) or 2 (sum).

    Raises
    ------
    ValueError
        If ``reduction`` is none of these.
    RuntimeError
        If the numbers of dimensions differ, or the shapes do not broadcast.
    """
    return elementwise.margin_ranking_loss(input1, input2, target, margin, reduction=_named(reduction))


@operation(method=False)
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """Negative log-likelihood of counts under Poisson distributions, as :func:`nn.functional.poisson_nll_loss`.

    Parameters
    ----------
    input, target : Tensor
        Rates, or their logarithms with ``log_input``, and counts, of shapes that broadcast.
    full : bool
        Whether Stirling's approximation of ``log(target!)`` is added.
    eps : float
        Added to rates before their logarithm is taken.
    reduction : int
        0 (no reduction), 1 (mean) or 2 (sum).

    Raises
    ------
    ValueError
        If ``reduction`` is none of these.
    RuntimeError
        If the tensors are on different devices, or their shapes do not broadcast.
    """
    return elementwise.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_named(reduction))


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
    """``max(0, distance(anchor, positive) - distance(anchor, negative) + margin)``.

    As :func:`nn.functional.triplet_margin_loss`.

    Parameters
    ----------
    anchor, positive, negative : Tensor
        Of shape (N, D) or (D,).
    p, eps : float
        Order of the norm of the distance, and what is added to differences.
    swap : bool
        Whether the distance from positive to negative replaces that from the anchor where it is smaller.
    reduction : int
        0 (no reduction), 1 (mean) or 2 (sum).

    Raises
    ------
    ValueError
        If ``reduction`` is none of these, or ``margin`` is not positive.
    RuntimeError
        If the numbers of dimensions differ, or the shapes do not broadcast.
    """
    return similarity.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_named(reduction)
    )
