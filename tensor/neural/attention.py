"""Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017).

One operation. It goes over the scores in blocks (:mod:`.attention_blocks`), so that the memory it takes grows with
the lengths of the sequences, and not with their product; backward makes the scores again, from the logarithm of
each row's sum of exponentials, which is what forward keeps beside the result.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

from nvrtc_kernels import attention as kernels
from nvrtc_kernels.dtypes import bool_
from nvrtc_kernels.layouts import broadcast_shapes

from .. import views
from ..autocasting import autocasted
from ..contractions import matmul
from ..random.fills import source
from ..recording.modes import modes
from ..selection import where
from . import attention_on_device, attention_on_host
from .attention_arguments import by_group, check, shared
from .attention_blocks import Problem
from .dropouts import DROPOUT, Drop
from .node import record

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..layout import Layout
    from ..tensors import Tensor

#: Bytes that scores and weights may take at a time. They stay in a GPU's second level cache.
WORKSPACE = 48 << 20
_WORDS = 1 << 32
_MINUS_INFINITY = float("-inf")


def _capacity(kind: Any, arrays: int, workspace: int) -> int:
    """Scores of a block."""
    wide = kernels.wide_type(kind)
    each = wide.itemsize + (kind.itemsize if kind is not wide else 0)
    return max(workspace // (each * arrays), 1)


class _Forward:
    """``place.plans[operation, query, key, value, mask, problem, dropping, workspace]``.

    ``run(query, key, value, mask, dropout, scale)``: queries are of shape ``(matrices, rows, width)``, keys and
    values likewise, the mask of ``(*batch, *groups, positions, keys)``. It gives the result, of
    ``(matrices, rows, values)``, and the logarithms of the sums of exponentials, of ``(matrices, rows)``.
    """

    def plan(
        self, query: Layout, key: Layout, value: Layout, mask: Layout | None, problem: Problem, dropping: bool,
        workspace: int,
    ) -> Callable[..., tuple[Tensor, Tensor]]:  # fmt: skip
        """What computes them."""
        capacity = _capacity(query.dtype, 1, workspace)
        if not query.place.is_cuda:
            return attention_on_host.plan(query, problem, capacity)
        return attention_on_device.plan(query, key, value, mask, problem, capacity, dropping)


class _Backward:
    """``place.plans[operation, grad, query, key, value, mask, problem, dropping, workspace, wanted, mask_shape]``.

    ``run(grad, query, key, value, mask, result, logarithms, dropout, scale)`` gives the gradients that are wanted
    of query, key, value and mask, the last one of ``mask_shape``, whose sizes of 1 the mask was stretched from.
    """

    def plan(
        self, grad: Layout, query: Layout, key: Layout, value: Layout, mask: Layout | None, problem: Problem,
        dropping: bool, workspace: int, wanted: tuple[bool, ...], mask_shape: tuple[int, ...] | None,
    ) -> Callable[..., tuple[Tensor | None, ...]]:  # fmt: skip
        """What computes them."""
        capacity = _capacity(query.dtype, 2, workspace)
        if not query.place.is_cuda:
            return attention_on_host.plan_backward(query, problem, capacity, wanted, mask_shape)
        return attention_on_device.plan_backward(
            grad, query, key, value, mask, problem, capacity, dropping, wanted, mask_shape
        )


_FORWARD, _BACKWARD = _Forward(), _Backward()


def _matrices(x: Tensor, batch: tuple[int, ...], rows: int) -> Tensor:
    """``x`` stretched to ``batch``, as ``(matrices, rows, columns)``; copied only where products cannot read it."""
    shape = x._layout.shape
    made = views.expand(x, (*batch, *shape[len(shape) - 2 :])).reshape(-1, rows, shape[-1])
    return made if attention_on_device.readable(made._layout) else made.contiguous()


def _operands(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, problem: Problem
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    whole = (*problem.batch, *problem.groups)
    own = (*problem.batch, *(1 for _ in problem.groups))
    seen = None if mask is None else views.expand(mask, (*whole, problem.positions, problem.keys))
    # Key and value have sizes of 1 over the groups.
    return (
        _matrices(query, whole, problem.rows),
        _matrices(key, own, problem.keys),
        _matrices(value, own, problem.keys),
        seen,
    )


def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, problem: Problem,
    dropout: kernels.Dropout | None, scale: float,
) -> Tensor:  # fmt: skip
    place = query._layout.place
    before, modes.recording = modes.recording, False
    try:
        q, k, v, seen = _operands(query, key, value, mask, problem)
        shown = None if seen is None else seen._layout
        run = place.plans[
            _FORWARD, q._layout, k._layout, v._layout, shown, problem, dropout is not None, WORKSPACE
        ]
        flat, logarithms = run(q, k, v, seen, dropout, scale)
        result = flat.view(*problem.batch, *problem.groups, problem.positions, problem.values)
        result._base = None
    finally:
        modes.recording = before
    record(
        (result,), (query, key, value, mask), "ScaledDotProductAttentionBackward0", _gradients,
        (query, key, value, mask, result, logarithms), (problem, dropout, scale),
    )  # fmt: skip
    return result


def _gradients(
    wanted: tuple[bool, ...], grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
    result: Tensor, logarithms: Tensor, problem: Problem, dropout: kernels.Dropout | None, scale: float,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    if modes.recording:
        return _composite(wanted, grad, query, key, value, mask, problem, dropout, scale)
    q, k, v, seen = _operands(query, key, value, mask, problem)
    rows = grad.contiguous().view(problem.matrices, problem.rows, problem.values)
    shown, shape = None, None
    if mask is not None and seen is not None:
        shown = seen._layout
        shape = (*(1 for _ in range(seen.dim() - mask.dim())), *mask.shape)
    run = query._layout.place.plans[
        _BACKWARD, rows._layout, q._layout, k._layout, v._layout, shown, problem, dropout is not None, WORKSPACE,
        wanted, shape,
    ]  # fmt: skip
    found = list(run(rows, q, k, v, seen, result.view(rows.shape), logarithms, dropout, scale))
    whole = (*problem.batch, *problem.groups)
    own = (*problem.batch, *(1 for _ in problem.groups))
    lengths = problem.positions, problem.keys, problem.keys
    for number, (batch, length) in enumerate(zip((whole, own, own), lengths, strict=True)):
        x = found[number]
        if x is not None:
            found[number] = _unstretched(x.view(*batch, length, x.shape[-1]), (query, key, value)[number])
    if found[3] is not None and mask is not None:
        found[3] = found[3].view(mask.shape).to(mask.dtype)
    return tuple(found)


def _unstretched(grad: Tensor, like: Tensor) -> Tensor:
    return grad if grad._layout.shape == like._layout.shape else grad.sum_to_size(like.shape)


def _composite(
    wanted: tuple[bool, ...], grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
    problem: Problem, dropout: kernels.Dropout | None, scale: float,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The same gradients as operations that have derivatives themselves, with the scores in memory."""
    wide = kernels.wide_type(query._layout.dtype)
    q, k, v, g = (x.to(wide) for x in (query, key, value, grad))
    scores = matmul(q, k.transpose(-2, -1)) * scale
    hidden = None
    if mask is not None and mask._layout.dtype is bool_:
        hidden = mask.logical_not()
    elif mask is not None:
        scores = scores + mask.to(wide)
    if problem.causal:
        hidden = scores.new_ones((problem.positions, problem.keys), dtype=bool_).triu(1)
    if hidden is not None:
        scores = scores.masked_fill(hidden, _MINUS_INFINITY)
    # Rows without keys have the weight 0 everywhere.
    dead = (scores == _MINUS_INFINITY).all(-1, keepdim=True)
    weights = where(dead, 0.0, scores.masked_fill(dead, 0.0).softmax(-1))
    factors = None if dropout is None else _factors(dropout, problem, weights)
    of_weights = matmul(g, v.transpose(-2, -1))
    dropped = weights
    if factors is not None:
        of_weights = of_weights * factors
        dropped = weights * factors
    slopes = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    found: list[Tensor | None] = [None, None, None, None]
    if wanted[0]:
        found[0] = matmul(slopes, k) * scale
    if wanted[1]:
        found[1] = matmul(slopes.transpose(-2, -1), q) * scale
    if wanted[2]:
        found[2] = matmul(dropped.transpose(-2, -1), g)
    if wanted[3]:
        found[3] = slopes
    for number, like in enumerate((query, key, value, mask)):
        x = found[number]
        if x is not None and like is not None:
            found[number] = _unstretched(x, like).to(like._layout.dtype)
    return tuple(found)


