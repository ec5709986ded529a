from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from cuda.bindings import driver as cuda

from tests.drv.simulator.compiled import KERNELS, ptx
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


def own_pool(machine: Machine, *, handles: int = 0, kind: str = "DEVICE", size: int = 0) -> cuda.CUmemoryPool:
    properties = cuda.CUmemPoolProps()
    properties.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = getattr(cuda.CUmemLocationType, f"CU_MEM_LOCATION_TYPE_{kind}")
    properties.handleTypes = cuda.CUmemAllocationHandleType(handles)
    properties.maxSize = size
    return machine.cuMemPoolCreate(properties)


def number(machine: Machine, pool: cuda.CUmemoryPool, name: str) -> int:
    return int(machine.cuMemPoolGetAttribute(pool, getattr(POOL, f"CU_MEMPOOL_ATTR_{name}")))


def set_number(machine: Machine, pool: cuda.CUmemoryPool, name: str, value: int) -> None:
    attribute = getattr(POOL, f"CU_MEMPOOL_ATTR_{name}")
    wide = not name.startswith("REUSE")
    machine.cuMemPoolSetAttribute(pool, attribute, cuda.cuuint64_t(value) if wide else value)


def test_a_pool_keeps_what_is_below_its_threshold(machine: Machine) -> None:
    pool = own_pool(machine)
    stream = machine.stream()
    set_number(machine, pool, "RELEASE_THRESHOLD", 1 << 20)
    first, second = (machine.cuMemAllocFromPoolAsync(1 << 20, pool, stream) for _ in range(2))
    machine.cuMemFreeAsync(first, stream)
    machine.cuMemFreeAsync(second, stream)
    assert number(machine, pool, "RESERVED_MEM_CURRENT") == 2 << 20
    free = machine.cuMemGetInfo()[0]
    machine.cuStreamSynchronize(stream)
    assert number(machine, pool, "RESERVED_MEM_CURRENT") == 1 << 20
    assert machine.cuMemGetInfo()[0] == free + (1 << 20)
    # The next allocation is served from what was kept.
    machine.cuMemAllocFromPoolAsync(1 << 20, pool, stream)
    assert machine.cuMemGetInfo()[0] == free + (1 << 20)
    assert number(machine, pool, "RESERVED_MEM_HIGH") == 2 << 20


def test_trimming_keeps_what_is_asked_for(machine: Machine) -> None:
    pool = own_pool(machine)
    set_number(machine, pool, "RELEASE_THRESHOLD", 1 << 30)
    blocks = [machine.cuMemAllocFromPoolAsync(1 << 20, pool, 0) for _ in range(4)]
    for block in blocks[1:]:
        machine.cuMemFreeAsync(block, 0)
    machine.cuCtxSynchronize()
    assert number(machine, pool, "RESERVED_MEM_CURRENT") == 4 << 20
    machine.cuMemPoolTrimTo(pool, 2 << 20)
    assert number(machine, pool, "RESERVED_MEM_CURRENT") == 2 << 20
    machine.cuMemPoolTrimTo(pool, 0)
    assert number(machine, pool, "RESERVED_MEM_CURRENT") == 1 << 20


def test_what_pools_keep_is_let_go_of_before_memory_runs_out() -> None:
    machine = Machine(memory="4MiB")
    pool = own_pool(machine)
    set_number(machine, pool, "RELEASE_THRESHOLD", 1 << 30)
    machine.cuMemFreeAsync(machine.cuMemAllocFromPoolAsync(3 << 20, pool, 0), 0)
    machine.cuCtxSynchronize()
    assert machine.cuMemGetInfo()[0] == 1 << 20
    machine.cuMemAlloc(3 << 20)
    assert number(machine, pool, "RESERVED_MEM_CURRENT") == 0


def test_a_pool_has_at_most_its_size(machine: Machine) -> None:
    pool = own_pool(machine, size=1 << 20)
    machine.cuMemAllocFromPoolAsync(1 << 20, pool, 0)
    assert machine.status("cuMemAllocFromPoolAsync", 1, pool, 0) == "OUT_OF_MEMORY"


def reserved_by_another_stream(
    machine: Machine, *, policies: dict[str, int], waits: bool = False, done: bool = False
) -> int:
    """Bytes that a pool reserves for two streams that have a megabyte one after the other."""
    pool = own_pool(machine)
    set_number(machine, pool, "RELEASE_THRESHOLD", 1 << 30)
    for name in ("FOLLOW_EVENT_DEPENDENCIES", "ALLOW_OPPORTUNISTIC", "ALLOW_INTERNAL_DEPENDENCIES"):
        set_number(machine, pool, f"REUSE_{name}", policies.get(name, 0))
    first, second = machine.stream(), machine.stream()
    memory = machine.cuMemAllocFromPoolAsync(1 << 20, pool, first)
    machine.cuMemFreeAsync(memory, first)
    event = machine.event()
    machine.cuEventRecord(event, first)
    if waits:
        machine.cuStreamWaitEvent(second, event, 0)
    if done:
        machine.cuStreamSynchronize(first)
    second_address = int(machine.cuMemAllocFromPoolAsync(1 << 20, pool, second))
    machine.cuMemsetD8Async(second_address, 1, 1 << 20, second)
    machine.cuCtxSynchronize()
    return number(machine, pool, "RESERVED_MEM_CURRENT")


