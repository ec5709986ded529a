"""Named spans of the host's time: what a profile that is running wants to know of operations, nodes, modules and the user.

While no profile runs, :data:`active` is ``None``, and nothing here is called by operations: a profile puts itself in the
place of the functions that it watches.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: Categories of spans, in the words of traces.
OPERATION, NODE, MODULE, ANNOTATION, STEP = "cpu_op", "autograd_node", "module", "user_annotation", "step"


@dataclass(slots=True, eq=False)
class Span:
    """A span of one thread. Times are in nanoseconds.

    Attributes
    ----------
    name : str
        Such as ``aten::add``, ``AddBackward0``, ``nn.Linear: layers.0``.
    category : str
        One of the constants of this module.
    parent : Span or None
        The span that it is inside of.
    sequence : int
        Number of the node of the graph that the operation has left, or that runs; -1 if there is none.
    forward : Span or None
        Of a node: the operation that it is the gradient of.
    """

    name: str
    category: str
    thread: int
    start: int
    parent: Span | None
    number: int
    end: int = 0
    sequence: int = -1
    forward: Span | None = None
    shapes: Any = None
    arguments: Any = None
    stack: Any = None
    flops: float = 0.0

    @property
    def nanoseconds(self) -> int:
        """How long it took."""
        return self.end - self.start


class _Thread(threading.local):
    #: The innermost span.
    top: Span | None = None


class Spans:
    """Spans of all threads, while they are collected.

    Parameters
    ----------
    clock : callable
        Gives the time in nanoseconds.
    """

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        self.clock = clock
        self.all: list[Span] = []
        #: Told of each span that begins, and that ends, in the thread that does so.
        self.entered: Callable[[Span], None] | None = None
        self.left: Callable[[Span], None] | None = None
        self._thread = _Thread()

    @property
    def top(self) -> Span | None:
        """The calling thread's innermost span."""
        return self._thread.top

    def begin(self, name: str, category: str) -> Span:
        """Begin a span of the calling thread."""
        thread = self._thread
        span = Span(name, category, threading.get_ident(), self.clock(), thread.top, len(self.all))
        self.all.append(span)
        thread.top = span
        if self.entered is not None:
            self.entered(span)
        return span

    def end(self, span: Span) -> None:
        """End it, and those inside it that have not ended."""
        span.end = self.clock()
        thread = self._thread
        inner = thread.top
        while inner is not None and inner is not span:
            if not inner.end:
                inner.end = span.end
            if self.left is not None:
                self.left(inner)
            inner = inner.parent
        if inner is span:
            thread.top = span.parent
            if self.left is not None:
                self.left(span)


#: The spans that a running profile collects.
active: Spans | None = None
#: What higher layers have of their own to watch while a profile runs.
watches: list[Callable[[Spans], Callable[[], None]]] = []


def watch_also(watch: Callable[[Spans], Callable[[], None]]) -> None:
    """Have ``watch(spans)`` called when a profile starts; what it returns is called when that stops."""
    watches.append(watch)


def collect(spans: Spans | None) -> None:
    """Let ``spans`` be what collects from now on; ``None`` ends it."""
    global active
    active = spans
