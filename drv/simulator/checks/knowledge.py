"""What the threads of a cluster know of each other, where they synchronise otherwise than all of a block at once.

A thread *knows* another one up to a time when everything that one did until then is ordered before whatever the thread
does next. That is a vector clock for each thread; it grows when the thread *acquires* what others have *released* into a
barrier object (``mbarrier``, a barrier of some warps of a block, the barrier of a cluster) before a phase of it was
complete. Asynchronous units are known like threads: the copies that an ``mbarrier`` counts, and the matrix products of
a warpgroup.

A second clock tells up to when a thread knows of another one *through a proxy fence*: what generic accesses have
written until then is seen by the asynchronous proxy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .runs import divided

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Clusters with more threads keep a clock entry for each warp and not for each thread.
_PRECISE_THREADS = 2048
_WARP, _WARPGROUP = 32, 128
_MORE_UNITS = 16
PLAIN, FENCED = 0, 1


class Phases:
    """A barrier object: what was released into its current phase, and into the latest complete one."""

    __slots__ = ("complete", "current", "unit")

    def __init__(self) -> None:
        self.current: Array | None = None
        self.complete: Array | None = None
        #: Number of the asynchronous unit that it stands for, if it does.
        self.unit = -1


class Knowledge:
    """Clocks of the threads of one cluster, ``blocks`` of ``threads`` each; threads are numbered by rank and index."""

    def __init__(self, blocks: int, threads: int) -> None:
        self.threads = threads
        self.step = 1 if blocks * threads <= _PRECISE_THREADS else _WARP
        #: Columns of a block; those of asynchronous units follow the last block's, first those of warpgroups.
        self.width = -(-threads // self.step)
        self.first_unit = blocks * self.width
        self.warpgroups = -(-threads // _WARPGROUP)
        self.units = blocks * self.warpgroups
        self.clocks = np.zeros((2, blocks * threads, self.first_unit + self.units), np.int32)
        self.phases: dict[Hashable, Phases] = {}
        #: Threads that know what others of their warp, and of their block, may not.
        self.ahead_of_warp = np.zeros(blocks * threads, np.bool_)
        self.ahead_of_block = np.zeros(blocks * threads, np.bool_)

    def columns(self, threads: Array) -> Array:
        """Columns of the clocks for ``threads``."""
        if self.step == 1:
            return threads
        rank, thread = divided(threads, self.threads)
        columns: Array = rank * self.width + thread // self.step
        return columns

    def new_unit(self) -> int:
        """Number of an asynchronous unit that nobody knows anything of yet."""
        number = self.units
        self.units += 1
        if self.first_unit + self.units > self.clocks.shape[2]:
            more = np.zeros((*self.clocks.shape[:2], _MORE_UNITS), np.int32)
            self.clocks = np.concatenate([self.clocks, more], axis=2)
        return number

    def phase(self, key: Hashable) -> Phases:
        """The barrier object ``key``."""
        phases = self.phases.get(key)
        if phases is None:
            phases = self.phases[key] = Phases()
        return phases

    def release(self, phases: Phases, clocks: Array) -> None:
        """Threads with ``clocks`` ``(2, threads, columns)`` release into the current phase."""
        released: Array = clocks.max(axis=1)
        if phases.current is not None:
            short = min(released.shape[1], phases.current.shape[1])
            np.maximum(released[:, :short], phases.current[:, :short], out=released[:, :short])
        phases.current = released

    def complete(self, phases: Phases, now: int) -> None:
        """The current phase is complete."""
        complete = np.zeros((2, self.clocks.shape[2]), np.int32)
        if phases.current is not None:
            complete[:, : phases.current.shape[1]] = phases.current
        if phases.unit >= 0:
            complete[:, self.first_unit + phases.unit] = now
        phases.complete, phases.current = complete, None

    def acquire(self, phases: Phases, threads: Array) -> None:
        """``threads`` learn what was released into the latest complete phase."""
        if phases.complete is not None:
            self.learn(threads, phases.complete)

    def learn(self, threads: Array, clocks: Array) -> None:
        """``threads`` know what ``clocks`` ``(2, columns)`` know, too."""
        width = clocks.shape[1]
        known = self.clocks[:, threads, :width]
        self.clocks[:, threads, :width] = np.maximum(known, clocks[:, None])
        self.ahead_of_warp[threads] = self.ahead_of_block[threads] = True

    def warpgroup(self, threads: Array) -> Array:
        """Number of the asynchronous unit that multiplies matrices for each of ``threads``."""
        rank, thread = divided(threads, self.threads)
        units: Array = rank * self.warpgroups + thread // _WARPGROUP
        return units

    def waited_for_products(self, threads: Array, now: int) -> None:
        """``threads`` have waited for what their warpgroups multiply."""
        self.clocks[:, threads, self.first_unit + self.warpgroup(threads)] = now
        self.ahead_of_warp[threads] = self.ahead_of_block[threads] = True

    def fence(self, threads: Array, known: Array) -> None:
        """``threads``, which know ``known`` ``(threads, columns)``, pass a proxy fence."""
        self.clocks[FENCED, threads] = np.maximum(self.clocks[FENCED, threads], known)
        self.ahead_of_warp[threads] = self.ahead_of_block[threads] = True

    def share_in_block(self, rank: int) -> None:
        """All threads of a block know from now on what one of them knows."""
        own = slice(rank * self.threads, (rank + 1) * self.threads)
        if self.ahead_of_block[own].any():
            self.clocks[:, own] = self.clocks[:, own].max(axis=1, keepdims=True)
            self.ahead_of_warp[own] = self.ahead_of_block[own] = False

    def share_in_warps(self, threads: Array) -> None:
        """``threads`` of each warp know from now on what one of these knows."""
        if not self.ahead_of_warp[threads].any():
            return
        rank, thread = divided(threads, self.threads)
        warp = rank * self.threads + thread // _WARP * _WARP
        for first in np.unique(warp[self.ahead_of_warp[threads]]).tolist():
            members = threads[warp == first]
            self.clocks[:, members] = self.clocks[:, members].max(axis=1, keepdims=True)
            # Lanes that are not here learn of it at another meeting.
            self.ahead_of_warp[members] = len(members) < min(_WARP, self.threads - first % self.threads)
            self.ahead_of_block[members] = True
