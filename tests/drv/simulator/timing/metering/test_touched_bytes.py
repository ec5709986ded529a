"""Distinct bytes and sectors of allocations, and what a large one costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drv.simulator.checks.observation import Access
from drv.simulator.timing.figures import SECTOR
from drv.simulator.timing.metering.touched_bytes import TouchedBytes

_PART = 1 << 20


@dataclass(eq=False)
class _Allocation:
    size: int
    base: int


def _allocation(size: int, base: int = 0) -> Any:
    return _Allocation(size, base)


@given(
    st.lists(
        st.tuples(st.sampled_from([4, 8, 16]), st.integers(0, 3 * _PART // 16 - 1), st.integers(1, 40)),
        max_size=20,
    ),
    st.sampled_from([0, 4, 8]),
)
def test_what_is_counted(accesses: list[tuple[int, int, int]], base: int) -> None:
    allocation, touched = _allocation(4 * _PART, base), TouchedBytes()
    expected = np.zeros(4 * _PART, np.bool_)
    for width, first, lanes in accesses:
        # Addresses are aligned, offsets need not be.
        offsets = (first + np.arange(lanes)) * width + (-base) % width
        touched.add(allocation, offsets, width, Access.WRITE)
        for offset in offsets.tolist():
            expected[offset : offset + width] = True
    assert touched.written == np.count_nonzero(expected)
    assert touched.sectors_written == np.count_nonzero(expected.reshape(-1, SECTOR).any(1))
    assert touched.read == 0


def test_reads_and_writes_of_several_allocations() -> None:
    first, second, touched = _allocation(100), _allocation(2 * _PART), TouchedBytes()
    touched.add(first, np.array([0, 4, 96]), 4, Access.READ)
    touched.add(second, np.array([_PART - 16, _PART]), 16, Access.READ)
    touched.add(second, np.broadcast_to(np.int64(8), (32,)), 8, Access.WRITE)
    assert (touched.read, touched.written, touched.sectors_written) == (12 + 32, 8, 1)
    touched.clear()
    assert (touched.read, touched.written) == (0, 0)


def test_a_large_allocation_costs_what_is_touched_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 16 GiB three parts are looked at, wherever they lie."""
    allocation, touched = _allocation(1 << 34), TouchedBytes()
    touched.add(allocation, np.array([0, 1 << 33, (1 << 34) - 4]), 4, Access.READ)
    looked_at = []
    count = np.count_nonzero

    def counting(values: Any) -> Any:
        looked_at.append(values.size)
        return count(values)

    monkeypatch.setattr(np, "count_nonzero", counting)
    assert touched.read == 12
    assert sum(looked_at) == 3 * _PART // 4
