"""Captures: work that is queued on streams becomes a graph instead of being done."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal, Self

from drv.errors import CaptureError, CudaError, InvalidValueError
from drv.python_stack import StackRecorder

from .graph import Graph, GraphNode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from drv.stream import Stream

Mode = Literal["global", "thread_local", "relaxed"]
_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
_ACTIVE = 1
_places = StackRecorder(True)


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


class Capture:
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
        if mode not in _MODES:
            raise InvalidValueError(f"mode={mode!r}: expected one of {', '.join(map(repr, _MODES))}")
        if after and graph is None:
            raise InvalidValueError("after= names nodes of a graph, and graph= does not say of which")
        self.stream = stream
        self.mode = mode
        self.identifier = 0
        self.place = ""
        self._target = graph
        self._after = tuple(after)
        self._graph: Graph | None = None
        #: What made it void, in the words of the call that did.
        self.failure: str | None = None
        self._began = False

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
        stream, runtime = self.stream, self.stream.runtime
        stream.device.make_current()
        runtime.collect()
        self.place = _place()
        mode, driver = _mode(self.mode), runtime.driver
        target = self._target
        for listener in runtime.capture_listeners:
            listener.capture_begins(self)
        try:
            if target is None:
                runtime.check(driver.cuStreamBeginCapture(stream.handle, mode), "cuStreamBeginCapture")
            else:
                nodes = target._dependencies(self._after)
                arguments = stream.handle, target.handle, nodes, None, len(nodes), mode
                call = "cuStreamBeginCaptureToGraph"
                runtime.check(driver.cuStreamBeginCaptureToGraph(*arguments), call)
        except BaseException:
            self._tell_of_the_end()
            raise
        self.identifier = int(self._information()[1])
        self._began = True
        runtime.captures = (*runtime.captures, self)

    def end(self) -> Graph:
        """End, and return the graph.

        Raises
        ------
        CaptureError
            If something made the capture void, or a stream that has joined it does not end where the stream waits for it;
            the message says what. Whatever was captured is dropped then, and all streams work as before.
        """
        runtime, stream = self.stream.runtime, self.stream
        unjoined = self._unjoined()
        stream.device.make_current()
        result = runtime.driver.cuStreamEndCapture(stream.handle)
        self._leave()
        try:
            if result[0]:
                self._fail(result[0], unjoined)
            if self._target is None:
                self._graph = Graph._of(stream.device, result[1], owned=True)
            else:
                self._graph = self._target
        finally:
            self._tell_of_the_end()
        return self._graph

    def _fail(self, status: Any, unjoined: list[Stream]) -> None:
        from drv.failures import failure

        error = failure(self.stream.runtime, status, f"the capture that began at {self.place}")
        lines = [str(error)]
        if self.failure is not None:
            lines.append(f"It is void since this call failed:\n{self.failure}")
        elif self.stream.runtime.simulated and self.stream.runtime.driver.capture_report:
            lines.append(self.stream.runtime.driver.capture_report)
        if unjoined:
            names = ", ".join(map(repr, unjoined))
            lines.append(
                f"Not waited for: {names}. Let {self.stream!r} wait for it (wait_stream) before the capture ends."
            )
        raise CaptureError("\n".join(lines), status=error.status, call=error.call) from None

    def abandon(self) -> None:
        """End, and drop what was captured, whatever state it is in. Does nothing where it has not begun, or has ended."""
        if not self._began:
            return
        runtime, stream = self.stream.runtime, self.stream
        try:
            stream.device.use()
            status, handle = runtime.driver.cuStreamEndCapture(stream.handle)
            if not status and self._target is None:
                runtime.driver.cuGraphDestroy(handle)
        finally:
            self._leave()
            self._tell_of_the_end()

    def dependencies(self) -> list[Any]:
        """Handles of the nodes that the next one on the stream will come after.

        Raises
        ------
        CaptureError
            If the capture is void.
        """
        return list(self._information()[3])

    def _information(self) -> Any:
        driver, check = self.stream.runtime.driver, self.stream.runtime.check
        return check(driver.cuStreamGetCaptureInfo(self.stream.handle), "cuStreamGetCaptureInfo")

    def _unjoined(self) -> list[Stream]:
        """Streams of this capture whose last nodes the stream does not wait for, of those that are known."""
        runtime = self.stream.runtime
        status, _, handle, own, *_ = self._information()
        if int(status) != _ACTIVE:
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
            if answer[0] or int(answer[1]) != _ACTIVE or int(answer[2]) != self.identifier:
                continue
            if any(int(each) not in reached for each in answer[4]):
                result.append(other)
        return result

    def _leave(self) -> None:
        runtime = self.stream.runtime
        self._began = False
        runtime.captures = tuple(each for each in runtime.captures if each is not self)
        runtime.collect()

    def _tell_of_the_end(self) -> None:
        for listener in reversed(self.stream.runtime.capture_listeners):
            listener.capture_ends(self)

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.end()
            return
        # The block's own error is what the program is to see.
        with contextlib.suppress(CudaError):
            self.abandon()


def _mode(mode: Mode) -> Any:
    from cuda.bindings.driver import CUstreamCaptureMode

    return CUstreamCaptureMode(_MODES[mode])


def _place() -> str:
    """``file:line`` of the program that calls."""
    stack = _places.take()
    return f"{stack[0][0]}:{stack[0][1]}" if stack else "an unknown place"
