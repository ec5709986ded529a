"""Segments: what the driver gave, which blocks are cut from, and when it goes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from drv.errors import OutOfMemoryError

from .blocks import CachedBlock
from .expandable import ExpandablePool
from .rounding import NO_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from drv.allocators.history import Frames
    from drv.allocators.protocol import Block, MemorySource, Observer
    from drv.allocators.statistics import Statistics

    from .pool import BlockPool


class Segment:
    """One allocation of the memory source.

    Attributes
    ----------
    head : CachedBlock
        Its first block.
    memory : Block
        What the source gave, to be given back.
    frames : tuple or None
        Python stack of the allocation that made it, when history is recorded.
    """

    __slots__ = ("frames", "head", "memory")

    def __init__(self, head: CachedBlock, memory: Block, frames: Frames | None) -> None:
        self.head = head
        self.memory = memory
        self.frames = frames


class Traced(Protocol):
    """A segment, expandable or not."""

    head: CachedBlock
    frames: Frames | None


def chain(head: CachedBlock) -> Iterator[CachedBlock]:
    """``head`` and the blocks after it in its segment."""
    block: CachedBlock | None = head
    while block is not None:
        yield block
        block = block.next


def forget_frames(segment: Traced) -> None:
    """Drop the stacks of a segment and of its blocks."""
    segment.frames = None
    for block in chain(segment.head):
        block.frames = None


class SegmentStore:
    """Reserves segments from the memory source, within a limit, and gives free ones back.

    Attributes
    ----------
    limit : int or None
        Most bytes to hold.
    max_split_size : int
        Segments of at least so many bytes count as oversize.
    observer : Observer or None
        Told of segments that come and go.
    """

    def __init__(self, source: MemorySource[Any], statistics: Statistics) -> None:
        self.limit: int | None = None
        self.max_split_size = NO_LIMIT
        self.observer: Observer | None = None
        self._source = source
        self._statistics = statistics
        self._by_address: dict[int, Segment] = {}

    def __iter__(self) -> Iterator[Segment]:
        return iter(list(self._by_address.values()))

    @property
    def held(self) -> int:
        """Bytes held from the driver, those in expandable segments included."""
        return self._statistics.all.reserved_bytes.current

    def reserve(self, pool: BlockPool, size: int, segment_bytes: int) -> CachedBlock | None:
        """A block of new memory, for ``size`` bytes, that is in no pool.

        ``segment_bytes`` is the size of the segment; an expandable one only grows as far as it must. ``None``
        when memory, or the limit, is exhausted.
        """
        if self.limit is not None and self.held + segment_bytes > self.limit:
            return None
        if isinstance(pool, ExpandablePool):
            return pool.grow(size)
        try:
            memory = self._source.allocate(segment_bytes, pool.stream)
        except OutOfMemoryError:
            return None
        block = CachedBlock(memory.address, segment_bytes, pool)
        frames = None if self.observer is None else self.observer.frames_for_allocation()
        self.add(Segment(block, memory, frames))
        return block

    def add(self, segment: Segment) -> None:
        """Take account of a new segment, which is one block."""
        head = segment.head
        statistics = self._statistics
        self._by_address[head.address] = segment
        statistics.reserved(head.pool.small, 1, head.size)
        statistics.num_device_alloc += 1
        if head.size >= self.max_split_size:
            statistics.oversize_segments.change(1)
        if self.observer is not None:
            self.observer.record("segment_alloc", head.address, head.size, head.stream, segment.frames)

    def release(self, block: CachedBlock) -> None:
        """Give a free segment back to the driver."""
        statistics = self._statistics
        block.pool.remove(block)
        segment = self._by_address.pop(block.address)
        self._source.free(segment.memory)
        statistics.reserved(block.pool.small, -1, -block.size)
        statistics.num_device_free += 1
        if block.size >= self.max_split_size:
            statistics.oversize_segments.change(-1)
        if self.observer is not None:
            frames = self.observer.frames_for_free() or segment.frames
            self.observer.record("segment_free", block.address, block.size, block.stream, frames)

    def release_whole(self, blocks: Iterable[CachedBlock]) -> None:
        """Give back those of the free ``blocks`` that are whole segments."""
        for block in blocks:
            if not block.split:
                self.release(block)

    def release_oversize(self, pool: BlockPool, size: int, least: int) -> bool:
        """Give back segments of at least ``least`` bytes: one that holds ``size`` bytes, or several together.

        Whether that was enough.
        """
        if least == NO_LIMIT or pool.expandable:
            return False
        needed = max(size, least)
        whole = [block for block in pool.from_size(least) if not block.split]
        enough = next((block for block in whole if block.size >= needed), None)
        if enough is not None:
            self.release(enough)
            return True
        released = 0
        while whole and released < needed:
            released += whole[-1].size
            self.release(whole.pop())
        return released >= needed

    def collect_garbage(self, pools: Iterable[BlockPool], threshold: float, now: int) -> None:
        """Give back segments that were free for longer than average, down to ``threshold`` of the limit."""
        excess = self.held - int(threshold * (self.limit or 0))
        blocks = [block for pool in pools for block in pool if not block.split]
        while excess > 0 and blocks:
            average = sum(now - block.since for block in blocks) / len(blocks)
            old = [block for block in blocks if now - block.since >= average]
            blocks = [block for block in blocks if now - block.since < average]
            excess -= sum(block.size for block in old)
            self.release_whole(old)

    def note_pages(self, pool: ExpandablePool, action: str, address: int, size: int) -> Frames | None:
        """Take account of pages that an expandable segment gained or lost; the Python stack of it."""
        statistics = self._statistics
        if action == "segment_map":
            statistics.num_device_alloc += 1
            statistics.reserved(pool.small, 0, size)
        else:
            statistics.num_device_free += 1
            statistics.reserved(pool.small, 0, -size)
        if self.observer is None:
            return None
        frames = self.observer.frames_for_allocation()
        self.observer.record(action, address, size, pool.stream, frames)
        return frames
