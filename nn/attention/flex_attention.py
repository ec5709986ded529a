"""Attention with scores of one's own: the names of ``torch.nn.attention.flex_attention``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import tensor
from nn import functional as F
from tensor import Tensor
from tensor.core.names.absent import hints as _hints

from .block_mask import BlockMask, bands, create_block_mask, create_mask, visible
from .modifications import Numbers, and_masks, noop_mask, or_masks

if TYPE_CHECKING:
    from .modifications import ScoreMod

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]


class AuxRequest(NamedTuple):
    """What :func:`flex_attention` returns beside its result.

    ``lse``: logarithms of the sums of exponentials; ``max_scores``: the greatest scores.
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What an :class:`AuxRequest` asked for, each ``(B, H, L)`` in float32, in float64 of float64 operands; else None.

    ``lse``: logarithms of the sums of exponentials of a query's scores; ``max_scores``: the greatest of them.
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """Options of PyTorch's compiled kernels.

    They are accepted and change nothing.
    """

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    BACKEND: str


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """``softmax(score_mod(query @ key.T * scale)) @ value``, where ``block_mask`` lets a query see a key.

    ``score_mod`` is called for all scores at once by ``vmap``, and has gradients, as have the tensors that it uses. Blocks
    of keys that no query of some blocks sees are not computed. Without ``score_mod`` scores are not in memory; with it
    those of queries that see the same blocks are.

    Parameters
    ----------
    query : Tensor
        Of shape ``(B, H, L, E)``.
    key, value : Tensor
        Of shapes ``(B, H, S, E)`` and ``(B, H, S, Ev)``.
    score_mod : callable, optional
        The score to take, of a score (0-dimensional, float32 or float64) and the numbers of its batch, head, query and key.
    block_mask : BlockMask, optional
        Which queries see which keys; all by default. A query that sees none gets zeros.
    scale : float, optional
        By default ``1 / sqrt(E)``.
    enable_gqa : bool
        Whether key and value may have fewer heads than the query, a whole number of which then share one.
    return_lse : bool
        Whether the logarithms of the sums of exponentials are returned too, as ``return_aux=AuxRequest(lse=True)`` asks.
    kernel_options : dict, optional
        See :class:`FlexKernelOptions`.
    return_aux : AuxRequest, optional
        What else to return.

    Returns
    -------
    Tensor or tuple
        Of shape ``(B, H, L, Ev)`` in the dtype of the query; with ``return_lse`` a pair with the logarithms, with
        ``return_aux`` a pair with an :class:`AuxOutput`.

    Raises
    ------
    ValueError
        If shapes do not fit each other or the mask, or both ``return_lse`` and ``return_aux`` are given.
    NotImplementedError
        If an operand has not 4 dimensions.
    TypeError
        If ``block_mask`` is no :class:`BlockMask`.

    Examples
    --------
    >>> from nn.attention.flex_attention import create_block_mask, flex_attention
    >>> x = tensor.ones(1, 1, 4, 2)
    >>> causal = create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, device="cpu")
    >>> flex_attention(x, x, tensor.arange(4.0).reshape(1, 1, 4, 1), block_mask=causal).flatten().tolist()
    [0.0, 0.5, 1.0, 1.5]
    """
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    _check(query, key, value, block_mask, enable_gqa)
    asked = AuxRequest(lse=True) if return_lse else return_aux or AuxRequest()
    if enable_gqa and query.shape[1] != key.shape[1]:
        shared = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
    batch = max(query.shape[0], key.shape[0])
    query, key, value = (x.expand(batch, *x.shape[1:]) for x in (query, key, value))
    call = _Call(query, key, value, score_mod, scale, asked)
    result, lse, largest = call.all_keys() if block_mask is None else call.by_bands(block_mask)
    if return_lse:
        return result, lse
    return result if return_aux is None else (result, AuxOutput(lse, largest))


_Results = tuple[Tensor, Tensor | None, Tensor | None]


