"""Driver calls that take memory and semaphores of other APIs (Vulkan, Direct3D, NvSci).

No such API has memory of a simulated device, so that nothing can be imported.
"""

from __future__ import annotations

import os
from typing import Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    CallError,
    call,
    integer,
    invalid_handle,
    invalid_value,
    listed,
    structure,
    unsigned,
)
from drv.simulator.driver_state import DriverState

_MEMORY = cuda.CUexternalMemoryHandleType
_OPAQUE_MEMORY = int(_MEMORY.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
_SEMAPHORES = cuda.CUexternalSemaphoreHandleType
_FILES = (
    int(_SEMAPHORES.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD),
    int(_SEMAPHORES.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD),
)
_NVSCI = int(_SEMAPHORES.CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC)
_DEDICATED = int(cuda.CUDA_EXTERNAL_MEMORY_DEDICATED)
_SIGNAL, _WAIT = int(cuda.CUDA_NVSCISYNC_ATTR_SIGNAL), int(cuda.CUDA_NVSCISYNC_ATTR_WAIT)


class ExternalCalls(DriverState):
    """``cuImportExternal*``, ``cuExternalMemory*``, ``cuDestroyExternal*``, ``cu*ExternalSemaphoresAsync``."""

    @call(1)
    def cuImportExternalMemory(self, memHandleDesc: Any) -> tuple[Any, ...]:
        description = structure(memHandleDesc, cuda.CUDA_EXTERNAL_MEMORY_HANDLE_DESC)
        self.current()
        try:
            handle_type = int(description.type)
        except ValueError:
            raise invalid_value() from None
        if description.size == 0 or int(description.flags) & ~_DEDICATED:
            raise invalid_value()
        if handle_type != _OPAQUE_MEMORY:
            # Of other systems and machines.
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        raise _of_nobody(int(description.handle.fd))

    @call(1)
    def cuImportExternalSemaphore(self, semHandleDesc: Any) -> tuple[Any, ...]:
        description = structure(semHandleDesc, cuda.CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC)
        self.current()
        try:
            handle_type = int(description.type)
        except ValueError:
            raise invalid_value() from None
        if int(description.flags) & ~(_SIGNAL | _WAIT if handle_type == _NVSCI else 0):
            raise invalid_value()
        if handle_type not in _FILES:
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        raise _of_nobody(int(description.handle.fd))

    def _no_external(self, handle: Any) -> CallError:
        """The answer about memory, or a semaphore: none was ever imported."""
        integer(handle)
        self.current()
        return invalid_handle()

    @call(1)
    def cuExternalMemoryGetMappedBuffer(self, extMem: Any, bufferDesc: Any) -> tuple[Any, ...]:
        structure(bufferDesc, cuda.CUDA_EXTERNAL_MEMORY_BUFFER_DESC)
        raise self._no_external(extMem)

    @call(1)
    def cuExternalMemoryGetMappedMipmappedArray(self, extMem: Any, mipmapDesc: Any) -> tuple[Any, ...]:
        structure(mipmapDesc, cuda.CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC)
        raise self._no_external(extMem)

    @call()
    def cuDestroyExternalMemory(self, extMem: Any) -> tuple[Any, ...]:
        raise self._no_external(extMem)

    @call()
    def cuDestroyExternalSemaphore(self, extSem: Any) -> tuple[Any, ...]:
        raise self._no_external(extSem)

    @call()
    def cuSignalExternalSemaphoresAsync(
        self, extSemArray: Any, paramsArray: Any, numExtSems: Any, stream: Any
    ) -> tuple[Any, ...]:
        raise self._unknown_semaphores(extSemArray, paramsArray, numExtSems, stream)

    @call()
    def cuWaitExternalSemaphoresAsync(
        self, extSemArray: Any, paramsArray: Any, numExtSems: Any, stream: Any
    ) -> tuple[Any, ...]:
        raise self._unknown_semaphores(extSemArray, paramsArray, numExtSems, stream)

    def _unknown_semaphores(self, semaphores: Any, parameters: Any, count: Any, stream: Any) -> CallError:
        self.stream(stream)
        number = unsigned(count, 32)
        listed(parameters, number)
        return invalid_handle() if listed(semaphores, number) else invalid_value()

    @call()
    def cuDeviceGetNvSciSyncAttributes(self, nvSciSyncAttrList: Any, dev: Any, flags: Any) -> tuple[Any, ...]:
        self.device(dev)
        if integer(flags) not in (_SIGNAL, _WAIT, _SIGNAL | _WAIT):
            raise invalid_value()
        if integer(nvSciSyncAttrList) == 0:
            raise invalid_handle()
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)


def _of_nobody(descriptor: int) -> CallError:
    """The answer about a file descriptor that cannot be what it should."""
    try:
        os.fstat(descriptor)
    except (OSError, OverflowError):
        return invalid_handle()
    return CallError(CUresult.CUDA_ERROR_OPERATING_SYSTEM)
