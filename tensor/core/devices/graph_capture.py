"""What is being captured into a CUDA graph: what operations ask that have to do something else then."""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal

import drv
from drv.failures import called_by

from .state import CudaState, cuda_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.allocators.protocol import PoolIdentifier

    from .stream import Stream

ErrorMode = Literal["global", "thread_local", "relaxed"]
_NOTHING = 0
_ACTIVE = 1


class GraphCapture:
    """What one :class:`tensor.cuda.CUDAGraph` captures, from :meth:`begin` to :meth:`end` or :meth:`abandon`.

    Allocations for streams of the capture come from a private pool meanwhile, on every device. The thread that captures
    is refused memory for other streams, which would be handed out to others while the graph still uses it.

    Parameters
    ----------
    stream : Stream
        Where it begins and ends.
    pool : tuple of two ints
        The private pool.
    mode : str
        See :func:`drv.capture`.

    Attributes
    ----------
    stream, pool
        The parameters of these names.
    recording : drv.Capture
        The driver's.
    draws : dict
        What draws random numbers in it, by generator.
    referenced : list
        Objects that are to live as long as the graph.
    refuses : bool
        Whether the thread that captures may do only what becomes part of it.
    workspaces : dict
        Memory of libraries that is used in it, by who uses it.
    """

    def __init__(self, stream: Stream, pool: PoolIdentifier, mode: ErrorMode) -> None:
        self.stream = stream
        self.pool = pool
        self.recording = drv.Capture(stream.native, mode=mode)
        self.draws: dict[Any, Any] = {}
        self.referenced: list[Any] = []
        self.workspaces: dict[Any, Any] = {}
        self.refuses = mode != "relaxed"
        self._routes: list[tuple[CudaState, Callable[[int], bool]]] = []

    def begin(self) -> None:
        """Begin.

        Raises
        ------
        CaptureError
            If the stream cannot be captured.
        NotSupportedError
            If the allocator has no private pools.
        """
        runtime = self.stream.device_state.runtime
        try:
            for ordinal in range(len(runtime.devices)):
                state = cuda_state(ordinal)
                claims = self._claims_of(state)
                state.allocator.begin_pool(self.pool, claims)
                self._routes.append((state, claims))
            self.recording.begin()
        except BaseException:
            self._leave()
            raise
        _captures(runtime)[self.recording.identifier] = self

    def end(self) -> drv.Graph:
        """End; the graph.

        Raises
        ------
        CaptureError
            If the capture is void, or a stream of it was not waited for.
        """
        try:
            return self.recording.end()
        finally:
            self._leave()

    def abandon(self) -> None:
        """End, and drop what was captured."""
        try:
            self.recording.abandon()
        finally:
            self._leave()

    def _leave(self) -> None:
        runtime = self.stream.device_state.runtime
        _captures(runtime).pop(self.recording.identifier, None)
        self.workspaces.clear()
        while self._routes:
            state, claims = self._routes.pop()
            state.allocator.end_pool(self.pool, claims)

    def _claims_of(self, state: CudaState) -> Callable[[int], bool]:
        """Tells the allocator of a device which of its allocations belong to the capture."""
        runtime, recording, native = state.runtime, self.recording, state.native
        information = runtime.driver.cuStreamGetCaptureInfo

        def claims(stream: int) -> bool:
            if not recording.identifier:
                return False
            native.use()
            answer = information(stream or drv.Stream.LEGACY)
            if not answer[0] and int(answer[1]) == _ACTIVE and int(answer[2]) == recording.identifier:
                return True
            if self.refuses and recording.thread == get_ident() and not self._is_captured(answer):
                raise self._refusal(state, stream)
            return False

        return claims

    @staticmethod
    def _is_captured(answer: Any) -> bool:
        """Whether another capture has the stream, or one that is void."""
        return not answer[0] and int(answer[1]) != _NOTHING

    def _refusal(self, state: CudaState, stream: int) -> drv.CaptureError:
        name = f"stream {stream:#x} of {state.device}" if stream else f"the default stream of {state.device}"
        return drv.CaptureError(
            f"memory was asked for on {name}, which is not captured, by the thread that captures on {self.stream!r} (since "
            f"{self.recording.call_site}). An operation there would run now and not at a replay, and its memory would be "
            "handed out to others while the graph uses it. Let that stream wait for the captured one "
            "(wait_stream) to make it part of the graph, do this before the capture begins, or capture with "
            f'capture_error_mode="relaxed" to allow it.\n{called_by()}'
        )


def capture_of(state: CudaState) -> GraphCapture | None:
    """What the calling thread's current stream on a device is captured by; ``None`` where it is not."""
    runtime = state.runtime
    if not runtime.captures:
        return None
    recording = state.local.stream.native.capture
    return None if recording is None else _captures(runtime).get(recording.identifier)


def capture_of_thread(runtime: drv.Runtime) -> GraphCapture | None:
    """What the calling thread captures; ``None`` where it does not."""
    if not runtime.captures:
        return None
    thread = get_ident()
    return next((each for each in _captures(runtime).values() if each.recording.thread == thread), None)


def refuse_default_stream(stream: Stream) -> None:
    """Refuse that a thread makes a default stream current while it captures, unless the capture allows it.

    Raises
    ------
    CaptureError
        For a default stream: what is queued there cannot be part of a graph.
    """
    if stream.cuda_stream:
        return
    capture = capture_of_thread(stream.device_state.runtime)
    if capture is not None and capture.refuses:
        raise drv.CaptureError(
            f"the default stream of {stream.device} was to be current in the thread that captures on {capture.stream!r} (since "
            f"{capture.recording.call_site}): work of a default stream cannot be part of a CUDA graph, and would run now. Use "
            f"another stream, or do this before the capture begins or after it has ended.\n{called_by()}"
        )


def _captures(runtime: drv.Runtime) -> dict[int, GraphCapture]:
    return runtime.cache("graph captures", dict)
