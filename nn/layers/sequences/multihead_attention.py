"""Multi-head attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import init
from nn.functional.attention import merged_masks, multi_head_attention_forward
from nn.layers.linear import Linear
from nn.module import Module
from nn.parameter import Parameter
from tensor import empty

if TYPE_CHECKING:
    from tensor import Tensor, dtype


class MultiheadAttention(Module):
    """Multi-head scaled dot-product attention (Vaswani et al., "Attention Is All You Need", 2017).

    ``softmax(Q K^T / sqrt(E / num_heads)) V`` in each head, of linear projections of query, key and value; the
    concatenated heads are projected again.

    Parameters
    ----------
    embed_dim : int
        Features E of queries and outputs.
    num_heads : int
        Number of heads, which divides E.
    dropout : float
        Probability of the dropout on attention weights, in training.
    bias : bool
        Whether the projections have biases.
    add_bias_kv : bool
        Whether to append a learned key and value.
    add_zero_attn : bool
        Whether to append a key and value of zeros.
    kdim, vdim : int, optional
        Features of keys and values; E by default.
    batch_first : bool
        Whether tensors have shape (N, L, E) instead of (L, N, E).
    device, dtype
        Of the parameters.

    Attributes
    ----------
    in_proj_weight : Parameter or None
        Shape (3 E, E), for queries, keys and values; where their features differ there are ``q_proj_weight``,
        ``k_proj_weight`` and ``v_proj_weight`` instead.
    in_proj_bias : Parameter or None
        Shape (3 E,).
    bias_k, bias_v : Parameter or None
        Shape (1, 1, E).
    out_proj : Linear
        Output projection.

    Raises
    ------
    ValueError
        If ``embed_dim`` or ``num_heads`` is not positive.
    AssertionError
        If ``embed_dim`` is not divisible by ``num_heads``.

    Examples
    --------
    >>> attention = nn.MultiheadAttention(16, 4, batch_first=True)
    >>> x = tensor.randn(2, 5, 16)
    >>> output, weights = attention(x, x, x, need_weights=False)
    >>> output.shape, weights
    (tensor.Size([2, 5, 16]), None)
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        if embed_dim % num_heads:
            raise AssertionError(
                f"embed_dim must be divisible by num_heads, got embed_dim={embed_dim} and num_heads={num_heads}"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn

        def add(name: str, *shape: int, present: bool = True) -> None:
            parameter = Parameter(empty(shape, device=device, dtype=dtype)) if present else None
            self.register_parameter(name, parameter)

        packed = self.kdim == self.vdim == embed_dim
        add("in_proj_weight", 3 * embed_dim, embed_dim, present=packed)
        add("q_proj_weight", embed_dim, embed_dim, present=not packed)
        add("k_proj_weight", embed_dim, self.kdim, present=not packed)
        add("v_proj_weight", embed_dim, self.vdim, present=not packed)
        add("in_proj_bias", 3 * embed_dim, present=bias)
        add("bias_k", 1, 1, embed_dim, present=add_bias_kv)
        add("bias_v", 1, 1, embed_dim, present=add_bias_kv)
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None and self.out_proj.bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from queries to keys and values; see :func:`nn.functional.multi_head_attention_forward`.

        Parameters
        ----------
        query, key, value : Tensor
            Shapes (L, N, E), (S, N, kdim) and (S, N, vdim), with ``batch_first`` (N, L, E) and so on, or without N.
        key_padding_mask : Tensor, optional
            Shape (N, S) or (S,): bool with True for keys to ignore, or floating point, which is added to the scores.
        need_weights : bool
            Whether to return the attention weights. Without them a fused kernel computes the output, in O(L + S)
            memory.
        attn_mask : Tensor, optional
            Shape (L, S) or (N * num_heads, L, S): bool with True for pairs to ignore, or floating point, which is
            added.
        average_attn_weights : bool
            Whether the weights are averaged over the heads.
        is_causal : bool
            A hint that ``attn_mask`` is the causal mask, which then need not be read.

        Returns
        -------
        tuple
            Output of the query's shape, and weights of shape (N, L, S), per head (N, num_heads, L, S), or ``None``.

        Raises
        ------
        AssertionError, RuntimeError
            If a shape is not the one above, or ``is_causal`` comes without ``attn_mask``.
        """
        transposed = self.batch_first and query.dim() == 3
        if transposed:
            # What is one tensor stays one: it is multiplied once.
            same_key, same_value = key is query, value is key
            query = query.transpose(0, 1)
            key = query if same_key else key.transpose(0, 1)
            value = key if same_value else value.transpose(0, 1)
        result, weights = multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=self.in_proj_weight is None,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return result.transpose(0, 1) if transposed else result, weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Combine both masks, for a query of shape (N, L, E).

        Parameters
        ----------
        attn_mask : Tensor or None
            Shape (L, S) or (N * num_heads, L, S).
        key_padding_mask : Tensor or None
            Shape (N, S).
        query : Tensor
            Shape (N, L, E).

        Returns
        -------
        tuple
            The mask and its type: 1 for ``key_padding_mask`` itself, 2 for one of shape (N, num_heads, L, S);
            ``None`` twice without masks.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, keys = query.shape[0], attn_mask.shape[-2], attn_mask.shape[-1]
        if attn_mask.dim() == 3:
            attn_mask = attn_mask.view(batch, self.num_heads, length, keys)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.view(batch, 1, 1, keys)
        merged: Any = merged_masks(attn_mask, key_padding_mask, query)
        return merged.expand(batch, self.num_heads, length, keys), 2
