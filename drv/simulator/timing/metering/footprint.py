"""What the blocks touch that did not run, from those that did.

In most kernels a block touches what its neighbour does, shifted: the first sector of each access is a linear function of
the block's index. Where the sample bears that out, the sectors of every block of the grid are known, and the level-2
cache can be filled wave by wave as the device would; the index may be divided, once or twice. Where only neighbouring
blocks follow each other so (blocks that go over several tensors, or over tiles whose index is divided), blocks count as
tiles of the range that the sample has seen, and of what goes on before and after it. Blocks that begin where a row or a
plane does are near a line, and count as on it. Other accesses count as spread at random over that range.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.simulator.timing.figures import SECTOR

from .caches import ascending
from .requests import KEY_MASK, KEY_SHIFT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from .caches import Level2

    Array = NDArray[Any]

#: Blocks whose sectors are recorded in full, for each access.
_EXEMPLARS = 3
#: Sectors that a wave's blocks may name in full; beyond, only ranges and random accesses are followed.
_MOST_NAMED = 4_000_000
#: How often the level-2 cache's size a range is of which what is touched at random counts as not there.
_FAR = 16
#: Waves that are followed from the start, and at the end of the grid.
_FIRST_WAVES, _LAST_WAVES = 6, 2
#: Share of the sampled blocks that must fit the linear function.
_FITTING = 0.9
#: Divisors of the grid that are tried, at the most up to so many.
_MOST_TRIED = 4096
#: Share of neighbouring blocks that must be as far apart as is usual.
_NEIGHBOURS = 0.6
#: Divisors that are tried within each other, of either, and blocks without which that would say nothing.
_MOST_NESTED, _FEWEST_NESTED = 16, 12
#: How far from a line blocks may begin, of the sectors of theirs that follow each other.
_NEAR = 0.25
#: Share of two ranges that both have, where they count as the same.
_SAME_RANGE = 0.8


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
    """Of one launch. ``grid`` are its blocks along x, y and z, ``total`` all of them."""

    def __init__(self, grid: tuple[int, int, int]) -> None:
        self._grid = grid
        self.total = math.prod(grid)
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
        accesses = _joined([self._access(each) for each in self._sites.values()])
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
        examples = {block: ascending(np.concatenate(each)) for block, each in touched.exemplars.items()}
        # The same block for all accesses, where all have it.
        sectors = max(examples.items(), key=lambda item: (len(item[1]), -item[0]))[1]
        pattern = sectors - sectors[0]
        compact = bool((last - first).max() <= max(2 * pattern[-1], 64))
        coefficients, periods = self._any_line(names, first, 1.01)
        mean = float(count.mean())
        tile = _new_per_block(names, first, pattern, mean) if compact else None
        if coefficients is None and compact and tile is None:
            coefficients, periods = self._nested_line(names, first)
            if coefficients is None:
                # Blocks that begin wherever a row or a plane of theirs does, near the line.
                coefficients, periods = self._any_line(names, first, _NEAR * _usual_run(sectors))
        return _Access(
            self,
            touched.writes,
            pattern,
            coefficients if compact else None,
            (int(first.min()), int(last.max()) + 1),
            mean,
            tile,
            self._unseen(names, first),
            examples,
            periods,
        )

    def _any_line(self, blocks: Array, first: Array, away: float) -> tuple[Array | None, tuple[int, ...]]:
        """A line that the first sector is not further from, and the period after which it begins anew if there is one."""
        coefficients = self._line(blocks, first, (), away)
        if coefficients is not None:
            return coefficients, ()
        for period in dict.fromkeys(_periods(blocks, first, self.total)):
            if 1 < period < self.total:
                coefficients = self._line(blocks, first, (period,), away)
                if coefficients is not None:
                    return coefficients, (period,)
        return None, ()

    def _nested_line(self, blocks: Array, first: Array) -> tuple[Array | None, tuple[int, ...]]:
        """A line that begins anew after a period, and after one of several of these."""
        if len(blocks) < _FEWEST_NESTED:
            return None, ()
        inner = (each for each in dict.fromkeys(_periods(blocks, first, self.total)) if 1 < each < self.total)
        for period in itertools.islice(inner, _MOST_NESTED):
            for outer in itertools.islice(_divisors(self.total // period), _MOST_NESTED):
                coefficients = self._line(blocks, first, (period, period * outer), 1.01)
                if coefficients is not None:
                    return coefficients, (period, period * outer)
        return None, ()

    def _unseen(self, blocks: Array, first: Array) -> tuple[float, float]:
        """How far below and above what the sample has seen the blocks before and after it begin, if all go on as these do."""
        if len(blocks) < 2:
            return 0.0, 0.0
        slope = float(np.polyfit(blocks - blocks[0], first - first[0], 1)[0])
        before, after = slope * float(blocks[0]), slope * float(self.total - 1 - blocks[-1])
        return max(before, -after, 0.0), max(after, -before, 0.0)

    def indices(self, blocks: Array, periods: tuple[int, ...] = ()) -> Array:
        """``(blocks, 4)``: one, and the index along x, y and z; or, with periods, within the first one, of it, and of the second."""
        gx, gy, _ = self._grid
        if periods:
            gx = periods[0]
            gy = periods[1] // gx if len(periods) > 1 else self.total // gx + 1
        return np.stack([np.ones(len(blocks)), blocks % gx, blocks // gx % gy, blocks // (gx * gy)], axis=1)

    def _line(self, blocks: Array, first: Array, periods: tuple[int, ...], away: float) -> Array | None:
        """Coefficients of the first sector as a linear function of the block's index, if it is one but for ``away`` sectors."""
        if len(blocks) < 2:
            return np.array([float(first[0]), 0, 0, 0])
        matrix = self.indices(blocks, periods)
        origin = first.min()
        coefficients, *_ = np.linalg.lstsq(matrix, (first - origin).astype(np.float64), rcond=None)
        error = np.abs(matrix @ coefficients - (first - origin))
        if np.count_nonzero(error <= away) < _FITTING * len(blocks):
            return None
        coefficients[0] += origin
        result: Array = coefficients
        return result


