"""Driver calls of the stream-ordered allocator: a default pool per location, and pools of one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    from_finalizer,
    integer,
    invalid_value,
    structure,
    unsigned,
)
from drv.simulator.graphs.book import GraphBook
from drv.simulator.graphs.graph_memory import FreeWork
from drv.simulator.memory.address_space import Allocation, MemoryKind
from drv.simulator.memory.pools import (
    FOLLOW_EVENTS,
    INTERNAL_DEPENDENCIES,
    OPPORTUNISTIC,
    RELEASE_THRESHOLD,
    Pool,
)
from drv.simulator.memory.shared_bytes import SharedBytes

from .locations import DEVICE, HOST, HOST_NUMA, granted_access, location_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.python_stack import Frame
    from drv.simulator.device_properties import SimulatedDevice
    from drv.simulator.driver_state import Context
    from drv.simulator.memory.records import MemoryRecord
    from drv.simulator.options import Options
    from drv.simulator.scheduler import Operation, Stream

_ATTRIBUTES = cuda.CUmemPool_attribute
_SWITCHES = (FOLLOW_EVENTS, OPPORTUNISTIC, INTERNAL_DEPENDENCIES)
_TYPES = cuda.CUmemAllocationType
_PINNED = int(_TYPES.CU_MEM_ALLOCATION_TYPE_PINNED)
_MANAGED = int(_TYPES.CU_MEM_ALLOCATION_TYPE_MANAGED)
_NO_HANDLE = int(cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE)
DESCRIPTOR = int(cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
_HANDLE_TYPES = sum(int(each) for each in cuda.CUmemAllocationHandleType if int(each) < 0x7FFFFFFF)
_ACCESS = cuda.CUmemAccess_flags


class PoolCalls(GraphBook):
    """``cuMemAllocAsync``, ``cuMemFreeAsync`` and ``cuMemPool*``."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self.pools: dict[int, Pool] = {}
        #: By location and type of allocations.
        self._default_pools: dict[tuple[tuple[int, int], int], Pool] = {}
        self._current_pools: dict[tuple[tuple[int, int], int], Pool] = {}

    def new_pool(self, location: tuple[int, int], allocation_type: int, *, default: bool = False) -> Pool:
        """An empty pool; ``location`` as in ``CUmemLocation``."""
        device = self.device(location[1]) if location[0] == DEVICE else None
        pool = Pool(self.new_handle(), device, location, allocation_type, default)
        if device is not None:
            pool.access = {device.ordinal: True}
        self.pools[pool.handle] = pool
        return pool

    def _default_pool(self, location: tuple[int, int], allocation_type: int) -> Pool:
        key = location, allocation_type
        pool = self._default_pools.get(key)
        if pool is None:
            pool = self._default_pools[key] = self.new_pool(*key, default=True)
        return pool

    def _current_pool(self, location: tuple[int, int], allocation_type: int) -> Pool:
        known = self._current_pools.get((location, allocation_type))
        return known if known is not None else self._default_pool(location, allocation_type)

    def pool(self, pool: Any) -> Pool:
        """The pool of a handle."""
        mem_pool = self.pools.get(integer(pool))
        if mem_pool is None:
            raise invalid_value()
        return mem_pool

    # Allocation

    @call(1)
    def cuMemAllocAsync(self, bytesize: Any, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        pool = self._current_pool((DEVICE, stream.context.device.ordinal), _PINNED)
        return self._allocate(unsigned(bytesize), pool, stream)

    @call(1)
    def cuMemAllocFromPoolAsync(self, bytesize: Any, pool: Any, hStream: Any) -> tuple[Any, ...]:
        return self._allocate(unsigned(bytesize), self.pool(pool), self.stream(hStream))

    def _allocate(self, size: int, pool: Pool, stream: Stream) -> tuple[Any, ...]:
        if pool.imported or size == 0:
            raise invalid_value()
        if stream.capture is not None:
            stream.capture.check()
            work = self.allocation_work(stream.capture.graph, stream.context, size)
            self.submit(stream, work)
            return SUCCESS, cuda.CUdeviceptr(work.graph_allocation.allocation.base)
        if self.inject.refuses(size):
            raise self.no_memory()
        nbytes = self.charged(size)
        after = pool.take(self, nbytes, stream)
        try:
            record = self._new_record(size, pool, stream.context)
        except CallError:
            pool.give_back(nbytes, None)
            raise
        record.pool = pool
        pool.live.add(record)
        observer = self.observer
        if observer is not None or after:
            # What uses the memory has to come after this point in the stream, which has to come after who had it.
            allocation = record.allocation
            run = None if observer is None else lambda: observer.allocated(allocation)
            self.enqueue(stream, f"allocation of {size} bytes", run, after)
        return SUCCESS, cuda.CUdeviceptr(record.allocation.base)

    def _new_record(self, size: int, pool: Pool, context: Context) -> MemoryRecord:
        stack = self.recorder.take()
        if pool.device is None or pool.allocation_type == _MANAGED:
            managed = pool.allocation_type == _MANAGED
            kind = MemoryKind.MANAGED if managed else MemoryKind.PINNED
            return self.book_host_memory(size, kind, context, "cuMemAllocAsync", stack)
        base = self.new_address(pool.device, size)
        shared = SharedBytes.create(size) if pool.shareable else None
        data = self.new_bytes(size) if shared is None else shared.data
        allocation = Allocation(
            base,
            size,
            MemoryKind.DEVICE,
            data,
            pool.device.ordinal,
            stack=stack,
            access=pool.access,
        )
        record = self.book(allocation, context, 0, "cuMemAllocAsync")
        record.shared = shared
        return record

    @from_finalizer
    @call()
    def cuMemFreeAsync(self, dptr: Any, hStream: Any) -> tuple[Any, ...]:
        stream, address = self.stream(hStream), integer(dptr)
        if address == 0:
            return OK
        if stream.capture is not None:
            stream.capture.check()
            self.submit(stream, self.free_work(stream.capture.graph, address))
            return OK
        record = self.records.get(address)
        if record is None or record.freeing or not record.origin.startswith("cuMemAlloc"):
            raise invalid_value()
        self.accepted.clear()
        if record.graph_allocation is not None:
            if not record.graph_allocation.live:
                raise invalid_value()
            FreeWork(stream.context, record.graph_allocation).queue(self, stream)
            return OK
        record.freeing = True
        stack = self.recorder.take()

        def run() -> None:
            if self.records.get(address) is record:
                self.release(record, stack)

        operation = self.operation(stream, f"free of {record.allocation.size} bytes", run)
        # Later allocations may have the memory in stream order, so it counts as free from here on.
        if record.pool is not None:
            self._give_back(record, operation)
        elif record.context is not None:
            record.context.device.used -= record.charged
            record.charged = 0
        self.scheduler.enqueue(operation)
        return OK

    def _give_back(self, record: MemoryRecord, operation: Operation | None) -> None:
        pool = record.pool
        record.pool = None
        pool.live.discard(record)
        if not pool.imported:
            pool.give_back(self.charged(record.allocation.size), operation)

    def release(self, record: MemoryRecord, stack: tuple[Frame, ...] | None = None) -> None:
        """Free an allocation, at ``stack``; one of a pool's is the pool's again."""
        super().release(record, stack)
        if record.pool is not None:
            self._give_back(record, None)

    def synchronized(self) -> None:
        """The host has waited for something: pools let go of what is above their thresholds."""
        for pool in self.pools.values():
            if pool.freed:
                pool.release(pool.settings.get(RELEASE_THRESHOLD, 0))

    def let_go_of_reserves(self, device: SimulatedDevice) -> None:
        """Give ``device`` back what pools hold of its memory and do not use."""
        for pool in self.pools.values():
            if pool.device is device:
                pool.release(0)

    # Pools

    @call(1)
    def cuDeviceGetDefaultMemPool(self, dev: Any) -> tuple[Any, ...]:
        device = self.device(dev)
        return SUCCESS, cuda.CUmemoryPool(self._default_pool((DEVICE, device.ordinal), _PINNED).handle)

    @call(1)
    def cuDeviceGetMemPool(self, dev: Any) -> tuple[Any, ...]:
        device = self.device(dev)
        return SUCCESS, cuda.CUmemoryPool(self._current_pool((DEVICE, device.ordinal), _PINNED).handle)

    @call()
    def cuDeviceSetMemPool(self, dev: Any, pool: Any) -> tuple[Any, ...]:
        device, mem_pool = self.device(dev), self.pool(pool)
        if mem_pool.device is not device or mem_pool.allocation_type != _PINNED:
            raise invalid_value()
        self._current_pools[mem_pool.location, _PINNED] = mem_pool
        return OK

    @call(1)
    def cuMemGetDefaultMemPool(self, location: Any, typename: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUmemoryPool(self._default_pool(*self._where(location, typename)).handle)

    @call(1)
    def cuMemGetMemPool(self, location: Any, typename: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUmemoryPool(self._current_pool(*self._where(location, typename)).handle)

    @call()
    def cuMemSetMemPool(self, location: Any, typename: Any, pool: Any) -> tuple[Any, ...]:
        target_location, mem_pool = self._where(location, typename), self.pool(pool)
        if (mem_pool.location, mem_pool.allocation_type) != target_location:
            raise invalid_value()
        self._current_pools[target_location] = mem_pool
        return OK

    def _where(self, location: Any, typename: Any) -> tuple[tuple[int, int], int]:
        """Location and type of the allocations of a pool."""
        allocation_type = integer(typename)
        target_location = location_of(self, structure(location, cuda.CUmemLocation))
        if allocation_type not in (_PINNED, _MANAGED):
            raise invalid_value()
        if target_location[0] not in (DEVICE, HOST, HOST_NUMA) and (
            allocation_type == _PINNED or target_location[0] != 0
        ):
            raise invalid_value()
        return target_location, allocation_type

    @call(1)
    def cuMemPoolCreate(self, poolProps: Any) -> tuple[Any, ...]:
        properties = structure(poolProps, cuda.CUmemPoolProps)
        target_location, allocation_type = self._where(properties.location, int(properties.allocType))
        handles = int(properties.handleTypes)
        if handles & ~_HANDLE_TYPES:
            raise invalid_value()
        if handles not in (_NO_HANDLE, DESCRIPTOR) or (
            handles and (target_location[0] != DEVICE or allocation_type != _PINNED)
        ):
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        pool = self.new_pool(target_location, allocation_type)
        pool.most, pool.shareable = properties.maxSize, bool(handles)
        return SUCCESS, cuda.CUmemoryPool(pool.handle)

    @from_finalizer
    @call()
    def cuMemPoolDestroy(self, pool: Any) -> tuple[Any, ...]:
        mem_pool = self.pool(pool)
        if mem_pool.default:
            raise invalid_value()
        del self.pools[mem_pool.handle]
        for key in [key for key, each in self._current_pools.items() if each is mem_pool]:
            del self._current_pools[key]
        # What is allocated goes back when it is freed.
        mem_pool.destroyed = True
        for freed in mem_pool.freed:
            mem_pool.reserved -= freed.nbytes
            if mem_pool.device is not None:
                mem_pool.device.used -= freed.nbytes
        mem_pool.freed.clear()
        if mem_pool.shared is not None:
            mem_pool.shared.close()
        return OK

    @call()
    def cuMemPoolTrimTo(self, pool: Any, minBytesToKeep: Any) -> tuple[Any, ...]:
        self.pool(pool).release(unsigned(minBytesToKeep))
        return OK

    @call(1)
    def cuMemPoolGetAttribute(self, pool: Any, attr: Any) -> tuple[Any, ...]:
        mem_pool, attribute = self.pool(pool), _attribute(attr)
        number = cuda.cuuint64_t
        if int(attribute) in _SWITCHES:
            return SUCCESS, mem_pool.settings.get(int(attribute), 1)
        numbers = {
            _ATTRIBUTES.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: mem_pool.settings.get(RELEASE_THRESHOLD, 0),
            _ATTRIBUTES.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: mem_pool.reserved,
            _ATTRIBUTES.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: mem_pool.reserved_high,
            _ATTRIBUTES.CU_MEMPOOL_ATTR_USED_MEM_CURRENT: mem_pool.used,
            _ATTRIBUTES.CU_MEMPOOL_ATTR_USED_MEM_HIGH: mem_pool.used_high,
        }
        if attribute in numbers:
            return SUCCESS, number(numbers[attribute])
        # What a pool was made with; newer versions of CUDA tell it.
        attributes = {
            "ALLOCATION_TYPE": mem_pool.allocation_type,
            "EXPORT_HANDLE_TYPES": DESCRIPTOR if mem_pool.shareable else _NO_HANDLE,
            "LOCATION_ID": mem_pool.location[1],
            "LOCATION_TYPE": mem_pool.location[0],
            "MAX_POOL_SIZE": number(mem_pool.most),
            "HW_DECOMPRESS_ENABLED": 0,
        }
        value = attributes.get(attribute.name.removeprefix("CU_MEMPOOL_ATTR_"))
        if value is None:
            raise invalid_value()
        return SUCCESS, value

    @call()
    def cuMemPoolSetAttribute(self, pool: Any, attr: Any, value: Any) -> tuple[Any, ...]:
        mem_pool, attribute, number = self.pool(pool), _attribute(attr), integer(value)
        if int(attribute) in (*_SWITCHES, RELEASE_THRESHOLD):
            mem_pool.settings[int(attribute)] = number
            return OK
        if number != 0:
            raise invalid_value()
        if attribute == _ATTRIBUTES.CU_MEMPOOL_ATTR_USED_MEM_HIGH:
            mem_pool.used_high = mem_pool.used
        elif attribute == _ATTRIBUTES.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
            mem_pool.reserved_high = mem_pool.reserved
        else:
            raise invalid_value()
        return OK

    # Who may access a pool's memory

    @call()
    def cuMemPoolSetAccess(self, pool: Any, map: Any, count: Any) -> tuple[Any, ...]:  # noqa: A002 - the bindings' name
        mem_pool = self.pool(pool)
        if mem_pool.device is None:
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        granted = granted_access(self, map, count)
        owner = mem_pool.device
        for device, writes in granted:
            if device is owner and not writes:
                raise invalid_value()
            if device is not owner and (device.index, owner.index) not in self.options.peers:
                raise CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)
        # Never changed in place: queued work keeps seeing the rights of the moment it runs.
        access = dict(mem_pool.access)
        for device, writes in granted:
            access.pop(device.ordinal, None)
            if writes is not None:
                access[device.ordinal] = writes
        self.accepted.clear()
        mem_pool.access = access
        for record in mem_pool.live:
            record.allocation.access = access
        return OK

    @call(1)
    def cuMemPoolGetAccess(self, memPool: Any, location: Any) -> tuple[Any, ...]:
        mem_pool = self.pool(memPool)
        target_location = location_of(self, structure(location, cuda.CUmemLocation))
        if target_location[0] != DEVICE:
            raise invalid_value()
        if mem_pool.device is None:
            return SUCCESS, _ACCESS.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        writes = mem_pool.access.get(target_location[1])
        if writes is None:
            return SUCCESS, _ACCESS.CU_MEM_ACCESS_FLAGS_PROT_NONE
        if writes:
            return SUCCESS, _ACCESS.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        return SUCCESS, _ACCESS.CU_MEM_ACCESS_FLAGS_PROT_READ


def _attribute(attr: Any) -> cuda.CUmemPool_attribute:
    try:
        return _ATTRIBUTES(integer(attr))
    except ValueError:
        raise invalid_value() from None
