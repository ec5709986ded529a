"""Unreported host writes: pinned sources of copies are compared with their contents when they were queued.

A program writes pinned memory through plain NumPy arrays. While a copy from it is pending that is a
mistake, and the only trace of it are changed bytes. So the bytes are kept when the copy is queued, and
compared when it runs and when the host has waited for it: the second finds the write also where the
schedule let the copy run at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation

#: Bytes copied at most; the oldest copies are watched no longer then.
MAX_BYTES = 1 << 28
#: Copies watched at most.
MAX_COPIES = 1 << 10


@dataclass(slots=True, eq=False)
class WatchedSource:
    """The bytes of a copy's source when it was queued, ``(depth, height, width)``."""

    allocation: Allocation
    start: int
    #: Distance in bytes of slices and of rows.
    pitches: tuple[int, int]
    before: NDArray[np.uint8]

    def changed(self) -> NDArray[np.int64]:
        """Offsets in the allocation of bytes that are not what they were."""
        now = source_view(self.allocation, self.start, self.before.shape, self.pitches)
        z, y, x = np.nonzero(now != self.before)
        return self.start + z * self.pitches[0] + y * self.pitches[1] + x


class WatchedSources:
    """Sources of the copies that the host has not waited for yet."""

    def __init__(self) -> None:
        self._sources: dict[Any, WatchedSource] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._sources)

    def watch(
        self,
        op: Any,
        allocation: Allocation,
        start: int,
        shape: tuple[int, int, int],
        pitches: tuple[int, int],
    ) -> None:
        """``op``, about to be queued, copies ``shape`` bytes from byte ``start`` of host memory."""
        before = source_view(allocation, start, shape, pitches).copy()
        self._sources[op] = WatchedSource(allocation, start, pitches, before)
        self._bytes += before.size
        while self._bytes > MAX_BYTES or len(self._sources) > MAX_COPIES:
            self.release(next(iter(self._sources)))

    def changed(self, op: Any) -> tuple[Allocation, NDArray[np.int64]] | None:
        """Where the source of ``op`` has changed, if it did; it is not watched any more then."""
        source = self._sources.get(op)
        if source is None or source.allocation.freed is not None:
            return None
        offsets = source.changed()
        if not offsets.size:
            return None
        self.release(op)
        return source.allocation, offsets

    def release(self, op: Any) -> None:
        """Watch the source of ``op`` no longer."""
        source = self._sources.pop(op, None)
        if source is not None:
            self._bytes -= source.before.size

    def done(self, known: Callable[[Any], bool]) -> list[Any]:
        """Copies of which ``known`` says that the host has waited for them."""
        return [op for op in self._sources if known(op)]


def source_view(
    allocation: Allocation, start: int, shape: tuple[int, ...], pitches: tuple[int, int]
) -> NDArray[np.uint8]:
    """Bytes of rows in slices as an array that shares them."""
    return np.lib.stride_tricks.as_strided(allocation.data[start:], shape, (*pitches, 1), writeable=False)
