"""``Stream``: a queue of work on a CUDA device, and which one is current in each thread."""

from __future__ import annotations

import ctypes
import operator
import threading
from typing import TYPE_CHECKING, Any, NoReturn, Self

import drv
from nvrtc_kernels import printed_names
from tensor.core.modes.sync_debug import sync_debug

from .current import index_or_current, restore, select
from .event import Event
from .graph_capture import refuse_default_stream
from .state import cuda_state, make_streams_with

if TYPE_CHECKING:
    from types import TracebackType

    from . import device as devices
    from .current import DeviceArgument
    from .state import CudaState

#: Streams per device and priority; further ones are these again, in turn.
POOL_SIZE = 32


class Stream:
    """A queue of work on a CUDA device. Work of one stream runs in order; different streams are unordered.

    The driver's streams come from a pool of 32 per device and priority, in turn. They live as long as the
    runtime: memory that was allocated for a stream is handed out again for it. A stream cannot be copied or pickled:
    that raises TypeError.

    ``with stream:`` makes it the current one, as ``with cuda.stream(stream):`` does.

    >>> _ = drv.simulator.install()
    >>> side = tensor.cuda.Stream()
    >>> side.wait_stream(tensor.cuda.current_stream())
    >>> with side:
    ...     y = tensor.ones(3, device="cuda") * 2
    >>> side.synchronize()

    Parameters
    ----------
    device : device, int or str, optional
        Where the work runs; this thread's current device for ``None`` and negative numbers.
    priority : int
        Lower numbers run first. What lies outside :meth:`priority_range` is moved to its nearer end.

    Attributes
    ----------
    cuda_stream : int
        The stream as a number, by which blocks of memory belong to streams: the value of the driver's handle, and 0
        for the default stream, as PyTorch has it. (:mod:`drv` calls that one by its own handle, ``CU_STREAM_LEGACY``,
        which is 1; and so do the protocols between libraries, where 0 could be either default stream.)
    handle
        The driver's handle, for launches.
    native : drv.Stream
        The driver's stream.
    device_state : CudaState
        The device's memory, with what serves it.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    RuntimeError
        If there is no driver or no device.
    """

    __slots__ = ("__weakref__", "_contexts", "cuda_stream", "device_state", "handle", "native")

    device_state: CudaState
    native: drv.Stream
    cuda_stream: int
    handle: Any
    _contexts: _Contexts

    def __init__(self, device: DeviceArgument = None, priority: int = 0) -> None:
        device_state = cuda_state(index_or_current(device))
        self._set(device_state, _pooled(device_state.native, operator.index(priority)))

    @classmethod
    def of(cls, device_state: CudaState, native: drv.Stream) -> Stream:
        """The stream of the device that ``device_state`` serves whose driver stream is ``native``.

        Each call makes an object; those of one driver stream are equal.
        """
        self = object.__new__(cls)
        self._set(device_state, native)
        return self

    def _set(self, device_state: CudaState, native: drv.Stream) -> None:
        self.device_state = device_state
        self.native = native
        self.handle = native.handle
        number = int(native.handle)
        self.cuda_stream = 0 if number == drv.Stream.LEGACY else number
        self._contexts = _Contexts()

    @property
    def device(self) -> devices.device:
        """The :class:`tensor.device` that runs the work."""
        return self.device_state.device

    @property
    def device_index(self) -> int:
        """Index of the device that runs the work, from 0."""
        return self.device_state.ordinal

    @property
    def stream_id(self) -> int:
        """Number of the stream among the device's, 0 for the default stream."""
        return self.cuda_stream

    @property
    def priority(self) -> int:
        """Priority that the driver gave the stream; lower numbers run first."""
        return self.native.priority

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Least and greatest priority on the current device, such as ``(0, -5)``: the greatest is the lowest number.

        Raises
        ------
        NoDriverError
            If there is no CUDA driver.
        """
        return drv.current_device().stream_priority_range()

    def wait_event(self, event: Event | drv.Event) -> None:
        """Have later work of this stream wait for ``event``; does nothing if it was never recorded. The host goes on.

        Parameters
        ----------
        event : Event or drv.Event
            Recorded on any stream, also of another device.
        """
        if isinstance(event, drv.Event):
            self.native.wait_event(event)
        else:
            event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Have later work of this stream wait for all that ``stream``, of any device, holds now. The host goes on.

        Raises
        ------
        TypeError
            If ``stream`` is not a :class:`tensor.cuda.Stream`.
        """
        if not isinstance(stream, Stream):
            raise TypeError(f"wait_stream() expects a tensor.cuda.Stream, got {type(stream).__name__}")
        if stream == self:
            return
        # A wait is for what the event marks when it is queued, so one event per thread serves all waits.
        runtime = stream.device_state.runtime
        marks = runtime.cache("stream marks", _Marks).of_device
        mark = marks.get(stream.device_state.ordinal)
        if mark is None:
            mark = marks[stream.device_state.ordinal] = drv.Event(stream.device_state.native)
        try:
            mark.record(stream.native)
            self.native.wait_event(mark)
        except BaseException:
            # As native.wait_stream(): what comes later on this stream comes after the other's work all the same.
            stream.native.drain()
            raise

    def record_event(self, event: Event | None = None) -> Event:
        """Record ``event``, or a new one that keeps no time, in this stream, and return it.

        Raises
        ------
        RuntimeError
            If the event was recorded on another device before.
        """
        if event is None:
            event = Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all work queued so far is done.

        Raises
        ------
        RuntimeError
            One of drv's classes, if that work, or earlier work, failed.
        """
        return self.native.query()

    def synchronize(self) -> None:
        """Wait until all work queued so far is done. The host waits.

        Raises
        ------
        RuntimeError
            One of drv's classes, if that work, or earlier work, failed; or if ``cuda.set_sync_debug_mode`` forbids it.
        """
        if sync_debug.level:
            sync_debug.report()
        self.native.synchronize()

    def __enter__(self) -> Self:
        context = StreamContext(self)
        context.__enter__()
        self._contexts.entered.append(context)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._contexts.entered.pop().__exit__(exc_type, error, traceback)

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version of the protocol between libraries, and the handle as an integer."""
        return self.native.__cuda_stream__()

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """For functions of :mod:`ctypes`."""
        return ctypes.c_void_p(self.cuda_stream)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return self.device_state is other.device_state and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash((self.device_state.ordinal, self.cuda_stream))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be copied or pickled: it is a queue of this process; make a new one"
        )

    def __repr__(self) -> str:
        return f"<{printed_names.library}.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library made, and keeps as long as this object or its memory is in use.

    Parameters
    ----------
    stream_ptr : int
        Value of the ``CUstream`` or ``cudaStream_t``; 0 is the default stream.
    device : device, int or str, optional
        The stream's device; the current one by default.

    Raises
    ------
    TypeError
        If ``stream_ptr`` is not an integer.
    ValueError
        If it is negative; for the CPU, or a device that does not exist.
    """

    __slots__ = ()

    def __init__(self, stream_ptr: int, device: DeviceArgument = None) -> None:
        try:
            handle = operator.index(stream_ptr)
        except TypeError:
            raise TypeError(
                f"stream_ptr must be an int, the value of a cudaStream_t, got {type(stream_ptr).__name__}"
            ) from None
        if handle < 0:
            raise ValueError(f"stream_ptr must be the value of a cudaStream_t, got {handle}")
        device_state = cuda_state(index_or_current(device))
        self._set(device_state, drv.Stream.from_handle(device_state.native, handle))


# The current stream


class StreamContext:
    """Makes a stream, and its device, current in this thread. Restores both, also on errors.

    Parameters
    ----------
    stream : Stream or None
        Which; ``None`` changes nothing.

    Raises
    ------
    TypeError
        For anything else.
    """

    __slots__ = ("_entered", "stream")

    def __init__(self, stream: Stream | None) -> None:
        if stream is not None:
            _check(stream, "stream")
        self.stream = stream
        self._entered: list[tuple[Any, ...]] = []

    def __enter__(self) -> None:
        stream = self.stream
        if stream is not None:
            device_state = stream.device_state
            if device_state.runtime.captures:
                refuse_default_stream(stream)
            before = select(device_state.native)
            here = device_state.local
            # The block may also set another stream of the device that it was entered from.
            outside = (
                here if before is device_state.native else cuda_state(before.ordinal if before else 0).local
            )
            self._entered.append((before, outside, outside.stream, here, here.stream))
            here.stream = stream

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        stream = self.stream
        if stream is not None:
            before, outside, outside_stream, here, here_stream = self._entered.pop()
            here.stream = here_stream
            outside.stream = outside_stream
            restore(stream.device_state.runtime, before)


def stream(stream: Stream | None) -> StreamContext:
    """Context manager that makes ``stream``, and its device, current in this thread; ``None`` changes nothing.

    At the end of the block both are what they were before, also after an error. Nothing waits: order the streams with
    :meth:`Stream.wait_stream` or events.

    >>> _ = drv.simulator.install()
    >>> side = tensor.cuda.Stream()
    >>> with tensor.cuda.stream(side):
    ...     tensor.cuda.current_stream() == side
    True

    Raises
    ------
    TypeError
        If ``stream`` is neither a :class:`tensor.cuda.Stream` nor ``None``.
    """
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Make ``stream``, and its device, current in this thread; ``None`` changes nothing.

    ``with cuda.stream(stream):`` restores what was, and is nearly always the better choice.

    Raises
    ------
    TypeError
        If ``stream`` is neither a :class:`tensor.cuda.Stream` nor ``None``.
    """
    if stream is not None:
        _check(stream, "set_stream")
        if stream.device_state.runtime.captures:
            refuse_default_stream(stream)
        select(stream.device_state.native)
        stream.device_state.local.stream = stream


