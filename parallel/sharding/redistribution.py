"""Moves between placements on a mesh, in forward passes and, the other way, in backward passes.

The gradient of what is divided is divided in the same way. That of what is replicated, or partial, is whole on each rank: its
ranks have computed the same. Where each rank computes a term of a gradient instead, as a layer does whose weight is divided,
the tensor is read through :func:`summing`, whose backward pass adds the terms up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from parallel.groups.collectives.tensor_collectives import (
    all_gather_into_tensor,
    all_reduce,
    reduce_scatter_tensor,
)
from parallel.groups.reduce_op import ReduceOp
from tensor.autograd import Function

from .placements import Partial, Replicate, Shard, Sharding, bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor import Tensor

    from .placements import Placement

_OPERATIONS = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.AVG,
    "product": ReduceOp.PRODUCT,
    "max": ReduceOp.MAX,
    "min": ReduceOp.MIN,
}


class _Move(Function):
    """A function of a tensor with another one for its backward pass."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor], Tensor]
    ) -> Tensor:
        ctx.move = backward
        return forward(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.move(gradients[0]), None, None


def moved(x: Tensor, forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor], Tensor]) -> Tensor:
    """``forward(x)``, whose gradient goes on as ``backward`` of it."""
    if not (tensor.is_grad_enabled() and x.requires_grad):
        return forward(x)
    result: Tensor = _Move.apply(x, forward, backward)
    return result


def redistributed(local: Tensor, present: Sharding, placements: tuple[Placement, ...]) -> Tensor:
    """The part of this rank as ``placements`` have it; all ranks of the mesh call this.

    ``local``: the part as ``present`` has it.

    Raises
    ------
    NotImplementedError
        If a tensor is to become a product.
    """
    target = present.replaced(placements)
    before, after = present.divisions(), target.divisions()
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    # What was divided last is gathered first.
    current = present
    for mesh_dim, _ in reversed(before[same:]):
        local, current = _gathered(local, current, mesh_dim)
    scattered: int | None = None
    for mesh_dim, (one, other) in enumerate(zip(present.placements, placements, strict=True)):
        if one.is_partial() and one != other:
            if isinstance(other, Shard) and after[same:] == [(mesh_dim, other.dim)]:
                scattered = mesh_dim
            else:
                local, current = _reduced(local, current, mesh_dim, Replicate())
    if scattered is not None:
        local, current = _reduced(local, current, scattered, placements[scattered])
    else:
        for mesh_dim, _ in after[same:]:
            local, current = _part(local, current, mesh_dim, placements[mesh_dim])
    for mesh_dim, each in enumerate(placements):
        if isinstance(each, Partial) and current.placements[mesh_dim] != each:
            local, current = _term(local, current, mesh_dim, each)
    return local


def summing(x: Tensor, sharding: Sharding, mesh_dim: int) -> Tensor:
    """``x``, replicated along a dimension of the mesh, for what computes on each rank a term of its gradient."""
    group = sharding.mesh.get_group(mesh_dim)
    return moved(x, lambda value: value.view_as(value), lambda gradient: _sum(gradient, group))


def gathered_for_sums(local: Tensor, sharding: Sharding, mesh_dim: int, whole: Tensor) -> Tensor:
    """``whole``, which was gathered along ``mesh_dim``, for what computes on each rank a term of its gradient."""
    dim, _, group = _division(sharding, mesh_dim)
    return moved(
        local,
        lambda _: whole.detach(),
        lambda gradient: _reduce_scatter(gradient, dim, group, ReduceOp.SUM),
    )


def _with(sharding: Sharding, mesh_dim: int, placement: Placement) -> Sharding:
    placements = list(sharding.placements)
    placements[mesh_dim] = placement
    return sharding.replaced(placements)


def _division(sharding: Sharding, mesh_dim: int) -> tuple[int, int, Any]:
    """Of the division that comes last: the tensor's dimension, its size before that, and the group."""
    placement: Any = sharding.placements[mesh_dim]
    size = _with(sharding, mesh_dim, Replicate()).local_shape()[placement.dim]
    return placement.dim, size, sharding.mesh.get_group(mesh_dim)


