"""Operations on the bits of integers; on bools, they are logical."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels.dtypes import Category
from tensor.operations.definition import operation
from tensor.operations.pointwise_operation import Pointwise, by_kind

if TYPE_CHECKING:
    from tensor.methods.tensor import Tensor

_BITS = (Category.BOOL, Category.INTEGER)

AND = Pointwise("bitwise_and", "a & b", np.bitwise_and, categories=_BITS)
OR = Pointwise("bitwise_or", "a | b", np.bitwise_or, categories=_BITS)
XOR = Pointwise("bitwise_xor", "a ^ b", np.bitwise_xor, categories=_BITS)
NOT = Pointwise("bitwise_not", by_kind("~a", boolean="!a"), np.bitwise_not, categories=_BITS)


def _inside(a: Any, b: Any) -> Any:
    """Where a shift by ``b`` leaves bits of ``a``."""
    return (b >= 0) & (b < 8 * a.dtype.itemsize)


def _left_shift(a: Any, b: Any) -> Any:
    inside = _inside(a, b)
    return np.where(inside, np.left_shift(a, np.where(inside, b, b.dtype.type(0))), a.dtype.type(0))


def _right_shift(a: Any, b: Any) -> Any:
    inside = _inside(a, b)
    shifted = np.right_shift(a, np.where(inside, b, b.dtype.type(0)))
    return np.where(inside, shifted, np.negative((a < 0).astype(a.dtype)))


LEFT_SHIFT = Pointwise(
    "bitwise_left_shift",
    "b < 0 || b >= Compute(8 * sizeof(Compute)) ? Compute(0) : Compute(a << b)",
    _left_shift,
    categories=(Category.INTEGER,),
)
RIGHT_SHIFT = Pointwise(
    "bitwise_right_shift",
    "b < 0 || b >= Compute(8 * sizeof(Compute)) ? Compute(a < 0 ? -1 : 0) : Compute(a >> b)",
    _right_shift,
    categories=(Category.INTEGER,),
)


@operation(in_place=True)
def bitwise_and(input: Tensor | int, other: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """``input & other``."""
    return AND.out(out, input, other)


@operation(in_place=True)
def bitwise_or(input: Tensor | int, other: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """``input | other``."""
    return OR.out(out, input, other)


@operation(in_place=True)
def bitwise_xor(input: Tensor | int, other: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """``input ^ other``."""
    return XOR.out(out, input, other)


@operation(in_place=True)
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``~input``."""
    return NOT.out(out, input)


@operation(in_place=True)
def bitwise_left_shift(input: Tensor | int, other: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """``input << other``; 0 where ``other`` is negative or as large as the type has bits."""
    return LEFT_SHIFT.out(out, input, other)


@operation(in_place=True)
def bitwise_right_shift(input: Tensor | int, other: Tensor | int, *, out: Tensor | None = None) -> Tensor:
    """``input >> other``, filled up with the sign; nothing but the sign where ``other`` is out of range."""
    return RIGHT_SHIFT.out(out, input, other)
