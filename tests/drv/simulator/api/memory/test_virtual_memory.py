from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.machine import Machine

PAGE = 2 << 20
LOCATION = cuda.CUmemLocationType
PROT = cuda.CUmemAccess_flags


def properties(ordinal: int = 0) -> cuda.CUmemAllocationProp:
    prop = cuda.CUmemAllocationProp()
    prop.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = LOCATION.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = ordinal
    return prop


def access(ordinal: int = 0, flags: object = PROT.CU_MEM_ACCESS_FLAGS_PROT_READWRITE) -> cuda.CUmemAccessDesc:
    desc = cuda.CUmemAccessDesc()
    desc.location.type = LOCATION.CU_MEM_LOCATION_TYPE_DEVICE
    desc.location.id = ordinal
    desc.flags = flags
    return desc


def mapped(machine: Machine, pages: int = 1, ordinal: int = 0) -> tuple[int, list[object]]:
    """A range of pages, each with its own physical memory, readable and writable by its device."""
    start = int(machine.cuMemAddressReserve(pages * PAGE, 0, 0, 0))
    handles = []
    for page in range(pages):
        handle = machine.cuMemCreate(PAGE, properties(ordinal), 0)
        machine.cuMemMap(start + page * PAGE, PAGE, 0, handle, 0)
        handles.append(handle)
    machine.cuMemSetAccess(start, pages * PAGE, [access(ordinal)], 1)
    return start, handles


def test_granularity(machine: Machine) -> None:
    for option in cuda.CUmemAllocationGranularity_flags:
        assert machine.cuMemGetAllocationGranularity(properties(), option) == PAGE
    assert machine.status("cuMemGetAllocationGranularity", properties(9), 0) == "INVALID_DEVICE"


def test_life_of_a_mapping(machine: Machine) -> None:
    free, _ = machine.cuMemGetInfo()
    start, (handle,) = mapped(machine)
    assert machine.cuMemGetInfo()[0] == free - PAGE
    machine.cuMemsetD8(start, 7, PAGE)
    assert (machine.peek(start, PAGE) == 7).all()
    machine.cuMemRelease(handle)
    assert machine.cuMemGetInfo()[0] == free - PAGE
    machine.cuMemUnmap(start, PAGE)
    assert machine.cuMemGetInfo()[0] == free
    assert machine.status("cuMemsetD8", start, 7, PAGE) == "INVALID_VALUE"
    machine.cuMemAddressFree(start, PAGE)
    assert machine.status("cuMemAddressFree", start, PAGE) == "INVALID_VALUE"


def test_memory_stays_while_a_handle_does(machine: Machine) -> None:
    start, (handle,) = mapped(machine)
    machine.cuMemsetD8(start, 7, PAGE)
    machine.cuMemUnmap(start, PAGE)
    machine.cuMemMap(start, PAGE, 0, handle, 0)
    machine.cuMemSetAccess(start, PAGE, [access()], 1)
    assert (machine.peek(start, PAGE) == 7).all()


def test_one_memory_under_two_addresses(machine: Machine) -> None:
    start, (handle,) = mapped(machine)
    other = int(machine.cuMemAddressReserve(PAGE, 0, 0, 0))
    machine.cuMemMap(other, PAGE, 0, handle, 0)
    machine.cuMemSetAccess(other, PAGE, [access()], 1)
    machine.cuMemsetD8(start, 5, PAGE)
    assert (machine.peek(other, PAGE) == 5).all()


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_copies_span_mappings(schedule: str) -> None:
    machine = Machine(schedule=schedule)
    start, _ = mapped(machine, pages=3)
    data = np.random.default_rng(0).integers(0, 256, PAGE + 2000, np.uint8)
    machine.cuMemcpyHtoD(start + PAGE - 1000, data, data.size)
    back = np.zeros_like(data)
    machine.cuMemcpyDtoH(back, start + PAGE - 1000, data.size)
    assert (back == data).all()
    stream = machine.stream()

    def double(memory: object) -> None:
        view = memory.write(start + PAGE - 10, 20)  # type: ignore[attr-defined]
        view[:] = 9
        rows = memory.write_rows(start + PAGE - 64, 4, 8, 40)  # type: ignore[attr-defined]
        rows[:] = 3

    assert machine.driver.library_call(stream, "library", double)[0] == 0
    machine.cuStreamSynchronize(stream)
    held = machine.peek(start + PAGE - 64, 64)
    assert (held[0:8] == 3).all()
    assert (held[40:48] == 3).all()
    assert (held[54:] == 9).all()
    after = machine.peek(start + PAGE, 64)
    assert (after[16:24] == 3).all()
    assert (after[:10] == 9).all()
    assert machine.status("cuMemcpyDtoH", back, start + 3 * PAGE - 8, 16) == "INVALID_VALUE"


def test_mappings_begin_without_access(machine: Machine) -> None:
    start = int(machine.cuMemAddressReserve(PAGE, 0, 0, 0))
    machine.cuMemMap(start, PAGE, 0, machine.cuMemCreate(PAGE, properties(), 0), 0)
    assert machine.status("cuMemsetD8", start, 7, 16) == "INVALID_VALUE"
    stream = machine.stream()
    assert machine.driver.library_call(stream, "library", lambda memory: memory.read(start, 4))[0] == 0
    assert machine.status("cuStreamSynchronize", stream) == "ILLEGAL_ADDRESS"


