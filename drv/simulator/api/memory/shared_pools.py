"""Driver calls by which processes share pools of memory, and what is allocated from them."""

from __future__ import annotations

import os
import struct
from typing import Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    SUCCESS,
    CallError,
    call,
    contents,
    filled,
    integer,
    invalid_value,
    structure,
    unsigned,
)
from drv.simulator.memory.address_space import Allocation, MemoryKind
from drv.simulator.memory.shared_bytes import SharedBytes

from .locations import DEVICE
from .pool import DESCRIPTOR, PoolCalls

#: Another process' allocation: magic, process and file descriptor there, how far from its beginning, and its size.
_POINTER = struct.Struct("<16sQQQQ")
_POINTER_MAGIC = b"graphroot point"
#: A pool as a file: magic, process, handle there, device, type.
_POOL_BYTES = 4096
_POOL = struct.Struct("<16sQQqq")
_POOL_MAGIC = b"graphroot pool"


class SharedPoolCalls(PoolCalls):
    """``cuMemPoolExport*`` and ``cuMemPoolImport*``."""

    @call(1)
    def cuMemPoolExportToShareableHandle(self, pool: Any, handleType: Any, flags: Any) -> tuple[Any, ...]:
        mem_pool = self.pool(pool)
        if integer(handleType) != DESCRIPTOR or unsigned(flags) or not mem_pool.shareable:
            raise invalid_value()
        if mem_pool.shared is None:
            mem_pool.shared = SharedBytes.create(_POOL_BYTES)
            assert mem_pool.device is not None
            known = os.getpid(), mem_pool.handle, mem_pool.device.index, mem_pool.allocation_type
            mem_pool.shared.data[: _POOL.size] = list(_POOL.pack(_POOL_MAGIC, *known))
        return SUCCESS, os.dup(mem_pool.shared.descriptor)

    @call(1)
    def cuMemPoolImportFromShareableHandle(self, handle: Any, handleType: Any, flags: Any) -> tuple[Any, ...]:
        if integer(handleType) != DESCRIPTOR or unsigned(flags):
            raise invalid_value()
        try:
            shared = SharedBytes.open(integer(handle))
        except (OSError, ValueError):
            raise invalid_value() from None
        magic, process, _, index, allocation_type = _POOL.unpack_from(shared.data[: _POOL.size].tobytes())
        if magic.rstrip(b"\0") != _POOL_MAGIC:
            raise invalid_value()
        device = next((each for each in self.devices if each.index == index), None)
        if device is None:
            raise CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)
        pool = self.new_pool((DEVICE, device.ordinal), allocation_type)
        pool.imported, pool.process = True, process
        shared.close()
        return SUCCESS, cuda.CUmemoryPool(pool.handle)

    @call(1)
    def cuMemPoolExportPointer(self, ptr: Any) -> tuple[Any, ...]:
        address = integer(ptr)
        record = self.record_at(address)
        if record is None or record.pool is None or record.shared is None:
            raise invalid_value()
        start = address - record.allocation.base
        known = os.getpid(), record.shared.descriptor, start, record.allocation.size
        return SUCCESS, filled(cuda.CUmemPoolPtrExportData(), _POINTER.pack(_POINTER_MAGIC, *known))

    @call(1)
    def cuMemPoolImportPointer(self, pool: Any, shareData: Any) -> tuple[Any, ...]:
        mem_pool = self.pool(pool)
        export = structure(shareData, cuda.CUmemPoolPtrExportData)
        magic, process, descriptor, start, size = _POINTER.unpack(contents(export, _POINTER.size))
        if magic.rstrip(b"\0") != _POINTER_MAGIC or not mem_pool.imported or process != mem_pool.process:
            raise invalid_value()
        try:
            shared = SharedBytes.open_of(process, descriptor)
        except (OSError, ValueError):
            raise invalid_value() from None
        device = mem_pool.device
        assert device is not None
        context = self.primary.get(device.ordinal) or self.current()
        allocation = Allocation(
            self.new_address(device, size),
            size,
            MemoryKind.IMPORTED,
            shared.data,
            device.ordinal,
            stack=self.recorder.take(),
            access=mem_pool.access,
        )
        record = self.book(allocation, context, 0, "cuMemAllocAsync")
        record.shared, record.pool = shared, mem_pool
        mem_pool.live.add(record)
        return SUCCESS, cuda.CUdeviceptr(allocation.base + start)
