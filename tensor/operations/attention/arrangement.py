"""What attention works out once for operands of given layouts: checks, sizes, and how products read them."""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels import fused_attention
from nvrtc_kernels.dtypes import bool_, float32
from nvrtc_kernels.layouts import (
    broadcast_shapes,
    broadcast_strides,
    packed_strides,
    stride_order,
    view_strides,
)
from tensor.core.base import view_of
from tensor.core.layout import contiguous, strided
from tensor.core.plans import planned
from tensor.core.plans.copies import copied
from tensor.operations.products.blas import factor

from .blocks import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    Ints = tuple[int, ...]


class FusedOperands(NamedTuple):
    """How kernels without scores in memory read query, key and value, and write results and gradients.

    Attributes
    ----------
    sizes : Sizes
        With the dimensions before positions and elements, that all are stretched to.
    strides : tuple
        Of query, key and value: over these dimensions, between rows and between elements.
    heads : tuple of int or None
        Of query, key and value, where some queries' heads share a key's.
    out : Layout
        Of the result: dimensions in the order in memory that the query's have.
    """

    sizes: fused_attention.Sizes
    strides: tuple[Ints, ...]
    heads: tuple[int, int, int] | None
    out: Layout

    def strides_of(self, shape: Ints, strides: Ints, *, own: bool) -> Ints:
        """Those of an operand over the dimensions of all; ``own`` if it has a query's heads."""
        if self.heads is not None:
            shape, strides = _split((shape, strides), self.heads, own=own)
        return broadcast_strides(shape, strides, (*self.sizes.shape, *shape[-2:]))


def packed_like(shape: Ints, like: Layout) -> Layout:
    """A layout without gaps whose rows lie in the order that those of another one have."""
    if like.shape[:-1] != shape[:-1]:
        return contiguous[shape, like.dtype, like.device_state]
    steps = packed_strides(shape[:-1], stride_order(shape[:-1], like.strides[:-1]))
    return strided[shape, (*(step * shape[-1] for step in steps), 1), like.dtype, like.device_state]


