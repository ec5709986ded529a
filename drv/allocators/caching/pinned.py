"""Pinned host memory, cached for reuse: pinning and unpinning cost a driver call that waits for the device."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from drv.allocators.statistics import Stat
from drv.errors import InvalidValueError, OutOfMemoryError

from .gate import Gated, inside, section
from .pending import PendingBlocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.allocators.events import StreamEvents, StreamKey


class HostMemory(Protocol):
    """Pinned memory, as :class:`~drv.memory.PinnedMemory` is."""

    @property
    def address(self) -> int:
        """First address."""

    nbytes: int

    def free(self) -> None:
        """Give the memory back."""


#: Smallest size class in bytes: the driver locks whole pages.
PAGE = 4096


class PinnedBlock:
    """A range of pinned host memory. See :class:`~drv.allocators.protocol.Block`.

    Attributes
    ----------
    memory : HostMemory
        The driver's allocation, all of it this block's.
    uses : dict
        Streams that copy from or to it, as ``(device, stream)``.
    """

    __slots__ = ("address", "live", "memory", "requested", "size", "stream", "uses")

    def __init__(self, memory: HostMemory) -> None:
        self.memory = memory
        self.address = memory.address
        self.size = memory.nbytes
        self.requested = 0
        self.stream = 0
        self.live = False
        self.uses: dict[StreamKey, None] = {}

    def __repr__(self) -> str:
        return f"<pinned block of {self.size} bytes at {self.address:#x}{'' if self.live else ', freed'}>"


class PinnedAllocator(Gated):
    """Caches pinned host memory in size classes that are powers of two.

    A freed block is handed out again once the work is done that the streams which used it had queued when
    it was freed. Neither allocating nor freeing waits for that.

    Parameters
    ----------
    pin : callable
        ``pin(size)`` makes new pinned memory.
    events : StreamEvents
        Marks in the streams that copy.
    caching : bool
        Whether to keep freed blocks; without, they are unpinned as soon as nothing uses them.
    """

    _refusal = "a finalizer that ran while the pinned allocator was at work may free, and nothing else"

    def __init__(
        self, pin: Callable[[int], HostMemory], events: StreamEvents, *, caching: bool = True
    ) -> None:
        super().__init__()
        self._pin = pin
        self._events = events
        self._caching = caching
        self._deferred: deque[PinnedBlock] = deque()
        self._pending: PendingBlocks[PinnedBlock] = PendingBlocks(events, self._finished)
        self._free: dict[int, list[PinnedBlock]] = {}
        self._stats = {
            name: Stat() for name in ("allocation", "allocated_bytes", "segment", "reserved_bytes")
        }

    @section
    def allocate(self, size: int, stream: int = 0) -> PinnedBlock:
        """``size`` bytes of pinned memory, contents undefined. ``stream`` does not matter.

        Raises
        ------
        OutOfMemoryError
            If the host cannot lock so much, also after cached blocks were unpinned.
        InvalidValueError
            If ``size`` is not positive.
        RuntimeError
            In a finalizer that runs while this thread is inside the allocator.
        """
        if size <= 0:
            raise InvalidValueError(f"cannot allocate {size} bytes of pinned memory")
        rounded = max(1 << (size - 1).bit_length(), PAGE) if self._caching else size
        self._go_inside()
        try:
            self._catch_up()
            cached = self._free.get(rounded)
            block = cached.pop() if cached else self._new(rounded)
            block.live = True
            block.requested = size
            self._stats["allocation"].change(1)
            self._stats["allocated_bytes"].change(block.size)
            return block
        finally:
            self._leave(None)

    @section
    def free(self, block: PinnedBlock) -> None:
        """See :meth:`~drv.allocators.protocol.Allocator.free`."""
        if not block.live:
            raise InvalidValueError(f"{block!r} was freed before")
        block.live = False
        try:
            self._enter()
        except IndexError:
            self._deferred.append(block)
            return
        try:
            self._take_back(block)
        finally:
            self._leave(None)

    def record_stream(self, block: PinnedBlock, stream: int, device: int | None = None) -> None:
        """Note that ``stream`` of ``device`` (0 by default) copies from or to ``block``.

        Raises
        ------
        InvalidValueError
            If the block was freed.
        """
        if not block.live:
            raise InvalidValueError(f"{block!r} was freed before")
        block.uses[device or 0, stream] = None

    @inside
    def empty_cache(self) -> None:
        """Unpin the cached blocks that nothing uses any more."""
        self._catch_up()
        self._unpin_cached()

    @inside
    def statistics(self) -> dict[str, int]:
        """``allocation``, ``allocated_bytes``, ``segment`` and ``reserved_bytes`` of pinned memory, in bytes or blocks.

        Each as ``current``, ``peak``, ``allocated`` and ``freed``, beside ``num_host_alloc`` and ``num_host_free``.
        """
        self._catch_up()
        into: dict[str, int] = {}
        for name, stat in self._stats.items():
            stat.report(into, name)
        into["num_host_alloc"] = into["segment.allocated"]
        into["num_host_free"] = into["segment.freed"]
        return dict(sorted(into.items()))

    def snapshot(self) -> list[dict[str, Any]]:
        """An empty list.

        No tool reads snapshots of host memory.
        """
        return []

    def _catch_up(self) -> None:
        for _ in range(len(self._deferred)):
            self._take_back(self._deferred.popleft())
        if self._pending.queues:
            self._pending.poll()

    def _take_back(self, block: PinnedBlock) -> None:
        if block.uses and not self._events.ready():
            self._deferred.append(block)
            return
        self._stats["allocation"].change(-1)
        self._stats["allocated_bytes"].change(-block.size)
        uses, block.uses = block.uses, {}
        if uses and self._events.alive:
            self._pending.add(block, uses)
        else:
            self._finished(block)

    def _finished(self, block: PinnedBlock) -> None:
        if self._caching:
            self._free.setdefault(block.size, []).append(block)
        else:
            self._unpin(block)

    def _new(self, size: int) -> PinnedBlock:
        try:
            memory = self._pin(size)
        except OutOfMemoryError:
            self._unpin_cached()
            memory = self._pin(size)
        block = PinnedBlock(memory)
        self._stats["segment"].change(1)
        self._stats["reserved_bytes"].change(size)
        return block

    def _unpin_cached(self) -> None:
        for blocks in self._free.values():
            while blocks:
                self._unpin(blocks.pop())

    def _unpin(self, block: PinnedBlock) -> None:
        self._stats["segment"].change(-1)
        self._stats["reserved_bytes"].change(-block.size)
        block.memory.free()
