"""The caching allocator: memory that was freed is cached, and handed out again.

It follows the design of PyTorch's ``CUDACachingAllocator``. Memory comes from the driver in segments, which
are cut into blocks (:mod:`.rounding` has the sizes). A freed block returns to the pool of its stream, where
work queued later is ordered behind what still uses it; the driver is not called. The order in which free
blocks are searched, split and merged is :mod:`.pool`'s subject, blocks used on other streams are
:mod:`.pending`'s, growing segments :mod:`.expandable`'s; here is who calls what, and what happens when
memory runs out.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from drv.allocators.limits import explain, memory_limit
from drv.allocators.options import AllocatorOptions
from drv.allocators.protocol import LARGEST_REQUEST
from drv.allocators.statistics import JOURNAL_LIMIT, LARGE, UNCHANGED, Statistics
from drv.errors import InvalidValueError, OutOfMemoryError

from .blocks import CachedBlock
from .expandable import ExpandablePool, ExpandableSegment
from .gate import Gated, inside, section
from .pending import PendingBlocks
from .pool import BlockPool, Clock, EmptyPool
from .private_pools import PrivatePool, Route, RoutedPools
from .rounding import NO_LIMIT, SMALL_LIMIT, segment_size
from .segments import Segment, SegmentStore, forget_frames
from .snapshot import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drv.allocators.events import StreamEvents
    from drv.allocators.protocol import MemorySource, Observer, PoolIdentifier

    from .private_pools import PoolsOfStreams
    from .virtual_memory import AddressSpaceSource


class CachingAllocator(Gated):
    """Hands out blocks of one device's memory, and keeps what is freed for the same stream.

    Parameters
    ----------
    ordinal : int
        The device.
    source : MemorySource
        Where segments come from.
    events : StreamEvents
        Marks in streams, for blocks that several streams use.
    options : AllocatorOptions
        See there.
    addresses : AddressSpaceSource, optional
        Where expandable segments come from.

    Raises
    ------
    InvalidValueError
        If ``options`` ask for expandable segments and there are no ``addresses``.

    Notes
    -----
    One thread at a time is inside. A free that finds another thread there, or that a finalizer makes while
    its own thread is, is put off until the next call; so freeing never waits.
    """

    _refusal = "a finalizer that ran while the allocator was at work may allocate and free, and nothing else"

    def __init__(
        self,
        ordinal: int,
        source: MemorySource[Any],
        events: StreamEvents,
        options: AllocatorOptions | None = None,
        addresses: AddressSpaceSource | None = None,
    ) -> None:
        super().__init__()
        self.ordinal = ordinal
        self._source = source
        self._events = events
        self._addresses = addresses
        self._deferred: deque[CachedBlock] = deque()
        self._aside: deque[Segment] = deque()
        #: Whether the next allocation has to look at what was put off, or what streams may be done with. Set after that is noted,
        #: by whichever thread, and unset before it is looked at.
        self._due = False
        self._statistics = Statistics()
        self._journal = self._statistics.journal
        self._clock = Clock()
        self._pending: PendingBlocks[CachedBlock] = PendingBlocks(events, self._finished)
        self._queues = self._pending.queues
        self._segments = SegmentStore(source, self._statistics)
        self._pools: dict[bool, tuple[dict[int, BlockPool], dict[int, BlockPool]]] = {
            False: ({}, {}),
            True: ({}, {}),
        }
        self._private: dict[PoolIdentifier, PrivatePool] = {}
        self._routes: list[Route] = []
        #: Pools that finalizers, or other threads, let go of while a thread was inside.
        self._released: deque[PoolIdentifier] = deque()
        #: Freed while a stream that had used them was captured, which no event can tell to be done.
        self._until_captured: list[CachedBlock] = []
        self._observer: Observer | None = None
        self._use(options or AllocatorOptions())

    # What every allocation passes through

    @section
    def allocate(self, size: int, stream: int = 0) -> CachedBlock:
        """See :meth:`~drv.allocators.protocol.Allocator.allocate`."""
        # ``self._enter()`` would be looked for among the methods first, in vain: 20 ns each.
        enter, leave = self._enter, self._leave
        try:
            enter()
        except IndexError:
            if self._is_inside():
                return self._allocate_aside(size, stream)
            self._gate.wait()
        try:
            if self._due:
                self._see_to_what_is_due()
            rounded = (size + 511) & -512 if self._rounds_to_unit else self._options.round(size)
            if rounded <= SMALL_LIMIT:
                if rounded <= 0:
                    return self._empty(size, stream)
                pool = self._small.get(stream)
                if pool is None:
                    pool = self._new_pool(stream, small=True)
            else:
                pool = self._large.get(stream)
                if pool is None:
                    pool = self._new_pool(stream, small=False)
                if self._aging:
                    self._clock.now += 1
            journal = self._journal
            held = pool.held
            if held is None:
                pool.holds = pool.freed == rounded and pool.may_hold
                pool.freed = 0
                block = pool.take(rounded, size) or self._reserve(pool, rounded, size)
            elif held.size == rounded:
                # As pool.take() would after pool.put_held(), without the calls.
                block = held.first
                journal += (held.taken, size, held.taken_unsplit)
                if held.second is None:
                    pool.held = None
                else:
                    pool.hold_second(held.second)
                block.live = True
                block.requested = size
            else:
                pool.put_held()
                block = pool.take(rounded, size) or self._reserve(pool, rounded, size)
            if len(journal) > JOURNAL_LIMIT:
                self._statistics.settle()
            if self._attentive:
                self._note_allocation(block)
            return block
        finally:
            leave(None)

    @section
    def free(self, block: CachedBlock) -> None:
        """See :meth:`~drv.allocators.protocol.Allocator.free`."""
        if not block.live:
            raise InvalidValueError(f"{block!r} was freed before")
        block.live = False
        enter, leave = self._enter, self._leave
        try:
            enter()
        except IndexError:
            self._deferred.append(block)
            self._due = True
            return
        try:
            if block.uses is None and not self._attentive:
                pool = block.pool
                if pool.holds:
                    held = pool.held
                    if held is None:
                        held = pool.singles.get(block) or pool.hold(block)
                    else:
                        held = held.beside.get(block) or pool.hold_both(held, block)
                    if held is not None:
                        self._journal += (held.freed, -block.requested, held.freed_unsplit)
                        pool.held = held
                        pool.holds = held.second is None
                        return
                    pool.holds = False
                pool.freed = block.size
                pool.give(block, block.size, block.requested)
            else:
                self._take_back(block)
        finally:
            leave(None)

    def record_stream(self, block: CachedBlock, stream: int, device: int | None = None) -> None:
        """See :meth:`~drv.allocators.protocol.Allocator.record_stream`."""
        if not block.live:
            raise InvalidValueError(f"{block!r} was freed before")
        owner = self.ordinal if device is None else device
        if (stream == block.stream and owner == self.ordinal) or not block.size:
            return
        if block.uses is None:
            block.uses = {}
        block.uses[owner, stream] = None

    # Private pools

    @inside
    def begin_pool(
        self,
        identifier: PoolIdentifier,
        claims: Callable[[int], bool],
        *,
        splits: bool = True,
        lends: bool = False,
    ) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.begin_pool`."""
        self._catch_up()
        pool = self._private.get(identifier)
        if pool is None:
            pool = self._private[identifier] = PrivatePool(identifier)
        pool.splits, pool.lends = splits, lends
        pool.users += 1
        # The innermost block of the program has its way.
        self._set_routes([Route(pool, claims), *self._routes])

    @inside
    def end_pool(self, identifier: PoolIdentifier, claims: Callable[[int], bool]) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.end_pool`."""
        routes = [r for r in self._routes if r.pool.identifier != identifier or r.claims is not claims]
        if len(routes) == len(self._routes):
            raise InvalidValueError(f"memory pool {identifier}: no such block has begun, or it has ended")
        self._set_routes(routes)
        self._deferred.extend(self._until_captured)
        self._due = True
        self._until_captured.clear()
        self._let_go(identifier)

    @inside
    def retain_pool(self, identifier: PoolIdentifier) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.retain_pool`."""
        self._private.setdefault(identifier, PrivatePool(identifier)).users += 1

    @section
    def release_pool(self, identifier: PoolIdentifier) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.release_pool`."""
        if not self.pool_users(identifier):
            raise InvalidValueError(f"memory pool {identifier} is not in use")
        try:
            self._enter()
        except IndexError:
            self._released.append(identifier)
            return
        try:
            self._let_go(identifier)
        finally:
            self._leave(None)

    def pool_users(self, identifier: PoolIdentifier) -> int:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.pool_users`."""
        pool = self._private.get(identifier)
        return 0 if pool is None else pool.users

    def _let_go(self, identifier: PoolIdentifier) -> None:
        pool = self._private.get(identifier)
        if pool is not None and pool.users:
            pool.users -= 1

    def _set_routes(self, routes: list[Route]) -> None:
        self._routes = routes
        small, large = self._pools[self._options.expandable_segments]
        self._small: PoolsOfStreams = RoutedPools(small, routes, small=True) if routes else small
        self._large: PoolsOfStreams = RoutedPools(large, routes, small=False) if routes else large

    def _forget_private(self) -> None:
        """Forget private pools that nobody uses and that hold no memory."""
        unused = [pool for pool in self._private.values() if not pool.users]
        if unused:
            holding = {segment.head.pool.owner for segment in self._every_segment()}
            for pool in unused:
                if pool not in holding:
                    del self._private[pool.identifier]

    def _lent(self, small: bool, stream: int, size: int, requested: int) -> CachedBlock | None:
        """A block of a private pool that lends."""
        for private in self._private.values():
            pool = private.of_size(small=small).get(stream) if private.lends else None
            block = None if pool is None else pool.take(size, requested)
            if block is not None:
                return block
        return None

    # What is asked now and then

    @inside
    def empty_cache(self) -> None:
        """Give unused segments back to the driver, after waiting for the streams that still use some.

        Does nothing while a stream is captured.
        """
        self._release_cached()

    def set_memory_fraction(self, fraction: float) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.set_memory_fraction`."""
        self._segments.limit = memory_limit(fraction, self._source.memory_info()[1])
        self._aging = self._options.garbage_collection_threshold > 0

    @inside
    def set_options(self, options: AllocatorOptions) -> None:
        """Behave as ``options`` say from now on. Blocks and segments stay as they are.

        Raises
        ------
        InvalidValueError
            If expandable segments are asked for and the allocator has no address space.
        """
        self._catch_up()
        self._use(options)

    @inside
    def observe(self, observer: Observer | None) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.observe`."""
        self._catch_up()
        self._observer = self._segments.observer = observer
        self._attentive = observer is not None or self._options.max_split_size is not None
        if observer is None:
            for segment in self._every_segment():
                forget_frames(segment)

    @inside
    def grant_access(self, device: int) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.grant_access`."""
        for pool in self._expandable_pools():
            for segment in pool.segments:
                segment.grant(device)

    @inside
    def statistics(self) -> dict[str, int]:
        """See :meth:`~drv.allocators.protocol.Allocator.statistics`."""
        self._catch_up()
        return self._statistics.report(self._options.max_split_size)

    @inside
    def reset_peaks(self) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.reset_peaks`."""
        self._catch_up()
        self._statistics.reset_peaks()

    @inside
    def reset_accumulated(self) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.reset_accumulated`."""
        self._catch_up()
        self._statistics.reset_accumulated()

    @inside
    def snapshot(self) -> list[dict[str, Any]]:
        """See :meth:`~drv.allocators.protocol.Allocator.snapshot`."""
        self._catch_up()
        heads = [(segment.head, segment.frames) for segment in self._every_segment()]
        segments = snapshot(self.ordinal, heads, self._pending.blocks())
        if self._observer is not None:
            active = sum(segment["active_size"] for segment in segments)
            self._observer.record("snapshot", 0, active, 0, None)
        return segments

    # Inside the gate

    def _use(self, options: AllocatorOptions) -> None:
        if options.expandable_segments and self._addresses is None:
            raise InvalidValueError("expandable_segments: this allocator's memory cannot be mapped in pieces")
        self._options = options
        self._rounds_to_unit = options.rounds_to_unit
        self._set_routes(self._routes)
        self._max_split_size = NO_LIMIT if options.max_split_size is None else options.max_split_size
        self._attentive = self._observer is not None or options.max_split_size is not None
        self._segments.max_split_size = self._max_split_size
        self._aging = self._segments.limit is not None and options.garbage_collection_threshold > 0
        for pool in self._every_pool():
            if not pool.expandable:
                pool.max_split_size = self._max_split_size

    def _new_pool(self, stream: int, *, small: bool) -> BlockPool:
        pool: BlockPool
        if self._options.expandable_segments:
            assert self._addresses is not None
            pool = ExpandablePool(
                stream, small, self._journal, self._clock, self._addresses, self._segments.note_pages
            )
        else:
            pool = BlockPool(stream, small, self._journal, self._clock)
            pool.max_split_size = self._max_split_size
        return (self._small if small else self._large).setdefault(stream, pool)

    def _every_pool(self) -> Iterator[BlockPool]:
        for small, large in self._pools.values():
            yield from large.values()
            yield from small.values()
        for private in self._private.values():
            yield from private

    def _expandable_pools(self) -> Iterator[ExpandablePool]:
        return (pool for pool in self._every_pool() if isinstance(pool, ExpandablePool))

    def _every_segment(self) -> Iterator[Segment | ExpandableSegment]:
        yield from self._segments
        for pool in self._expandable_pools():
            yield from pool.segments

    def _empty(self, size: int, stream: int) -> CachedBlock:
        if size < 0:
            raise InvalidValueError(f"cannot allocate {size} bytes")
        block = CachedBlock(0, 0, EmptyPool(stream, True, self._journal, self._clock))
        block.live = True
        return block

    def _note_allocation(self, block: CachedBlock) -> None:
        if block.size >= self._max_split_size:
            self._statistics.oversize_allocations.change(1)
        observer = self._observer
        if observer is not None:
            block.frames = observer.frames_for_allocation()
            observer.record("alloc", block.address, block.requested, block.stream, block.frames)

    def _take_back(self, block: CachedBlock) -> None:
        if block.uses and not self._events.ready():
            (self._until_captured if self._routes and self._events.capturing else self._deferred).append(
                block
            )
            self._due = True
            return
        size, requested = block.size, block.requested
        if size >= self._max_split_size:
            self._statistics.oversize_allocations.change(-1)
        self._observe_free("free_requested", block)
        uses, block.uses = block.uses, None
        if uses and self._events.alive:
            self._statistics.freed_in_use(block.pool.small, size)
            self._pending.add(block, uses)
            self._due = True
        else:
            self._observe_free("free_completed", block)
            block.frames = None
            block.pool.give(block, size, requested)

    def _finished(self, block: CachedBlock) -> None:
        self._statistics.finished(block.pool.small, block.size, block.requested)
        self._observe_free("free_completed", block)
        block.frames = None
        block.pool.give(block, 0, 0)

    def _observe_free(self, action: str, block: CachedBlock) -> None:
        observer = self._observer
        if observer is not None and block.size:
            frames = observer.frames_for_free() or block.frames
            observer.record(action, block.address, block.requested, block.stream, frames)

    def _see_to_what_is_due(self) -> None:
        self._due = False
        if self._deferred or self._aside:
            self._catch_up()
        if self._queues:
            self._pending.poll()
        if self._queues:
            self._due = True

    def _catch_up(self) -> None:
        """Do what finalizers and other threads could not."""
        while self._released:
            self._let_go(self._released.popleft())
        while self._aside:
            segment = self._aside.popleft()
            block = segment.head
            self._segments.add(segment)
            self._journal += (block.size + UNCHANGED + (0 if block.pool.small else LARGE), block.requested, 0)
        # A block may be put off again, so only those that are there now.
        for _ in range(len(self._deferred)):
            self._take_back(self._deferred.popleft())
        self._give_held()

    def _give_held(self) -> None:
        """Let no block be held back any longer."""
        for pool in list(self._every_pool()):
            pool.put_held()

    def _allocate_aside(self, size: int, stream: int) -> CachedBlock:
        """A segment of its own for an allocation that a finalizer makes while this allocator is at work."""
        rounded = self._options.round(size)
        if rounded <= 0:
            return self._empty(size, stream)
        small = rounded <= SMALL_LIMIT
        pools = self._pools[False][0 if small else 1]
        pool = pools.setdefault(stream, BlockPool(stream, small, self._journal, self._clock))
        segment_bytes = segment_size(rounded)
        memory = self._source.allocate(segment_bytes, stream)
        block = CachedBlock(memory.address, segment_bytes, pool)
        block.live = True
        block.requested = size
        self._aside.append(Segment(block, memory, None))
        self._due = True
        return block

    # When the cache has nothing

    def _reserve(self, pool: BlockPool, size: int, requested: int) -> CachedBlock:
        """Hand out a block from new memory; as much cached memory is given back as that takes."""
        if requested >= LARGEST_REQUEST:
            self._statistics.num_ooms += 1
            raise _error("CUDA out of memory. Tried to allocate more than 1EB memory.", requested)
        if self._aging and not self._events.capturing:
            threshold = self._options.garbage_collection_threshold
            self._segments.collect_garbage(self._pools[False][1].values(), threshold, self._clock.now)
        segment_bytes = segment_size(size)
        block = self._segments.reserve(pool, size, segment_bytes)
        oversize = block is None and not self._events.capturing and pool.owner is None
        if oversize and self._segments.release_oversize(pool, size, self._max_split_size):
            block = self._segments.reserve(pool, size, segment_bytes)
        if block is None:
            self._release_cached()
            self._statistics.num_alloc_retries += 1
            block = self._segments.reserve(pool, size, segment_bytes)
        if block is not None:
            return pool.carve(block, size, requested)
        # A block may have come back while memory was given back.
        self._catch_up()
        returned = pool.take(size, requested)
        if returned is None and pool.owner is None:
            returned = self._lent(pool.small, pool.stream, size, requested)
        if returned is None:
            raise self._out_of_memory(pool, size, segment_bytes)
        return returned

    def _release_cached(self) -> None:
        """Give everything back that no block occupies and no private pool keeps."""
        self._catch_up()
        if self._events.capturing:
            # Giving memory back waits for the device, which would make the capture void.
            return
        if self._events.ready():
            self._statistics.num_sync_all_streams += 1
            self._pending.wait()
        for pool in list(self._every_pool()):
            if pool.owner is not None and pool.owner.users:
                continue
            if isinstance(pool, ExpandablePool):
                pool.trim()
            else:
                self._segments.release_whole(pool)
        self._forget_private()

    def _out_of_memory(self, pool: BlockPool, size: int, segment_bytes: int) -> OutOfMemoryError:
        free, total = self._source.memory_info()
        counts = self._statistics
        counts.num_ooms += 1
        counts.settle()
        if self._observer is not None:
            frames = self._observer.frames_for_allocation()
            self._observer.record("oom", free, size, pool.stream, frames)
        message = explain(
            segment_bytes,
            self.ordinal,
            free=free,
            total=total,
            process_use=self._source.process_use(),
            allowed=self._segments.limit,
            allocated=counts.all.allocated_bytes.current,
            reserved=counts.all.reserved_bytes.current,
            expandable=pool.expandable,
        )
        if self._events.capturing:
            message += (
                " A stream is being captured into a CUDA graph: memory that is cached is not given back until the capture "
                "ends; call empty_cache() before it begins."
            )
        return _error(message, segment_bytes)


def _error(message: str, size: int) -> OutOfMemoryError:
    return OutOfMemoryError(message, status="CUDA_ERROR_OUT_OF_MEMORY", call=f"allocate({size} bytes)")
