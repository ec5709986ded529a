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

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .finding_text import byte_ranges, describe_thread, kernel_race_message, undefined_message
from .findings import ACTIONS, RANGES_KEPT, AccessReport, Finding, Kind
from .kernel_order import KernelOrder, Meaning, meaning
from .observation import Access
from .thread_shadow import SINGLE, AccessRecord, ThreadShadow

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation

    from .clocks import Moment
    from .findings import Findings
    from .observation import Lanes, Site, Stored

#: Shared memory is remembered for the latest blocks, up to so many bytes.
SHARED_REMEMBERED = 1 << 26


@dataclass(slots=True)
class Accesses:
    """Granules that lanes touch now, flat: one entry for each lane and granule."""

    entries: NDArray[np.int64]
    threads: NDArray[np.int64]
    #: Byte offset that each entry's lane accesses, in the allocation or the block's shared memory.
    offsets: NDArray[np.int64]
    width: int
    kind: Access
    site: Site
    #: ``None`` for shared memory.
    allocation: Allocation | None
    #: What is stored, where that is known, and how many entries each lane has.
    stored: Stored | None = None
    granules: int = 1

    def alike(self, which: NDArray[np.int64], winners: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
        """Whether the entries ``which`` store what the entries ``winners`` do, or what is there if left out."""
        if self.stored is None:
            return np.zeros(which.size, np.bool_)
        new = self._bytes(self.stored.new, which)
        other = (
            self._bytes(self.stored.old, which) if winners is None else self._bytes(self.stored.new, winners)
        )
        result: NDArray[np.bool_] = (new == other).all(axis=1)
        return result

    def _bytes(
        self, of_lanes: Callable[[NDArray[np.int64]], NDArray[np.uint8]], entries: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        lanes, granule = np.divmod(entries, self.granules)
        return of_lanes(lanes).reshape(entries.size, self.granules, -1)[np.arange(entries.size), granule]


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
        self._threads = prod(launch.block)
        self._order = KernelOrder(prod(launch.grid), self._threads, launch.properties.warp_size)
        #: Site of the instruction that ran at each time.
        self._sites: dict[int, Site] = {}
        self._meanings: dict[tuple[int, Access], tuple[Site, Meaning]] = {}
        self._told: set[tuple[Kind, int, int, int]] = set()
        self._global: dict[Allocation, ThreadShadow] = {}
        self._shared: SharedMemory | None = None

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
        shadow = self._global.get(allocation)
        if shadow is None:
            shadow = self._global[allocation] = ThreadShadow(allocation.base, allocation.size)
        self._access(shadow, offsets, offsets, width, kind, lanes, site, allocation, stored)

    def shared_access(
        self,
        offsets: NDArray[np.int64],
        width: int,
        kind: Access,
        lanes: Lanes,
        site: Site,
        stored: Stored | None = None,
    ) -> None:
        """Lanes touch ``width`` bytes at ``offsets`` of their own block's shared memory."""
        shared = self._shared
        end = int(offsets.max()) + width
        if shared is None or end > shared.stride:
            launch = self._launch
            kernel = launch.kernel
            size = max(kernel.reserved_shared_bytes + kernel.static_shared_bytes + launch.dynamic_shared, end)
            shared = self._shared = SharedMemory(size, self._order.blocks, whole=shared is None)
        positions = shared.positions(lanes.block) + offsets
        self._access(shared.shadow, positions, offsets, width, kind, lanes, site, None, stored)

    def barrier(self, blocks: NDArray[np.int64]) -> None:
        """All threads of ``blocks`` passed a barrier."""
        self._order.barrier(blocks)

    def warp_barrier(self, lanes: Lanes) -> None:
        """``lanes`` passed a warp-level synchronisation together."""
        self._order.warp_barrier(lanes.block * self._threads + lanes.thread)

    def fence(self, lanes: Lanes) -> None:
        """``lanes`` passed a memory fence."""
        self._order.fence(lanes.block * self._threads + lanes.thread)

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
        threads = lanes.block * self._threads + lanes.thread
        entries = shadow.gather(positions, width)
        granules = entries.shape[1]
        if granules > 1:
            threads = np.repeat(threads, granules)
            offsets = np.repeat(offsets, granules)
        what = self._meaning(kind, site)
        self._sites[self._order.advance()] = site
        accesses = Accesses(
            entries.ravel(), threads, offsets, width, kind, site, allocation, stored, granules
        )
        if what.acquires or what.releases:
            self._order.synchronise(what, threads)
            self._sites[self._order.now] = site
        if allocation is None and kind is not Access.WRITE:
            self._check_written(shadow, accesses)
        if shadow.writes is not None:
            self._check(shadow.writes, Access.WRITE, accesses)
        if what.kind is not Access.READ and shadow.reads is not None:
            self._check(shadow.reads, Access.READ, accesses)
        if what.kind is not Access.ATOMIC and shadow.atomics is not None:
            self._check(shadow.atomics, Access.ATOMIC, accesses)
        if what.kind is Access.READ:
            if shadow.reads is None:
                shadow.reads = shadow.new_record(several=True)
            self._note(shadow.reads, accesses)
        elif what.kind is Access.ATOMIC:
            if shadow.atomics is None:
                shadow.atomics = shadow.new_record(several=True)
            self._note(shadow.atomics, accesses)
        else:
            self._write(shadow, accesses)

    def _check(self, record: AccessRecord, earlier_kind: Access, accesses: Accesses) -> None:
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
        unordered = ~self._order.ordered(record, entries[candidates], threads[candidates])
        if unordered.any():
            racing = candidates[unordered]
            same = np.zeros(racing.size, np.bool_)
            if earlier_kind is Access.WRITE and accesses.kind is Access.WRITE:
                same = accesses.alike(racing)
            for which, kind in ((racing[~same], None), (racing[same], Kind.SAME_VALUE)):
                if which.size:
                    first = int(which[0])
                    site = self._sites[int(record.time[entries[first]])]
                    self._report(accesses, which, int(earlier[first]) - 1, site, earlier_kind, kind)

    def _write(self, shadow: ThreadShadow, accesses: Accesses) -> None:
        entries, threads = accesses.entries, accesses.threads
        record = shadow.writes
        if record is None:
            record = shadow.writes = shadow.new_record(several=False)
        record.thread[entries] = threads + 1
        record.time[entries] = self._order.now
        for other in (shadow.reads, shadow.atomics):
            if other is not None:
                other.thread[entries] = 0
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
                    self._report(accesses, which, int(stayed[which[0]]), accesses.site, accesses.kind, kind)

    def _note(self, record: AccessRecord, accesses: Accesses) -> None:
        """Add ``accesses`` to those that ``record`` keeps; ones that are ordered before them go."""
        entries, threads = accesses.entries, accesses.threads
        scopes = record.scope
        assert scopes is not None
        earlier = record.thread[entries]
        new = np.full(entries.size, SINGLE, np.int8)
        if earlier.any():
            kept = np.flatnonzero((earlier != 0) & ((earlier != threads + 1) | (scopes[entries] != SINGLE)))
            kept = kept[~self._order.ordered(record, entries[kept], threads[kept])]
            group = self._order.relation(earlier[kept] - 1, threads[kept])
            new[kept] = np.maximum(group, scopes[entries[kept]])
        record.thread[entries] = threads + 1
        record.time[entries] = self._order.now
        scopes[entries] = new
        stayed = record.thread[entries] - 1
        lost = np.flatnonzero(stayed != threads)
        if lost.size:
            group = np.maximum(self._order.relation(stayed[lost], threads[lost]), new[lost])
            np.maximum.at(scopes, entries[lost], group)

    def _check_written(self, shadow: ThreadShadow, accesses: Accesses) -> None:
        assert self._shared is not None
        if not self._shared.whole:
            return
        entries = accesses.entries
        # The system leaves what it keeps for itself in the state in which the headers of CUDA expect it.
        unwritten = accesses.offsets >= self._launch.kernel.reserved_shared_bytes
        for record in (shadow.writes, shadow.atomics):
            if record is not None:
                unwritten &= record.thread[entries] == 0
        if unwritten.any():
            which = np.flatnonzero(unwritten)
            report = self._side(accesses.kind, accesses.site, int(accesses.threads[which[0]]))
            ranges = byte_ranges(accesses.offsets[which], accesses.width)
            kept = tuple(ranges[:RANGES_KEPT])
            message = undefined_message(report, None, ranges)
            self._findings.add(Finding(Kind.UNINITIALIZED, message, None, report, kept, None))

    def _meaning(self, kind: Access, site: Site) -> Meaning:
        key = (id(site), kind)
        entry = self._meanings.get(key)
        if entry is None:
            entry = self._meanings[key] = (site, meaning(kind, site.text))
        return entry[1]

    def _side(self, kind: Access, site: Site, thread: int) -> AccessReport:
        moment = self._moment
        where = describe_thread(self._launch, *divmod(thread, self._threads))
        return AccessReport(moment.label, ACTIONS[kind], moment.stream, moment.stack, site, where)

    def _report(
        self,
        accesses: Accesses,
        which: NDArray[np.int64],
        other: int,
        other_site: Site,
        other_kind: Access,
        kind: Kind | None,
    ) -> None:
        """``kind`` is that of the finding, where it does not follow from the memory."""
        if kind is Kind.SAME_VALUE and not self._same_values:
            return
        allocation, site = accesses.allocation, accesses.site
        if kind is None:
            kind = Kind.SHARED_RACE if allocation is None else Kind.KERNEL_RACE
        key = (kind, id(other_site), id(site), id(allocation))
        if key in self._told:
            return
        self._told.add(key)
        first = self._side(other_kind, other_site, other)
        second = self._side(accesses.kind, site, int(accesses.threads[which[0]]))
        ranges = byte_ranges(accesses.offsets[which], accesses.width)
        same_block = other // self._threads == int(accesses.threads[which[0]]) // self._threads
        message = kernel_race_message(kind, first, second, allocation, ranges, same_block=same_block)
        self._findings.add(Finding(kind, message, first, second, tuple(ranges[:RANGES_KEPT]), allocation))
