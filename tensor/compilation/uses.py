"""Where the steps of a tape read and write each buffer: what passes ask before they change steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .tape import refs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .tape import Step


@dataclass(slots=True)
class Uses:
    """Where buffers are read and written: positions of steps.

    Attributes
    ----------
    needed : set of int
        Buffers that are read after the steps.
    readers, writers : dict
        Positions of the steps, in order, by buffer. A step that writes elements in place reads the buffer, too; one that
        makes its result does not write it.
    """

    needed: set[int]
    readers: dict[int, list[int]] = field(default_factory=dict)
    writers: dict[int, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: Sequence[Step], needed: Iterable[int]) -> Uses:
        """Those of ``steps``."""
        result = cls(set(needed))
        for position, step in enumerate(steps):
            for buffer in {ref.buffer for ref in step.reads()}:
                result.readers.setdefault(buffer, []).append(position)
            for buffer in step.writes:
                result.writers.setdefault(buffer, []).append(position)
        return result

    def is_passed_on(self, buffer: int) -> bool:
        """Whether only steps read a buffer, and none writes to it."""
        return buffer not in self.needed and buffer not in self.writers

    def obstacle(self, step: Step, position: int, end: int) -> str | None:
        """Why a step, which stands at ``position`` and writes nothing in place, cannot be done at ``end``, which is later."""
        for ref in step.reads():
            if any(position < writer < end for writer in self.writers.get(ref.buffer, ())):
                return "what it reads is written in between"
        for ref in refs(step.result):
            if any(reader <= end for reader in self.readers.get(ref.buffer, ())):
                return "its result is needed in between"
        return None
