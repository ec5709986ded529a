"""Launches that were timed before: one that does the same takes what the first one took.

Layers of a model launch the same kernels on other memory. Running a sample of each launch takes most of the time of a recording
that needs no results; of those that do the same, the first one is enough. But what kernels without floating point numbers write,
sorts among them, is where others find what they read: those of which all blocks ran do so each time, without being metered once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable

    from drv.simulator.memory.address_space import AddressSpace
    from drv.simulator.work.kernel import KernelWork

#: To how many bytes an address is aligned may decide what a kernel does.
_ALIGNMENT = 256


class Repeats:
    """What launches took, for recordings of one driver without results.

    Two launches do the same if kernel, grid and parameters are the same but for addresses of memory, which are aligned alike. What
    of the memory level 2 holds is taken to be as at the first of them.
    """

    def __init__(self) -> None:
        self._times: dict[Hashable, tuple[float, str, float]] = {}
        self._needed: set[Hashable] = set()

    def key(self, work: KernelWork, memory: AddressSpace) -> Hashable:
        """What launches have in common that do the same as ``work``."""
        words = np.frombuffer(work.parameters[: len(work.parameters) // 8 * 8], np.uint64)
        masked = tuple(
            ("address", word % _ALIGNMENT) if word and memory.find(word) is not None else word
            for word in words.tolist()
        )
        return work.function, work.grid, work.block, work.shared, masked, work.parameters[len(words) * 8 :]

    def get(self, key: Hashable) -> Any:
        """Share of the device, engine and seconds of the first launch of its like; None if there was none."""
        return self._times.get(key)

    def needed(self, key: Hashable) -> bool:
        """Whether launches of the like have to run all the same."""
        return key in self._needed

    def note(self, key: Hashable, cost: tuple[float, str, float], *, needed: bool) -> None:
        """Note what a launch took, and whether what others of its like write is needed."""
        self._times[key] = cost
        if needed:
            self._needed.add(key)
