"""Driver calls of the stream-ordered allocator: a default pool per device, and pools of one's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

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
from drv.simulator.graphs.book import GraphBook
from drv.simulator.graphs.graph_memory import FreeWork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.device_properties import SimulatedDevice
    from drv.simulator.options import Options
    from drv.simulator.scheduler import Stream

_ATTRIBUTES = cuda.CUmemPool_attribute
_SWITCHES = (
    _ATTRIBUTES.CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
    _ATTRIBUTES.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
    _ATTRIBUTES.CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
)
_HIGH = (_ATTRIBUTES.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, _ATTRIBUTES.CU_MEMPOOL_ATTR_USED_MEM_HIGH)


@dataclass(slots=True, eq=False)
class Pool:
    """A pool. It holds no memory in reserve: what is freed goes back to the device at once."""

    handle: int
    device: SimulatedDevice
    default: bool
    used: int = 0
    high: int = 0
    settings: dict[int, int] = field(default_factory=dict)


class PoolCalls(GraphBook):
    """``cuMemAllocAsync``, ``cuMemFreeAsync`` and ``cuMemPool*``."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self.pools: dict[int, Pool] = {}
        self._default_pools: dict[int, Pool] = {}
        self._current_pools: dict[int, Pool] = {}

    def _default_pool(self, device: SimulatedDevice) -> Pool:
        pool = self._default_pools.get(device.ordinal)
        if pool is None:
            pool = Pool(self.new_handle(), device, True)
            self._default_pools[device.ordinal] = self.pools[pool.handle] = pool
        return pool

    def _pool(self, pool: Any) -> Pool:
        mem_pool = self.pools.get(integer(pool))
        if mem_pool is None:
            raise invalid_value()
        return mem_pool

    # Allocation

    @call(1)
    def cuMemAllocAsync(self, bytesize: Any, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        device = stream.context.device
        pool = self._current_pools.get(device.ordinal) or self._default_pool(device)
        return self._allocate(unsigned(bytesize), pool, stream)

    @call(1)
    def cuMemAllocFromPoolAsync(self, bytesize: Any, pool: Any, hStream: Any) -> tuple[Any, ...]:
        return self._allocate(unsigned(bytesize), self._pool(pool), self.stream(hStream))

    def _allocate(self, size: int, pool: Pool, stream: Stream) -> tuple[Any, ...]:
        if pool.device is not stream.context.device:
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        if stream.capture is not None:
            stream.capture.check()
            work = self.allocation_work(stream.capture.graph, stream.context, size)
            self.submit(stream, work)
            return SUCCESS, cuda.CUdeviceptr(work.graph_allocation.allocation.base)
        record = self.allocate(stream.context, size, "cuMemAllocAsync")
        record.pool = pool
        pool.used += record.charged
        pool.high = max(pool.high, pool.used)
        observer = self.observer
        if observer is not None:
            # What uses the memory has to come after this place in the stream.
            allocation = record.allocation
            self.enqueue(stream, f"allocation of {size} bytes", lambda: observer.allocated(allocation))
        return SUCCESS, cuda.CUdeviceptr(record.allocation.base)

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
        # Later allocations may have the memory in stream order, so it counts as free from here on.
        if record.context is not None:
            record.context.device.used -= record.charged
        if record.pool is not None:
            record.pool.used -= record.charged
        record.charged = 0
        stack = self.recorder.take()

        def run() -> None:
            if self.records.get(address) is record:
                self.release(record, stack)

        self.enqueue(stream, f"free of {record.allocation.size} bytes", run)
        return OK

    # Pools

    @call(1)
    def cuDeviceGetDefaultMemPool(self, dev: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUmemoryPool(self._default_pool(self.device(dev)).handle)

    @call(1)
    def cuDeviceGetMemPool(self, dev: Any) -> tuple[Any, ...]:
        device = self.device(dev)
        pool = self._current_pools.get(device.ordinal) or self._default_pool(device)
        return SUCCESS, cuda.CUmemoryPool(pool.handle)

    @call()
    def cuDeviceSetMemPool(self, dev: Any, pool: Any) -> tuple[Any, ...]:
        device, mem_pool = self.device(dev), self._pool(pool)
        if mem_pool.device is not device:
            raise invalid_value()
        self._current_pools[device.ordinal] = mem_pool
        return OK

    @call(1)
    def cuMemPoolCreate(self, poolProps: Any) -> tuple[Any, ...]:
        if (
            structure(poolProps, cuda.CUmemPoolProps).allocType
            != cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        ):
            raise invalid_value()
        if poolProps.handleTypes != cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_NONE:
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        if poolProps.location.type != cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE:
            raise invalid_value()
        pool = Pool(self.new_handle(), self.device(poolProps.location.id), False)
        self.pools[pool.handle] = pool
        return SUCCESS, cuda.CUmemoryPool(pool.handle)

    @call()
    def cuMemPoolDestroy(self, pool: Any) -> tuple[Any, ...]:
        mem_pool = self._pool(pool)
        if mem_pool.default:
            raise invalid_value()
        del self.pools[mem_pool.handle]
        if self._current_pools.get(mem_pool.device.ordinal) is mem_pool:
            del self._current_pools[mem_pool.device.ordinal]
        return OK

    @call()
    def cuMemPoolTrimTo(self, pool: Any, minBytesToKeep: Any) -> tuple[Any, ...]:
        self._pool(pool)
        unsigned(minBytesToKeep)
        return OK

    @call(1)
    def cuMemPoolGetAttribute(self, pool: Any, attr: Any) -> tuple[Any, ...]:
        mem_pool, attribute = self._pool(pool), _attribute(attr)
        number = cuda.cuuint64_t
        if attribute in _SWITCHES:
            return SUCCESS, mem_pool.settings.get(int(attribute), 1)
        if attribute == _ATTRIBUTES.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            return SUCCESS, number(mem_pool.settings.get(int(attribute), 0))
        if attribute in _HIGH:
            return SUCCESS, number(mem_pool.high)
        if attribute in (
            _ATTRIBUTES.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
            _ATTRIBUTES.CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
        ):
            return SUCCESS, number(mem_pool.used)
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)

    @call()
    def cuMemPoolSetAttribute(self, pool: Any, attr: Any, value: Any) -> tuple[Any, ...]:
        mem_pool, attribute, number = self._pool(pool), _attribute(attr), integer(value)
        if attribute in _HIGH:
            if number != 0:
                raise invalid_value()
            mem_pool.high = mem_pool.used
        elif attribute in _SWITCHES or attribute == _ATTRIBUTES.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
            mem_pool.settings[int(attribute)] = number
        else:
            raise invalid_value()
        return OK


def _attribute(attr: Any) -> cuda.CUmemPool_attribute:
    try:
        return _ATTRIBUTES(integer(attr))
    except ValueError:
        raise invalid_value() from None
