"""Scaled dot-product and multi-head attention."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

from tensor import bool as bool_
from tensor import cat, float32, matmul, softmax
from tensor.core.warning import warn_caller
from tensor.operations.attention.attention import scaled_dot_product_attention
from tensor.operations.attention.packed_projection import unpacked
from tensor.operations.definition import operation
from tensor.operations.products.linear import linear

from .dropout import dropout

if TYPE_CHECKING:
    from tensor import Tensor

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]

_MINUS_INFINITY = float("-inf")


def _expect(condition: bool, message: str) -> None:
    # The class that PyTorch raises.
    if not condition:
        raise AssertionError(message)


def _check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    heads: int,
) -> bool:
    """Whether there is a batch."""
    dims = query.dim()
    _expect(
        dims in (2, 3),
        f"query should be unbatched 2D or batched 3D tensor but received {dims}-D query tensor",
    )
    batching = "batched (3-D)" if dims == 3 else "unbatched (2-D)"
    _expect(
        key.dim() == dims and value.dim() == dims,
        f"For {batching} `query`, expected `key` and `value` to be {dims}-D but found {key.dim()}-D and {value.dim()}-D "
        "tensors respectively",
    )
    if key_padding_mask is not None:
        _expect(
            key_padding_mask.dim() == dims - 1,
            f"For {batching} `query`, expected `key_padding_mask` to be `None` or {dims - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead",
        )
    if attn_mask is not None:
        _expect(
            attn_mask.dim() in (2, 3),
            f"For {batching} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
            "instead",
        )
        if dims == 2 and attn_mask.dim() == 3:
            shape = (heads, query.shape[0], key.shape[0])
            _expect(
                tuple(attn_mask.shape) == shape,
                f"Expected `attn_mask` shape to be {shape} but got {tuple(attn_mask.shape)}",
            )
    for name, mask in (("attn_mask", attn_mask), ("key_padding_mask", key_padding_mask)):
        if mask is not None:
            _expect(
                mask.dtype is bool_ or mask.is_floating_point(),
                f"only bool and floating types of {name} are supported, got {mask.dtype}",
            )
    return dims == 3


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values by one packed weight, in as few products as can be."""
    if key is value:
        if query is key:
            q, k, v = unpacked(linear(query, weight, bias), 3)
            return q, k, v
        size = weight.shape[1]
        sizes = [size, 2 * size]
        of_query, of_others = weight.split(sizes)
        one, two = (None, None) if bias is None else bias.split(sizes)
        k, v = unpacked(linear(key, of_others, two), 2)
        return linear(query, of_query, one), k, v
    biases = (None, None, None) if bias is None else bias.chunk(3)
    q, k, v = (linear(x, w, b) for x, w, b in zip((query, key, value), weight.chunk(3), biases, strict=True))
    return q, k, v


def _projected_apart(
    operands: tuple[Tensor, Tensor, Tensor],
    weights: tuple[Tensor | None, ...],
    bias: Tensor | None,
    size: int,
) -> tuple[Tensor, Tensor, Tensor]:
    biases = (None, None, None) if bias is None else bias.chunk(3)
    projected = []
    for name, x, weight, each in zip("qkv", operands, weights, biases, strict=True):
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        shape = (size, x.shape[-1])
        _expect(
            tuple(weight.shape) == shape,
            f"expecting {name}_proj_weight of shape {shape}, but got {tuple(weight.shape)}",
        )
        projected.append(linear(x, weight, each))
    q, k, v = projected
    return q, k, v


