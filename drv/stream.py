"""Streams: queues of work on a device, Python functions included."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from .callbacks import HostCallbacks, RecordedCallbacks
from .current import current_device
from .errors import CudaError, InvalidHandleError, InvalidValueError
from .event import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from .device import Device
    from .graphs.recording import Recording

_NON_BLOCKING = 1


class Stream:
    """A queue of work on a device.

    Work of one stream runs in order; work of different streams is unordered until an event orders it.

    Parameters
    ----------
    device : Device, optional
        Where the work runs; this thread's current device by default.
    priority : int
        Lower numbers run first, within :meth:`Device.stream_priority_range`; others are clamped to it.
    non_blocking : bool
        Whether the stream ignores the legacy default stream. A blocking stream waits for the work that
        the legacy default stream holds, and that stream waits for it.

    Attributes
    ----------
    device : Device
        Where the work runs.
    handle
        ``CUstream``, as the driver's functions take it.

    Raises
    ------
    CudaError
        If the driver cannot make a stream, such as in a lost context.

    Notes
    -----
    Streams are equal when the driver's streams are. The driver keeps a dropped stream until its work
    is done. After :meth:`close` every use raises :class:`InvalidHandleError`.

    Examples
    --------
    >>> stream = drv.Stream()
    >>> memory = drv.DeviceMemory(1024)
    >>> drv.memset(memory, 0, 1024, stream=stream)
    >>> stream.synchronize()
    >>> stream.query()
    True
    """

    __slots__ = ("__weakref__", "_owned", "device", "handle", "runtime")

    #: Handles of the two default streams, which every device has. (0 is the legacy one too in most of CUDA's functions,
    #: and the other one in programs that are compiled so; these numbers mean the same everywhere.)
    LEGACY = 1
    PER_THREAD = 2

    def __init__(self, device: Device | None = None, *, priority: int = 0, non_blocking: bool = True) -> None:
        self._owned = False
        if device is None:
            device = current_device()
        self.device = device
        self.runtime = runtime = device.runtime
        device.make_current()
        runtime.collect()
        self.handle = runtime.check(
            runtime.driver.cuStreamCreateWithPriority(_NON_BLOCKING if non_blocking else 0, priority),
            "cuStreamCreateWithPriority",
            f"device {device.ordinal}",
        )
        self._owned = True
        runtime.streams[int(self.handle)] = self

    @classmethod
    def from_handle(cls, device: Device, handle: int) -> Stream:
        """A stream that other code created and will destroy.

        Parameters
        ----------
        device : Device
            Whose stream it is.
        handle : int
            Value of a ``CUstream`` or ``cudaStream_t``; 0 and 1 are the legacy default stream, 2 is the
            calling thread's own default stream.
        """
        from cuda.bindings.driver import CUstream

        self = cls.__new__(cls)
        self._owned = False
        self.device = device
        self.runtime = device.runtime
        self.handle = CUstream(int(handle) or cls.LEGACY)
        return self

    @classmethod
    def from_object(cls, stream: Any, device: Device | None = None) -> Stream:
        """A stream of another library, by the protocol ``__cuda_stream__``.

        Parameters
        ----------
        stream
            An object with ``__cuda_stream__``, which must outlive the result; a :class:`Stream` is returned as it is.
        device : Device, optional
            Whose stream it is. Without it the driver is asked, and a default stream is taken to be the current
            device's.

        Raises
        ------
        InvalidValueError
            If ``stream`` has no such method, or speaks an unknown version of the protocol.
        """
        if isinstance(stream, Stream):
            return stream
        protocol = getattr(stream, "__cuda_stream__", None)
        if protocol is None:
            raise InvalidValueError(f"{type(stream).__name__} object has no __cuda_stream__ method")
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise InvalidValueError(
                f"version {version} of the __cuda_stream__ protocol is unknown, expected 0"
            )
        here = current_device()
        if device is None:
            device = here
            if handle > cls.PER_THREAD:
                device.use()
                driver = here.runtime.driver
                owner = here.runtime.check(driver.cuStreamGetDevice(handle), "cuStreamGetDevice")
                device = here.runtime.device(int(owner))
        return cls.from_handle(device, handle)

    def __getattr__(self, name: str) -> Any:
        # Reached only when a slot is empty, so that a live stream pays nothing for it.
        if name == "handle":
            raise InvalidHandleError("this stream was closed")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version of the protocol, and the handle as an integer."""
        return 0, int(self.handle)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return self.device is other.device and int(self.handle) == int(other.handle)

    def __hash__(self) -> int:
        return hash((self.device.ordinal, int(self.handle)))

    def __repr__(self) -> str:
        return f"<drv.Stream {int(self.handle):#x} on device {self.device.ordinal}>"

    @property
    def priority(self) -> int:
        """Priority that the driver gave the stream; lower numbers run first.

        It lies in :meth:`Device.stream_priority_range`, whatever was asked for.

        Raises
        ------
        InvalidHandleError
            If the stream does not exist any more.
        DroppedRuntimeError
            If its runtime was dropped by :func:`drv.reset`.
        """
        driver = self.runtime.driver
        self.device.use()
        return int(self.runtime.check(driver.cuStreamGetPriority(self.handle), "cuStreamGetPriority"))

    @property
    def non_blocking(self) -> bool:
        """Whether the stream ignores the legacy default stream; otherwise each waits for work queued on the other.

        Raises
        ------
        InvalidHandleError
            If the stream does not exist any more.
        DroppedRuntimeError
            If its runtime was dropped by :func:`drv.reset`.
        """
        driver = self.runtime.driver
        self.device.use()
        flags = self.runtime.check(driver.cuStreamGetFlags(self.handle), "cuStreamGetFlags")
        return bool(int(flags) & _NON_BLOCKING)

    @property
    def capture(self) -> Recording | None:
        """The capture whose graph takes what is queued here, of those that ``drv`` began; None where it is done.

        Examples
        --------
        >>> stream, other = drv.Stream(), drv.Stream()
        >>> with drv.capture(stream) as capture:
        ...     other.wait_stream(stream)
        ...     assert other.capture is capture
        >>> print(other.capture)
        None
        """
        runtime = self.runtime
        if not runtime.captures:
            return None
        self.device.use()
        status, identifier, *_ = runtime.captured_into(self.handle)
        if not int(status):
            return None
        known = {each.identifier: each for each in runtime.captures}
        return known.get(int(identifier))

    def query(self) -> bool:
        """Whether all work queued so far is done.

        Raises
        ------
        CudaError
            If that work, or earlier work, failed.
        """
        self.device.use()
        return self.runtime.completed(self.runtime.driver.cuStreamQuery(self.handle), "cuStreamQuery")

    def synchronize(self) -> None:
        """Wait until all work queued so far is done.

        Raises
        ------
        CudaError
            If that work, or earlier work, failed.
        """
        self.device.use()
        self.runtime.synchronized(self.runtime.driver.cuStreamSynchronize(self.handle), "cuStreamSynchronize")

    def wait_event(self, event: Event) -> None:
        """Have later work of this stream wait for the work that ``event`` marks; the host does not wait.

        An event that was never recorded orders nothing. ``event`` may be of another device.

        Raises
        ------
        InvalidHandleError
            If this stream or ``event`` was closed.
        """
        self.device.use()
        status = self.runtime.driver.cuStreamWaitEvent(self.handle, event.handle, 0)[0]
        if status:
            self.runtime.fail(status, "cuStreamWaitEvent")

    def wait_stream(self, stream: Stream) -> None:
        """Have later work of this stream wait for all work queued on ``stream`` so far; the host does not wait.

        ``stream`` may be of another device. The host does wait where the driver refuses to order the streams, before
        the error is raised: later work of this stream comes after that of ``stream`` either way.

        Raises
        ------
        InvalidHandleError
            If one of the streams was closed.
        """
        try:
            self.wait_event(stream.record_event())
        except BaseException:
            stream.drain()
            raise

    def drain(self) -> None:
        """Wait until all work queued so far is done, and raise nothing: for the way out of a failed call.

        What the work reads or writes may be freed or used for something else afterwards.
        """
        with contextlib.suppress(CudaError):
            self.device.use()
            self.runtime.driver.cuStreamSynchronize(self.handle)

    def record_event(self, event: Event | None = None) -> Event:
        """Record ``event``, or a new one without timing, and return it.

        Raises
        ------
        InvalidValueError
            If ``event`` is another device's.
        """
        if event is None:
            event = Event(self.device)
        event.record(self)
        return event

    def add_callback(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have ``function(*arguments)`` called on the host once everything queued so far is done.

        Work that is queued later waits for it. Where the stream is captured it is called at each launch of the graph. The
        function must not call CUDA, which raises
        :class:`NotPermittedError`. If it raises, the next synchronising call raises :class:`HostCallbackError` with
        that exception as its cause.

        Examples
        --------
        >>> stream = drv.Stream()
        >>> stream.add_callback(print, "copied")
        >>> stream.synchronize()
        copied
        """
        self.device.use()
        runtime = self.runtime
        if runtime.is_captured(self.handle):
            recorded = runtime.cache("recorded callbacks", lambda: RecordedCallbacks(runtime))
            graph = runtime.captured_into(self.handle)[2]
            recorded.record(self.handle, graph, function, arguments)
            return
        callbacks = runtime.cache("host callbacks", lambda: HostCallbacks(runtime))
        callbacks.queue(self, function, arguments)

    def close(self) -> None:
        """Destroy the stream, which the driver keeps until its work is done. A second call does nothing.

        A stream that was made :meth:`from_handle` or :meth:`from_object` stays as it is. Every use after that raises
        InvalidHandleError.
        """
        if self._owned:
            self.device.use()
            self._owned = False
            handle = self.handle
            del self.handle
            self.runtime.streams.pop(int(handle), None)
            self.runtime.check(self.runtime.driver.cuStreamDestroy(handle), "cuStreamDestroy")

    def __del__(self) -> None:
        if self._owned:
            self.runtime.release(self.device, "cuStreamDestroy", self.handle)
