"""Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017).

One operation. On a device queries, keys and values of half precision and of float32 go through one kernel, and backward
through two, which read them by their strides (:mod:`.fused`); float32 is rounded to TF32 where matrix products may be.
Others, and a mask's gradient, go over the scores in blocks
(:mod:`.blocks`), so that the memory that it takes grows with the lengths of the sequences, and not with their product.
Backward makes the scores again, from the logarithm of each row's sum of exponentials, which is what forward keeps beside
the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nvrtc_kernels import attention as kernels
from nvrtc_kernels.dtypes import bool_
from tensor.autograd.recording.recorder import BackwardFormula, Composition, Derivative
from tensor.core.base import TensorBase, view_of
from tensor.core.modes.precision import settings
from tensor.core.plans import planned
from tensor.core.plans.copies import COPY
from tensor.core.plans.steps import one_step
from tensor.operations.autocast import LOWER, Autocast
from tensor.operations.definition import operation
from tensor.operations.pointwise.selection import where
from tensor.operations.products.contractions import matmul
from tensor.operations.random.dropout import DROPOUT, Drop
from tensor.operations.random.fills import source

from . import fused as attention_fused
from . import on_device as attention_on_device
from . import on_host as attention_on_host
from .arrangement import ARRANGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from nvrtc_kernels.dtypes import dtype
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

    from .arrangement import Arrangement
    from .blocks import Problem

#: Bytes that scores and weights may take at a time. They stay in a GPU's second level cache.
WORKSPACE = 48 << 20
_WORDS = 1 << 32
#: What tells how many bytes kernels may read at a time: 16 at most.
_ADDRESS_BITS = 15
_MINUS_INFINITY = float("-inf")


def _capacity(dtype: dtype, arrays: int, workspace: int) -> int:
    """Scores of a block."""
    compute_dtype = kernels.compute_dtype(dtype)
    each: int = compute_dtype.itemsize + (dtype.itemsize if dtype is not compute_dtype else 0)
    return max(workspace // (each * arrays), 1)


def _forward_plan(
    query: Layout, key: Layout, value: Layout, mask: Layout | None, problem: Problem, dropping: bool,
    workspace: int,
) -> Callable[..., tuple[Tensor, Tensor]]:  # fmt: skip
    """What computes them.

    ``device_state.plans[operation, query, key, value, mask, problem, dropping, workspace]``.

    ``run(query, key, value, mask, dropout, scale)``: queries are of shape ``(matrices, rows, width)``, keys and
    values likewise; the mask is what users gave, and its layout that of its elements over ``(*batch, *groups,
    positions, keys)``. It gives the result, of
    ``(matrices, rows, values)``, and the logarithms of the sums of exponentials, of ``(matrices, rows)``.
    """
    capacity = _capacity(query.dtype, 1, workspace)
    if not query.device_state.is_cuda:
        return attention_on_host.plan(query, mask, problem, capacity)
    return attention_on_device.plan(query, key, value, mask, problem, capacity, dropping)


def _backward_plan(
    grad: Layout, query: Layout, key: Layout, value: Layout, mask: Layout | None, problem: Problem,
    dropping: bool, workspace: int, expected: tuple[bool, ...], mask_shape: tuple[int, ...] | None,
) -> Callable[..., tuple[Tensor | None, ...]]:  # fmt: skip
    """What computes them.

    ``device_state.plans[operation, grad, query, key, value, mask, problem, dropping, workspace, wanted, mask_shape]``.

    ``run(grad, query, key, value, mask, result, logarithms, dropout, scale)`` gives the gradients that are wanted
    of query, key, value and mask, the last one of ``mask_shape``, whose sizes of 1 the mask was stretched from.
    """
    capacity = _capacity(query.dtype, 2, workspace)
    if not query.device_state.is_cuda:
        return attention_on_host.plan_backward(query, mask, problem, capacity, expected, mask_shape)
    return attention_on_device.plan_backward(
        grad, query, key, value, mask, problem, capacity, dropping, expected, mask_shape
    )


_FORWARD, _BACKWARD = planned(_forward_plan), planned(_backward_plan)


@one_step
def _attend(
    arrangement: Arrangement, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
    dropout: kernels.Dropout | None, scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Result and logarithms."""
    dropping = dropout is not None
    if arrangement.fused is not None:
        addresses = (query._address | key._address | value._address) & _ADDRESS_BITS
        tf32 = settings.matmul_tf32
        fused = arrangement.forward.get((dropping, addresses, tf32))
        if fused is None:
            fused = attention_fused.plan(arrangement, addresses, dropping, tf32)
            arrangement.forward[dropping, addresses, tf32] = fused
        return fused(query, key, value, mask, dropout, scale)
    q, k, v = arrangement.query(query), arrangement.key(key), arrangement.value(value)
    run = arrangement.forward.get((dropping, WORKSPACE))
    if run is None:
        layouts = q._layout, k._layout, v._layout, arrangement.mask, arrangement.problem
        run = q._layout.device_state.plans[(_FORWARD, *layouts, dropping, WORKSPACE)]
        arrangement.forward[dropping, WORKSPACE] = run
    rows, logarithms = run(q, k, v, mask, dropout, scale)
    return view_of(rows._storage, arrangement.out, rows._offset), logarithms


