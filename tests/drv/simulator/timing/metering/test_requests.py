"""Sectors, lines and bank conflicts, against counting by hand and one warp at a time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drv.simulator.timing.metering.requests import by_warp, global_request, same_address, shared_request


def lanes(active: Any = None, warps: int = 1, per_block: int = 1) -> Any:
    """Lanes of whole warps, or those that a mask has on."""
    slots = np.arange(32 * warps) if active is None else np.flatnonzero(active)
    launch = SimpleNamespace(warps=per_block, threads=32 * per_block)
    batch = SimpleNamespace(n=32 * warps, launch=launch, warps=warps)
    return SimpleNamespace(n=len(slots), batch=batch, constant=lambda name: slots)


@pytest.mark.parametrize(
    ("offsets", "width", "sectors", "lines", "needed"),
    [
        (np.arange(32) * 4, 4, 4, 1, 4),
        (np.arange(32) * 4 + 16, 4, 5, 2, 4),
        (np.arange(32) * 8, 4, 8, 2, 4),
        (np.arange(32) * 32, 4, 32, 8, 4),
        (np.arange(32) * 3072, 4, 32, 32, 4),
        (np.arange(32) * 16, 16, 16, 4, 16),
        (np.arange(32)[::-1] * 4, 4, 4, 1, 4),
        (np.zeros(32, np.int64), 4, 1, 1, 1),
        (np.broadcast_to(np.array([64]), (32,)), 8, 1, 1, 1),
        (np.arange(32) * 2, 2, 2, 1, 2),
        (np.arange(32), 1, 1, 1, 1),
    ],
)
def test_sectors_of_well_known_patterns(
    offsets: Any, width: int, sectors: int, lines: int, needed: int
) -> None:
    request = global_request(by_warp(lanes()), offsets, width)
    assert (request.sectors, request.lines, request.needed) == (sectors, lines, needed)


@pytest.mark.parametrize(
    ("offsets", "width", "wavefronts", "ideal"),
    [
        (np.arange(32) * 4, 4, 1, 1),
        (np.arange(32) * 8, 4, 2, 1),
        (np.arange(32) * 128, 4, 32, 1),
        (np.arange(32) * 132, 4, 1, 1),
        (np.zeros(32, np.int64), 4, 1, 1),
        (np.arange(32) * 8, 8, 2, 2),
        (np.arange(32) * 16, 16, 4, 4),
        (np.arange(32) * 16, 4, 4, 1),
    ],
)
def test_conflicts_of_well_known_patterns(offsets: Any, width: int, wavefronts: int, ideal: int) -> None:
    request = shared_request(by_warp(lanes()), offsets, width)
    assert (request.wavefronts, request.ideal) == (wavefronts, ideal)


@st.composite
def accesses(draw: Any) -> tuple[Any, Any, int, int]:
    warps = draw(st.integers(1, 4))
    active = np.array(draw(st.lists(st.booleans(), min_size=32 * warps, max_size=32 * warps)))
    active[draw(st.integers(0, 32 * warps - 1))] = True
    width = draw(st.sampled_from([1, 2, 4, 8, 16]))
    elements = draw(st.lists(st.integers(0, 200), min_size=32 * warps, max_size=32 * warps))
    return active, np.array(elements) * width, width, warps


@given(accesses())
def test_any_access_counts_as_one_warp_at_a_time(drawn: Any) -> None:
    active, offsets, width, warps = drawn
    chosen = np.flatnonzero(active)
    table = by_warp(lanes(active, warps))
    request = global_request(table, offsets[chosen], width)
    shared = shared_request(table, offsets[chosen], width)
    sectors = lines = needed = wavefronts = ideal = 0
    keys = set()
    for warp in range(warps):
        mine = [int(offsets[lane]) for lane in chosen if lane // 32 == warp]
        if not mine:
            continue
        touched = {byte for first in mine for byte in range(first, first + width)}
        sectors += len({byte // 32 for byte in touched})
        lines += len({byte // 128 for byte in touched})
        needed += -(-len(touched) // 32)
        keys |= {(warp, byte // 32) for byte in touched}
        words = {byte // 4 for byte in touched}
        banks: dict[int, int] = {}
        for word in words:
            banks[word % 32] = banks.get(word % 32, 0) + 1
        wavefronts += max(banks.values())
        ideal += -(-len(words) // 32)
    assert (request.sectors, request.lines, request.needed) == (sectors, lines, needed)
    assert {(int(key) >> 46, int(key) & ((1 << 46) - 1)) for key in request.keys} == keys
    assert (shared.wavefronts, shared.ideal) == (wavefronts, ideal)
    assert table.requests == len({lane // 32 for lane in chosen})


def test_atomics_on_one_address() -> None:
    table = by_warp(lanes(warps=2))
    assert same_address(table, np.zeros(64, np.int64)) == (2, 32)
    assert same_address(table, np.arange(64) * 4) == (64, 1)
    assert same_address(table, np.arange(64) // 2 * 4) == (32, 2)
