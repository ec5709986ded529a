"""C values of driver calls: their ctypes, and how they are read and written."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

if TYPE_CHECKING:
    from collections.abc import Callable

_NUMBERS = {
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "unsigned char": ctypes.c_ubyte,
    "unsigned short": ctypes.c_ushort,
    "unsigned long long": ctypes.c_ulonglong,
    "cuuint32_t": ctypes.c_uint32,
    "cuuint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "CUdevice": ctypes.c_int,
    "CUlogIterator": ctypes.c_uint,
}
#: Structures that are passed by value or written as results, and their bytes.
_STRUCTURES = {
    "CUuuid": 16,
    "CUmemLocation": 8,
    "CUmemAccessDesc": 12,
    "CUipcMemHandle": 64,
    "CUipcEventHandle": 64,
    "CUmemAllocationProp": 32,
    "CUmemPoolPtrExportData": 64,
    "CUmemcpyAttributes": 24,
    "CUDA_MEMCPY3D_BATCH_OP": 112,
    "CUDA_ARRAY_MEMORY_REQUIREMENTS": 32,
    "CUDA_ARRAY_SPARSE_PROPERTIES": 48,
    "CUstreamBatchMemOpParams": 48,
    "CUdevResource": 144,
    "CU_DEV_SM_RESOURCE_GROUP_PARAMS": 64,
    "CUDA_ARRAY_DESCRIPTOR": 24,
    "CUDA_ARRAY3D_DESCRIPTOR": 40,
    "CUDA_RESOURCE_DESC": 144,
    "CUDA_RESOURCE_VIEW_DESC": 112,
    "CUDA_TEXTURE_DESC": 104,
    "CUDA_MEMCPY3D": 200,
    "CUDA_KERNEL_NODE_PARAMS": 72,
    "CUDA_MEMSET_NODE_PARAMS": 40,
    "CUDA_HOST_NODE_PARAMS": 16,
    "CUDA_MEM_ALLOC_NODE_PARAMS": 120,
    "CUDA_BATCH_MEM_OP_NODE_PARAMS": 32,
    "CUgraphExecUpdateResultInfo": 24,
    "CUgraphEdgeData": 8,
    "CUgraphNodeParams": 256,
    "CUtensorMap": 128,
    "CUlaunchAttributeValue": 64,
    "CUkernelNodeAttrValue": 64,
    "CUstreamAttrValue": 64,
    "CUexecAffinityParam": 8,
    "CUdevprop": 56,
    "CUDA_LAUNCH_PARAMS": 56,
}
#: The machine that code for a GPU names in its ELF header.
_EM_CUDA = 190
_texts: dict[bytes, Any] = {}


class _Handle(ctypes.Structure):
    """An inter-process handle, which C passes by value."""

    _fields_ = (("reserved", ctypes.c_char * 64),)


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


_BY_VALUE = {"CUipcMemHandle": _Handle, "CUipcEventHandle": _Handle, "CUmemLocation": _Location}


def ctype(c_type: str) -> Any:
    """The ctypes class of a parameter of C type ``kind``; handles and pointers alike are numbers."""
    if c_type in _NUMBERS:
        return _NUMBERS[c_type]
    if c_type in _BY_VALUE:
        return _BY_VALUE[c_type]
    return ctypes.c_int if _is_enumeration(c_type) else ctypes.c_size_t


def _is_enumeration(c_type: str) -> bool:
    return hasattr(getattr(cuda, c_type, None), "__members__")


def is_variable(c_type: str) -> bool:
    """Whether a pointer of this type leads to a number that a function may read and change."""
    pointee = c_type.removesuffix("*")
    return pointee != c_type and (pointee in _NUMBERS or _is_enumeration(pointee))


def reader(c_type: str) -> Callable[[Any], Any]:
    """What turns a C argument of type ``kind`` into what the simulated driver's call takes."""
    if c_type == "const char*":
        return lambda address: ctypes.string_at(address) if address else None
    pointee = c_type.removeprefix("const ").removesuffix("*")
    structure = getattr(cuda, pointee, None)
    if is_variable(c_type) and (structure is None or _is_enumeration(pointee)):
        variable = ctype(pointee)
        return lambda address: variable.from_address(address).value if address else 0
    if c_type.endswith("*") and structure is not None:
        return lambda address: structure(_ptr=address) if address else None
    if c_type in _BY_VALUE:
        return lambda value: getattr(cuda, c_type)(_ptr=ctypes.addressof(value))
    return lambda value: value


def write(c_type: str, address: int, value: Any) -> None:
    """Write a result through a pointer of type ``kind``."""
    pointee = c_type.removesuffix("*")
    if pointee == "const char*":
        buffer = _texts.setdefault(value, ctypes.create_string_buffer(value))
        ctypes.c_size_t.from_address(address).value = ctypes.addressof(buffer)
    elif pointee == "char":
        ctypes.memmove(address, value, len(value))
    elif pointee in _STRUCTURES:
        ctypes.memmove(address, value.getPtr(), _STRUCTURES[pointee])
    elif pointee == "float":
        ctypes.c_float.from_address(address).value = value
    else:
        ctype(pointee).from_address(address).value = int(value)


def array(c_type: Any, address: int, count: int) -> list[int]:
    """``count`` numbers of ctypes class ``kind`` at ``address``."""
    return list((c_type * count).from_address(address)) if address and count else []


def items(c_type: str, address: int, count: int) -> list[Any]:
    """``count`` numbers, handles or structures of type ``c_type`` that lie one after the other."""
    if c_type not in _STRUCTURES:
        return array(ctype(c_type), address, count)
    step = _STRUCTURES[c_type]
    return [getattr(cuda, c_type)(_ptr=address + index * step) for index in range(count)] if address else []


def write_items(c_type: str, address: int, values: list[Any], room: int) -> None:
    """Write results one after the other, and zeros where there is room for more."""
    step = _STRUCTURES.get(c_type) or ctypes.sizeof(ctype(c_type))
    ctypes.memset(address, 0, room * step)
    for index, value in enumerate(values[:room]):
        write(f"{c_type}*", address + index * step, value)


def image(address: int) -> bytes:
    """Code to load, which says itself how long it is: PTX ends with a zero byte, an ELF file with its section table."""
    head = ctypes.string_at(address, 4)
    if head == b"\x7fELF":
        header = ctypes.string_at(address, 20)
        if struct.unpack_from("<H", header, 18)[0] != _EM_CUDA:
            return header
        sections = struct.unpack("<Q", ctypes.string_at(address + 40, 8))[0]
        size, count = struct.unpack("<HH", ctypes.string_at(address + 58, 4))
        return ctypes.string_at(address, sections + size * count)
    if head == b"\x50\xed\x55\xba":
        length, code = struct.unpack("<HQ", ctypes.string_at(address + 6, 10))
        return ctypes.string_at(address, length + code)
    return ctypes.string_at(address)
