"""What a copy carries from its source to its destination besides bytes: which of them were ever written."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation

    from .shadow import Shadow


class CopiedDefinition:
    """Follows one copy, which reads ranges and then writes as many bytes in the same order."""

    def __init__(self) -> None:
        #: Number of bytes read and not yet written, and which of them are defined (``None``: all).
        self._parts: deque[tuple[int, NDArray[np.bool_] | None]] = deque()
        self._first: tuple[Allocation, int, int] | None = None

    def read(self, allocation: Allocation, start: int, stop: int) -> None:
        """The copy has read bytes ``[start, stop)``, at least one."""
        shadow: Shadow = allocation.shadow
        written = None
        holes = shadow.undefined(start, stop)
        if holes:
            if self._first is None:
                self._first = (allocation, start, stop)
            written = np.ones(stop - start, np.bool_)
            for first, last in holes:
                written[first - start : last - start] = False
        self._parts.append((stop - start, written))

    def write(self, shadow: Shadow, start: int, stop: int) -> None:
        """The copy has written bytes ``[start, stop)``; bytes that were not read from an allocation
        come from pageable memory and are defined.
        """
        if shadow.defined is None:
            return
        while start < stop and self._parts:
            size, written = self._parts.popleft()
            if size > stop - start:
                rest = None if written is None else written[stop - start :]
                self._parts.appendleft((size - (stop - start), rest))
                size = stop - start
                written = None if written is None else written[:size]
            if written is None:
                shadow.define(start, start + size)
            else:
                shadow.define_as(start, written)
            start += size
        shadow.define(start, stop)

    def finish(self) -> tuple[Allocation, int, int] | None:
        """Where the copy has read first, if it went to the host and none of its bytes was ever written."""
        if not self._parts or any(written is None or written.any() for _, written in self._parts):
            return None
        return self._first
