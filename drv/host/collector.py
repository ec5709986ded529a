"""Pauses of the cyclic collector, for all threads, which may begin and end while others last."""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Collector:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._enabled = False

    def pause(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._enabled = gc.isenabled()
                gc.disable()
            self._depth += 1

    def resume(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._enabled:
                gc.enable()


_collector = _Collector()
#: No collection runs, and so no finalizer of a cycle, until ``resume`` has been called as often as ``pause``. A collector that
#: was off before stays off.
pause, resume = _collector.pause, _collector.resume


@contextmanager
def paused() -> Iterator[None]:
    """Pause the collector in this block, which makes many objects that last: collections would walk over them time after time."""
    pause()
    try:
        yield
    finally:
        resume()
