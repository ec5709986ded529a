"""Python numbers that become elements."""

from __future__ import annotations

import math
from typing import Any

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category, dtype

from .numeric_limits import finfo, iinfo

_INTEGER_RANGE = {
    kind: (iinfo(kind).min, iinfo(kind).max) for kind in dtypes.ALL if kind.category is Category.INTEGER
}
#: Half precision takes what is too large as infinite, as PyTorch does; double holds every Python float.
_LARGEST = dict.fromkeys(dtypes.ALL, math.inf) | {
    kind: finfo(kind).max for kind in (dtypes.float32, dtypes.complex64)
}


def element(value: Any, kind: dtype) -> Any:
    """``value`` as a Python number that ``kind`` holds: a bool, int, float or complex.

    A float becomes an integer by cutting off its fraction; a negative number that an unsigned type cannot
    hold counts from the end of its range, as in PyTorch.

    Raises
    ------
    RuntimeError
        If the number is too large, or complex where ``kind`` is real.
    TypeError
        If it is no number.
    """
    category = kind.category
    if category is Category.FLOATING:
        if type(value) is float or type(value) is int:
            number: Any = float(value)
        else:
            number = float(_real(value, kind))
        if math.isfinite(number) and abs(number) > _LARGEST[kind]:
            raise _overflow(value, kind)
        return number
    if category is Category.BOOL:
        return bool(value)
    if category is Category.INTEGER:
        number = _real(value, kind)
        if not isinstance(number, int):
            if not math.isfinite(number):
                raise _overflow(value, kind)
            number = int(number)
        low, high = _INTEGER_RANGE[kind]
        if low <= number <= high:
            return int(number)
        if low == 0 and -high <= number:
            return int(number) & high
        raise _overflow(value, kind)
    number = complex(_number(value))
    for part in (number.real, number.imag):
        if math.isfinite(part) and abs(part) > _LARGEST[kind]:
            raise _overflow(value, kind)
    return number


def is_number(value: Any) -> bool:
    """Whether ``value`` is a Python or NumPy number (or a bool)."""
    return isinstance(value, (int, float, complex)) or (
        type(value).__module__ == "numpy" and hasattr(value, "item")
    )


def dtype_of(value: Any) -> dtype:
    """Type that a Python number stands for in promotion: bool, int64, float64 or complex128."""
    if isinstance(value, bool):
        return dtypes.bool_
    if isinstance(value, int):
        return dtypes.int64
    return dtypes.float64 if isinstance(value, float) else dtypes.complex128


def _number(value: Any) -> Any:
    if isinstance(value, (int, float, complex)):
        return value
    item = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return item()


def _real(value: Any, kind: dtype) -> Any:
    number = _number(value)
    if isinstance(number, complex):
        if number.imag:
            raise _overflow(value, kind)
        return number.real
    return number


def _overflow(value: Any, kind: dtype) -> RuntimeError:
    return RuntimeError(f"value cannot be converted to type {kind!r} without overflow: {value}")
