"""Types of results: tensors with dimensions decide before 0-dim tensors, and these before Python numbers."""

from __future__ import annotations

from typing import Any

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category, dtype, promote_types

from .base import TensorBase
from .creation import default_dtype_of


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """Type of the result of an arithmetic operation on two tensors or numbers.

    The operand of a stronger category (bool, integer, floating point, complex) decides; of one category, a
    tensor with dimensions decides over a 0-dim tensor, and that over a number.
    """
    return promoted(tensor1, tensor2)


def promoted(*operands: Any) -> dtype:
    """:func:`result_type` of any number of operands."""
    found: list[dtype | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, TensorBase):
            kind, rank = operand._layout.dtype, 0 if operand._layout.shape else 1
        else:
            kind, rank = default_dtype_of(operand), 2
        before = found[rank]
        found[rank] = kind if before is None else promote_types(before, kind)
    result: dtype | None = None
    for weaker in found:
        if weaker is not None and (result is None or weaker.category > result.category):
            result = weaker if result is None else _raised(result, weaker)
    assert result is not None
    return result


def _raised(kind: dtype, by: dtype) -> dtype:
    """``kind`` raised to the category of a weaker operand ``by``."""
    if by.category is Category.COMPLEX and kind.category is Category.FLOATING:
        return promote_types(kind, by) if kind is dtypes.float64 or by is dtypes.complex64 else by
    return by


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a value of type ``from_`` may be written where type ``to`` is: it leaves no category.

    Only a step down is forbidden: complex to real, floating point to integer, anything to bool, and a
    signed type to an unsigned one.
    """
    if from_.category > to.category and from_.category is not to.category:
        return False
    return not (to is dtypes.uint8 and from_.is_signed and from_.category is Category.INTEGER)
