"""Operations, streams and events, and when each operation runs.

Each stream is a queue; an operation may run when it is the first of its stream and every operation it
was put after (events, the legacy default stream) is done. Everything here is called with the driver's
lock held. Nothing recurses: a chain of any length is walked with an explicit stack.
"""

from __future__ import annotations

import random
import sys
import threading
import traceback
from collections import deque
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any, Protocol

from cuda.bindings.driver import CUresult

from .faults import DeviceFault
from .interrupts import HeldSignals, Interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from drv.python_stack import Frame


#: Between two looks at a value that only the host can write.
_POLL_SECONDS = 0.001


class Owner(Protocol):
    """What the scheduler needs of a context."""

    #: Whether an error has made everything that is queued void.
    lost: Any


@dataclass(slots=True, eq=False)
class Stream:
    """A queue of operations. ``handle`` 1 and 2 are the legacy and the per-thread default streams."""

    handle: int
    context: Any
    name: str
    identifier: int
    blocking: bool = True
    priority: int = 0
    flags: int = 0
    destroyed: bool = False
    pending: deque[Operation] = field(default_factory=deque)
    #: Last operation that was queued, done or not.
    last: Operation | None = None
    #: The capture that takes what is queued, if there is one.
    capture: Any = None
    #: The green context that it is of, if it is.
    green: Any = None
    #: Attributes that were set, the bytes of each by its number.
    attributes: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class GraphLaunch:
    """The launch of a graph that operations belong to: what reports call the graph, and the stream it was launched on."""

    graph: str
    stream: str


@dataclass(slots=True, eq=False)
class Operation:
    """Queued work. ``label`` says what it is in the words that reports use."""

    label: str
    stream: Stream
    #: What to do; dropped when done, together with ``after``, so that done work holds no memory.
    run: Callable[[], None] | None
    after: list[Operation]
    stack: tuple[Frame, ...] = ()
    done: bool = False
    running: bool = False
    #: Host callbacks run on a thread of their own, without the lock.
    host: bool = False
    #: For one that waits for a value in memory: whether it is there.
    ready: Callable[[], bool] | None = None
    #: Runs even when its context is lost (``cuStreamAddCallback``).
    always: bool = False
    #: The host has waited for it, so that whatever is queued from then on comes after it.
    waited: bool = False
    #: Host clock in nanoseconds at which it was done, for events.
    time: int = 0
    #: What it does, where that has a description.
    work: Any = None
    #: The launch that it belongs to, for the node of a graph.
    launch: GraphLaunch | None = None
    #: For each branch of what runs inside it a name, which the race checker tells them apart by.
    inside: tuple[Hashable, ...] = ()
    #: Owned by the race checker.
    clock: Any = None
    #: Owned by the recorder of modelled time.
    timing: Any = None

    @property
    def stream_name(self) -> str:
        """Name of the stream as reports use it."""
        return self.stream.name


@dataclass(slots=True, eq=False)
class Event:
    """A point in a stream. ``record`` is the operation of the latest ``cuEventRecord``."""

    handle: int
    context: Any
    timing: bool
    interprocess: bool = False
    record: Operation | None = None
    #: What other processes know of it.
    shared: Any = None
    #: What it stands for since it was last recorded in a stream that is captured.
    captured: Any = None


class Reentered(Exception):  # noqa: N818 - a situation, not an error
    """An operation that is being run on this very thread was waited for (from a finalizer, say)."""


class Checker(Protocol):
    """The part of the race checker that the scheduler drives."""

    def submit(self, op: Operation, stream_key: Any, after: Iterable[Operation]) -> None:
        """``op`` was queued behind its stream's last operation and ``after``."""

    def start(self, op: Operation) -> None:
        """Accesses from here on are those of ``op``."""

    def finish(self, op: Operation) -> None:
        """``op`` makes no further accesses."""

    def host_waits(self, op: Operation, *, asked: bool = False) -> None:
        """The calling host thread has synchronised with ``op``, or, if it ``asked``, learnt that it is done."""


