"""Distances and angles between vectors, and the losses that are made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.arguments import dimension
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import minimum, where
from tensor.operations.shapes.broadcasting import broadcast_tensors

from .losses import reduced, reduction_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=FLOAT32))
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between vectors along ``dim``: their product divided by their lengths.

    Parameters
    ----------
    x1, x2 : Tensor
        Of shapes that broadcast together.
    eps : float
        Smallest length that is divided by.
    """
    for x in (x1, x2):
        if not x._layout.dtype.is_floating_point:
            raise RuntimeError(
                f"expected common dtype to be floating point, yet common dtype is {x._layout.dtype!r}"
            )
    if x1._layout.shape != x2._layout.shape:
        x1, x2 = broadcast_tensors(x1, x2)
    at = dimension(dim, len(x1._layout.shape))
    lengths = [_at_least(x.norm(2, at, keepdim=True), eps) for x in (x1, x2)]
    found: Any = ((x1 / lengths[0]) * (x2 / lengths[1])).sum(at)
    return found  # type: ignore[no-any-return]


def _at_least(x: Tensor, least: float) -> Tensor:
    """The larger of both, through which gradients pass as if nothing had been cut off."""
    plain = x.detach()
    return x + (plain.clamp(min=least) - plain)  # type: ignore[no-any-return]


@operation(namespace="tensor nn.functional", method=False)
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """``p``-norm of ``x1 - x2 + eps`` along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)  # type: ignore[no-any-return]


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` of the angle between vectors where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Parameters
    ----------
    input1, input2 : Tensor
        Of shape (N, D) or (D,).
    target : Tensor
        Of shape (N,) or ().
    """
    reduction = reduction_of(reduction, size_average, reduce)
    rank = len(target._layout.shape)
    if rank not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if len(input1._layout.shape) != rank + 1 or len(input2._layout.shape) != rank + 1:
        raise RuntimeError(
            f"{rank}D target tensor expects {rank + 1}D input tensors, but found inputs with sizes "
            f"{list(input1._layout.shape)} and {list(input2._layout.shape)}."
        )
    # As in PyTorch, where a length of 0 is moved away from 0 and no longer one is.
    tiny = 1e-12
    squares = [(x * x).sum(-1) + tiny for x in (input1, input2)]
    cosines: Any = (input1 * input2).sum(-1) / (squares[0] * squares[1]).sqrt()
    zero = cosines.new_zeros(())
    together = where(target == 1, 1 - cosines, zero)
    apart = where(target == -1, (cosines - margin).clamp(min=0), zero)
    return reduced(together + apart, reduction)


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=FLOAT32, cpu=FLOAT32))
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, distance(anchor, positive) - distance(anchor, negative) + margin)``.

    Parameters
    ----------
    anchor, positive, negative : Tensor
        Of shape (N, D) or (D,).
    p, eps : float
        Of :func:`pairwise_distance`.
    swap : bool
        Whether the distance from positive to negative is taken where it is the smaller one.
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _triplet(
        anchor, positive, negative, lambda a, b: pairwise_distance(a, b, p, eps), margin, swap, reduction
    )


@operation(namespace="nn.functional", method=False)
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """:func:`triplet_margin_loss` with distances of any kind; by default :func:`pairwise_distance`."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    reduction = reduction_of(reduction)
    return _triplet(
        anchor, positive, negative, distance_function or pairwise_distance, margin, swap, reduction
    )


def _triplet(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    ranks = [len(x._layout.shape) for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0), reduction)
