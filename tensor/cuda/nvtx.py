"""Names for spans of time, which NVIDIA's profilers show beside the work of the devices.

They reach NVIDIA's profilers where the package ``nvtx`` is installed, and :mod:`tensor.profiler` while a profile runs;
otherwise they only count how deep they are nested.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tensor.core import spans
from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Depth(threading.local):
    """How many spans this thread has pushed and not popped, and those of them that a profile knows."""

    def __init__(self) -> None:
        self.value = 0
        self.spans: list[spans.Span] = []


_depth = _Depth()
_numbers = itertools.count(1)
#: Spans of :func:`range_start` by number, as the package knows them.
_started: dict[int, Any] = {}


@functools.cache
def _library() -> Any:
    try:
        return importlib.import_module("nvtx")
    except ImportError:
        return None


def range_push(msg: str) -> int:
    """Begin a span called ``msg`` in this thread, and return how many are around it.

    The outermost span returns 0. :func:`range_pop` ends the span.
    """
    library = _library()
    if library is not None:
        library.push_range(msg)
    if spans.active is not None:
        _depth.spans.append(spans.active.begin(msg, spans.ANNOTATION))
    _depth.value += 1
    return _depth.value - 1


def range_pop() -> int:
    """End the innermost span of this thread, and return how many are around it; -1 if there was none."""
    if _depth.value == 0:
        return -1
    _depth.value -= 1
    if _depth.spans:
        span = _depth.spans.pop()
        if spans.active is not None:
            spans.active.end(span)
    library = _library()
    if library is not None:
        library.pop_range()
    return _depth.value


def range_start(msg: str) -> int:
    """Begin a span called ``msg`` that any thread may end, and return its number for :func:`range_end`.

    Numbers start at 1, and no two spans of a process have the same.
    """
    number = next(_numbers)
    library = _library()
    if library is not None:
        _started[number] = library.start_range(msg)
    return number


def range_end(range_id: int) -> None:
    """End the span whose number :func:`range_start` returned as ``range_id``; another number does nothing.

    Any thread may end it.
    """
    started = _started.pop(range_id, None)
    library = _library()
    if started is not None and library is not None:
        library.end_range(started)


def mark(msg: str) -> None:
    """Name a moment ``msg``.

    Without the package ``nvtx`` nothing happens.
    """
    library = _library()
    if library is not None:
        library.mark(msg)


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A span inside ``with tensor.cuda.nvtx.range("step {}", 3):``, also as a decorator.

    Its name is ``msg.format(*args, **kwargs)``.
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
