from __future__ import annotations

import threading

from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine


def test_current_context_is_per_thread(machine: Machine) -> None:
    seen = []

    def other() -> None:
        seen.append(int(machine.cuCtxGetCurrent()))
        seen.append(machine.status("cuMemAlloc", 16))
        machine.use(1)
        seen.append(int(machine.cuCtxGetDevice()))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [0, "INVALID_CONTEXT", 1]
    assert int(machine.cuCtxGetDevice()) == 0


def test_push_and_pop(machine: Machine) -> None:
    first, second = machine.contexts
    machine.cuCtxPushCurrent(second)
    assert int(machine.cuCtxGetDevice()) == 1
    assert int(machine.cuCtxPopCurrent()) == int(second)
    assert int(machine.cuCtxGetCurrent()) == int(first)
    machine.cuCtxSetCurrent(None)
    assert machine.status("cuCtxPopCurrent") == "INVALID_CONTEXT"
    assert machine.status("cuCtxGetDevice") == "INVALID_CONTEXT"
    assert machine.status("cuCtxPushCurrent", 12345) == "INVALID_CONTEXT"


def test_primary_context_is_one_per_device_and_counted() -> None:
    machine = Machine()
    second = machine.cuDevicePrimaryCtxRetain(0)
    assert int(second) == int(machine.contexts[0])
    machine.cuDevicePrimaryCtxRelease(0)
    assert machine.cuDevicePrimaryCtxGetState(0) == (0, 1)
    memory = machine.device_memory(16)
    machine.cuDevicePrimaryCtxRelease(0)
    assert machine.cuDevicePrimaryCtxGetState(0) == (0, 0)
    assert machine.status("cuDevicePrimaryCtxRelease", 0) == "INVALID_CONTEXT"
    assert machine.status("cuCtxSynchronize") == "CONTEXT_IS_DESTROYED"
    machine.cuDevicePrimaryCtxRetain(0)
    machine.cuCtxSynchronize()
    assert machine.status("cuMemFree", memory) == "INVALID_VALUE"


def test_reset_destroys_what_the_primary_context_holds(machine: Machine) -> None:
    stream, event, memory = machine.stream(), machine.event(), machine.device_memory(1 << 20)
    other = Machine(devices=1)
    machine.cuDevicePrimaryCtxReset(0)
    assert machine.status("cuStreamSynchronize", stream) == "INVALID_HANDLE"
    assert machine.status("cuEventQuery", event) == "INVALID_HANDLE"
    machine.cuDevicePrimaryCtxRetain(0)
    free, total = machine.cuMemGetInfo()
    assert free == total
    assert machine.status("cuPointerGetAttribute", 2, memory) == "INVALID_VALUE"
    assert other.cuMemGetInfo()[0] == total


def test_flags(machine: Machine) -> None:
    machine.cuDevicePrimaryCtxSetFlags(0, cuda.CUctx_flags.CU_CTX_SCHED_BLOCKING_SYNC)
    assert machine.cuDevicePrimaryCtxGetState(0) == (4, 1)
    assert machine.cuCtxGetFlags() == 4
    assert machine.status("cuDevicePrimaryCtxSetFlags", 0, 1 << 20) == "INVALID_VALUE"
    assert machine.status("cuDevicePrimaryCtxSetFlags", 0, 3) == "INVALID_VALUE"


def test_created_contexts(machine: Machine) -> None:
    context = machine.cuCtxCreate(None, 0, 1)
    assert int(machine.cuCtxGetCurrent()) == int(context)
    memory = machine.device_memory(4096)
    assert machine.cuMemGetInfo()[0] < machine.cuMemGetInfo()[1]
    machine.cuCtxDestroy(context)
    assert int(machine.cuCtxGetDevice()) == 0
    assert machine.status("cuCtxSetCurrent", context) == "INVALID_CONTEXT"
    assert machine.status("cuMemFree", memory) == "INVALID_VALUE"
    assert machine.status("cuCtxDestroy", context) == "INVALID_CONTEXT"
    assert machine.status("cuCtxDestroy", machine.contexts[0]) == "INVALID_CONTEXT"


def test_destroyed_context_that_is_current_elsewhere_says_so(machine: Machine) -> None:
    context = machine.cuCtxCreate(None, 0, 0)
    machine.cuCtxPushCurrent(machine.contexts[0])
    machine.cuCtxDestroy(context)
    machine.cuCtxPopCurrent()
    assert machine.status("cuCtxSynchronize") == "CONTEXT_IS_DESTROYED"


def test_limits(machine: Machine) -> None:
    stack = cuda.CUlimit.CU_LIMIT_STACK_SIZE
    assert machine.cuCtxGetLimit(stack) == 1024
    machine.cuCtxSetLimit(stack, 4096)
    assert machine.cuCtxGetLimit(stack) == 4096
    machine.use(1)
    assert machine.cuCtxGetLimit(stack) == 1024
    assert machine.status("cuCtxGetLimit", cuda.CUlimit.CU_LIMIT_SHMEM_SIZE) == "UNSUPPORTED_LIMIT"
    assert machine.status("cuCtxGetLimit", 999) == "INVALID_VALUE"


def test_priority_range(machine: Machine) -> None:
    least, greatest = machine.cuCtxGetStreamPriorityRange()
    assert (least, greatest) == (0, -5)
    stream = machine.cuStreamCreateWithPriority(1, -99)
    assert machine.cuStreamGetPriority(stream) == greatest


def test_uses_of_a_context_are_counted(machine: Machine) -> None:
    context = machine.cuCtxCreate(None, 0, 0)
    assert int(machine.cuCtxAttach(0)) == int(context)
    machine.cuCtxDetach(context)
    assert int(machine.cuCtxGetCurrent()) == int(context)
    machine.cuCtxDetach(context)
    assert machine.status("cuCtxDetach", context) == "INVALID_CONTEXT"
    assert machine.status("cuCtxAttach", 1) == "INVALID_VALUE"


def test_banks_of_shared_memory_have_four_bytes(machine: Machine) -> None:
    sizes = cuda.CUsharedconfig
    machine.cuCtxSetSharedMemConfig(sizes.CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
    assert machine.cuCtxGetSharedMemConfig() == sizes.CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE
    assert machine.status("cuCtxSetSharedMemConfig", 9) == "INVALID_VALUE"
