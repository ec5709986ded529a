"""Slices whose norms are limited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.arguments import dimension
from tensor.operations.autocast import FLOAT32, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import where
from tensor.operations.pointwise_operation import IN_PLACE
from tensor.operations.reduction import into_out

from .variance import vector_norm

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor


@operation(in_place=True, autocast=Autocast(cuda=FLOAT32))
def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None) -> Tensor:
    """Scale the slices along a dimension whose ``p``-norm is larger than ``maxnorm`` down to it.

    Raises
    ------
    RuntimeError
        For fewer than two dimensions, a ``p`` that is not positive, a negative ``maxnorm``, or integers.

    Examples
    --------
    >>> tensor.renorm(tensor.tensor([[3.0, 4.0], [0.3, 0.4]]), p=2, dim=0, maxnorm=1)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    layout = input._layout
    rank = len(layout.shape)
    if not p > 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, got {p}")
    if rank < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {rank} dimensions")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if not (layout.dtype.is_floating_point or layout.dtype.is_complex):
        raise RuntimeError(f"renorm: expected floating point or complex numbers, got {layout.dtype!r}")
    at = dimension(dim, rank)
    if out is IN_PLACE and input.requires_grad:
        # The derivative needs the former numbers.
        return input.copy_(renorm(input.clone(), p, dim, maxnorm))
    others = [axis for axis in range(rank) if axis != at]
    size: Any = vector_norm(input, p, others, True)
    scaled: Tensor = input * where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    if out is IN_PLACE:
        return input.copy_(scaled)
    return into_out(scaled, out, "renorm")
