"""Which bytes of global memory a launch reads and writes: a map over every allocation that it touches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.checks.observation import Access
from drv.simulator.timing.figures import SECTOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation

    Array = NDArray[Any]

#: Bytes that one element of the map stands for.
_GRAIN = 4


@dataclass(slots=True)
class _Touched:
    """Of one allocation: an element of each map is not 0 where its bytes were read, or written."""

    reads: Array
    writes: Array


class TouchedBytes:
    """The map of one launch."""

    def __init__(self) -> None:
        self._maps: dict[Allocation, _Touched] = {}

    def add(self, allocation: Allocation, offsets: Array, width: int, kind: Access) -> None:
        """Lanes access ``width`` bytes each, at these offsets into an allocation."""
        touched = self._maps.get(allocation)
        if touched is None:
            size = -(-allocation.size // SECTOR) * SECTOR // _GRAIN
            touched = self._maps[allocation] = _Touched(np.zeros(size, np.uint8), np.zeros(size, np.uint8))
        where = touched.reads if kind is Access.READ else touched.writes
        if not offsets.strides[0]:
            offsets = offsets[:1]
        if width <= _GRAIN:
            where[offsets >> 2] = 1
        elif width == 8 and not (allocation.base & 7):
            where.view(np.uint16)[offsets >> 3] = 0x0101
        elif width == 16 and not (allocation.base & 15):
            where.view(np.uint32)[offsets >> 4] = 0x01010101
        else:
            for offset in range(0, width, _GRAIN):
                where[(offsets + offset) >> 2] = 1

    @property
    def read(self) -> int:
        """Distinct bytes read."""
        return sum(int(np.count_nonzero(each.reads)) for each in self._maps.values()) * _GRAIN

    @property
    def written(self) -> int:
        """Distinct bytes written."""
        return sum(int(np.count_nonzero(each.writes)) for each in self._maps.values()) * _GRAIN

    @property
    def sectors_written(self) -> int:
        """Distinct sectors that something was written of."""
        return sum(int(np.count_nonzero(each.writes.view(np.uint64))) for each in self._maps.values())

    def clear(self) -> None:
        """Forget everything."""
        self._maps.clear()
