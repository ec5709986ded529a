"""An allocator that finds writes outside their blocks by themselves, as it has to be done on a GPU.

Every block lies between two red zones of known bytes. Fresh memory and freed memory are poisoned: filled with
bytes that are a NaN in every floating-point type. Freed memory is kept from reuse for a while, in quarantine.
Red zones and what is in quarantine are compared with what they should hold at every free and every
synchronisation, so that with launches that block (``CUDA_LAUNCH_BLOCKING=1``) the launch that wrote is known.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from drv.allocators.direct import DirectAllocator, DirectBlock
from drv.errors import CudaError, NotSupportedError, OutOfMemoryError

from .patterns import POISON, RED, Patterns, Range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drv.allocators.driver_memory import DriverBlock, DriverMemory
    from drv.allocators.events import StreamEvents
    from drv.allocators.protocol import PoolIdentifier
    from drv.python_stack import Frame

    from .guard import Guard, Overwrite

_ALIGNMENT = 256


def zone_size(red_zone: int) -> int:
    """Bytes of a red zone: at least ``red_zone``, and such that blocks stay aligned."""
    return -(-red_zone // _ALIGNMENT) * _ALIGNMENT


class GuardedBlock(DirectBlock):
    """A block between red zones.

    Attributes
    ----------
    raw : DriverBlock or None
        The allocation that holds block and zones.
    allocated, freed
        Python stacks; ``freed`` is ``None`` while the block is live.
    quarantined : bool
        Whether the block is freed and poisoned.
    """

    __slots__ = ("allocated", "freed", "quarantined", "raw")

    def __init__(self, address: int, size: int, stream: int, raw: DriverBlock | None) -> None:
        super().__init__(address, size, stream)
        self.raw = raw
        self.allocated: tuple[Frame, ...] = ()
        self.freed: tuple[Frame, ...] | None = None
        self.quarantined = False


class GuardingAllocator(DirectAllocator[GuardedBlock]):
    """Puts each block of another allocator's between red zones, and keeps freed ones in quarantine.

    Freeing waits for the device.

    Parameters
    ----------
    source : DriverMemory
        Where memory comes from.
    guard : Guard
        Is told of overwritten memory, and knows how large zones and quarantine are.
    events : StreamEvents
        Tells when the driver may be called.
    """

    memory = "device memory"

    def __init__(self, source: DriverMemory, guard: Guard, events: StreamEvents) -> None:
        super().__init__(source.device)
        self.source = source
        self.guard = guard
        self._events = events
        self._patterns = Patterns(source.device)
        self._zone = zone_size(guard.red_zone)
        #: Live blocks, and freed ones in quarantine, by address.
        self._guarded: dict[int, GuardedBlock] = {}
        self._deferred: deque[GuardedBlock] = deque()
        self._quarantine: deque[GuardedBlock] = deque()
        self._quarantined = 0

    @property
    def owner(self) -> int:
        """Ordinal of the device whose memory it is."""
        return self.ordinal

    def record_stream(self, block: GuardedBlock, stream: int, device: int | None = None) -> None:
        """Note another use of ``block``.

        Nothing to do: freeing it waits for all work, that of ``stream`` on ``device`` included.
        """

    def empty_cache(self) -> None:
        """Give what is in quarantine back to the driver."""
        with self.guard.alone():
            self._release(0)

    def retain_pool(self, identifier: PoolIdentifier) -> None:
        """Raise NotSupportedError: to check memory it has to be waited for, which a capture does not allow.

        ``identifier`` would be the pool. On the simulated driver, whose own checks take the place of this, pools are there.
        """
        raise NotSupportedError(
            f"private pools of memory, such as that of a CUDA graph (here {identifier}), while memory is guarded: guarding "
            "waits for the device at every allocation and free. Check the program without graphs, or with graphs on the "
            "simulated driver (GRAPHROOT_DRIVER=simulator)"
        )

    def check(self) -> list[Overwrite]:
        """Overwritten memory since the last check; its bytes are put right, so that each change is found once.

        The host waits for the device, which compares all patterns in one kernel; where none has changed nothing is copied.

        Raises
        ------
        CudaError
            If earlier work on the device has failed.
        """
        ranges = {each: block for block in list(self._guarded.values()) for each in self._ranges(block)}
        if not ranges or not self._patterns.changed(tuple(ranges)):
            return []
        overwrites = []
        wrong = []
        for each, block in ranges.items():
            offsets = np.flatnonzero(self._patterns.read(each.start, each.length) != each.expected)
            if offsets.size:
                wrong.append(each)
                overwrites.append(self.guard.overwrite(self, block, each, offsets))
        self._patterns.fill(wrong)
        return overwrites

    def _obtain(self, size: int, stream: int) -> GuardedBlock:
        with self.guard.alone():
            self._patterns.prepare()
            self._catch_up()
            zone = self._zone
            try:
                raw = self.source.allocate(size + 2 * zone, stream)
            except OutOfMemoryError:
                if not self._quarantine:
                    raise
                self._release(0)
                raw = self.source.allocate(size + 2 * zone, stream)
            block = GuardedBlock(raw.address + zone, size, stream, raw)
            block.allocated = self.guard.stack()
            fresh = Range(block.address, size, POISON)
            self._patterns.fill((*self._ranges(block), fresh))
            self._guarded[block.address] = block
            return block

    def _nothing(self, stream: int) -> GuardedBlock:
        return GuardedBlock(0, 0, stream, None)

    def _give_back(self, block: GuardedBlock) -> None:
        block.freed = self.guard.stack()
        self._deferred.append(block)
        if self._events.ready():
            with self.guard.alone() as outside:
                if outside:
                    self._catch_up()

    def _catch_up(self) -> None:
        """Put freed blocks into quarantine, once their red zones are checked."""
        while self._deferred and self.device.runtime.alive:
            # Where the context is lost nothing can be checked any more.
            with contextlib.suppress(CudaError):
                self._retire(self._deferred.popleft())

    def _retire(self, block: GuardedBlock) -> None:
        self._patterns.wait_for_devices()
        self.guard.compare()
        self._patterns.fill([Range(block.address, block.size, POISON)])
        block.quarantined = True
        self._quarantine.append(block)
        self._quarantined += block.size
        self._release(self.guard.quarantine)

    def _release(self, limit: int) -> None:
        """Let the earliest blocks out of quarantine until at most ``limit`` bytes are in it."""
        if self._quarantined > limit:
            self.guard.compare()
        while self._quarantined > limit:
            block = self._quarantine.popleft()
            self._quarantined -= block.size
            del self._guarded[block.address]
            assert block.raw is not None
            self.source.free(block.raw)

    def _ranges(self, block: GuardedBlock) -> Iterable[Range]:
        zone = self._zone
        yield Range(block.address - zone, zone, RED)
        yield Range(block.address + block.size, zone, RED)
        if block.quarantined:
            yield Range(block.address, block.size, POISON)
