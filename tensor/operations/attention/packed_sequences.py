"""Attention of sequences of several lengths that lie one behind the other, with no scores in memory.

Half precision and float32 on a device are read where they lie by the kernels of :mod:`.fused`, in one launch for all sequences, whose
ends stay on the device. Others are computed sequence by sequence.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels import fused_attention
from nvrtc_kernels.attention import compute_dtype
from nvrtc_kernels.dtypes import bool_, float32
from tensor.autograd.recording.recorder import BackwardFormula, Composition, Derivative
from tensor.core.base import empty
from tensor.core.layout import contiguous
from tensor.core.modes.grad_mode import modes
from tensor.core.modes.precision import settings
from tensor.core.plans.steps import one_step
from tensor.operations.creation.factories import zeros
from tensor.operations.creation.ranges import arange
from tensor.operations.shapes.joining import cat

from .arrangement import packed_like
from .attention import scaled_dot_product_attention

if TYPE_CHECKING:
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

_ADDRESS_BITS = 15


class Packing(NamedTuple):
    """What is the same for forward and backward, beside tensors.

    Attributes
    ----------
    longest, longest_keys : int
        The most queries, and keys, of a sequence.
    window : tuple of int
        How many keys before and behind its own position a query sees; -1 for all. The last query's position is the last
        key's.
    scale : float
        What scores are multiplied by.
    """

    longest: int
    longest_keys: int
    window: tuple[int, int]
    scale: float


def attend(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, key_ends: Tensor, longest: int, longest_keys: int,
    window: tuple[int, int], scale: float | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention within each sequence, and logarithms of the sums of exponentials.

    Parameters
    ----------
    query : Tensor
        Of shape (T, H, E): the queries of all sequences.
    key, value : Tensor
        Of shapes (S, G, E) and (S, G, Ev), where G divides H.
    ends, key_ends : Tensor
        Of shape (N + 1,), int32: where sequences begin, and the last one ends.
    longest, longest_keys : int
        The most queries, and keys, of a sequence.
    window : tuple of int
        As :class:`Packing` has it.
    scale : float, optional
        By default ``1 / sqrt(E)``.

    Returns
    -------
    tuple of Tensor
        Of shapes (T, H, Ev) and (H, T), the latter float32, or float64 of float64.

    Raises
    ------
    ValueError
        If sequences do not lie one behind the other within their rows; kernels do not look.
    """
    scale = 1 / sqrt(query.shape[-1] or 1) if scale is None else float(scale)
    packing = Packing(int(longest), int(longest_keys), (int(window[0]), int(window[1])), scale)
    if not _fused(_sizes(query, key, value, ends, packing), query, key, value):
        # Operands stay as they are, as they do where the kernels take them.
        casts, modes.autocast = modes.autocast, None
        try:
            return _by_sequence(query, key, value, ends, key_ends, packing)
        finally:
            modes.autocast = casts
    result, logarithms = _attend(query, key, value, ends, key_ends, packing)
    _FORMULA.record((result,), (query, key, value), (logarithms, ends, key_ends), (packing,))
    return result, logarithms


