"""Pools of stream-ordered memory: what they hold, and when freed bytes may be used again.

Every allocation has an address of its own, as reports are clearer so; what is reused are bytes of the device. A pool
keeps what is freed until it is told to let go, or a synchronisation lets go of what is above its threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuda.bindings import driver as cuda

if TYPE_CHECKING:
    from drv.simulator.device_properties import SimulatedDevice
    from drv.simulator.memory.records import MemoryBook, MemoryRecord
    from drv.simulator.memory.shared_bytes import SharedBytes
    from drv.simulator.scheduler import Operation, Stream

_ATTRIBUTES = cuda.CUmemPool_attribute
FOLLOW_EVENTS = int(_ATTRIBUTES.CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES)
OPPORTUNISTIC = int(_ATTRIBUTES.CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC)
INTERNAL_DEPENDENCIES = int(_ATTRIBUTES.CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
RELEASE_THRESHOLD = int(_ATTRIBUTES.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
#: Operations that are looked at to find out whether a stream waits for another.
_LOOK_BACK = 1 << 12


@dataclass(slots=True, eq=False)
class Freed:
    """Bytes that were freed on a stream, by an operation."""

    nbytes: int
    operation: Operation


@dataclass(slots=True, eq=False)
class Pool:
    """A pool: of a device's memory, or of the host's where there is no ``device``."""

    handle: int
    device: SimulatedDevice | None
    #: ``(type, id)`` as in ``CUmemLocation``, and the ``CUmemAllocationType``.
    location: tuple[int, int]
    allocation_type: int
    default: bool = False
    #: Whether its allocations can be had by other processes; and whether it is another one's.
    shareable: bool = False
    imported: bool = False
    #: The most bytes that it may reserve; 0 for any number.
    most: int = 0
    used: int = 0
    used_high: int = 0
    reserved: int = 0
    reserved_high: int = 0
    settings: dict[int, int] = field(default_factory=dict)
    freed: list[Freed] = field(default_factory=list)
    live: set[MemoryRecord] = field(default_factory=set)
    #: Devices that may access its memory, by ordinal, and whether they may write it.
    access: dict[int, bool] = field(default_factory=dict)
    destroyed: bool = False
    #: What other processes know it by.
    shared: SharedBytes | None = None
    #: The process that an imported one is of.
    process: int = 0

    def switch(self, policy: int) -> bool:
        """Whether a policy of reuse is on."""
        return bool(self.settings.get(policy, 1))

    def take(self, book: MemoryBook, nbytes: int, stream: Stream) -> list[Operation]:
        """Count ``nbytes`` as used by what is queued on ``stream`` from now on.

        Returns the operations that the allocation has to come after, for bytes that others have freed. Raises
        :class:`~drv.simulator.driver_call.CallError` where there is no memory.
        """
        missing, after, chosen = nbytes, [], []
        for freed in sorted(self.freed, key=lambda each: self._preference(each, stream)):
            if missing <= 0 or not self._reusable(freed, stream):
                continue
            chosen.append((freed, min(freed.nbytes, missing)))
            missing -= chosen[-1][1]
            if freed.operation.stream is not stream and not freed.operation.done:
                after.append(freed.operation)
        if missing > 0:
            self._reserve(book, missing)
        for freed, count in chosen:
            freed.nbytes -= count
        self.freed = [each for each in self.freed if each.nbytes]
        self.used += nbytes
        self.used_high = max(self.used_high, self.used)
        return after

    def _reserve(self, book: MemoryBook, nbytes: int) -> None:
        if self.most and self.reserved + nbytes > self.most:
            raise book.no_memory()
        if self.device is not None:
            book.reserve(self.device, nbytes)
        self.reserved += nbytes
        self.reserved_high = max(self.reserved_high, self.reserved)

    @staticmethod
    def _preference(freed: Freed, stream: Stream) -> int:
        return 0 if freed.operation.stream is stream else 1 if freed.operation.done else 2

    def _reusable(self, freed: Freed, stream: Stream) -> bool:
        operation = freed.operation
        if operation.stream is stream or self.switch(INTERNAL_DEPENDENCIES):
            return True
        if operation.done:
            return self.switch(OPPORTUNISTIC)
        return self.switch(FOLLOW_EVENTS) and _waits_for(stream, operation)

    def give_back(self, nbytes: int, operation: Operation | None) -> None:
        """Count ``nbytes`` as free for what comes after ``operation``; at once where there is none."""
        self.used -= nbytes
        if operation is None or self.destroyed:
            self._let_go(nbytes)
        else:
            self.freed.append(Freed(nbytes, operation))

    def release(self, keep: int) -> None:
        """Give freed bytes back whose operation is done, until no more than ``keep`` are reserved."""
        for freed in self.freed:
            excess = self.reserved - max(keep, self.used)
            if excess <= 0:
                break
            if freed.operation.done:
                count = min(freed.nbytes, excess)
                freed.nbytes -= count
                self._let_go(count)
        self.freed = [each for each in self.freed if each.nbytes]

    def _let_go(self, nbytes: int) -> None:
        self.reserved -= nbytes
        if self.device is not None:
            self.device.used -= nbytes


def _waits_for(stream: Stream, operation: Operation) -> bool:
    """Whether what is queued on ``stream`` next comes after ``operation``, which is not done."""
    seen: set[int] = set()
    stack = list(stream.pending)
    while stack and len(seen) < _LOOK_BACK:
        each = stack.pop()
        if each is operation:
            return True
        if id(each) in seen or each.done:
            continue
        seen.add(id(each))
        for earlier in each.after:
            if not earlier.done:
                # It comes after all that is in front of it in its stream, too.
                for other in earlier.stream.pending:
                    stack.append(other)
                    if other is earlier:
                        break
    return False
