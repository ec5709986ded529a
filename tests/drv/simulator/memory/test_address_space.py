"""What memory the system provides for simulated allocations."""

from __future__ import annotations

import numpy as np
import pytest

from drv.simulator.memory.address_space import PAGE, Allocation, MemoryKind, touched_here_and_there

from .resident import resident_pages


def test_pages_are_provided_one_by_one_where_little_is_touched() -> None:
    # The allocator of C keeps what is freed between two arrays of less than its limit, and gives it out once more.
    np.ones(20 << 20, np.uint8)
    blocks = [np.ones(20 << 20, np.uint8) for _ in range(7)]
    del blocks[:6]
    data = touched_here_and_there(64 << 20)
    data[:: 1 << 20] = 1
    assert resident_pages(data) <= 64 + 2
    assert np.count_nonzero(data) == 64


@pytest.mark.parametrize("kind", [MemoryKind.DEVICE, MemoryKind.REGISTERED])
def test_whole_pages_of_device_memory_are_released(kind: MemoryKind) -> None:
    data = np.ones(64 * PAGE, np.uint8)
    allocation = Allocation(1 << 48, data.size, kind, data)
    allocation.release(10 * PAGE + 5, 20 * PAGE + 7)
    if kind is MemoryKind.REGISTERED:
        assert data.all()
        return
    gone = np.flatnonzero(data == 0)
    assert 8 * PAGE < gone.size <= 10 * PAGE
    # What the range shares a page with stays.
    assert gone[0] >= 10 * PAGE + 5 and gone[-1] < 20 * PAGE + 7
    assert np.array_equal(gone, np.arange(gone[0], gone[-1] + 1))
    allocation.release(3, 4)
    assert data[:PAGE].all()
