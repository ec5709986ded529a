"""Freed blocks that other streams still use."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from drv.errors import CudaError, InvalidHandleError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from drv.allocators.events import StreamEvents, StreamKey

B = TypeVar("B")


class PendingBlocks(Generic[B]):
    """Freed blocks, each with an event on every stream that used it.

    There is a queue for each stream, so that one with much work delays only what it uses itself.

    Parameters
    ----------
    events : StreamEvents
        Records and asks.
    finished : callable
        Called with a block once the last stream is done with it.

    Attributes
    ----------
    queues : dict
        Events and blocks of each stream, the earliest first; no queue is empty. Where the driver refused to record
        an event for a block there is ``None``: the next poll records one behind what the stream holds then.
    """

    __slots__ = ("_abandoned", "_counts", "_events", "_finished", "queues")

    def __init__(self, events: StreamEvents, finished: Callable[[B], None]) -> None:
        self._events = events
        self._finished = finished
        self.queues: dict[StreamKey, deque[tuple[Any, B]]] = {}
        self._counts: dict[B, int] = {}
        #: Blocks of streams on which nothing can be recorded any more, and a device to wait for.
        self._abandoned: list[tuple[int, B]] = []

    def blocks(self) -> Collection[B]:
        """The blocks that wait."""
        return self._counts.keys()

    def add(self, block: B, uses: Iterable[StreamKey]) -> None:
        """Let ``block`` wait for what ``uses`` have queued now."""
        uses = tuple(uses)
        self._counts[block] = len(uses)
        for key in uses:
            try:
                event = self._events.record(key)
            except CudaError as error:
                if isinstance(error, InvalidHandleError) or error.sticky:
                    # The stream was destroyed, or the context is lost. Only a wait for the whole device
                    # tells when its work is done, and freeing never waits.
                    self._abandoned.append((key[0], block))
                    continue
                # Freeing never raises either.
                event = None
            self.queues.setdefault(key, deque()).append((event, block))

    def poll(self) -> None:
        """Finish with the blocks whose events have passed."""
        if not self._events.ready():
            return
        for key, queue in list(self.queues.items()):
            while queue:
                event, block = queue[0]
                if event is None:
                    try:
                        event = self._events.record(key)
                    except CudaError:
                        break
                    queue[0] = event, block
                if not self._events.passed(key, event):
                    break
                queue.popleft()
                self._done(block)
            if not queue:
                del self.queues[key]

    def wait(self) -> None:
        """Wait for all events, and finish with all blocks."""
        for key, queue in list(self.queues.items()):
            while queue:
                event, block = queue[0]
                if event is None:
                    self._events.wait_for_device(key[0])
                else:
                    self._events.wait(key, event)
                queue.popleft()
                self._done(block)
            del self.queues[key]
        for ordinal in {ordinal for ordinal, _ in self._abandoned}:
            self._events.wait_for_device(ordinal)
        abandoned, self._abandoned = self._abandoned, []
        for _, block in abandoned:
            self._done(block)

    def _done(self, block: B) -> None:
        count = self._counts[block] - 1
        if count:
            self._counts[block] = count
        else:
            del self._counts[block]
            self._finished(block)
