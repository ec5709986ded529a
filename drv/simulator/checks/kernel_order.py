"""What orders the accesses of a kernel's threads: barriers, warp barriers, and fences with atomics.

Every instruction, barrier and fence that the interpreter runs has a *time*, one after the other. An
earlier access is ordered before a thread's access now when

- it is the same thread's;
- it is the same block's, and the block has passed a barrier since;
- it is the same warp's, and both threads have passed a warp barrier since;
- its block has *released* it since, and this thread has *acquired* after that.

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
from typing import TYPE_CHECKING

import numpy as np

from .observation import Access
from .thread_shadow import BLOCK, GRID, SINGLE, WARP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .thread_shadow import AccessRecord

#: Qualifiers of loads and stores that other threads may rely on.
STRONG = frozenset(("volatile", "relaxed", "acquire", "release", "mmio", "cv", "wt"))
#: Qualifiers that make an access a fence as well.
FENCING = frozenset(("acquire", "release", "acq_rel", "sc"))


@dataclass(slots=True, frozen=True)
class Meaning:
    """What an instruction's access means to other threads."""

    kind: Access
    acquires: bool = False
    releases: bool = False
    fences: bool = False


def meaning(kind: Access, text: str) -> Meaning:
    """How the instruction ``text`` orders, from its qualifiers. A strong access counts as atomic."""
    opcode = next((word for word in text.split() if not word.startswith("@")), "")
    qualifiers = frozenset(opcode.rstrip(";").split("."))
    fences = not qualifiers.isdisjoint(FENCING)
    if kind is Access.ATOMIC:
        return Meaning(kind, acquires=True, releases=True, fences=fences)
    reads = kind is Access.READ
    # ld.global.cg is how code older than the memory model reads what other blocks publish.
    if qualifiers.isdisjoint(STRONG) and not (reads and "cg" in qualifiers):
        return Meaning(kind)
    return Meaning(Access.ATOMIC, acquires=reads, releases=not reads, fences=fences)


class KernelOrder:
    """Order of the accesses within one launch. Threads are linear indices in the grid, ``(lanes,)``."""

    def __init__(self, blocks: int, block_threads: int, warp_size: int) -> None:
        self.blocks = blocks
        self.block_threads = block_threads
        self.warp_size = warp_size
        self.now = 0
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
        scope = SINGLE if record.scope is None else record.scope[entries]
        block = threads // self.block_threads
        own_block = earlier // self.block_threads == block
        result: NDArray[np.bool_] = (earlier == threads) & (scope == SINGLE)
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

    def _warp(self, threads: NDArray[np.int64]) -> NDArray[np.int64]:
        block, thread = np.divmod(threads, self.block_threads)
        warps = -(-self.block_threads // self.warp_size)
        numbers: NDArray[np.int64] = block * warps + thread // self.warp_size
        return numbers
