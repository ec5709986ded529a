"""Events: marks in a stream, for ordering and for time."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from .current import current_device
from .errors import CudaError, InvalidHandleError, InvalidValueError

if TYPE_CHECKING:
    from .device import Device
    from .stream import Stream

_NOT_READY = 600
_IPC_HANDLE_BYTES = 64
_BLOCKING_SYNC, _DISABLE_TIMING, _INTERPROCESS = 1, 2, 4


class Event:
    """A mark in a stream: it orders streams and measures time between two marks.

    Parameters
    ----------
    device : Device, optional
        Whose streams record it; this thread's current device by default.
    timing : bool
        Whether recording keeps the time, for :meth:`elapsed_time`.
    blocking : bool
        Whether :meth:`synchronize` sleeps instead of spinning.
    interprocess : bool
        Whether other processes may open the event; excludes ``timing``.

    Attributes
    ----------
    device : Device
        Whose streams record it.
    handle
        ``CUevent``, as the driver's functions take it.

    Raises
    ------
    InvalidValueError
        If both ``timing`` and ``interprocess`` are true.

    Examples
    --------
    The second stream waits for the first without the host waiting for either:

    >>> first, second = drv.Stream(), drv.Stream()
    >>> event = first.record_event()
    >>> second.wait_event(event)
    """

    __slots__ = (
        "__weakref__",
        "_owned",
        "_recorded",
        "device",
        "handle",
        "interprocess",
        "runtime",
        "timing",
    )

    def __init__(
        self,
        device: Device | None = None,
        *,
        timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self._owned = False
        if interprocess and timing:
            raise InvalidValueError("an interprocess event cannot keep time: pass timing=False")
        if device is None:
            device = current_device()
        self.device = device
        self.runtime = runtime = device.runtime
        self.timing = timing
        self.interprocess = interprocess
        self._recorded = False
        device.use()
        runtime.collect()
        flags = (
            (_BLOCKING_SYNC if blocking else 0)
            | (0 if timing else _DISABLE_TIMING)
            | (_INTERPROCESS if interprocess else 0)
        )
        self.handle = runtime.check(
            runtime.driver.cuEventCreate(flags), "cuEventCreate", f"device {device.ordinal}"
        )
        self._owned = True

    @classmethod
    def from_handle(cls, device: Device, handle: int, *, timing: bool = False) -> Event:
        """An event that other code created and will destroy.

        Parameters
        ----------
        device : Device
            Whose streams record it.
        handle : int
            Value of a ``CUevent`` or ``cudaEvent_t``.
        timing : bool
            Whether it keeps time, for :meth:`elapsed_time`.
        """
        from cuda.bindings.driver import CUevent

        self = cls._bare(device, timing=timing, interprocess=False)
        self.handle = CUevent(int(handle))
        return self

    @classmethod
    def from_ipc_handle(cls, device: Device, ipc_handle: bytes) -> Event:
        """Open an event that another process exported with :meth:`ipc_handle`.

        Parameters
        ----------
        device : Device
            Whose streams record it.
        ipc_handle : bytes
            The 64 bytes.

        Raises
        ------
        InvalidValueError
            If ``ipc_handle`` does not have 64 bytes.
        InvalidHandleError
            If they are not such a handle.
        """
        from cuda.bindings.driver import CUipcEventHandle

        if len(ipc_handle) != _IPC_HANDLE_BYTES:
            raise InvalidValueError(
                f"an IPC handle is {_IPC_HANDLE_BYTES} bytes, {len(ipc_handle)} bytes were given"
            )
        wrapped = CUipcEventHandle()
        ctypes.memmove(wrapped.getPtr(), ipc_handle, _IPC_HANDLE_BYTES)
        self = cls._bare(device, timing=False, interprocess=True)
        device.use()
        driver = self.runtime.driver
        self.handle = self.runtime.check(driver.cuIpcOpenEventHandle(wrapped), "cuIpcOpenEventHandle")
        self._owned = True
        return self

    @classmethod
    def _bare(cls, device: Device, *, timing: bool, interprocess: bool) -> Event:
        self = cls.__new__(cls)
        self._owned = False
        self.device = device
        self.runtime = device.runtime
        self.timing = timing
        self.interprocess = interprocess
        # Whoever made it may have recorded it; the driver knows.
        self._recorded = True
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "handle":
            raise InvalidHandleError("this event was closed")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<drv.Event {int(self.handle):#x} on device {self.device.ordinal}>"

    def ipc_handle(self) -> bytes:
        """The 64 bytes from which another process opens this event.

        Raises
        ------
        InvalidValueError
            If the event was not made with ``interprocess=True``.
        """
        if not self.interprocess:
            raise InvalidValueError("this event was not made with interprocess=True")
        self.device.use()
        handle = self.runtime.check(
            self.runtime.driver.cuIpcGetEventHandle(self.handle), "cuIpcGetEventHandle"
        )
        return ctypes.string_at(handle.getPtr(), _IPC_HANDLE_BYTES)

    def record(self, stream: Stream) -> None:
        """Mark the end of what ``stream`` holds now; an earlier mark is forgotten.

        Raises
        ------
        InvalidValueError
            If ``stream`` is another device's.
        """
        if stream.device is not self.device:
            raise InvalidValueError(
                f"an event of device {self.device.ordinal} cannot be recorded on a stream of device "
                f"{stream.device.ordinal}: make the event on the stream's device"
            )
        self.device.use()
        status = self.runtime.driver.cuEventRecord(self.handle, stream.handle)[0]
        if status:
            self.runtime.fail(status, "cuEventRecord")
        self._recorded = True

    def wait(self, stream: Stream) -> None:
        """Have later work of ``stream``, on any device, wait for the marked work; the host does not wait.

        Raises
        ------
        InvalidHandleError
            If the event or the stream was closed.
        """
        stream.wait_event(self)

    def query(self) -> bool:
        """Whether the marked work is done; true where nothing was marked.

        Raises
        ------
        CudaError
            If that work, or earlier work, failed.
        """
        self.device.use()
        return self.runtime.completed(self.runtime.driver.cuEventQuery(self.handle), "cuEventQuery")

    def synchronize(self) -> None:
        """Wait until the marked work is done.

        Raises
        ------
        CudaError
            If that work, or earlier work, failed.
        """
        self.device.use()
        self.runtime.synchronized(self.runtime.driver.cuEventSynchronize(self.handle), "cuEventSynchronize")

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this mark to that of ``end``, on the device's clock.

        Raises
        ------
        InvalidValueError
            If either event was made without ``timing=True``, was never recorded, or is another device's.
        CudaError
            If either is not done yet.
        """
        for event, which in ((self, "start"), (end, "end")):
            if not event.timing:
                raise InvalidValueError(f"the {which} event was made without timing=True")
            if not event._recorded:
                raise InvalidValueError(f"the {which} event was never recorded")
        self.device.use()
        driver = self.runtime.driver
        result = driver.cuEventElapsedTime(self.handle, end.handle)
        if result[0] and int(result[0]) == _NOT_READY:
            raise CudaError(
                "elapsed_time: the work between the events is not done; synchronise with the end event first",
                status=result[0].name,
                call="cuEventElapsedTime",
            )
        return float(self.runtime.check(result, "cuEventElapsedTime"))

    def close(self) -> None:
        """Destroy the event. A second call does nothing; an event made :meth:`from_handle` stays as it is.

        Every use after that raises InvalidHandleError.
        """
        if self._owned:
            self.device.use()
            self._owned = False
            handle = self.handle
            del self.handle
            self.runtime.check(self.runtime.driver.cuEventDestroy(handle), "cuEventDestroy")

    def __del__(self) -> None:
        if self._owned:
            self.runtime.release(self.device, "cuEventDestroy", self.handle)
