"""How a Python value becomes the bytes of a kernel parameter.

A type code says it: a character of :mod:`struct` (``"q"``, ``"f"``, ...), ``"P"`` for an address, or the
number of bytes of a structure passed by value.
"""

from __future__ import annotations

import ctypes
import operator
import struct
from typing import TYPE_CHECKING, Any

from .errors import InvalidValueError
from .memory import DeviceMemory, PinnedMemory, RegisteredMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .module import Function

Code = str | int
#: Turns an argument into what :func:`struct.pack` takes; ``None`` where it is that already.
Converter = "Callable[[Any], Any] | None"

SIZES: dict[str, int] = {code: struct.calcsize("=" + code) for code in "?bBhHiIqQefd"} | {"P": 8}
_NUMPY = {
    "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q",
    "f2": "e", "f4": "f", "f8": "d",
}  # fmt: skip
_WORDS = {
    "?": "bool", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32",
    "q": "int64", "Q": "uint64", "e": "float16", "f": "float32", "d": "float64", "P": "an address",
}  # fmt: skip
_EIGHT_BYTES_WIDE = {int: "numpy.int32(...)", float: "numpy.float32(...)"}


def size_of(code: Code) -> int:
    """Bytes of a parameter of that type."""
    if isinstance(code, int):
        return code
    try:
        return SIZES[code]
    except KeyError:
        known = " ".join(SIZES)
        raise InvalidValueError(
            f"unknown parameter type {code!r}: expected one of {known}, or bytes"
        ) from None


def has_fixed_size(scalar_type: type) -> bool:
    """Whether every value of that class has the same type code."""
    return not issubclass(scalar_type, bytes | bytearray | ctypes.Array) and scalar_type.__name__ != "void"


def encode(value: Any, position: int, kernel: str) -> tuple[Code, Callable[[Any], Any] | None]:
    """Type code of an argument, and what turns values of its class into what is packed.

    Raises
    ------
    InvalidValueError
        If no kernel parameter can be made of it; the message names ``position`` (from 0) and ``kernel``.
    """
    python_type = type(value)
    if python_type is bool:
        return "?", None
    if python_type is int:
        return "q", None
    if python_type is float:
        return "d", None
    if isinstance(value, DeviceMemory | PinnedMemory | RegisteredMemory):
        return "P", operator.attrgetter("address")
    if isinstance(value, bytes | bytearray):
        return len(value), bytes
    if python_type is complex:
        return 16, _pack_complex
    if isinstance(value, ctypes._SimpleCData | ctypes.Structure | ctypes.Array):
        return ctypes.sizeof(value), bytes
    if hasattr(value, "__cuda_array_interface__"):
        return "P", _array_address
    dtype = getattr(value, "dtype", None)
    if dtype is not None and getattr(value, "shape", None) == () and hasattr(value, "tobytes"):
        code = _NUMPY.get(dtype.str[1:]) if dtype.isnative else None
        return (code, None) if code is not None else (int(dtype.itemsize), operator.methodcaller("tobytes"))
    what = f"a {python_type.__name__}"
    if dtype is not None:
        what += f" of shape {value.shape} on the host: copy it to the device first"
    raise InvalidValueError(
        f"argument {position} of kernel '{kernel}' is {what}; expected device memory, a Python or NumPy scalar, "
        "or the bytes of a structure"
    )


def check_parameters(function: Function, codes: Sequence[Code], values: Sequence[Any] | None = None) -> None:
    """Compare type codes with the kernel's own parameters, where the driver can tell them.

    Raises
    ------
    InvalidValueError
        If the number of arguments, or the size of one, is not what the kernel takes.
    """
    parameters = function.parameters
    if parameters is None:
        return
    if len(codes) != len(parameters):
        raise InvalidValueError(
            f"kernel '{function.name}' takes {len(parameters)} arguments, {len(codes)} were given"
        )
    for position, (code, parameter) in enumerate(zip(codes, parameters, strict=True)):
        size = size_of(code)
        if size != parameter.size:
            what = f"{_WORDS[code]} ({_bytes(size)})" if isinstance(code, str) else f"{_bytes(size)}"
            advice = ""
            if values is not None:
                python_type = type(values[position])
                if python_type in _EIGHT_BYTES_WIDE and parameter.size == 4:
                    advice = f": a Python {python_type.__name__} is 64 bits wide, pass {_EIGHT_BYTES_WIDE[python_type]}"
            raise InvalidValueError(
                f"argument {position} of kernel '{function.name}' is {what}, the kernel takes "
                f"{_bytes(parameter.size)}{advice}"
            )


def _bytes(size: int) -> str:
    return f"{size} byte" if size == 1 else f"{size} bytes"


def _array_address(array: Any) -> int:
    return int(array.__cuda_array_interface__["data"][0])


def _pack_complex(value: complex) -> bytes:
    return struct.pack("=dd", value.real, value.imag)