def _joined(accesses: list[_Access]) -> list[_Access]:
    """Accesses with those joined that go over the same addresses, such as the elements of what is stored one by one."""
    result: list[_Access] = []
    ranges: list[list[_Access]] = []
    groups: dict[Any, list[_Access]] = {}
    for each in accesses:
        if each.coefficients is None:
            same = (group for group in ranges if group[0].writes == each.writes and _overlap(group[0], each))
            group = next(same, None)
            if group is None:
                ranges.append([each])
            else:
                group.append(each)
        else:
            slopes = tuple(np.round(each.coefficients[1:], 2).tolist())
            groups.setdefault((each.writes, each.periods, *slopes), []).append(each)
    result += [_range_of(group) for group in ranges]
    for group in groups.values():
        group.sort(key=lambda each: each.start)
        pending = [group[0]]
        for each in group[1:]:
            end = max(other.start + int(other.pattern[-1]) for other in pending)
            if each.start <= end + 1:
                pending.append(each)
            else:
                result.append(_union(pending))
                pending = [each]
        result.append(_union(pending))
    return result


def _overlap(one: _Access, other: _Access) -> bool:
    """Whether the ranges of two accesses are nearly the same."""
    both = min(one.extent[1], other.extent[1]) - max(one.extent[0], other.extent[0])
    either = max(one.extent[1], other.extent[1]) - min(one.extent[0], other.extent[0])
    return both >= _SAME_RANGE * either