class Scheduler:
    """Runs operations under one of the schedules.

    ``eager`` runs an operation as soon as it may run; ``lazy`` runs it when the host waits for it or for
    something behind it; ``random`` runs a random number of random due operations at each API call, and
    lets unrelated due operations go first when the host waits.
    """

    def __init__(
        self,
        schedule: str,
        seed: int,
        lock: threading.RLock,  # type: ignore[valid-type, unused-ignore]
        fail: Callable[[Operation, DeviceFault], None],
    ) -> None:
        self.interrupts = Interrupts(lock)
        self.schedule = schedule
        self.checker: Checker | None = None
        #: Threads inside a host callback: CUDA allows them no call.
        self.callback_threads: set[int] = set()
        self.wanders = schedule == "random"
        self._eager = schedule == "eager"
        self._random = random.Random(seed)
        self._changed = threading.Condition(lock)  # type: ignore[arg-type, unused-ignore]
        self._fail = fail
        #: Streams with pending operations, in the order in which they became busy.
        self._busy: dict[Stream, None] = {}
        self._callbacks: deque[Operation | Callable[[], None]] = deque()
        self._callback_thread: threading.Thread | None = None
        self._running_thread: int | None = None
        #: How many pending operations wait for a value in memory.
        self._polling = 0
        #: Something was queued by a finalizer inside a running operation and has yet to run (``eager``).
        self._unsettled = False

    # Queueing

    def enqueue(self, operation: Operation) -> None:
        """Put ``operation`` behind its stream's pending ones and, under ``eager``, run what is due."""
        stream = operation.stream
        checker = self.checker
        if checker is not None:
            checker.submit(operation, stream.identifier, operation.after)
        operation.after = [earlier for earlier in operation.after if not earlier.done]
        stream.last = operation
        pending = stream.pending
        pending.append(operation)
        if operation.ready is not None:
            self._polling += 1
        if len(pending) == 1:
            self._busy[stream] = None
            if self._eager and not operation.after and (operation.ready is None or operation.ready()):
                if self._running_thread is not None:
                    self._unsettled = True
                    return
                self._execute(operation)
                if self._unsettled or self._polling:
                    self._unsettled = False
                    self.settle()

    @property
    def busy(self) -> bool:
        """Whether any stream has pending operations."""
        return bool(self._busy)

    def before_legacy(self, legacy: Stream, streams: Iterable[Stream]) -> list[Operation]:
        """What an operation on the legacy default stream comes after: the ends of all blocking streams."""
        if self.checker is not None:
            return [s.last for s in streams if s.blocking and s is not legacy and s.last is not None]
        return [
            s.pending[-1]
            for s in self._busy
            if s.blocking and s.context is legacy.context and s is not legacy
        ]

    # Running

    def complete(self, target: Operation) -> None:
        """Run what it takes for ``target`` to be done. Raises :class:`Reentered`."""
        if self.wanders:
            while not target.done and self._run_random_due():
                pass
        stack = [target]
        while stack:
            if stack[-1].done:
                stack.pop()
                continue
            if stack[-1].running:
                self._wait_for_callback(stack[-1])
                continue
            first = stack[-1].stream.pending[0]
            blocker = self._blocker(first)
            if blocker is not None:
                stack.append(blocker)
            elif first.running:
                self._wait_for_callback(first)
            elif first.ready is None or first.ready():
                self._execute(first)
            elif not self._run_due():
                # Only the host can write the value now.
                self._changed.wait(_POLL_SECONDS)

    def wait_for(self, reached: Callable[[], bool]) -> None:
        """Let what is due run, and the host wait, until another process has brought something about."""
        while not reached():
            if not self._run_due():
                self._changed.wait(_POLL_SECONDS)

    def progress(self, target: Operation) -> None:
        """Run one due operation that ``target`` needs, if there is one. Never waits."""
        operation = target
        while not (operation.done or operation.running):
            operation = operation.stream.pending[0]
            blocker = self._blocker(operation)
            if blocker is None:
                if operation.running:
                    return
                if operation.ready is None or operation.ready():
                    self._execute(operation)
                else:
                    self._run_due()
                return
            operation = blocker

    def wander(self) -> None:
        """Under ``random``: run none, one or several due operations, drawn from the seed."""
        while self._busy and self._random.random() < 0.4:
            if not self._run_random_due():
                return

    def choose(self, count: int) -> int:
        """Which of ``count`` things that may all be next is: the first, the last, or any, as the schedule has it."""
        if self.wanders:
            return self._random.randrange(count)
        return 0 if self._eager else count - 1

    def settle(self) -> None:
        """Run everything that is due (``eager``, after a callback has let others go on)."""
        moved = True
        while moved:
            moved = False
            for stream in list(self._busy):
                while stream.pending and self._due(stream.pending[0]):
                    self._execute(stream.pending[0])
                    moved = True

    def discard(self, stream: Stream) -> None:
        """Drop what a lost context has queued on ``stream``; callbacks that must run still do."""
        while stream.pending:
            operation = stream.pending.popleft()
            if operation.running:
                continue
            if operation.always:
                self._start_callback(operation)
                continue
            if self.checker is not None and self._running_thread is None:
                self.checker.start(operation)
                self.checker.finish(operation)
            self._finish(operation)
        self._busy.pop(stream, None)
        self._changed.notify_all()

    def _blocker(self, operation: Operation) -> Operation | None:
        after = operation.after
        while after:
            if not after[-1].done:
                return after[-1]
            after.pop()
        return None

    def _due(self, operation: Operation) -> bool:
        if operation.running or self._blocker(operation) is not None:
            return False
        return operation.ready is None or operation.ready()

    def _run_due(self) -> bool:
        """Run one due operation, if there is one."""
        for stream in list(self._busy):
            if self._due(stream.pending[0]):
                self._execute(stream.pending[0])
                return True
        return False

    def pending_operations(self) -> list[Operation]:
        """Everything that is queued and has not run, stream by stream."""
        return [operation for stream in self._busy for operation in stream.pending]

    def _run_random_due(self) -> bool:
        streams = list(self._busy)
        self._random.shuffle(streams)
        for stream in streams:
            if self._due(stream.pending[0]):
                self._execute(stream.pending[0])
                return True
        return False

    def _execute(self, operation: Operation) -> None:
        if operation.host:
            self._start_callback(operation)
            return
        if self._running_thread is not None:
            # A finalizer inside a running operation made a call that would run more: the outer loop will.
            raise Reentered
        signals = HeldSignals()
        operation.running = True
        self._running_thread = get_ident()
        checker = self.checker
        try:
            if checker is not None:
                checker.start(operation)
            try:
                if operation.run is not None:
                    operation.run()
            finally:
                if checker is not None:
                    checker.finish(operation)
        except DeviceFault as fault:
            self._leave_queue(operation)
            self._fail(operation, fault)
        except Exception as error:
            self._leave_queue(operation)
            self._fail(operation, _internal_fault(error))
        except BaseException:
            if self.interrupts.abandons:
                self.interrupts.abandons = False
                self._leave_queue(operation)
                self._fail(operation, _abandoned())
            raise
        finally:
            self._running_thread = None
            self._leave_queue(operation)
            signals.release()
        if self.interrupts.pending:
            self.interrupts.after_operation()

    def _leave_queue(self, operation: Operation) -> None:
        stream = operation.stream
        if stream.pending and stream.pending[0] is operation:
            stream.pending.popleft()
            if not stream.pending:
                self._busy.pop(stream, None)
        if not operation.done:
            self._finish(operation)

    def _finish(self, operation: Operation) -> None:
        if operation.ready is not None:
            self._polling -= 1
            operation.ready = None
        operation.done = True
        operation.running = False
        operation.run = None
        operation.after = []

    # Host callbacks

    def call_on_host(self, function: Callable[[], None]) -> None:
        """Have ``function`` called soon, in the thread of host callbacks, ordered with nothing."""
        self._callbacks.append(function)
        self._start_callback_thread()

    def _start_callback(self, operation: Operation) -> None:
        operation.running = True
        self._callbacks.append(operation)
        self._start_callback_thread()

    def _start_callback_thread(self) -> None:
        if self._callback_thread is None:
            # Daemon: a callback that never returns must not keep the interpreter from exiting.
            self._callback_thread = threading.Thread(
                target=self._run_callbacks, name="simulated-driver-callbacks", daemon=True
            )
            self._callback_thread.start()

    def _run_callbacks(self) -> None:
        while True:
            with self._changed:
                if not self._callbacks:
                    self._callback_thread = None
                    return
                callback = self._callbacks.popleft()
                operation = callback if isinstance(callback, Operation) else None
                run = callback.run if isinstance(callback, Operation) else callback
                if self.checker is not None and operation is not None:
                    self.checker.start(operation)
                self.callback_threads.add(get_ident())
            try:
                if run is not None:
                    run()
            except BaseException:
                sys.excepthook(*sys.exc_info())
            with self._changed:
                self.callback_threads.discard(get_ident())
                if operation is None:
                    continue
                if self.checker is not None:
                    self.checker.finish(operation)
                self._leave_queue(operation)
                if self._eager:
                    self.settle()
                self._changed.notify_all()

    def _wait_for_callback(self, operation: Operation) -> None:
        if not operation.host:
            raise Reentered
        self._changed.wait_for(lambda: operation.done)


def _abandoned() -> DeviceFault:
    return DeviceFault(
        CUresult.CUDA_ERROR_LAUNCH_FAILED,
        "Ctrl-C was pressed twice while the simulator computed this operation, which was abandoned: what it should have "
        "written is undefined",
    )


def _internal_fault(error: Exception) -> DeviceFault:
    text = "".join(traceback.format_exception(error))
    return DeviceFault(
        CUresult.CUDA_ERROR_LAUNCH_FAILED, f"the simulator could not run this operation:\n{text}"
    )
