"""What orders the accesses of a kernel's threads: barriers, warp barriers, and fences with atomics.

Every instruction, barrier and fence that the interpreter runs has a *time*, one after the other. An
earlier access is ordered before a thread's access now when

- it is the same thread's;
- it is the same block's, and the block has passed a barrier since;
- it is the same warp's, and both threads have passed a warp barrier since;
- its block has *released* it since, and this thread has *acquired* after that;
- this thread *knows* of it by a barrier object of the cluster, in whose phase it was released (``knowledge``).

A block releases what it did with a fence followed by an atomic or other strong store (``volatile``,
``.relaxed``, ``.release``), as every recipe for communication between blocks does; a thread acquires
with an atomic or strong load, and hands it on through barriers. Addresses are not compared and a
fence of one thread counts for its block: a race may hide behind synchronisation that has nothing to
do with it, but a program that synchronises properly ("the last block adds up", decoupled look-back,
spin locks, barriers across the grid) is never reported. Atomics without a fence order nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .knowledge import PLAIN, Knowledge
from .observation import Access
from .runs import distinct, distinct_and_where, divided
from .thread_shadow import BLOCK, GRID, SINGLE, WARP

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from .thread_shadow import AccessRecord

#: Asynchronous units that a cluster has at most.
UNITS = 1 << 20
#: Qualifiers of loads and stores that other threads may rely on.
STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "mmio", "cv", "wt"))
#: Qualifiers of asynchronous operations, and those of the asynchronous proxy's.
_ASYNCHRONOUS = frozenset(("async", "mma_async"))
_BY_PROXY = frozenset(("bulk", "mma_async", "st", "red"))
#: Qualifiers that make an access a fence as well.
FENCING = frozenset(("acquire", "release", "acq_rel", "sc"))

#: How instructions on textures and surfaces begin.
_OF_IMAGES = ("tex.", "tld4.", "suld.", "sust.", "sured.")


@dataclass(slots=True, frozen=True)
class Meaning:
    """What an instruction's access means to other threads."""

    kind: Access
    acquires: bool = False
    releases: bool = False
    fences: bool = False
    #: Whether it is done later than it is issued, and by the asynchronous proxy.
    asynchronous: bool = False
    asynchronous_proxy: bool = False
    #: Whether it reads through the cache of textures, in which nothing is seen that the same launch has written.
    cached: bool = False


def meaning(kind: Access, text: str) -> Meaning:
    """How the instruction ``text`` orders, from its qualifiers. A strong access counts as atomic."""
    opcode = next((word for word in text.split() if not word.startswith("@")), "")
    qualifiers = frozenset(opcode.rstrip(";").split("."))
    if "mbarrier" in qualifiers or "tensormap" in qualifiers:
        # What they order is told apart.
        return Meaning(kind)
    if not _ASYNCHRONOUS.isdisjoint(qualifiers):
        return Meaning(kind, asynchronous=True, asynchronous_proxy=not _BY_PROXY.isdisjoint(qualifiers))
    fences = not qualifiers.isdisjoint(FENCING)
    if opcode.startswith(_OF_IMAGES):
        return Meaning(kind, cached=kind is Access.READ)
    if kind is Access.ATOMIC:
        return Meaning(kind, acquires=True, releases=True, fences=fences)
    reads = kind is Access.READ
    # ld.global.cg is how code older than the memory model reads what other blocks publish.
    if qualifiers.isdisjoint(STRONG) and not (reads and "cg" in qualifiers):
        return Meaning(kind)
    return Meaning(Access.ATOMIC, acquires=reads, releases=not reads, fences=fences)


class Clusters:
    """Which blocks are clusters: each is one by itself, or ``numbers`` and ``ranks`` tell for each block."""

    def __init__(
        self,
        blocks: int,
        numbers: NDArray[np.int64] | None = None,
        ranks: NDArray[np.int64] | None = None,
    ) -> None:
        self.blocks = blocks
        self._numbers = numbers
        self._ranks = ranks

    def number(self, blocks: Any) -> Any:
        """Number of the cluster of each block."""
        return blocks if self._numbers is None else self._numbers[blocks]

    def rank(self, blocks: Any) -> Any:
        """Rank of each block in its cluster."""
        return blocks * 0 if self._ranks is None else self._ranks[blocks]


