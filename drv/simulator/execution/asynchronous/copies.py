"""``cp.async``: copies of 4 to 16 bytes by each thread from global to shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.checks.observation import Access, Span

from .operations import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from drv.simulator.execution.batch import Batch
    from drv.simulator.execution.lanes import Lanes
    from drv.simulator.execution.launch_state import LaunchState
    from drv.simulator.execution.translation.code import Site
    from drv.simulator.memory.address_space import Allocation

    Array = NDArray[Any]

#: Elements in which that many bytes are moved.
_ELEMENTS = {4: np.uint32, 8: np.uint64, 16: np.complex128}
#: Lanes (indices), the allocation that they read, and their byte offsets in it.
Source = tuple["Allocation", "Array", "Array"]


class Copy(Operation):
    """``cp.async``: ``size`` bytes of each lane. Of these the first ``copied`` come from ``sources``, the rest is zero."""

    __slots__ = ("copied", "into", "size", "sources")

    def __init__(
        self,
        lanes: Lanes,
        site: Site,
        token: Any,
        into: Array,
        sources: list[Source],
        size: int,
        copied: Array | None,
    ) -> None:
        super().__init__(lanes, site, token)
        self.into = into
        self.sources = sources
        self.size = size
        self.copied = copied

    def carry_out(self, which: Array) -> None:
        """Copy for the lanes ``which``."""
        chosen = np.zeros(len(self.slots), np.bool_)
        chosen[which] = True
        shared = self.lanes.batch.shared(np.uint8)
        every = which.size == len(self.slots)
        if self.copied is None:
            element = _ELEMENTS[self.size]
            cells = self.lanes.batch.shared(element)
            for allocation, lanes, offsets in self.sources:
                mine = slice(None) if every else chosen[lanes]
                cells[self.into[lanes[mine]] // self.size] = _read(allocation, offsets[mine], element)
            return
        within = np.arange(self.size)
        shared[self.into[which][:, None] + within] = 0
        for allocation, lanes, offsets in self.sources:
            mine = chosen[lanes]
            row, column = np.nonzero(within < self.copied[lanes[mine]][:, None])
            positions = self.into[lanes[mine]][row] + column
            shared[positions] = allocation.data[offsets[mine][row] + column]


class ArrivalAfterCopies(Operation):
    """``cp.async.mbarrier.arrive``: an arrival when all copies that a thread had issued are done."""

    __slots__ = ("copies", "positions")

    def __init__(
        self, lanes: Lanes, site: Site, positions: Array, copies: list[tuple[Operation, Array]]
    ) -> None:
        super().__init__(lanes, site, None)
        self.positions = positions
        self.copies = copies

    def signals(self) -> Array:
        """Positions of the objects."""
        return self.positions[self.left] if self.left.any() else self.positions

    def carry_out(self, which: Array) -> None:
        """Copy what is left to copy for the lanes ``which``, and arrive."""
        batch = self.lanes.batch
        observer = self.lanes.launch.observer
        slots = self.slots[which]
        for copy, lanes in self.copies:
            mine = lanes[np.isin(copy.slots[lanes], slots)]
            batch.operations.complete(copy, mine)
            if copy.token is None or observer is None:
                continue
            for position in np.unique(self.positions[which]).tolist():
                here = slots[self.positions[which] == position]
                at_position = mine[np.isin(copy.slots[mine], here)]
                if at_position.size:
                    observer.asynchronous_counts(copy.token, at_position, batch.mbarriers.key(position))
        self.lanes.arrive_after_copies(self.site, which, self.positions[which])


class CopyAccess:
    """The instructions about ``cp.async`` of :class:`~drv.simulator.execution.lanes.Lanes`."""

    __slots__ = ()

    if TYPE_CHECKING:
        batch: Batch
        launch: LaunchState
        slots: Array
        n: int

        def broadcast(self, value: Array) -> Array: ...
        def subset(self, index: Array) -> Any: ...
        def mbarriers(
            self, site: Site, space: str, address: Array, offset: int, kind: Access = Access.ATOMIC
        ) -> Array: ...
        def _arrive_at(self, *arguments: Any) -> None: ...
        def _objects(self, site: Site, positions: Array) -> list[tuple[int, Array, Any]]: ...
        def _shared(
            self,
            site: Site,
            address: Array,
            offset: int,
            width: int,
            kind: Access,
            values: Sequence[Array] = (),
            *,
            tell: bool = True,
        ) -> Array: ...
        def sources(
            self, site: Site, address: Array, offset: int, width: int, kind: Access
        ) -> list[Source]: ...

    def copy_async(
        self,
        site: Site,
        into: Array,
        into_offset: int,
        origin: Array,
        offset: int,
        size: int,
        copied: Array | None,
    ) -> None:
        """``cp.async`` of ``size`` bytes. The first ``copied`` come from ``origin``, the rest is zero."""
        positions = self.broadcast(self._shared(site, into, into_offset, size, Access.WRITE, tell=False))
        count = None
        if copied is not None:
            count = np.minimum(self.broadcast(copied).astype(np.int64), size)
            if (count == size).all():
                count = None
        if count is None:
            sources = self.sources(site, origin, offset, size, Access.READ)
        else:
            sources = self._partial_sources(site, self.broadcast(origin), offset, size, count)
        launch, batch = self.launch, self.batch
        token = None
        if launch.observer is not None:
            spans = [*_spans(sources, size, count), self._shared_span(positions, size)]
            token = launch.observer.asynchronous_begins(self, site, spans, generic=True)  # type: ignore[arg-type]
        copy = Copy(self, site, token, positions, sources, size, count)  # type: ignore[arg-type]
        if token is not None or launch.schedule != "eager":
            batch.operations.copies.add(copy)
        batch.operations.issue(copy)
        launch.writes += 1

    def _shared_span(self, positions: Array, size: int) -> Span:
        owner, offsets = np.divmod(positions, self.batch.shared_stride)
        return Span(Access.WRITE, offsets, size, np.arange(self.n), None, self.batch.blocks[owner])

    def _partial_sources(
        self, site: Site, origin: Array, offset: int, size: int, count: Array
    ) -> list[Source]:
        """What is read by lanes that read less than ``size`` bytes, or none."""
        addresses = origin.astype(np.uint64) + np.uint64(offset & 0xFFFFFFFFFFFFFFFF)
        odd = np.flatnonzero((count > 0) & ((addresses & np.uint64(size - 1)) != 0))
        if odd.size and self.launch.checked:
            lane = int(odd[0])
            address = int(addresses[lane])
            raise self.launch.reports.access(self, site, lane, address, size, Access.READ, "misaligned")  # type: ignore[arg-type]
        result = []
        for each in np.unique(count[count > 0]).tolist():
            lanes = np.flatnonzero(count == each)
            for allocation, index, offsets in self.subset(lanes).sources(
                site, addresses[lanes], 0, 1, Access.READ
            ):
                # Aligned bytes do not leave an allocation in between.
                self.subset(lanes[index]).sources(site, addresses[lanes[index]], each - 1, 1, Access.READ)
                result.append((allocation, lanes[index], offsets))
        return result

    def commit_copies(self) -> None:
        """``cp.async.commit_group``."""
        self.batch.operations.copies.close(self.slots)

    def wait_for_copies(self, allowed: int) -> None:
        """``cp.async.wait_group``."""
        self.batch.operations.copies.wait(self, allowed)  # type: ignore[arg-type]
        self.batch.operations.draw()

    def wait_for_all_copies(self) -> None:
        """``cp.async.wait_all``."""
        self.commit_copies()
        self.wait_for_copies(0)

    def arrive_when_copied(self, site: Site, space: str, address: Array, offset: int, counts: bool) -> None:
        """``cp.async.mbarrier.arrive``. Without ``counts`` the objects expect one arrival more of each lane."""
        positions = self.mbarriers(site, space, address, offset)
        batch = self.batch
        if not counts:
            for position, mine, state in self._objects(site, positions):
                state.pending += len(mine)
                batch.mbarriers.write(position, state)
        arrival = ArrivalAfterCopies(self, site, positions, batch.operations.copies.of(self.slots))  # type: ignore[arg-type]
        batch.operations.issue(arrival)

    def arrive_after_copies(self, site: Site, which: Array, positions: Array) -> None:
        """The copies of the lanes ``which`` are done: they arrive at the objects at ``positions``."""
        lanes = self.subset(which)
        ones, states = np.ones(len(which), np.int64), np.zeros(len(which), np.uint64)
        for position, mine, state in lanes._objects(site, positions):
            lanes._arrive_at(site, position, mine, state, ones, None, states, False, False)


def _spans(sources: list[Source], size: int, count: Array | None) -> list[Span]:
    """What is read, as an observer is told."""
    spans = []
    for allocation, lanes, offsets in sources:
        # Lanes that share an allocation also share the count.
        if count is None or count[lanes[0]] == size:
            spans.append(Span(Access.READ, offsets, size, lanes, allocation))
        else:
            row, column = np.nonzero(np.arange(size) < count[lanes][:, None])
            spans.append(Span(Access.READ, offsets[row] + column, 1, lanes[row], allocation))
    return spans


def _read(allocation: Allocation, offsets: Array, element: Any) -> Array:
    """Elements at byte offsets of an allocation."""
    size = np.dtype(element).itemsize
    if allocation.base & (size - 1):
        rows = allocation.data[offsets[:, None] + np.arange(size)]
        result: Array = np.ascontiguousarray(rows).view(element).reshape(-1)
        return result
    values: Array = allocation.view(element)[offsets // size]
    return values
