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


def promoted(kinds: tuple[Any, ...]) -> dtype:
    """Common type of operands, each given by its layout or, for a number, by its class.

    The operand of the strongest category decides; within one category a tensor with dimensions before a
    0-dim tensor before a number.
    """
    strongest: list[dtype | None] = [None, None, None]
    for kind in kinds:
        if isinstance(kind, type):
            value, weakness = _of_class(kind), 2
        else:
            value, weakness = kind.dtype, 0 if kind.shape else 1
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
                wide = result is dtypes.float64
                result = dtypes.complex128 if wide else dtypes.complex64
            else:
                result = weaker
    assert result is not None
    return result


def _of_class(kind: type) -> dtype:
    return default_dtype_of(_SAMPLES[kind])


_SAMPLES: dict[type, Any] = {bool: False, int: 0, float: 0.0, complex: 0j}


def same(dtype: dtype) -> tuple[dtype, dtype]:
    """Computed in the promoted type."""
    return dtype, dtype


def floating(kind: dtype) -> tuple[dtype, dtype]:
    """The same for floating point and complex; integers become the default type."""
    if kind.category < Category.FLOATING:
        kind = get_default_dtype()
    return kind, kind


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
    """Type that arithmetic on ``kind`` is done in: half precision in single."""
    return dtypes.float32 if dtype.name in ("float16", "bfloat16") else dtype


def number_code(dtype: dtype) -> str | int:
    """How a kernel that computes in ``kind`` takes a number: a code of :mod:`struct`, or 16 for a complex one."""
    if dtype.is_complex:
        return 16
    return "d" if dtype.is_floating_point else "q"


def is_bool(kind: Layout | type) -> bool:
    """Whether an operand is a bool, or has bools."""
    return kind is bool if isinstance(kind, type) else kind.dtype is dtypes.bool_


def describe(kind: Layout | type) -> str:
    """An operand for a message."""
    return kind.__name__ if isinstance(kind, type) else repr(kind.dtype)