class Arrangement:
    """How operands of given layouts are read, and what they give.

    Attributes
    ----------
    problem : Problem or None
        Sizes; ``None`` where there are no scores, or no results.
    replace : callable or None
        Makes of query, key and value other ones that are to be taken instead, without groups of heads.
    scale : float
        What scores are multiplied by, unless it is given.
    query, key, value : callable
        Give a tensor as ``(matrices, rows, columns)``; it is copied only where products cannot read it.
    mask : Layout or None
        Of the mask over ``(*batch, *groups, positions, keys)``.
    mask_shape : tuple of int or None
        The same with the sizes of 1 that were stretched.
    out, rows : Layout
        Of the result, as users get it and as matrices.
    layouts, shapes, parted : tuple
        Layouts and shapes of query, key and value, and shapes with heads in groups.
    fused : FusedOperands or None
        How kernels without scores in memory read them, where there are such.
    """

    problem: Problem | None = None
    replace: Callable[..., tuple[Tensor, Tensor, Tensor]] | None = None
    mask: Layout | None = None
    mask_shape: Ints | None = None
    fused: FusedOperands | None = None

    def __init__(
        self, q: Layout, k: Layout, v: Layout, mask: Layout | None, causal: bool, grouped: bool
    ) -> None:
        _check(q, k, v, mask, causal)
        self.layouts = q, k, v
        self.shapes = q.shape, k.shape, v.shape
        views: list[tuple[Ints, Ints]] = [
            (x.shape, x.strides) for x in (q, k, v) + (() if mask is None else (mask,))
        ]
        heads = _heads(q, k, v, mask) if grouped else None
        if heads is not None:
            if heads[1] != heads[2]:
                self.replace = _repeat(heads)
                return
            views = [_split(x, heads, own=number in (0, 3)) for number, x in enumerate(views)]
        (one, _), (other, _), (last, _) = views[:3]
        if one[-1] != other[-1] or other[-2] != last[-2]:
            raise RuntimeError(
                "scaled_dot_product_attention(): expected query of shape (..., L, E), key (..., S, E) and value "
                f"(..., S, Ev), but got {list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
            )
        batch = broadcast_shapes(one[:-2], other[:-2], last[:-2])
        whole = (*batch, one[-2], other[-2])
        if mask is not None:
            shape, strides = views[3]
            if not _is_broadcast(shape, whole):
                raise RuntimeError(
                    f"attn_mask of shape {list(mask.shape)} cannot be broadcast to the scores' shape {list(whole)}"
                )
            self.mask = strided[
                whole, broadcast_strides(shape, strides, whole), mask.dtype, mask.device_state
            ]
            self.mask_shape = (*(1 for _ in range(len(whole) - len(shape))), *shape)
        users = batch if heads is None else (*batch[:-2], heads[0])
        self.out = contiguous[(*users, one[-2], last[-1]), q.dtype, q.device_state]
        if not prod(whole) or not last[-1]:
            return
        if not one[-1]:
            # Scores are 0, as are those of one element that is 0.
            self.replace = _sums if heads is None else _repeated_sums(heads)
            return
        groups = _shared(batch, other[:-2], last[:-2])
        self.problem = problem = Problem(
            batch[:groups], batch[groups:], one[-2], other[-2], one[-1], last[-1], causal
        )
        self.scale = 1 / sqrt(one[-1])
        own = (*problem.batch, *(1 for _ in problem.groups))
        self.query = _reader(q, *views[0], batch, problem.rows)
        self.key = _reader(k, *views[1], own, problem.keys)
        self.value = _reader(v, *views[2], own, problem.keys)
        self.rows = contiguous[(problem.matrices, problem.rows, last[-1]), q.dtype, q.device_state]
        self.full = (*batch, *one[-2:]), (*own, *other[-2:]), (*own, *last[-2:])
        self.parted = tuple(shape for shape, _ in views[:3])
        if q.device_state.is_cuda:
            steps = [broadcast_strides(shape, strides, (*batch, *shape[-2:])) for shape, strides in views[:3]]
            native: Any = q.device_state
            sizes = fused_attention.Sizes(
                batch, prod(problem.groups), problem.positions, problem.keys, problem.width, problem.values, causal
            )  # fmt: skip
            if fused_attention.takes(native.native, q.dtype, sizes, steps):
                self.fused = FusedOperands(sizes, tuple(steps), heads, packed_like(self.out.shape, q))
        self.forward: dict[Any, Any] = {}
        self.backward: dict[Any, Any] = {}

    def is_stretched(self, number: int) -> bool:
        """Whether an operand has fewer elements than its matrices."""
        return prod(self.full[number]) != prod(self.shapes[number])

    def gradient(self, number: int, result: Tensor) -> Tensor:
        """The gradient of an operand from that of its matrices."""
        shape, full = self.shapes[number], self.full[number]
        layout = result._layout
        if not self.is_stretched(number):
            return view_of(
                result._storage, contiguous[shape, layout.dtype, layout.device_state], result._offset
            )
        summed: Tensor = result.view(full).sum_to_size(self.parted[number]).view(shape)
        return summed


def _check(q: Layout, k: Layout, v: Layout, mask: Layout | None, causal: bool) -> None:
    name, operands = "scaled_dot_product_attention", {"query": q, "key": k, "value": v}

    def shown(what: str, of: Callable[[Layout], Any]) -> str:
        return ", ".join(f"{name}.{what}: {of(x)}" for name, x in operands.items())

    if min(len(x.shape) for x in operands.values()) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got "
            f"{shown('dim', lambda x: len(x.shape))} instead."
        )
    dtype, device_state = q.dtype, q.device_state
    if k.dtype is not dtype or v.dtype is not dtype:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got {shown('dtype', lambda x: x.dtype)} "
            "instead."
        )
    if not dtype.is_floating_point:
        raise RuntimeError(
            f"{name}(): expected query, key, and value of a floating point dtype, but got {dtype!r}"
        )
    if k.device_state is not device_state or v.device_state is not device_state:
        raise RuntimeError(
            "Expected query, key, and value to have the same device type, but got "
            f"{shown('device', lambda x: x.device)} instead."
        )
    if mask is None:
        return
    if causal:
        raise RuntimeError(f"{name}: Explicit attn_mask should not be set when is_causal=True")
    if mask.dtype not in (bool_, float32, dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{mask.dtype} and query.dtype: {dtype!r} instead."
        )
    if mask.device_state is not device_state:
        raise RuntimeError(
            f"Expected attn_mask and query to be on the same device, but got {mask.device} and {q.device}"
        )