def test_policies_of_reuse_between_streams() -> None:
    def reserved(policy: str | None, **options: bool) -> int:
        policies = {} if policy is None else {policy: 1}
        return reserved_by_another_stream(Machine(schedule="lazy"), policies=policies, **options) >> 20

    assert reserved(None, waits=True) == 2
    assert reserved("FOLLOW_EVENT_DEPENDENCIES", waits=True) == 1
    assert reserved("FOLLOW_EVENT_DEPENDENCIES") == 2
    assert reserved("ALLOW_OPPORTUNISTIC") == 2
    assert reserved("ALLOW_OPPORTUNISTIC", done=True) == 1
    assert reserved("ALLOW_INTERNAL_DEPENDENCIES") == 1


def test_internal_dependencies_order_the_streams() -> None:
    machine = Machine(schedule="lazy")
    pool = own_pool(machine)
    first, second = machine.stream(), machine.stream()
    memory = int(machine.cuMemAllocFromPoolAsync(1 << 20, pool, first))
    machine.mark(first, "first")
    machine.cuMemFreeAsync(memory, first)
    machine.cuMemAllocFromPoolAsync(1 << 20, pool, second)
    machine.mark(second, "second")
    machine.cuStreamSynchronize(second)
    assert machine.log == ["first", "second"]


def test_access_of_other_devices() -> None:
    flags = cuda.CUmemAccess_flags
    grant = cuda.CUmemAccessDesc()
    grant.location.type, grant.location.id = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 1
    grant.flags = flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    for granted in (False, True):
        machine = Machine(devices=2, schedule="lazy")
        pool = own_pool(machine)
        assert machine.cuMemPoolGetAccess(pool, grant.location) == flags.CU_MEM_ACCESS_FLAGS_PROT_NONE
        if granted:
            machine.cuMemPoolSetAccess(pool, [grant], 1)
            assert (
                machine.cuMemPoolGetAccess(pool, grant.location) == flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            )
        memory = int(machine.cuMemAllocFromPoolAsync(64, pool, 0))
        machine.cuMemsetD8(memory, 0, 64)
        machine.use(1)
        axpy = machine.cuModuleGetFunction(machine.cuModuleLoadData(ptx(KERNELS)), b"axpy")
        arguments = (
            (memory, memory, 1.0, 16),
            (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_int),
        )
        machine.cuLaunchKernel(axpy, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0)
        assert machine.status("cuCtxSynchronize") == ("SUCCESS" if granted else "ILLEGAL_ADDRESS")


def test_access_needs_peers() -> None:
    machine = Machine(devices=2, peers="none")
    pool = own_pool(machine)
    grant = cuda.CUmemAccessDesc()
    grant.location.type, grant.location.id = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 1
    grant.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    assert machine.status("cuMemPoolSetAccess", pool, [grant], 1) == "INVALID_DEVICE"
    grant.location.id = 0
    grant.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READ
    assert machine.status("cuMemPoolSetAccess", pool, [grant], 1) == "INVALID_VALUE"


def test_a_pool_of_the_hosts_memory(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    pool = own_pool(machine, kind="HOST")
    stream = machine.stream()
    free = machine.cuMemGetInfo()[0]
    memory = int(machine.cuMemAllocFromPoolAsync(64, pool, stream))
    machine.cuMemsetD8Async(memory, 3, 64, stream)
    machine.cuStreamSynchronize(stream)
    assert ctypes.string_at(memory, 64) == b"\3" * 64
    assert machine.cuMemGetInfo()[0] == free
    assert number(machine, pool, "USED_MEM_CURRENT") == 512
    machine.cuMemFreeAsync(memory, stream)
    machine.cuStreamSynchronize(stream)
    assert number(machine, pool, "USED_MEM_CURRENT") == 0


def test_the_pool_of_a_place(machine: Machine) -> None:
    pinned = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    where = cuda.CUmemLocation()
    where.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    default = machine.cuMemGetDefaultMemPool(where, pinned)
    assert int(default) == int(machine.cuDeviceGetDefaultMemPool(0))
    pool = own_pool(machine)
    machine.cuMemSetMemPool(where, pinned, pool)
    assert int(machine.cuMemGetMemPool(where, pinned)) == int(pool) == int(machine.cuDeviceGetMemPool(0))
    where.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST
    assert machine.status("cuMemSetMemPool", where, pinned, pool) == "INVALID_VALUE"
    assert int(machine.cuMemGetMemPool(where, pinned)) != int(pool)


def test_a_pool_that_is_destroyed_gives_its_memory_back_with_the_last_free(machine: Machine) -> None:
    free = machine.cuMemGetInfo()[0]
    pool = own_pool(machine)
    set_number(machine, pool, "RELEASE_THRESHOLD", 1 << 30)
    memory = machine.cuMemAllocFromPoolAsync(1 << 20, pool, 0)
    machine.cuMemFreeAsync(machine.cuMemAllocFromPoolAsync(1 << 20, pool, 0), 0)
    machine.cuMemPoolDestroy(pool)
    assert machine.cuMemGetInfo()[0] == free - (1 << 20)
    machine.cuMemFreeAsync(memory, 0)
    assert machine.cuMemGetInfo()[0] == free
