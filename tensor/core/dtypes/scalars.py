"""Python numbers that become elements."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category, dtype

from .float8 import rounded

if TYPE_CHECKING:
    from collections.abc import Callable

_INTEGER_RANGE = {
    dtype: (int(np.iinfo(dtype.numpy).min), int(np.iinfo(dtype.numpy).max))
    for dtype in dtypes.EVERY
    if dtype.category is Category.INTEGER
}
_WORD = 1 << 63
#: The largest number that a floating point type holds; what is infinite already is not too large. Float8 types round.
_LARGEST = {
    dtype: None if dtype in dtypes.FLOAT8 else float(ml_dtypes.finfo(dtype.to_real().numpy).max)
    for dtype in dtypes.EVERY
    if dtype.is_floating_point or dtype.is_complex
}
#: Looked up once: before Python 3.12 members of enumerations are found by Python code.
_BOOL, _INTEGER, _FLOATING, _COMPLEX = Category


def element(value: Any, dtype: dtype) -> Any:
    """``value`` as a Python number that ``dtype`` holds: a bool, int, float or complex.

    A float becomes an integer by cutting off its fraction, and has to lie in the integer type's range before that.
    A negative integer that an unsigned type cannot hold counts from the end of its range, as in PyTorch. A float8 type
    rounds, and what is too large becomes what ``.to(dtype)`` makes of it.

    Raises
    ------
    RuntimeError
        If the number is too large, or complex where ``dtype`` is real.
    TypeError
        If it is no number.
    """
    category = dtype.category
    if category is _FLOATING:
        if type(value) is float or type(value) is int:
            number: Any = float(value)
        else:
            number = float(_real(value, dtype))
        largest = _LARGEST[dtype]
        if largest is None:
            return rounded(number, dtype)
        if -largest <= number <= largest or not math.isfinite(number):
            return number
        raise _overflow(value, dtype)
    if category is _BOOL:
        return bool(_number(value))
    if category is _INTEGER:
        number = value if type(value) is int else _real(value, dtype)
        low, high = _INTEGER_RANGE[dtype]
        if not isinstance(number, int):
            # NaN is in no range. The limit of int64 as a double is one more than the limit; PyTorch lets that one wrap.
            if not low <= number <= float(high):
                raise _overflow(value, dtype)
            number = int(number)
            return number if number <= high else low
        if low <= number <= high:
            return int(number)
        if low == 0 and -high <= number < 0:
            return int(number) & high
        raise _overflow(value, dtype)
    number = complex(_number(value))
    largest = _LARGEST[dtype]
    assert largest is not None
    for part in (number.real, number.imag):
        if math.isfinite(part) and abs(part) > largest:
            raise _overflow(value, dtype)
    return number


def wrapped(value: Any, dtype: dtype) -> Any:
    """A Python number as the operand of arithmetic in ``dtype``: as if it had been computed there.

    Integers wrap; real numbers that are too large are infinite.

    Raises
    ------
    RuntimeError
        If an integer needs more than 64 bits, or a number that is not finite is to be an integer.
    """
    category = dtype.category
    if category is _FLOATING:
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, value)
    if category is _COMPLEX:
        return complex(value)
    if category is _BOOL:
        return bool(value)
    if not isinstance(value, int):
        value = element(value, dtypes.int64)
    if not -_WORD <= value < (2 * _WORD if dtype is dtypes.uint64 else _WORD):
        raise _overflow(value, dtype)
    low, high = _INTEGER_RANGE[dtype]
    if low <= value <= high:
        return int(value)
    return (value - low) % (high - low + 1) + low


def packed_number(dtype: dtype) -> Callable[[Any], Any]:
    """What makes a Python number the argument of a kernel that computes in ``dtype``, as :func:`wrapped`."""
    if dtype.is_complex:
        return lambda value: struct.pack("=dd", complex(value).real, complex(value).imag)
    if dtype.is_floating_point:
        return lambda value: value if type(value) is float else wrapped(value, dtype)
    return lambda value: wrapped(value, dtype)


_NUMBERS = (
    int,
    float,
    complex,
    np.number,
    np.bool_,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
)


def is_number(value: Any) -> bool:
    """Whether ``value`` is a Python or NumPy number (or a bool)."""
    return type(value) in _OF_CLASS or isinstance(value, _NUMBERS)


def dtype_of(value: Any) -> dtype:
    """Type that a number stands for in promotion: bool, int64, float64 or complex128.

    Raises
    ------
    TypeError
        If it is no number.
    """
    result = _OF_CLASS.get(type(value))
    if result is not None:
        return result
    for cls, result in _OF_CLASS.items():
        if isinstance(value, cls):
            return result
    if is_number(value):
        return _OF_NUMPY[value.dtype.kind]
    raise TypeError(f"expected a number, got {type(value).__name__}")


#: Of Python's classes of numbers; a bool is an int too.
_OF_CLASS = {
    bool: dtypes.bool_,
    int: dtypes.int64,
    float: dtypes.float64,
    complex: dtypes.complex128,
}
_OF_NUMPY = {
    "b": dtypes.bool_,
    "i": dtypes.int64,
    "u": dtypes.int64,
    "f": dtypes.float64,
    "V": dtypes.float64,
    "c": dtypes.complex128,
}


def _number(value: Any) -> Any:
    if isinstance(value, (int, float, complex)):
        return value
    item = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return item()


def _real(value: Any, dtype: dtype) -> Any:
    number = _number(value)
    if isinstance(number, complex):
        if number.imag:
            raise _overflow(value, dtype)
        return number.real
    return number


def _overflow(value: Any, dtype: dtype) -> Exception:
    """The error of PyTorch's class: of another for integers that no number of 64 bits holds."""
    exceeds_word = isinstance(value, int) and not -_WORD <= value < 2 * _WORD
    return (OverflowError if exceeds_word else RuntimeError)(
        f"value cannot be converted to type {dtype!r} without overflow: {value}"
    )
