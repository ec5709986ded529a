"""NCCL's operations under way on a device, and the thread that notices when one fails or never ends."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import drv
from drv.capture_mode import relax_captures
from parallel.groups.errors import DistBackendError
from parallel.groups.works import Work

if TYPE_CHECKING:
    from datetime import timedelta

    from .communicator import Communicator

#: Seconds between two looks at what is under way.
INTERVAL = 0.1
#: Seconds without an operation after which the thread ends; the next operation starts another.
_IDLE = 2.0
_NOT_READY = 600
#: Seconds between two questions of a barrier that is waited for with a timeout.
_PAUSE = 0.001


class NcclWork(Work):
    """An operation that is queued on a stream from its start, and may fail there long after :meth:`wait`."""

    under_way: UnderWay | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """See :meth:`Work.wait`."""
        if self.under_way is not None:
            # First, so that either the watchdog sees it or this sees the watchdog's error.
            self.under_way.relied_on = True
        return super().wait(timeout)

    def end(self) -> drv.Event:
        """The driver's event after the results."""
        native = self._events[0]._native
        assert native is not None
        return native

    def give_up(self, error: BaseException) -> None:
        """Note that the results, though queued, never come."""
        with self._lock:
            if self._error is None:
                self._error = error


class BarrierWork(NcclWork):
    """A barrier, which the host waits for."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until every rank has come.

        Raises
        ------
        DistBackendError
            If one does not, in the group's time or within ``timeout``.
        """
        Work.wait(self, timeout)
        try:
            if timeout is None:
                for event in self._events:
                    event.synchronize()
            else:
                self._poll(timeout)
        finally:
            # Where the watchdog gave up, that is the reason of whatever was raised.
            if self._error is not None:
                raise self._error
        return True

    def _poll(self, timeout: timedelta) -> None:
        deadline = time.monotonic() + timeout.total_seconds()
        while not self.is_completed():
            if time.monotonic() >= deadline:
                raise DistBackendError(
                    f"{self.operation}: Operation timed out! It is not done after the {timeout} that wait() was given"
                )
            time.sleep(_PAUSE)


@dataclass(slots=True, eq=False)
class UnderWay:
    """An operation on a stream. The work itself, which keeps tensors, lives as long as its user wants."""

    communicator: Communicator
    operation: str
    event: drv.Event
    started: float
    deadline: float
    work: weakref.ref[NcclWork]
    relied_on: bool = False


class Watchdog:
    """Looks after the operations of one process group.

    What fails, or is not over at its deadline, ends its communicator, and with it all works of that communicator. Where
    a stream waits for results already, nobody would notice that they never come: the next synchronising call raises.
    """

    def __init__(self, runtime: drv.Runtime) -> None:
        self._runtime = runtime
        self._changed = threading.Condition()
        self._under_way: list[UnderWay] = []
        self._thread: threading.Thread | None = None
        self._stopped = False

    def watch(self, communicator: Communicator, work: NcclWork, event: drv.Event, deadline: float) -> None:
        """Look after ``work``, whose results are there once ``event`` is reached."""
        work.under_way = UnderWay(
            communicator, work.operation, event, time.monotonic(), deadline, weakref.ref(work)
        )
        with self._changed:
            self._under_way.append(work.under_way)
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="NCCL watchdog", daemon=True)
                self._thread.start()
            elif len(self._under_way) == 1:
                self._changed.notify_all()

    def stop(self) -> None:
        """End the thread; operations under way are left alone. Idempotent."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=10)

    def note_done(self, communicator: Communicator) -> None:
        """Look after those operations of ``communicator`` no more that are done now."""
        with self._changed:
            candidates = [each for each in self._under_way if each.communicator is communicator]
        with contextlib.suppress(drv.CudaError):
            done = {each for each in candidates if not self._status(each)}
            with self._changed:
                self._under_way = [each for each in self._under_way if each not in done]

    def give_up(self, communicator: Communicator, error: BaseException, *, expected: bool = False) -> None:
        """Let all works of ``communicator`` that are under way fail, and abort it.

        ``expected`` says that the user wants it so, and needs not be told later.
        """
        if communicator.error is None:
            self.note_done(communicator)
        with self._changed:
            lost = [each for each in self._under_way if each.communicator is communicator]
            self._under_way = [each for each in self._under_way if each.communicator is not communicator]
        for each in lost:
            work = each.work()
            if work is not None:
                work.give_up(error)
        if not expected and any(each.relied_on for each in lost):
            self._runtime.host_errors.append(error)
        communicator.abort(error)

    def _dropped(self) -> bool:
        """Whether the driver can be asked no more."""
        return not self._runtime.alive

    def _run(self) -> None:
        if not self._dropped():
            # What this thread asks concerns no capture, whatever the capture forbids other threads.
            relax_captures(self._runtime)
        while not self._dropped():
            with self._changed:
                if not self._under_way and not self._stopped:
                    self._changed.wait(_IDLE)
                if self._stopped or not self._under_way:
                    self._thread = None
                    return
                under_way = list(self._under_way)
            try:
                over = self._over(under_way)
            except drv.CudaError:
                if not self._dropped():
                    raise
                return
            with self._changed:
                self._under_way = [each for each in self._under_way if each not in over]
                if self._under_way and not self._stopped:
                    self._changed.wait(INTERVAL)

    def _over(self, under_way: list[UnderWay]) -> set[UnderWay]:
        """Those that are over. Communicators of those that failed are ended."""
        over: set[UnderWay] = set()
        for each in under_way:
            if each.communicator.error is not None:
                # Ended by whoever noticed first: the operation's end may be that of its kernel only.
                self.give_up(each.communicator, each.communicator.error)
                continue
            reached, error = self._look(each)
            if reached:
                over.add(each)
            elif error is not None:
                self.give_up(each.communicator, error)
        return over

    def _look(self, operation: UnderWay) -> tuple[bool, DistBackendError | None]:
        """Whether an operation is over, and what is wrong with it."""
        status = self._status(operation)
        if not status:
            return True, None
        described, name = operation.communicator.described, operation.operation
        if int(status) != _NOT_READY:
            return False, described(name, f"the device failed: {status.name}")
        failure = operation.communicator.failure()
        if failure is not None:
            error = described(name, str(failure))
            error.__cause__ = failure
            return False, error
        now = time.monotonic()
        if now < operation.deadline:
            return False, None
        return False, described(
            name,
            f"Operation timed out! It is not over on the device {now - operation.started:.1f} s after it was called: a "
            "rank does not take part, or is slower than the group's timeout allows",
        )

    def _status(self, operation: UnderWay) -> Any:
        """What the driver says of the operation's end; 0 is that it is there."""
        operation.event.device.use()
        # Not through the event's own methods: they raise what belongs to the user's threads.
        return self._runtime.driver.cuEventQuery(operation.event.handle)[0]
