"""What a simulated device has no hardware for is refused as NVIDIA's driver does, arguments first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = os.getpid()
#: Of no process.
NOWHERE = 2**31 - 1
GL_TEXTURE_2D = 0x0DE1
SIGNAL = int(cuda.CUDA_NVSCISYNC_ATTR_SIGNAL)


def multicast(devices: int = 2, size: int = 1 << 21) -> Any:
    result = cuda.CUmulticastObjectProp()
    result.numDevices, result.size = devices, size
    return result


def memory_of(kind: int = 1, size: int = 4096, flags: int = 0) -> Any:
    result = cuda.CUDA_EXTERNAL_MEMORY_HANDLE_DESC()
    result.type = cuda.CUexternalMemoryHandleType(kind)
    result.handle.fd, result.size, result.flags = -1, size, flags
    return result


def semaphore_of(kind: int = 1, flags: int = 0) -> Any:
    result = cuda.CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC()
    result.type = cuda.CUexternalSemaphoreHandleType(kind)
    result.handle.fd, result.flags = -1, flags
    return result


REFUSALS: list[tuple[str, Callable[[], tuple[Any, ...]], str]] = [
    # OpenGL, without a context of its own
    ("cuGLGetDevices", lambda: (1, cuda.CUGLDeviceList.CU_GL_DEVICE_LIST_ALL), "INVALID_GRAPHICS_CONTEXT"),
    ("cuGLGetDevices", lambda: (1, 77), "INVALID_VALUE"),
    ("cuGraphicsGLRegisterBuffer", lambda: (1, 0), "INVALID_GRAPHICS_CONTEXT"),
    ("cuGraphicsGLRegisterBuffer", lambda: (1, 64), "INVALID_VALUE"),
    ("cuGraphicsGLRegisterBuffer", lambda: (1, 3), "INVALID_VALUE"),
    ("cuGraphicsGLRegisterImage", lambda: (1, GL_TEXTURE_2D, 0), "INVALID_GRAPHICS_CONTEXT"),
    ("cuGraphicsGLRegisterImage", lambda: (1, 5, 0), "INVALID_VALUE"),
    ("cuGraphicsUnregisterResource", lambda: (0x10,), "INVALID_HANDLE"),
    ("cuGraphicsResourceGetMappedPointer", lambda: (0x10,), "INVALID_HANDLE"),
    ("cuGraphicsSubResourceGetMappedArray", lambda: (0x10, 0, 0), "INVALID_HANDLE"),
    ("cuGraphicsResourceGetMappedMipmappedArray", lambda: (0x10,), "INVALID_HANDLE"),
    ("cuGraphicsResourceGetMappedEglFrame", lambda: (0x10, 0, 0), "INVALID_HANDLE"),
    ("cuGraphicsResourceSetMapFlags", lambda: (0x10, 0), "INVALID_HANDLE"),
    ("cuGraphicsResourceSetMapFlags", lambda: (0x10, 9), "INVALID_VALUE"),
    ("cuGraphicsMapResources", lambda: (1, 0x10, 0), "INVALID_HANDLE"),
    ("cuGraphicsMapResources", lambda: (0, 0x10, 0), "INVALID_VALUE"),
    ("cuGraphicsUnmapResources", lambda: (1, 0x10, 0x20), "INVALID_HANDLE"),
    # EGL and VDPAU, of which there are no objects
    ("cuGraphicsEGLRegisterImage", lambda: (0x10, 0), "INVALID_HANDLE"),
    ("cuEGLStreamConsumerConnect", lambda: (0x10,), "INVALID_HANDLE"),
    ("cuEGLStreamConsumerConnectWithFlags", lambda: (0x10, 0), "INVALID_HANDLE"),
    ("cuEGLStreamConsumerConnectWithFlags", lambda: (0x10, 9), "INVALID_VALUE"),
    ("cuEGLStreamProducerConnect", lambda: (0x10, 64, 64), "INVALID_HANDLE"),
    ("cuEGLStreamConsumerDisconnect", lambda: (0x10,), "INVALID_HANDLE"),
    ("cuEGLStreamProducerDisconnect", lambda: (0x10,), "INVALID_HANDLE"),
    ("cuEGLStreamConsumerAcquireFrame", lambda: (0x10, 0, 0, 16), "INVALID_HANDLE"),
    ("cuEGLStreamConsumerReleaseFrame", lambda: (0x10, 0, 0), "INVALID_HANDLE"),
    ("cuEGLStreamProducerPresentFrame", lambda: (0x10, cuda.CUeglFrame(), 0), "INVALID_HANDLE"),
    ("cuEGLStreamProducerReturnFrame", lambda: (0x10, cuda.CUeglFrame(), 0), "INVALID_HANDLE"),
    ("cuEventCreateFromEGLSync", lambda: (0x10, 0), "INVALID_VALUE"),
    ("cuVDPAUGetDevice", lambda: (1, 0x10), "INVALID_VALUE"),
    ("cuVDPAUCtxCreate", lambda: (0, 0, 1, 0x10), "INVALID_VALUE"),
    ("cuVDPAUCtxCreate", lambda: (0, 9, 1, 0x10), "INVALID_DEVICE"),
    ("cuGraphicsVDPAURegisterVideoSurface", lambda: (1, 0), "INVALID_HANDLE"),
    ("cuGraphicsVDPAURegisterOutputSurface", lambda: (1, 64), "INVALID_VALUE"),
    # Memory and semaphores of others
    ("cuImportExternalMemory", lambda: (memory_of(),), "INVALID_HANDLE"),
    ("cuImportExternalMemory", lambda: (memory_of(size=0),), "INVALID_VALUE"),
    ("cuImportExternalMemory", lambda: (memory_of(flags=2),), "INVALID_VALUE"),
    ("cuImportExternalMemory", lambda: (memory_of(2),), "NOT_SUPPORTED"),
    ("cuImportExternalMemory", lambda: (None,), "INVALID_VALUE"),
    (
        "cuExternalMemoryGetMappedBuffer",
        lambda: (0x10, cuda.CUDA_EXTERNAL_MEMORY_BUFFER_DESC()),
        "INVALID_HANDLE",
    ),
    (
        "cuExternalMemoryGetMappedMipmappedArray",
        lambda: (0x10, cuda.CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC()),
        "INVALID_HANDLE",
    ),
    ("cuDestroyExternalMemory", lambda: (0x10,), "INVALID_HANDLE"),
    ("cuImportExternalSemaphore", lambda: (semaphore_of(),), "INVALID_HANDLE"),
    ("cuImportExternalSemaphore", lambda: (semaphore_of(flags=1),), "INVALID_VALUE"),
    ("cuImportExternalSemaphore", lambda: (semaphore_of(2),), "NOT_SUPPORTED"),
    ("cuDestroyExternalSemaphore", lambda: (0x10,), "INVALID_HANDLE"),
    (
        "cuSignalExternalSemaphoresAsync",
        lambda: ([0x10], [cuda.CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS()], 1, 0),
        "INVALID_HANDLE",
    ),
    ("cuWaitExternalSemaphoresAsync", lambda: ([], [], 0, 0), "INVALID_VALUE"),
    ("cuDeviceGetNvSciSyncAttributes", lambda: (0, 0, SIGNAL), "INVALID_HANDLE"),
    ("cuDeviceGetNvSciSyncAttributes", lambda: (0x10, 0, 0), "INVALID_VALUE"),
    ("cuDeviceGetNvSciSyncAttributes", lambda: (0x10, 0, SIGNAL), "NOT_SUPPORTED"),
    # Links
    ("cuMulticastCreate", lambda: (multicast(),), "NOT_SUPPORTED"),
    ("cuMulticastCreate", lambda: (multicast(3),), "INVALID_DEVICE"),
    ("cuMulticastCreate", lambda: (multicast(2, 0),), "INVALID_VALUE"),
    ("cuMulticastGetGranularity", lambda: (multicast(), 0), "NOT_SUPPORTED"),
    ("cuMulticastGetGranularity", lambda: (multicast(), 5), "INVALID_VALUE"),
    ("cuMulticastAddDevice", lambda: (0x10, 0), "INVALID_VALUE"),
    ("cuMulticastAddDevice", lambda: (0x10, 9), "INVALID_DEVICE"),
    ("cuMulticastBindMem", lambda: (0x10, 0, 0x20, 0, 64, 0), "INVALID_VALUE"),
    ("cuMulticastBindAddr", lambda: (0x10, 0, 0x20, 64, 0), "INVALID_VALUE"),
    ("cuMulticastUnbind", lambda: (0x10, 0, 0, 64), "INVALID_VALUE"),
    ("cuLogicalEndpointIdReserve", lambda: (1,), "NOT_SUPPORTED"),
    ("cuLogicalEndpointIdReserve", lambda: (0,), "INVALID_VALUE"),
    ("cuLogicalEndpointCreate", lambda: (1, cuda.CUlogicalEndpointProp()), "NOT_SUPPORTED"),
    ("cuLogicalEndpointDestroy", lambda: (1,), "INVALID_VALUE"),
    ("cuDeviceGetCliqueCount", lambda: (0,), "NOT_SUPPORTED"),
    ("cuDeviceGetCliqueInfo", lambda: (1, 9), "INVALID_DEVICE"),
    ("cuDeviceGetFabricClusterUuid", lambda: (0,), "NOT_SUPPORTED"),
    ("cuFlushGPUDirectRDMAWrites", lambda: (0, 100), "NOT_SUPPORTED"),
    ("cuFlushGPUDirectRDMAWrites", lambda: (0, 5), "INVALID_VALUE"),
    ("cuMemGetHandleForAddressRange", lambda: (4096, 4096, 1, 0), "NOT_SUPPORTED"),
    ("cuMemGetHandleForAddressRange", lambda: (4096, 100, 1, 0), "INVALID_VALUE"),
    # The rest of what devices do not have
    ("cuMemBatchDecompressAsync", lambda: (cuda.CUmemDecompressParams(), 1, 0, 0), "NOT_SUPPORTED"),
    ("cuMemBatchDecompressAsync", lambda: (cuda.CUmemDecompressParams(), 0, 0, 0), "INVALID_VALUE"),
    ("cuDeviceRegisterAsyncNotification", lambda: (0, 0x10, 0), "NOT_SUPPORTED"),
    ("cuDeviceRegisterAsyncNotification", lambda: (0, 0, 0), "INVALID_VALUE"),
    ("cuDeviceUnregisterAsyncNotification", lambda: (0, 0x10), "INVALID_VALUE"),
    ("cuLaunchCooperativeKernelMultiDevice", lambda: ([cuda.CUDA_LAUNCH_PARAMS()], 1, 0), "NOT_SUPPORTED"),
    ("cuCtxGetExecAffinity", lambda: (0,), "UNSUPPORTED_EXEC_AFFINITY"),
    ("cuCtxGetExecAffinity", lambda: (7,), "INVALID_VALUE"),
    ("cuCheckpointProcessGetState", lambda: (HERE,), "NOT_SUPPORTED"),
    ("cuCheckpointProcessGetState", lambda: (NOWHERE,), "INVALID_VALUE"),
    ("cuCheckpointProcessLock", lambda: (HERE, cuda.CUcheckpointLockArgs()), "NOT_SUPPORTED"),
    ("cuCheckpointProcessCheckpoint", lambda: (HERE, None), "NOT_SUPPORTED"),
    ("cuCheckpointProcessRestore", lambda: (-1, None), "INVALID_VALUE"),
    ("cuCheckpointProcessUnlock", lambda: (HERE, None), "NOT_SUPPORTED"),
    ("cuCheckpointProcessGetRestoreThreadId", lambda: (HERE,), "NOT_SUPPORTED"),
    ("cuCheckpointOperationComplete", lambda: (1,), "INVALID_VALUE"),
    ("cuGetExportTable", lambda: (cuda.CUuuid(),), "NOT_SUPPORTED"),
]


@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [pytest.param(*each, id=f"{each[0]}-{index}") for index, each in enumerate(REFUSALS)],
)
def test_refusals(machine: Machine, name: str, arguments: Callable[[], tuple[Any, ...]], status: str) -> None:
    assert machine.status(name, *arguments()) == status


def test_a_file_of_something_else_is_no_memory(machine: Machine) -> None:
    with Path(os.devnull).open() as file:
        description = memory_of()
        description.handle.fd = file.fileno()
        assert machine.status("cuImportExternalMemory", description) == "OPERATING_SYSTEM"


def test_atomics_over_links(machine: Machine) -> None:
    operations = cuda.CUatomicOperation
    asked = [operations.CU_ATOMIC_OPERATION_INTEGER_ADD, operations.CU_ATOMIC_OPERATION_CAS]
    assert machine.cuDeviceGetHostAtomicCapabilities(asked, 2, 0) == [0, 0]
    add, swap = machine.cuDeviceGetP2PAtomicCapabilities(asked, 2, 0, 1)
    reduction = int(cuda.CUatomicOperationCapability.CU_ATOMIC_CAPABILITY_REDUCTION)
    assert add & reduction
    assert swap
    assert not swap & reduction
    assert machine.status("cuDeviceGetP2PAtomicCapabilities", asked, 2, 0, 0) == "INVALID_DEVICE"
    assert machine.status("cuDeviceGetHostAtomicCapabilities", [], 0, 0) == "INVALID_VALUE"
    assert machine.status("cuDeviceGetHostAtomicCapabilities", [99], 1, 0) == "INVALID_VALUE"
