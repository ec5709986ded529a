from __future__ import annotations

from typing import TYPE_CHECKING

from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]

POOL = cuda.CUmemPool_attribute


def test_memory_lives_until_its_free_runs(lazy: Machine) -> None:
    stream = lazy.stream()
    memory = int(lazy.cuMemAllocAsync(1000, stream))
    lazy.cuMemsetD8Async(memory, 5, 1000, stream)
    lazy.cuMemFreeAsync(memory, stream)
    assert lazy.driver.memory.find(memory) is not None
    lazy.cuStreamSynchronize(stream)
    assert lazy.driver.memory.find(memory) is None
    assert lazy.status("cuMemFreeAsync", memory, stream) == "INVALID_VALUE"


def test_use_after_the_free_in_stream_order_is_a_fault(lazy: Machine) -> None:
    stream = lazy.stream()
    memory = int(lazy.cuMemAllocAsync(1000, stream))
    lazy.cuMemFreeAsync(memory, stream)
    lazy.cuMemsetD8Async(memory, 5, 1000, stream)
    assert lazy.status("cuStreamSynchronize", stream) == "ILLEGAL_ADDRESS"


def test_freed_memory_can_be_had_again_in_stream_order() -> None:
    machine = Machine(schedule="lazy", memory="1MiB")
    stream = machine.stream()
    for _ in range(10):
        memory = machine.cuMemAllocAsync(800 << 10, stream)
        assert machine.status("cuMemAllocAsync", 800 << 10, stream) == "OUT_OF_MEMORY"
        machine.cuMemFreeAsync(memory, stream)
    machine.cuStreamSynchronize(stream)
    assert machine.cuMemGetInfo()[0] == 1 << 20


def test_both_ways_to_free(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream = machine.stream()
    machine.cuMemFreeAsync(machine.cuMemAlloc(64), stream)
    machine.cuMemFree(machine.cuMemAllocAsync(64, stream))
    machine.cuCtxSynchronize()
    assert machine.cuMemGetInfo()[0] == 2 << 30


def test_statistics(machine: Machine) -> None:
    pool = machine.cuDeviceGetDefaultMemPool(0)
    assert int(machine.cuDeviceGetMemPool(0)) == int(pool)
    memory = machine.cuMemAllocAsync(1 << 20, 0)
    used = POOL.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    high = POOL.CU_MEMPOOL_ATTR_USED_MEM_HIGH
    assert int(machine.cuMemPoolGetAttribute(pool, used)) == 1 << 20
    machine.cuMemFreeAsync(memory, 0)
    assert int(machine.cuMemPoolGetAttribute(pool, used)) == 0
    assert int(machine.cuMemPoolGetAttribute(pool, high)) == 1 << 20
    machine.cuMemPoolSetAttribute(pool, high, cuda.cuuint64_t(0))
    assert int(machine.cuMemPoolGetAttribute(pool, high)) == 0
    threshold = POOL.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    machine.cuMemPoolSetAttribute(pool, threshold, cuda.cuuint64_t(77))
    assert int(machine.cuMemPoolGetAttribute(pool, threshold)) == 77
    assert machine.status("cuMemPoolSetAttribute", pool, used, 1) == "INVALID_VALUE"
    machine.cuMemPoolTrimTo(pool, 0)


def test_a_pool_of_ones_own(machine: Machine) -> None:
    properties = cuda.CUmemPoolProps()
    properties.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = 1
    pool = machine.cuMemPoolCreate(properties)
    assert machine.status("cuMemAllocFromPoolAsync", 64, pool, 0) == "NOT_SUPPORTED"
    assert machine.status("cuDeviceSetMemPool", 0, pool) == "INVALID_VALUE"
    machine.use(1)
    memory = machine.cuMemAllocFromPoolAsync(64, pool, 0)
    attribute = cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
    assert int(machine.cuPointerGetAttribute(attribute, memory)) == int(pool)
    machine.cuDeviceSetMemPool(1, pool)
    assert int(machine.cuDeviceGetMemPool(1)) == int(pool)
    machine.cuMemPoolDestroy(pool)
    assert machine.status("cuMemPoolTrimTo", pool, 0) == "INVALID_VALUE"
    assert int(machine.cuDeviceGetMemPool(1)) == int(machine.cuDeviceGetDefaultMemPool(1))
    assert machine.status("cuMemPoolDestroy", machine.cuDeviceGetDefaultMemPool(1)) == "INVALID_VALUE"