def test_access_per_device_and_kind(machine: Machine) -> None:
    start, _ = mapped(machine)
    machine.cuMemSetAccess(start, PAGE, [access(1, PROT.CU_MEM_ACCESS_FLAGS_PROT_READ)], 1)
    here, there = cuda.CUmemLocation(), cuda.CUmemLocation()
    here.type = there.type = LOCATION.CU_MEM_LOCATION_TYPE_DEVICE
    there.id = 1
    assert machine.cuMemGetAccess(here, start) == 3
    assert machine.cuMemGetAccess(there, start) == 1
    machine.use(1)
    stream = machine.stream()
    machine.driver.library_call(stream, "reader", lambda memory: memory.read(start, 4))
    assert machine.status("cuStreamSynchronize", stream) == "SUCCESS"
    machine.driver.library_call(stream, "writer", lambda memory: memory.write(start, 4))
    assert machine.status("cuStreamSynchronize", stream) == "ILLEGAL_ADDRESS"


def test_access_needs_a_peer_path() -> None:
    machine = Machine(devices=2, peers="none")
    start, _ = mapped(machine)
    assert machine.status("cuMemSetAccess", start, PAGE, [access(1)], 1) == "INVALID_DEVICE"


def test_reservations(machine: Machine) -> None:
    assert machine.status("cuMemAddressReserve", PAGE - 1, 0, 0, 0) == "INVALID_VALUE"
    assert machine.status("cuMemAddressReserve", PAGE, 3, 0, 0) == "INVALID_VALUE"
    first = int(machine.cuMemAddressReserve(PAGE, 0, 0, 0))
    aligned = int(machine.cuMemAddressReserve(PAGE, 1 << 30, 0, 0))
    assert aligned % (1 << 30) == 0
    expected = aligned + (1 << 32)
    assert int(machine.cuMemAddressReserve(2 * PAGE, 0, expected, 0)) == expected
    # What is taken is only a hint: another place is found.
    assert int(machine.cuMemAddressReserve(PAGE, 0, expected + PAGE, 0)) != expected + PAGE
    ranges = sorted(machine.driver.reservations.items())
    assert all(a + size <= b for (a, size), (b, _) in pairwise(ranges))
    assert machine.status("cuMemAddressFree", first, 2 * PAGE) == "INVALID_VALUE"


def test_mapping_errors(machine: Machine) -> None:
    start, (handle,) = mapped(machine)
    more = int(machine.cuMemAddressReserve(4 * PAGE, 0, 0, 0))
    assert machine.status("cuMemMap", start, PAGE, 0, handle, 0) == "INVALID_VALUE"
    assert machine.status("cuMemMap", more + 4096, PAGE, 0, handle, 0) == "INVALID_VALUE"
    assert machine.status("cuMemMap", more, 2 * PAGE, 0, handle, 0) == "INVALID_VALUE"
    assert machine.status("cuMemMap", more, PAGE, PAGE, handle, 0) == "INVALID_VALUE"
    assert machine.status("cuMemMap", more + 4 * PAGE, PAGE, 0, handle, 0) == "INVALID_VALUE"
    assert machine.status("cuMemMap", more, PAGE, 0, 12345, 0) == "INVALID_VALUE"
    assert machine.status("cuMemUnmap", start, PAGE // 2) == "INVALID_VALUE"
    assert machine.status("cuMemUnmap", more, PAGE) == "INVALID_VALUE"
    assert machine.status("cuMemAddressFree", start, PAGE) == "INVALID_VALUE"
    assert machine.status("cuMemSetAccess", more, PAGE, [access()], 1) == "INVALID_VALUE"
    assert machine.status("cuMemSetAccess", start, PAGE, [access()], 2) == "INVALID_VALUE"
    assert machine.status("cuMemFree", start) == "INVALID_VALUE"


def test_physical_memory(machine: Machine) -> None:
    assert machine.status("cuMemCreate", PAGE + 1, properties(), 0) == "INVALID_VALUE"
    assert machine.status("cuMemCreate", 1 << 41, properties(), 0) == "OUT_OF_MEMORY"
    assert machine.status("cuMemCreate", PAGE, properties(7), 0) == "INVALID_DEVICE"
    assert machine.status("cuMemCreate", PAGE, None, 0) == "INVALID_VALUE"
    start, (handle,) = mapped(machine, ordinal=1)
    retained = machine.cuMemRetainAllocationHandle(start + 100)
    assert int(retained) == int(handle)
    assert machine.cuMemGetAllocationPropertiesFromHandle(retained).location.id == 1
    machine.cuMemRelease(handle)
    machine.cuMemRelease(retained)
    assert machine.status("cuMemRelease", handle) == "INVALID_VALUE"
    host = properties()
    host.location.type = LOCATION.CU_MEM_LOCATION_TYPE_HOST
    assert machine.status("cuMemCreate", PAGE, host, 0) == "NOT_SUPPORTED"
