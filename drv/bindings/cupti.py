"""CUPTI: the functions and activity records that profiles use.

Records are read by their leading fields, which have stood at the same offsets since CUDA 11: a newer library appends to
them. A test compares offsets with NVIDIA's headers where these and a C compiler are installed.
"""

import ctypes
from enum import IntEnum
from typing import Annotated, Protocol

from drv.errors import CudaError, NotPermittedError

from . import prototypes
from .prototypes import Address, Int, Output, Size

# ruff: noqa: N801, N803, N815 - the names are C's


class CUpti_ActivityKind(IntEnum):
    """What records are about."""

    CUPTI_ACTIVITY_KIND_MEMCPY = 1
    CUPTI_ACTIVITY_KIND_MEMSET = 2
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10
    CUPTI_ACTIVITY_KIND_MEMCPY2 = 22
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 39


class CUptiResult(IntEnum):
    """Some of what a call answers."""

    CUPTI_SUCCESS = 0
    CUPTI_ERROR_INVALID_PARAMETER = 1
    CUPTI_ERROR_NOT_INITIALIZED = 15
    CUPTI_ERROR_MAX_LIMIT_REACHED = 12
    CUPTI_ERROR_QUEUE_EMPTY = 18
    CUPTI_ERROR_INSUFFICIENT_PRIVILEGES = 35
    CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES = 40


#: Of the kinds of external numbers the one that is free for tools.
CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 = 3
#: For ``cuptiActivityFlushAll``: also buffers with records that are not complete.
CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1


class Kernel(ctypes.Structure):
    """``CUpti_ActivityKernel``: a launch. Times are in nanoseconds; ``name`` is the address of a C string."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("cacheConfig", ctypes.c_uint8),
        ("sharedMemoryConfig", ctypes.c_uint8),
        ("registersPerThread", ctypes.c_uint16),
        ("partitionedGlobalCacheRequested", ctypes.c_uint32),
        ("partitionedGlobalCacheExecuted", ctypes.c_uint32),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("completed", ctypes.c_uint64),
        ("deviceId", ctypes.c_uint32),
        ("contextId", ctypes.c_uint32),
        ("streamId", ctypes.c_uint32),
        ("gridX", ctypes.c_int32),
        ("gridY", ctypes.c_int32),
        ("gridZ", ctypes.c_int32),
        ("blockX", ctypes.c_int32),
        ("blockY", ctypes.c_int32),
        ("blockZ", ctypes.c_int32),
        ("staticSharedMemory", ctypes.c_int32),
        ("dynamicSharedMemory", ctypes.c_int32),
        ("localMemoryPerThread", ctypes.c_uint32),
        ("localMemoryTotal", ctypes.c_uint32),
        ("correlationId", ctypes.c_uint32),
        ("gridId", ctypes.c_int64),
        ("name", ctypes.c_void_p),
    )


class Memcpy(ctypes.Structure):
    """``CUpti_ActivityMemcpy``: a copy."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("copyKind", ctypes.c_uint8),
        ("srcKind", ctypes.c_uint8),
        ("dstKind", ctypes.c_uint8),
        ("flags", ctypes.c_uint8),
        ("bytes", ctypes.c_uint64),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("deviceId", ctypes.c_uint32),
        ("contextId", ctypes.c_uint32),
        ("streamId", ctypes.c_uint32),
        ("correlationId", ctypes.c_uint32),
    )