def _heads(x: Tensor, heads: int) -> Tensor:
    """``(L, N, E)`` as ``(N, heads, L, E / heads)``, without a copy."""
    return x.unflatten(-1, (heads, x.shape[-1] // heads)).permute(1, 2, 0, 3)


def _static_heads(name: str, x: Tensor, batch: int, heads: int, width: int) -> Tensor:
    _expect(
        x.dim() == 3 and x.shape[0] == batch * heads and x.shape[2] == width,
        f"expecting {name} of shape ({batch * heads}, S, {width}), but got {tuple(x.shape)}",
    )
    return x.unflatten(0, (batch, heads))


def _padded(mask: Tensor | None) -> Tensor | None:
    """A mask with one more key, which is not masked."""
    if mask is None:
        return None
    padded: Tensor = cat([mask, mask.new_zeros((*mask.shape[:-1], 1))], -1)
    return padded


def merged_masks(attn_mask: Tensor | None, padding: Tensor | None, like: Tensor) -> Tensor | None:
    """One mask of two, of which ``True`` ignores a key: bool if both are, otherwise additive."""
    if attn_mask is None or padding is None:
        return padding if attn_mask is None else attn_mask
    if attn_mask.dtype is bool_ and padding.dtype is bool_:
        either: Tensor = attn_mask.logical_or(padding)
        return either
    both: Tensor = _as_additive(attn_mask, like) + _as_additive(padding, like)
    return both


def _as_additive(mask: Tensor, like: Tensor) -> Tensor:
    """A mask as a term that is added to the scores."""
    if mask.dtype is bool_:
        additive: Tensor = mask.new_zeros(mask.shape, dtype=like.dtype)
        return additive.masked_fill_(mask, _MINUS_INFINITY)
    return mask if mask.dtype is like.dtype else mask.to(like.dtype)


@operation(namespace="nn.functional", method=False)
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head scaled dot-product attention (Vaswani et al., 2017); see :class:`nn.MultiheadAttention`.

    Parameters
    ----------
    query, key, value : Tensor
        Shapes (L, N, E), (S, N, kdim) and (S, N, vdim), or without N.
    embed_dim_to_check, num_heads : int
        E, and the number of heads, which divides it.
    in_proj_weight, in_proj_bias : Tensor, optional
        Shapes (3 E, E) and (3 E,): projections of query, key and value.
    bias_k, bias_v : Tensor, optional
        Shape (1, 1, E): a key and a value to append.
    add_zero_attn : bool
        Whether to append a key and value of zeros.
    dropout_p : float
        Probability of the dropout on attention weights, if ``training``.
    out_proj_weight, out_proj_bias : Tensor
        Output projection.
    training : bool
        Whether dropout is applied.
    key_padding_mask : Tensor, optional
        Shape (N, S) or (S,): bool with True for keys to ignore, or floating point, which is added to the scores.
    need_weights : bool
        Whether to return the attention weights. Without them a fused kernel computes the output.
    attn_mask : Tensor, optional
        Shape (L, S) or (N * num_heads, L, S): bool with True for pairs to ignore, or floating point, which is added.
    use_separate_proj_weight : bool
        Whether ``q_proj_weight``, ``k_proj_weight`` and ``v_proj_weight`` replace ``in_proj_weight``.
    q_proj_weight, k_proj_weight, v_proj_weight : Tensor, optional
        Shapes (E, E), (E, kdim) and (E, vdim).
    static_k, static_v : Tensor, optional
        Shape (N * num_heads, S, E / num_heads): keys and values instead of the projected ones.
    average_attn_weights : bool
        Whether the weights are averaged over the heads.
    is_causal : bool
        A hint that ``attn_mask``, which must be there, is the causal mask; it need not be read then.

    Returns
    -------
    tuple
        Output of shape (L, N, E) or (L, E), and weights of shape (N, L, S), per head (N, num_heads, L, S), or
        ``None``.

    Raises
    ------
    AssertionError, RuntimeError
        If a shape is not the one above, ``embed_dim_to_check`` is not E or not divisible by ``num_heads``, or a mask
        has another dtype than bool and floating point. Which of both is raised is as in PyTorch.
    """
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same_key, same_value = key is query, value is key
        query = query.unsqueeze(1)
        key = query if same_key else key.unsqueeze(1)
        value = key if same_value else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, size = query.shape
    keys = key.shape[0]
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if (
        key_padding_mask is not None
        and attn_mask is not None
        and key_padding_mask.dtype is not attn_mask.dtype
    ):
        warn_caller(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead.",
        )
    causal = is_causal and key_padding_mask is None and not need_weights
    if causal:
        attn_mask = None
    _expect(
        size == embed_dim_to_check,
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {size}",
    )
    width = size // num_heads
    _expect(width * num_heads == size, f"embed_dim {size} not divisible by num_heads {num_heads}")
    shapes = f"key shape {tuple(key.shape)} does not match value shape {tuple(value.shape)}"
    if use_separate_proj_weight:
        _expect(key.shape[:2] == value.shape[:2], shapes)
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _projected_apart((query, key, value), weights, in_proj_bias, size)
    else:
        _expect(key.shape == value.shape, shapes)
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias)
    attn_mask = _checked_mask(attn_mask, batch, num_heads, length, keys)
    if bias_k is not None and bias_v is not None:
        _expect(static_k is None and static_v is None, "bias cannot be added to static key or value.")
        k = cat([k, bias_k.to(k.dtype).expand(1, batch, size)])
        v = cat([v, bias_v.to(v.dtype).expand(1, batch, size)])
        attn_mask, key_padding_mask = _padded(attn_mask), _padded(key_padding_mask)
    else:
        _expect(bias_k is None and bias_v is None, "bias_k and bias_v must be given both, or neither")
    q = _heads(q, num_heads)
    k = (
        _heads(k, num_heads)
        if static_k is None
        else _static_heads("static_k", static_k, batch, num_heads, width)
    )
    v = (
        _heads(v, num_heads)
        if static_v is None
        else _static_heads("static_v", static_v, batch, num_heads, width)
    )
    if add_zero_attn:
        k = cat([k, k.new_zeros((batch, num_heads, 1, width))], 2)
        v = cat([v, v.new_zeros((batch, num_heads, 1, width))], 2)
        attn_mask, key_padding_mask = _padded(attn_mask), _padded(key_padding_mask)
    keys = k.shape[2]
    if key_padding_mask is not None:
        for dim, (name, expected) in enumerate((("N", batch), ("S", keys))):
            size_of_dim = key_padding_mask.shape[dim]
            _expect(
                size_of_dim == expected,
                f"Expected key_padded_mask.shape[{dim}] ({name}) to be {expected}, but got {size_of_dim}",
            )
        key_padding_mask = key_padding_mask.view(batch, 1, 1, keys)
    mask = merged_masks(attn_mask, key_padding_mask, q)
    p = dropout_p if training else 0.0
    scores: Any = None
    if need_weights:
        scores = matmul(q * sqrt(1 / width), k.transpose(-2, -1))
        if mask is not None:
            scores = scores + _as_additive(mask, scores)
        scores = dropout(softmax(scores, -1), p)
        result = matmul(scores, v)
    else:
        if mask is not None:
            hides = mask.dtype is bool_
            mask = mask.logical_not() if hides else mask if mask.dtype is float32 else _as_additive(mask, q)
        result = scaled_dot_product_attention(q, k, v, mask, p, causal)
    rows = result.permute(2, 0, 1, 3).reshape(length * batch, size)
    result = linear(rows, out_proj_weight, out_proj_bias)
    result = result.view(length, batch, result.shape[1])
    if need_weights and average_attn_weights:
        scores = scores.mean(1)
    if not batched:
        result = result.squeeze(1)
        scores = None if scores is None else scores.squeeze(0)
    return result, scores


def _checked_mask(mask: Tensor | None, batch: int, heads: int, length: int, keys: int) -> Tensor | None:
    """A mask of the queries over ``(N, heads, L, S)``."""
    if mask is None:
        return None
    shape, dims = tuple(mask.shape), mask.dim()
    expected = (length, keys) if dims == 2 else (batch * heads, length, keys)
    if shape != expected:
        raise RuntimeError(f"The shape of the {dims}D attn_mask is {shape}, but should be {expected}.")
    return mask if dims == 2 else mask.unflatten(0, (batch, heads))
