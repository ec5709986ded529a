from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.compiled import KERNELS, ptx
from tests.drv.simulator.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]

GLOBAL, HOST, SINGLE = 1, 2, 4
ADVICE = cuda.CUmem_advise
ATTRIBUTE = cuda.CUmem_range_attribute
TYPE = cuda.CUmemLocationType
PAGE = 4096


def location(kind: TYPE, number: int = 0) -> cuda.CUmemLocation:
    result = cuda.CUmemLocation()
    result.type, result.id = kind, number
    return result


DEVICE = location(TYPE.CU_MEM_LOCATION_TYPE_DEVICE)
CPU = location(TYPE.CU_MEM_LOCATION_TYPE_HOST)


def managed(machine: Machine, nbytes: int, flags: int = GLOBAL) -> tuple[int, np.ndarray]:
    address = int(machine.cuMemAllocManaged(nbytes, flags))
    return address, np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def query(machine: Machine, address: int, nbytes: int, name: str, size: int = 4) -> Any:
    return machine.cuMemRangeGetAttribute(
        size, getattr(ATTRIBUTE, f"CU_MEM_RANGE_ATTRIBUTE_{name}"), address, nbytes
    )


def test_the_host_and_every_device_have_it_at_one_address(any_schedule: MachineMaker) -> None:
    machine = any_schedule(devices=2)
    address, array = managed(machine, 4000)
    array[:] = 3
    for ordinal in range(2):
        machine.use(ordinal)
        module = machine.cuModuleLoadData(ptx(KERNELS))
        count = 1000
        values = array.view(np.float32)
        values[:] = 1.0
        axpy = machine.cuModuleGetFunction(module, b"axpy")
        arguments = (
            (address, address, 2.0, count),
            (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_int),
        )
        machine.cuLaunchKernel(axpy, 4, 1, 1, 256, 1, 1, 0, 0, arguments, 0)
        machine.cuCtxSynchronize()
        assert (values == 3.0).all()
    machine.cuMemFree(address)


def test_what_it_is(machine: Machine) -> None:
    address, _ = managed(machine, 100)
    attribute = cuda.CUpointer_attribute
    assert machine.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED, address)
    assert int(machine.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_HOST_POINTER, address)) == address
    assert (
        int(machine.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address)) == address
    )
    memory = machine.device_memory(64)
    assert not machine.cuPointerGetAttribute(attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED, memory)
    before = machine.cuMemGetInfo()
    other, _ = managed(machine, 1 << 20)
    assert machine.cuMemGetInfo() == before
    machine.cuMemFree(other)
    assert machine.status("cuMemFree", other) == "INVALID_VALUE"


def test_copies_to_and_from_it(machine: Machine) -> None:
    address, array = managed(machine, 256)
    memory = machine.device_memory(256)
    machine.cuMemsetD8(memory, 9, 256)
    machine.cuMemcpy(address, memory, 256)
    assert (array == 9).all()
    array[:] = 4
    machine.cuMemcpyDtoD(memory, address, 256)
    assert (machine.peek(memory, 256) == 4).all()


def test_advice_is_remembered_page_by_page(machine: Machine) -> None:
    address, _ = managed(machine, 4 * PAGE)
    assert query(machine, address, PAGE, "READ_MOSTLY") == 0
    machine.cuMemAdvise(address, 2 * PAGE, ADVICE.CU_MEM_ADVISE_SET_READ_MOSTLY, CPU)
    assert query(machine, address, 2 * PAGE, "READ_MOSTLY") == 1
    assert query(machine, address, 3 * PAGE, "READ_MOSTLY") == 0
    machine.cuMemAdvise(address, 1, ADVICE.CU_MEM_ADVISE_UNSET_READ_MOSTLY, CPU)
    assert query(machine, address, PAGE, "READ_MOSTLY") == 0
    assert query(machine, address + PAGE, PAGE, "READ_MOSTLY") == 1

    invalid = int(cuda.CU_DEVICE_INVALID)
    assert query(machine, address, PAGE, "PREFERRED_LOCATION") == invalid
    second = location(TYPE.CU_MEM_LOCATION_TYPE_DEVICE, 1)
    machine.cuMemAdvise(address, PAGE, ADVICE.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, second)
    machine.cuMemAdvise(address + PAGE, PAGE, ADVICE.CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CPU)
    assert query(machine, address, PAGE, "PREFERRED_LOCATION") == 1
    assert query(machine, address + PAGE, PAGE, "PREFERRED_LOCATION") == int(cuda.CU_DEVICE_CPU)
    assert query(machine, address, 2 * PAGE, "PREFERRED_LOCATION") == invalid
    assert query(machine, address, PAGE, "PREFERRED_LOCATION_TYPE") == int(TYPE.CU_MEM_LOCATION_TYPE_DEVICE)
    assert query(machine, address, PAGE, "PREFERRED_LOCATION_ID") == 1

    machine.cuMemAdvise(address, 4 * PAGE, ADVICE.CU_MEM_ADVISE_SET_ACCESSED_BY, DEVICE)
    machine.cuMemAdvise(address, 4 * PAGE, ADVICE.CU_MEM_ADVISE_SET_ACCESSED_BY, CPU)
    assert query(machine, address, PAGE, "ACCESSED_BY", 12) == [0, int(cuda.CU_DEVICE_CPU), invalid]
    machine.cuMemAdvise(address, PAGE, ADVICE.CU_MEM_ADVISE_UNSET_ACCESSED_BY, DEVICE)
    assert query(machine, address, PAGE, "ACCESSED_BY", 4) == [int(cuda.CU_DEVICE_CPU)]
    answers = machine.cuMemRangeGetAttributes(
        [4, 4],
        [
            ATTRIBUTE.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
            ATTRIBUTE.CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
        ],
        2,
        address,
        PAGE,
    )
    assert [int(each) for each in answers] == [0, 1]


