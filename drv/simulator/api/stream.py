"""Driver calls about streams, events and host callbacks."""

from __future__ import annotations

import ctypes
from functools import partial
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
from drv.simulator.graphs.capture import CapturedRecord
from drv.simulator.scheduler import Event, Operation, Stream
from drv.simulator.work.events import EventRecordWork, EventWaitWork
from drv.simulator.work.host import HostWork

from .context import GREATEST_PRIORITY, LEAST_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.simulator.driver_state import Context
    from drv.simulator.graphs.capture import Capture

_NON_BLOCKING = int(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)
_DISABLE_TIMING = int(cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING)
_INTERPROCESS = int(cuda.CUevent_flags.CU_EVENT_INTERPROCESS)
_EVENT_FLAGS = int(cuda.CUevent_flags.CU_EVENT_BLOCKING_SYNC) | _DISABLE_TIMING | _INTERPROCESS
_RECORD_EXTERNAL = int(cuda.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL)
_WAIT_EXTERNAL = int(cuda.CUevent_wait_flags.CU_EVENT_WAIT_EXTERNAL)
_STREAM_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
NOT_READY = (CUresult.CUDA_ERROR_NOT_READY,)


class StreamCalls(DriverState):
    """``cuStream*`` without those about captures, ``cuEvent*``, ``cuLaunchHostFunc``."""

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
        return self.new_stream(context, bits, priority, self.current_green())

    def new_stream(self, context: Context, flags: int, priority: int, green: Any) -> tuple[Any, ...]:
        """The answer of a call that makes a stream: in the green context ``green``, if it is one."""
        handle, identifier = self.new_handle(), self.new_identifier()
        stream = Stream(
            handle,
            context,
            self.stream_name(context, f"stream {identifier}"),
            identifier,
            blocking=not flags,
            priority=max(GREATEST_PRIORITY, min(LEAST_PRIORITY, priority)),
            flags=flags,
            green=green,
        )
        self.streams[handle] = context.streams[handle] = stream
        self.stream_stacks[stream.name] = self.recorder.take()
        return SUCCESS, cuda.CUstream(handle)

    @from_finalizer
    @call()
    def cuStreamDestroy(self, hStream: Any) -> tuple[Any, ...]:
        handle = integer(hStream)
        if handle in self.detached:
            self.detached.discard(handle)
            return OK
        stream = self.streams.get(handle)
        if stream is None:
            raise invalid_handle()
        self.destroy_stream(stream)
        return OK

    def destroy_stream(self, stream: Stream) -> None:
        """End a stream; what is queued on it still runs."""
        handle = stream.handle
        capture: Capture | None = stream.capture
        if capture is not None:
            status = CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            capture.invalidate(status, f"{stream.name}, which is captured, was destroyed")
            if stream is capture.origin:
                # Nobody can end it any more.
                capture.finish()
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

    @call(unsafe=True)
    def cuStreamQuery(self, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        self._not_captured(stream, "asked about")
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
            self.wait(end, asked=True)
        return self.status(context)

    @call(unsafe=True)
    def cuStreamSynchronize(self, hStream: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        self._not_captured(stream, "waited for")
        self.wait_stream(stream)
        return self.status(stream.context)

    def _not_captured(self, stream: Stream, action: str) -> None:
        """Refuse a call about the state of a stream whose work becomes nodes of a graph."""
        capture: Capture | None = stream.capture
        if capture is not None:
            status = CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
            raise capture.invalidate(status, f"{stream.name}, which is captured, was {action}")
        if self.captures and stream is stream.context.legacy:
            self.refuse_implicit(stream.context)

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
    def cuStreamGetDevice(self, hStream: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUdevice(self.stream(hStream).context.device.ordinal)

    @call()
    def cuStreamWaitEvent(self, hStream: Any, hEvent: Any, Flags: Any) -> tuple[Any, ...]:
        stream = self.stream(hStream)
        event = self.event(hEvent)
        flags = unsigned(Flags, 32)
        if flags & ~_WAIT_EXTERNAL:
            raise invalid_value()
        if stream.capture is None and event.captured is None:
            self.wait_for_event(stream, event)
        elif flags:
            self._wait_as_node(stream, event)
        else:
            self._wait_in_capture(stream, event)
        return OK

    def wait_for_event(self, stream: Stream, event: Event) -> None:
        """Make what is queued on ``stream`` from now on come after the latest record of ``event``."""
        record = event.record
        if event.shared is not None:
            self.submit(stream, EventWaitWork(stream.context, event))
            return
        if record is None:
            return
        if record.done and self.scheduler.checker is None and not (stream.blocking and self.scheduler.busy):
            return
        self.submit(stream, EventWaitWork(stream.context, event))

    def _wait_as_node(self, stream: Stream, event: Event) -> None:
        """A captured stream waits, at each launch, for what the event stands for then."""
        if stream.capture is None or event.captured is not None:
            raise invalid_value()
        self.submit(stream, EventWaitWork(stream.context, event))

    def _wait_in_capture(self, stream: Stream, event: Event) -> None:
        """A stream waits for what was captured, and joins the capture; or a captured stream waits for something else."""
        capture: Capture | None = stream.capture
        captured: CapturedRecord | None = event.captured
        if captured is None:
            if event.record is not None and capture is not None:
                status = CUresult.CUDA_ERROR_STREAM_CAPTURE_ISOLATION
                reason = f"{stream.name} was to wait for an event that was recorded outside of the capture"
                raise capture.invalidate(status, reason)
            return
        if captured.capture.ended:
            raise CallError(CUresult.CUDA_ERROR_CAPTURED_EVENT)
        captured.capture.check()
        if capture is None:
            if stream is stream.context.legacy:
                status = CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                raise captured.capture.invalidate(
                    status, "the legacy default stream was to wait for work of it"
                )
        elif capture is not captured.capture:
            status = CUresult.CUDA_ERROR_STREAM_CAPTURE_MERGE
            reason = f"{stream.name} was to wait for work of another capture"
            capture.invalidate(status, reason)
            raise captured.capture.invalidate(status, reason)
        captured.capture.join(stream, captured.dependencies)

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
        return self._record(hEvent, hStream, external=False)

    @call()
    def cuEventRecordWithFlags(self, hEvent: Any, hStream: Any, flags: Any) -> tuple[Any, ...]:
        bits = unsigned(flags, 32)
        if bits & ~_RECORD_EXTERNAL:
            raise invalid_value()
        return self._record(hEvent, hStream, external=bool(bits))

    def _record(self, hEvent: Any, hStream: Any, *, external: bool) -> tuple[Any, ...]:
        event = self.event(hEvent)
        stream = self.stream(hStream)
        if event.context is not stream.context:
            raise invalid_handle()
        capture: Capture | None = stream.capture
        if capture is None:
            if external:
                raise invalid_value()
            event.captured = None
            self.record(event, stream)
        elif external:
            self.submit(stream, EventRecordWork(stream.context, event))
        else:
            capture.check()
            event.captured = CapturedRecord(capture, dict(capture.forks[stream].dependencies))
        return OK

    def record(self, event: Event, stream: Stream) -> None:
        """Record ``event`` at the end of ``stream``."""
        self.submit(stream, EventRecordWork(stream.context, event))

    @call(unsafe=True)
    def cuEventQuery(self, hEvent: Any) -> tuple[Any, ...]:
        event = self.event(hEvent)
        self.usable(event.context)
        self._not_in_capture(event)
        record, shared = event.record, event.shared
        if record is not None and not record.done:
            self.scheduler.progress(record)
        if shared is not None and not shared.reached(shared.latest):
            return NOT_READY
        return OK if record is None else self._query(event.context, [record])

    @call(unsafe=True)
    def cuEventSynchronize(self, hEvent: Any) -> tuple[Any, ...]:
        event = self.event(hEvent)
        self.usable(event.context)
        self._not_in_capture(event)
        if event.record is not None:
            self.wait(event.record)
        if event.shared is not None:
            self.scheduler.wait_for(partial(event.shared.reached, event.shared.latest))
        return self.status(event.context)

    @staticmethod
    def _not_in_capture(*events: Event) -> None:
        """Refuse a call about the state of events that stand for nodes of a graph."""
        for event in events:
            captured: CapturedRecord | None = event.captured
            if captured is not None:
                status = CUresult.CUDA_ERROR_CAPTURED_EVENT
                raise captured.capture.invalidate(
                    status, "an event was asked about or waited for that was recorded in it"
                )

    @call(1)
    def cuEventElapsedTime(self, hStart: Any, hEnd: Any) -> tuple[Any, ...]:
        start, end = self.event(hStart), self.event(hEnd)
        self.usable(start.context)
        if start.context is not end.context or not (start.timing and end.timing):
            raise invalid_handle()
        self._not_in_capture(start, end)
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
    def cuLaunchHostFunc_v2(self, hStream: Any, fn: Any, userData: Any, syncMode: Any) -> tuple[Any, ...]:
        # How a thread waits for its turn is nothing that a program could notice.
        if unsigned(syncMode, 32) not in (0, 1):
            raise invalid_value()
        return self.cuLaunchHostFunc(hStream, fn, userData)

    @call()
    def cuStreamAddCallback(self, hStream: Any, callback: Any, userData: Any, flags: Any) -> tuple[Any, ...]:
        address, data = integer(callback), host_address(userData)
        stream = self.stream(hStream)
        if address == 0 or unsigned(flags, 32) != 0:
            raise invalid_value()
        if stream.capture is not None:
            status = CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
            raise stream.capture.invalidate(
                status, "cuStreamAddCallback cannot be captured, cuLaunchHostFunc can"
            )
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
