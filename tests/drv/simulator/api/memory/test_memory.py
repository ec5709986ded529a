from __future__ import annotations

import ctypes

import numpy as np
from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine

POINTER = cuda.CUpointer_attribute
MIB = 1 << 20


def test_allocation_counts_and_comes_back(machine: Machine) -> None:
    free, total = machine.cuMemGetInfo()
    assert free == total == 2 << 30
    memory = machine.device_memory(1000)
    assert memory % 512 == 0
    assert machine.cuMemGetInfo()[0] == free - 1024
    machine.cuMemFree(memory)
    assert machine.cuMemGetInfo()[0] == free


def test_out_of_memory_at_the_limit_of_the_device() -> None:
    machine = Machine("devices=2,memory=1MiB/2MiB")
    first = machine.device_memory(MIB - 512)
    assert machine.status("cuMemAlloc", 1024) == "OUT_OF_MEMORY"
    second = machine.device_memory(512)
    machine.cuMemFree(first)
    machine.cuMemFree(second)
    machine.device_memory(MIB)
    machine.use(1)
    machine.device_memory(2 * MIB)
    assert machine.status("cuMemAlloc", 1 << 60) == "OUT_OF_MEMORY"


def test_fresh_memory_is_zero_and_a_freed_address_is_not_given_out_again(machine: Machine) -> None:
    seen = set()
    for _ in range(50):
        memory = machine.device_memory(4096)
        assert not machine.peek(memory, 4096).any()
        machine.poke(memory, np.ones(4096))
        machine.cuMemFree(memory)
        assert memory not in seen
        seen.add(memory)


def test_devices_have_their_own_addresses(machine: Machine) -> None:
    here = machine.device_memory(64)
    machine.use(1)
    there = machine.device_memory(64)
    assert machine.cuPointerGetAttribute(POINTER.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, here) == 0
    assert machine.cuPointerGetAttribute(POINTER.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there + 63) == 1
    assert machine.status(
        "cuPointerGetAttribute", POINTER.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there + 64
    ) == ("INVALID_VALUE")


def test_free_errors(machine: Machine) -> None:
    memory = machine.device_memory(64)
    assert machine.status("cuMemFree", memory + 8) == "INVALID_VALUE"
    assert machine.status("cuMemFree", 0) == "SUCCESS"
    machine.cuMemFree(memory)
    assert machine.status("cuMemFree", memory) == "INVALID_VALUE"
    host, _ = machine.pinned(64)
    assert machine.status("cuMemFree", host) == "INVALID_VALUE"
    assert machine.status("cuMemFreeHost", memory) == "INVALID_VALUE"


def test_free_waits_for_the_context(lazy: Machine) -> None:
    stream, memory = lazy.stream(), lazy.device_memory(64)
    lazy.mark(stream, "work")
    lazy.use(1)
    lazy.mark(lazy.stream(), "other device")
    lazy.cuMemFree(memory)
    assert lazy.log == ["work"]


def test_pitch(machine: Machine) -> None:
    memory, pitch = machine.cuMemAllocPitch(100, 7, 4)
    assert pitch >= 100
    assert pitch % 512 == 0
    base, size = machine.cuMemGetAddressRange(int(memory) + 3 * pitch)
    assert (int(base), size) == (int(memory), 7 * pitch)
    assert machine.status("cuMemAllocPitch", 100, 7, 3) == "INVALID_VALUE"
    machine.cuMemFree(memory)


def test_address_range_of_nothing(machine: Machine) -> None:
    assert machine.status("cuMemGetAddressRange", 0x1234) == "NOT_FOUND"


def test_pinned_memory_is_host_memory(machine: Machine) -> None:
    address, array = machine.pinned(10_000)
    assert address % 4096 == 0
    array[:] = 7
    assert (machine.peek(address, 10_000) == 7).all()
    assert int(machine.cuMemHostGetDevicePointer(address, 0)) == address
    assert machine.cuMemHostGetFlags(address) & cuda.CU_MEMHOSTALLOC_DEVICEMAP
    del array
    machine.cuMemFreeHost(address)
    assert machine.status("cuMemFreeHost", address) == "INVALID_VALUE"
    assert machine.status("cuMemHostGetFlags", address) == "INVALID_VALUE"


