"""Nested sequences of numbers as arrays: their dtype, their shape, and their elements."""

from __future__ import annotations

from array import array as packed
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import Category, dtype, promote_types
from nvrtc_kernels.dtypes import from_numpy as dtype_of_array
from tensor.core.base import TensorBase
from tensor.core.dtypes.default import default_dtype_of, get_default_dtype
from tensor.core.dtypes.limits import iinfo
from tensor.core.dtypes.scalars import element

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Convert = Callable[[NDArray[Any], dtype], NDArray[Any]]

_FLOATS = frozenset((float,))
_NUMBERS = frozenset((int, float, bool, complex))
#: Up to here a double holds every integer.
_EXACT = 2**53
_READ = frozenset(np.dtype(name) for name in ("?", "i8", "f8", "c16"))


def array_of_nested(data: Any, dtype: dtype | None, convert: Convert) -> NDArray[Any]:
    """A fresh array of nested sequences, of type ``dtype`` or what their elements promote to.

    ``convert(array, dtype)`` converts an array of numbers of Python's types.

    Raises
    ------
    ValueError
        If sequences differ in length, or a tensor among them has several elements.
    TypeError
        For an element that is no number.
    RuntimeError
        If a number is out of the range of ``dtype``.
    """
    if type(data) is list and data and _FLOATS.issuperset(map(type, data)):
        target = dtype or get_default_dtype()
        if target is dtypes.float32:
            # Rounded as they are packed, and too large ones become infinite, as in a conversion.
            return np.frombuffer(packed("f", data), np.float32)
    array = _of_numbers(data)
    if array is not None:
        target = dtype or default_dtype_of(array.dtype.type(0).item())
        if _fits(array, target):
            return convert(array, target)
    shape = tuple(_shape(data))
    dtype = inferred_dtype(data) if dtype is None else dtype
    leaves = list(_leaves(data, shape, 0))
    result = np.empty(len(leaves), dtype.numpy)
    with np.errstate(all="ignore"):
        result[:] = [as_element(leaf, dtype) for leaf in leaves]
    return result.reshape(shape)


def _of_numbers(data: Any) -> NDArray[Any] | None:
    """What NumPy, which is fast, makes of Python's own numbers; ``None`` where something else is among them."""
    first, depth = data, 0
    while isinstance(first, (list, tuple)) and first:
        first, depth = first[0], depth + 1
    if type(first) not in _NUMBERS or not _only_numbers(data, depth):
        return None
    try:
        array = np.array(data)
    except (ValueError, TypeError, OverflowError, RuntimeError):
        return None
    return array if array.dtype in _READ and array.ndim == depth else None


def _only_numbers(data: Any, depth: int) -> bool:
    if not isinstance(data, (list, tuple)):
        return False
    if depth == 1:
        return _NUMBERS.issuperset(map(type, data))
    return all(_only_numbers(part, depth - 1) for part in data)


def _fits(array: NDArray[Any], dtype: dtype) -> bool:
    """Whether every number may be converted; if not, the slow way says which one may not."""
    if array.dtype.kind == "c" and not dtype.is_complex:
        return False
    if dtype.category is not Category.INTEGER or array.dtype.kind == "b" or not array.size:
        return True
    limits = iinfo(dtype)
    smallest, largest = array.min(), array.max()
    if dtype is dtypes.uint64 and (array.dtype.kind == "f" or smallest < 0):
        return False
    if array.dtype.kind == "f":
        # Among floats an integer of more than 53 bits has lost its last ones; a negative float wraps nowhere.
        return bool(smallest >= max(limits.min, -_EXACT) and largest <= min(limits.max, _EXACT))
    return bool(smallest >= (limits.min or -limits.max) and largest <= limits.max)


def is_sequence(data: Any) -> bool:
    """Whether ``data`` has elements by number."""
    return (
        hasattr(data, "__len__")
        and hasattr(data, "__getitem__")
        and not isinstance(data, (str, bytes, Mapping))
    )


def inferred_dtype(data: Any) -> dtype:
    """The type that numbers in nested sequences promote to; the default type where there are none."""
    if isinstance(data, TensorBase):
        return data._layout.dtype
    if isinstance(data, (np.ndarray, np.generic)):
        return dtype_of_array(data.dtype)
    if isinstance(data, (int, float, complex)):
        return default_dtype_of(data)
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not is_sequence(data):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    dtypes_of_parts = {inferred_dtype(part) for part in data}
    return reduce(promote_types, dtypes_of_parts) if dtypes_of_parts else get_default_dtype()


def _shape(data: Any) -> Iterator[int]:
    """Shape of nested sequences, read off the first elements. A tensor among them is one element."""
    while is_sequence(data) and not isinstance(data, TensorBase):
        if isinstance(data, (np.ndarray, np.generic)):
            yield from data.shape
            return
        yield len(data)
        if not len(data):
            return
        data = data[0]
        if isinstance(data, (str, bytes)):
            raise ValueError(f"too many dimensions '{type(data).__name__}'")


def _leaves(data: Any, shape: tuple[int, ...], depth: int) -> Iterator[Any]:
    if depth == len(shape):
        if isinstance(data, (str, bytes)):
            raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
        if is_sequence(data) and getattr(data, "ndim", True) and not isinstance(data, TensorBase):
            raise TypeError(
                f"expected a number at dim {depth}, got {type(data).__name__} of length {len(data)}"
            )
        yield data[()] if isinstance(data, np.ndarray) else data
        return
    if not is_sequence(data) or isinstance(data, TensorBase):
        raise TypeError(f"not a sequence at dim {depth}: got {type(data).__name__}")
    if len(data) != shape[depth]:
        raise ValueError(f"expected sequence of length {shape[depth]} at dim {depth} (got {len(data)})")
    for part in data:
        yield from _leaves(part, shape, depth + 1)


def as_element(value: Any, dtype: dtype) -> Any:
    """``value`` as an element of type ``dtype``. A float too large becomes infinite, and no complex number real."""
    if isinstance(value, TensorBase):
        value = _only_element(value, dtype)
    if not isinstance(value, (int, float, complex, np.generic)):
        error = TypeError if isinstance(value, (str, bytes)) else RuntimeError
        raise error(f"must be a number, not {type(value).__name__}")
    if dtype.is_complex:
        return complex(value)
    if isinstance(value, (complex, np.complexfloating)) and dtype is not dtypes.bool_:
        expected = "a real number" if dtype.is_floating_point else "an integer"
        raise TypeError(f"must be {expected}, not {type(value).__name__}: {value}")
    if dtype.is_floating_point:
        return float(value)  # type: ignore[arg-type]
    if dtype is dtypes.uint64:
        if not isinstance(value, (int, np.integer)):
            raise TypeError(f"an integer is required for {dtype!r}, got {type(value).__name__}: {value}")
        if value < 0:
            raise OverflowError(f"can't convert negative int to unsigned: {value}")
        return element(int(value), dtype)
    if dtype.category is Category.INTEGER and isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"Overflow when unpacking long long: {value} needs more than 64 bits")
    return element(value, dtype)


def _only_element(value: Any, dtype: dtype) -> Any:
    if value._layout.numel != 1:
        shape = list(value._layout.shape)
        if dtype.category is Category.INTEGER:
            raise TypeError(
                f"only integer tensors of a single element can be converted to an index, got shape {shape}; use "
                "tensor.stack to join tensors"
            )
        raise ValueError(
            f"only one element tensors can be converted to Python scalars, got shape {shape}; use tensor.stack to "
            "join tensors"
        )
    return value.item()
