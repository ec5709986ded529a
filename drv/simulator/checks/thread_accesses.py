"""What the threads of a kernel touch with one instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .runs import divided

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from drv.simulator.memory.address_space import Allocation

    from .observation import Access, Site, Stored


@dataclass(slots=True)
class Accesses:
    """Granules that lanes touch now, flat: one entry for each lane and granule."""

    entries: NDArray[np.int64]
    threads: NDArray[np.int64]
    #: Byte offset that each entry's lane accesses, in the allocation or the block's shared memory.
    offsets: NDArray[np.int64]
    width: int
    kind: Access
    site: Site
    #: ``None`` for shared memory.
    allocation: Allocation | None
    #: What is stored, where that is known, and how many entries each lane has.
    stored: Stored | None = None
    granules: int = 1

    def alike(self, which: NDArray[np.int64], winners: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
        """Whether the entries ``which`` store what the entries ``winners`` do, or what is there if left out."""
        if self.stored is None:
            return np.zeros(which.size, np.bool_)
        new = self._bytes(self.stored.new, which)
        other = (
            self._bytes(self.stored.old, which) if winners is None else self._bytes(self.stored.new, winners)
        )
        result: NDArray[np.bool_] = (new == other).all(axis=1)
        return result

    def _bytes(
        self, of_lanes: Callable[[NDArray[np.int64]], NDArray[np.uint8]], entries: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        lanes, granule = divided(entries, self.granules)
        return of_lanes(lanes).reshape(entries.size, self.granules, -1)[np.arange(entries.size), granule]