def test_registered_memory(machine: Machine) -> None:
    array = np.zeros(8192, np.uint8)
    machine.cuMemHostRegister(array, array.nbytes, 0)
    address = array.ctypes.data
    assert machine.cuPointerGetAttribute(POINTER.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == 1
    assert machine.status("cuMemHostRegister", address + 100, 10, 0) == "HOST_MEMORY_ALREADY_REGISTERED"
    array[5] = 9
    assert machine.peek(address + 5, 1)[0] == 9
    machine.cuMemHostUnregister(array)
    assert machine.status("cuMemHostUnregister", array) == "HOST_MEMORY_NOT_REGISTERED"
    assert machine.status("cuPointerGetAttribute", POINTER.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == (
        "INVALID_VALUE"
    )


def test_registering_what_is_no_memory(machine: Machine) -> None:
    assert machine.status("cuMemHostRegister", 0x10, 4096, 0) == "INVALID_VALUE"
    assert machine.status("cuMemHostRegister", 0, 4096, 0) == "INVALID_VALUE"
    assert machine.status("cuMemHostRegister", 1 << 46, 4096, 0) == "INVALID_VALUE"


def test_pointer_attributes(machine: Machine) -> None:
    memory = machine.device_memory(256)
    host, _ = machine.pinned(256)

    def attribute(name: str, address: int) -> object:
        return machine.cuPointerGetAttribute(getattr(POINTER, f"CU_POINTER_ATTRIBUTE_{name}"), address)

    assert attribute("MEMORY_TYPE", memory) == cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
    assert attribute("MEMORY_TYPE", host) == cuda.CUmemorytype.CU_MEMORYTYPE_HOST
    assert int(attribute("CONTEXT", memory)) == int(machine.contexts[0])  # type: ignore[call-overload]
    assert int(attribute("RANGE_START_ADDR", memory + 9)) == memory  # type: ignore[call-overload]
    assert attribute("RANGE_SIZE", memory) == 256
    assert attribute("HOST_POINTER", host + 3) == host + 3
    assert int(attribute("DEVICE_POINTER", host + 3)) == host + 3  # type: ignore[call-overload]
    assert attribute("IS_MANAGED", memory) is False
    assert attribute("BUFFER_ID", memory) != attribute("BUFFER_ID", host)
    assert machine.status("cuPointerGetAttribute", POINTER.CU_POINTER_ATTRIBUTE_HOST_POINTER, memory) == (
        "INVALID_VALUE"
    )


def test_pointer_attributes_of_an_unknown_address(machine: Machine) -> None:
    expected = [POINTER.CU_POINTER_ATTRIBUTE_CONTEXT, POINTER.CU_POINTER_ATTRIBUTE_RANGE_SIZE]
    context, size = machine.cuPointerGetAttributes(2, expected, 0x5000)
    assert int(context) == 0
    assert size == 0
    assert machine.status("cuPointerGetAttributes", 3, expected, 0x5000) == "INVALID_VALUE"


def test_sync_memops(machine: Machine) -> None:
    memory = machine.device_memory(64)
    attribute = POINTER.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
    assert machine.cuPointerGetAttribute(attribute, memory) is False
    machine.cuPointerSetAttribute(1, attribute, memory)
    assert machine.cuPointerGetAttribute(attribute, memory) is True


def test_execute_off_commits_no_memory() -> None:
    machine = Machine("execute=off,memory=1TiB")
    memory = machine.device_memory(1 << 39)
    allocation = machine.driver.memory.find(memory)
    assert allocation is not None
    assert allocation.data.nbytes == 0
    assert machine.status("cuMemAlloc", 1 << 40) == "OUT_OF_MEMORY"
    machine.cuMemsetD8Async(memory, 1, 1 << 38, 0)
    machine.cuMemFree(memory)


def test_allocations_carry_the_python_line(machine: Machine) -> None:
    memory = machine.cuMemAlloc(64)
    allocation = machine.driver.memory.find(int(memory))
    assert allocation is not None
    names = [name for name, _, _ in allocation.stack]
    assert any(name.endswith("test_memory.py") for name in names)
    assert not any("/drv/" in name for name in names if "/tests/" not in name)
    silent = Machine(check="off")
    quiet = silent.driver.memory.find(silent.device_memory(64))
    assert quiet is not None
    assert quiet.stack == ()


def test_a_finalizer_in_the_middle_of_a_call_is_put_off(machine: Machine) -> None:
    """The garbage collector may run a finalizer that frees memory while an operation runs."""
    memory = machine.device_memory(64)
    stream = machine.stream()
    answers = []

    def run(view: object) -> None:
        assert machine.driver.busy()
        answers.append(machine.driver.cuMemFree(memory))

    assert machine.driver.library_call(stream, "collects garbage", run)[0] == 0
    assert [int(status) for (status,) in answers] == [0]
    assert not machine.driver.busy()
    machine.device_memory(64)
    assert machine.driver.memory.find(memory) is None


def test_ctypes_memory_as_a_void_pointer(machine: Machine) -> None:
    buffer = (ctypes.c_uint8 * 4096)()
    machine.cuMemHostRegister(buffer, 4096, 0)
    machine.cuMemHostUnregister(ctypes.addressof(buffer))