def _range_of(accesses: list[_Access]) -> _Access:
    """Accesses that follow no line, over about the same range, as one."""
    joined = accesses[0]
    joined.extent = min(each.extent[0] for each in accesses), max(each.extent[1] for each in accesses)
    # How much of what they touch is touched by one of them alone, by a block that has them all.
    blocks = set.intersection(*(set(each.examples) for each in accesses))
    if blocks:
        examples = [np.concatenate([each.examples[block] for each in accesses]) for block in blocks]
        together = sum(len(ascending(each)) for each in examples) / sum(map(len, examples))
        joined.count = sum(each.count for each in accesses) * together
        if any(each.tile for each in accesses):
            # Of blocks that are tiles in one access the others are parts of the tiles.
            joined.tile = sum(each.tile or each.count for each in accesses) * together
    else:
        # Blocks that do different things.
        joined.count = max(each.count for each in accesses)
        joined.tile = max((each.tile for each in accesses if each.tile), default=None)
    if joined.tile:
        joined.see_all()
    return joined


def _union(accesses: list[_Access]) -> _Access:
    first = accesses[0]
    if len(accesses) > 1:
        first.pattern = ascending(
            np.concatenate([each.pattern + (each.start - first.start) for each in accesses])
        )
    return first


def _periods(blocks: Array, first: Array, total: int) -> Iterator[int]:
    """What a kernel may divide its block's index by: where the step from a block to the next is another than usual, divisors
    of the grid, powers of two.
    """
    follows = np.flatnonzero(np.diff(blocks) == 1)
    steps = np.diff(first)[follows]
    if steps.size > 1:
        jumps = blocks[follows[np.abs(steps - np.median(steps)) > 1] + 1]
        if jumps.size > 1:
            yield int(np.gcd.reduce(jumps))
    yield from _divisors(total)
    yield from (1 << exponent for exponent in range(1, total.bit_length()))