def _factors(dropout: kernels.Dropout, problem: Problem, like: Tensor) -> Tensor:
    """What the weights were multiplied by."""
    ones = like.new_ones((*problem.batch, *problem.groups, problem.positions, dropout.blocks * 4))
    drop = Drop(dropout.seed, dropout.call, dropout.below, dropout.scale)
    ones._layout.place.plans[DROPOUT, ones._layout, 1](drop, ones, ones)
    return ones[..., : problem.keys]


@autocasted
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value``, without the scores in memory.

    Parameters
    ----------
    query : Tensor
        Of shape (..., L, E).
    key, value : Tensor
        Of shapes (..., S, E) and (..., S, Ev). Dimensions before the last two are broadcast.
    attn_mask : Tensor, optional
        Broadcast to (..., L, S): bool, ``True`` where a key takes part, or floating point, which is added to the
        scores. A query that no key is left for gets zeros.
    dropout_p : float
        How probable it is that a weight is left out, also outside of training.
    is_causal : bool
        Whether query ``i`` sees keys up to ``i`` only; there is no mask then.
    scale : float, optional
        By default ``1 / sqrt(E)``.
    enable_gqa : bool
        Whether key and value may have fewer heads, the third dimension from the end, than the query, a whole
        number of which then share one.

    Returns
    -------
    Tensor
        Of shape (..., L, Ev).

    Raises
    ------
    RuntimeError
        If shapes, dtypes or devices do not fit, if ``dropout_p`` is no probability, or with both a mask and
        ``is_causal``.
    """
    check(query, key, value, attn_mask, dropout_p, is_causal)
    if scale is None:
        scale = 1 / sqrt(max(query.shape[-1], 1))
    grouped = False
    if enable_gqa:
        query, key, value, attn_mask, grouped = by_group(query, key, value, attn_mask)
    made = _checked(query, key, value, attn_mask, float(dropout_p), bool(is_causal), float(scale))
    return made.flatten(-4, -3) if grouped else made


def _checked(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    causal: bool,
    scale: float,
) -> Tensor:
    one, other, last = query._layout.shape, key._layout.shape, value._layout.shape
    if one[-1] != other[-1] or other[-2] != last[-2]:
        raise RuntimeError(
            "scaled_dot_product_attention(): expected query of shape (..., L, E), key (..., S, E) and value "
            f"(..., S, Ev), but got {list(one)}, {list(other)} and {list(last)}"
        )
    batch = broadcast_shapes(one[:-2], other[:-2], last[:-2])
    whole = (*batch, one[-2], other[-2])
    if mask is not None:
        shape = mask._layout.shape
        if len(shape) > len(whole) or broadcast_shapes(shape, whole) != whole:
            raise RuntimeError(
                f"attn_mask of shape {list(shape)} cannot be broadcast to the scores' shape {list(whole)}"
            )
    groups = shared(batch, other[:-2], last[:-2])
    problem = Problem(batch[:groups], batch[groups:], one[-2], other[-2], one[-1], last[-1], causal)
    if not prod(whole) or not last[-1]:
        return _without_scores(query, key, value, mask, (*batch, one[-2], last[-1]))
    if not one[-1]:
        # Scores are 0, as are those of one element that is 0.
        query, key = query.sum(-1, keepdim=True), key.sum(-1, keepdim=True)
        problem = replace(problem, width=1)
    dropout = None
    if dropout_p:
        seed, call = source(None, query._layout.place, "scaled_dot_product_attention").next_call()
        kept = 1 / (1 - dropout_p) if dropout_p < 1 else 0.0
        below = round((1 - dropout_p) * _WORDS)
        dropout = kernels.Dropout(seed, call, below, -(-problem.keys // 4), kept)
    return _attend(query, key, value, mask, problem, dropout, scale)


def _without_scores(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, shape: tuple[int, ...]
) -> Tensor:
    """Zeros, of which the operands have zeros as gradients."""
    zeros = query.new_zeros(shape)
    for x in (query, key, value, mask):
        if x is not None and x.requires_grad:
            zeros = zeros + x.sum() * 0
    return zeros
