"""``cp.async.bulk.tensor``: boxes of tensors, which tensor maps describe, between global and shared memory."""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.checks.observation import Access
from drv.simulator.memory.tensor_map import BYTES, EMPTY, FLUSHING, PATTERN, TensorMap, element_offsets

from .bulk_copies import REDUCTIONS, UNIT, Side, Transfer, broadcast_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from drv.simulator.execution.batch import Batch
    from drv.simulator.execution.launch_state import LaunchState
    from drv.simulator.execution.translation.code import Site

    Array = NDArray[Any]

#: Alignment of boxes in shared memory, and of tensor maps.
_BOX_ALIGNMENT, _MAP_ALIGNMENT = 128, 64
#: The swizzle that tells the halves of 16 bytes apart.
_FLIPS_HALVES = 5
_BITWISE = ("and", "or", "xor")


class Box:
    """A box of one tensor: pieces of equal size, where they are in global memory, and which are outside the tensor.

    Where elements lie side by side in both memories they are moved together.
    """

    def __init__(self, tensor: TensorMap, coordinates: tuple[int, ...], offsets: tuple[int, ...]) -> None:
        away, inside = tensor.elements(coordinates, offsets)
        self.coordinates = coordinates
        size = tensor.element_bytes
        if size > UNIT:
            units = size // UNIT
            away = (away[:, None] + UNIT * np.arange(units)).ravel()
            inside, size = np.repeat(inside, units), UNIT
        largest = 8 if tensor.swizzle == _FLIPS_HALVES else UNIT
        while size < largest and len(away) % 2 == 0:
            pairs, there = away.reshape(-1, 2), inside.reshape(-1, 2)
            contiguous = (
                (pairs[:, 1] == pairs[:, 0] + size)
                & ((pairs[:, 0] + tensor.address) % (2 * size) == 0)
                & (there[:, 0] == there[:, 1])
            )
            if not contiguous.all():
                break
            away, inside, size = pairs[:, 0], there[:, 0], 2 * size
        self.size = size
        self.count = len(away)
        self.inside = np.flatnonzero(inside)
        self.addresses = (away[self.inside] + tensor.address).astype(np.uint64)
        self.outside = np.flatnonzero(~inside)
        value = tensor.fill_value()
        self.fill = value * (size // len(value)) if value else b""

    @classmethod
    def of(cls, tensor: TensorMap, coordinates: tuple[int, ...], offsets: tuple[int, ...]) -> Box:
        """The box. What lies in the tensor has the pieces of the first one there, so many bytes further."""
        if offsets or tensor.im2col or not tensor.contains(coordinates):
            return cls(tensor, coordinates, offsets)
        pitches = (tensor.element_bytes, *tensor.strides)
        away = sum(at * pitch for at, pitch in zip(coordinates, pitches, strict=True))
        first = _first_box(tensor)
        if away % first.size:
            return cls(tensor, coordinates, offsets)
        result = copy(first)
        result.coordinates = coordinates
        result.addresses = first.addresses + np.uint64(away)
        return result


@lru_cache(256)
def _first_box(tensor: TensorMap) -> Box:
    return Box(tensor, (0,) * tensor.rank, ())


class TensorAccess:
    """The copies of tensors of :class:`~drv.simulator.execution.lanes.Lanes`."""

    __slots__ = ()

    if TYPE_CHECKING:
        batch: Batch
        launch: LaunchState
        slots: Array
        n: int

        def broadcast(self, value: Array) -> Array: ...
        def subset(self, index: Array) -> Any: ...
        def global_side(self, site: Site, lane: int, addresses: Array, size: int, kind: Access) -> Side: ...
        def shared_side(self, site: Site, lane: int, addresses: Array, size: int, kind: Access) -> Side: ...
        def issue_transfer(self, transfer: Transfer, kind: Access, *, grouped: bool) -> None: ...
        def destinations(self, lane: int, address: int, mask: Array | None) -> list[int]: ...
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

    def tensor_map(
        self, site: Site, lane: int, address: int, *, used: bool = True, empty: bool = False
    ) -> TensorMap:
        """The tensor map at a generic address; ``used`` tells that the copies' hardware reads it, not the thread.

        With ``empty`` it may be 128 bytes of zeros, of which a kernel makes a map field by field.
        """
        one = self.subset(np.array([lane]))
        halves = [
            one.load_generic(site, np.array([address + at], np.uint64), 0, np.uint64, 8, 8)
            for at in range(0, BYTES, _MAP_ALIGNMENT)
        ]
        words = np.array([word[0] for half in halves for word in half], np.uint64)
        tensor = TensorMap.decode(words.tobytes())
        if tensor is None and empty and not words.any():
            tensor = EMPTY
        if tensor is None:
            what = f"uses the bytes at {address:#x} as a tensor map, which are none"
            raise self.launch.reports.bad_operand(self, site, lane, what)
        observer = self.launch.observer
        if used and observer is not None:
            allocation = self.launch.memory.find(address)
            if allocation is not None:
                observer.tensor_map_used(allocation, address - allocation.base, one, site)
        return tensor

    def _boxes(
        self,
        site: Site,
        tensor_map: tuple[Array, int],
        coordinates: Sequence[Array],
        offsets: Sequence[Array] | None,
    ) -> list[tuple[TensorMap, Box]]:
        """The tensor and the box of each lane."""
        maps = broadcast_address(self, tensor_map)
        at = [self.broadcast(each) for each in coordinates]
        away = [self.broadcast(each) for each in offsets or ()]
        result = []
        for lane in range(self.n):
            tensor = self.tensor_map(site, lane, int(maps[lane]))
            if tensor.rank != len(coordinates) or tensor.im2col is not (offsets is not None):
                mode = "im2col" if tensor.im2col else "tiled"
                what = f"names an element by {len(coordinates)} coordinates, in a {mode} tensor map of rank {tensor.rank}"
                raise self.launch.reports.bad_operand(self, site, lane, what)
            box = Box.of(
                tensor, tuple(int(each[lane]) for each in at), tuple(int(each[lane]) for each in away)
            )
            result.append((tensor, box))
        return result

    def _in_shared(
        self, site: Site, lane: int, address: int, tensor: TensorMap, box: Box, kind: Access
    ) -> Side:
        """A box in shared memory."""
        if address % _BOX_ALIGNMENT:
            # Reported as a misaligned access.
            first = np.array([address], np.uint64)
            self.subset(np.array([lane]))._shared(site, first, 0, _BOX_ALIGNMENT, kind, tell=False)
        within = element_offsets(box.count, box.size, tensor.swizzle, address % PATTERN)
        return self.shared_side(site, lane, np.uint64(address) + within.astype(np.uint64), box.size, kind)

    def tensor_to_shared(
        self,
        site: Site,
        tensor_map: tuple[Array, int],
        coordinates: Sequence[Array],
        offsets: Sequence[Array] | None,
        into: tuple[Array, int],
        mbarrier: tuple[Array, int],
        mask: Array | None,
    ) -> None:
        """A box to the shared memory of one block, or of the blocks of a mask. ``offsets`` are given in im2col mode."""
        targets, objects = broadcast_address(self, into), broadcast_address(self, mbarrier)
        masks = None if mask is None else self.broadcast(mask)
        for lane, (tensor, box) in enumerate(self._boxes(site, tensor_map, coordinates, offsets)):
            one = self.subset(np.array([lane]))
            source = self.global_side(site, lane, box.addresses, box.size, Access.READ)
            source = Side(box.size, [(each, box.inside[index], at) for each, index, at in source.slices])
            addresses = self.destinations(lane, int(targets[lane]), masks)
            signalled = self.destinations(lane, int(objects[lane]), masks)
            for address, signal in zip(addresses, signalled, strict=True):
                target = self._in_shared(site, lane, address, tensor, box, Access.WRITE)
                target.box = tensor, box.coordinates
                transfer = Transfer(
                    one,
                    site,
                    source,
                    target,
                    box.count,
                    position=int(one.mbarriers(site, "shared", np.array([signal], np.uint64), 0)[0]),
                    count=tensor.box_bytes,
                    fill=(box.outside, box.fill),
                    flush=tensor.data_type in FLUSHING,
                )
                self.issue_transfer(transfer, Access.WRITE, grouped=False)

    def tensor_to_global(
        self,
        site: Site,
        tensor_map: tuple[Array, int],
        coordinates: Sequence[Array],
        offsets: Sequence[Array] | None,
        origin: tuple[Array, int],
        operation: str | None,
    ) -> None:
        """A box to global memory, or combined by ``operation`` with what is there."""
        origins = broadcast_address(self, origin)
        kind = Access.WRITE if operation is None else Access.ATOMIC
        for lane, (tensor, box) in enumerate(self._boxes(site, tensor_map, coordinates, offsets)):
            one = self.subset(np.array([lane]))
            source = self._in_shared(site, lane, int(origins[lane]), tensor, box, Access.READ)
            target = self.global_side(site, lane, box.addresses, box.size, kind)
            target = Side(box.size, [(each, box.inside[index], at) for each, index, at in target.slices])
            reduction = None
            if operation is not None:
                ptx_type = tensor.ptx_type
                reduction = operation, f"b{ptx_type[1:]}" if operation in _BITWISE else ptx_type
                if reduction not in REDUCTIONS:
                    what = f"combines elements of type {ptx_type} by .{operation}, which is not possible"
                    raise self.launch.reports.bad_operand(self, site, lane, what)
            transfer = Transfer(one, site, source, target, box.count, reduction=reduction)
            self.issue_transfer(transfer, kind, grouped=True)
