"""Which threads of a kernel touched each byte of a piece of memory, for the checks within a kernel.

As in ``shadow``, entries stand for granules that are refined on demand. They stand for the part of the memory that the
kernel touches, which grows on demand: a tensor is a small part of its allocator's segment, and a kernel is short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from .shadow import coarsest_granule, refined

if TYPE_CHECKING:
    from numpy.typing import NDArray

Item = TypeVar("Item", bound=np.generic)

#: Whom an entry of a record stands for besides its thread: nobody, threads of its warp, of its
#: block, or of the grid.
SINGLE, WARP, BLOCK, GRID = 1, 2, 3, 4
#: Bytes, a power of two: what a shadow covers begins and ends at multiples of it.
_PAGE = 4096


class AccessRecord:
    """Accesses of one kind to each granule: one of the threads, the latest time, and who else."""

    __slots__ = ("scope", "thread", "time")

    def __init__(self, size: int, *, several: bool) -> None:
        #: Linear index of the thread in the grid, plus 1; 0 where there was no access.
        self.thread: NDArray[np.int64] = np.zeros(size, np.int64)
        self.time: NDArray[np.int32] = np.zeros(size, np.int32)
        #: ``None`` where an access replaces all earlier ones, so that only one thread counts.
        self.scope: NDArray[np.int8] | None = np.zeros(size, np.int8) if several else None

    def refine(self, times: int) -> None:
        self.thread = refined(self.thread, times)
        self.time = refined(self.time, times)
        if self.scope is not None:
            self.scope = refined(self.scope, times)

    def grow(self, before: int, size: int) -> None:
        """Have ``size`` entries, of which ``before`` new ones come first."""
        self.thread = _grown(self.thread, before, size)
        self.time = _grown(self.time, before, size)
        if self.scope is not None:
            self.scope = _grown(self.scope, before, size)

    def clear(self, entries: slice) -> None:
        """Forget the accesses to ``entries``."""
        self.thread[entries] = 0


def _grown(array: NDArray[Item], before: int, size: int) -> NDArray[Item]:
    """``array`` behind ``before`` zeros, and with so many behind it that there are ``size`` rows."""
    result = np.zeros((size, *array.shape[1:]), array.dtype)
    result[before : before + len(array)] = array
    return result


class ThreadShadow:
    """Records of ``size`` bytes at address ``base``; each is made when it is first needed.

    They cover the bytes from ``start`` to before ``stop``: what was gathered so far lies there.

    ``readers`` has the time of the latest read by each warp and asynchronous unit, where these synchronise otherwise than
    at barriers of their block; ``written_in_flight`` the number of the asynchronous operation that is going to write a
    granule, or 0; ``read_in_flight`` how many are going to read it.
    """

    __slots__ = (
        "atomics",
        "granule",
        "read_in_flight",
        "readers",
        "reads",
        "size",
        "start",
        "stop",
        "writes",
        "written_in_flight",
    )

    def __init__(self, base: int, size: int) -> None:
        self.size = size
        self.start = self.stop = 0
        self.granule = coarsest_granule(base)
        self.writes: AccessRecord | None = None
        self.reads: AccessRecord | None = None
        self.atomics: AccessRecord | None = None
        self.readers: NDArray[np.int32] | None = None
        self.written_in_flight: NDArray[np.int32] | None = None
        self.read_in_flight: NDArray[np.int16] | None = None

    @property
    def granules(self) -> int:
        """Number of granules that are covered."""
        return -(-(self.stop - self.start) // self.granule)

    def new_record(self, *, several: bool) -> AccessRecord:
        """Empty record of what is covered."""
        return AccessRecord(self.granules, several=several)

    def records(self) -> list[AccessRecord]:
        """Those that exist."""
        return [one for one in (self.writes, self.reads, self.atomics) if one is not None]

    def gather(self, offsets: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Granules that ``width`` bytes at each of ``offsets`` ``(lanes,)`` cover, ``(lanes, granules)``."""
        if self.granule > width:
            self._refine(self.granule // width)
            self.granule = width
        if offsets.size:
            low, high = int(offsets.min()), int(offsets.max()) + width
            if low < self.start or high > self.stop:
                self._cover(low, high)
        first = (offsets - self.start) // self.granule
        return first[:, None] + np.arange(width // self.granule)

    def _cover(self, low: int, high: int) -> None:
        """Cover bytes ``[low, high)`` too, and as much again as so far, so that many steps cost what few do."""
        start, stop = self.start, self.stop
        if stop:
            low = min(start, low - (stop - start if low < start else 0))
            high = max(stop, high + (stop - start if high > stop else 0))
        self.start = max(0, low // _PAGE * _PAGE)
        self.stop = min(self.size, -(-high // _PAGE) * _PAGE)
        before, granules = (start - self.start) // self.granule, self.granules
        for record in self.records():
            record.grow(before, granules)
        if self.written_in_flight is not None:
            self.written_in_flight = _grown(self.written_in_flight, before, granules)
        if self.read_in_flight is not None:
            self.read_in_flight = _grown(self.read_in_flight, before, granules)
        if self.readers is not None:
            self.readers = _grown(self.readers, before, granules)

    def _refine(self, times: int) -> None:
        for record in self.records():
            record.refine(times)
        if self.written_in_flight is not None:
            self.written_in_flight = refined(self.written_in_flight, times)
        if self.read_in_flight is not None:
            self.read_in_flight = refined(self.read_in_flight, times)
        if self.readers is not None:
            rows, columns = self.readers.shape
            finer = np.zeros((rows * times, columns), np.int32)
            used = np.flatnonzero(self.readers.any(axis=1))
            for offset in range(times):
                finer[used * times + offset] = self.readers[used]
            self.readers = finer

    def clear(self, start: int, stop: int) -> None:
        """Forget what happened to bytes ``[start, stop)``, which are whole granules."""
        start, stop = max(start, self.start), min(stop, self.stop)
        if start >= stop:
            return
        entries = slice((start - self.start) // self.granule, -(-(stop - self.start) // self.granule))
        for record in self.records():
            record.clear(entries)
        for each in (self.readers, self.written_in_flight, self.read_in_flight):
            if each is not None:
                each[entries] = 0