class Memset(ctypes.Structure):
    """``CUpti_ActivityMemset``: a fill."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("value", ctypes.c_uint32),
        ("bytes", ctypes.c_uint64),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("deviceId", ctypes.c_uint32),
        ("contextId", ctypes.c_uint32),
        ("streamId", ctypes.c_uint32),
        ("correlationId", ctypes.c_uint32),
    )


class ExternalCorrelation(ctypes.Structure):
    """``CUpti_ActivityExternalCorrelation``: which number of ours was on top when a call was made."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("externalKind", ctypes.c_uint32),
        ("externalId", ctypes.c_uint64),
        ("correlationId", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


#: Records by kind, with the C name of the newest version that is known.
RECORDS: dict[int, tuple[type[ctypes.Structure], str]] = {
    CUpti_ActivityKind.CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: (Kernel, "CUpti_ActivityKernel"),
    CUpti_ActivityKind.CUPTI_ACTIVITY_KIND_MEMCPY: (Memcpy, "CUpti_ActivityMemcpy"),
    CUpti_ActivityKind.CUPTI_ACTIVITY_KIND_MEMSET: (Memset, "CUpti_ActivityMemset"),
    CUpti_ActivityKind.CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: (
        ExternalCorrelation,
        "CUpti_ActivityExternalCorrelation",
    ),
}
#: ``CUpti_ActivityMemcpyKind`` in words.
COPY_KINDS = {
    1: "host to device",
    2: "device to host",
    8: "device to device",
    9: "host to host",
    10: "peer to peer",
}

#: ``void (uint8_t **buffer, size_t *size, size_t *maxNumRecords)``
BufferRequested = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
#: ``void (CUcontext context, uint32_t streamId, uint8_t *buffer, size_t size, size_t validSize)``
BufferCompleted = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)

Unsigned = Annotated[int, ctypes.c_uint32]
Number = Annotated[int, ctypes.c_uint64]


class OfKind(Protocol):
    def __call__(self, kind: Int, /) -> None: ...


class FlushAll(Protocol):
    def __call__(self, flag: Unsigned, /) -> None: ...


class RegisterCallbacks(Protocol):
    def __call__(
        self,
        funcBufferRequested: Annotated[object, BufferRequested],
        funcBufferCompleted: Annotated[object, BufferCompleted],
        /,
    ) -> None: ...


class GetNextRecord(Protocol):
    def __call__(
        self,
        buffer: Address,
        validBufferSizeBytes: Size,
        record: Annotated[object, ctypes.POINTER(ctypes.c_void_p)],
        /,
    ) -> None: ...


class PushExternalCorrelationId(Protocol):
    def __call__(self, kind: Int, number: Number, /) -> None: ...


class PopExternalCorrelationId(Protocol):
    def __call__(self, kind: Int, /) -> Annotated[int, Output(ctypes.c_uint64, 1)]: ...


class GetNumDroppedRecords(Protocol):
    def __call__(
        self, context: Address, streamId: Unsigned, /
    ) -> Annotated[int, Output(ctypes.c_size_t, 2)]: ...


class GetTimestamp(Protocol):
    def __call__(self) -> Annotated[int, Output(ctypes.c_uint64, 0)]: ...


class GetVersion(Protocol):
    def __call__(self) -> Annotated[int, Output(ctypes.c_uint32, 0)]: ...


class Cupti(Protocol):
    """The functions."""

    cuptiActivityEnable: OfKind
    cuptiActivityDisable: OfKind
    cuptiActivityFlushAll: FlushAll
    cuptiActivityRegisterCallbacks: RegisterCallbacks
    cuptiActivityGetNextRecord: GetNextRecord
    cuptiActivityPushExternalCorrelationId: PushExternalCorrelationId
    cuptiActivityPopExternalCorrelationId: PopExternalCorrelationId
    cuptiActivityGetNumDroppedRecords: GetNumDroppedRecords
    cuptiGetTimestamp: GetTimestamp
    cuptiGetVersion: GetVersion


def bind(library: ctypes.CDLL) -> Cupti:
    """The functions of :class:`Cupti` in NVIDIA's library.

    ``cuptiActivityGetNextRecord`` leaves the record's address as it was at the end of a buffer.
    """
    bound: Cupti = prototypes.bind(
        Cupti,
        library,
        failure,
        passes=(CUptiResult.CUPTI_ERROR_MAX_LIMIT_REACHED, CUptiResult.CUPTI_ERROR_QUEUE_EMPTY),
    )
    return bound


_PRIVILEGES = (
    CUptiResult.CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
    CUptiResult.CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES,
)


def failure(status: int, call: str) -> CudaError:
    """Exception for a result of ``call``."""
    try:
        name = CUptiResult(status).name
    except ValueError:
        name = f"CUptiResult {status}"
    if status in _PRIVILEGES:
        return NotPermittedError(
            f"{call} failed: {name}: this user may not profile. An administrator can allow it to all "
            "(NVreg_RestrictProfilingToAdminUsers=0)",
            status=name,
            call=call,
        )
    return CudaError(f"{call} failed: {name}", status=name, call=call)
