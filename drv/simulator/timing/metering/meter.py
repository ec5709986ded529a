"""What a launch did, as the model of time counts it, collected while its blocks run.

The meter is the observer of the launch's accesses, and stands before the translated blocks of the kernel to count which
warps run them. Nothing of it is there for a launch that is not metered: the plan of its kernel is the plain one then,
and there is no observer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.checks.observation import Access, Span
from drv.simulator.timing.figures import SECTOR, WARP

from .caches import ascending, level_1_misses
from .counts import BlockRuns, Counts, SiteCounts
from .footprint import Footprints
from .iterations import Iterations
from .metered_plan import MeteredPlan
from .requests import KEY_MASK, by_warp, global_request, same_address, shared_request
from .tally import Tally
from .touched_bytes import TouchedBytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from drv.simulator.checks.observation import AccessObserver, Lanes, Site, Stored
    from drv.simulator.execution.launch_state import LaunchState
    from drv.simulator.execution.translation.plan import KernelPlan
    from drv.simulator.memory.address_space import Allocation
    from drv.simulator.ptx.control_flow import Block

    from .caches import Level2

    Array = NDArray[Any]

#: Batches of a grid that are all metered; of a larger one so many are, spread evenly.
MOST_BATCHES, SAMPLED_BATCHES = 40, 20
#: Instructions of lanes after which a sample that nobody needs the results of is large enough, if it has so many batches.
ENOUGH_LANES, FEWEST_BATCHES = 40_000_000, 2
#: Keys of sectors that are collected before they are sorted out.
_MAX_KEYS = 1 << 21
#: Instructions that wait for an ``mbarrier`` object.
_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")
#: Threads of a warpgroup.
_WARPGROUP = 4 * WARP


class Meter:
    """Meters one launch.

    Parameters
    ----------
    level2 : Level2
        The device's level-2 cache.
    level1_bytes : int
        Bytes of level 1 that a thread block has.
    resident : int
        Thread blocks that the device runs at once.
    results : bool
        Whether the launch's results are needed. Otherwise only a sample of a large grid runs.
    observer : AccessObserver, optional
        Another observer, which is told everything too.
    repeats : bool
        Whether iterations of loops may count without being run, where results are not needed either.
    """

    def __init__(
        self,
        level2: Level2,
        level1_bytes: int,
        resident: int,
        *,
        results: bool = True,
        observer: AccessObserver | None = None,
        repeats: bool = True,
    ) -> None:
        self._level2 = level2
        self._level1_bytes = level1_bytes
        self._resident = resident
        self._results = results
        self._other = observer
        self._sites: dict[tuple[int, Access, int], SiteCounts] = {}
        self._runs: dict[int, BlockRuns] = {}
        self._keys: list[Array] = []
        self._key_sites: list[tuple[SiteCounts, int, int]] = []
        self._key_count = 0
        self._touched = TouchedBytes()
        self._hot: list[tuple[Array, Array]] = []
        self._per_block: list[float] = []
        self._start = 0
        #: Instructions of lanes that were counted and did not run.
        self._left_out = 0.0
        self._repeats = repeats and not results and observer is None
        self._iterations: Iterations | None = None
        self._all = True
        self.counts = Counts(0, 0, 0, [], [], 0)

    # What runs

    def batches(self, state: LaunchState, size: int) -> Iterator[int]:
        """The first blocks of the batches of ``size`` blocks that are to run, in ascending order.

        Each batch is set up to be metered or not as it is asked for.
        """
        plain = state.plan
        if self._repeats and not state.cooperative:
            self._iterations = Iterations(plain.function(plain.entry.name), self)
        metered = MeteredPlan(plain, self, self._iterations)
        self.counts = Counts(state.blocks, 0, state.threads, [], [], 0)
        self._footprints = Footprints(state.grid)
        count = -(-state.blocks // size)
        self._all = count <= MOST_BATCHES or state.cooperative
        chosen = list(range(count)) if self._all else _spread(0, count, SAMPLED_BATCHES)
        if not self._all and not self._results and _communicates(plain):
            # Blocks may wait for those before them.
            chosen = list(range(SAMPLED_BATCHES))
        sample = set(chosen)
        pending = list(range(count)) if self._all or self._results else chosen
        while pending:
            batch = pending.pop(0)
            start, stop = batch * size, min((batch + 1) * size, state.blocks)
            if batch not in sample:
                state.plan, state.observer = plain, self._other
                yield start
                continue
            state.plan, state.observer = metered, self  # type: ignore[assignment]
            self._start, before, left_out = start, self._lane_instructions(), self._left_out
            yield start
            self._sort_out()
            self.counts.metered += stop - start
            done = self._lane_instructions() - before
            self._per_block.append(done / (stop - start))
            if len(self._per_block) == 1 and not self._all and not self._results:
                # As many more as are worth their time.
                ran = max(done - (self._left_out - left_out), 1)
                left = min(max(int(ENOUGH_LANES / ran), FEWEST_BATCHES), SAMPLED_BATCHES) - 1
                pending = [pending[index] for index in _spread(0, len(pending), left)]
        state.plan, state.observer = plain, self._other
        self._finish()

    def _lane_instructions(self) -> float:
        return float(sum(each.lanes * len(each.block.instructions) for each in self._runs.values()))

    def ran(self, number: int, block: Block, function: str, lanes: Any) -> None:
        """``lanes`` run a basic block, which ``number`` names."""
        runs = self._runs.get(number)
        if runs is None:
            runs = self._runs[number] = BlockRuns(block, function)
        runs.lanes += lanes.n
        runs.warps += _warps_of(lanes)

    def tally(self) -> Tally:
        """How far the counts have come."""
        return Tally.of(self._runs, self._sites, self.counts.barriers)

    def repeat(self, done: Tally, times: int) -> None:
        """Count once more what was done, so many times; accesses to global memory are counted by themselves."""
        before = self._lane_instructions()
        done.add_to(self._runs, self._sites, times)
        self.counts.barriers += done.barriers * times
        self._left_out += self._lane_instructions() - before

    # Accesses

    def global_access(
        self,
        allocation: Allocation,
        offsets: NDArray[np.int64],
        width: int,
        kind: Access,
        lanes: Lanes,
        site: Site,
        stored: Stored | None = None,
    ) -> None:
        """See :class:`AccessObserver`."""
        if self._other is not None:
            self._other.global_access(allocation, offsets, width, kind, lanes, site, stored)
        self._accessed(allocation, offsets, width, kind, lanes, site)

    def asynchronous_begins(self, lanes: Any, site: Site, spans: Sequence[Span], *, generic: bool) -> Any:
        """See :class:`AccessObserver`."""
        for span in spans:
            if span.box is not None and self._iterations is not None:
                self._iterations.brought(*span.box, lanes)
            if not span.offsets.size:
                continue
            if site.text.startswith("wgmma"):
                # Each warp is said to read both factors; tensor cores read them once for the four. m64n256k16 takes 128
                # clocks, in which shared memory gives 16 KB: factors of 2 and 8 KB fit, but not the second one four times.
                first = span.lane % _WARPGROUP == 0
                span = Span(span.kind, span.offsets[first], span.width, span.lane[first])
            mine = lanes if np.array_equal(span.lane, np.arange(lanes.n)) else lanes.subset(span.lane)
            if span.allocation is not None:
                self._accessed(span.allocation, span.offsets, span.width, span.kind, mine, site)
            else:
                self._count_shared(span.offsets, span.width, span.kind, mine, site)
        if self._other is None:
            return None
        return self._other.asynchronous_begins(lanes, site, spans, generic=generic)

    def _accessed(
        self,
        allocation: Allocation,
        offsets: NDArray[np.int64],
        width: int,
        kind: Access,
        lanes: Lanes,
        site: Site,
    ) -> None:
        self.count_global(allocation, offsets, width, kind, lanes, site)
        if self._iterations is not None:
            self._iterations.accessed(allocation, offsets, width, kind, lanes, site)

    def count_global(
        self,
        allocation: Allocation,
        offsets: NDArray[np.int64],
        width: int,
        kind: Access,
        lanes: Lanes,
        site: Site,
    ) -> None:
        """Count an access to global memory, which may be that of an iteration that does not run."""
        self._touched.add(allocation, offsets, width, kind)
        counts = self._counts(site, kind, "global", width)
        warps = by_warp(lanes)  # type: ignore[arg-type]
        addresses = offsets + allocation.base if offsets.strides[0] else _uniform(offsets, allocation.base)
        if not counts.requests:
            counts.stride = _stride(addresses)
        request = global_request(warps, addresses, width)
        counts.requests += warps.requests
        counts.lanes += warps.lanes
        counts.sectors += request.sectors
        counts.lines += request.lines
        counts.needed += request.needed
        if kind is Access.ATOMIC:
            self._count_atomics(counts, warps, addresses)
        self._keys.append(request.keys)
        self._key_sites.append((counts, self._key_count, self._key_count + len(request.keys)))
        self._key_count += len(request.keys)
        if self._key_count > _MAX_KEYS:
            self._sort_out()

    def shared_access(
        self,
        offsets: NDArray[np.int64],
        width: int,
        kind: Access,
        lanes: Lanes,
        site: Site,
        stored: Stored | None = None,
        owners: NDArray[np.int64] | None = None,
    ) -> None:
        """See :class:`AccessObserver`."""
        if self._other is not None:
            self._other.shared_access(offsets, width, kind, lanes, site, stored, owners)
        if site.text.startswith(_WAITS):
            # It orders threads as atomics do, and changes nothing: lanes of a warp that name one object share what is read.
            kind = Access.READ
        self._count_shared(offsets, width, kind, lanes, site)

    def _count_shared(
        self, offsets: NDArray[np.int64], width: int, kind: Access, lanes: Lanes, site: Site
    ) -> None:
        counts = self._counts(site, kind, "shared", width)
        warps = by_warp(lanes)  # type: ignore[arg-type]
        request = shared_request(warps, offsets, width)
        counts.requests += warps.requests
        counts.lanes += warps.lanes
        counts.wavefronts += request.wavefronts
        counts.ideal_wavefronts += request.ideal
        counts.words += request.words
        counts.worst_wavefronts = max(counts.worst_wavefronts, request.worst)
        if kind is Access.ATOMIC:
            # Lanes that name one word take turns.
            _, worst = same_address(warps, offsets)
            counts.worst_same = max(counts.worst_same, worst)
            counts.wavefronts += (worst - 1) * warps.rows

    def barrier(self, blocks: NDArray[np.int64], lanes: Lanes) -> None:
        """See :class:`AccessObserver`."""
        if self._other is not None:
            self._other.barrier(blocks, lanes)
        self.counts.barriers += _warps_of(lanes)

    def warp_barrier(self, lanes: Lanes) -> None:
        """See :class:`AccessObserver`."""
        if self._other is not None:
            self._other.warp_barrier(lanes)

    def fence(self, lanes: Lanes) -> None:
        """See :class:`AccessObserver`."""
        if self._other is not None:
            self._other.fence(lanes)

    def range_access(self, allocation: Allocation, start: int, stop: int, kind: Access) -> None:
        """See :class:`AccessObserver`; no kernel makes one."""

    def copy_begins(self) -> None:
        """See :class:`AccessObserver`; no kernel is one."""

    def __getattr__(self, name: str) -> Any:
        # What time does not depend on, and the other observer may want to know.
        if name.startswith("_"):
            raise AttributeError(name)
        other = self.__dict__.get("_other")
        return _nothing if other is None else getattr(other, name)

    def _counts(self, site: Site, kind: Access, space: str, width: int) -> SiteCounts:
        key = id(site), kind, width if space == "global" else -width
        counts = self._sites.get(key)
        if counts is None:
            counts = self._sites[key] = SiteCounts(site, kind, space, width)
        return counts

    def _count_atomics(self, counts: SiteCounts, warps: Any, addresses: Array) -> None:
        _, worst = same_address(warps, addresses)
        counts.worst_same = max(counts.worst_same, worst)
        names, times = np.unique(addresses, return_counts=True)
        self._hot.append((names, times))
        if len(self._hot) > 256:
            self._hot = [_merged(self._hot)]

    # Caches

    def _sort_out(self) -> None:
        """Let what was asked for since the last time go through the caches."""
        if not self._keys:
            return
        keys = np.concatenate(self._keys)
        loads = np.zeros(len(keys), np.bool_)
        for counts, start, stop in self._key_sites:
            loads[start:stop] = counts.kind is Access.READ and not _past_level_1(counts.site)
        goes_on = np.ones(len(keys), np.bool_)
        which = np.flatnonzero(loads)
        goes_on[which] = level_1_misses(keys[which], self._level1_bytes)
        reads: list[Array] = []
        others: list[Array] = []
        by_site: dict[int, tuple[SiteCounts, list[Array]]] = {}
        for counts, start, stop in self._key_sites:
            mine = keys[start:stop][goes_on[start:stop]]
            counts.missed += len(mine)
            (reads if counts.kind is Access.READ else others).append(mine)
            if not self._all:
                by_site.setdefault(id(counts), (counts, []))[1].append(mine)
        if self._all:
            for key_arrays, is_read in ((reads, True), (others, False)):
                if key_arrays:
                    missing = self._level2.touch(ascending(np.concatenate(key_arrays) & KEY_MASK))
                    if is_read:
                        self.counts.read_misses += missing
        for number, (counts, key_arrays) in by_site.items():
            mine = np.concatenate(key_arrays)
            if mine.size:
                self._footprints.add(number, mine, self._start, writes=counts.kind is not Access.READ)
        self._keys.clear()
        self._key_sites.clear()
        self._key_count = 0

    def _finish(self) -> None:
        counts = self.counts
        counts.sites = list(self._sites.values())
        counts.runs = list(self._runs.values())
        counts.repeated = self._left_out / max(self._lane_instructions(), 1.0)
        scale = counts.scale
        for each in counts.sites:
            if each.space != "global":
                continue
            if each.kind is Access.READ:
                counts.read_sectors += each.missed * scale
            elif each.kind is Access.WRITE:
                counts.written_sectors += each.missed * scale
            else:
                counts.atomic_sectors += each.missed * scale
        reads, writes = self._touched.read, self._touched.written
        if self._hot:
            counts.hottest = float(_merged(self._hot)[1].max())
        if self._all:
            counts.distinct_read, counts.distinct_written = float(reads), float(writes)
            counts.sectors_written = float(self._touched.sectors_written)
        else:
            self._extrapolate(reads, writes)
            if not self._results:
                self._touched.release_written()
        self._level2.trim()
        self._touched.clear()
        self._keys.clear()

    def _extrapolate(self, reads: int, writes: int) -> None:
        counts = self.counts
        moved = self._footprints.moved(self._resident, self._level2)
        counts.read_misses = moved.read_misses
        counts.regular = moved.regular
        counts.hottest *= counts.scale
        # Where blocks use a part of a sector, others may use the rest.
        counts.distinct_read = min(moved.distinct_read * SECTOR, reads * counts.scale)
        counts.distinct_written = min(moved.distinct_written * SECTOR, writes * counts.scale)
        counts.sectors_written = moved.distinct_written
        if len(self._per_block) > 1:
            values = np.array(self._per_block)
            mean = float(values.mean())
            counts.error = float(2 * values.std(ddof=1) / np.sqrt(len(values)) / mean) if mean else 0.0

    @property
    def sampled(self) -> bool:
        """Whether only a part of the grid was metered."""
        return not self._all


def _stride(addresses: Array) -> int | None:
    steps = np.diff(addresses[:WARP])
    return int(steps[0]) if steps.size and (steps == steps[0]).all() else None


def _merged(name_counts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    names, inverse = np.unique(np.concatenate([each[0] for each in name_counts]), return_inverse=True)
    times = np.bincount(inverse, weights=np.concatenate([each[1] for each in name_counts]))
    return names, times.astype(np.int64)


def _uniform(offsets: Array, base: int) -> Array:
    return np.broadcast_to(offsets[:1] + base, offsets.shape)


def _spread(start: int, stop: int, chosen: int) -> list[int]:
    """``chosen`` numbers, in the middles of equal ranges: the first and last blocks are seldom like others."""
    return sorted({start + int((index + 0.5) * (stop - start) / chosen) for index in range(chosen)})


def _nothing(*_: Any, **__: Any) -> None:
    """What comes of telling nobody."""


def _warps_of(lanes: Any) -> int:
    """Warps that have at least one of ``lanes``."""
    batch = lanes.batch
    if lanes.n == batch.n:
        return int(batch.warps)
    slots = np.broadcast_to(lanes.constant("warp_slot"), (lanes.n,)) >> 5
    if lanes.n == 1:
        return 1
    steps = np.count_nonzero(slots[1:] != slots[:-1]) + 1
    return int(steps) if steps <= batch.warps else len(np.unique(slots))


def _past_level_1(site: Site) -> bool:
    """Whether an instruction's loads go past level 1."""
    text = site.text
    return text.startswith("cp.async.cg") or any(
        each in text for each in (".cg.", ".cv.", ".volatile", ".relaxed", ".acquire")
    )


def _communicates(plan: KernelPlan) -> bool:
    """Whether blocks of a kernel may wait for other blocks: it reads memory that others write while it runs."""
    return any(
        plan.function(plan.entry.name).code(index).polls
        for index in range(len(plan.function(plan.entry.name).blocks))
    )
