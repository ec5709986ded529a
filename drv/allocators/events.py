"""Marks in streams that say when freed memory is free: recorded at the free, polled later, used again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drv.runtime import Runtime

_DISABLE_TIMING = 2
_NOT_READY = 600

#: Device ordinal and handle of a stream.
StreamKey = tuple[int, int]


class StreamEvents:
    """Events of the driver's streams. Passed ones are recorded again, so that few are ever made."""

    __slots__ = ("_idle", "runtime")

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._idle: dict[int, list[Any]] = {}

    def ready(self) -> bool:
        """Whether the driver may be called now: not from a host callback, nor by a finalizer inside the driver.

        Nor while a stream is captured, which to ask about an event would make void.
        """
        runtime = self.runtime
        if not runtime.alive:
            return True
        return not (
            runtime.captures or runtime.current.in_callback or (runtime.simulated and runtime.driver.busy())
        )

    @property
    def capturing(self) -> bool:
        """Whether a stream is captured."""
        return bool(self.runtime.captures)

    @property
    def alive(self) -> bool:
        """Whether the runtime is still in use."""
        return self.runtime.alive

    def record(self, key: StreamKey) -> Any:
        """An event behind all work that the stream has queued."""
        ordinal, stream = key
        runtime = self.runtime
        runtime.device(ordinal).use()
        idle = self._idle.setdefault(ordinal, [])
        if idle:
            event = idle.pop()
        else:
            event = runtime.check(
                runtime.driver.cuEventCreate(_DISABLE_TIMING), "cuEventCreate", f"device {ordinal}"
            )
        status = runtime.driver.cuEventRecord(event, stream)[0]
        if status:
            idle.append(event)
            runtime.fail(status, "cuEventRecord", f"stream {stream:#x} of device {ordinal}")
        return event

    def passed(self, key: StreamKey, event: Any) -> bool:
        """Whether the work behind ``event`` is done; if so, the event is kept for another use."""
        runtime = self.runtime
        runtime.device(key[0]).use()
        status = runtime.driver.cuEventQuery(event)[0]
        if status:
            if int(status) == _NOT_READY:
                return False
            runtime.fail(status, "cuEventQuery")
        self._idle[key[0]].append(event)
        return True

    def wait(self, key: StreamKey, event: Any) -> None:
        """Wait until the work behind ``event`` is done."""
        runtime = self.runtime
        runtime.device(key[0]).use()
        runtime.check(runtime.driver.cuEventSynchronize(event), "cuEventSynchronize")
        self._idle[key[0]].append(event)

    def wait_for_device(self, ordinal: int) -> None:
        """Wait until all work of a device is done."""
        device = self.runtime.device(ordinal)
        device.use()
        self.runtime.check(self.runtime.driver.cuCtxSynchronize(), "cuCtxSynchronize")
