"""Driver calls of virtual memory management: reserved address ranges, physical memory, mappings, access."""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.device_properties import GRANULARITY, SimulatedDevice
from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    integer,
    invalid_value,
    structure,
    unsigned,
)
from drv.simulator.memory.address_space import DEVICE_BASE, DEVICE_STRIDE, Allocation, MemoryKind
from drv.simulator.memory.records import MemoryBook, MemoryRecord
from drv.simulator.memory.shared_bytes import SharedBytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from drv.simulator.options import Options

_NO_HANDLE = int(cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE)
_DESCRIPTOR = int(cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
#: Reservations belong to no device, and lie above all of them.
_FIRST_RESERVATION = DEVICE_BASE + 64 * DEVICE_STRIDE
_LAST_RESERVATION = _FIRST_RESERVATION + (1 << 54)


@dataclass(slots=True, eq=False)
class PhysicalMemory:
    """Memory of ``cuMemCreate``. It goes when it has neither a handle nor a mapping."""

    handle: int
    size: int
    device: SimulatedDevice
    data: NDArray[np.uint8]
    #: Bytes of the device's memory that it takes in this process.
    charged: int
    references: int = 1
    mappings: int = 0
    #: The bytes, where other processes may have them, too.
    shared: SharedBytes | None = None


class VirtualMemoryCalls(MemoryBook):
    """``cuMemAddress*``, ``cuMemCreate``, ``cuMemMap``, ``cuMemSetAccess`` and their opposites."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self.physical: dict[int, PhysicalMemory] = {}
        #: Start and size of the reserved ranges.
        self.reservations: dict[int, int] = {}
        self._starts: list[int] = []
        self._mapped: dict[int, PhysicalMemory] = {}
        self._next_reservation = _FIRST_RESERVATION

    # Address ranges

    @call(1)
    def cuMemAddressReserve(self, size: Any, alignment: Any, addr: Any, flags: Any) -> tuple[Any, ...]:
        nbytes, align, hint = unsigned(size), unsigned(alignment), integer(addr)
        if nbytes == 0 or nbytes % GRANULARITY or align & (align - 1) or unsigned(flags):
            raise invalid_value()
        align = max(align, GRANULARITY)
        start = hint if self._free(hint, nbytes) and hint % align == 0 else self._next(nbytes, align)
        self._starts.insert(bisect_right(self._starts, start), start)
        self.reservations[start] = nbytes
        return SUCCESS, cuda.CUdeviceptr(start)

    def _free(self, start: int, nbytes: int) -> bool:
        if not _FIRST_RESERVATION <= start <= _LAST_RESERVATION - nbytes:
            return False
        before = bisect_right(self._starts, start + nbytes - 1) - 1
        if before < 0:
            return True
        nearest = self._starts[before]
        return nearest + self.reservations[nearest] <= start

    def _next(self, nbytes: int, align: int) -> int:
        start = -(-self._next_reservation // align) * align
        # A gap between ranges, so that running off one is an access to nothing.
        while not self._free(start, nbytes):
            if start >= _LAST_RESERVATION:
                raise CallError(CUresult.CUDA_ERROR_OUT_OF_MEMORY)
            start += -(-nbytes // align) * align
        self._next_reservation = start + nbytes + GRANULARITY
        return start

    @call()
    def cuMemAddressFree(self, ptr: Any, size: Any) -> tuple[Any, ...]:
        start, nbytes = integer(ptr), unsigned(size)
        if self.reservations.get(start) != nbytes or self.memory.overlapping(start, nbytes):
            raise invalid_value()
        del self.reservations[start]
        self._starts.remove(start)
        return OK

    # Physical memory

    @call(1)
    def cuMemGetAllocationGranularity(self, prop: Any, option: Any) -> tuple[Any, ...]:
        self._located(prop)
        try:
            cuda.CUmemAllocationGranularity_flags(integer(option))
        except ValueError:
            raise invalid_value() from None
        return SUCCESS, GRANULARITY

    def _located(self, prop: Any) -> SimulatedDevice:
        """The device that allocation properties name."""
        if (
            structure(prop, cuda.CUmemAllocationProp).type
            != cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        ):
            raise invalid_value()
        location_types = cuda.CUmemLocationType
        if prop.location.type in (
            location_types.CU_MEM_LOCATION_TYPE_HOST,
            location_types.CU_MEM_LOCATION_TYPE_HOST_NUMA,
            location_types.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
        ):
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        if prop.location.type != location_types.CU_MEM_LOCATION_TYPE_DEVICE:
            raise invalid_value()
        return self.device(prop.location.id)

    @call(1)
    def cuMemCreate(self, size: Any, prop: Any, flags: Any) -> tuple[Any, ...]:
        nbytes = unsigned(size)
        device = self._located(prop)
        try:
            shareable = int(prop.requestedHandleTypes)
        except ValueError:
            raise invalid_value() from None
        if shareable not in (_NO_HANDLE, _DESCRIPTOR):
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        if nbytes == 0 or nbytes % GRANULARITY or unsigned(flags):
            raise invalid_value()
        if device.lost:
            raise CallError(CUresult.CUDA_ERROR_DEVICE_UNAVAILABLE)
        self.charge(device, nbytes)
        try:
            shared = SharedBytes.create(nbytes, device.index) if shareable else None
            data = self.new_bytes(nbytes) if shared is None else shared.data
        except OSError:
            device.used -= nbytes
            raise self.no_memory() from None
        except CallError:
            device.used -= nbytes
            raise
        handle = self.new_handle()
        self.physical[handle] = PhysicalMemory(handle, nbytes, device, data, nbytes, shared=shared)
        return SUCCESS, cuda.CUmemGenericAllocationHandle(handle)

    @call(1)
    def cuMemExportToShareableHandle(self, handle: Any, handleType: Any, flags: Any) -> tuple[Any, ...]:
        memory = self._physical(handle)
        if unsigned(flags) != 0:
            raise invalid_value()
        if integer(handleType) != _DESCRIPTOR:
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        if memory.shared is None:
            raise invalid_value()
        return SUCCESS, os.dup(memory.shared.descriptor)

    @call(1)
    def cuMemImportFromShareableHandle(self, osHandle: Any, shHandleType: Any) -> tuple[Any, ...]:
        if integer(shHandleType) != _DESCRIPTOR:
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        try:
            shared = SharedBytes.open(integer(osHandle))
        except (OSError, ValueError):
            raise invalid_value() from None
        device = next((each for each in self.devices if each.index == shared.note), None)
        if device is None:
            raise CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)
        handle = self.new_handle()
        # It takes memory of the device where it was made.
        self.physical[handle] = PhysicalMemory(handle, shared.size, device, shared.data, 0, shared=shared)
        return SUCCESS, cuda.CUmemGenericAllocationHandle(handle)

    def _physical(self, handle: Any) -> PhysicalMemory:
        memory = self.physical.get(integer(handle))
        if memory is None or memory.references == 0:
            raise invalid_value()
        return memory

    @call()
    def cuMemRelease(self, handle: Any) -> tuple[Any, ...]:
        memory = self._physical(handle)
        memory.references -= 1
        self._let_go(memory)
        return OK

    def _let_go(self, memory: PhysicalMemory) -> None:
        if memory.references == 0 and memory.mappings == 0:
            del self.physical[memory.handle]
            memory.device.used -= memory.charged
            if memory.shared is not None:
                memory.shared.close()

    @call(1)
    def cuMemRetainAllocationHandle(self, addr: Any) -> tuple[Any, ...]:
        allocation = self.memory.find(integer(addr))
        memory = None if allocation is None else self._mapped.get(allocation.base)
        if memory is None:
            raise invalid_value()
        memory.references += 1
        return SUCCESS, cuda.CUmemGenericAllocationHandle(memory.handle)

    @call(1)
    def cuMemGetAllocationPropertiesFromHandle(self, handle: Any) -> tuple[Any, ...]:
        memory = self._physical(handle)
        prop = cuda.CUmemAllocationProp()
        prop.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        prop.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        prop.location.id = memory.device.ordinal
        if memory.shared is not None:
            prop.requestedHandleTypes = cuda.CUmemAllocationHandleType(_DESCRIPTOR)
        return SUCCESS, prop

    # Mappings

    @call()
    def cuMemMap(self, ptr: Any, size: Any, offset: Any, handle: Any, flags: Any) -> tuple[Any, ...]:
        start, nbytes = integer(ptr), unsigned(size)
        memory = self._physical(handle)
        if nbytes == 0 or nbytes % GRANULARITY or start % GRANULARITY or unsigned(flags):
            raise invalid_value()
        if unsigned(offset) != 0 or nbytes > memory.size or not self._reserved(start, nbytes):
            raise invalid_value()
        if self.memory.overlapping(start, nbytes):
            raise invalid_value()
        allocation = Allocation(
            start,
            nbytes,
            MemoryKind.MAPPED,
            memory.data[:nbytes],
            memory.device.ordinal,
            stack=self.recorder.take(),
            access={},
        )
        self.book(allocation, None, 0, "cuMemMap")
        self._mapped[start] = memory
        memory.mappings += 1
        return OK

    def _reserved(self, start: int, nbytes: int) -> bool:
        index = bisect_right(self._starts, start) - 1
        if index < 0:
            return False
        reservation = self._starts[index]
        return start + nbytes <= reservation + self.reservations[reservation]

    def _mappings(self, start: int, nbytes: int) -> list[MemoryRecord]:
        """The mappings that together make up ``[start, start + nbytes)``, whole ones only."""
        records, here = [], start
        while here < start + nbytes:
            record = self.records.get(here)
            if record is None or here not in self._mapped:
                raise invalid_value()
            records.append(record)
            here += record.allocation.size
        if not records or here != start + nbytes:
            raise invalid_value()
        return records

    @call()
    def cuMemUnmap(self, ptr: Any, size: Any) -> tuple[Any, ...]:
        for record in self._mappings(integer(ptr), unsigned(size)):
            memory = self._mapped.pop(record.allocation.base)
            self.release(record)
            memory.mappings -= 1
            self._let_go(memory)
        return OK

    @call()
    def cuMemSetAccess(self, ptr: Any, size: Any, desc: Any, count: Any) -> tuple[Any, ...]:
        records = self._mappings(integer(ptr), unsigned(size))
        rights = []
        if unsigned(count) != len(desc or ()):
            raise invalid_value()
        for grant in desc or ():
            if (
                structure(grant, cuda.CUmemAccessDesc).location.type
                != cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            ):
                raise invalid_value()
            device = self.device(grant.location.id)
            rights.append((device, grant.flags))
        for record in records:
            owner = self._mapped[record.allocation.base].device
            for device, _ in rights:
                pair = (device.index, owner.index)
                if device is not owner and pair not in self.options.peers:
                    raise CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)
        for record in records:
            # Never changed in place: queued work keeps seeing the rights of the moment it runs.
            access = dict(record.allocation.access or {})
            for device, flags in rights:
                if flags == cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_NONE:
                    access.pop(device.ordinal, None)
                else:
                    access[device.ordinal] = (
                        flags == cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                    )
            self.accepted.clear()
            record.allocation.access = access
        return OK

    @call(1)
    def cuMemGetAccess(self, location: Any, ptr: Any) -> tuple[Any, ...]:
        allocation = self.memory.find(integer(ptr))
        if allocation is None or allocation.access is None or location is None:
            raise invalid_value()
        if location.type != cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE:
            raise invalid_value()
        writable = allocation.access.get(self.device(location.id).ordinal)
        flags = cuda.CUmemAccess_flags
        if writable is None:
            return SUCCESS, int(flags.CU_MEM_ACCESS_FLAGS_PROT_NONE)
        if writable:
            return SUCCESS, int(flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return SUCCESS, int(flags.CU_MEM_ACCESS_FLAGS_PROT_READ)