def test_prefetches(any_schedule: MachineMaker) -> None:
    machine = any_schedule(devices=2)
    address, array = managed(machine, 4 * PAGE)
    array[:] = 5
    stream = machine.stream()
    second = location(TYPE.CU_MEM_LOCATION_TYPE_DEVICE, 1)
    machine.cuMemPrefetchAsync(address, PAGE, second, 0, stream)
    machine.cuMemPrefetchBatchAsync(
        [address + PAGE, address + 2 * PAGE, address + 3 * PAGE],
        [PAGE, PAGE, PAGE],
        3,
        [DEVICE, CPU],
        [0, 2],
        2,
        0,
        stream,
    )
    machine.cuStreamSynchronize(stream)
    last = "LAST_PREFETCH_LOCATION"
    places = [query(machine, address + page * PAGE, PAGE, last) for page in range(4)]
    assert places == [1, 0, 0, int(cuda.CU_DEVICE_CPU)]
    assert (array == 5).all()


@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("cuMemPrefetchAsync", ("m", 0, DEVICE, 0, "s"), "INVALID_VALUE"),
        ("cuMemPrefetchAsync", ("m", 2 * PAGE, DEVICE, 0, "s"), "INVALID_VALUE"),
        ("cuMemPrefetchAsync", ("m", PAGE, DEVICE, 1, "s"), "INVALID_VALUE"),
        ("cuMemPrefetchAsync", ("d", 64, DEVICE, 0, "s"), "INVALID_VALUE"),
        (
            "cuMemPrefetchAsync",
            ("m", 64, location(TYPE.CU_MEM_LOCATION_TYPE_DEVICE, 7), 0, "s"),
            "INVALID_DEVICE",
        ),
        ("cuMemPrefetchAsync", ("m", 64, cuda.CUmemLocation(), 0, "s"), "INVALID_VALUE"),
        ("cuMemAdvise", ("m", 64, 77, DEVICE), "INVALID_VALUE"),
        (
            "cuMemAdvise",
            ("m", 64, ADVICE.CU_MEM_ADVISE_SET_ACCESSED_BY, location(TYPE.CU_MEM_LOCATION_TYPE_HOST_NUMA)),
            "INVALID_VALUE",
        ),
        (
            "cuMemRangeGetAttribute",
            (8, ATTRIBUTE.CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, "m", 64),
            "INVALID_VALUE",
        ),
        (
            "cuMemRangeGetAttribute",
            (6, ATTRIBUTE.CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, "m", 64),
            "INVALID_VALUE",
        ),
        ("cuMemPrefetchBatchAsync", (["m"], [64], 1, [DEVICE], [1], 1, 0, "s"), "INVALID_VALUE"),
        ("cuMemDiscardBatchAsync", (["d"], [64], 1, 0, "s"), "INVALID_VALUE"),
        ("cuStreamAttachMemAsync", ("s", "d", 0, SINGLE), "INVALID_VALUE"),
        ("cuStreamAttachMemAsync", ("s", "m", 10, SINGLE), "INVALID_VALUE"),
        ("cuStreamAttachMemAsync", ("s", "m", 0, 3), "INVALID_VALUE"),
        ("cuStreamAttachMemAsync", (0, "m", 0, SINGLE), "INVALID_VALUE"),
    ],
)
def test_arguments_are_checked(machine: Machine, name: str, arguments: tuple[Any, ...], status: str) -> None:
    values = {"m": managed(machine, 100)[0], "d": machine.device_memory(64), "s": machine.stream()}

    def resolve(argument: Any) -> Any:
        if isinstance(argument, list):
            return [resolve(each) for each in argument]
        return values[argument] if isinstance(argument, str) else argument

    assert machine.status(name, *map(resolve, arguments)) == status


