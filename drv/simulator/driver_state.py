"""What every call of the simulated driver stands on: its objects, its lock, and how a call answers."""

from __future__ import annotations

import os
import threading
from collections import deque
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any

from cuda.bindings.driver import CUresult

from drv.python_stack import Frame, StackRecorder, format_stack

from .call_log import CallLog
from .checks.findings import Findings
from .device_properties import SimulatedDevice
from .driver_call import OK, CallError, integer, invalid_handle
from .faults import FaultRecord
from .injection import Injection
from .memory.address_space import AddressSpace, Allocation
from .options import Options, visible_devices
from .scheduler import Event, GraphLaunch, Operation, Scheduler, Stream
from .unexecuted import Accepted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .checks.races import RaceChecker
    from .faults import DeviceFault
    from .graphs.capture import Capture
    from .work.work import Work

LEGACY_STREAM = 1
PER_THREAD_STREAM = 2
#: Capture modes: what a capture forbids of everybody, of its own thread, and of nobody.
GLOBAL, THREAD_LOCAL, RELAXED = range(3)


@dataclass(slots=True, eq=False)
class Context:
    """A context. ``lost`` is the status of the error that has made it unusable."""

    handle: int
    identifier: int
    device: SimulatedDevice
    primary: bool = False
    flags: int = 0
    active: bool = True
    destroyed: bool = False
    lost: CUresult | None = None
    report: str | None = None
    #: Status of an error that the next synchronising call answers with, once.
    passing: CUresult | None = None
    retained: int = 0
    #: How often it was attached beside its making (``cuCtxAttach``).
    attached: int = 0
    streams: dict[int, Stream] = field(default_factory=dict)
    per_thread: dict[int, Stream] = field(default_factory=dict)
    legacy: Stream | None = None
    #: An operation that everything queued in the context later comes after (``cuMemcpyPeer``).
    barrier: Operation | None = None
    #: Last operations of destroyed streams, which a synchronisation of the context still waits for.
    orphans: list[Stream] = field(default_factory=list)
    #: Streams on which branches of graphs run, and others that are nobody's.
    branches: list[Stream] = field(default_factory=list)
    #: Of these, the streams of records and of waits of the whole context.
    marks: dict[str, Stream] = field(default_factory=dict)
    peers: set[int] = field(default_factory=set)
    limits: dict[int, int] = field(default_factory=dict)
    cache_config: int = 0

    def all_streams(self) -> list[Stream]:
        """Streams of the context, default ones and destroyed ones with unfinished work included."""
        legacy = [self.legacy] if self.legacy is not None else []
        return [
            *legacy,
            *self.per_thread.values(),
            *self.streams.values(),
            *self.orphans,
            *self.branches,
        ]


class _ThreadState(threading.local):
    def __init__(self) -> None:
        self.contexts: list[Context] = []
        #: The green contexts among them, by how many there were when each became the last.
        self.greens: dict[int, Any] = {}
        self.capture_mode = 0


