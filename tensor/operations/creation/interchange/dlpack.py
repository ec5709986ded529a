"""DLPack's structures and capsules, read and made with :mod:`ctypes`.

A capsule's destructor and a tensor's deleter run whenever a consumer pleases: in threads without the
interpreter's lock, while an exception is being raised, after the interpreter has ended. No Python function
can serve there. So :func:`capsule_of` has NumPy export an array over the same addresses, whose destructor and
deleter are C functions made for that, and then writes into the structure what NumPy has no words for: the
device, and bfloat16.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from nvrtc_kernels.layouts import contiguous_strides

if TYPE_CHECKING:
    from nvrtc_kernels.dtypes import dtype


#: Types of devices by DLPack's numbers.
DLDeviceType = IntEnum(
    "DLDeviceType",
    {
        "kDLCPU": 1,
        "kDLCUDA": 2,
        "kDLCUDAHost": 3,
        "kDLOpenCL": 4,
        "kDLVulkan": 7,
        "kDLMetal": 8,
        "kDLVPI": 9,
        "kDLROCM": 10,
        "kDLROCMHost": 11,
        "kDLExtDev": 12,
        "kDLCUDAManaged": 13,
        "kDLOneAPI": 14,
        "kDLWebGPU": 15,
        "kDLHexagon": 16,
        "kDLMAIA": 17,
    },
    module=__name__,
)
DLDeviceType.__doc__ = """Types of devices by DLPack's numbers.

``Tensor.__dlpack_device__()`` returns a pair of one of them, ``kDLCPU`` or ``kDLCUDA`` here, and the index of the device.
"""


class _Device(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("dl_tensor", _DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Version(ctypes.Structure):
    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32))


class _VersionedManaged(ctypes.Structure):
    _fields_ = (
        ("version", _Version),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", _DLTensor),
    )


_READ_ONLY, _IS_COPIED = 1, 2
#: The version of the structures above. Minor versions only add to it.
_MAJOR = 1

_INTEGER, _UNSIGNED, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_FLOAT8_E4M3FN, _FLOAT8_E5M2 = 10, 12
_TYPES: dict[tuple[int, int], dtype] = {
    (_BOOL, 8): dtypes.bool_,
    (_UNSIGNED, 8): dtypes.uint8,
    **{
        (_INTEGER, 8 * dtype.itemsize): dtype
        for dtype in (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
    },
    **{(_FLOAT, 8 * dtype.itemsize): dtype for dtype in (dtypes.float16, dtypes.float32, dtypes.float64)},
    (_BFLOAT, 16): dtypes.bfloat16,
    (_COMPLEX, 64): dtypes.complex64,
    (_COMPLEX, 128): dtypes.complex128,
    **{(_UNSIGNED, 8 * dtype.itemsize): dtype for dtype in dtypes.UNSIGNED},
    (_FLOAT8_E4M3FN, 8): dtypes.float8_e4m3fn,
    (_FLOAT8_E5M2, 8): dtypes.float8_e5m2,
}

#: DLPack's codes of dtypes that NumPy has no name for.
_UNKNOWN_TO_NUMPY = {
    dtype: code for (code, _), dtype in _TYPES.items() if code in (_BFLOAT, _FLOAT8_E4M3FN, _FLOAT8_E5M2)
}

# The capsules' own functions, as objects of this module: those of ctypes.pythonapi are everybody's, and so are
# the argument types that somebody sets.
_api = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(("PyCapsule_SetName", _api))
_keep = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", _api))
_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_USED = {name: ctypes.create_string_buffer(b"used_" + name) for name in (_NAME, _VERSIONED_NAME)}
for _buffer in _USED.values():
    # A capsule does not copy its name, and may outlive this module.
    _keep(_buffer)


def capsule_of(
    owner: Any,
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: dtype,
    device: tuple[int, int],
    *,
    writeable: bool = True,
    versioned: bool = True,
    copied: bool = False,
) -> Any:
    """A capsule that lends memory.

    Parameters
    ----------
    owner
        Keeps the memory; it is let go when the consumer, or whoever drops the capsule, is done.
    address : int
        Of the first element.
    strides : tuple of int
        In elements.
    device : tuple of int
        Type and index, in DLPack's numbers.
    writeable, copied : bool
        Whether the consumer may write; whether nothing else shares the memory. Only versioned capsules say so.
    versioned : bool
        Whether to make a ``"dltensor_versioned"``, or a ``"dltensor"`` for old consumers.

    Raises
    ------
    BufferError
        For memory that is not to be written, in a capsule that cannot say so.
    """
    if not writeable and not versioned:
        raise BufferError(
            "Cannot export a read-only tensor: the consumer speaks a version of DLPack before 1.0, which has no "
            "word for that. Use Tensor.clone() for a copy that may be written."
        )
    managed: _Managed | _VersionedManaged
    lent = np.asarray(_Lent(owner, address, shape, strides, dtype, writeable=writeable))
    if versioned:
        capsule = lent.__dlpack__(max_version=(_MAJOR, 0))
        managed = versioned_managed = _VersionedManaged.from_address(_pointer(capsule, _VERSIONED_NAME))
        if copied:
            versioned_managed.flags |= _IS_COPIED
    else:
        capsule = lent.__dlpack__()
        managed = _Managed.from_address(_pointer(capsule, _NAME))
    described = managed.dl_tensor
    described.device.device_type, described.device.device_id = device
    if dtype in _UNKNOWN_TO_NUMPY:
        described.dtype.code = _UNKNOWN_TO_NUMPY[dtype]
    if not math.prod(shape):
        described.data = None
    return capsule


class _Lent:
    """Elements at an address, as NumPy is told of them. NumPy reads none."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(
        self,
        owner: Any,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: dtype,
        *,
        writeable: bool,
    ) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "shape": tuple(shape),
            "strides": tuple(stride * dtype.itemsize for stride in strides),
            "typestr": f"<u{dtype.itemsize}" if dtype in _UNKNOWN_TO_NUMPY else dtype.numpy.str,
            # NumPy takes an address of 0 for none at all, even where there are no elements.
            "data": (address or dtype.itemsize, not writeable),
            "version": 3,
        }


