"""``Worker``: a thread that runs queued operations one after another, and ends when it is idle."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from parallel.groups.errors import DistBackendError, DistError

if TYPE_CHECKING:
    from collections.abc import Callable

    from parallel.groups.works import Work

#: Seconds without an operation after which a thread ends; the next operation starts another.
IDLE = 5.0


class Worker:
    """A queue of operations, and the thread that runs them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._queued: deque[tuple[Work, Callable[[], int | None]]] = deque()
        self._thread: threading.Thread | None = None
        #: The thread that is running an operation.
        self._carrier: int | None = None
        self._closed = False

    def submit(self, work: Work, run: Callable[[], int | None]) -> None:
        """Queue ``run()``; ``work`` is settled by its result or its exception.

        Raises
        ------
        DistBackendError
            If the worker is closed.
        """
        with self._changed:
            if self._closed:
                raise DistBackendError(f"{work.operation}: the process group was destroyed")
            work.worker = self
            self._queued.append((work, run))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            else:
                self._changed.notify()

    def help(self, work: Work, limited: bool) -> None:
        """Run ``work`` in the calling thread if it is the next one, which saves waking the worker's thread.

        Parameters
        ----------
        work : Work
            The operation that the caller waits for.
        limited : bool
            Whether the caller waits for a limited time only, so that it cannot run the operation itself.

        Raises
        ------
        DistError
            If this thread is carrying out an operation of this worker, so that it would wait for itself.
        """
        with self._changed:
            if self._carrier == threading.get_ident():
                raise DistError(
                    f"{work.operation}: a callback waits for an operation that the same thread has to carry out: wait "
                    "for it outside of the callback, or use another group inside"
                )
            is_next = self._carrier is None and bool(self._queued) and self._queued[0][0] is work
            if limited or not is_next:
                return
            _, run = self._queued.popleft()
            self._carrier = threading.get_ident()
        try:
            _carry_out(work, run)
        finally:
            with self._changed:
                self._carrier = None
                if self._queued or self._closed:
                    self._changed.notify_all()

    def idle(self) -> bool:
        """Whether nothing is queued or under way."""
        with self._changed:
            return not self._queued and self._carrier is None

    def close(self) -> None:
        """Finish what is queued, and end the thread. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def abort(self, error: BaseException) -> None:
        """Fail queued operations with ``error``; the thread ends after the one that is running. Never blocks."""
        with self._changed:
            self._closed = True
            given_up = [work for work, _ in self._queued]
            self._queued.clear()
            self._changed.notify_all()
        for work in given_up:
            work.fail(error)

    def _run(self) -> None:
        while True:
            with self._changed:
                # Whoever waits for the first operation may be carrying it out when this thread begins.
                queued = self._next()
                if queued is None:
                    self._thread = None
                    return
                self._carrier = threading.get_ident()
            _carry_out(*queued)
            # Whoever waits may free the tensors now.
            del queued
            with self._changed:
                self._carrier = None

    def _next(self) -> tuple[Work, Callable[[], int | None]] | None:
        """The next operation of the queue; None after :data:`IDLE` seconds without one, or once closed."""
        while True:
            if self._carrier is None:
                if self._queued:
                    return self._queued.popleft()
                if self._closed:
                    return None
            if not self._changed.wait(IDLE) and self._carrier is None and not self._queued:
                return None


def _carry_out(work: Work, run: Callable[[], int | None]) -> None:
    try:
        source = run()
    except BaseException as error:
        work.fail(error)
    else:
        del run
        work.succeed(source)
