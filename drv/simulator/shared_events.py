"""Events that several processes record and wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .memory.shared_bytes import SharedBytes
    from .scheduler import Operation


class SharedEvent:
    """Two counts that all processes see: records that were queued, and the latest of them that is done.

    A process that waits does so for the latest record that anybody has queued at that moment.
    """

    def __init__(self, shared: SharedBytes) -> None:
        self._shared = shared
        self._counts = shared.data[:16].view(np.uint64)

    @property
    def descriptor(self) -> int:
        """The file descriptor by which others open it."""
        return self._shared.descriptor

    def begin(self, record: Operation | None) -> None:
        """Share an event that was recorded by ``record``, if it was."""
        if record is None:
            return
        number = self.recorded()
        if record.done:
            self.done(number)
        else:
            run = record.run

            def stamp() -> None:
                if run is not None:
                    run()
                self.done(number)

            record.run = stamp

    def recorded(self) -> int:
        """A record is queued: its number."""
        self._counts[0] += np.uint64(1)
        return int(self._counts[0])

    def done(self, number: int) -> None:
        """A record has been reached."""
        self._counts[1] = max(int(self._counts[1]), number)

    @property
    def latest(self) -> int:
        """Number of the latest record that was queued; 0 where there was none."""
        return int(self._counts[0])

    def reached(self, number: int) -> bool:
        """Whether a record, or a later one, is done."""
        return int(self._counts[1]) >= number