def _sizes(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, packing: Packing
) -> fused_attention.Sizes:
    heads, shared = query.shape[1], key.shape[1]
    return fused_attention.Sizes(
        (ends.shape[0] - 1, shared, heads // shared), heads // shared, packing.longest, packing.longest_keys,
        query.shape[-1], value.shape[-1], False, packing.window, heads,
    )  # fmt: skip


def _strides(sizes: fused_attention.Sizes, layout: Layout, *, own: bool) -> tuple[int, ...]:
    """Over sequences, heads of keys, heads of queries that share one, rows and elements."""
    row, head, element = layout.strides
    return (0, head * sizes.groups, head, row, element) if own else (0, head, 0, row, element)


def _fused(sizes: fused_attention.Sizes, query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether there are kernels for them."""
    layouts = query._layout, key._layout, value._layout
    device_state: Any = layouts[0].device_state
    return (
        device_state.is_cuda
        and min(query.shape[0], key.shape[0], sizes.positions, sizes.keys, sizes.width, sizes.values) > 0
        and fused_attention.takes(
            device_state.native,
            layouts[0].dtype,
            sizes,
            [_strides(sizes, x, own=number == 0) for number, x in enumerate(layouts)],
        )
    )


def _piece(sizes: fused_attention.Sizes, *operands: Tensor) -> int:
    """How many elements the kernels read at a time."""
    itemsize = operands[0]._layout.itemsize
    steps = (step for x in operands for step in x._layout.strides[:-1])
    addresses = 0
    for x in operands:
        addresses |= x._address
    return fused_attention.piece_of(
        itemsize, sizes.width, sizes.values, *steps, (addresses & _ADDRESS_BITS) // itemsize
    )


@one_step
def _attend(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, key_ends: Tensor, packing: Packing
) -> tuple[Tensor, Tensor]:
    sizes = _sizes(query, key, value, ends, packing)
    layout = query._layout
    device_state: Any = layout.device_state
    rows, heads = query.shape[:2]
    # What belongs to no sequence is 0.
    result = empty(packed_like((rows, heads, sizes.values), layout)).zero_()
    logarithms = empty(contiguous[(heads, rows), float32, device_state]).zero_()
    strides = [_strides(sizes, x._layout, own=x is query or x is result) for x in (query, key, value, result)]
    launch = fused_attention.plan(
        device_state.native, layout.dtype, sizes, strides, _piece(sizes, query, key, value), None, dropping=False,
        tf32=settings.matmul_tf32,
    )  # fmt: skip
    sequences = fused_attention.PackedSequences(ends._address, key_ends._address, heads, rows).packed
    launch(
        device_state.local.stream.handle, packing.scale, sequences, b"", b"", query._address, key._address,
        value._address, result._address, logarithms._address,
    )  # fmt: skip
    return result, logarithms


@one_step
def _gradients(
    expected: tuple[bool, ...], grad: Tensor, query: Tensor, key: Tensor, value: Tensor, result: Tensor,
    logarithms: Tensor, ends: Tensor, key_ends: Tensor, packing: Packing,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    sizes = _sizes(query, key, value, ends, packing)
    # Elements of a row have to be neighbours, also in what hooks have saved.
    grad, result, query, key, value = (
        x if x._layout.strides[-1] == 1 else x.contiguous() for x in (grad, result, query, key, value)
    )
    layout = query._layout
    device_state: Any = layout.device_state
    operands = query, key, value
    outputs = [
        empty(packed_like(x._layout.shape, x._layout)).zero_() if some else None
        for x, some in zip(operands, expected, strict=True)
    ]
    layouts = [
        x._layout if output is None else output._layout for x, output in zip(operands, outputs, strict=True)
    ]
    strides = [
        *(_strides(sizes, x._layout, own=number == 0) for number, x in enumerate(operands)),
        *(_strides(sizes, x._layout, own=True) for x in (result, grad)),
        *(_strides(sizes, x, own=number == 0) for number, x in enumerate(layouts)),
    ]
    for number in (6, 7):
        # Gradients of keys are those of all queries' heads that share them.
        strides[number] = (*strides[number][:2], 0, *strides[number][3:])
    launch = fused_attention.plan_backward(
        device_state.native, layout.dtype, sizes, strides, _piece(sizes, *operands, result, grad), None, dropping=False,
        of_key=expected[1], of_value=expected[2], tf32=settings.matmul_tf32,
    )  # fmt: skip
    heads, rows = logarithms.shape
    statistics = empty(contiguous[(heads, rows, 2), float32, device_state])
    sequences = fused_attention.PackedSequences(ends._address, key_ends._address, heads, rows).packed
    launch(
        device_state.local.stream.handle, packing.scale, sequences, b"", b"", *(x._address for x in operands),
        result._address, grad._address, logarithms._address, statistics._address,
        *(0 if x is None else x._address for x in outputs),
    )  # fmt: skip
    return tuple(outputs)


def _by_sequence(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, key_ends: Tensor, packing: Packing
) -> tuple[Tensor, Tensor]:
    """The same sequence by sequence, by operations that have derivatives themselves."""
    precision = compute_dtype(query._layout.dtype)
    groups = query.shape[1] // key.shape[1]
    results: list[Tensor] = []
    logarithms: list[Tensor] = []

    def leave_out(rows: int) -> None:
        """Add rows that belong to no sequence."""
        if rows:
            results.append(query.new_zeros((rows, query.shape[1], value.shape[-1])))
            logarithms.append(zeros((query.shape[1], rows), dtype=precision, device=query.device))

    bounds, key_bounds = ends.tolist(), key_ends.tolist()
    for name, numbers, rows in (("q", bounds, query.shape[0]), ("k", key_bounds, key.shape[0])):
        for first, last in pairwise([0, *numbers, rows]):
            if first > last:
                raise ValueError(
                    f"varlen_attn: cu_seq_{name} has to ascend from 0 or more to at most {rows}, the number of rows, but "
                    f"{last} follows {first}"
                )
    leave_out(bounds[0])
    for (first, last), (first_key, last_key) in zip(pairwise(bounds), pairwise(key_bounds), strict=True):
        q, k, v = (
            x[some].transpose(0, 1)
            for x, some in (
                (query, slice(first, last)),
                (key, slice(first_key, last_key)),
                (value, slice(first_key, last_key)),
            )
        )
        seen = _seen(q, k, packing.window)
        result = scaled_dot_product_attention(q, k, v, seen, scale=packing.scale, enable_gqa=groups > 1)
        results.append(result.transpose(0, 1))
        k = k.repeat_interleave(groups, 0) if groups > 1 else k
        scores = q.detach().to(precision) @ k.detach().to(precision).transpose(-2, -1) * packing.scale
        if seen is not None:
            scores = scores.masked_fill(seen.logical_not(), -inf)
        if scores.shape[-1]:
            logarithms.append(scores.logsumexp(-1))
        else:
            logarithms.append(scores.new_full(scores.shape[:-1], -inf))
    leave_out(query.shape[0] - bounds[-1])
    return cat(results), cat(logarithms, 1)


def _seen(query: Tensor, key: Tensor, window: tuple[int, int]) -> Tensor | None:
    """Which keys a query sees, of shape (queries, keys); ``None`` where all see all."""
    if window == (-1, -1):
        return None
    positions = arange(query.shape[1], device=query.device)[:, None] + (key.shape[1] - query.shape[1])
    distance = arange(key.shape[1], device=query.device) - positions
    result: Tensor = distance.new_ones(distance.shape, dtype=bool_)
    if window[0] >= 0:
        result = result & (distance >= -window[0])
    if window[1] >= 0:
        result = result & (distance <= window[1])
    return result


def _composed(
    query: Tensor, key: Tensor, value: Tensor, ends: Tensor, key_ends: Tensor, packing: Packing
) -> Tensor:
    return _by_sequence(query, key, value, ends, key_ends, packing)[0]


_FORMULA = BackwardFormula(
    "VarlenAttnBackward0",
    "query key value logarithms ends key_ends",
    joint=Derivative(_gradients, needs="query key value out logarithms ends key_ends"),
    composition=Composition(_composed, needs="query key value ends key_ends"),
)
