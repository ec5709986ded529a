"""What allocators without a cache have in common: each block is one piece of memory, counted and reported."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from drv.errors import InvalidValueError, OutOfMemoryError

from .history import describe
from .limits import explain, memory_limit, process_use
from .protocol import LARGEST_REQUEST
from .statistics import LARGE, RECORD, UNCHANGED, Statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.device import Device

    from .history import Frames
    from .protocol import Observer, PoolIdentifier


class DirectBlock:
    """One piece of memory. See :class:`~drv.allocators.protocol.Block`."""

    __slots__ = ("address", "frames", "live", "owner", "requested", "size", "stream")

    def __init__(self, address: int, size: int, stream: int) -> None:
        self.address = address
        self.size = self.requested = size
        self.stream = stream
        self.live = True
        self.frames: Frames | None = None
        self.owner: KeptBlocks[Any] | None = None

    def __repr__(self) -> str:
        return (
            f"<driver allocation of {self.size} bytes at {self.address:#x}{'' if self.live else ', freed'}>"
        )


B = TypeVar("B", bound=DirectBlock)


class KeptBlocks(Generic[B]):
    """A private pool of an allocator without a cache: freed blocks are kept as long as it is in use, and not used again.

    Parameters
    ----------
    identifier : tuple of two ints
        What it goes by.

    Attributes
    ----------
    users : int
        How many keep it in use.
    freed : list
        The blocks.
    """

    __slots__ = ("freed", "identifier", "users")

    def __init__(self, identifier: PoolIdentifier) -> None:
        self.identifier = identifier
        self.users = 0
        self.freed: list[B] = []


class DirectAllocator(ABC, Generic[B]):
    """Gets each block when it is asked for, and gives it back when it is freed.

    Blocks and segments are one here, and count as large.

    Parameters
    ----------
    device : Device
        Whose memory.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.ordinal = device.ordinal
        self._observer: Observer | None = None
        self._counts = counts = Statistics()
        for counters in (counts.all, counts.small_pool, counts.large_pool):
            counters.segment, counters.reserved_bytes = counters.allocation, counters.allocated_bytes
        # Re-entrant, as a finalizer may free a block while the counters are read.
        self._reading = threading.RLock()
        self._live: dict[int, B] = {}
        self._limit: int | None = None
        self._private: dict[PoolIdentifier, KeptBlocks[B]] = {}
        self._routes: list[tuple[KeptBlocks[B], Callable[[int], bool]]] = []

    @abstractmethod
    def _obtain(self, size: int, stream: int) -> B:
        """A new block of ``size`` bytes, more than 0. Raises OutOfMemoryError if there is none."""

    @abstractmethod
    def _nothing(self, stream: int) -> B:
        """A block of 0 bytes at address 0."""

    @abstractmethod
    def _give_back(self, block: B) -> None:
        """Take the memory of ``block``, which is freed; never raises."""

    def allocate(self, size: int, stream: int = 0) -> B:
        """See :meth:`~drv.allocators.protocol.Allocator.allocate`."""
        if size <= 0:
            if size < 0:
                raise InvalidValueError(f"cannot allocate {size} bytes")
            return self._nothing(stream)
        if size >= LARGEST_REQUEST or (self._limit is not None and self._held() + size > self._limit):
            raise self._out_of_memory(size, stream)
        owner = next((pool for pool, claims in self._routes if claims(stream)), None)
        try:
            block = self._obtain(size, stream) if owner is None else self._obtain_kept(size, stream)
        except OutOfMemoryError:
            raise self._out_of_memory(size, stream) from None
        block.owner = owner
        self._live[block.address] = block
        self._note(size)
        if self._observer is not None:
            block.frames = self._observer.frames_for_allocation()
            self._observer.record("alloc", block.address, size, stream, block.frames)
        return block

    def free(self, block: B) -> None:
        """See :meth:`~drv.allocators.protocol.Allocator.free`."""
        if not block.live:
            raise InvalidValueError(f"{block!r} was freed before")
        block.live = False
        if not block.size:
            return
        del self._live[block.address]
        self._note(-block.size)
        if self._observer is not None:
            frames = self._observer.frames_for_free() or block.frames
            for action in ("free_requested", "free_completed"):
                self._observer.record(action, block.address, block.size, block.stream, frames)
        if block.owner is None:
            self._give_back(block)
        elif block.owner.users:
            block.owner.freed.append(block)
        else:
            self._give_back_kept(block)

    def _obtain_kept(self, size: int, stream: int) -> B:
        """A new block for a private pool."""
        return self._obtain(size, stream)

    def _give_back_kept(self, block: B) -> None:
        """Take the memory of a block back that was in a private pool; never raises."""
        self._give_back(block)

    def begin_pool(
        self,
        identifier: PoolIdentifier,
        claims: Callable[[int], bool],
        *,
        splits: bool = True,
        lends: bool = False,
    ) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.begin_pool`, whose ``splits`` and ``lends`` change nothing here."""
        self.retain_pool(identifier)
        self._routes = [(self._private[identifier], claims), *self._routes]

    def end_pool(self, identifier: PoolIdentifier, claims: Callable[[int], bool]) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.end_pool`."""
        routes = [each for each in self._routes if each[0].identifier != identifier or each[1] is not claims]
        if len(routes) == len(self._routes):
            raise InvalidValueError(f"memory pool {identifier}: no such block has begun, or it has ended")
        self._routes = routes
        self.release_pool(identifier)

    def retain_pool(self, identifier: PoolIdentifier) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.retain_pool`."""
        with self._reading:
            self._private.setdefault(identifier, KeptBlocks(identifier)).users += 1

    def release_pool(self, identifier: PoolIdentifier) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.release_pool`: here memory goes back at once."""
        with self._reading:
            pool = self._private.get(identifier)
            if pool is None:
                raise InvalidValueError(f"memory pool {identifier} is not in use")
            pool.users -= 1
            if pool.users:
                return
            del self._private[identifier]
        while pool.freed:
            self._give_back_kept(pool.freed.pop())

    def pool_users(self, identifier: PoolIdentifier) -> int:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.pool_users`."""
        pool = self._private.get(identifier)
        return 0 if pool is None else pool.users

    def live_blocks(self) -> list[B]:
        """Blocks that were handed out and not freed, in the order of their addresses.

        A new list; the blocks in it are the allocator's own.
        """
        return [block for _, block in sorted(self._live.items())]

    def empty_cache(self) -> None:
        """Nothing to do: there is no cache."""

    def set_memory_fraction(self, fraction: float) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.set_memory_fraction`."""
        self._limit = memory_limit(fraction, self.memory_info()[1])

    def observe(self, observer: Observer | None) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.observe`."""
        self._observer = observer

    def grant_access(self, device: int) -> None:
        """Let ``device`` use the memory.

        Nothing to do: peer access covers the driver's own allocations.
        """

    def statistics(self) -> dict[str, int]:
        """See :meth:`~drv.allocators.protocol.Allocator.statistics`."""
        with self._reading:
            counted = self._counts.report(None)
        counted["num_device_alloc"] = counted["allocation.all.allocated"]
        counted["num_device_free"] = counted["allocation.all.freed"]
        return counted

    def reset_peaks(self) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.reset_peaks`."""
        with self._reading:
            self._counts.reset_peaks()

    def reset_accumulated(self) -> None:
        """See :meth:`~drv.allocators.protocol.DeviceAllocator.reset_accumulated`."""
        with self._reading:
            self._counts.reset_accumulated()

    def snapshot(self) -> list[dict[str, Any]]:
        """See :meth:`~drv.allocators.protocol.Allocator.snapshot`."""
        return [self._describe(block) for block in self.live_blocks()]

    def memory_info(self) -> tuple[int, int]:
        """See :meth:`~drv.allocators.protocol.MemorySource.memory_info`."""
        free, total = self.device.memory_info()
        return free, total

    def process_use(self) -> int | None:
        """See :meth:`~drv.allocators.protocol.MemorySource.process_use`."""
        return process_use(self.device)

    def _note(self, size: int) -> None:
        # Codes stand below the multiples of 512 that a caching allocator hands out; here a size may be
        # anything, so it is counted as what it takes and requested as what it is.
        rounded = (abs(size) + 511) & -512
        counts = self._counts
        counts.journal += ((rounded if size > 0 else -rounded) + UNCHANGED + LARGE, size, 0)
        if len(counts.journal) > 1000 * RECORD:
            with self._reading:
                counts.settle()

    def _held(self) -> int:
        with self._reading:
            self._counts.settle()
            return self._counts.all.allocated_bytes.current

    def _out_of_memory(self, size: int, stream: int) -> OutOfMemoryError:
        free, total = self.memory_info()
        self._counts.num_ooms += 1
        if self._observer is not None:
            self._observer.record("oom", free, size, stream, self._observer.frames_for_allocation())
        held = self._held()
        message = explain(
            size,
            self.ordinal,
            free=free,
            total=total,
            process_use=self.process_use(),
            allowed=self._limit,
            allocated=held,
            reserved=held,
            expandable=True,
        )
        return OutOfMemoryError(message, status="CUDA_ERROR_OUT_OF_MEMORY", call=f"allocate({size} bytes)")

    def _describe(self, block: B) -> dict[str, Any]:
        frames = describe(block.frames)
        return {
            "device": self.ordinal,
            "address": block.address,
            "total_size": block.size,
            "allocated_size": block.size,
            "active_size": block.size,
            "requested_size": block.requested,
            "stream": block.stream,
            "segment_type": "large",
            "segment_pool_id": (0, 0) if block.owner is None else block.owner.identifier,
            "is_expandable": False,
            "frames": frames,
            "blocks": [
                {
                    "address": block.address,
                    "size": block.size,
                    "requested_size": block.requested,
                    "state": "active_allocated",
                    "frames": frames,
                }
            ],
        }
