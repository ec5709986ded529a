"""``Event``: a mark in a stream, for ordering and for time."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, NoReturn

import drv

from . import device as devices
from .current import index_or_current
from .state import cuda_state

if TYPE_CHECKING:
    from .current import DeviceArgument
    from .stream import Stream

#: Two threads may record a new event at once; only one of them makes it.
_making = threading.Lock()


class Event:
    """A mark in a stream: other streams can wait for it, and the time between two can be asked.

    The driver's event is created when the event is first recorded, on that stream's device. From then on only
    streams of that device can record it; streams of all devices can wait for it. It cannot be copied or pickled: that
    raises TypeError.

    >>> _ = drv.simulator.install()
    >>> side, done = tensor.cuda.Stream(), tensor.cuda.Event()
    >>> x = tensor.zeros(4, device="cuda")
    >>> done.record()  # on the current stream
    >>> done.wait(side)  # what side gets from now on comes after zeros()

    Parameters
    ----------
    enable_timing : bool
        Whether to keep the time, for :meth:`elapsed_time`.
    blocking : bool
        Whether :meth:`synchronize` sleeps instead of spinning.
    interprocess : bool
        Whether other processes may open the event; excludes ``enable_timing``.

    Raises
    ------
    ValueError
        If both ``enable_timing`` and ``interprocess`` are asked for.
    """

    __slots__ = ("__weakref__", "_blocking", "_interprocess", "_native", "_timing")

    _native: drv.Event | None

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if enable_timing and interprocess:
            raise ValueError("an interprocess event cannot keep time: pass enable_timing=False")
        self._timing = bool(enable_timing)
        self._blocking = bool(blocking)
        self._interprocess = bool(interprocess)
        self._native = None

    @classmethod
    def from_ipc_handle(cls, device: DeviceArgument, handle: bytes) -> Event:
        """Open the event of another process, for ``device``: ``handle`` is what its :meth:`ipc_handle` returned.

        Raises
        ------
        RuntimeError
            If the handle is not that of an event that is there.
        ValueError
            For the CPU, or a device that does not exist.
        """
        self = cls(interprocess=True)
        self._native = drv.Event.from_ipc_handle(cuda_state(index_or_current(device)).native, handle)
        return self

    @property
    def device(self) -> devices.device | None:
        """Device of the streams that record the event; ``None`` before it was recorded."""
        return None if self._native is None else devices.device("cuda", self._native.device.ordinal)

    @property
    def cuda_event(self) -> int:
        """Value of the driver's handle, an int; 0 before the event was recorded."""
        return 0 if self._native is None else int(self._native.handle)

    def record(self, stream: Stream | None = None) -> None:
        """Mark the end of what ``stream``, by default the current one, holds now; an earlier mark is forgotten.

        Raises
        ------
        TypeError
            If ``stream`` is not a :class:`tensor.cuda.Stream`.
        RuntimeError
            If the event was recorded on another device before.
        """
        target = _stream_or_current(stream)
        native = self._native
        if native is None:
            native = self._make(target.native.device)
        if native.device is not target.native.device:
            raise self._wrong_device(native, target)
        native.record(target.native)

    def wait(self, stream: Stream | None = None) -> None:
        """Have later work of ``stream``, by default the current one, wait for the mark; the host goes on.

        Does nothing if the event was never recorded.

        Raises
        ------
        TypeError
            If ``stream`` is not a :class:`tensor.cuda.Stream`.
        """
        if self._native is not None:
            _stream_or_current(stream).native.wait_event(self._native)

    def query(self) -> bool:
        """Whether the marked work is done; true where nothing was marked.

        Raises
        ------
        RuntimeError
            One of drv's classes, if that work, or earlier work, failed.
        """
        return self._native is None or self._native.query()

    def synchronize(self) -> None:
        """Wait until the marked work is done. The host waits.

        Raises
        ------
        RuntimeError
            One of drv's classes, if that work, or earlier work, failed.
        """
        if self._native is not None:
            self._native.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this mark to that of ``end_event``.

        Raises
        ------
        TypeError
            If ``end_event`` is not an event.
        ValueError
            If either event does not keep time or was never recorded.
        RuntimeError
            If either is not done yet, or they were recorded on different devices.
        """
        if not isinstance(end_event, Event):
            raise TypeError(f"elapsed_time() expects a tensor.cuda.Event, got {type(end_event).__name__}")
        named = (("start", self), ("end", end_event))
        for name, event in named:
            if not event._timing:
                raise ValueError(
                    f"Both events must be created with argument 'enable_timing=True'; the {name} event was not"
                )
        start, end = self._native, end_event._native
        if start is None or end is None:
            name = "start" if start is None else "end"
            raise ValueError(
                f"Both events must be recorded before calculating elapsed time; the {name} event was not"
            )
        if start.device is not end.device:
            raise RuntimeError(
                f"elapsed_time() needs two events of one device, the start event was recorded on {self.device} "
                f"and the end event on {end_event.device}"
            )
        for name, event in named:
            if not event.query():
                raise RuntimeError(
                    f"Both events must be completed before calculating elapsed time; the {name} event is not: "
                    "call its synchronize() first"
                )
        return start.elapsed_time(end)

    def ipc_handle(self) -> bytes:
        """Bytes from which another process opens this event. One never recorded becomes the current device's.

        Raises
        ------
        RuntimeError
            If the event was not made with ``interprocess=True``.
        """
        return (self._native or self._make(drv.current_device())).ipc_handle()

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        """For functions of :mod:`ctypes`."""
        return ctypes.c_void_p(self.cuda_event)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be copied or pickled: make it with interprocess=True and send ipc_handle()"
        )

    def __repr__(self) -> str:
        return (
            f"<tensor.cuda.Event {self.cuda_event:#x}>"
            if self._native
            else "<tensor.cuda.Event uninitialized>"
        )

    def _make(self, device: drv.Device) -> drv.Event:
        with _making:
            if self._native is None:
                self._native = drv.Event(
                    device, timing=self._timing, blocking=self._blocking, interprocess=self._interprocess
                )
            return self._native

    def _wrong_device(self, native: drv.Event, stream: Stream) -> drv.CudaError:
        if not native.runtime.alive:
            return drv.DroppedRuntimeError(
                "this event belongs to a runtime that drv.reset() dropped; make a new one"
            )
        return drv.InvalidValueError(
            f"Event device {self.device} does not match recording stream's device {stream.device}: streams of "
            "other devices can only wait for the event"
        )


def _stream_or_current(stream: Stream | None) -> Stream:
    """The stream that an argument means."""
    if stream is None:
        return cuda_state().local.stream
    # Streams build on events: they are told by what they stand for.
    if isinstance(getattr(stream, "native", None), drv.Stream):
        return stream
    raise TypeError(
        f"expected a tensor.cuda.Stream, or None for the current one, got {type(stream).__name__}; for a stream "
        "of another library use tensor.cuda.ExternalStream(pointer)"
    )
