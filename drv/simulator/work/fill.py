"""Fills of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from cuda.bindings.driver import CUgraphNodeType

from drv.simulator.memory.library_memory import LibraryMemory

from .work import Work

if TYPE_CHECKING:
    from drv.simulator.driver_state import Context, DriverState


class FillWork(Work):
    """``rows`` rows of ``count`` elements of ``item`` bytes, rows ``pitch`` bytes apart, all set to ``value``."""

    __slots__ = ("address", "count", "item", "pitch", "rows", "value")
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET

    def __init__(
        self, context: Context, address: int, value: int, item: int, count: int, rows: int, pitch: int
    ) -> None:
        super().__init__(context, f"fill of {rows * count * item} bytes")
        self.address = address
        self.value = value
        self.item = item
        self.count = count
        self.rows = rows
        self.pitch = pitch

    def run(self, driver: DriverState) -> None:
        """Fill the memory."""
        memory = LibraryMemory(driver.memory, None, driver.observer)
        rows, row_bytes, item = self.rows, self.count * self.item, self.item
        target = memory.write_rows(self.address, rows, row_bytes, self.pitch if rows > 1 else row_bytes)
        if item == 1:
            target[...] = self.value
        else:
            pattern = np.frombuffer(self.value.to_bytes(item, "little"), np.uint8)
            target.reshape(rows, self.count, item)[...] = pattern
        memory.flush()
