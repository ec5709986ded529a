"""Segments that grow: one range of addresses for a stream, backed by memory as far as it is needed.

Requests that get a little larger from step to step leave slivers in segments of fixed size, which nothing
fits. In an expandable segment blocks lie side by side in one range, and free neighbours always merge.
Memory comes in pages of 2 MiB (small blocks) or 20 MiB (large ones), since the cost of mapping goes by
the number of pages. A page goes back to the driver once no block touches it.
"""

from __future__ import annotations

from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from .blocks import CachedBlock
from .holding import SIZE_SHIFT
from .pool import BlockPool, Clock
from .rounding import BLOCK_UNIT, LARGE_SEGMENT, SMALL_SEGMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drv.allocators.history import Frames

    from .virtual_memory import AddressSpaceSource

_address = attrgetter("address")


class ExpandableSegment:
    """A range of addresses and the pages mapped into it.

    The range is an eighth larger than the device's memory, so that pages freed early in it can be put at
    its end.
    """

    __slots__ = ("_pages", "_source", "address", "frames", "head", "page", "size")

    def __init__(self, source: AddressSpaceSource, page: int) -> None:
        total = source.total_memory()
        self.page = page
        self.size = -(-(total + total // 8) // page) * page
        self.address = source.reserve(self.size)
        self._source = source
        self._pages: dict[int, Any] = {}
        self.head: CachedBlock
        self.frames: Frames | None = None

    def map(self, address: int, size: int) -> int:
        """Back ``[address, address + size)``, which starts a page, with memory.

        Bytes that are backed now, a whole number of pages; 0 when memory is exhausted.
        """
        stop = address + -(-size // self.page) * self.page
        for at in range(address, stop, self.page):
            handle = self._source.map(at, self.page)
            if handle is None:
                for done in range(address, at, self.page):
                    self._source.unmap(done, self.page, self._pages.pop(done))
                return 0
            self._pages[at] = handle
        return stop - address

    def pages_within(self, address: int, size: int) -> tuple[int, int]:
        """First address and bytes of the whole pages inside ``[address, address + size)``."""
        start = self.address + -(-(address - self.address) // self.page) * self.page
        stop = self.address + (address + size - self.address) // self.page * self.page
        return start, max(stop - start, 0)

    def unmap(self, address: int, size: int) -> None:
        """Give the pages of a range back."""
        for at in range(address, address + size, self.page):
            self._source.unmap(at, self.page, self._pages.pop(at))

    def grant(self, device: int) -> None:
        """Let another device use what is mapped."""
        for at in self._pages:
            self._source.grant(at, self.page, device)

    def close(self) -> None:
        """Give the addresses back; no page is mapped."""
        self._source.release(self.address, self.size)


class ExpandablePool(BlockPool):
    """Free blocks of one stream in expandable segments.

    Parameters
    ----------
    source : AddressSpaceSource
        Where addresses and memory come from.
    mapped : callable
        ``mapped(pool, action, address, size)`` is told of ``segment_map`` and ``segment_unmap``.
    """

    __slots__ = ("_mapped", "_source", "_unmapped", "page", "segments")

    expandable = True

    def __init__(
        self,
        stream: int,
        small: bool,
        journal: list[int],
        clock: Clock,
        source: AddressSpaceSource,
        mapped: Callable[[ExpandablePool, str, int, int], Frames | None],
    ) -> None:
        super().__init__(stream, small, journal, clock)
        self.least_remainder = BLOCK_UNIT
        self.page = SMALL_SEGMENT if small else LARGE_SEGMENT
        self.segments: list[ExpandableSegment] = []
        self._source = source
        self._mapped = mapped
        #: Ranges without memory.
        self._unmapped: set[CachedBlock] = set()

    def take(self, size: int, requested: int) -> CachedBlock | None:
        """Hand out the best fit for ``size`` bytes (already rounded); the rest of it stays.

        A block at the end of what is mapped counts as large as it could grow.
        """
        chunk, index = self._find(size << SIZE_SHIFT)
        if chunk == len(self._keys) or index == len(self._keys[chunk]):
            return None
        blocks = self._blocks[chunk]
        block = blocks[index]
        last = index + 1 == len(blocks) and chunk + 1 == len(self._keys)
        if not last and block.next in self._unmapped:
            for other in islice(self.from_size(size), 1, None):
                if self._reach(other) >= self._reach(block):
                    break
                block = other
        if block is blocks[index]:
            self._delete(chunk, index)
            block.key = 0
        else:
            self.remove(block)
        return self.carve(block, size, requested)

    def grow(self, size: int) -> CachedBlock | None:
        """A block of at least ``size`` bytes, out of the pool, after mapping what it lacks.

        It lies at the lowest address where free and unmapped ranges side by side are large enough.
        ``None`` when memory is exhausted; what was mapped until then is in the pool.
        """
        block = self._room(size)
        if not block.key:
            mapped = self._map(block, min(block.size, size))
            if mapped is None:
                return None
            block = mapped
        while block.size < size:
            following = block.next
            assert following is not None
            mapped = self._map(following, min(size - block.size, following.size))
            if mapped is None:
                return None
            block = mapped
        self.remove(block)
        return block

    def trim(self) -> None:
        """Give back all pages that no block touches, and segments without pages."""
        waited = False
        for block in list(self):
            segment = self._segment_of(block)
            if segment.pages_within(block.address, block.size)[1]:
                if not waited:
                    # Unlike freeing, unmapping does not wait by itself for work that still runs.
                    self._source.wait()
                    waited = True
                self._unmap(segment, block)
        for segment in list(self.segments):
            if segment.head.size == segment.size and segment.head in self._unmapped:
                self._unmapped.remove(segment.head)
                self.segments.remove(segment)
                segment.close()

    def _reach(self, block: CachedBlock) -> int:
        following = block.next
        if following is not None and following in self._unmapped:
            return block.size + following.size
        return block.size

    def _segment_of(self, block: CachedBlock) -> ExpandableSegment:
        return next(s for s in self.segments if s.address <= block.address < s.address + s.size)

    def _room(self, size: int) -> CachedBlock:
        for unmapped in sorted(self._unmapped, key=_address):
            start = unmapped
            if start.prev is not None and start.prev.key:
                start = start.prev
            if sum(block.size for block in self._available(start, size)) >= size:
                return start
        segment = ExpandableSegment(self._source, self.page)
        segment.head = block = CachedBlock(segment.address, segment.size, self)
        self.segments.append(segment)
        self._unmapped.add(block)
        return block

    def _available(self, block: CachedBlock | None, size: int) -> Iterator[CachedBlock]:
        """``block`` and free or unmapped ones right after it, until they hold ``size`` bytes."""
        while block is not None and size > 0 and (block.key or block in self._unmapped):
            yield block
            size -= block.size
            block = block.next

    def _map(self, block: CachedBlock, size: int) -> CachedBlock | None:
        """Map at least ``size`` bytes of an unmapped range; the free block they are in afterwards."""
        segment = self._segment_of(block)
        backed = segment.map(block.address, size)
        if not backed:
            return None
        self._unmapped.remove(block)
        if backed < block.size:
            rest = CachedBlock(block.address + backed, block.size - backed, self, block, block.next)
            if rest.next is not None:
                rest.next.prev = rest
            block.next = rest
            block.size = backed
            self._unmapped.add(rest)
        frames = self._mapped(self, "segment_map", block.address, backed)
        if segment.frames is None:
            segment.frames = frames
        # Merging is the same as for a block that comes back, and counts nothing.
        return self.give(block, 0, 0)

    def _unmap(self, segment: ExpandableSegment, block: CachedBlock) -> None:
        """Give the whole pages of a free block back, and keep what it has before and after them."""
        start, size = segment.pages_within(block.address, block.size)
        self.remove(block)
        before = start - block.address
        after = block.size - before - size
        segment.unmap(start, size)
        hole = block
        if before:
            hole = CachedBlock(start, size, self, block, block.next)
            if hole.next is not None:
                hole.next.prev = hole
            block.next = hole
            block.size = before
            self.insert(block)
        hole.size = size
        if after:
            rest = CachedBlock(start + size, after, self, hole, hole.next)
            if rest.next is not None:
                rest.next.prev = rest
            hole.next = rest
            self.insert(rest)
        hole = self._merge_unmapped(hole)
        self._mapped(self, "segment_unmap", start, size)
        self._unmapped.add(hole)

    def _merge_unmapped(self, hole: CachedBlock) -> CachedBlock:
        left, right = hole.prev, hole.next
        if right is not None and right in self._unmapped:
            self._unmapped.remove(right)
            _absorb(hole, right)
        if left is not None and left in self._unmapped:
            self._unmapped.remove(left)
            _absorb(left, hole)
            hole = left
        return hole


def _absorb(left: CachedBlock, block: CachedBlock) -> None:
    left.size += block.size
    left.next = following = block.next
    if following is not None:
        following.prev = left
    block.prev = block.next = None
