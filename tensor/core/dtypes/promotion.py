"""Promotion rules: in which type an operation computes, and of which type its result is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category, dtype, promote_types

from .default import default_dtype_of, get_default_dtype

if TYPE_CHECKING:
    from tensor.core.layout import Layout

#: ``rule(promoted type of the operands) -> (type to compute in, type of the result)``
Rule = "Callable[[dtype], tuple[dtype, dtype]]"


def promoted(signature: tuple[Any, ...]) -> dtype:
    """Common type of operands, each given by its layout or, for a number, by its class.

    The operand of the strongest category decides; within one category a tensor with dimensions before a
    0-dim tensor before a number.
    """
    strongest: list[dtype | None] = [None, None, None]
    for operand in signature:
        if isinstance(operand, type):
            value, weakness = _of_class(operand), 2
        else:
            value, weakness = operand.dtype, 0 if operand.shape else 1
        before = strongest[weakness]
        strongest[weakness] = value if before is None else promote_types(before, value)
    result: dtype | None = None
    for weaker in strongest:
        if weaker is None:
            continue
        if result is None:
            result = weaker
        elif weaker.category > result.category:
            # A float tensor beside a complex number: the parts keep the tensor's width.
            if weaker.is_complex and result.is_floating_point:
                double = result is dtypes.float64
                result = dtypes.complex128 if double else dtypes.complex64
            else:
                result = weaker
    assert result is not None
    return result


def _of_class(cls: type) -> dtype:
    return default_dtype_of(_SAMPLES[cls])


_SAMPLES: dict[type, Any] = {bool: False, int: 0, float: 0.0, complex: 0j}


def same(dtype: dtype) -> tuple[dtype, dtype]:
    """Computed in the promoted type."""
    return dtype, dtype


def floating(dtype: dtype) -> tuple[dtype, dtype]:
    """The same for floating point and complex; integers become the default type."""
    if dtype.category < Category.FLOATING:
        dtype = get_default_dtype()
    return dtype, dtype


def comparison(dtype: dtype) -> tuple[dtype, dtype]:
    """Computed in the promoted type, giving bools."""
    return dtype, dtypes.bool_


def to_real(dtype: dtype) -> tuple[dtype, dtype]:
    """Computed in the promoted type; a complex operand gives its real type."""
    return dtype, dtype.to_real()


def floating_to_real(dtype: dtype) -> tuple[dtype, dtype]:
    """As :func:`floating`; a complex operand gives its real type."""
    dtype = floating(dtype)[0]
    return dtype, dtype.to_real()


def computes_in(dtype: dtype) -> dtype:
    """Type that arithmetic on ``dtype`` is done in: half precision and float8 in single."""
    return dtypes.float32 if dtype.is_floating_point and dtype.itemsize < 4 else dtype


def number_code(dtype: dtype) -> str | int:
    """How a kernel that computes in ``dtype`` takes a number: a code of :mod:`struct`, or 16 for a complex one."""
    if dtype.is_complex:
        return 16
    if dtype.is_floating_point:
        return "d"
    return "Q" if dtype is dtypes.uint64 else "q"


def is_bool(operand: Layout | type) -> bool:
    """Whether an operand is a bool, or has bools."""
    return operand is bool if isinstance(operand, type) else operand.dtype is dtypes.bool_


def describe(operand: Layout | type) -> str:
    """An operand for a message."""
    return operand.__name__ if isinstance(operand, type) else repr(operand.dtype)
