"""Pinned host memory between red zones, poisoned when it is fresh, and for a while when it is freed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from drv.memory import PinnedMemory

from .device import zone_size
from .patterns import POISON, RED, Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from drv.device import Device
    from drv.python_stack import Frame

    from .guard import Guard, Overwrite


class GuardedPinnedMemory:
    """Pinned memory with the attributes that :class:`~drv.allocators.PinnedAllocator` uses, and its red zones.

    Attributes
    ----------
    address, size, nbytes : int
        First address, and size in bytes, without the zones.
    before, inside, after : NDArray
        The bytes of the lower zone, of the memory, and of the upper zone.
    allocated, freed
        Python stacks; ``freed`` is ``None`` while the memory is live.
    """

    def __init__(
        self,
        memory: PinnedMemory,
        zones: tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]],
        owner: GuardedPinned,
    ) -> None:
        self.before, self.inside, self.after = zones
        self.address = memory.address + (self.before.size if self.inside.size < memory.nbytes else 0)
        self.size = self.nbytes = self.inside.size
        self.allocated = owner.guard.stack()
        self.freed: tuple[Frame, ...] | None = None
        self._memory = memory
        self._owner = owner
        self.before[:] = self.after[:] = RED
        self.inside[:] = POISON

    def red_zones(self) -> Iterator[tuple[int, NDArray[np.uint8], int]]:
        """Ranges of a known byte: their first addresses, their contents, and the byte that is expected."""
        yield self.address - self.before.size, self.before, RED
        yield self.address + self.size, self.after, RED
        if self.freed is not None:
            yield self.address, self.inside, POISON

    def free(self) -> None:
        """Check the red zones, and go into quarantine."""
        self._owner.retire(self)


class GuardedPinned:
    """Makes pinned memory between red zones, and keeps what is freed in quarantine.

    Parameters
    ----------
    guard : Guard
        Is told of overwritten memory, and knows how large zones and quarantine are.
    device : callable
        The device whose context pins.
    driver_checks : bool
        Whether the simulated driver checks accesses. Memory has its true bounds then, red zones are what
        that driver leaves around it, which only the host can reach, and freed memory is given back at once.
    """

    memory = "pinned host memory"
    owner = None

    def __init__(self, guard: Guard, device: Callable[[], Device], *, driver_checks: bool = False) -> None:
        self.guard = guard
        self._device = device
        self._driver_checks = driver_checks
        self._zone = zone_size(guard.red_zone)
        self._guarded: dict[int, GuardedPinnedMemory] = {}
        self._quarantine: deque[GuardedPinnedMemory] = deque()
        self._quarantined = 0

    def __call__(self, size: int) -> GuardedPinnedMemory:
        """``size`` bytes of pinned memory."""
        device, zone = self._device(), self._zone
        if self._driver_checks:
            memory = PinnedMemory(size, device)
            before, after = device.runtime.driver.host_margins(memory.address, zone)
            zones = before, memory.array(), after
        else:
            memory = PinnedMemory(size + 2 * zone, device)
            whole = memory.array()
            zones = whole[:zone], whole[zone : zone + size], whole[zone + size :]
        block = GuardedPinnedMemory(memory, zones, self)
        self._guarded[block.address] = block
        return block

    def live_blocks(self) -> list[GuardedPinnedMemory]:
        """What was handed out and not freed, by address.

        A new list. Memory in quarantine is freed, and not in it.
        """
        return [memory for _, memory in sorted(self._guarded.items()) if memory.freed is None]

    def retire(self, memory: GuardedPinnedMemory) -> None:
        """Take ``memory``, which is freed and used by no work, into quarantine.

        Its bytes get a pattern, so that a late write is seen; the oldest memory leaves where the quarantine holds more than
        the guard allows. Where the driver checks accesses itself it is given back at once.
        """
        self.guard.check()
        if self._driver_checks:
            del self._guarded[memory.address]
            return
        memory.inside[:] = POISON
        memory.freed = self.guard.stack()
        self._quarantine.append(memory)
        self._quarantined += memory.size
        while self._quarantined > self.guard.quarantine:
            oldest = self._quarantine.popleft()
            self._quarantined -= oldest.size
            del self._guarded[oldest.address]

    def check(self) -> list[Overwrite]:
        """Overwritten memory since the last check; its bytes are put right, so that each change is found once.

        It raises nothing: :meth:`Guard.pending_error` does with what was found.
        """
        overwrites = []
        for memory in list(self._guarded.values()):
            for start, red_zone, expected in memory.red_zones():
                offsets = np.flatnonzero(red_zone != expected)
                if offsets.size:
                    red_zone[:] = expected
                    each = Range(start, red_zone.size, expected)
                    overwrites.append(self.guard.overwrite(self, memory, each, offsets))
        return overwrites