@one_step
def _gradients(
    expected: tuple[bool, ...], grad: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None,
    result: Tensor, logarithms: Tensor, causal: bool, grouped: bool, dropout: kernels.Dropout | None, scale: float,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    # Anew: what was saved may have been laid out differently since, by hooks.
    arrangement = _arranged(query, key, value, mask, causal, grouped)
    dropping, rows = dropout is not None, arrangement.rows
    if arrangement.fused is not None and not expected[3]:
        # Elements of a row have to be neighbours.
        grad, result = (x if x._layout.strides[-1] == 1 else x.contiguous() for x in (grad, result))
        addresses = query._address | key._address | value._address | grad._address | result._address
        addresses &= _ADDRESS_BITS
        tf32 = settings.matmul_tf32
        variant = expected, dropping, addresses, grad._layout, result._layout, tf32
        run = arrangement.backward.get(variant)
        if run is None:
            run = arrangement.backward[variant] = attention_fused.plan_backward(
                arrangement, grad._layout, result._layout, addresses, expected, dropping, tf32
            )
        return (*run(grad, query, key, value, mask, result, logarithms, dropout, scale), None)
    q, k, v = arrangement.query(query), arrangement.key(key), arrangement.value(value)
    grad, result = grad.contiguous(), result.contiguous()
    run = arrangement.backward.get((expected, dropping, WORKSPACE))
    if run is None:
        layouts = rows, q._layout, k._layout, v._layout, arrangement.mask, arrangement.problem
        run = rows.device_state.plans[
            (_BACKWARD, *layouts, dropping, WORKSPACE, expected, arrangement.mask_shape)
        ]  # fmt: skip
        arrangement.backward[expected, dropping, WORKSPACE] = run
    grad, result = (view_of(x._storage, rows, x._offset) for x in (grad, result))
    entry = run(grad, q, k, v, mask, result, logarithms, dropout, scale)
    of_mask = entry[3]
    if of_mask is not None and mask is not None:
        of_mask = of_mask.view(mask.shape).to(mask.dtype)
    output = [None if x is None else arrangement.gradient(number, x) for number, x in enumerate(entry[:3])]
    return (*output, of_mask)


def gradients_into(
    outputs: tuple[Tensor, ...], expected: tuple[bool, ...], grad: Tensor, query: Tensor, key: Tensor, value: Tensor,
    mask: Tensor | None, result: Tensor, logarithms: Tensor, causal: bool, grouped: bool,
    dropout: kernels.Dropout | None, scale: float,
) -> None:  # fmt: skip
    """Write the gradients of query, key and value to three tensors, such as parts of one that all of them are views of."""
    arrangement = _arranged(query, key, value, mask, causal, grouped)
    layouts = tuple([x._layout for x in outputs])
    if (
        arrangement.fused is None
        or expected != (True, True, True, False)
        or any(arrangement.is_stretched(number) for number in range(3))
        or any(x._layout.strides[-1] != 1 for x in (grad, result, *outputs))
    ):
        gradients = _gradients(
            expected, grad, query, key, value, mask, result, logarithms, causal, grouped, dropout, scale
        )
        for to, origin in zip(outputs, gradients, strict=False):
            assert origin is not None, "it is asked for the gradients of all three"
            to._layout.device_state.plans[COPY, to._layout, origin._layout](to, origin, False)
        return
    addresses = query._address | key._address | value._address | grad._address | result._address
    addresses &= _ADDRESS_BITS
    dropping, tf32 = dropout is not None, settings.matmul_tf32
    variant = expected, dropping, addresses, grad._layout, result._layout, tf32, layouts
    run = arrangement.backward.get(variant)
    if run is None:
        run = arrangement.backward[variant] = attention_fused.plan_backward(
            arrangement, grad._layout, result._layout, addresses, expected, dropping, tf32, layouts
        )
    run(grad, query, key, value, mask, result, logarithms, dropout, scale, outputs)


def _composed(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, grouped: bool,
    dropout: kernels.Dropout | None, scale: float,
) -> Tensor:  # fmt: skip
    """The same by operations that have derivatives themselves, with the scores in memory."""
    arrangement = _arranged(query, key, value, mask, causal, grouped)
    compute_dtype, problem = kernels.compute_dtype(query._layout.dtype), arrangement.problem
    assert problem is not None
    # With heads in groups.
    q, k, v = (
        x.reshape(shape).to(compute_dtype)
        for x, shape in zip((query, key, value), arrangement.parted, strict=True)
    )
    scores = matmul(q, k.transpose(-2, -1)) * scale
    hidden = None
    if mask is not None:
        mask = mask.reshape(arrangement.mask_shape)
        if mask._layout.dtype is bool_:
            hidden = mask.logical_not()
        else:
            scores = scores + mask.to(compute_dtype)
    if problem.causal:
        hidden = scores.new_ones((problem.positions, problem.keys), dtype=bool_).triu(1)
    if hidden is not None:
        scores = scores.masked_fill(hidden, _MINUS_INFINITY)
    # Rows without keys have the weight 0 everywhere.
    dead = (scores == _MINUS_INFINITY).all(-1, keepdim=True)
    weights = where(dead, 0.0, scores.masked_fill(dead, 0.0).softmax(-1))
    if dropout is not None:
        weights = weights * _factors(dropout, problem, weights.detach())
    return matmul(weights, v).reshape(arrangement.out.shape).to(query._layout.dtype)


#: What :func:`gradients_into` stands in for where it is recorded.
GRADIENTS = _gradients

_FORMULA = BackwardFormula(
    "ScaledDotProductAttentionBackward0",
    "query key value mask logarithms",
    joint=Derivative(_gradients, needs="query key value mask out logarithms"),
    composition=Composition(_composed, needs="query key value mask"),
)


def _factors(dropout: kernels.Dropout, problem: Problem, like: Tensor) -> Tensor:
    """What the weights were multiplied by."""
    ones = like.new_ones((*problem.batch, *problem.groups, problem.positions, dropout.blocks * 4))
    drop = Drop(dropout.seed, dropout.call, dropout.below, dropout.scale)
    ones._layout.device_state.plans[DROPOUT, ones._layout, 1](drop, ones, ones)
    return ones[..., : problem.keys]


@operation(namespace="nn.functional", method=False, autocast=Autocast(cuda=LOWER, cpu=LOWER))
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
        If query and key differ in E, key and value in S, the dimensions before or the mask cannot be broadcast
        together, dtypes or devices differ; if ``dropout_p`` is no probability, or with both a mask and ``is_causal``.

    Examples
    --------
    >>> query, key, value = tensor.zeros(1, 2, 4), tensor.zeros(1, 2, 4), tensor.tensor([[[1.0], [3.0]]])
    >>> nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    # A mask that is known by its kind alone, as ``nn.attention.bias`` has them.
    described = getattr(type(attn_mask), "_for_attention", None)
    if described is not None:
        attn_mask, is_causal = described(attn_mask, query, is_causal)
    causal, grouped = bool(is_causal), bool(enable_gqa)
    arrangement = _arranged(query, key, value, attn_mask, causal, grouped)
    if not 0.0 <= dropout_p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if arrangement.replace is not None:
        query, key, value = arrangement.replace(query, key, value)
        return scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, causal, scale)
    problem = arrangement.problem
    if problem is None:
        return _without_scores(query, key, value, attn_mask, arrangement.out.shape)
    scale = arrangement.scale if scale is None else float(scale)
    dropout = None
    if dropout_p:
        device_state = query._layout.device_state
        seed, call = source(None, device_state, "scaled_dot_product_attention").next_call(device_state)
        saved = 1 / (1 - dropout_p) if dropout_p < 1 else 0.0
        below = round((1 - dropout_p) * _WORDS)
        dropout = kernels.Dropout(seed, call, below, -(-problem.keys // 4), saved)
    result, logarithms = _attend(arrangement, query, key, value, attn_mask, dropout, scale)
    operands = query, key, value, attn_mask
    _FORMULA.record((result,), operands, (logarithms,), (causal, grouped, dropout, scale))
    return result


def _arranged(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, grouped: bool
) -> Arrangement:
    try:
        layout = query._layout
        shown = None if mask is None else mask._layout
        result: Arrangement = layout.device_state.plans[
            ARRANGE, layout, key._layout, value._layout, shown, causal, grouped
        ]
    except AttributeError:
        operands = {"query": query, "key": key, "value": value, "attn_mask": mask}
        for position, (name, x) in enumerate(operands.items()):
            if not isinstance(x, TensorBase) and not (x is None and name == "attn_mask"):
                raise TypeError(
                    f"scaled_dot_product_attention(): argument '{name}' (position {position + 1}) must be Tensor, not "
                    f"{type(x).__name__}"
                ) from None
        raise
    return result


def _without_scores(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, shape: tuple[int, ...]
) -> Tensor:
    """Zeros, of which the operands have zeros as gradients."""
    zeros = query.new_zeros(shape)
    for x in (query, key, value, mask):
        if x is not None and x.requires_grad:
            zeros = zeros + x.sum() * 0
    return zeros