def _is_broadcast(shape: Ints, to: Ints) -> bool:
    """Whether a tensor of a shape can be stretched to another one."""
    return len(shape) <= len(to) and all(
        size in (1, target) for size, target in zip(reversed(shape), reversed(to), strict=False)
    )


def _heads(q: Layout, k: Layout, v: Layout, mask: Layout | None) -> tuple[int, int, int] | None:
    """Heads of query, key and value; ``None`` where they are as many."""
    for name, x in (("query", q), ("key", k), ("value", v)):
        if len(x.shape) < 3:
            raise RuntimeError(
                "with enable_gqa the third dimension from the end has the heads, but "
                f"{name} has shape {list(x.shape)}"
            )
    heads, of_key, of_value = (x.shape[-3] for x in (q, k, v))
    if not of_key or not of_value or heads % of_key or heads % of_value:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query, but got "
            f"{of_key} and {of_value} for {heads}"
        )
    if mask is not None and len(mask.shape) > 2 and mask.shape[-3] not in (1, heads):
        raise RuntimeError(
            f"attn_mask of shape {list(mask.shape)} has {mask.shape[-3]} heads, and the query {heads}"
        )
    return None if heads == of_key == of_value else (heads, of_key, of_value)


def _split(view: tuple[Ints, Ints], heads: tuple[int, int, int], *, own: bool) -> tuple[Ints, Ints]:
    """Shape and strides with the heads as two dimensions: those of the keys, and the queries' for each of these."""
    shape, strides = view
    if len(shape) < 3:
        return view
    groups = heads[0] // heads[1]
    step = strides[-3]
    if not own or shape[-3] == 1:
        sizes: Ints = (shape[-3], 1)
        steps: Ints = (step, 0)
    else:
        sizes, steps = (heads[1], groups), (step * groups, step)
    return (*shape[:-3], *sizes, *shape[-2:]), (*strides[:-3], *steps, *strides[-2:])


def _repeat(heads: tuple[int, int, int]) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    def repeat(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        many, of_key, of_value = heads
        return query, key.repeat_interleave(many // of_key, -3), value.repeat_interleave(many // of_value, -3)

    return repeat


def _sums(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return query.sum(-1, keepdim=True), key.sum(-1, keepdim=True), value


def _repeated_sums(heads: tuple[int, int, int]) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    return lambda *operands: _sums(*_repeat(heads)(*operands))


def _shared(batch: Ints, *shapes: Ints) -> int:
    """Dimensions of ``batch`` after which ``shapes``, which are broadcast to it, have none but of size 1."""
    padded = [(*(1 for _ in range(len(batch) - len(shape))), *shape) for shape in shapes]
    result = len(batch)
    while result and all(shape[result - 1] == 1 for shape in padded):
        result -= 1
    return result


def _reader(layout: Layout, shape: Ints, strides: Ints, batch: Ints, rows: int) -> Callable[[Tensor], Tensor]:
    """What gives a tensor of ``layout``, seen with other shape and strides, stretched and as matrices."""
    full = (*batch, *shape[-2:])
    steps = broadcast_strides(shape, strides, full)
    count = prod(full) // (rows * shape[-1])
    matrices = (count, rows, shape[-1])
    seen = view_strides(full, steps, matrices)
    if seen is not None and factor(matrices, seen) is not None:
        into = strided[matrices, seen, layout.dtype, layout.device_state]
        if into is layout:
            return lambda x: x
        return lambda x: view_of(x._storage, into, x._offset)
    spread = strided[full, steps, layout.dtype, layout.device_state]
    packed, flat = (contiguous[each, layout.dtype, layout.device_state] for each in (full, matrices))

    def copy(x: Tensor) -> Tensor:
        result = copied(view_of(x._storage, spread, x._offset), packed)
        return view_of(result._storage, flat, result._offset)

    return copy


def _arrange_plan(
    q: Layout, k: Layout, v: Layout, mask: Layout | None, causal: bool, grouped: bool
) -> Arrangement:
    """The arrangement.

    ``device_state.plans[operation, query, key, value, mask, causal, grouped]``.
    """
    return Arrangement(q, k, v, mask, causal, grouped)


ARRANGE = planned(_arrange_plan)
