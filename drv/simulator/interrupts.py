"""Ctrl-C while a driver call computes what is queued.

On a GPU it ends the host's wait, and the kernel goes on. On the simulated driver the thread that waits computes the kernel
itself. So inside a driver call Ctrl-C is held back until the operation that is being computed is done, or the call is.
Pressed once more before that, it abandons the operation, and the context is lost.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from drv.host.interrupts import User, is_whole

if TYPE_CHECKING:
    import threading
    from types import FrameType


class Interrupts(User):
    """What Ctrl-C does to the calls of one simulated driver.

    Parameters
    ----------
    lock
        The driver's, which a thread holds inside of a call.
    """

    def __init__(self, lock: threading.RLock) -> None:  # type: ignore[valid-type, unused-ignore]
        self._lock = lock
        #: Whether one is held back.
        self.pending = False
        #: Whether another one came then, which was not.
        self.abandons = False
        super().__init__()

    def _inside(self) -> bool:
        return bool(self._lock._is_owned())  # type: ignore[attr-defined]

    def holds_back(self, number: int, frame: FrameType | None) -> bool:
        """Hold the first one back that comes inside of a call; the second one is raised."""
        if not self._inside():
            return False
        if self.pending:
            self.pending, self.abandons = False, True
            signal.default_int_handler(number, frame)
        self.pending = True
        return True

    def after_operation(self) -> None:
        """Raise what was held back, unless an allocator waits for the operation in the middle of its work."""
        if not is_whole(sys._getframe(1)):
            self.pending = self.abandons = False
            raise KeyboardInterrupt

    def after_call(self) -> None:
        """Let what was held back come again, unless the call was made inside of another one."""
        if not self._inside():
            self.pending = self.abandons = False
            signal.raise_signal(signal.SIGINT)
