"""Kernel parameters in the forms that ``cuLaunchKernel`` of the bindings takes."""

from __future__ import annotations

import ctypes
from enum import Enum
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from drv.simulator.driver_call import host_address, invalid_value

if TYPE_CHECKING:
    from .module import LoadedFunction

_POINTER_SIZE = ctypes.sizeof(ctypes.c_void_p)


def gather(function: LoadedFunction, kernel_parameters: Any, extra: Any) -> bytes:
    """The parameter buffer of a launch.

    ``kernel_parameters`` is the address of an array of pointers, an object with the buffer protocol that
    is one, or ``(values, types)``; ``extra`` is the address of an array that names a packed buffer.
    """
    if extra is not None and extra != 0:
        if kernel_parameters is not None and kernel_parameters != 0:
            raise invalid_value()
        return _from_extra(function, host_address(extra))
    if not function.parameters:
        return b""
    if isinstance(kernel_parameters, tuple):
        return _from_values(function, kernel_parameters)
    if type(kernel_parameters) is not int:
        kernel_parameters = host_address(kernel_parameters)
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
    if len(values_and_types) != 2 or not all(isinstance(part, tuple) for part in values_and_types):
        raise TypeError(
            "Argument 'kernelParams' is not a valid type: tuple[tuple[Any, ...], tuple[Any, ...]] "
            "or PyObject implementing Buffer Protocol or Int"
        )
    values, types = values_and_types
    if len(values) != len(types):
        raise TypeError("Argument 'kernelParams' has tuples with different length")
    if len(values) < len(function.parameters):
        raise invalid_value()
    buffer = bytearray(function.parameter_bytes)
    for (offset, size), value, ctype in zip(function.parameters, values, types, strict=False):
        data = _value_bytes(value, ctype, size)
        buffer[offset : offset + min(size, len(data))] = data[:size]
    return bytes(buffer)


def _value_bytes(value: Any, ctype: Any, size: int) -> bytes:
    if ctype is not None:
        pointer = ctype in (ctypes.c_void_p, ctypes.c_char_p)
        if pointer and not isinstance(value, int) and value is not None:
            value = int(value)
        return bytes(ctype(value))
    if hasattr(value, "getPtr"):
        return ctypes.string_at(value.getPtr(), size)
    if isinstance(value, ctypes.Structure):
        return bytes(value)
    if isinstance(value, Enum):
        return int(value.value).to_bytes(4, "little", signed=True)
    raise TypeError(
        f"Provided argument is of type {type(value)} but expected Type ctypes.Structure, ctypes.c_void_p or object with getPtr()"
    )
