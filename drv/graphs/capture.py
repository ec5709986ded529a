"""Captures: work that is queued on streams becomes a graph instead of being done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drv.errors import CaptureError, InvalidValueError
from drv.failures import failure

from .graph import Graph
from .nodes import GraphNode
from .recording import ACTIVE, MODES, Mode, Recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drv.stream import Stream


def capture(
    stream: Stream,
    *,
    mode: Mode = "global",
    graph: Graph | None = None,
    after: Sequence[GraphNode] = (),
) -> Capture:
    """Capture what a block queues on ``stream``, as a context manager.

    Parameters
    ----------
    stream, mode, graph, after
        See :class:`Capture`.

    Returns
    -------
    Capture
        Its ``graph`` is there after the block.

    Raises
    ------
    CaptureError
        At the end of the block: if something in it made the capture void, or a stream that has joined it does not end
        where ``stream`` waits for it.

    Examples
    --------
    >>> values = drv.PinnedMemory(16)
    >>> values.array()[:] = 5
    >>> memory, stream = drv.DeviceMemory(16), drv.Stream()
    >>> with drv.capture(stream) as capture:
    ...     drv.copy_to_device(memory, values, stream=stream)
    >>> [node.kind for node in capture.graph.nodes]
    ['memcpy']
    """
    return Capture(stream, mode=mode, graph=graph, after=after)


class Capture(Recording):
    """What is queued on a stream, and on streams that wait for it, becomes nodes of a graph and is not done.

    Parameters
    ----------
    stream : Stream
        Where it begins and ends; any but the legacy default stream. Other streams join by waiting for an event that is
        recorded on it, and must be waited for before the end.
    mode : {"global", "thread_local", "relaxed"}
        Of whom calls are forbidden that a capture does not see, such as those that wait or allocate: of every thread that
        does not say otherwise, of this thread, or of none.
    graph : Graph, optional
        Where the nodes go; a new graph by default.
    after : sequence of GraphNode
        Nodes of ``graph`` that the first ones come after.

    Attributes
    ----------
    stream : Stream
        The stream.
    mode : str
        The mode.
    graph : Graph
        The graph, once the capture has ended.
    identifier : int
        The driver's number of the capture: what is queued on a stream with ``stream.capture.identifier`` the same belongs
        to it.

    Raises
    ------
    InvalidValueError
        If ``mode`` is none of these, or a node of ``after`` is not of ``graph``.

    Notes
    -----
    ``runtime.captures`` lists the captures that last, and ``runtime.capture_listeners`` objects that are told of each:
    ``capture_begins(capture)`` before the first node, ``capture_ends(capture)`` after the last, with ``capture.graph``
    None if it has failed. So an allocator knows whose memory must stay as it is.

    Finalizers free no memory while a capture lasts, as that would make it void: it is freed later.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        mode: Mode = "global",
        graph: Graph | None = None,
        after: Sequence[GraphNode] = (),
    ) -> None:
        if mode not in MODES:
            raise InvalidValueError(f"mode={mode!r}: expected one of {', '.join(map(repr, MODES))}")
        if graph is None:
            if after:
                raise InvalidValueError("after= names nodes of a graph, and graph= does not say of which")
            super().__init__(stream, mode)
        else:
            super().__init__(stream, mode, graph.handle, graph._dependencies(after))
        self._into = graph
        self._graph: Graph | None = None

    @property
    def graph(self) -> Graph:
        """The graph, once the capture has ended.

        Raises
        ------
        CaptureError
            If it has not, or has failed.
        """
        if self._graph is None:
            raise CaptureError("there is no graph: the capture has not ended, or has failed")
        return self._graph

    def __repr__(self) -> str:
        return f"<drv.Capture on {self.stream!r}, mode {self.mode!r}>"

    def begin(self) -> None:
        """Begin: from now on work that is queued on the stream becomes nodes.

        Raises
        ------
        CaptureError
            If the stream cannot be captured, as the legacy default stream cannot.
        CudaError
            If the stream is captured already.
        """
        for listener in self.stream.runtime.capture_listeners:
            listener.capture_begins(self)
        try:
            super().begin()
        except BaseException:
            self._tell_of_the_end()
            raise

    def end(self) -> Graph:
        """End, and return the graph.

        Raises
        ------
        CaptureError
            If something made the capture void, or a stream that has joined it does not end where the stream waits for it;
            the message says what. Whatever was captured is dropped then, and all streams work as before.
        """
        unjoined = self._unjoined()
        try:
            status, handle = self.finish()
            if status:
                raise self._failed(status, unjoined)
            self._graph = self._into or Graph._of(self.stream.device, handle, owned=True)
        finally:
            self._tell_of_the_end()
        return self._graph

    def abandon(self) -> None:
        """End, and drop what was captured, whatever state it is in.

        Does nothing where it has not begun, or has ended. The streams take work as usual afterwards.
        """
        if self._lasts:
            try:
                super().abandon()
            finally:
                self._tell_of_the_end()

    def _failed(self, status: Any, unjoined: list[Stream]) -> CaptureError:
        runtime = self.stream.runtime
        error = failure(runtime, status, f"the capture that began at {self.call_site}")
        lines = [str(error)]
        if self.failure is not None:
            lines.append(f"It is void since this call failed:\n{self.failure}")
        elif runtime.simulated and runtime.driver.capture_report:
            lines.append(runtime.driver.capture_report)
        if unjoined:
            names = ", ".join(map(repr, unjoined))
            lines.append(
                f"Not waited for: {names}. Let {self.stream!r} wait for it (wait_stream) before the capture ends."
            )
        return CaptureError("\n".join(lines), status=error.status, call=error.call)

    def _unjoined(self) -> list[Stream]:
        """Streams of this capture whose last nodes the stream does not wait for, of those that are known."""
        runtime = self.stream.runtime
        status, _, handle, own, *_ = self.information()
        if int(status) != ACTIVE:
            return []
        graph = Graph._of(self.stream.device, handle, owned=False)
        reached = {int(each) for each in own}
        waiting = [GraphNode(graph, each) for each in own]
        while waiting:
            for node in waiting.pop().dependencies:
                if int(node.handle) not in reached:
                    reached.add(int(node.handle))
                    waiting.append(node)
        result = []
        for number, other in list(runtime.streams.items()):
            if number == int(self.stream.handle):
                continue
            answer = runtime.driver.cuStreamGetCaptureInfo(other.handle)
            if answer[0] or int(answer[1]) != ACTIVE or int(answer[2]) != self.identifier:
                continue
            if any(int(each) not in reached for each in answer[4]):
                result.append(other)
        return result

    def _tell_of_the_end(self) -> None:
        for listener in reversed(self.stream.runtime.capture_listeners):
            listener.capture_ends(self)
