"""Driver calls that make, free and describe device and host memory."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.checks.observation import Access
from drv.simulator.device_properties import ALLOCATION_ALIGNMENT
from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    from_finalizer,
    host_address,
    integer,
    invalid_value,
    unsigned,
)
from drv.simulator.memory.address_space import Allocation, MemoryKind
from drv.simulator.memory.records import MemoryBook, MemoryRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PITCH_ALIGNMENT = 512
_PAGE = 4096
_HOST_ALLOC_FLAGS = (
    cuda.CU_MEMHOSTALLOC_PORTABLE | cuda.CU_MEMHOSTALLOC_DEVICEMAP | cuda.CU_MEMHOSTALLOC_WRITECOMBINED
)
_HOST_REGISTER_FLAGS = (
    cuda.CU_MEMHOSTREGISTER_PORTABLE | cuda.CU_MEMHOSTREGISTER_DEVICEMAP | cuda.CU_MEMHOSTREGISTER_READ_ONLY
)


class MemoryCalls(MemoryBook):
    """``cuMemAlloc*``, ``cuMemFree*``, ``cuMemHost*``, ``cuMemGet*``."""

    # Device memory

    @call(2)
    def cuMemGetInfo(self) -> tuple[Any, ...]:
        device = self.current().device
        return SUCCESS, device.total - device.used, device.total

    @call(1, unsafe=True)
    def cuMemAlloc(self, bytesize: Any) -> tuple[Any, ...]:
        record = self.allocate(self.current(), unsigned(bytesize), "cuMemAlloc")
        return SUCCESS, cuda.CUdeviceptr(record.allocation.base)

    @call(2, unsafe=True)
    def cuMemAllocPitch(self, WidthInBytes: Any, Height: Any, ElementSizeBytes: Any) -> tuple[Any, ...]:
        width, height = unsigned(WidthInBytes), unsigned(Height)
        if unsigned(ElementSizeBytes, 32) not in (4, 8, 16) or width == 0 or height == 0:
            raise invalid_value()
        pitch = -(-width // _PITCH_ALIGNMENT) * _PITCH_ALIGNMENT
        record = self.allocate(self.current(), pitch * height, "cuMemAllocPitch")
        return SUCCESS, cuda.CUdeviceptr(record.allocation.base), pitch

    @from_finalizer
    @call(unsafe=True)
    def cuMemFree(self, dptr: Any) -> tuple[Any, ...]:
        address = integer(dptr)
        if address == 0:
            return OK
        record = self.records.get(address)
        if record is None or not record.origin.startswith("cuMemAlloc") or record.freeing:
            raise invalid_value()
        if record.graph_allocation is not None:
            if not record.graph_allocation.live:
                raise invalid_value()
            record.graph_allocation.end()
        if record.context is None:
            raise invalid_value()
        context = self.usable(record.context)
        # Freeing waits for the device, as CUDA documents for cuMemFree.
        self.wait_context(context)
        self.usable(context)
        self.release(record)
        return OK

    @call(2)
    def cuMemGetAddressRange(self, dptr: Any) -> tuple[Any, ...]:
        self.current()
        record = self.record_at(integer(dptr))
        if record is None:
            raise CallError(CUresult.CUDA_ERROR_NOT_FOUND)
        return SUCCESS, cuda.CUdeviceptr(record.allocation.base), record.allocation.size

    # Host memory

    @call(1, unsafe=True)
    def cuMemAllocHost(self, bytesize: Any) -> tuple[Any, ...]:
        return self._host_alloc(unsigned(bytesize), 0)

    @call(1, unsafe=True)
    def cuMemHostAlloc(self, bytesize: Any, Flags: Any) -> tuple[Any, ...]:
        flags = unsigned(Flags, 32)
        if flags & ~_HOST_ALLOC_FLAGS:
            raise invalid_value()
        return self._host_alloc(unsigned(bytesize), flags)

    def _host_alloc(self, size: int, flags: int) -> tuple[Any, ...]:
        context = self.current()
        if size == 0:
            raise invalid_value()
        if self.inject.refuses(size):
            raise CallError(CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        record = self.book_host_memory(
            size, MemoryKind.PINNED, context, "cuMemHostAlloc", self.recorder.take(), flags
        )
        return SUCCESS, record.allocation.base

    @from_finalizer
    @call(unsafe=True)
    def cuMemFreeHost(self, p: Any) -> tuple[Any, ...]:
        record = self.records.get(host_address(p))
        if record is None or record.origin != "cuMemHostAlloc":
            raise invalid_value()
        self.release(record)
        return OK

    @call(unsafe=True)
    def cuMemHostRegister(self, p: Any, bytesize: Any, Flags: Any) -> tuple[Any, ...]:
        address, size, flags = host_address(p), unsigned(bytesize), unsigned(Flags, 32)
        context = self.current()
        if address == 0 or size == 0:
            raise invalid_value()
        if flags & cuda.CU_MEMHOSTREGISTER_IOMEMORY:
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        if flags & ~_HOST_REGISTER_FLAGS:
            raise invalid_value()
        self.host_range(address, size)
        if self.memory.overlapping(address, size):
            raise CallError(CUresult.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
        data = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        allocation = Allocation(address, size, MemoryKind.REGISTERED, data, stack=self.recorder.take())
        self.book(allocation, context, 0, "cuMemHostRegister", flags)
        return OK

    @from_finalizer
    @call(unsafe=True)
    def cuMemHostUnregister(self, p: Any) -> tuple[Any, ...]:
        record = self.records.get(host_address(p))
        if record is None or record.origin != "cuMemHostRegister":
            raise CallError(CUresult.CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
        self.release(record)
        return OK

    def _host_record(self, p: Any) -> MemoryRecord:
        record = self.record_at(host_address(p))
        if record is None or record.allocation.device is not None:
            raise invalid_value()
        return record

    @call(1)
    def cuMemHostGetDevicePointer(self, p: Any, Flags: Any) -> tuple[Any, ...]:
        self.current()
        if unsigned(Flags, 32) != 0:
            raise invalid_value()
        self._host_record(p)
        return SUCCESS, cuda.CUdeviceptr(host_address(p))

    @call(1)
    def cuMemHostGetFlags(self, p: Any) -> tuple[Any, ...]:
        # Under unified addressing all host allocations are portable and mapped.
        record = self._host_record(p)
        return SUCCESS, record.flags | cuda.CU_MEMHOSTALLOC_PORTABLE | cuda.CU_MEMHOSTALLOC_DEVICEMAP

    # For allocators that guard memory

    @property
    def checks_accesses(self) -> bool:
        """Whether every access of every thread is checked."""
        return self.options.check != "off" and self.execute

    def guard_memory(self, gap: int, remembered: int) -> None:
        """Leave ``gap`` bytes of addresses behind each allocation, and remember so many freed ones for reports."""
        with self.lock:
            self.gap = max(self.gap, -(-gap // ALLOCATION_ALIGNMENT) * ALLOCATION_ALIGNMENT)
            self.memory.remember_freed(remembered)

    def host_margins(self, address: int, nbytes: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Up to ``nbytes`` on either side of pinned memory, which are nobody's; a page at most."""
        with self.lock:
            allocation = self.records[address].allocation
        whole = allocation.data.base
        assert whole is not None
        start, nbytes = address - int(whole.ctypes.data), min(nbytes, _PAGE)
        stop = start + allocation.size
        return whole[start - nbytes : start], whole[stop : stop + nbytes]

    def poison(self, address: int, value: int) -> None:
        """Fill the allocation at ``address``, which nothing uses yet, with bytes that do not count as written."""
        with self.lock:
            self.records[address].allocation.data[:] = value

    def host_access(self, address: int, nbytes: int, *, writes: bool) -> None:
        """The host touches ``nbytes`` of pinned or registered memory: what the race finder needs to know."""
        if self.observer is None or nbytes == 0:
            return
        with self.lock:
            allocation = self.memory.find(address)
            if allocation is not None and allocation.device is None:
                start = address - allocation.base
                access, stack = Access.WRITE if writes else Access.READ, self.recorder.take()
                alone = self.alone_with(self.records[allocation.base])
                if alone:
                    self.observer.host_access_alone(allocation, start, start + nbytes, access, stack, alone)
                self.observer.host_access(allocation, start, start + nbytes, access, stack)
