"""What the caches keep: reuse within a thread block by level 1, over the grid by level 2.

Both keep the sectors that were touched last, as many as fit. Time is counted in sectors: a sector is still there when
fewer bytes have come since it was touched last than the cache holds, which is what least-recently-used replacement
keeps. Level 1 sees the loads of a block, and has the share of it that the block has with the blocks beside it; level 2
is one set for the device, and lives from launch to launch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.timing.figures import LINE, SECTOR

from .requests import KEY_SHIFT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Sectors of a page of the level-2 set: 256 KiB of addresses. What is touched here and there takes memory by pages.
_PAGE = 1 << 13
#: Bits of a sector's number within its line.
_LINE_SHIFT = (LINE // SECTOR).bit_length() - 1
#: How long ago a sector was touched that never was.
_NEVER = -(1 << 62)


def level_1_misses(keys: Array, capacity: int) -> Array:
    """Which loads of sectors go on to level 2.

    Parameters
    ----------
    keys
        ``block << KEY_SHIFT | sector`` of each, in the order in which they happened.
    capacity
        Bytes of level 1 that a block has.

    Returns
    -------
    NDArray of bool
        One for each key.
    """
    count = len(keys)
    misses = np.ones(count, np.bool_)
    if count < 2 or capacity < SECTOR:
        return misses
    # What a block has asked for before, counted in sectors.
    blocks = keys >> KEY_SHIFT
    by_block = np.argsort(blocks, kind="stable")
    sorted_blocks = blocks[by_block]
    starts = np.flatnonzero(np.concatenate(([True], sorted_blocks[1:] != sorted_blocks[:-1])))
    sizes = np.diff(np.append(starts, count))
    rank = np.empty(count, np.int64)
    rank[by_block] = np.arange(count) - np.repeat(starts, sizes)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeats = np.flatnonzero(ordered[1:] == ordered[:-1]) + 1
    if not repeats.size:
        return misses
    # Between two touches lie at most as many distinct sectors as the block has touched at all.
    new = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    position = np.searchsorted(sorted_blocks[starts], ordered >> KEY_SHIFT)
    footprint = np.bincount(position, weights=new)[position]
    distance = np.minimum(rank[order[repeats]] - rank[order[repeats - 1]], footprint[repeats])
    # A line takes a slot of the cache, however few of its sectors are used.
    lines = ordered >> _LINE_SHIFT
    share = (1 + np.count_nonzero(lines[1:] != lines[:-1])) / np.count_nonzero(new)
    misses[order[repeats[distance * LINE * share < capacity]]] = False
    return misses


def ascending(values: Array) -> Array:
    """The distinct ones of integers, in ascending order. (What NumPy has for it hashes, which takes far longer.)"""
    if len(values) < 2:
        return values
    ordered = np.sort(values)
    first = np.empty(len(ordered), np.bool_)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


class Level2:
    """The level-2 cache of a device: which sectors it holds.

    Ranges cost as little as their pages are few, and memory is taken for what the cache can hold, however much is touched.

    Parameters
    ----------
    capacity : int
        Its size in bytes.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity // SECTOR
        self._now = 0
        # When the sectors of a page were touched last: one number where all were at the same time.
        self._pages: dict[int, Array | int] = {}
        self._trim_at = self._most_pages = 64 + 4 * self._capacity // _PAGE

    @property
    def sectors(self) -> int:
        """How many it can hold."""
        return self._capacity

    def touch(self, sectors: Array) -> int:
        """Use distinct ``sectors``, in ascending order; how many of them were not there."""
        if not sectors.size:
            return 0
        missing = 0
        pages = sectors // _PAGE
        bounds = np.flatnonzero(np.concatenate(([True], pages[1:] != pages[:-1], [True])))
        oldest = self._now - self._capacity
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            page = int(pages[start])
            missing += self._touch_some(page, sectors[start:stop] - page * _PAGE, oldest)
        return missing

    def touch_range(self, start: int, stop: int) -> int:
        """Use all sectors of the bytes ``[start, stop)``; how many were not there."""
        if stop <= start:
            return 0
        first, last = start // SECTOR, (stop - 1) // SECTOR + 1
        # Of more than it holds only the end stays.
        missing = max(last - first - 2 * self._capacity, 0)
        self._now += missing
        first += missing
        oldest = self._now - self._capacity
        for page in range(first // _PAGE, (last - 1) // _PAGE + 1):
            begin, end = max(first - page * _PAGE, 0), min(last - page * _PAGE, _PAGE)
            if end - begin == _PAGE:
                missing += self._touch_all(page, oldest)
            else:
                missing += self._touch_some(page, slice(begin, end), oldest)
        return missing

    def pass_by(self, sectors: float) -> None:
        """As many other sectors as are said have been used, of which nobody knows which."""
        self._now += int(sectors)

    def trim(self) -> None:
        """Forget pages of which nothing is left."""
        oldest = self._now - self._capacity
        for page, stamps in list(self._pages.items()):
            if (stamps if isinstance(stamps, int) else stamps.max()) < oldest:
                del self._pages[page]

    def _touch_some(self, page: int, inside: Array | slice, oldest: int) -> int:
        stamps = self._pages.get(page, _NEVER)
        if isinstance(stamps, int):
            self._make_room()
            stamps = self._pages[page] = np.full(_PAGE, stamps, np.int64)
        absent = int(np.count_nonzero(stamps[inside] < oldest))
        self._now += absent
        stamps[inside] = self._now
        return absent

    def _touch_all(self, page: int, oldest: int) -> int:
        stamps = self._pages.get(page, _NEVER)
        if isinstance(stamps, int):
            absent = _PAGE if stamps < oldest else 0
        else:
            absent = int(np.count_nonzero(stamps < oldest))
        self._now += absent
        if page not in self._pages:
            self._make_room()
        self._pages[page] = self._now
        return absent

    def _make_room(self) -> None:
        """Forget what is gone, now and then: so seldom that it costs nothing."""
        if len(self._pages) >= self._trim_at:
            self.trim()
            self._trim_at = max(2 * len(self._pages), self._most_pages)
