"""``cp.async.bulk``: copies of any size by one thread, between global and shared memory or within a cluster.

They end by telling an ``mbarrier`` object how many bytes have come, or belong to groups that threads wait for. A thread
may wait until a group has only read its sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic import DTYPES, atomic
from drv.simulator.checks.observation import Access, Span
from drv.simulator.execution.clusters import CLUSTER_SHIFT

from .operations import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from drv.simulator.execution.batch import Batch
    from drv.simulator.execution.lanes import Lanes
    from drv.simulator.execution.launch_state import LaunchState
    from drv.simulator.execution.translation.code import Site
    from drv.simulator.memory.address_space import Allocation
    from drv.simulator.memory.tensor_map import TensorMap

    from .copies import Source

    Array = NDArray[Any]

#: Bytes of which bulk copies are multiples, and the element types of other sizes.
UNIT = 16
ELEMENTS: dict[int, Any] = {
    1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, UNIT: np.complex128
}  # fmt: skip
#: Operations and types of reductions in memory.
REDUCTIONS = {
    *(("add", each) for each in ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64")),
    *(
        (operation, each)
        for operation in ("min", "max")
        for each in ("u32", "s32", "u64", "s64", "f16", "bf16")
    ),
    *((operation, "u32") for operation in ("inc", "dec")),
    *((operation, each) for operation in ("and", "or", "xor") for each in ("b32", "b64")),
}


@dataclass(slots=True)
class Side:
    """Where one end of a transfer is: pieces of ``size`` bytes, in allocations or in the shared memory of the batch.

    ``slices`` are allocations (``None`` for shared memory), with the pieces (indices) that are in each, and these pieces'
    byte offsets there. ``box`` is what they are of a tensor, as a :class:`Span` has it.
    """

    size: int
    slices: list[tuple[Allocation | None, Array, Array]]
    box: tuple[TensorMap, tuple[int, ...]] | None = None

    def cells(self, batch: Batch, element: Any) -> list[tuple[Array, Array, Array]]:
        """Memory as elements: an array, the pieces that are in it, and their indices there."""
        result = []
        size = np.dtype(element).itemsize
        for allocation, pieces, offsets in self.slices:
            if allocation is None:
                result.append((batch.shared(element), pieces, offsets // size))
            elif (odd := int(offsets[0]) % size if offsets.size else 0) != 0:
                # Registered host memory may begin anywhere.
                data = allocation.data[odd:]
                result.append((data[: len(data) // size * size].view(element), pieces, offsets // size))
            else:
                result.append((allocation.view(element), pieces, offsets // size))
        return result

    def spans(self, batch: Batch, kind: Access) -> list[Span]:
        """The pieces as an observer is told of them; all belong to lane 0."""
        result = []
        for allocation, pieces, offsets in self.slices:
            lane = np.zeros(len(pieces), np.int64)
            if allocation is not None:
                result.append(Span(kind, offsets, self.size, lane, allocation))
            else:
                owner, within = np.divmod(offsets, batch.shared_stride)
                result.append(Span(kind, within, self.size, lane, None, batch.blocks[owner], self.box))
        return result


class Transfer(Operation):
    """A copy, or a reduction, by one thread.

    ``position`` is that of the ``mbarrier`` object that is told of ``count`` bytes, or -1. Of tensors, ``fill`` are
    pieces that are not read but have a value, and the bytes of that value (none for zeros); ``flush`` says that subnormal float32 become zero.
    """

    __slots__ = ("_held", "count", "fill", "flush", "pieces", "position", "reduction", "source", "target")

    def __init__(
        self,
        lanes: Lanes,
        site: Site,
        source: Side,
        target: Side,
        pieces: int,
        *,
        position: int = -1,
        count: int = 0,
        reduction: tuple[str, str] | None = None,
        fill: tuple[Array, bytes] | None = None,
        flush: bool = False,
    ) -> None:
        super().__init__(lanes, site, None)
        self.source = source
        self.target = target
        self.pieces = pieces
        self.position = position
        self.count = count
        self.reduction = reduction
        self.fill = fill
        self.flush = flush
        self._held: Array | None = None

    def signals(self) -> Array | None:
        """Position of the ``mbarrier`` object."""
        return None if self.position < 0 else np.array([self.position])

    def read_in(self, which: Array) -> None:
        """Read the source now, and write later."""
        if self._held is None:
            self._held = self._read()

    def hold(self, values: Array) -> None:
        """The values to write are known."""
        self._held = values

    def _read(self) -> Array:
        element = ELEMENTS[self.source.size]
        values = np.zeros(self.pieces, element)
        for cells, pieces, index in self.source.cells(self.lanes.batch, element):
            values[pieces] = cells[index]
        if self.fill is not None and self.fill[1]:
            values[self.fill[0]] = np.frombuffer(self.fill[1], element)
        if self.flush:
            numbers = values.view(np.float32)
            numbers[np.abs(numbers) < np.finfo(np.float32).tiny] = 0
        return values

    def carry_out(self, which: Array) -> None:
        """Read, write, and tell the object."""
        values = self._read() if self._held is None else self._held
        self._held = None
        batch = self.lanes.batch
        if self.reduction is None:
            for cells, pieces, index in self.target.cells(batch, values.dtype.type):
                cells[index] = values[pieces]
        else:
            self._reduce(values)
        batch.launch.writes += 1
        if self.position >= 0:
            observer = batch.launch.observer
            if self.token is not None and observer is not None:
                observer.asynchronous_counts(self.token, None, batch.mbarriers.key(self.position))
            batch.mbarriers.come(self.position, self.count)

    def _reduce(self, values: Array) -> None:
        assert self.reduction is not None
        operation, ptx_type = self.reduction
        dtype = DTYPES[ptx_type]
        each = self.target.size // dtype.itemsize
        numbers = values.view(dtype)
        for cells, pieces, index in self.target.cells(self.lanes.batch, dtype.type):
            at = (index[:, None] + np.arange(each)).ravel()
            mine = (pieces[:, None] * each + np.arange(each)).ravel()
            atomic(cells, at, operation, ptx_type, numbers[mine], want_old=False)


class BulkAccess:
    """The bulk copies of :class:`~drv.simulator.execution.lanes.Lanes`."""

    __slots__ = ()

    if TYPE_CHECKING:
        batch: Batch
        launch: LaunchState
        slots: Array
        n: int

        def broadcast(self, value: Array) -> Array: ...
        def constant(self, name: str, axis: int | None = None) -> Array: ...
        def subset(self, index: Array, *, repeated: bool = False) -> Any: ...
        def mbarriers(
            self, site: Site, space: str, address: Array, offset: int, kind: Access = Access.ATOMIC
        ) -> Array: ...
        def map_to_rank(self, address: Array, rank: Array) -> Array: ...
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

    # Sides of transfers of one lane

    def global_side(self, site: Site, lane: int, addresses: Array, size: int, kind: Access) -> Side:
        """Pieces of ``size`` bytes at ``addresses``, for one lane."""
        if not addresses.size:
            return Side(size, [])
        sources = self.subset(np.full(len(addresses), lane), repeated=True).sources(
            site, addresses, 0, size, kind
        )
        return Side(size, [(allocation, pieces, offsets) for allocation, pieces, offsets in sources])

    def shared_side(self, site: Site, lane: int, addresses: Array, size: int, kind: Access) -> Side:
        """The same in shared memory, at addresses in the window of the cluster."""
        if not addresses.size:
            return Side(size, [])
        lanes = self.subset(np.full(len(addresses), lane), repeated=True)
        positions = lanes.broadcast(lanes._shared(site, addresses, 0, size, kind, tell=False))
        return Side(size, [(None, np.arange(len(addresses)), positions)])

    def issue_transfer(self, transfer: Transfer, kind: Access, *, grouped: bool) -> None:
        """A thread issues a transfer. ``kind`` is how it touches its target."""
        batch, observer = self.batch, self.launch.observer
        if observer is not None:
            spans = [
                *transfer.source.spans(batch, Access.READ),
                *transfer.target.spans(batch, kind),
            ]
            transfer.token = observer.asynchronous_begins(transfer.lanes, transfer.site, spans, generic=False)
        if grouped and (transfer.token is not None or self.launch.schedule != "eager"):
            batch.operations.bulk_copies.add(transfer)
        batch.operations.issue(transfer)

    def destinations(self, lane: int, address: int, mask: Array | None) -> list[int]:
        """Addresses in the shared memory of the blocks that a copy goes to: one, or those of a mask of ranks."""
        if mask is None:
            return [address]
        offset = address & ((1 << CLUSTER_SHIFT) - 1)
        bits = int(mask[lane])
        ranks = [rank for rank in range(bits.bit_length()) if bits >> rank & 1]
        return [offset | rank + 1 << CLUSTER_SHIFT for rank in ranks]

    # Instructions

    def _units(self, site: Site, lane: int, address: int, size: int) -> Array:
        """Addresses of the units of a range; a fault where it is not made of such."""
        if size % UNIT and self.launch.checked:
            what = f"makes a bulk copy of {size} bytes, which is no multiple of {UNIT}"
            raise self.launch.reports.bad_operand(self, site, lane, what)
        return np.uint64(address) + UNIT * np.arange(size // UNIT, dtype=np.uint64)

    def bulk_to_shared(
        self,
        site: Site,
        into: tuple[Array, int],
        origin: tuple[Array, int],
        size: Array,
        mbarrier: tuple[Array, int],
        mask: Array | None,
    ) -> None:
        """``cp.async.bulk`` from global memory to shared memory: of one block, or of those of a mask."""
        targets, origins, sizes = (
            broadcast_address(self, into),
            broadcast_address(self, origin),
            self.broadcast(size),
        )
        objects = broadcast_address(self, mbarrier)
        masks = None if mask is None else self.broadcast(mask)
        for lane in range(self.n):
            count = int(sizes[lane])
            source = self.global_side(
                site, lane, self._units(site, lane, int(origins[lane]), count), UNIT, Access.READ
            )
            one = self.subset(np.array([lane]))
            addresses = self.destinations(lane, int(targets[lane]), masks)
            signalled = self.destinations(lane, int(objects[lane]), masks)
            for address, signal in zip(addresses, signalled, strict=True):
                units = self._units(site, lane, address, count)
                target = self.shared_side(site, lane, units, UNIT, Access.WRITE)
                position = int(one.mbarriers(site, "shared", np.array([signal], np.uint64), 0)[0])
                transfer = Transfer(one, site, source, target, len(units), position=position, count=count)
                self.issue_transfer(transfer, Access.WRITE, grouped=False)

    def bulk_within_cluster(
        self,
        site: Site,
        into: tuple[Array, int],
        origin: tuple[Array, int],
        size: Array,
        mbarrier: tuple[Array, int],
        reduction: tuple[str, str] | None,
    ) -> None:
        """``cp.async.bulk`` and ``cp.reduce.async.bulk`` from the own shared memory to that of a block of the cluster."""
        targets, origins, sizes = (
            broadcast_address(self, into),
            broadcast_address(self, origin),
            self.broadcast(size),
        )
        objects = broadcast_address(self, mbarrier)
        kind = Access.WRITE if reduction is None else Access.ATOMIC
        for lane in range(self.n):
            count = int(sizes[lane])
            units = self._units(site, lane, int(origins[lane]), count)
            source = self.shared_side(site, lane, units, UNIT, Access.READ)
            target = self.shared_side(
                site, lane, self._units(site, lane, int(targets[lane]), count), UNIT, kind
            )
            one = self.subset(np.array([lane]))
            position = int(one.mbarriers(site, "shared", objects[lane : lane + 1], 0)[0])
            transfer = Transfer(
                one, site, source, target, len(units), position=position, count=count, reduction=reduction
            )
            self.issue_transfer(transfer, kind, grouped=False)

    def bulk_to_global(
        self,
        site: Site,
        into: tuple[Array, int],
        origin: tuple[Array, int],
        size: Array,
        reduction: tuple[str, str] | None,
    ) -> None:
        """``cp.async.bulk`` and ``cp.reduce.async.bulk`` from shared to global memory."""
        targets, origins, sizes = (
            broadcast_address(self, into),
            broadcast_address(self, origin),
            self.broadcast(size),
        )
        kind = Access.WRITE if reduction is None else Access.ATOMIC
        for lane in range(self.n):
            count = int(sizes[lane])
            units = self._units(site, lane, int(origins[lane]), count)
            source = self.shared_side(site, lane, units, UNIT, Access.READ)
            target = self.global_side(
                site, lane, self._units(site, lane, int(targets[lane]), count), UNIT, kind
            )
            one = self.subset(np.array([lane]))
            transfer = Transfer(one, site, source, target, len(units), reduction=reduction)
            self.issue_transfer(transfer, kind, grouped=True)

    def store_asynchronously(
        self,
        site: Site,
        into: tuple[Array, int],
        values: Sequence[Array],
        mbarrier: tuple[Array, int],
        reduction: tuple[str, str] | None,
    ) -> None:
        """``st.async`` and ``red.async``: values go to the shared memory of a block of the cluster."""
        targets, objects = broadcast_address(self, into), broadcast_address(self, mbarrier)
        kind = Access.WRITE if reduction is None else Access.ATOMIC
        size = values[0].dtype.itemsize
        every = [self.broadcast(each) for each in values]
        for lane in range(self.n):
            one = self.subset(np.array([lane]))
            addresses = targets[lane] + np.arange(len(values), dtype=np.uint64) * np.uint64(size)
            if int(addresses[0]) % (size * len(values)) and self.launch.checked:
                self.shared_side(site, lane, addresses[:1], size * len(values), kind)
            target = self.shared_side(site, lane, addresses, size, kind)
            position = int(one.mbarriers(site, "shared", objects[lane : lane + 1], 0)[0])
            transfer = Transfer(
                one,
                site,
                Side(size, []),
                target,
                len(values),
                position=position,
                count=size * len(values),
                reduction=reduction,
            )
            transfer.hold(np.array([each[lane] for each in every]).view(ELEMENTS[size]))
            self.issue_transfer(transfer, kind, grouped=False)

    def commit_bulk_copies(self) -> None:
        """``cp.async.bulk.commit_group``."""
        self.batch.operations.bulk_copies.close(self.slots)

    def wait_for_bulk_copies(self, allowed: int, reads_only: bool) -> None:
        """``cp.async.bulk.wait_group``."""
        self.batch.operations.bulk_copies.wait(self, allowed, reads_only=reads_only)  # type: ignore[arg-type]
        self.batch.operations.draw()


def broadcast_address(lanes: Any, address: tuple[Array, int]) -> Array:
    """Addresses ``(lanes,)`` as 64-bit numbers, with their constant offset."""
    base, offset = address
    result: Array = lanes.broadcast(base).astype(np.uint64) + np.uint64(offset & 0xFFFFFFFFFFFFFFFF)
    if base.dtype.itemsize == 4:
        # 32-bit addresses wrap around.
        result &= np.uint64(0xFFFFFFFF)
    return result
