"""Reuse within a block, and over the grid."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drv.simulator.timing.figures import SECTOR
from drv.simulator.timing.metering.caches import _PAGE, Level2, ascending, level_1_misses
from drv.simulator.timing.metering.requests import KEY_SHIFT


def test_a_sector_that_a_block_loads_again_is_there() -> None:
    keys = np.array([5, 6, 5, 6, (1 << KEY_SHIFT) | 5])
    assert level_1_misses(keys, 1024).tolist() == [True, True, False, False, True]


def test_what_does_not_fit_is_gone() -> None:
    sweep = np.tile(np.arange(100), 3)
    assert level_1_misses(sweep, 100 * SECTOR).all()
    assert np.count_nonzero(level_1_misses(sweep, 101 * SECTOR)) == 100


def test_a_small_set_stays_however_often_it_is_used() -> None:
    keys = np.concatenate((np.arange(4), np.tile(np.arange(10, 14), 50), np.arange(4)))
    misses = level_1_misses(keys, 16 * SECTOR)
    assert np.count_nonzero(misses) == 8


@given(st.lists(st.integers(0, 40), max_size=200), st.integers(1, 50))
def test_level_1_never_keeps_more_than_an_lru_of_twice_its_size(sectors: list[int], size: int) -> None:
    keys = np.array(sectors, np.int64)
    misses = np.count_nonzero(level_1_misses(keys, size * SECTOR))
    assert misses >= len(set(sectors))
    assert _lru_misses(sectors, 2 * size + len(set(sectors))) <= misses <= len(sectors)


@given(st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=40), max_size=30), st.integers(40, 200))
def test_level_2_is_between_lrus_of_its_size_and_one_request_more(groups: list[list[int]], size: int) -> None:
    cache = Level2(size * SECTOR)
    missing = sum(cache.touch(ascending(np.array(group))) for group in groups)
    flat = [sector for group in groups for sector in sorted(set(group))]
    assert missing <= _lru_misses(flat, max(size - 40, 1))
    assert missing >= len(set(flat))


def _lru_misses(sectors: Any, size: int) -> int:
    held: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for sector in sectors:
        if sector in held:
            held.move_to_end(sector)
            continue
        misses += 1
        held[sector] = None
        if len(held) > size:
            held.popitem(last=False)
    return misses


def test_ranges_larger_than_the_cache_leave_their_end() -> None:
    cache = Level2(64 * SECTOR)
    assert cache.touch_range(0, 1000 * SECTOR) == 1000
    assert cache.touch_range(990 * SECTOR, 1000 * SECTOR) == 0
    assert cache.touch_range(0, 10 * SECTOR) == 10
    cache.pass_by(100)
    assert cache.touch_range(0, 10 * SECTOR) == 10
    cache.trim()
    assert cache.touch_range(0, 10 * SECTOR) == 0


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 12 * _PAGE), st.integers(1, 5 * _PAGE), st.booleans()),
        max_size=30,
    ),
    st.integers(100, 3 * _PAGE),
)
def test_a_range_is_its_sectors(touches: list[tuple[bool, int, int, bool]], size: int) -> None:
    """Pages that were touched as a whole, and those of which a part was, count as their sectors one by one."""
    ranges, sectors = Level2(size * SECTOR), Level2(size * SECTOR)
    for aligned, first, count, sparse in touches:
        start = first // _PAGE * _PAGE if aligned else first
        named = np.arange(start, start + min(count, 2 * size))
        if sparse:
            named = named[::7]
            assert ranges.touch(named) == sectors.touch(named)
        else:
            assert ranges.touch_range(start * SECTOR, (start + len(named)) * SECTOR) == sectors.touch(named)


def test_memory_is_taken_for_what_the_cache_holds() -> None:
    cache = Level2(4 * _PAGE * SECTOR)
    for start in range(0, 1 << 40, 1 << 32):
        cache.touch_range(start + 5, start + (1 << 32))
    assert len(cache._pages) < 2 * (64 + 4 * 4)
