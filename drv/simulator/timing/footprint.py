"""What the blocks touch that did not run, from those that did.

In most kernels a block touches what its neighbour does, shifted: the first sector of each access is a linear function of
the block's index. Where the sample bears that out, the sectors of every block of the grid are known, and the level-2
cache can be filled wave by wave as the device would. Other accesses count as spread at random over the range that the
sample has seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .caches import ascending
from .figures import SECTOR
from .requests import KEY_MASK, KEY_SHIFT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .caches import Level2

    Array = NDArray[Any]

#: Blocks whose sectors are kept in full, for each access.
_EXEMPLARS = 3
#: Sectors that a wave's blocks may name in full; beyond, only ranges and random accesses are followed.
_MOST_NAMED = 4_000_000
#: Waves that are followed from the start, and at the end of the grid.
_FIRST_WAVES, _LAST_WAVES = 6, 2
#: Share of the sampled blocks that must fit the linear function.
_FITTING = 0.9


@dataclass(slots=True)
class _Touched:
    """What the sampled blocks touch by one access: for each block the first and last sector, and how many."""

    writes: bool
    blocks: list[Array] = field(default_factory=list)
    first: list[Array] = field(default_factory=list)
    last: list[Array] = field(default_factory=list)
    count: list[Array] = field(default_factory=list)
    exemplars: dict[int, list[Array]] = field(default_factory=dict)


class Moved(NamedTuple):
    """Sectors over the whole grid: read from DRAM, distinct ones read, distinct ones written; and how many accesses fit a line."""

    read_misses: float
    distinct_read: float
    distinct_written: float
    regular: float


class Footprints:
    """Of one launch. ``grid`` are its blocks along x, y and z."""

    def __init__(self, grid: tuple[int, int, int]) -> None:
        self._grid = grid
        self._sites: dict[int, _Touched] = {}

    def add(self, site: int, keys: Array, start: int, *, writes: bool) -> None:
        """Note what the blocks from ``start`` on touch by an access: ``block << KEY_SHIFT | sector``."""
        keys = ascending(keys)
        blocks, sectors = keys >> KEY_SHIFT, keys & KEY_MASK
        bounds = np.flatnonzero(np.concatenate(([True], blocks[1:] != blocks[:-1])))
        ends = np.append(bounds[1:], len(keys)) - 1
        touched = self._sites.setdefault(site, _Touched(writes))
        touched.blocks.append(blocks[bounds] + start)
        touched.first.append(sectors[bounds])
        touched.last.append(sectors[ends])
        touched.count.append(ends - bounds + 1)
        middle = len(bounds) // 2
        block = int(blocks[bounds[middle]]) + start
        if block in touched.exemplars or len(touched.exemplars) < _EXEMPLARS:
            touched.exemplars.setdefault(block, []).append(sectors[bounds[middle] : ends[middle] + 1])

    def moved(self, resident: int, level2: Level2) -> Moved:
        """Sectors that the whole grid moves, ``resident`` blocks at a time, through the device's level-2 cache."""
        total = math.prod(self._grid)
        accesses = [self._access(each) for each in self._sites.values()]
        waves = -(-total // resident)
        followed = list(range(min(waves, _FIRST_WAVES)))
        followed += [wave for wave in range(waves - _LAST_WAVES, waves) if wave >= len(followed)]
        misses: list[float] = []
        before = -1
        for wave in followed:
            if wave > before + 1:
                # What the waves in between bring drives out what was there.
                level2.pass_by((wave - before - 1) * sum(each.brought for each in accesses))
            before = wave
            for each in accesses:
                each.brought = 0.0
            blocks = np.arange(wave * resident, min((wave + 1) * resident, total))
            missing = 0.0
            for access in accesses:
                missing += access.touch(blocks, level2)
            misses.append(missing * (resident / len(blocks)) if wave == waves - 1 and waves > 1 else missing)
        unfollowed = waves - len(followed)
        middle = misses[_FIRST_WAVES - 1 : _FIRST_WAVES + 1] if unfollowed else []
        last = (total - (waves - 1) * resident) / resident
        counted = sum(misses[:-1]) + misses[-1] * (last if waves > 1 else 1.0)
        read = counted + unfollowed * (sum(middle) / len(middle) if middle else 0.0)
        distinct_read = sum(each.distinct(total) for each in accesses if not each.writes)
        distinct_written = sum(each.distinct(total) for each in accesses if each.writes)
        regular = sum(each.regular for each in accesses) / len(accesses) if accesses else 1.0
        return Moved(read, distinct_read, distinct_written, regular)

    def _access(self, touched: _Touched) -> _Access:
        blocks, first, last, count = (
            np.concatenate(each) for each in (touched.blocks, touched.first, touched.last, touched.count)
        )
        # A block that was noted in several parts.
        order = np.argsort(blocks, kind="stable")
        names, starts = np.unique(blocks[order], return_index=True)
        first = np.minimum.reduceat(first[order], starts)
        last = np.maximum.reduceat(last[order], starts)
        count = np.add.reduceat(count[order], starts)
        parts = max(touched.exemplars.values(), key=lambda each: sum(map(len, each)))
        sectors = ascending(np.concatenate(parts))
        pattern = sectors - sectors[0]
        coefficients = self._line(names, first)
        regular = coefficients is not None and (last - first).max() <= max(2 * pattern[-1], 64)
        return _Access(
            self,
            touched.writes,
            pattern,
            coefficients if regular else None,
            (int(first.min()), int(last.max()) + 1),
            float(count.mean()),
        )

    def indices(self, blocks: Array) -> Array:
        """``(blocks, 4)``: one, and the index along x, y and z."""
        gx, gy, _ = self._grid
        return np.stack([np.ones(len(blocks)), blocks % gx, blocks // gx % gy, blocks // (gx * gy)], axis=1)

    def _line(self, blocks: Array, first: Array) -> Array | None:
        """Coefficients of the first sector as a linear function of the block's index, if it is one."""
        if len(blocks) < 2:
            return np.array([float(first[0]), 0, 0, 0])
        matrix = self.indices(blocks)
        origin = first.min()
        coefficients, *_ = np.linalg.lstsq(matrix, (first - origin).astype(np.float64), rcond=None)
        away = np.abs(matrix @ coefficients - (first - origin))
        if np.count_nonzero(away <= 1.01) < _FITTING * len(blocks):
            return None
        coefficients[0] += origin
        result: Array = coefficients
        return result


@dataclass(slots=True)
class _Access:
    footprints: Footprints
    writes: bool
    #: Sectors of a block from its first one on.
    pattern: Array
    coefficients: Array | None
    extent: tuple[int, int]
    count: float
    #: Sectors that the last wave brought into the cache.
    brought: float = 0.0

    @property
    def regular(self) -> bool:
        return self.coefficients is not None

    def _first(self, blocks: Array) -> Array:
        assert self.coefficients is not None
        first = self.footprints.indices(blocks) @ self.coefficients
        return ascending(np.maximum(np.rint(first), 0).astype(np.int64))

    def touch(self, blocks: Array, level2: Level2) -> float:
        """Let ``blocks`` touch what they do; how many sectors were not there, of what they read."""
        if self.coefficients is None:
            return self._touch_at_random(len(blocks), level2)
        first = self._first(blocks)
        pattern = self.pattern
        missing = 0
        if len(pattern) == pattern[-1] + 1 or len(first) * len(pattern) > _MOST_NAMED:
            # Ranges that touch each other are one.
            length = int(pattern[-1]) + 1
            starts = first[np.concatenate(([True], first[1:] > first[:-1] + length))]
            ends = first[np.concatenate((first[1:] > first[:-1] + length, [True]))] + length
            density = len(pattern) / length
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                missing += level2.touch_range(start * SECTOR, end * SECTOR)
            return self._missed(missing * density)
        missing = level2.touch(ascending((first[:, None] + pattern).ravel()))
        return self._missed(missing)

    def _touch_at_random(self, blocks: int, level2: Level2) -> float:
        low, high = self.extent
        size = high - low
        named = self.count * blocks
        distinct = size * -math.expm1(-named / size)
        generator = np.random.default_rng(blocks)
        if distinct > _MOST_NAMED or distinct > size / 2:
            missing: float = level2.touch_range(low * SECTOR, high * SECTOR) * distinct / size
        else:
            chosen = ascending(generator.integers(low, high, int(named)))
            missing = level2.touch(chosen)
        return self._missed(missing)

    def _missed(self, missing: float) -> float:
        """Sectors that have to be read from DRAM, of those that were not there."""
        self.brought += missing
        return 0.0 if self.writes else float(missing)

    def distinct(self, total: int) -> float:
        """Distinct sectors of the whole grid."""
        if self.coefficients is None:
            size = self.extent[1] - self.extent[0]
            return size * -math.expm1(-self.count * total / size)
        step = max(1, total // 2_000_000)
        first = self._first(np.arange(0, total, step))
        length = int(self.pattern[-1]) + 1
        if len(first) * len(self.pattern) <= _MOST_NAMED and step == 1:
            return float(len(ascending((first[:, None] + self.pattern).ravel())))
        covered = int(np.minimum(np.diff(first), length * step).sum()) + length
        return min(covered, float(len(first)) * step * len(self.pattern))
