"""``Lane``: runs operations one after another in a thread that is there while there is something to do."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from .errors import DistBackendError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .works import Work

#: Seconds without an operation after which a thread ends; the next operation starts another.
IDLE = 5.0


class Lane:
    """A queue of operations, and the thread that carries them out."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._queued: deque[tuple[Work, Callable[[], int | None]]] = deque()
        self._thread: threading.Thread | None = None
        self._busy = False
        self._closed = False

    def submit(self, work: Work, run: Callable[[], int | None]) -> None:
        """Have ``run()`` called behind what is queued, and ``work`` settled by what comes of it.

        Raises
        ------
        DistBackendError
            If the lane is closed.
        """
        with self._changed:
            if self._closed:
                raise DistBackendError(f"{work.operation}: the process group was destroyed")
            self._queued.append((work, run))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            else:
                self._changed.notify()
            work.carried_out_by(self._thread)

    def idle(self) -> bool:
        """Whether nothing is queued or under way."""
        with self._changed:
            return not self._queued and not self._busy

    def close(self) -> None:
        """Finish what is queued, and end the thread. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def abort(self, error: BaseException) -> None:
        """Let what is queued fail with ``error``; the thread ends with what it has under way. Never blocks."""
        with self._changed:
            self._closed = True
            given_up = [work for work, _ in self._queued]
            self._queued.clear()
            self._changed.notify()
        for work in given_up:
            work.fail(error)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                if not self._queued and not self._closed:
                    self._changed.wait(IDLE)
                if not self._queued:
                    self._thread = None
                    return
                work, run = self._queued.popleft()
                self._busy = True
            _carry_out(work, run)
            # Whoever waits may free the tensors now.
            del work, run


def _carry_out(work: Work, run: Callable[[], int | None]) -> None:
    try:
        source = run()
    except BaseException as error:
        work.fail(error)
    else:
        del run
        work.succeed(source)
