"""Driver calls about streams, events and host callbacks."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    from_finalizer,
    host_address,
    integer,
    invalid_handle,
    invalid_value,
    unsigned,
)
from drv.simulator.driver_state import PER_THREAD_STREAM, DriverState
from drv.simulator.scheduler import Event, Operation, Stream
from drv.simulator.work.events import EventRecordWork, EventWaitWork
from drv.simulator.work.host import HostWork

from .context import GREATEST_PRIORITY, LEAST_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Callable

_NON_BLOCKING = int(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)
_DISABLE_TIMING = int(cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING)
_INTERPROCESS = int(cuda.CUevent_flags.CU_EVENT_INTERPROCESS)
_EVENT_FLAGS = int(cuda.CUevent_flags.CU_EVENT_BLOCKING_SYNC) | _DISABLE_TIMING | _INTERPROCESS
_STREAM_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
NOT_READY = (CUresult.CUDA_ERROR_NOT_READY,)


class StreamCalls(DriverState):
    """``cuStream*`` without capture, ``cuEvent*``, ``cuLaunchHostFunc``."""

    # Streams

    @call(1)
    def cuStreamCreate(self, Flags: Any) -> tuple[Any, ...]:
        return self._create_stream(Flags, 0)

    @call(1)
    def cuStreamCreateWithPriority(self, flags: Any, priority: Any) -> tuple[Any, ...]:
        return self._create_stream(flags, integer(priority))

    def _create_stream(self, flags: Any, priority: int) -> tuple[Any, ...]:
        context = self.current()
        bits = unsigned(flags, 32)
        if bits & ~_NON_BLOCKING:
            raise invalid_value()
        handle, identifier = self.new_handle(), self.new_identifier()
        stream = Stream(
            handle,
            context,
            self._stream_name(context, f"stream {identifier}"),
            identifier,
            blocking=not bits,
            priority=max(GREATEST_PRIORITY, min(LEAST_PRIORITY, priority)),
            flags=bits,
        )
        self.streams[handle] = context.streams[handle] = stream
        return SUCCESS, cuda.CUstream(handle)

    @from_finalizer
    @call()
    def cuStreamDestroy(self, hStream: Any) -> tuple[Any, ...]:
        handle = integer(hStream)
        stream = self.streams.get(handle)
        if stream is None:
            raise invalid_handle()
        stream.destroyed = True
        self.accepted.clear()
        del self.streams[handle]
        del stream.context.streams[handle]
        # Queued work still runs, and what comes after the whole context still comes after it.
        context, observed = stream.context, self.observer is not None
        context.orphans = [
            orphan
            for orphan in (*context.orphans, stream)
            if orphan.last is not None and (orphan.pending or (observed and not orphan.last.waited))
        ]
        return OK

    @call()
    def cuStreamQuery(self, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        ends = [s.last for s in self.streams_behind(stream) if s.last is not None]
        for end in ends:
            if not end.done:
                self.scheduler.progress(end)
                break
        return self._query(stream.context, ends)

    def _query(self, context: Any, ends: list[Operation]) -> tuple[Any, ...]:
        if not all(end.done for end in ends):
            return NOT_READY
        for end in ends:
            self.wait(end)
        return self.status(context)

    @call()
    def cuStreamSynchronize(self, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        self.wait_stream(stream)
        return self.status(stream.context)

    @call(1)
    def cuStreamGetFlags(self, hStream: Any) -> tuple[Any, ...]:
        return SUCCESS, self.stream(hStream).flags

    @call(1)
    def cuStreamGetPriority(self, hStream: Any) -> tuple[Any, ...]:
        return SUCCESS, self.stream(hStream).priority

    @call(1)
    def cuStreamGetId(self, hStream: Any) -> tuple[Any, ...]:
        return SUCCESS, self.stream(hStream).identifier

    @call(1)
    def cuStreamGetCtx(self, hStream: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUcontext(self.stream(hStream).context.handle)

    @call(2)
    def cuStreamGetCtx_v2(self, hStream: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUcontext(self.stream(hStream).context.handle), cuda.CUgreenCtx(0)

    @call(1)
    def cuStreamGetDevice(self, hStream: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUdevice(self.stream(hStream).context.device.ordinal)

    @call()
    def cuStreamCopyAttributes(self, dst: Any, src: Any) -> tuple[Any, ...]:
        self.stream(dst)
        self.stream(src)
        return OK

    @call()
    def cuStreamWaitEvent(self, hStream: Any, hEvent: Any, Flags: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        event = self.event(hEvent)
        if unsigned(Flags, 32) != 0:
            raise invalid_value()
        self.wait_for_event(stream, event)
        return OK

    def wait_for_event(self, stream: Stream, event: Event) -> None:
        """Make what is queued on ``stream`` from now on come after the latest record of ``event``."""
        record = event.record
        if record is None:
            return
        if record.done and self.scheduler.checker is None and not (stream.blocking and self.scheduler.busy):
            return
        self.submit(stream, EventWaitWork(stream.context, event))

    # Events

    @call(1)
    def cuEventCreate(self, Flags: Any) -> tuple[Any, ...]:
        context = self.current()
        flags = unsigned(Flags, 32)
        if flags & ~_EVENT_FLAGS or (flags & _INTERPROCESS and not flags & _DISABLE_TIMING):
            raise invalid_value()
        handle = self.new_handle()
        self.events[handle] = Event(handle, context, not flags & _DISABLE_TIMING, bool(flags & _INTERPROCESS))
        return SUCCESS, cuda.CUevent(handle)

    @from_finalizer
    @call()
    def cuEventDestroy(self, hEvent: Any) -> tuple[Any, ...]:
        event = self.event(hEvent)
        del self.events[event.handle]
        return OK

    @call()
    def cuEventRecord(self, hEvent: Any, hStream: Any) -> tuple[Any, ...]:
        return self._record(hEvent, hStream)

    @call()
    def cuEventRecordWithFlags(self, hEvent: Any, hStream: Any, flags: Any) -> tuple[Any, ...]:
        if unsigned(flags, 32) != 0:
            raise invalid_value()
        return self._record(hEvent, hStream)

    def _record(self, hEvent: Any, hStream: Any) -> tuple[Any, ...]:
        event = self.event(hEvent)
        stream = self.stream(hStream)
        if event.context is not stream.context:
            raise invalid_handle()
        self.record(event, stream)
        return OK

    def record(self, event: Event, stream: Stream) -> None:
        """Record ``event`` at the end of ``stream``."""
        self.submit(stream, EventRecordWork(stream.context, event))

    @call()
    def cuEventQuery(self, hEvent: Any) -> tuple[Any, ...]:
        event = self.event(hEvent)
        self.usable(event.context)
        if event.record is None:
            return OK
        if not event.record.done:
            self.scheduler.progress(event.record)
        return self._query(event.context, [event.record])

    @call()
    def cuEventSynchronize(self, hEvent: Any) -> tuple[Any, ...]:
        event = self.event(hEvent)
        self.usable(event.context)
        if event.record is not None:
            self.wait(event.record)
        return self.status(event.context)

    @call(1)
    def cuEventElapsedTime(self, hStart: Any, hEnd: Any) -> tuple[Any, ...]:
        start, end = self.event(hStart), self.event(hEnd)
        self.usable(start.context)
        if start.context is not end.context or not (start.timing and end.timing):
            raise invalid_handle()
        if start.record is None or end.record is None:
            raise invalid_handle()
        if not (start.record.done and end.record.done):
            raise CallError(CUresult.CUDA_ERROR_NOT_READY)
        return SUCCESS, (end.record.time - start.record.time) / 1e6

    # Host callbacks

    @call()
    def cuLaunchHostFunc(self, hStream: Any, fn: Any, userData: Any) -> tuple[Any, ...]:
        address, data = integer(fn), host_address(userData)
        stream = self.stream(hStream)
        if address == 0:
            raise invalid_value()
        self.submit(stream, HostWork(stream.context, address, data))
        return OK

    @call()
    def cuStreamAddCallback(self, hStream: Any, callback: Any, userData: Any, flags: Any) -> tuple[Any, ...]:
        address, data = integer(callback), host_address(userData)
        stream = self.stream(hStream)
        if address == 0 or unsigned(flags, 32) != 0:
            raise invalid_value()
        function = _STREAM_CALLBACK(address)
        run = self._callback(stream, function, data)
        self.scheduler.enqueue(self.operation(stream, "stream callback", run, host=True, always=True))
        return OK

    def _callback(self, stream: Stream, function: Any, data: int) -> Callable[[], None]:
        handle = 0 if stream.handle <= PER_THREAD_STREAM else stream.handle
        context = stream.context

        def run() -> None:
            status = context.lost if context.lost is not None else CUresult.CUDA_SUCCESS
            function(handle, int(status), data)

        return run
