"""Causal masks of queries and keys that differ in number: the names of ``torch.nn.attention.bias``."""

from __future__ import annotations

import warnings
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import tensor
from tensor import Tensor
from tensor.core.names.absent import hints as _hints
from tensor.methods.overriding.protocol import disabled_torch_function

if TYPE_CHECKING:
    from typing import Self

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Which corner of a causal mask the diagonal goes through.

    ``UPPER_LEFT`` is 1, ``LOWER_RIGHT`` 2.
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask as ``attn_mask`` of ``scaled_dot_product_attention``, which computes without a mask where it can.

    As a tensor it is the mask itself, bool, ``(seq_len_q, seq_len_kv)``, on the CPU; attention takes it for operands on
    any device.

    Parameters
    ----------
    variant : CausalVariant
        Which corner the diagonal goes through.
    seq_len_q, seq_len_kv : int
        Numbers of queries and keys.

    Raises
    ------
    TypeError
        If ``variant`` is no :class:`CausalVariant`.

    Examples
    --------
    >>> nn.attention.bias.causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """

    __torch_function__ = disabled_torch_function
    _text_name = "tensor"

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Self:
        """The mask."""
        if not isinstance(variant, CausalVariant):
            raise TypeError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        result: Self = _mask(variant, seq_len_q, seq_len_kv, "cpu").as_subclass(cls)
        result.variant, result.seq_len_q, result.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!",
                stacklevel=3,
            )
        return result

    def _for_attention(self, query: Tensor, is_causal: bool) -> tuple[Tensor | None, bool]:
        """What attention takes in its place: a mask, or None and whether it is causal."""
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        if self.variant is CausalVariant.UPPER_LEFT or self.seq_len_q == self.seq_len_kv:
            return None, True
        return _mask(self.variant, self.seq_len_q, self.seq_len_kv, query.device), False

    def __reduce_ex__(self, protocol: Any) -> Any:
        return CausalBias, (self.variant, self.seq_len_q, self.seq_len_kv)


def _mask(variant: CausalVariant, seq_len_q: int, seq_len_kv: int, device: Any) -> Tensor:
    above = 0 if variant is CausalVariant.UPPER_LEFT else seq_len_kv - seq_len_q
    ones = tensor.ones(seq_len_q, seq_len_kv, dtype=tensor.bool, device=device)
    return ones.tril(diagonal=above)


def causal_upper_left(*size: int) -> CausalBias:
    """A causal mask whose diagonal begins at the first query and key: query ``i`` sees keys up to ``i``.

    Parameters
    ----------
    *size : int
        Numbers of queries and keys.

    Raises
    ------
    ValueError
        If these are not two.
    """
    return CausalBias(CausalVariant.UPPER_LEFT, *_two(size, "causal_upper_left"))


def causal_lower_right(*size: int) -> CausalBias:
    """A causal mask whose diagonal ends at the last query and key, as for queries that follow cached keys.

    Parameters
    ----------
    *size : int
        Numbers of queries and keys. With more queries than keys the first queries see none, and get zeros.

    Raises
    ------
    ValueError
        If these are not two.
    """
    return CausalBias(CausalVariant.LOWER_RIGHT, *_two(size, "causal_lower_right"))


def _two(size: tuple[int, ...], name: str) -> tuple[int, int]:
    if len(size) != 2:
        raise ValueError(f"{name}() only supports 2D tensors: it takes the numbers of queries and keys")
    return size[0], size[1]


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