class _Call:
    """One call, with operands of the same batch and heads."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        score_mod: ScoreMod | None,
        scale: float | None,
        asked: AuxRequest,
    ) -> None:
        self.query, self.key, self.value = query, key, value
        self.score_mod = score_mod
        self.scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
        self.asked = asked
        self.dtype = tensor.float64 if query.dtype is tensor.float64 else tensor.float32

    def all_keys(self) -> _Results:
        """Without a mask."""
        queries, keys = (self._numbers(x.shape[2]) for x in (self.query, self.key))
        return self._attend(self.query, self.key, self.value, None, queries, keys)

    def by_bands(self, mask: BlockMask) -> _Results:
        """Queries that see the same blocks of keys, together."""
        results: list[_Results] = []
        columns, count = mask.BLOCK_SIZE[1], self.key.shape[2]
        *_, batch, heads = (1, 1, *mask.shape[:-2])
        for rows, blocks, in_full in bands(mask):
            queries = self._numbers(rows.stop - rows.start) + rows.start
            query = self.query[:, :, rows]
            if not blocks:
                results.append(self._nothing(query))
                continue
            keys, key, value = self._chosen(blocks, columns, count)
            seen = None if in_full else visible(mask, batch, heads, queries, keys)
            results.append(self._attend(query, key, value, seen, queries, keys))
        if len(results) == 1:
            return results[0]
        result, lse, largest = zip(*results, strict=True)
        return (
            tensor.cat(result, 2),
            None if lse[0] is None else tensor.cat(lse, 2),
            None if largest[0] is None else tensor.cat(largest, 2),
        )

    def _numbers(self, count: int) -> Tensor:
        return tensor.arange(count, dtype=tensor.int32, device=self.query.device)

    def _chosen(self, blocks: list[int], columns: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Numbers of the keys of some blocks, the keys and their values."""
        first, last = blocks[0] * columns, min((blocks[-1] + 1) * columns, count)
        if blocks[-1] - blocks[0] + 1 == len(blocks):
            return (
                self._numbers(last - first) + first,
                self.key[:, :, first:last],
                self.value[:, :, first:last],
            )
        keys = tensor.cat(
            [self._numbers(min(columns, count - each * columns)) + each * columns for each in blocks]
        )
        return keys, self.key[:, :, keys], self.value[:, :, keys]

    def _nothing(self, query: Tensor) -> _Results:
        shape = query.shape[:3]
        result = query.new_zeros((*shape, self.value.shape[-1]))
        least = tensor.full(shape, -math.inf, dtype=self.dtype, device=query.device)
        return result, least if self.asked.lse else None, least if self.asked.max_scores else None

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        seen: Tensor | None,
        queries: Tensor,
        keys: Tensor,
    ) -> _Results:
        if self.score_mod is None and not any(self.asked) and query.dtype == key.dtype == value.dtype:
            return F.scaled_dot_product_attention(query, key, value, seen, scale=self.scale), None, None
        scores = (query.to(self.dtype) @ key.to(self.dtype).mT) * self.scale
        if self.score_mod is not None:
            scores = (
                Numbers(query.shape[0], query.shape[1], queries, keys)
                .scores(self.score_mod, scores)
                .to(self.dtype)
            )
        if seen is not None:
            scores = scores.masked_fill(~seen, -math.inf)
        lse = scores.logsumexp(-1)
        # Of a query that sees no key the weights are 0, not what infinities leave.
        weights = (scores - lse.masked_fill(tensor.isneginf(lse), 0.0)[..., None]).exp()
        result = (weights @ value.to(self.dtype)).to(query.dtype)
        return result, lse if self.asked.lse else None, scores.amax(-1) if self.asked.max_scores else None


def _check(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask | None, grouped: bool) -> None:
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if mask is not None and not isinstance(mask, BlockMask):
        raise TypeError(f"block_mask must be a BlockMask, got {type(mask).__name__}")
    (batch, heads, length, size), (key_batch, key_heads, keys, key_size) = query.shape, key.shape
    if size != key_size:
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension but got E={size} and E={key_size}."
        )
    if value.shape[:3] != key.shape[:3]:
        raise ValueError(
            "Expect key and value to have the same batch size, heads and length but got "
            f"{[*key.shape[:3]]} and {[*value.shape[:3]]}."
        )
    if batch != key_batch and (mask is None or 1 not in (batch, key_batch)):
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but got "
            f"block_mask={'None' if mask is None else 'BlockMask'}, Bq={batch}, and Bkv={key_batch}."
        )
    if not grouped and heads != key_heads:
        raise ValueError(
            "Expect query and key/value to have the same number of heads "
            f"but got Hq={heads} and Hkv={key_heads}. Try setting enable_gqa=True for GQA."
        )
    if grouped and heads % key_heads:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA "
            f"but got Hq={heads} and Hkv={key_heads}."
        )
    if mask is None:
        return
    for name, mine, its in zip(
        "BH", (max(batch, key_batch), heads), (1, 1, *mask.shape[:-2])[-2:], strict=True
    ):
        if its not in (1, mine):
            raise ValueError(
                f"block_mask was created for {name}={its} but got {name}={mine}: make one with None, or {mine}"
            )
    if mask.seq_lengths == (length, keys):
        return
    smaller = length > mask.seq_lengths[0] or keys > mask.seq_lengths[1]
    raise ValueError(
        f"block_mask was created for block_mask.shape={mask.shape} but got q_len={length} and kv_len={keys}. "
        + (
            "As the block mask was created for a smaller length than you're using it for, you likely need to create a new "
            "block mask."
            if smaller
            else "As the block mask was created for a larger length than you're using it for, you can either 1. create a "
            "new block mask with the correct length, or 2. 'adjust' the existing block mask to the correct length by "
            "calling block_mask._adjust(q_len, kv_len)."
        )
    )


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