def test_a_capture_refuses_prefetches_and_goes_on(machine: Machine) -> None:
    address, _ = managed(machine, 100)
    stream = machine.stream()
    mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    machine.cuStreamBeginCapture(stream, mode)
    status = machine.status("cuMemPrefetchAsync", address, 100, DEVICE, 0, stream)
    assert status == "STREAM_CAPTURE_UNSUPPORTED"
    machine.cuStreamEndCapture(stream)


def test_devices_without_page_faults_are_not_prefetched_to() -> None:
    machine = Machine(capability="5.2")
    attribute = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
    assert machine.cuDeviceGetAttribute(attribute, 0) == 0
    address, _ = managed(machine, 100)
    assert machine.status("cuMemPrefetchAsync", address, 100, DEVICE, 0, 0) == "INVALID_DEVICE"
    advice = ADVICE.CU_MEM_ADVISE_SET_PREFERRED_LOCATION
    assert machine.status("cuMemAdvise", address, 100, advice, DEVICE) == "INVALID_DEVICE"
    assert machine.status("cuMemAdvise", address, 100, advice, CPU) == "SUCCESS"


def test_the_host_races_with_kernels_over_managed_memory(any_schedule: MachineMaker) -> None:
    machine = any_schedule(check="race")
    address, _ = managed(machine, 100)
    machine.driver.host_access(address, 100, writes=True)
    machine.cuMemsetD8Async(address, 1, 100, machine.stream())
    machine.driver.host_access(address, 100, writes=False)
    machine.driver.findings.collect = True
    machine.cuCtxSynchronize()
    (finding,) = machine.driver.findings
    assert "managed memory" in str(finding)


def test_a_device_that_cannot_share_has_it_alone(any_schedule: MachineMaker) -> None:
    machine = any_schedule(check="race", capability="5.2")
    address, _ = managed(machine, 100)
    memory, another = machine.device_memory(64), machine.device_memory(64)
    stream = machine.stream()
    machine.driver.host_access(address, 100, writes=True)
    # Nothing that the device does has to do with the memory, but it is at work.
    machine.cuMemsetD8Async(memory, 1, 64, stream)
    machine.driver.host_access(address, 100, writes=False)
    (finding,) = machine.driver.findings
    assert "while a device is at work that cannot share it" in str(finding)
    machine.cuStreamSynchronize(stream)
    machine.driver.findings.clear()
    machine.driver.host_access(address, 100, writes=False)
    assert not machine.driver.findings

    # Attached to another stream it is the host's while that one is idle.
    other = machine.stream()
    machine.cuStreamAttachMemAsync(other, address, 0, SINGLE)
    machine.cuStreamSynchronize(other)
    machine.cuMemsetD8Async(memory, 1, 64, stream)
    machine.driver.host_access(address, 100, writes=False)
    assert not machine.driver.findings
    machine.cuMemsetD8Async(another, 1, 64, other)
    machine.driver.host_access(address, 100, writes=False)
    assert len(machine.driver.findings) == 1


def test_memory_attached_to_the_host_is_the_hosts(any_schedule: MachineMaker) -> None:
    machine = any_schedule(check="race", capability="5.2")
    address, _ = managed(machine, 100, HOST)
    memory = machine.device_memory(64)
    machine.cuMemsetD8Async(memory, 1, 64, machine.stream())
    machine.driver.host_access(address, 100, writes=True)
    assert not machine.driver.findings


def test_reading_what_was_discarded_without_waiting_is_found(any_schedule: MachineMaker) -> None:
    machine = any_schedule(check="race")
    address, _ = managed(machine, 100)
    first, second = machine.stream(), machine.stream()
    memory = machine.device_memory(100)
    machine.cuMemsetD8(address, 1, 100)
    machine.cuMemcpyDtoDAsync(memory, address, 100, first)
    machine.cuMemDiscardBatchAsync([address], [100], 1, 0, second)
    machine.driver.findings.collect = True
    machine.cuCtxSynchronize()
    (finding,) = machine.driver.findings
    assert "discards" in str(finding)