class DriverState:
    """Objects of one simulated driver. The ``cu...`` calls are in the classes that extend this one."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        self.options = options
        self.environment = os.environ if environment is None else environment
        self.lock = threading.RLock()
        self.initialised = False
        self.closed = False
        #: The machine's devices, and those that are visible, by ordinal.
        self.machine = [SimulatedDevice(options, index) for index in range(options.devices)]
        self.devices: list[SimulatedDevice] = []
        self.memory = AddressSpace()
        self.execute = options.execute
        #: Whether of what runs a sample is enough, so that most of new memory stays untouched.
        self.sampled = False
        self.launch_blocking = self.environment.get("CUDA_LAUNCH_BLOCKING", "") not in ("", "0")
        self.recorder = StackRecorder(options.check != "off" and options.execute)
        self.inject = Injection()
        self.postponed: deque[Callable[[], Any]] = deque()
        self.thread = _ThreadState()
        self.scheduler = Scheduler(options.schedule, options.seed, self.lock, self._operation_failed)
        #: Launches that nothing can be wrong with as long as no object they name changes, of a driver that
        #: runs nothing: see :mod:`drv.simulator.unexecuted`.
        self.accepted = Accepted()
        self.contexts: dict[int, Context] = {}
        self.primary: dict[int, Context] = {}
        self.streams: dict[int, Stream] = {}
        #: Streams of green contexts that are gone, which can be destroyed and nothing else.
        self.detached: set[int] = set()
        #: By the names that reports use, where streams were created.
        self.stream_stacks: dict[str, tuple[Frame, ...]] = {}
        self.events: dict[int, Event] = {}
        self._next_handle = 0x5000_0000_0000
        self._next_identifier = 0
        #: Captures that have begun and not ended, and why the last void one is void.
        self.captures: list[Capture] = []
        self.capture_report: str | None = None
        self.log = CallLog()
        #: The launch of a graph whose nodes are being queued.
        self.graph_launch: GraphLaunch | None = None
        self.last_report: str | None = None
        #: Every fault so far, the earliest first.
        self.faults: list[FaultRecord] = []
        #: What simulated libraries have in common, by their names.
        self.shared: dict[str, Any] = {}
        self.findings = Findings()
        #: The race checker, which is also the observer of every access; none unless it is asked for.
        self.observer: RaceChecker | None = None
        if options.check in ("race", "full") and options.execute:
            # What checks for races is loaded when it is asked for.
            from .checks.races import RaceChecker

            self.observer = self.scheduler.checker = RaceChecker(
                options.check == "full", self.findings, same_values=options.same_values
            )

    def busy(self) -> bool:
        """Whether the calling thread is inside a call already (a finalizer run by the garbage collector is)."""
        return bool(self.lock._is_owned())  # type: ignore[attr-defined]

    def close(self) -> None:
        """End: nothing that is queued runs any more, and every later call answers that the driver is gone."""
        with self.lock:
            for context in self.contexts.values():
                for stream in context.all_streams():
                    self.scheduler.discard(stream)
            self.accepted.clear()
            self.closed = True
            self.scheduler.interrupts.close()

    def new_handle(self) -> int:
        """A handle that was never given out, so that a stale one is always recognised."""
        self._next_handle += 16
        return self._next_handle

    def new_identifier(self) -> int:
        """A number unique among this driver's objects."""
        self._next_identifier += 1
        return self._next_identifier

    def find_devices(self) -> None:
        """Fill ``devices`` as ``CUDA_VISIBLE_DEVICES`` says."""
        visible = visible_devices(self.environment, [device.uuid_text for device in self.machine])
        self.devices = [self.machine[index] for index in visible]
        for ordinal, device in enumerate(self.devices):
            device.ordinal = ordinal

    def device(self, dev: Any) -> SimulatedDevice:
        """The device that an argument names."""
        ordinal = integer(dev)
        if not 0 <= ordinal < len(self.devices):
            raise CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)
        return self.devices[ordinal]

    def current(self) -> Context:
        """The calling thread's context, usable."""
        stack = self.thread.contexts
        if not stack:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return self.usable(stack[-1])

    def usable(self, context: Context) -> Context:
        """``context``, or the error that keeps it from being used."""
        if context.lost is not None:
            raise CallError(context.lost)
        if not context.active:
            raise CallError(CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return context

    def context(self, ctx: Any) -> Context:
        """The context that a handle names."""
        context = self.contexts.get(integer(ctx))
        if context is None:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        return context

    def stream(self, hStream: Any) -> Stream:
        """The stream that a handle names; 0, 1 and 2 are the current context's default streams."""
        handle = hStream if type(hStream) is int else integer(hStream)
        if handle > PER_THREAD_STREAM:
            stream = self.streams.get(handle)
            if stream is None:
                raise invalid_handle()
            self.usable(stream.context)
            return stream
        context = self.current()
        if handle == PER_THREAD_STREAM:
            return self._per_thread_stream(context)
        return self.legacy_stream(context)

    def current_green(self) -> Any:
        """The green context that is current in the calling thread, if one is."""
        return None

    def legacy_stream(self, context: Context) -> Stream:
        """The legacy default stream of ``context``."""
        if context.legacy is None:
            context.legacy = Stream(
                LEGACY_STREAM, context, self.stream_name(context, "default stream"), self.new_identifier()
            )
        return context.legacy

    def _per_thread_stream(self, context: Context) -> Stream:
        thread = get_ident()
        stream = context.per_thread.get(thread)
        if stream is None:
            name = self.stream_name(context, f"per-thread default stream of thread {thread}")
            stream = Stream(PER_THREAD_STREAM, context, name, self.new_identifier())
            context.per_thread[thread] = stream
        return stream

    def stream_name(self, context: Context, name: str) -> str:
        return name if len(self.devices) == 1 else f"{name} of device {context.device.ordinal}"

    def event(self, hEvent: Any) -> Event:
        """The event that a handle names."""
        event = self.events.get(integer(hEvent))
        if event is None:
            raise invalid_handle()
        return event

    # Queueing

    def operation(
        self,
        stream: Stream,
        label: str,
        run: Callable[[], None] | None,
        after: list[Operation] | None = None,
        *,
        host: bool = False,
        always: bool = False,
    ) -> Operation:
        """An operation to be queued on ``stream``, with the implicit order of the legacy default stream."""
        earlier = after if after is not None else []
        context = stream.context
        legacy = context.legacy
        if stream is legacy:
            if self.captures:
                self.refuse_implicit(context)
            earlier += self.scheduler.before_legacy(stream, context.all_streams())
        elif stream.blocking and legacy is not None and legacy.last is not None:
            earlier.append(legacy.last)
        if context.barrier is not None:
            if context.barrier.done and self.observer is None:
                context.barrier = None
            else:
                earlier.append(context.barrier)
        if stream.green is not None and stream.green.barrier is not None:
            earlier.append(stream.green.barrier)
        return Operation(
            label,
            stream,
            run,
            earlier,
            self.recorder.take(),
            host=host,
            always=always,
            launch=self.graph_launch,
        )

    def enqueue(
        self,
        stream: Stream,
        label: str,
        run: Callable[[], None] | None,
        after: list[Operation] | None = None,
    ) -> Operation:
        """Queue an operation; see :meth:`operation`."""
        operation = self.operation(stream, label, run, after)
        self.scheduler.enqueue(operation)
        return operation

    def submit(self, stream: Stream, work: Work, after: list[Operation] | None = None) -> Operation | None:
        """Queue ``work`` at the end of ``stream``, after the operations ``after`` as well.

        Where the stream is captured, it becomes a node of the graph instead, and there is no operation.
        """
        capture: Capture | None = stream.capture
        if capture is not None:
            capture.append(stream, work)
            return None
        return work.queue(self, stream, after)

    def set_condition(self, context: Context, handle: int, value: int) -> bool:
        """A kernel in ``context`` gives a condition of a graph its value; whether there is one with that handle."""
        return False

    def refuse_implicit(self, context: Context) -> None:
        """Refuse work on the legacy default stream of ``context`` that would have to wait for a captured stream."""

    def refuse_in_capture(self, name: str) -> None:
        """Refuse the call ``name``, which a capture may not see, where the thread's capture mode or others' says so."""
        mode, thread = self.thread.capture_mode, get_ident()
        if mode == RELAXED:
            return
        own = [c for c in self.captures if c.thread == thread and c.mode != RELAXED]
        if mode == GLOBAL:
            own += [c for c in self.captures if c.thread != thread and c.mode == GLOBAL]
        status = CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        for capture in own:
            capture.invalidate(status, f"{name} is not allowed while it lasts")
        if own:
            raise CallError(status)

    # Synchronising

    def wait(self, operation: Operation, *, asked: bool = False) -> None:
        """Block the host until ``operation`` is done; ``asked``: it has asked whether it is, and that is so."""
        if not operation.done:
            self.scheduler.complete(operation)
        operation.waited = True
        if self.scheduler.checker is not None:
            self.scheduler.checker.host_waits(operation, asked=asked)

    def streams_behind(self, stream: Stream) -> list[Stream]:
        """Streams whose work a synchronisation with ``stream`` waits for: all blocking ones for the legacy one."""
        if stream is not stream.context.legacy:
            return [stream]
        return [other for other in stream.context.all_streams() if other.blocking]

    def wait_stream(self, stream: Stream) -> None:
        """Block the host until everything queued on ``stream`` is done."""
        for other in self.streams_behind(stream):
            if other.last is not None:
                self.wait(other.last)

    def wait_context(self, context: Context) -> None:
        """Block the host until everything queued in ``context`` is done."""
        for stream in context.all_streams():
            if stream.last is not None:
                self.wait(stream.last)
        context.orphans.clear()

    def synchronized(self) -> None:
        """The host has waited for something."""

    def status(self, context: Context) -> tuple[Any, ...]:
        """Answer of a synchronising call: the error that its context has met, if any."""
        self.synchronized()
        if context.lost is not None:
            return (context.lost,)
        if context.passing is not None:
            passing, context.passing = context.passing, None
            return (passing,)
        return OK

    # Errors

    def _operation_failed(self, operation: Operation, fault: DeviceFault) -> None:
        context: Context = operation.stream.context
        queued = f"\nQueued by\n{format_stack(operation.stack)}" if operation.stack else ""
        report = f"{fault.report}\nIn {operation.label} on {operation.stream_name}.{queued}"
        label, stream = operation.label, operation.stream_name
        self.faults.append(
            FaultRecord(fault.status, report, label, stream, operation.stack, fault.access, fault.site)
        )
        if fault.sticky:
            self.lose(context, fault.status, report)
        else:
            context.passing = fault.status
            self.last_report = report

    def lose(self, context: Context, status: CUresult, report: str) -> None:
        """Make ``context`` unusable, as an error on a device does, and void what it has queued."""
        self.accepted.clear()
        if context.lost is None:
            context.lost = status
            context.report = self.last_report = report
        for stream in context.all_streams():
            self.scheduler.discard(stream)

    def fault_report(self) -> str | None:
        """Text of the error that lost the current context, or else of the latest error of all."""
        with self.lock:
            stack = self.thread.contexts
            if stack and stack[-1].report is not None:
                return stack[-1].report
            return self.last_report

    # Memory

    def allocation_at(self, address: int) -> Allocation | None:
        """The live allocation that holds ``address``."""
        return self.memory.find(address)

    def forget(self, allocation: Allocation, stack: tuple[Frame, ...] | None = None) -> None:
        """Take ``allocation`` out of the address space; freed at ``stack``, by default the caller's."""
        if stack is None:
            stack = self.recorder.take()
        self.accepted.clear()
        self.memory.remove(allocation, stack)
        if self.observer is not None:
            self.observer.freed(allocation, stack)

    def remember(self, allocation: Allocation) -> None:
        """Put ``allocation`` into the address space."""
        self.memory.insert(allocation)
        if self.observer is not None:
            self.observer.allocated(allocation)