class KernelOrder:
    """Order of the accesses within one launch. Threads are linear indices in the grid, ``(lanes,)``."""

    def __init__(
        self, blocks: int, block_threads: int, warp_size: int, clusters: Clusters | None = None
    ) -> None:
        self.blocks = blocks
        self.block_threads = block_threads
        self.warp_size = warp_size
        self.clusters = clusters or Clusters(1)
        self.now = 0
        #: Of each cluster in which threads synchronise otherwise than by barriers of their block.
        self._knowledge: dict[int, Knowledge] = {}
        #: Time of each block's latest barrier.
        self._barrier = np.zeros(blocks, np.int32)
        #: Time of each thread's latest warp barrier, once there was one.
        self._warp_barrier: NDArray[np.int32] | None = None
        #: Time of each thread's latest acquire, once there was a fence: before, it tells nothing.
        self._acquired: NDArray[np.int32] | None = None
        #: Time of each block's latest fence that no release has published yet, or 0.
        self._fenced = np.zeros(blocks, np.int32)
        #: Of each block, the times of its releases, ascending.
        self._releases: dict[int, list[int]] = {}
        self._first_release = np.iinfo(np.int32).max

    def advance(self) -> int:
        """Time of what happens next."""
        self.now += 1
        return self.now

    def barrier(self, blocks: NDArray[np.int64]) -> None:
        """All threads of ``blocks`` passed a barrier."""
        self._barrier[blocks] = self.advance()
        if self._acquired is not None:
            rows = self._acquired.reshape(self.blocks, self.block_threads)
            rows[blocks] = rows[blocks].max(axis=1, keepdims=True)
        if self._knowledge:
            for block in blocks.tolist():
                knowledge = self._knowledge.get(int(self.clusters.number(block)))
                if knowledge is not None:
                    knowledge.share_in_block(int(self.clusters.rank(block)))

    def warp_barrier(self, threads: NDArray[np.int64]) -> None:
        """Each warp's ``threads`` passed a warp-level synchronisation together."""
        if self._warp_barrier is None:
            self._warp_barrier = np.zeros(self.blocks * self.block_threads, np.int32)
        self._warp_barrier[threads] = self.advance()
        if self._acquired is not None:
            _, warp = np.unique(self._warp(threads), return_inverse=True)
            latest = np.zeros(int(warp.max()) + 1, np.int32)
            np.maximum.at(latest, warp, self._acquired[threads])
            self._acquired[threads] = latest[warp]
        if self._knowledge:
            for knowledge, _, local in self._in_clusters(threads):
                knowledge.share_in_warps(local)

    def fence(self, threads: NDArray[np.int64]) -> None:
        """``threads`` passed a memory fence."""
        if self._acquired is None:
            self._acquired = np.zeros(self.blocks * self.block_threads, np.int32)
        self._fenced[threads // self.block_threads] = self.advance()

    def synchronise(self, what: Meaning, threads: NDArray[np.int64]) -> None:
        """``threads`` make an access now that releases or acquires."""
        if what.fences:
            self.fence(threads)
            self.advance()
        if self._acquired is None:
            return
        if what.releases:
            blocks = threads // self.block_threads
            for block in np.unique(blocks[self._fenced[blocks] != 0]).tolist():
                self._releases.setdefault(block, []).append(self.now)
                self._fenced[block] = 0
                self._first_release = min(self._first_release, self.now)
        if what.acquires:
            self._acquired[threads] = self.now

    def knows_block(self, threads: NDArray[np.int64], block: int) -> NDArray[np.bool_]:
        """Whether each of ``threads``, of the cluster of ``block``, has synchronised with some thread of it."""
        knowledge = self.knowledge_of(block)
        first = int(self.clusters.rank(block)) * knowledge.width
        known = knowledge.clocks[PLAIN, self.local(threads), first : first + knowledge.width]
        return np.asarray(known.any(axis=1))

    def known_to_block(self, block: int) -> NDArray[np.int32]:
        """Up to which time some thread of ``block`` knows each thread of the cluster."""
        knowledge = self.knowledge_of(block)
        first = int(self.clusters.rank(block)) * self.block_threads
        known = knowledge.clocks[PLAIN, first : first + self.block_threads, : knowledge.first_unit].max(
            axis=0
        )
        every = np.arange(self.clusters.blocks * self.block_threads)
        result: NDArray[np.int32] = known[knowledge.columns(every)]
        return result

    def in_one_cluster(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether two threads are in one cluster; asynchronous units are in none."""
        every = self.blocks * self.block_threads
        same: NDArray[np.bool_] = (
            self._cluster_and_index(np.where(first < every, first, 0))[0]
            == self._cluster_and_index(second)[0]
        )
        return same & (first < every)

    def relation(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int8]:
        """The smallest group that holds both threads: ``WARP``, ``BLOCK`` or ``GRID``."""
        result = np.full(first.shape, GRID, np.int8)
        result[first // self.block_threads == second // self.block_threads] = BLOCK
        result[self._warp(first) == self._warp(second)] = WARP
        result[first == second] = SINGLE
        return result

    def ordered(
        self, record: AccessRecord, entries: NDArray[np.int64], threads: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether the accesses that ``record`` keeps for ``entries`` are ordered before ``threads`` now."""
        earlier = record.thread[entries] - 1
        time = record.time[entries]
        scope: Any = SINGLE if record.scope is None else record.scope[entries]
        if not self._knowledge:
            return self._ordered(earlier, time, scope, threads)
        every = self.blocks * self.block_threads
        if threads.size and threads[0] >= every:
            # Accesses of asynchronous units come together; what these know is not kept.
            return np.zeros(threads.shape, np.bool_)
        known: NDArray[np.bool_] = np.logical_and(self.knows(threads, earlier, time), scope == SINGLE)
        # What an asynchronous unit did is known, or it is not ordered.
        rest = np.flatnonzero(~known & (earlier < every))
        if rest.size:
            scopes = scope if record.scope is None else scope[rest]
            known[rest] = self._ordered(earlier[rest], time[rest], scopes, threads[rest])
        return known

    def _ordered(
        self, earlier: NDArray[np.int64], time: NDArray[np.int32], scope: Any, threads: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """The same by barriers, fences and atomics."""
        block = threads // self.block_threads
        own_block = earlier // self.block_threads == block
        result: NDArray[np.bool_] = np.logical_and(earlier == threads, scope == SINGLE)
        result |= own_block & (scope != GRID) & (self._barrier[block] > time)
        if self._warp_barrier is not None:
            same_warp = (self._warp(earlier) == self._warp(threads)) & (scope <= WARP)
            synced = np.minimum(self._warp_barrier[threads], self._warp_barrier[earlier])
            result |= same_warp & (synced > time)
        if self._releases and self._acquired is not None:
            left = np.flatnonzero(~result)
            acquired = self._acquired[threads[left]]
            result[left] = [
                self._released(*case)
                for case in zip(
                    (earlier[left] // self.block_threads).tolist(),
                    time[left].tolist(),
                    acquired.tolist(),
                    strict=True,
                )
            ]
            # Of many blocks only one is known. Where that is the thread's own, any acquire has to do.
            unknown = own_block[left] & (np.broadcast_to(scope, result.shape)[left] == GRID)
            result[left] |= unknown & (acquired >= self._first_release)
        return result

    def _released(self, block: int, time: int, acquired: int) -> bool:
        releases = self._releases.get(block, ())
        at = bisect_left(releases, time)
        return at < len(releases) and releases[at] <= acquired

    # Barrier objects

    def release(self, key: Hashable, threads: NDArray[np.int64]) -> None:
        """``threads`` arrive at a barrier object with all that they did and know."""
        self.advance()
        for knowledge, index, local in self._in_clusters(threads):
            knowledge.release(knowledge.phase(key), self._clocks(knowledge, local, threads[index]))

    def complete(
        self, key: Hashable, block: int, known: Sequence[tuple[NDArray[np.int64], int]] = ()
    ) -> None:
        """The current phase of a barrier object in the cluster of ``block`` is complete.

        ``known`` are threads and asynchronous units, with times up to which all is known of them that the phase counts.
        """
        knowledge = self.knowledge_of(block)
        phases = knowledge.phase(key)
        knowledge.complete(phases, self.advance())
        assert phases.complete is not None
        for who, time in known:
            columns = self._columns(knowledge, who)
            phases.complete[PLAIN, columns] = np.maximum(phases.complete[PLAIN, columns], time)

    def acquire(self, key: Hashable, threads: NDArray[np.int64]) -> None:
        """``threads`` have found the latest phase of a barrier object complete."""
        for knowledge, _, local in self._in_clusters(threads):
            knowledge.acquire(knowledge.phase(key), local)

    def fence_proxy(self, threads: NDArray[np.int64]) -> None:
        """``threads`` pass a fence between the generic and the asynchronous proxy."""
        self.advance()
        for knowledge, index, local in self._in_clusters(threads):
            knowledge.fence(local, self._clocks(knowledge, local, threads[index], 1)[PLAIN])

    def knows(
        self,
        threads: NDArray[np.int64],
        earlier: NDArray[np.int64],
        time: NDArray[np.int32],
        which: int = PLAIN,
    ) -> NDArray[np.bool_]:
        """Whether each of ``threads`` knows ``earlier``, a thread or an asynchronous unit, up to ``time``."""
        result = np.zeros(threads.shape, np.bool_)
        every = self.blocks * self.block_threads
        cluster, local = self._cluster_and_index(threads)
        is_unit = earlier >= every
        has_units = bool(is_unit.any())
        other, other_local = self._cluster_and_index(np.where(is_unit, 0, earlier) if has_units else earlier)
        unit = earlier - every
        if has_units:
            other = np.where(is_unit, unit // UNITS, other)
        for number in distinct(cluster).tolist():
            knowledge = self._knowledge.get(number)
            if knowledge is None:
                continue
            mine = np.flatnonzero((cluster == number) & (other == number))
            column = knowledge.columns(other_local[mine])
            if has_units:
                column = np.where(is_unit[mine], knowledge.first_unit + unit[mine] % UNITS, column)
            result[mine] = knowledge.clocks[which, local[mine], column] >= time[mine]
        return result

    def _columns(self, knowledge: Knowledge, who: NDArray[np.int64]) -> NDArray[np.int64]:
        """Columns of a cluster's clocks for threads and asynchronous units of it."""
        every = self.blocks * self.block_threads
        local = self._cluster_and_index(np.where(who < every, who, 0))[1]
        unit = knowledge.first_unit + (who - every) % UNITS
        columns: NDArray[np.int64] = np.where(who < every, knowledge.columns(local), unit)
        return columns

    def unit(self, key: Hashable, block: int) -> int:
        """The asynchronous unit of a barrier object in the cluster of ``block``, as records of accesses hold it for a thread."""
        knowledge = self.knowledge_of(block)
        phases = knowledge.phase(key)
        if phases.unit < 0:
            phases.unit = knowledge.new_unit()
        return self.blocks * self.block_threads + int(self.clusters.number(block)) * UNITS + phases.unit

    def warpgroup_units(self, threads: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same of the units that multiply matrices for the warpgroups of ``threads``."""
        result = np.empty(threads.shape, np.int64)
        for knowledge, index, local in self._in_clusters(threads):
            cluster = int(self.clusters.number(int(threads[index[0]]) // self.block_threads))
            result[index] = knowledge.warpgroup(local) + cluster * UNITS
        return result + self.blocks * self.block_threads

    def waited_for_products(self, threads: NDArray[np.int64]) -> None:
        """``threads`` have waited for what their warpgroups multiply."""
        for knowledge, _, local in self._in_clusters(threads):
            knowledge.waited_for_products(local, self.now)

    def knows_readers(self, threads: NDArray[np.int64], readers: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether each of ``threads`` knows the latest reads of every warp and asynchronous unit of its cluster.

        ``readers`` ``(threads, columns)`` are their times, as :meth:`reader` numbers the columns. Of a warp any lane
        that is known will do.
        """
        result = np.ones(threads.shape, np.bool_)
        each, which = distinct_and_where(threads)
        for knowledge, index, local in self._in_clusters(each):
            clocks = self._clocks(knowledge, local, each[index], 1)[PLAIN]
            blocks = self.clusters.blocks
            lanes = clocks[:, : knowledge.first_unit].reshape(len(local), blocks, knowledge.width)
            if knowledge.step == 1:
                room = np.zeros((len(local), blocks, self._warps * self.warp_size), np.int32)
                room[:, :, : knowledge.width] = lanes
                lanes = room.reshape(len(local), blocks, self._warps, self.warp_size).max(axis=3)
            known = np.zeros((len(local), readers.shape[1]), np.int32)
            known[:, : blocks * self._warps] = lanes.reshape(len(local), -1)
            units = clocks[:, knowledge.first_unit :][:, : known.shape[1] - blocks * self._warps]
            known[:, blocks * self._warps : blocks * self._warps + units.shape[1]] = units
            rows = np.full(each.size, -1)
            rows[index] = np.arange(index.size)
            row = rows[which]
            mine = np.flatnonzero(row >= 0)
            result[mine] = (readers[mine] <= known[row[mine]]).all(axis=1)
        return result

    def reader(self, threads: NDArray[np.int64]) -> NDArray[np.int64]:
        """Column of the readers for each of ``threads``, which may be asynchronous units."""
        every = self.blocks * self.block_threads
        is_unit = threads >= every
        block, thread = divided(np.where(is_unit, 0, threads), self.block_threads)
        warp = self.clusters.rank(block) * self._warps + thread // self.warp_size
        unit = self.clusters.blocks * self._warps + (threads - every) % UNITS
        columns: NDArray[np.int64] = np.where(is_unit, unit, warp)
        return columns

    @property
    def has_knowledge(self) -> bool:
        """Whether threads of any cluster synchronise otherwise than by barriers of their block."""
        return bool(self._knowledge)

    @property
    def reader_columns(self) -> int:
        """Columns that :meth:`reader` may name."""
        return self.clusters.blocks * (self._warps + -(-self._warps // 4))

    @property
    def _warps(self) -> int:
        return -(-self.block_threads // self.warp_size)

    def knowledge_of(self, block: int) -> Knowledge:
        """Clocks of the cluster of ``block``."""
        number = int(self.clusters.number(block))
        knowledge = self._knowledge.get(number)
        if knowledge is None:
            knowledge = self._knowledge[number] = Knowledge(self.clusters.blocks, self.block_threads)
        return knowledge

    def local(self, threads: NDArray[np.int64]) -> NDArray[np.int64]:
        """Indices of threads in their clusters."""
        return self._cluster_and_index(threads)[1]

    def forget(self, blocks: NDArray[np.int64]) -> None:
        """All threads of ``blocks`` have ended."""
        for number in np.unique(self.clusters.number(blocks)).tolist():
            self._knowledge.pop(number, None)

    def _cluster_and_index(self, threads: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Clusters of threads, and their indices there."""
        block, local = divided(threads, self.block_threads)
        if self.clusters.blocks > 1:
            local += self.clusters.rank(block) * self.block_threads
        return self.clusters.number(block), local

    def _in_clusters(
        self, threads: NDArray[np.int64]
    ) -> Iterator[tuple[Knowledge, NDArray[np.int64], NDArray[np.int64]]]:
        """Clusters of ``threads``: clocks, indices in ``threads``, and indices in the cluster."""
        block = threads // self.block_threads
        cluster, local = self._cluster_and_index(threads)
        for number in distinct(cluster).tolist():
            index = np.flatnonzero(cluster == number)
            yield self.knowledge_of(int(block[index[0]])), index, local[index]

    def _clocks(
        self, knowledge: Knowledge, local: NDArray[np.int64], threads: NDArray[np.int64], count: int = 2
    ) -> NDArray[np.int32]:
        """Clocks ``(count, threads, columns)`` of threads of one cluster, with what their barriers have ordered."""
        clocks: NDArray[np.int32] = knowledge.clocks[:count, local]
        rank = local // self.block_threads
        block = threads // self.block_threads
        ranks = distinct(rank).tolist()
        for each in ranks:
            mine = np.flatnonzero(rank == each) if len(ranks) > 1 else slice(None)
            columns = slice(each * knowledge.width, (each + 1) * knowledge.width)
            barrier = self._barrier[block[mine][0]]
            clocks[PLAIN, mine, columns] = np.maximum(clocks[PLAIN, mine, columns], barrier)
        lanes = np.arange(len(local))
        if self._warp_barrier is not None and knowledge.step == 1:
            first = local % self.block_threads // self.warp_size * self.warp_size
            others = np.minimum(first[:, None] + np.arange(self.warp_size), self.block_threads - 1)
            columns_of = rank[:, None] * self.block_threads + others
            met = np.minimum(
                self._warp_barrier[threads][:, None],
                self._warp_barrier[block[:, None] * self.block_threads + others],
            )
            held = clocks[PLAIN, lanes[:, None], columns_of]
            clocks[PLAIN, lanes[:, None], columns_of] = np.maximum(held, met)
        clocks[PLAIN, lanes, knowledge.columns(local)] = self.now
        return clocks

    def _warp(self, threads: NDArray[np.int64]) -> NDArray[np.int64]:
        block, thread = divided(threads, self.block_threads)
        numbers: NDArray[np.int64] = block * self._warps + thread // self.warp_size
        return numbers