def _divisors(number: int) -> Iterator[int]:
    """Those but 1 and the number itself, the small ones first."""
    small = [each for each in range(2, min(math.isqrt(number), _MOST_TRIED) + 1) if number % each == 0]
    yield from small
    yield from (number // each for each in small)


def _usual_run(sectors: Array) -> float:
    """How many sectors follow each other, where most of ``sectors`` are, with gaps no longer than what is between them."""
    run = _median_run(sectors, 1)
    return _median_run(sectors, run + 1)


def _median_run(sectors: Array, step: float) -> float:
    starts = np.flatnonzero(np.concatenate(([True], np.diff(sectors) > step)))
    ends = np.append(starts[1:], len(sectors)) - 1
    lengths = sectors[ends] - sectors[starts] + 1
    return float(np.median(np.repeat(lengths, ends - starts + 1)))


def _new_per_block(blocks: Array, first: Array, pattern: Array, count: float) -> float | None:
    """Sectors that each block touches and its neighbour does not, where most neighbours are as far apart; else ``None``."""
    neighbours = np.diff(blocks) == 1
    if not neighbours.any():
        return None
    steps = np.abs(np.diff(first)[neighbours])
    usual = float(np.median(steps))
    if np.count_nonzero(np.abs(steps - usual) <= 1) < _NEIGHBOURS * steps.size:
        return None
    if usual <= 1:
        # Groups of blocks that share all.
        return count * len(ascending(first)) / len(first)
    shared = np.count_nonzero(np.isin(pattern + round(usual), pattern, assume_unique=True))
    return count * (1 - shared / len(pattern))


@dataclass(slots=True)
class _Access:
    footprints: Footprints
    writes: bool
    #: Sectors of a block from its first one on.
    pattern: Array
    coefficients: Array | None
    extent: tuple[int, int]
    count: float
    #: Of blocks that are tiles: sectors that each of them adds.
    tile: float | None
    #: How far below and above its extent blocks that are tiles may go on where the sample has not seen them.
    unseen: tuple[float, float]
    #: Sectors of some blocks, by their indices.
    examples: dict[int, Array]
    #: Blocks after which what is linear begins anew, where a kernel divides the block's index; none where it does not.
    periods: tuple[int, ...]
    #: Sectors that the last wave brought into the cache.
    brought: float = 0.0

    @property
    def regular(self) -> bool:
        return self.coefficients is not None

    @property
    def start(self) -> int:
        """First sector of the first block, of what follows a line."""
        assert self.coefficients is not None
        return round(float(self.coefficients[0]))

    def see_all(self) -> None:
        """Let the range be that of all tiles, by those that the sample has seen, but no larger than all of them together."""
        assert self.tile is not None
        low, high = self.extent
        more = max(self.tile * self.footprints.total - (high - low), 0.0)
        self.extent = max(low - round(min(self.unseen[0], more)), 0), high + round(min(self.unseen[1], more))

    def _first(self, blocks: Array) -> Array:
        assert self.coefficients is not None
        first = self.footprints.indices(blocks, self.periods) @ self.coefficients
        return ascending(np.maximum(np.rint(first), 0).astype(np.int64))

    def touch(self, blocks: Array, level2: Level2) -> float:
        """Let ``blocks`` touch what they do; how many sectors were not there, of what they read."""
        if self.coefficients is None:
            return self._touch_tiles(blocks, level2) if self.tile else self._touch_at_random(blocks, level2)
        first = self._first(blocks)
        pattern = self.pattern
        missing = 0
        if len(pattern) == pattern[-1] + 1 or len(first) * len(pattern) > _MOST_NAMED:
            # Ranges that touch each other are one.
            length = int(pattern[-1]) + 1
            starts = first[np.concatenate(([True], first[1:] > first[:-1] + length))]
            ends = first[np.concatenate((first[1:] > first[:-1] + length, [True]))] + length
            covered = int((ends - starts).sum())
            # Blocks whose sectors lie between each other's fill the range together.
            density = min(len(first) * len(pattern) / covered, 1.0)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                missing += level2.touch_range(start * SECTOR, end * SECTOR)
            return self._missed(missing * density)
        missing = level2.touch(ascending((first[:, None] + pattern).ravel()))
        return self._missed(missing)

    def _touch_tiles(self, blocks: Array, level2: Level2) -> float:
        assert self.tile is not None
        low, high = self.extent
        needed = min(self.tile * len(blocks), float(high - low))
        start = low + int((high - low) * float(blocks[0]) / self.footprints.total)
        start = max(min(start, high - int(needed)), low)
        return self._missed(level2.touch_range(start * SECTOR, (start + int(needed)) * SECTOR))

    def _touch_at_random(self, blocks: Array, level2: Level2) -> float:
        low, high = self.extent
        size = high - low
        named = self.count * len(blocks)
        distinct = size * -math.expm1(-named / size)
        generator = np.random.default_rng(int(blocks[0]))
        if distinct > _MOST_NAMED or distinct > size / 2:
            missing: float = level2.touch_range(low * SECTOR, high * SECTOR) * distinct / size
        elif size > _FAR * level2.sectors:
            # Of a range so large next to nothing is there.
            missing = distinct
            level2.pass_by(distinct)
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
            if self.tile:
                # The sample reaches nearly to both ends of the range.
                return min(self.tile * total, size * (1 + 1 / 20))
            return size * -math.expm1(-self.count * total / size)
        step = max(1, total // 2_000_000)
        first = self._first(np.arange(0, total, step))
        length = int(self.pattern[-1]) + 1
        if len(first) * len(self.pattern) <= _MOST_NAMED and step == 1:
            if length == len(self.pattern):
                # Of ranges it follows from where they begin.
                return float(np.minimum(np.diff(np.sort(first)), length).sum()) + length
            return float(len(ascending((first[:, None] + self.pattern).ravel())))
        covered = int(np.minimum(np.diff(first), length * step).sum()) + length
        return min(covered, float(len(first)) * step * len(self.pattern))
