"""Attention of sequences of several lengths without padding: the names of ``torch.nn.attention.varlen``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import tensor
from tensor import Tensor
from tensor.core.names.absent import hints as _hints
from tensor.operations.attention.packed_sequences import attend as _attend

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """What :func:`varlen_attn` returns beside its result.

    ``lse`` asks for the logarithms of the sums of exponentials.
    """

    lse: bool = False


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention within each of several sequences that lie one behind the other.

    On a device half precision and float32 take one launch for all sequences, and backward two, without waiting for what
    ``cu_seq_q`` says, where rows have at most 256 elements, which are neighbours in memory, and sequences times heads are
    fewer than 65536; others, and other devices, go from sequence to sequence. Every run gives the same bits, and what a
    sequence gets does not depend on the others. Float32 is rounded to TF32 on devices while
    ``backends.cuda.matmul.allow_tf32`` says so; autocast does not cast the operands.

    Parameters
    ----------
    query : Tensor
        Of shape (T, H, E): the rows of all sequences.
    key, value : Tensor
        Of shapes (S, G, E) and (S, G, Ev).
    cu_seq_q, cu_seq_k : Tensor
        Of shape (N + 1,), int32: where each sequence begins, and the last one ends. Rows of no sequence give zeros. The one
        launch takes the numbers as they are: it reads and writes elsewhere if they do not ascend within the rows.
    max_q, max_k : int
        Lengths of the longest sequences, or more.
    return_aux : AuxRequest, optional
        Whether the logarithms of the sums of exponentials are returned, too; they have no gradient.
    scale : float, optional
        By default ``1 / sqrt(E)``.
    window_size : tuple of int
        How many keys before and behind its own position a query sees, -1 for all. The last query of a sequence is at the
        position of its last key: ``(-1, 0)`` is causal attention.
    enable_gqa : bool
        Whether H may be a multiple of G, so that neighbouring heads share keys and values.
    seqused_k, block_table : Tensor, optional
        Caches of keys that are filled in part, or in pages: not supported.
    num_splits : int, optional
        Taken, and of no effect: sequences of keys are never split.

    Returns
    -------
    Tensor or tuple of Tensor
        Of shape (T, H, Ev); with ``return_aux`` also float32 of shape (H, T). A query that sees no key gets zeros, and
        minus infinity.

    Raises
    ------
    ValueError
        If numbers of heads, shapes or ``window_size`` do not fit each other, or, from sequence to sequence, ``cu_seq_q`` or
        ``cu_seq_k`` the rows.
    TypeError
        If ``cu_seq_q`` and ``cu_seq_k`` are not int32.
    RuntimeError
        If dtypes or devices differ.
    NotImplementedError
        With ``seqused_k`` or ``block_table``.

    Examples
    --------
    >>> from nn.attention.varlen import varlen_attn
    >>> ends = tensor.tensor([0, 1, 3], dtype=tensor.int32)
    >>> x = tensor.ones(3, 1, 2)
    >>> values = tensor.tensor([5.0, 1.0, 3.0]).view(3, 1, 1)
    >>> varlen_attn(x, x, values, ends, ends, 2, 2).flatten().tolist()
    [5.0, 2.0, 2.0]
    """
    _check(query, key, value, cu_seq_q, cu_seq_k, window_size, enable_gqa)
    if seqused_k is not None or block_table is not None:
        raise NotImplementedError(
            "varlen_attn: seqused_k and block_table are not supported; give the keys of each sequence one behind the other"
        )
    assert cu_seq_k is not None, "it was checked"
    window = window_size[0], window_size[1]
    result, logarithms = _attend(
        query, key, value, cu_seq_q.contiguous(), cu_seq_k.contiguous(), max_q, max_k, window, scale
    )
    return (result, logarithms) if return_aux is not None and return_aux.lse else result


def varlen_attn_out(
    out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """As :func:`varlen_attn`, without gradients, with the result written to ``out``, which is returned.

    Parameters
    ----------
    out : Tensor
        Of shape (T, H, Ev).
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, return_aux, scale, window_size, enable_gqa, seqused_k, block_table, num_splits
        As for :func:`varlen_attn`.

    Raises
    ------
    ValueError
        If ``out`` has another shape than the result.
    """
    with tensor.no_grad():
        result, logarithms = varlen_attn(
            query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, return_aux=AuxRequest(lse=True), scale=scale,
            window_size=window_size, enable_gqa=enable_gqa, seqused_k=seqused_k, block_table=block_table,
            num_splits=num_splits,
        )  # fmt: skip
        if out.shape != result.shape:
            raise ValueError(
                f"varlen_attn_out: expected out of shape {list(result.shape)}, got {list(out.shape)}"
            )
        out.copy_(result)
    return (out, logarithms) if return_aux is not None and return_aux.lse else out


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends: Tensor,
    key_ends: Tensor | None,
    window: tuple[int, int],
    grouped: bool,
) -> None:
    if len(window) != 2:
        raise ValueError(f"window_size must have length 2, got {len(window)}")
    if not query.dim() == key.dim() == value.dim() == 3:
        raise ValueError(
            "varlen_attn: expected query of shape (T, H, E), key (S, G, E) and value (S, G, Ev), but got "
            f"{list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    heads, shared = query.shape[1], key.shape[1]
    if not grouped and heads != shared:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={shared}. "
            "Try setting enable_gqa=True for GQA."
        )
    if not shared or heads % shared:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={shared}."
        )
    if query.shape[-1] != key.shape[-1] or key.shape[:2] != value.shape[:2]:
        raise ValueError(
            "varlen_attn: query and key have to have rows of one length, and key and value as many of them and as many "
            f"heads, but their shapes are {list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    if key_ends is None:
        raise ValueError("varlen_attn: cu_seq_k is required without block_table")
    for name, x in (("cu_seq_q", ends), ("cu_seq_k", key_ends)):
        if x.dtype is not tensor.int32:
            raise TypeError(f"varlen_attn: expected {name} of dtype int32, got {x.dtype}")
        if x.dim() != 1 or x.shape != ends.shape or x.shape[0] < 2:
            raise ValueError(
                f"varlen_attn: expected cu_seq_q and cu_seq_k of one shape (N + 1,), got {list(ends.shape)} and "
                f"{list(key_ends.shape)}"
            )
    if len({query.dtype, key.dtype, value.dtype}) > 1 or not query.dtype.is_floating_point:
        raise RuntimeError(
            "varlen_attn: expected query, key and value of one floating point dtype, got "
            f"{query.dtype}, {key.dtype} and {value.dtype}"
        )
    if len({x.device for x in (query, key, value, ends, key_ends)}) > 1:
        raise RuntimeError(
            "varlen_attn: expected all tensors on one device, got "
            + ", ".join(str(x.device) for x in (query, key, value, ends, key_ends))
        )


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
