"""Ctrl-C while a driver call computes what is queued.

On a GPU it ends the host's wait, and the kernel goes on. On the simulated driver the thread that waits computes the kernel
itself. So inside a driver call Ctrl-C is held back until the operation that is being computed is done, or the call is.
Pressed once more before that, it abandons the operation, and the context is lost.

Handlers of other signals may raise too: that of an alarm raises TimeoutError. They wait for the operation as well.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from drv.host.interrupts import User, is_whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

#: Signals that come at any moment, for which programs have handlers.
_SIGNALS = (
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTERM,
    signal.SIGHUP,
)


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


class HeldSignals:
    """Handlers of the program's own, which are called when :meth:`release` is and not before.

    Only in the main thread, where Python calls handlers; elsewhere nothing is done. What a handler raises then goes
    through :meth:`release`, and handlers after it are not called; all are back by then.
    """

    __slots__ = ("_came", "_handlers")

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._came: list[tuple[int, Callable[[int, FrameType | None], Any]]] = []
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._hold)
        except BaseException:
            # One of them came before it was held.
            self._put_back()
            raise

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._came.append((number, self._handlers[number]))

    def _put_back(self) -> None:
        try:
            while self._handlers:
                # Still known until it is back, for one that comes now.
                number, handler = next(iter(self._handlers.items()))
                signal.signal(number, handler)
                del self._handlers[number]
        finally:
            # One that is back may raise before the others are.
            if self._handlers:
                self._put_back()

    def release(self) -> None:
        """Put the handlers back, and call those whose signals came."""
        self._put_back()
        for number, handler in self._came:
            handler(number, sys._getframe(1))
