"""What attention is called with: checks, and heads in groups that share keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import bool_, float32

from ..base import TensorBase

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..tensors import Tensor


def check(query: Any, key: Any, value: Any, mask: Any, dropout_p: float, is_causal: bool) -> None:
    """Raise unless types, devices and numbers of dimensions fit, and ``dropout_p`` is a probability."""
    name = "scaled_dot_product_attention"
    operands = {"query": query, "key": key, "value": value}
    for position, (title, x) in enumerate(operands.items()):
        if not isinstance(x, TensorBase):
            raise TypeError(
                f"{name}(): argument '{title}' (position {position + 1}) must be Tensor, not {type(x).__name__}"
            )
    if mask is not None and not isinstance(mask, TensorBase):
        raise TypeError(
            f"{name}(): argument 'attn_mask' (position 4) must be Tensor, not {type(mask).__name__}"
        )

    def shown(what: str, of: Callable[[Any], Any]) -> str:
        return ", ".join(f"{title}.{what}: {of(x)}" for title, x in operands.items())

    if min(len(x._layout.shape) for x in operands.values()) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got "
            f"{shown('dim', lambda x: len(x._layout.shape))} instead."
        )
    kind, place = query._layout.dtype, query._layout.place
    if key._layout.dtype is not kind or value._layout.dtype is not kind:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got {shown('dtype', lambda x: x.dtype)} "
            "instead."
        )
    if not kind.is_floating_point:
        raise RuntimeError(
            f"{name}(): expected query, key, and value of a floating point dtype, but got {kind!r}"
        )
    if key._layout.place is not place or value._layout.place is not place:
        raise RuntimeError(
            "Expected query, key, and value to have the same device type, but got "
            f"{shown('device', lambda x: x.device)} instead."
        )
    if mask is not None:
        if is_causal:
            raise RuntimeError(f"{name}: Explicit attn_mask should not be set when is_causal=True")
        if mask._layout.dtype not in (bool_, float32, kind):
            raise RuntimeError(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                f"{mask.dtype} and query.dtype: {kind!r} instead."
            )
        if mask._layout.place is not place:
            raise RuntimeError(
                f"Expected attn_mask and query to be on the same device, but got {mask.device} and {query.device}"
            )
    if not 0.0 <= dropout_p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")


def by_group(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, bool]:
    """Operands with as many heads, or with those in groups that share key and value, and whether it is so."""
    for title, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() < 3:
            raise RuntimeError(
                "with enable_gqa the third dimension from the end has the heads, but "
                f"{title} has shape {list(x.shape)}"
            )
    heads, of_key, of_value = query.shape[-3], key.shape[-3], value.shape[-3]
    if not of_key or not of_value or heads % of_key or heads % of_value:
        raise RuntimeError(
            "Number of heads in key and value must divide the number of heads in query, but got "
            f"{of_key} and {of_value} for {heads}"
        )
    if of_key != of_value:
        key = key.repeat_interleave(heads // of_key, -3)
        value = value.repeat_interleave(heads // of_value, -3)
    if of_key != of_value or of_key == heads:
        return query, key, value, mask, False
    if mask is not None and mask.dim() > 2:
        own = mask.shape[-3]
        if own not in (1, heads):
            raise RuntimeError(
                f"attn_mask of shape {list(mask.shape)} has {own} heads, and the query {heads}"
            )
        mask = mask.unsqueeze(-3) if own == 1 else mask.unflatten(-3, (of_key, heads // of_key))
    return query.unflatten(-3, (of_key, heads // of_key)), key.unsqueeze(-3), value.unsqueeze(-3), mask, True


def shared(batch: tuple[int, ...], *shapes: tuple[int, ...]) -> int:
    """Dimensions of ``batch`` after which ``shapes``, which are broadcast to it, have none but of size 1."""
    padded = [(*(1 for _ in range(len(batch) - len(shape))), *shape) for shape in shapes]
    found = len(batch)
    while found and all(shape[found - 1] == 1 for shape in padded):
        found -= 1
    return found
