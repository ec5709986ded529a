"""Which bytes of global memory a launch reads and writes: a map over every allocation that it touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.checks.observation import Access
from drv.simulator.memory.address_space import PAGE, touched_here_and_there
from drv.simulator.timing.figures import SECTOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation

    Array = NDArray[Any]

#: Bytes that one element of the map stands for.
_GRAIN = 4
#: Bits of an offset within a part of an allocation; parts of which nothing was touched are not looked at.
_PART_SHIFT = 20
_PART = (1 << _PART_SHIFT) // _GRAIN


@dataclass(slots=True)
class _Map:
    """Of one allocation: an element is not 0 where its bytes were touched, and one of ``parts`` where one of its was."""

    elements: Array
    parts: Array

    @staticmethod
    def of(allocation: Allocation) -> _Map:
        parts = (allocation.size + SECTOR) // (1 << _PART_SHIFT) + 1
        elements = touched_here_and_there(parts * _PART)
        return _Map(elements, np.zeros(parts, np.bool_))

    def whole(self) -> Iterator[tuple[int, int]]:
        """Ranges of bytes, of whole pages, all of which was touched."""
        for part in np.flatnonzero(self.parts).tolist():
            elements = self.elements[part * _PART : (part + 1) * _PART].reshape(-1, PAGE // _GRAIN)
            inside = np.concatenate(([False], elements.all(1), [False]))
            for start, stop in np.flatnonzero(inside[1:] != inside[:-1]).reshape(-1, 2).tolist():
                yield (part << _PART_SHIFT) + start * PAGE, (part << _PART_SHIFT) + stop * PAGE

    def touched(self, dtype: type[np.unsignedinteger[Any]]) -> int:
        """How many groups of elements, each as large as a ``dtype``, have one that was touched."""
        return int(np.count_nonzero(self.elements.reshape(-1, _PART)[self.parts].view(dtype)))


class TouchedBytes:
    """The map of one launch."""

    def __init__(self) -> None:
        self._reads: dict[Allocation, _Map] = {}
        self._writes: dict[Allocation, _Map] = {}

    def add(self, allocation: Allocation, offsets: Array, width: int, kind: Access) -> None:
        """Lanes access ``width`` bytes each, at these offsets into an allocation."""
        maps = self._reads if kind is Access.READ else self._writes
        touched = maps.get(allocation)
        if touched is None:
            touched = maps[allocation] = _Map.of(allocation)
        where = touched.elements
        if not offsets.strides[0]:
            offsets = offsets[:1]
        touched.parts[offsets >> _PART_SHIFT] = True
        if width <= _GRAIN:
            where[offsets >> 2] = 1
        elif width == 8 and not (allocation.base & 7):
            where.view(np.uint16)[offsets >> 3] = 0x0101
        elif width == 16 and not (allocation.base & 15):
            where.view(np.uint32)[offsets >> 4] = 0x01010101
        else:
            touched.parts[(offsets + (width - 1)) >> _PART_SHIFT] = True
            for offset in range(0, width, _GRAIN):
                where[(offsets + offset) >> 2] = 1

    @property
    def read(self) -> int:
        """Distinct bytes read."""
        return sum(each.touched(np.uint8) for each in self._reads.values()) * _GRAIN

    @property
    def written(self) -> int:
        """Distinct bytes written."""
        return sum(each.touched(np.uint8) for each in self._writes.values()) * _GRAIN

    @property
    def sectors_written(self) -> int:
        """Distinct sectors that something was written of."""
        return sum(each.touched(np.uint64) for each in self._writes.values())

    def release_written(self) -> None:
        """Let the system have the memory of what was written, where nobody needs the values: it is 0 from now on."""
        for allocation, each in self._writes.items():
            for start, stop in each.whole():
                allocation.release(start, stop)

    def clear(self) -> None:
        """Forget everything."""
        self._reads.clear()
        self._writes.clear()
