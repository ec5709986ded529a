"""What NumPy arrays, numbers and structures are as the parameters of a kernel."""

from __future__ import annotations

import ctypes
import re
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.errors import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

_FLOATS = {2: "<e", 4: "<f", 8: "<d"}


def declared_types(ptx: str, kernel: str) -> list[str]:
    """The PTX types of a kernel's parameters, such as ``["u64", "f32"]``; ``"b8"`` for a structure.

    What stands in PTX tells a ``float`` from an ``int``, which the sizes that the driver knows do not.
    """
    header = re.search(rf"\.entry\s+{re.escape(kernel)}\s*\((.*?)\)", ptx, re.DOTALL)
    if header is None:
        return []
    return [re.findall(r"\.([a-z]+\d+)\b", line)[0] for line in header[1].split(",") if ".param" in line]


def encode(value: Any, size: int, declared: str, subject: str) -> bytes:
    """The bytes of a parameter that is passed by value.

    Parameters
    ----------
    value
        A number of Python, which takes the parameter's type; a NumPy or ctypes scalar, structure or ``bytes``, which
        must have its size; ``None`` for a null pointer.
    size : int
        Bytes of the parameter.
    declared : str
        Its PTX type, or ``""`` where it is not known.
    subject : str
        What it is called in messages.

    Raises
    ------
    InvalidValueError
        If the value does not fit.
    """
    if value is None:
        value = 0
    if isinstance(value, (int, float)) and not isinstance(value, np.generic):
        return _number(value, size, declared, subject)
    if isinstance(value, complex) and not isinstance(value, np.generic):
        value = np.complex64(value) if size == 8 else np.complex128(value)
    if isinstance(value, np.generic):
        encoded = value.tobytes()
    elif isinstance(value, (bytes, bytearray, ctypes._SimpleCData, ctypes.Structure, ctypes.Array)):
        encoded = bytes(value)
    else:
        raise InvalidValueError(
            f"{subject} is of class {type(value).__name__}: expected a NumPy array, a number, a NumPy or ctypes "
            "scalar or structure, bytes, or None for a null pointer"
        )
    if len(encoded) != size:
        raise InvalidValueError(
            f"{subject} is {type(value).__name__} of {len(encoded)} bytes: the kernel expects {_expected(size, declared)}"
        )
    return encoded


def _number(value: Any, size: int, declared: str, subject: str) -> bytes:
    if declared.startswith("f") or (isinstance(value, float) and declared in ("", "b8", "b16", "b32", "b64")):
        form = _FLOATS.get(size)
        if form is not None:
            try:
                return struct.pack(form, value)
            except OverflowError:
                raise InvalidValueError(
                    f"{subject} is {value!r}: it does not fit into {size} bytes of floating point"
                ) from None
    elif not isinstance(value, float) and size in (1, 2, 4, 8):
        try:
            return int(value).to_bytes(size, "little", signed=value < 0)
        except OverflowError:
            raise InvalidValueError(
                f"{subject} is {value}: it does not fit into {size} bytes of integer"
            ) from None
    raise InvalidValueError(f"{subject} is {value!r}: the kernel expects {_expected(size, declared)}")


def _expected(size: int, declared: str) -> str:
    if not declared or declared == "b8":
        return f"{size} bytes"
    return f"{size} bytes, .{declared}"


def check_arrays(arguments: Sequence[Any], kernel: str) -> None:
    """Raise InvalidValueError for arrays that cannot be copied to a device and back."""
    arrays = [(position, each) for position, each in enumerate(arguments) if isinstance(each, np.ndarray)]
    for number, (position, array) in enumerate(arrays):
        subject = f"argument {position} of kernel '{kernel}'"
        if array.dtype.hasobject or not array.dtype.isnative:
            raise InvalidValueError(
                f"{subject} is an array of dtype {array.dtype}: expected one whose bytes a kernel can read"
            )
        for other_position, other in arrays[:number]:
            if other is not array and np.shares_memory(other, array):
                raise InvalidValueError(
                    f"{subject} shares memory with argument {other_position}: pass the same array object for "
                    "parameters that are to be the same memory, and copies for others"
                )