def current_stream(device: DeviceArgument = None) -> Stream:
    """The current :class:`Stream` of this thread on ``device``, by default the current device.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    RuntimeError
        If there is no driver or no device.
    """
    return cuda_state(index_or_current(device)).local.stream


def default_stream(device: DeviceArgument = None) -> Stream:
    """The default :class:`Stream` of ``device``, by default the current device: CUDA's legacy stream, handle 0.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    RuntimeError
        If there is no driver or no device.
    """
    return cuda_state(index_or_current(device)).default_stream


def get_stream_from_external(data_ptr: int, device: DeviceArgument = None) -> Stream:
    """The stream of ``device`` (by default the current one) whose ``cudaStream_t`` has the value ``data_ptr``.

    It is an :class:`ExternalStream`, and raises TypeError and ValueError as that class does.
    """
    return ExternalStream(data_ptr, device)


def _check(argument: Any, function: str) -> None:
    if not isinstance(argument, Stream):
        raise TypeError(
            f"{function}() expects a tensor.cuda.Stream or None, got {type(argument).__name__}; for a stream of "
            "another library use tensor.cuda.ExternalStream(pointer)"
        )


# The driver's streams


class StreamPool:
    """The driver's streams of one device and priority, made as they are needed, and handed out in turn."""

    def __init__(self, device: drv.Device, priority: int) -> None:
        self._device = device
        self._priority = priority
        self._streams: list[drv.Stream] = []
        self._taken = 0
        self._lock = threading.Lock()

    def take(self) -> drv.Stream:
        """The next stream."""
        with self._lock:
            index = self._taken % POOL_SIZE
            if index == len(self._streams):
                self._streams.append(drv.Stream(self._device, priority=self._priority))
            self._taken += 1
            return self._streams[index]


def _pooled(device: drv.Device, priority: int) -> drv.Stream:
    least, greatest = device.stream_priority_range()
    priority = min(max(priority, greatest), least)
    pool = device.runtime.cache(
        ("stream pool", device.ordinal, priority), lambda: StreamPool(device, priority)
    )
    return pool.take()


class _Marks(threading.local):
    """Events of one thread, by device, that order one stream behind another."""

    def __init__(self) -> None:
        self.of_device: dict[int, drv.Event] = {}


class _Contexts(threading.local):
    """``with`` blocks that this thread is in, of one stream."""

    def __init__(self) -> None:
        self.entered: list[StreamContext] = []


make_streams_with(Stream.of)
