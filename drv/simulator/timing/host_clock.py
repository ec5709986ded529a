"""The host's time as it would pass with a GPU: without what the simulator itself takes.

A program's Python code takes the time that it takes. What it spends inside calls of the simulated driver is left out,
queued work that runs there included, and what such a call costs on NVIDIA's driver put in its place. Where the host
waits for an operation, its clock goes on to that operation's modelled end.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

#: Seconds that the host spends in a call: launches about 2 us, asynchronous copies about 2.5 us, others less (published
#: nsys traces of driver calls on current servers; assumptions, as they depend on the processor).
CALL_SECONDS = {
    "kernel": 2.0e-6,
    "library": 4.0e-6,
    "copy": 2.5e-6,
    "fill": 2.0e-6,
    "event": 0.6e-6,
    "host": 2.0e-6,
}
OTHER_CALL = 0.2e-6


class _Thread(threading.local):
    #: What to add to the clock for this thread, in nanoseconds.
    shift = 0.0
    #: When the thread's outermost call began, and what it costs.
    entered = 0
    cost = 0.0


class HostClock:
    """Modelled time of the calling thread, in seconds since ``origin``: now by default, a reading of the host's clock."""

    def __init__(self, origin: int | None = None) -> None:
        self.origin = perf_counter_ns() if origin is None else origin
        self._thread = _Thread()

    def now(self) -> float:
        """The calling thread's time; inside a driver call that of its beginning."""
        thread = self._thread
        reading = thread.entered or perf_counter_ns()
        return (reading - self.origin + thread.shift) * 1e-9

    def enter(self) -> None:
        """The thread's outermost driver call begins."""
        self._thread.entered = perf_counter_ns()
        self._thread.cost = OTHER_CALL

    def leave(self) -> None:
        """It ends."""
        thread = self._thread
        thread.shift += thread.cost * 1e9 - (perf_counter_ns() - thread.entered)
        thread.entered = 0

    def charge(self, category: str) -> None:
        """The call queues work of a category."""
        self._thread.cost = CALL_SECONDS.get(category, OTHER_CALL)

    def wait_until(self, moment: float) -> None:
        """The thread waits for what ends at ``moment``."""
        late = moment - self.now()
        if late > 0:
            self._thread.shift += late * 1e9


class IdleHost(HostClock):
    """A host whose Python code and calls take no time: it is always ahead of the device, as where a graph holds the work."""

    def now(self) -> float:
        """The moment of the end of what the thread waited for last."""
        return self._thread.shift * 1e-9

    def enter(self) -> None:
        """The thread's outermost driver call begins."""

    def leave(self) -> None:
        """It ends."""

    def charge(self, category: str) -> None:
        """The call queues work of a category."""


class TimedLock:
    """The driver's lock, which every driver call takes: it tells the clock when a thread is inside the driver."""

    def __init__(self, lock: Any, clock: HostClock) -> None:
        self.plain = lock
        self._clock = clock

    def __enter__(self) -> bool:
        if self.plain._is_owned():
            return bool(self.plain.acquire())
        self.plain.acquire()
        self._clock.enter()
        return True

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.plain.release()
        if not self.plain._is_owned():
            self._clock.leave()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)
