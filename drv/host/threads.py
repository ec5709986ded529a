"""Threads that share work of NumPy functions which let go of the interpreter's lock.

They start with the first work that is worth it, as many as there are processors for this process, or as
``OMP_NUM_THREADS`` or :func:`set_thread_count` says; after a fork the child starts its own. The thread that asks takes
part. Which thread does a piece of work decides nothing about its result. Threads that have nothing to do sleep.
"""

from __future__ import annotations

import os
import threading
from itertools import count
from typing import TYPE_CHECKING

from .processors import processor_count

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor


def thread_count() -> int:
    """How many threads work at once, at most: the asking one among them."""
    if _Chosen.count is not None:
        return _Chosen.count
    argument = os.environ.get("OMP_NUM_THREADS", "")
    allowed = processor_count()
    return min(int(argument), allowed) if argument.isdecimal() and int(argument) else allowed


def set_thread_count(count: int) -> None:
    """Let ``count`` threads work at once, whatever the environment says. Work that is under way keeps its threads."""
    global _threads
    _Chosen.count = count
    # The threads of a pool end when nobody refers to it.
    _threads = _Threads()


class _Chosen:
    """What :func:`set_thread_count` was given."""

    count: int | None = None


class _Threads:
    """The pool of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.size = 0
        self.pool: ThreadPoolExecutor | None = None

    def started(self) -> int:
        """Start the pool unless that was done; returns the number of threads with the asking one."""
        if not self.size:
            with self.lock:
                if not self.size:
                    expected = thread_count()
                    if expected > 1:
                        # A hundredth of the import of the package, which many programs end without.
                        from concurrent.futures import ThreadPoolExecutor

                        self.pool = ThreadPoolExecutor(expected - 1, thread_name_prefix="tensor-host")
                    self.size = expected
        return self.size


_threads = _Threads()


def _after_fork() -> None:
    global _threads
    _threads = _Threads()


os.register_at_fork(after_in_child=_after_fork)


def share(work: Callable[[int], None], pieces: int) -> None:
    """Do ``work(i)`` for each ``i`` below ``pieces``, at once where there are several. Raises what one of them does.

    The pieces are independent of each other and large enough for a thread's while: a tenth of a millisecond or more.
    """
    threads = _threads
    helpers = min(pieces, threads.started()) - 1 if pieces > 1 else 0
    if helpers <= 0 or threads.pool is None:
        for piece in range(pieces):
            work(piece)
        return
    numbers = count()

    def several() -> None:
        while (piece := next(numbers)) < pieces:
            work(piece)

    others = [threads.pool.submit(several) for _ in range(helpers)]
    try:
        several()
    finally:
        # The pool may be busy with somebody else's work: what has not begun by now is not needed.
        running = [other for other in others if not other.cancel()]
        failures = [other.exception() for other in running]
    for failure in failures:
        if failure is not None:
            raise failure