def _gathered(local: Tensor, sharding: Sharding, mesh_dim: int) -> tuple[Tensor, Sharding]:
    dim, size, group = _division(sharding, mesh_dim)
    whole = moved(
        local, lambda x: _gather(x, dim, size, group), lambda gradient: _slice(gradient, dim, group)
    )
    return whole, _with(sharding, mesh_dim, Replicate())


def _part(local: Tensor, sharding: Sharding, mesh_dim: int, placement: Placement) -> tuple[Tensor, Sharding]:
    after = _with(sharding, mesh_dim, placement)
    dim, size, group = _division(after, mesh_dim)
    part = moved(local, lambda x: _slice(x, dim, group), lambda gradient: _gather(gradient, dim, size, group))
    return part, after


def _reduced(
    local: Tensor, sharding: Sharding, mesh_dim: int, placement: Placement
) -> tuple[Tensor, Sharding]:
    """The reduction of terms: whole, or this rank's part of it."""
    partial: Any = sharding.placements[mesh_dim]
    group, operation = sharding.mesh.get_group(mesh_dim), _OPERATIONS[partial.reduce_op]
    is_linear = partial.reduce_op in ("sum", "avg")

    def terms(gradient: Tensor) -> Tensor:
        if not is_linear:
            raise NotImplementedError(
                f"the gradient of {partial!r} is not defined: reduce sums or means where gradients are required"
            )
        return gradient / group.size() if partial.reduce_op == "avg" else gradient

    if isinstance(placement, Shard):
        dim, size = placement.dim, local.shape[placement.dim]
        result = moved(
            local,
            lambda x: _reduce_scatter(x, dim, group, operation),
            lambda gradient: terms(_gather(gradient, dim, size, group)),
        )
    else:
        result = moved(local, lambda x: _sum(x, group, operation), terms)
    return result, _with(sharding, mesh_dim, placement)


def _term(local: Tensor, sharding: Sharding, mesh_dim: int, partial: Partial) -> tuple[Tensor, Sharding]:
    """What is whole on each rank as terms that reduce to it."""
    group = sharding.mesh.get_group(mesh_dim)
    first = group.rank() == 0
    if partial.reduce_op == "product":
        raise NotImplementedError("a tensor cannot become Partial(product): use Partial(), or Replicate()")

    def term(x: Tensor) -> Tensor:
        return x.view_as(x) if first or partial.reduce_op != "sum" else tensor.zeros_like(x)

    return moved(local, term, lambda gradient: gradient), _with(sharding, mesh_dim, partial)


# Collectives along one dimension of a tensor


def _slice(x: Tensor, dim: int, group: Any) -> Tensor:
    start, end = bounds(x.shape[dim], group.size(), group.rank())
    return x.narrow(dim, start, end - start).clone().contiguous()


def _sum(x: Tensor, group: Any, operation: Any = ReduceOp.SUM) -> Tensor:
    result = x.clone().contiguous()
    all_reduce(result, operation, group=group)
    return result


def _gather(x: Tensor, dim: int, size: int, group: Any) -> Tensor:
    """Parts of ``size`` rows, joined along ``dim``."""
    rows = -(-size // group.size())
    mine = _padded(x.movedim(dim, 0), rows)
    whole = mine.new_empty((group.size() * rows, *mine.shape[1:]))
    if whole.numel():
        all_gather_into_tensor(whole.reshape(-1), mine.reshape(-1), group=group)
    return whole[:size].movedim(0, dim).contiguous()


def _reduce_scatter(x: Tensor, dim: int, group: Any, operation: Any) -> Tensor:
    size = x.shape[dim]
    rows = -(-size // group.size())
    whole = _padded(x.movedim(dim, 0), rows * group.size())
    mine = whole.new_empty((rows, *whole.shape[1:]))
    if mine.numel():
        reduce_scatter_tensor(mine.reshape(-1), whole.reshape(-1), operation, group=group)
    start, end = bounds(size, group.size(), group.rank())
    return mine[: end - start].movedim(0, dim).contiguous()


def _padded(x: Tensor, rows: int) -> Tensor:
    """``x``, contiguous, with ``rows`` rows, of which the last ones are zeros."""
    if x.shape[0] == rows:
        return x.contiguous()
    result = x.new_zeros((rows, *x.shape[1:]))
    result[: x.shape[0]].copy_(x)
    return result
