"""Advice about the pages of managed memory: preferred locations, and who accesses them."""

from __future__ import annotations

import numpy as np

PAGE = 4096
#: ``(type, id)`` as in ``CUmemLocation``.
Location = tuple[int, int]


class ManagedPages:
    """Advice and prefetches of one allocation, page by page. Nothing moves: the simulator has one memory."""

    def __init__(self, size: int) -> None:
        count = -(-size // PAGE)
        self._read_mostly = np.zeros(count, np.bool_)
        #: Numbers of locations, 0 for none.
        self._preferred = np.zeros(count, np.int32)
        self._prefetched = np.zeros(count, np.int32)
        self._accessed_by: dict[Location, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}
        self._locations: list[Location | None] = [None]

    def advise_read_mostly(self, start: int, stop: int, *, value: bool) -> None:
        """Bytes ``[start, stop)`` are mostly read, or no longer."""
        self._read_mostly[_pages(start, stop)] = value

    def prefer(self, start: int, stop: int, location: Location | None) -> None:
        """Where bytes ``[start, stop)`` should be."""
        self._preferred[_pages(start, stop)] = self._number(location)

    def prefetch(self, start: int, stop: int, location: Location) -> None:
        """Where bytes ``[start, stop)`` were asked to go."""
        self._prefetched[_pages(start, stop)] = self._number(location)

    def advise_accessed_by(self, start: int, stop: int, location: Location, *, value: bool) -> None:
        """Whether a processor accesses bytes ``[start, stop)``."""
        pages = self._accessed_by.setdefault(location, np.zeros(len(self._read_mostly), np.bool_))
        pages[_pages(start, stop)] = value

    def read_mostly(self, start: int, stop: int) -> bool:
        """Whether all of bytes ``[start, stop)`` are mostly read."""
        return bool(self._read_mostly[_pages(start, stop)].all())

    def preferred(self, start: int, stop: int) -> Location | None:
        """Where all of bytes ``[start, stop)`` should be; None where they differ, or nothing was said."""
        return self._common(self._preferred[_pages(start, stop)])

    def prefetched(self, start: int, stop: int) -> Location | None:
        """Where all of bytes ``[start, stop)`` were last asked to go."""
        return self._common(self._prefetched[_pages(start, stop)])

    def common_prefetched(self, start: int, stop: int) -> Location | None:
        """Where most of bytes ``[start, stop)`` were last asked to go."""
        numbers, counts = np.unique(self._prefetched[_pages(start, stop)], return_counts=True)
        return self._locations[int(numbers[counts.argmax()])]

    def accessed_by(self, start: int, stop: int) -> list[Location]:
        """The processors that access all of bytes ``[start, stop)``."""
        pages = _pages(start, stop)
        return [location for location, mask in self._accessed_by.items() if mask[pages].all()]

    def _number(self, location: Location | None) -> int:
        if location not in self._locations:
            self._locations.append(location)
        return self._locations.index(location)

    def _common(self, numbers: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Location | None:
        first = int(numbers[0])
        return self._locations[first] if (numbers == first).all() else None


def _pages(start: int, stop: int) -> slice:
    return slice(start // PAGE, -(-stop // PAGE))
