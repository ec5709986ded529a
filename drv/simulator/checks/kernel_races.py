"""Races between the threads of one kernel, and reads of shared memory that was never written.

For each byte of global and shared memory the last plain write, the plain reads since, and the atomic
updates since are kept; an access is checked against those that ``kernel_order`` does not order before
it. Strong accesses (``volatile``, ``.relaxed``) count as atomic and do not race with each other, which
leaves the ``volatile`` accesses of old warp-synchronous code unreported. Two threads that write
the same byte with plain stores are reported, also when one instruction writes it: CUDA does not say which value
stays. Where both write the same value that makes no difference, and generated reductions do it all the time; it is a
finding of its own kind, for those who ask for it.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .asynchronous import Flights
from .distributed import DistributedMemory
from .finding_text import (
    CACHED,
    IN_FLIGHT,
    REGISTERS_EARLY,
    REGISTERS_UNFENCED,
    byte_ranges,
    describe_block,
    describe_thread,
    kernel_race_message,
    register_race_message,
    undefined_message,
)
from .findings import ACTIONS, MAX_RANGES, AccessReport, Finding, Kind
from .kernel_order import Clusters, KernelOrder, Meaning, meaning
from .observation import Access
from .runs import distinct_and_where
from .thread_accesses import Accesses
from .thread_shadow import SINGLE, WARP, AccessRecord, ThreadShadow

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation

    from .asynchronous import Flight
    from .clocks import Moment
    from .findings import Findings
    from .observation import Lanes, Site, Stored

#: Shared memory is remembered for the latest blocks, up to so many bytes.
SHARED_REMEMBERED = 1 << 26
#: What shared memory holds for each warp is recorded for fewer.
_READERS_REMEMBERED = 1 << 23
_MORE_READERS = 8


class SharedMemory:
    """Shared memory of the blocks of a launch, ``size`` bytes each, side by side in one shadow."""

    def __init__(self, size: int, blocks: int, *, whole: bool) -> None:
        self.stride = -(-size // 16) * 16
        self.slots = max(1, min(blocks, SHARED_REMEMBERED // self.stride))
        self.shadow = ThreadShadow(0, self.slots * self.stride)
        #: Whether everything that blocks did is in the shadow.
        self.whole = whole
        #: Slot of each block plus 1 (-1 when it had one and lost it), and the block in each slot.
        self._slot = np.zeros(blocks, np.int32)
        self._block = np.full(self.slots, -1, np.int64)
        self._next = 0

    def positions(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the shared memory of ``blocks`` ``(lanes,)`` starts in the shadow."""
        slots = self._slot[blocks]
        if slots.min() <= 0:
            for block in np.unique(blocks[slots <= 0]).tolist():
                self._admit(block)
            slots = self._slot[blocks]
        return (slots - 1).astype(np.int64) * self.stride

    def remember_less(self) -> None:
        """Use less memory from now on."""
        self.slots = max(1, min(self.slots, max(_READERS_REMEMBERED // self.stride, self._next)))
        self._next %= self.slots

    def _admit(self, block: int) -> None:
        slot = self._next
        self._next = (slot + 1) % self.slots
        former = int(self._block[slot])
        if former >= 0:
            self._slot[former] = -1
            self.shadow.clear(slot * self.stride, (slot + 1) * self.stride)
        if self._slot[block] < 0:
            self.whole = False
        self._block[slot] = block
        self._slot[block] = slot + 1


class KernelRaces:
    """The checks of one launch. Arrays of lanes have shape ``(lanes,)``."""

    def __init__(self, launch: Any, findings: Findings, moment: Moment, *, same_values: bool = False) -> None:
        self._launch = launch
        self._same_values = same_values
        self._findings = findings
        self._moment = moment
        #: Threads of a block.
        self.threads = prod(launch.block)
        self.order = KernelOrder(
            prod(launch.grid), self.threads, launch.properties.warp_size, _clusters(launch)
        )
        self._flights: Flights | None = None
        #: Site of the instruction that ran at each time.
        self._sites: dict[int, Site] = {}
        self._meanings: dict[tuple[int, Access], tuple[Site, Meaning]] = {}
        self._told: set[tuple[Kind, int, int, int]] = set()
        self._global: dict[Allocation, ThreadShadow] = {}
        self._shared: SharedMemory | None = None
        self._distributed = DistributedMemory(self)

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
        """Lanes touch ``width`` bytes at byte ``offsets`` of ``allocation``."""
        shadow, positions = self.shadow_of(allocation, None, offsets, width)
        self._access(shadow, positions, offsets, width, kind, lanes, site, allocation, stored)

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
        """Lanes touch ``width`` bytes at ``offsets`` of the shared memory of ``owners``, or their own block."""
        if owners is not None:
            self._distributed.access(owners, lanes, offsets, width, kind, site)
        shadow, positions = self.shadow_of(None, lanes.block if owners is None else owners, offsets, width)
        self._access(shadow, positions, offsets, width, kind, lanes, site, None, stored)

    def shadow_of(
        self,
        allocation: Allocation | None,
        owners: NDArray[np.int64] | None,
        offsets: NDArray[np.int64],
        width: int,
    ) -> tuple[ThreadShadow, NDArray[np.int64]]:
        """Records of an allocation, or of the shared memory of ``owners``, and the positions of ``offsets`` there."""
        if allocation is not None:
            shadow = self._global.get(allocation)
            if shadow is None:
                shadow = self._global[allocation] = ThreadShadow(allocation.base, allocation.size)
            return shadow, offsets
        assert owners is not None
        shared = self._shared
        end = int(offsets.max()) + width
        if shared is None or end > shared.stride:
            launch = self._launch
            kernel = launch.kernel
            size = max(kernel.reserved_shared_bytes + kernel.static_shared_bytes + launch.dynamic_shared, end)
            shared = self._shared = SharedMemory(size, self.order.blocks, whole=shared is None)
        return shared.shadow, shared.positions(owners) + offsets

    def barrier(self, blocks: NDArray[np.int64]) -> None:
        """All threads of ``blocks`` passed a barrier."""
        self.order.barrier(blocks)

    def warp_barrier(self, lanes: Lanes) -> None:
        """``lanes`` passed a warp-level synchronisation together."""
        self.order.warp_barrier(lanes.block * self.threads + lanes.thread)

    def fence(self, lanes: Lanes) -> None:
        """``lanes`` passed a memory fence."""
        self.order.fence(lanes.block * self.threads + lanes.thread)

    # Barrier objects, and asynchronous operations

    @property
    def flights(self) -> Flights:
        """The asynchronous operations."""
        if self._flights is None:
            self._flights = Flights(self)
        return self._flights

    def release(self, key: Hashable, lanes: Lanes) -> None:
        """See :class:`~.observation.AccessObserver`."""
        self.order.release(key, lanes.block * self.threads + lanes.thread)

    def complete(self, key: Hashable, block: int) -> None:
        """See :class:`~.observation.AccessObserver`."""
        if self._flights is None:
            self.order.complete(key, block)
        else:
            self._flights.complete(key, block)

    def acquire(self, key: Hashable, lanes: Lanes) -> None:
        """See :class:`~.observation.AccessObserver`."""
        self.order.acquire(key, lanes.block * self.threads + lanes.thread)

    def fence_proxy(self, lanes: Lanes) -> None:
        """See :class:`~.observation.AccessObserver`."""
        self.order.fence_proxy(lanes.block * self.threads + lanes.thread)

    def fence_tensor_maps(self, lanes: Lanes) -> None:
        """See :class:`~.observation.AccessObserver`."""
        self.flights.fence_tensor_maps(lanes.block * self.threads + lanes.thread, self.order.advance())

    def registers_touched(
        self, issuers: Lanes, site: Site, lanes: Lanes, touch: Site, *, writes: bool
    ) -> None:
        """See :class:`~.observation.AccessObserver`."""
        first = self._register_side(issuers, site, "multiplies asynchronously")
        second = self._register_side(
            lanes, touch, "writes its registers" if writes else "reads its registers"
        )
        self._register_race(first, second, REGISTERS_EARLY)

    def registers_unfenced(self, lanes: Lanes, writer: Site | None, site: Site) -> None:
        """See :class:`~.observation.AccessObserver`."""
        first = None if writer is None else self._register_side(lanes, writer, "writes registers")
        second = self._register_side(lanes, site, "multiplies asynchronously")
        self._register_race(first, second, REGISTERS_UNFENCED)

    def _register_side(self, lanes: Lanes, site: Site, action: str) -> AccessReport:
        return replace(
            self.side(Access.WRITE, site, int(lanes.block[0]) * self.threads + int(lanes.thread[0])),
            action=action,
        )

    def _register_race(self, first: AccessReport | None, second: AccessReport, advice: str) -> None:
        message = register_race_message(first, second, advice)
        self._findings.add(Finding(Kind.REGISTER_RACE, message, first, second))

    def blocks_end(self, blocks: NDArray[np.int64]) -> None:
        """See :class:`~.observation.AccessObserver`."""
        if self._flights is not None:
            self._flights.forget(blocks)
        self._distributed.end(blocks)
        self.order.forget(blocks)

    def products_end(self, flight: Flight, which: NDArray[np.int64], lanes: Lanes) -> None:
        """See :class:`~.observation.AccessObserver`."""
        self.flights.end(flight, which, self.order.warpgroup_units)
        self.order.waited_for_products(lanes.block * self.threads + lanes.thread)

    # Accesses

    def _access(
        self,
        shadow: ThreadShadow,
        positions: NDArray[np.int64],
        offsets: NDArray[np.int64],
        width: int,
        kind: Access,
        lanes: Lanes,
        site: Site,
        allocation: Allocation | None,
        stored: Stored | None,
    ) -> None:
        threads = lanes.block * self.threads + lanes.thread
        entries = shadow.gather(positions, width)
        granules = entries.shape[1]
        if granules > 1:
            threads = np.repeat(threads, granules)
            offsets = np.repeat(offsets, granules)
        what = self._meaning(kind, site)
        self.happens(site)
        accesses = Accesses(
            entries.ravel(), threads, offsets, width, kind, site, allocation, stored, granules
        )
        if what.acquires or what.releases:
            self.order.synchronise(what, threads)
            self._sites[self.order.now] = site
        if allocation is None and kind is not Access.WRITE:
            self.check_written(shadow, accesses)
        self.compare(shadow, accesses, what.kind)
        if what.cached and shadow.writes is not None:
            self._check_cache(shadow.writes, accesses)
        if self._flights is not None:
            self._flights.meet(shadow, accesses, what.kind)
        self.keep(shadow, accesses, what.kind)

    def _check_cache(self, record: AccessRecord, accesses: Accesses) -> None:
        """Report what is read through the cache of textures after this launch has written it."""
        earlier = record.thread[accesses.entries]
        which = np.flatnonzero(earlier > 0)
        # Where nothing orders the two that is what there is to say.
        which = which[self.order.ordered(record, accesses.entries[which], accesses.threads[which])]
        if which.size:
            first = int(which[0])
            site = self._sites[int(record.time[accesses.entries[first]])]
            self.report(accesses, which, int(earlier[first]) - 1, site, Access.WRITE, None, advice=CACHED)

    def happens(self, site: Site) -> None:
        """The instruction ``site`` is what happens next."""
        self._sites[self.order.advance()] = site

    def site_at(self, time: int) -> Site:
        """The instruction that ran at a time."""
        return self._sites[time]

    def is_asynchronous(self, times: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether what happened at each of ``times`` was done by the asynchronous proxy."""
        each, which = distinct_and_where(times)
        proxies = [
            self._meaning(Access.WRITE, self._sites[time]).asynchronous_proxy for time in each.tolist()
        ]
        result: NDArray[np.bool_] = np.array(proxies, np.bool_)[which]
        return result

    def compare(self, shadow: ThreadShadow, accesses: Accesses, kind: Access) -> None:
        """Report earlier accesses that race with ``accesses`` of ``kind``."""
        if shadow.writes is not None:
            self._check(shadow, shadow.writes, Access.WRITE, accesses)
        if kind is not Access.READ and shadow.reads is not None:
            self._check(shadow, shadow.reads, Access.READ, accesses)
        if kind is not Access.ATOMIC and shadow.atomics is not None:
            self._check(shadow, shadow.atomics, Access.ATOMIC, accesses)

    def keep(self, shadow: ThreadShadow, accesses: Accesses, kind: Access) -> None:
        """Record ``accesses`` of ``kind``."""
        if kind is Access.READ:
            if shadow.reads is None:
                shadow.reads = shadow.new_record(several=True)
            self._note(shadow.reads, accesses)
            if accesses.allocation is None and self.order.has_knowledge:
                self._note_readers(shadow, accesses)
        elif kind is Access.ATOMIC:
            if shadow.atomics is None:
                shadow.atomics = shadow.new_record(several=True)
            self._note(shadow.atomics, accesses)
        else:
            self._write(shadow, accesses)

    def _check(
        self, shadow: ThreadShadow, record: AccessRecord, earlier_kind: Access, accesses: Accesses
    ) -> None:
        """Report the accesses in ``record`` that race with ``accesses``."""
        entries, threads = accesses.entries, accesses.threads
        earlier = record.thread[entries]
        others = earlier != threads + 1
        # An atomic comes after every earlier one of the same address, so whoever made the latest one
        # (to reset a counter, say) is after all of them; of readers that is not known.
        if record.scope is not None and earlier_kind is Access.READ:
            others |= record.scope[entries] > SINGLE
        others &= earlier != 0
        if not others.any():
            return
        candidates = np.flatnonzero(others)
        unordered = ~self.order.ordered(record, entries[candidates], threads[candidates])
        if unordered.any():
            racing = candidates[unordered]
            if earlier_kind is Access.READ and shadow.readers is not None:
                racing = self._not_all_known(shadow, record, racing, accesses)
            same = np.zeros(racing.size, np.bool_)
            if earlier_kind is Access.WRITE and accesses.kind is Access.WRITE:
                same = accesses.alike(racing)
            for which, kind in ((racing[~same], None), (racing[same], Kind.SAME_VALUE)):
                if which.size:
                    first = int(which[0])
                    site = self._sites[int(record.time[entries[first]])]
                    self.report(accesses, which, int(earlier[first]) - 1, site, earlier_kind, kind)

    def _not_all_known(
        self,
        shadow: ThreadShadow,
        record: AccessRecord,
        which: NDArray[np.int64],
        accesses: Accesses,
    ) -> NDArray[np.int64]:
        """Those of the entries ``which`` that were read by several, not all of them known to the thread."""
        assert record.scope is not None
        assert shadow.readers is not None
        entries, threads = accesses.entries[which], accesses.threads[which]
        scope = record.scope[entries]
        single = scope == SINGLE
        own_warp = (scope == WARP) & (self.order.relation(record.thread[entries] - 1, threads) <= WARP)
        several = np.flatnonzero(~(single | own_warp))
        known = np.zeros(which.size, np.bool_)
        known[several] = self.order.knows_readers(threads[several], shadow.readers[entries[several]])
        result: NDArray[np.int64] = which[~known]
        return result

    def _note_readers(self, shadow: ThreadShadow, accesses: Accesses) -> None:
        if shadow.readers is None:
            assert self._shared is not None
            self._shared.remember_less()
            shadow.readers = np.zeros((shadow.granules, self.order.reader_columns), np.int32)
        columns = self.order.reader(accesses.threads)
        missing = int(columns.max()) + 1 - shadow.readers.shape[1]
        if missing > 0:
            # Copies that barrier objects count read, too.
            more = np.zeros((shadow.granules, missing + _MORE_READERS), np.int32)
            shadow.readers = np.concatenate([shadow.readers, more], axis=1)
        shadow.readers[accesses.entries, columns] = self.order.now

    def _write(self, shadow: ThreadShadow, accesses: Accesses) -> None:
        entries, threads = accesses.entries, accesses.threads
        record = shadow.writes
        if record is None:
            record = shadow.writes = shadow.new_record(several=False)
        record.thread[entries] = threads + 1
        record.time[entries] = self.order.now
        for other in (shadow.reads, shadow.atomics):
            if other is not None:
                other.thread[entries] = 0
        if shadow.readers is not None:
            shadow.readers[entries] = 0
        stayed = record.thread[entries] - 1
        lost = np.flatnonzero(stayed != threads)
        if lost.size:
            _, cell = np.unique(entries, return_inverse=True)
            last = np.zeros(int(cell.max()) + 1, np.int64)
            # Of the lanes that store to one address the last one wins, here as in memory.
            last[cell] = np.arange(entries.size)
            same = accesses.alike(lost, last[cell[lost]])
            for which, kind in ((lost[~same], None), (lost[same], Kind.SAME_VALUE)):
                if which.size:
                    self.report(accesses, which, int(stayed[which[0]]), accesses.site, accesses.kind, kind)

    def _note(self, record: AccessRecord, accesses: Accesses) -> None:
        """Add ``accesses`` to those that ``record`` keeps; ones that are ordered before them go."""
        entries, threads = accesses.entries, accesses.threads
        scopes = record.scope
        assert scopes is not None
        earlier = record.thread[entries]
        new = np.full(entries.size, SINGLE, np.int8)
        if earlier.any():
            unordered = np.flatnonzero(
                (earlier != 0) & ((earlier != threads + 1) | (scopes[entries] != SINGLE))
            )
            unordered = unordered[~self.order.ordered(record, entries[unordered], threads[unordered])]
            group = self.order.relation(earlier[unordered] - 1, threads[unordered])
            new[unordered] = np.maximum(group, scopes[entries[unordered]])
        record.thread[entries] = threads + 1
        record.time[entries] = self.order.now
        scopes[entries] = new
        stayed = record.thread[entries] - 1
        lost = np.flatnonzero(stayed != threads)
        if lost.size:
            group = np.maximum(self.order.relation(stayed[lost], threads[lost]), new[lost])
            np.maximum.at(scopes, entries[lost], group)

    def check_written(self, shadow: ThreadShadow, accesses: Accesses) -> None:
        """Report shared memory that is read, and that nothing has written."""
        assert self._shared is not None
        if not self._shared.whole:
            return
        entries = accesses.entries
        # The system leaves what it keeps for itself in the state in which the headers of CUDA expect it.
        unwritten = accesses.offsets >= self._launch.kernel.reserved_shared_bytes
        for record in (shadow.writes, shadow.atomics):
            if record is not None:
                unwritten &= record.thread[entries] == 0
        if shadow.written_in_flight is not None:
            # That they are read too early is another finding.
            unwritten &= shadow.written_in_flight[entries] == 0
        if unwritten.any():
            which = np.flatnonzero(unwritten)
            report = self.side(accesses.kind, accesses.site, int(accesses.threads[which[0]]))
            ranges = byte_ranges(accesses.offsets[which], accesses.width)
            reported = tuple(ranges[:MAX_RANGES])
            message = undefined_message(report, None, ranges)
            self._findings.add(Finding(Kind.UNINITIALIZED, message, None, report, reported, None))

    def _meaning(self, kind: Access, site: Site) -> Meaning:
        key = (id(site), kind)
        entry = self._meanings.get(key)
        if entry is None:
            entry = self._meanings[key] = (site, meaning(kind, site.text))
        return entry[1]

    def add(self, finding: Finding) -> None:
        """Report what is wrong."""
        self._findings.add(finding)

    def block_text(self, block: int) -> str:
        """What reports call a block, given by its linear index."""
        return describe_block(self._launch, block)

    def side(self, kind: Access, site: Site, thread: int) -> AccessReport:
        """What ``thread``, a linear index in the grid, did with the instruction ``site``: one side of a finding."""
        moment = self._moment
        action = ACTIONS[kind]
        if self._meaning(kind, site).asynchronous:
            action += " asynchronously"
        # An asynchronous unit is nobody in particular.
        known = thread < self.order.blocks * self.threads
        thread_text = describe_thread(self._launch, *divmod(thread, self.threads)) if known else ""
        return AccessReport(moment.label, action, moment.stream, moment.stack, site, thread_text)

    def report(
        self,
        accesses: Accesses,
        which: NDArray[np.int64],
        other: int,
        other_site: Site,
        other_kind: Access,
        kind: Kind | None,
        *,
        advice: str = "",
    ) -> None:
        """Report that ``which`` of ``accesses`` race with what the thread ``other`` did at ``other_site``.

        ``kind`` is that of the finding, where it does not follow from the memory; ``advice`` what would help.
        """
        if kind is Kind.SAME_VALUE and not self._same_values:
            return
        allocation, site = accesses.allocation, accesses.site
        if kind is None:
            kind = Kind.SHARED_RACE if allocation is None else Kind.KERNEL_RACE
        key = (kind, id(other_site), id(site), id(allocation))
        if key in self._told:
            return
        self._told.add(key)
        first = self.side(other_kind, other_site, other)
        second = self.side(accesses.kind, site, int(accesses.threads[which[0]]))
        ranges = byte_ranges(accesses.offsets[which], accesses.width)
        if not advice and other >= self.order.blocks * self.threads:
            advice = IN_FLIGHT
        same_block = other // self.threads == int(accesses.threads[which[0]]) // self.threads
        message = kernel_race_message(
            kind, first, second, allocation, ranges, same_block=same_block, advice=advice
        )
        self._findings.add(Finding(kind, message, first, second, tuple(ranges[:MAX_RANGES]), allocation))


def _clusters(launch: Any) -> Clusters | None:
    """Which blocks of a launch are clusters; ``None`` where each is one by itself."""
    cluster = launch.cluster
    if cluster is None or prod(cluster) == 1:
        return None
    x, y, _ = launch.grid
    linear = np.arange(prod(launch.grid))
    axes = (linear % x, linear // x % y, linear // (x * y))
    number = rank = np.zeros_like(linear)
    for axis, size, each in reversed(list(zip(axes, launch.grid, cluster, strict=True))):
        number = number * (size // each) + axis // each
        rank = rank * each + axis % each
    return Clusters(prod(cluster), number, rank)
