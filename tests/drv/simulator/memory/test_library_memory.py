from __future__ import annotations

import numpy as np
import pytest
from cuda.bindings.driver import CUresult

from drv.simulator.checks.observation import Access
from drv.simulator.faults import DeviceFault
from drv.simulator.memory.address_space import AddressSpace, Allocation, MemoryKind
from drv.simulator.memory.library_memory import LibraryMemory


class Recorder:
    """An observer that only notes ranges."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, Access]] = []

    def range_access(self, allocation: Allocation, start: int, stop: int, kind: Access) -> None:
        self.seen.append((start, stop, kind))


BASE = 1 << 48


@pytest.fixture
def space() -> AddressSpace:
    space = AddressSpace()
    space.insert(Allocation(BASE, 100, MemoryKind.DEVICE, np.arange(112, dtype=np.uint8), 0))
    return space


def test_views_share_the_memory(space: AddressSpace) -> None:
    memory = LibraryMemory(space, 0)
    memory.write(BASE + 10, 5)[:] = 7
    assert memory.read(BASE + 8, 8).tolist() == [8, 9, 7, 7, 7, 7, 7, 15]


def test_rows(space: AddressSpace) -> None:
    memory = LibraryMemory(space, 0)
    rows = memory.read_rows(BASE + 4, 3, 2, 20)
    assert rows.tolist() == [[4, 5], [24, 25], [44, 45]]
    memory.write_rows(BASE + 4, 3, 2, 20)[:] = 0
    assert memory.read(BASE + 22, 5).tolist() == [22, 23, 0, 0, 26]
    assert memory.read_rows(BASE, 0, 5, 20).shape == (0, 5)
    assert memory.read(BASE, 0).shape == (0,)


def test_the_observer_hears_of_the_bytes_and_of_no_others(space: AddressSpace) -> None:
    recorder = Recorder()
    memory = LibraryMemory(space, 0, recorder)  # type: ignore[arg-type]
    memory.read(BASE + 1, 3)
    memory.write_rows(BASE + 50, 2, 4, 20)
    memory.write_rows(BASE, 2, 4, 4)
    assert recorder.seen == [
        (1, 4, Access.READ),
        (50, 54, Access.WRITE),
        (70, 74, Access.WRITE),
        (0, 8, Access.WRITE),
    ]


@pytest.mark.parametrize(("start", "nbytes"), [(-1, 4), (99, 2), (100, 1), (-500, 1000)])
def test_outside_an_allocation(space: AddressSpace, start: int, nbytes: int) -> None:
    memory = LibraryMemory(space, 0)
    for access in (memory.read, memory.write):
        with pytest.raises(DeviceFault) as caught:
            access(BASE + start, nbytes)
        assert caught.value.status == CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
        assert "the nearest is 100 bytes of device memory" in caught.value.report
    with pytest.raises(DeviceFault):
        memory.read_rows(BASE + 90, 2, 5, 10)


def test_freed_memory_is_named(space: AddressSpace) -> None:
    allocation = space.find(BASE)
    assert allocation is not None
    space.remove(allocation, (("script.py", 7, "main"),))
    with pytest.raises(DeviceFault, match="which is freed"):
        LibraryMemory(space, 0).read(BASE, 1)


def test_another_device_needs_access(space: AddressSpace) -> None:
    memory = LibraryMemory(space, 1)
    with pytest.raises(DeviceFault, match="device 1 has access"):
        memory.read(BASE, 1)
    space.peers = {(1, 0)}
    assert memory.read(BASE + 3, 1)[0] == 3
    assert LibraryMemory(space, None).read(BASE + 3, 1)[0] == 3
