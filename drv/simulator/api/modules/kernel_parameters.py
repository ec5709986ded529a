"""Kernel parameters in the forms that ``cuLaunchKernel`` of the bindings takes."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from drv.simulator.driver_call import host_address, invalid_value, unsigned

if TYPE_CHECKING:
    from .module import LoadedFunction

_POINTER_SIZE = ctypes.sizeof(ctypes.c_void_p)
#: Types of numbers that the bindings take; ``c_void_p`` and ``None`` have rules of their own.
_NUMBERS = frozenset(
    (
        ctypes.c_bool,
        ctypes.c_char,
        ctypes.c_wchar,
        ctypes.c_byte,
        ctypes.c_ubyte,
        ctypes.c_short,
        ctypes.c_ushort,
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_long,
        ctypes.c_ulong,
        ctypes.c_longlong,
        ctypes.c_ulonglong,
        ctypes.c_size_t,
        ctypes.c_float,
        ctypes.c_double,
    )
)
#: Types to which the bindings convert an int only if it fits; others take its low bits.
_EXACT = (ctypes.c_byte, ctypes.c_int, ctypes.c_longlong)
#: What the bindings' enums come from; it has changed with their version.
_ENUM: Any = cuda.CUresult.__mro__[1]
_WRONG_FORM = (
    "Argument 'kernelParams' is not a valid type: tuple[tuple[Any, ...], tuple[Any, ...]] "
    "or PyObject implementing Buffer Protocol or Int"
)


class PackedParameters(bytes):
    """A parameter buffer as the kernel has it."""


def gather(function: LoadedFunction, kernel_parameters: Any, extra: Any) -> bytes:
    """The parameter buffer of a launch.

    ``kernel_parameters`` is the address of an array of pointers, an object with the buffer protocol that
    is one, ``(values, types)``, or the buffer itself; ``extra`` is the address of an array that names a packed buffer.
    """
    if type(kernel_parameters) is PackedParameters:
        return kernel_parameters
    if extra is not None and extra != 0:
        if kernel_parameters is not None and kernel_parameters != 0:
            raise invalid_value()
        return _from_extra(function, host_address(extra))
    if isinstance(kernel_parameters, tuple):
        return _from_values(function, kernel_parameters)
    if type(kernel_parameters) is not int:
        kernel_parameters = host_address(kernel_parameters)
    if not function.parameters:
        return b""
    if kernel_parameters == 0:
        raise invalid_value()
    table = function.table
    if table is None:
        table = function.table = ctypes.c_void_p * len(function.parameters)
    pointers = table.from_address(kernel_parameters)
    buffer = bytearray(function.parameter_bytes)
    for (offset, size), pointer in zip(function.parameters, pointers, strict=True):
        if pointer is None:
            raise invalid_value()
        buffer[offset : offset + size] = ctypes.string_at(pointer, size)
    return bytes(buffer)


def _from_extra(function: LoadedFunction, address: int) -> bytes:
    data = size = None
    word = ctypes.c_void_p
    while (name := word.from_address(address).value) is not None:
        value = word.from_address(address + _POINTER_SIZE).value
        if name == cuda.CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT:
            data = value
        elif name == cuda.CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT and value is not None:
            size = ctypes.c_size_t.from_address(value).value
        else:
            raise invalid_value()
        address += 2 * _POINTER_SIZE
    if data is None or size is None or size < function.parameter_bytes:
        raise invalid_value()
    return ctypes.string_at(data, function.parameter_bytes)


def _from_values(function: LoadedFunction, values_and_types: tuple[Any, ...]) -> bytes:
    if len(values_and_types) != 2 or not all(isinstance(sequence, tuple) for sequence in values_and_types):
        raise TypeError(_WRONG_FORM)
    values, types = values_and_types
    if len(values) != len(types):
        raise TypeError("Argument 'kernelParams' has tuples with different length")
    sizes = [size for _, size in function.parameters]
    packed = [
        _value_bytes(value, ctype, sizes[index] if index < len(sizes) else 0)
        for index, (value, ctype) in enumerate(zip(values, types, strict=True))
    ]
    if len(packed) < len(function.parameters):
        raise invalid_value()
    buffer = bytearray(function.parameter_bytes)
    for (offset, size), data in zip(function.parameters, packed, strict=False):
        buffer[offset : offset + min(size, len(data))] = data[:size]
    return bytes(buffer)


def _value_bytes(value: Any, ctype: Any, size: int) -> bytes:
    """Bytes of one parameter; ``size`` is how many of what ``value`` points to the kernel has."""
    if ctype is None:
        if callable(getattr(value, "getPtr", None)):
            return ctypes.string_at(value.getPtr(), size)
        if isinstance(value, ctypes.Structure):
            return bytes(value)
        if isinstance(value, _ENUM):
            return bytes(ctypes.c_int(value.value))
        raise TypeError(
            f"Provided argument is of type {type(value)} but expected Type ctypes.Structure, an enum of the "
            "bindings or an object with getPtr()"
        )
    if ctype is ctypes.c_void_p:
        if isinstance(value, ctypes.c_void_p):
            value = value.value
        elif not isinstance(value, int) and callable(getattr(value, "getPtr", None)):
            value = value.getPtr()
        if not isinstance(value, int):
            raise TypeError(
                f"Provided argument is of type {type(value)} but expected Type int, ctypes.c_void_p or an "
                "object with getPtr()"
            )
        return unsigned(value).to_bytes(_POINTER_SIZE, "little")
    if ctype not in _NUMBERS:
        raise TypeError(f"Unsupported type: {ctype}")
    if isinstance(value, ctype):
        return bytes(value)
    if ctype is ctypes.c_double and isinstance(value, ctypes.c_float):
        return bytes(ctype(value.value))
    data = ctype(value)
    if ctype in _EXACT and type(value) is int and data.value != value:
        raise OverflowError(f"Python int {value} does not fit {ctype.__name__}")
    return bytes(data)
