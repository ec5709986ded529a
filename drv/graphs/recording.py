"""What the driver records while a stream is captured."""

from __future__ import annotations

import contextlib
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal, Self

from drv.errors import CudaError
from drv.python_stack import StackRecorder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from drv.stream import Stream

Mode = Literal["global", "thread_local", "relaxed"]
MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
ACTIVE = 1
_call_sites = StackRecorder(True)


class Recording:
    """A capture of the driver's, from :meth:`begin` to :meth:`end` or :meth:`abandon`.

    Parameters
    ----------
    stream : Stream
        Where it begins and ends.
    mode : str
        A key of :data:`MODES`.
    target
        Handle of the graph that takes the nodes; None for a new one.
    after : sequence
        Handles of nodes of it that the first ones come after.

    Attributes
    ----------
    stream : Stream
        The stream.
    mode : str
        The mode.
    identifier : int
        The driver's number of the capture.
    call_site : str
        ``file:line`` of the program where it began.
    failure : str or None
        What made it void, in the words of the call that did.
    thread : int
        Identifier of the thread in which it began.
    """

    def __init__(
        self, stream: Stream, mode: Mode = "global", target: Any = None, after: Sequence[Any] = ()
    ) -> None:
        self.stream = stream
        self.mode = mode
        self.identifier = 0
        self.call_site = ""
        self.failure: str | None = None
        self.thread = 0
        self._target = target
        self._after = list(after)
        self._lasts = False

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
        self.call_site = _call_site()
        self.thread = get_ident()
        mode, driver = _mode(self.mode), runtime.driver
        if self._target is None:
            runtime.check(driver.cuStreamBeginCapture(stream.handle, mode), "cuStreamBeginCapture")
        else:
            arguments = stream.handle, self._target, self._after, None, len(self._after), mode
            call = "cuStreamBeginCaptureToGraph"
            runtime.check(driver.cuStreamBeginCaptureToGraph(*arguments), call)
        self.identifier = int(self.information()[1])
        self._lasts = True
        runtime.captures = (*runtime.captures, self)
        runtime.has_captured = True

    def finish(self) -> tuple[Any, Any]:
        """End the capture in the driver.

        Returns
        -------
        tuple
            The driver's answer, unchecked: status and the graph's handle. Afterwards the stream's work runs again, and other
            threads may capture.
        """
        stream = self.stream
        stream.device.make_current()
        try:
            status, handle = stream.runtime.driver.cuStreamEndCapture(stream.handle)
        finally:
            self._leave()
        return status, handle

    def abandon(self) -> None:
        """End it and drop what was captured, whatever state it is in. Does nothing where it does not last.

        What went into a graph that was there stays in it.
        """
        if not self._lasts:
            return
        status, handle = self.finish()
        if not status and self._target is None:
            self.stream.runtime.driver.cuGraphDestroy(handle)

    def dependencies(self) -> list[Any]:
        """Handles of the nodes that the next one on the stream will come after.

        Raises
        ------
        CaptureError
            If the capture is void.
        """
        return list(self.information()[3])

    def information(self) -> Any:
        """What the driver says of the stream.

        Returns
        -------
        object
            Status, number of the capture, graph, and the nodes that the next one comes after.

        Raises
        ------
        CudaError
            If the driver refuses, as where the stream is destroyed.
        """
        return self.stream.runtime.captured_into(self.stream.handle)

    def _leave(self) -> None:
        runtime = self.stream.runtime
        self._lasts = False
        runtime.captures = tuple(each for each in runtime.captures if each is not self)
        runtime.collect()

    def end(self) -> Any:
        """End it.

        Raises
        ------
        CaptureError
            If something made it void.
        """
        return self.stream.runtime.check(self.finish(), "cuStreamEndCapture")

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
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

    return CUstreamCaptureMode(MODES[mode])


def _call_site() -> str:
    """``file:line`` of the program that calls."""
    stack = _call_sites.take()
    return f"{stack[0][0]}:{stack[0][1]}" if stack else "an unknown place"
