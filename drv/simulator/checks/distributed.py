"""Distributed shared memory: a block's shared memory lasts as long as the block, and other blocks must know that it does.

Before a thread touches the shared memory of another block of its cluster it must know that the block has started: it has
synchronised with one of its threads. And a thread of the block must know of the access before the block ends. The barrier
of the cluster at both ends is the usual way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .finding_text import byte_ranges, distributed_message
from .findings import MAX_RANGES, Finding, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .kernel_races import KernelRaces
    from .observation import Access, Lanes, Site

    Array = NDArray[Any]


class DistributedMemory:
    """Accesses of the blocks of one launch to each other's shared memory."""

    def __init__(self, races: KernelRaces) -> None:
        self._races = races
        #: By owner: time and instruction of the latest access of each thread, by its index in the cluster.
        self._latest: dict[int, tuple[Array, Array, dict[int, tuple[Site, Access]]]] = {}
        self._told: set[tuple[int, str]] = set()

    def access(
        self, owners: Array, lanes: Lanes, offsets: Array, width: int, kind: Access, site: Site
    ) -> None:
        """``lanes`` touch shared memory of the blocks ``owners``, their own or others'."""
        foreign = np.flatnonzero(owners != lanes.block)
        if not foreign.size:
            return
        races = self._races
        order = races.order
        threads = lanes.block[foreign] * races.threads + lanes.thread[foreign]
        local = order.local(threads)
        for owner in np.unique(owners[foreign]).tolist():
            mine = owners[foreign] == owner
            started = order.knows_block(threads[mine], owner)
            if not started.all():
                which = foreign[mine][~started]
                ranges = byte_ranges(offsets[which], width)[:MAX_RANGES]
                first = int(threads[mine][~started][0])
                self._report(owner, first, kind, site, ranges, "is not known to have started")
            times, instructions, sites = self._latest.setdefault(
                owner,
                (
                    np.zeros(order.clusters.blocks * races.threads, np.int32),
                    np.zeros(order.clusters.blocks * races.threads, np.int64),
                    {},
                ),
            )
            times[local[mine]] = order.now
            instructions[local[mine]] = id(site)
            sites[id(site)] = site, kind

    def end(self, blocks: Array) -> None:
        """``blocks`` have ended, all blocks of their clusters."""
        order = self._races.order
        for owner in blocks.tolist():
            latest = self._latest.pop(owner, None)
            if latest is None:
                continue
            times, instructions, sites = latest
            unknown = np.flatnonzero(times > order.known_to_block(owner))
            if unknown.size:
                local = int(unknown[0])
                rank, thread = divmod(local, self._races.threads)
                cluster = order.clusters.number(owner)
                block = next(
                    int(each)
                    for each in blocks
                    if order.clusters.number(each) == cluster and order.clusters.rank(each) == rank
                )
                site, kind = sites[int(instructions[local])]
                self._report(
                    owner, block * self._races.threads + thread, kind, site, [], "may have ended by then"
                )

    def _report(
        self, owner: int, thread: int, kind: Access, site: Site, ranges: list[tuple[int, int]], what: str
    ) -> None:
        key = (id(site), what)
        if key in self._told:
            return
        self._told.add(key)
        side = self._races.side(kind, site, thread)
        message = distributed_message(side, self._races.block_text(owner), what, ranges)
        self._races.add(Finding(Kind.SHARED_RACE, message, None, side, tuple(ranges), None))
