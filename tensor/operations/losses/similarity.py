"""Cosine similarity and distance of vectors, and the losses that compare vectors by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.arguments import dimension
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import minimum, where
from tensor.operations.shapes.broadcasting import broadcast_tensors

from .loss import reduced, reduction_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.methods.tensor import Tensor


@operation(namespace="tensor nn.functional", method=False, autocast=Autocast(cuda=FLOAT32))
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between vectors along ``dim``: ``sum(x1 * x2) / (norm(x1) * norm(x2))``.

    Parameters
    ----------
    x1, x2 : Tensor
        Of floating dtypes and shapes that broadcast; the result lacks dimension ``dim``.
    eps : float
        Smallest norm that is divided by; gradients pass as if nothing had been cut off.

    Raises
    ------
    RuntimeError
        If a dtype is not a floating one, or the shapes do not broadcast.
    IndexError
        If there is no such dimension.

    Examples
    --------
    >>> tensor.cosine_similarity(tensor.tensor([[1.0, 0.0]]), tensor.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """
    for x in (x1, x2):
        if not x._layout.dtype.is_floating_point:
            raise RuntimeError(
                f"expected common dtype to be floating point, yet common dtype is {x._layout.dtype!r}"
            )
    if x1._layout.shape != x2._layout.shape:
        x1, x2 = broadcast_tensors(x1, x2)
    at = dimension(dim, len(x1._layout.shape))
    norms = [_at_least(x.norm(2, at, keepdim=True), eps) for x in (x1, x2)]
    cosines: Any = ((x1 / norms[0]) * (x2 / norms[1])).sum(at)
    return cosines  # type: ignore[no-any-return]


def _at_least(x: Tensor, least: float) -> Tensor:
    """``max(x, least)`` with the gradient of ``x``."""
    constant = x.detach()
    return x + (constant.clamp(min=least) - constant)


@operation(namespace="tensor nn.functional", method=False)
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """``p``-norm of ``x1 - x2 + eps`` along the last dimension.

    Parameters
    ----------
    x1, x2 : Tensor
        Vectors of shapes (N, D) or (D,) that broadcast; the result has shape (N,) or (), or (N, 1) or (1,) with
        ``keepdim``.
    eps : float
        Keeps the gradient finite where both are equal.

    Raises
    ------
    RuntimeError
        If the shapes do not broadcast, or the tensors are on different devices.
    """
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


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
        1 and -1, of shape (N,) or ().
    margin : float
        Cosine, from -1 to 1, up to which vectors of target -1 cost nothing.
    reduction : str
        ``"none"`` (a loss for each sample), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    ValueError
        If there is no such reduction.
    RuntimeError
        If the numbers of dimensions are not those above, or the shapes cannot be broadcast together.
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
    # As in PyTorch: a term that keeps the gradient finite at vectors of 0, and not a bound.
    squares = [(x * x).sum(-1) + 1e-12 for x in (input1, input2)]
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

    V. Balntas et al., "Learning local feature descriptors with triplets and shallow convolutional neural networks",
    2016.

    Parameters
    ----------
    anchor, positive, negative : Tensor
        Of shape (N, D) or (D,).
    p, eps : float
        Order of the norm and offset of :func:`pairwise_distance`.
    swap : bool
        Whether the distance from positive to negative replaces that from the anchor where it is smaller.
    reduction : str
        ``"none"`` (a loss for each sample), ``"mean"`` or ``"sum"`` (0-dim).
    size_average, reduce : bool, optional
        Deprecated names of reductions.

    Raises
    ------
    ValueError
        If ``margin`` is not positive, or there is no such reduction.
    RuntimeError
        If the numbers of dimensions differ, or the shapes do not broadcast.
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
    """:func:`triplet_margin_loss` with another distance.

    Parameters
    ----------
    anchor, positive, negative : Tensor
        Of the same number of dimensions, as ``distance_function`` takes them.
    distance_function : callable, optional
        Of two tensors; by default :func:`pairwise_distance`.
    swap : bool
        Whether the distance from positive to negative replaces that from the anchor where it is smaller.
    reduction : str
        ``"none"`` (a loss for each sample), ``"mean"`` or ``"sum"`` (0-dim).

    Raises
    ------
    ValueError
        If ``margin`` is not positive, or there is no such reduction.
    RuntimeError
        If the numbers of dimensions differ.
    """
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
