"""Clusters of thread blocks: their barrier, and addresses in each other's shared memory.

An address in shared memory is an offset in the thread's own block, below ``1 << CLUSTER_SHIFT``. Those of the window of
the cluster have the rank of a block plus one above these bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .activation import Wait
    from .batch import Batch
    from .lanes import Lanes
    from .launch_state import LaunchState
    from .translation.code import Site

    Array = NDArray[Any]

#: Bits of an offset in a block's shared memory; above them is the rank of the block plus one.
CLUSTER_SHIFT = 24
#: The barrier of a cluster, as an observer knows it: there is one in each.
_KEY = ("cluster",)


class ClusterAccess:
    """The instructions about clusters of :class:`~.lanes.Lanes`, which has the attributes named here."""

    __slots__ = ()

    if TYPE_CHECKING:
        batch: Batch
        launch: LaunchState
        slots: Array
        n: int

        def constant(self, name: str, axis: int | None = None) -> Array: ...
        def broadcast(self, value: Array) -> Array: ...

    def map_to_rank(self, address: Array, rank: Array) -> Array:
        """``mapa``: where the block of a rank has what the own one has at ``address``, relative to the window."""
        offset = address & address.dtype.type((1 << CLUSTER_SHIFT) - 1)
        mapped: Array = offset | (
            (rank + np.uint32(1)).astype(address.dtype) << address.dtype.type(CLUSTER_SHIFT)
        )
        return mapped

    def rank_of(self, address: Array) -> Array:
        """``getctarank``: rank of the block whose shared memory has an address, relative to the window."""
        code = (address >> address.dtype.type(CLUSTER_SHIFT)).astype(np.uint32)
        return np.where(code == 0, self.constant("cluster_rank"), code - np.uint32(1))

    def is_own_shared(self, address: Array) -> Array:
        """Whether addresses relative to the window are in the own block's shared memory."""
        own: Array = self.rank_of(address) == self.constant("cluster_rank")
        return own

    def owners(self, offsets: Array) -> tuple[Array, Array]:
        """Blocks of the batch whose shared memory ``offsets`` are in (-1: in nobody's), and the offsets there."""
        size = self.launch.cluster_blocks
        code = offsets >> CLUSTER_SHIFT
        own = self.constant("block_in_batch")
        block = np.where(code == 0, own, own // size * size + code - 1)
        return np.where((code < 0) | (code > size), -1, block), offsets & ((1 << CLUSTER_SHIFT) - 1)

    def cluster_arrive(self, site: Site, releases: bool) -> None:
        """``barrier.cluster.arrive``; whether it hands on what the threads did before."""
        self.batch.cluster_barrier.arrive(self.slots, self if releases else None)


class ClusterBarrier:
    """The barriers of the clusters of a batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._threads = batch.launch.threads * batch.launch.cluster_blocks
        clusters = batch.count // batch.launch.cluster_blocks
        #: How often each cluster has met, and the threads that have arrived since.
        self._phase = np.zeros(clusters, np.int64)
        self._arrived = np.zeros(clusters, np.int64)
        #: Phase that each thread waits for.
        self._awaited = np.zeros(batch.n, np.int64)

    def arrive(self, slots: Array, releasing: Any) -> None:
        """Threads arrive. ``releasing`` are these lanes, where they hand on what they did before."""
        cluster = slots // self._threads
        self._awaited[slots] = self._phase[cluster] + 1
        observer = self._batch.launch.observer
        if observer is not None and releasing is not None:
            observer.release(_KEY, releasing)
        self._arrived += np.bincount(cluster, minlength=len(self._arrived))
        self.advance()

    def advance(self) -> None:
        """Let clusters meet whose threads have all arrived or ended."""
        batch = self._batch
        alive: Any = self._threads
        if batch.live is not None:
            alive = np.bincount(np.flatnonzero(batch.live) // self._threads, minlength=len(self._arrived))
        complete = (self._arrived > 0) & (self._arrived >= alive)
        observer = batch.launch.observer
        if observer is not None:
            for first in batch.blocks[np.flatnonzero(complete) * batch.launch.cluster_blocks].tolist():
                observer.complete(_KEY, first)
        self._phase += complete
        self._arrived[complete] = 0

    def passed(self, lanes: Lanes) -> Array:
        """Which threads find that their clusters have met since they arrived; they go on."""
        slots = lanes.slots
        result: NDArray[np.bool_] = self._phase[slots // self._threads] >= self._awaited[slots]
        observer = self._batch.launch.observer
        if observer is not None and result.any():
            observer.acquire(_KEY, lanes.subset(np.flatnonzero(result)))
        return result

    def release(self, waits: list[Wait]) -> bool:
        """Let threads go on whose clusters have met, which leave ``waits``; whether there were any."""
        self.advance()
        before = sum(len(wait.index) for wait in waits)
        left = []
        for wait in waits:
            passes = self.passed(wait.activation.lanes.subset(wait.index))
            if passes.any():
                wait.activation.resume(wait.code.block.targets[0], wait.index[passes])
            if not passes.all():
                wait.index = wait.index[~passes]
                left.append(wait)
        waits[:] = left
        return sum(len(wait.index) for wait in left) < before