@dataclass(slots=True)
class Borrowed:
    """What a capsule has lent.

    Attributes
    ----------
    owner
        Gives the memory back when it is dropped.
    device : tuple of int
        Type and index, in DLPack's numbers.
    address : int
        Of the first element.
    strides : tuple of int
        In elements.
    """

    owner: Lender
    device: tuple[int, int]
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: dtype
    writeable: bool


class Lender:
    """Calls the producer's deleter once it is dropped."""

    __slots__ = ("_delete", "_managed")

    def __init__(self, managed: int, deleter: int | None) -> None:
        self._managed = managed
        self._delete = _deleter(deleter) if deleter else None

    def __del__(self) -> None:
        if self._delete is not None:
            self._delete(self._managed)


def device_of(capsule: Any) -> tuple[int, int]:
    """Type and index of the device that a capsule's memory is on; see :func:`borrow` for what is raised."""
    device = _managed(capsule)[1].dl_tensor.device
    return device.device_type, device.device_id


def borrow(capsule: Any, *, aligned: bool = False) -> Borrowed:
    """Take over what a capsule lends. The capsule is used up, unless this raises.

    ``aligned`` says whether elements must be aligned to their size.

    Raises
    ------
    TypeError
        If it is no capsule.
    RuntimeError
        If it is another kind of capsule, or used up before.
    BufferError
        For a version, dtype or strides that no tensor has.
    """
    name, managed = _managed(capsule)
    described = managed.dl_tensor
    code, bits, lanes = described.dtype.code, described.dtype.bits, described.dtype.lanes
    dtype = _TYPES.get((code, bits))
    if dtype is None or lanes != 1:
        raise BufferError(
            f"Unsupported dtype in the DLPack capsule: code {code}, {bits} bits, {lanes} lane(s); convert it to "
            f"one of {', '.join(each.name for each in dtypes.EVERY)} first"
        )
    rank = described.ndim
    shape = tuple(described.shape[:rank]) if rank > 0 else ()
    if rank < 0 or any(size < 0 for size in shape):
        raise BufferError(f"the DLPack capsule has {rank} dimensions of sizes {list(shape)}")
    if not rank:
        strides: tuple[int, ...] = ()
    elif described.strides:
        strides = tuple(described.strides[:rank])
    else:
        strides = contiguous_strides(shape)
    if 0 in shape:
        strides = contiguous_strides(shape)
    elif any(step < 0 for step, size in zip(strides, shape, strict=True) if size > 1):
        raise BufferError(
            f"the DLPack capsule has negative strides {list(strides)}, which tensors cannot have: copy the array first"
        )
    else:
        strides = tuple(
            max(step, 1) if size == 1 else step for step, size in zip(strides, shape, strict=True)
        )
    address = (described.data or 0) + described.byte_offset
    if aligned:
        check_aligned(address, dtype)
    versioned = isinstance(managed, _VersionedManaged)
    owner = Lender(ctypes.addressof(managed), managed.deleter)
    _set_name(capsule, ctypes.addressof(_USED[name]))
    return Borrowed(
        owner,
        (described.device.device_type, described.device.device_id),
        address,
        shape,
        strides,
        dtype,
        not (versioned and managed.flags & _READ_ONLY),
    )


def check_aligned(address: int, dtype: dtype) -> None:
    """Raise BufferError for elements that are not aligned to their size."""
    if address % dtype.itemsize:
        raise BufferError(
            f"elements of type {dtype.name} at {address:#x} are not aligned to their {dtype.itemsize} bytes, which "
            "kernels need: copy the array first"
        )


def _managed(capsule: Any) -> tuple[bytes, Any]:
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(
            f"expected an object with a __dlpack__ method or a DLPack capsule, got {type(capsule).__name__}"
        )
    if _is_valid(capsule, _VERSIONED_NAME):
        result = _VersionedManaged.from_address(_pointer(capsule, _VERSIONED_NAME))
        if result.version.major != _MAJOR:
            raise BufferError(
                f"the DLPack capsule has version {result.version.major}.{result.version.minor}, expected {_MAJOR}.x"
            )
        return _VERSIONED_NAME, result
    if _is_valid(capsule, _NAME):
        return _NAME, _Managed.from_address(_pointer(capsule, _NAME))
    raise RuntimeError(
        "from_dlpack received an invalid capsule: expected a 'dltensor' or 'dltensor_versioned' that was not "
        f"consumed before, got {capsule!r}. DLTensor capsules can be consumed only once, ask for a new one."
    )
