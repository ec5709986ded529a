"""Per-byte shadow of an allocation: who touched each byte last, and whether it was ever written.

The shadow holds one number (a state, see ``access_states``) for each granule of 16 bytes at first, and
for finer granules once an access needs them: memory that only holds floats costs one number per float,
and a buffer that is only copied a quarter of that. Its arrays come zeroed from the operating system,
which commits their pages when they are first written.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation

Item = TypeVar("Item", bound=np.generic)

COARSEST = 16
#: Items of a shadow looked through at a time; chunks that were never touched stay uncommitted.
CHUNK = 1 << 18
#: Of those that are refined, fewer: each that is not zero is copied whole.
_REFINED_AT_A_TIME = 1 << 13


class Shadow:
    """States of the granules of ``size`` bytes at address ``base``; 0 stands for the state ``initial``."""

    __slots__ = ("__weakref__", "defined", "granule", "initial", "last_write", "size", "states")

    def __init__(self, base: int, size: int, *, track_definition: bool) -> None:
        self.size = size
        self.granule = coarsest_granule(base)
        self.initial = 0
        #: Position among everything queued when some byte was last written.
        self.last_write = 0
        count = -(-size // self.granule)
        self.states: NDArray[np.int32] = np.zeros(count, np.int32)
        #: Whether each granule was ever written; ``None`` where all count as written.
        self.defined: NDArray[np.bool_] | None = np.zeros(count, np.bool_) if track_definition else None

    def cover(self, start: int, stop: int) -> slice:
        """Granules of bytes ``[start, stop)``, refined so that they hold these bytes and no other."""
        edge = start if stop == self.size else start | stop
        if edge & (self.granule - 1):
            self.refine(edge & -edge)
        granule = self.granule
        return slice(start // granule, -(-stop // granule))

    def gather(self, offsets: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Granules that ``width`` bytes at each of ``offsets`` ``(lanes,)`` cover.

        ``(lanes,)``, or ``(lanes, granules)`` when an access covers several. ``width`` is a power of
        two and the addresses are multiples of it.
        """
        if self.granule > width:
            self.refine(width)
        granule = self.granule
        first = offsets >> (granule.bit_length() - 1)
        if granule == width:
            return first
        return first[:, None] + np.arange(width // granule)

    def bytes_of(self, first: int, last: int) -> tuple[int, int]:
        """Bytes ``[start, stop)`` of granules ``[first, last)``."""
        return first * self.granule, min(last * self.granule, self.size)

    def refine(self, granule: int) -> None:
        """Use granules of ``granule`` bytes, a power of two smaller than now."""
        times = self.granule // granule
        self.states = refined(self.states, times)
        if self.defined is not None:
            self.defined = refined(self.defined, times)
        self.granule = granule

    def define(self, start: int, stop: int) -> None:
        """Bytes ``[start, stop)`` are written."""
        if self.defined is not None and start < stop:
            granules = self.cover(start, stop)
            self.defined[granules] = True

    def define_as(self, start: int, written: NDArray[np.bool_]) -> None:
        """Bytes from ``start`` on were ``written`` ``(nbytes,)`` or not."""
        if self.defined is None:
            return
        edges = np.flatnonzero(written[1:] != written[:-1]) + 1
        for first, last in pairwise([0, *edges.tolist(), written.size]):
            granules = self.cover(start + first, start + last)
            self.defined[granules] = written[first]

    def undefined(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Ranges within bytes ``[start, stop)`` that were never written."""
        if self.defined is None or start >= stop:
            return []
        granules = self.cover(start, stop)
        defined = self.defined[granules]
        if defined.all():
            return []
        edges = np.flatnonzero(defined[1:] != defined[:-1]) + 1
        bounds = [0, *edges.tolist(), defined.size]
        base = granules.start
        return [self.bytes_of(base + a, base + b) for a, b in pairwise(bounds) if not defined[a]]

    def distinct_states(self) -> set[int]:
        """Every state that some byte is in."""
        states: set[int] = set()
        for start in range(0, self.states.size, CHUNK):
            chunk = self.states[start : start + CHUNK]
            runs = chunk[np.flatnonzero(chunk[1:] != chunk[:-1])]
            states.update(np.unique(runs).tolist())
            states.add(int(chunk[-1]))
        return states

    def forget(self) -> None:
        """Nobody has touched anything."""
        self.states.fill(0)
        self.initial = 0


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


def coarsest_granule(base: int) -> int:
    """The largest granule that divides address ``base``, so that aligned accesses cover whole ones."""
    return min(COARSEST, base & -base) or COARSEST


def refined(array: NDArray[Item], times: int) -> NDArray[Item]:
    """Every item of ``array`` ``times`` times, leaving chunks that are zero uncommitted."""
    result = np.zeros(array.size * times, array.dtype)
    for start in range(0, array.size, _REFINED_AT_A_TIME):
        chunk = array[start : start + _REFINED_AT_A_TIME]
        if chunk.any():
            whole = result[start * times : (start + chunk.size) * times]
            np.copyto(whole.reshape(-1, times), chunk[:, None])
    return result
