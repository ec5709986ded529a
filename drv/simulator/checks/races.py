"""Races between operations and the host, and reads of memory that was never written.

Every access is checked against the earlier ones to the same bytes (``access_states``). What counts is
the order that streams, events and waits give (``clocks``), not which ran first: a race is found under
every schedule, also where the operations happened to run in the right order.

Reads of undefined bytes (``check=full``): device memory is undefined until something writes it; pinned
and registered host memory and module variables are defined. A kernel or library call that reads an
undefined byte is reported. A copy within or between devices is not, since padding is copied all the
time: its destination is as undefined as its source. Copies to the host, where the trail ends, are
reported when none of their bytes was ever written.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from drv.simulator.memory.address_space import MemoryKind

from .access_states import AccessStates, Running, State, Touch
from .clocks import Clocks
from .finding_text import (
    HOST,
    byte_ranges,
    describe_thread,
    exclusive_message,
    race_message,
    undefined_message,
)
from .findings import ACTIONS, MAX_RANGES, AccessReport, Finding, Kind
from .kernel_races import KernelRaces
from .observation import Access
from .shadow import CopiedDefinition, Shadow
from .watched_sources import WatchedSources

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from drv.python_stack import Frame
    from drv.simulator.memory.address_space import Allocation
    from drv.simulator.scheduler import GraphLaunch

    from .clocks import Moment
    from .findings import Findings
    from .observation import Lanes, Site, Span, Stored

#: Memory whose bytes nobody has written when it is allocated.
UNDEFINED_AT_FIRST = (MemoryKind.DEVICE, MemoryKind.MAPPED, MemoryKind.ARRAY)
#: States, and operations, between two looks for what is not needed any more.
STATES_BETWEEN_SWEEPS = 1 << 14
OPERATIONS_BETWEEN_SWEEPS = 1 << 12


class Operation(Protocol):
    """What the checker needs to know of a queued operation."""

    #: What reports call it: ``"kernel 'scale'"``, ``"copy of 4096 bytes to device 0"``.
    label: str
    #: Python stack of the call that queued it.
    stack: tuple[Frame, ...]
    #: Owned by the checker.
    clock: Any
    #: The launch of a graph that it belongs to, if it does.
    launch: GraphLaunch | None

    @property
    def stream_name(self) -> str:
        """What reports call its stream."""


@dataclass(slots=True)
class _Issuers:
    """The threads that have issued each span of an asynchronous operation."""

    block: NDArray[np.int64]
    thread: NDArray[np.int64]


class QueuedOperation(Operation, Protocol):
    """An operation of a stream."""

    #: Those that it comes after, of which some may be done.
    after: list[Any]

    @property
    def inside(self) -> Sequence[Hashable]:
        """Names of actors that act within it."""


class RaceChecker:
    """Finds unordered accesses to the same bytes. ``full`` adds undefined reads and races within kernels,
    ``same_values`` to these the stores of one value by several threads.

    The driver calls it under its lock: :meth:`submit` when an operation is queued, :meth:`start` and
    :meth:`finish` around running it, in the thread that runs it. What the observer methods are told in
    between is that operation's doing.
    """

    def __init__(self, full: bool, findings: Findings, *, same_values: bool = False) -> None:
        self.full = full
        self._same_values = same_values
        self.findings = findings
        self._clocks = Clocks()
        self._states = AccessStates()
        self._thread = local()
        self._running: set[Running] = set()
        self._watched = WatchedSources()
        self._shadows: WeakSet[Shadow] = WeakSet()
        self._state_limit = STATES_BETWEEN_SWEEPS
        self._operations_left = OPERATIONS_BETWEEN_SWEEPS

    # Operations and the host

    def submit(self, op: QueuedOperation, stream_key: Hashable, after: Iterable[Operation] = ()) -> None:
        """``op`` is queued on a stream by the host, to run after the operations ``after`` as well."""
        moments = [earlier.clock for earlier in after]
        op.clock = self._clocks.submit(stream_key, moments, op.label, op.stack, op.stream_name, op.inside)
        op.clock.launch = op.launch

    def submit_inside(
        self, op: Operation, name: Hashable, outer: Operation, after: Iterable[Operation]
    ) -> None:
        """``op`` runs within ``outer``, on the branch ``name`` of those that are inside that, after ``after``."""
        moments = [earlier.clock for earlier in after]
        op.clock = self._clocks.submit_inside(name, outer.clock, moments, op.label, op.stack)
        op.clock.launch = op.launch

    def suspend(self) -> Running:
        """The running operation of this thread lets others run within it; :meth:`resume` takes the result."""
        running: Running = self._thread.running
        self._thread.running = None
        return running

    def resume(self, running: Running) -> None:
        """End what :meth:`suspend` has begun."""
        self._thread.running = running

    def start(self, op: Operation) -> None:
        """The calling thread begins to run ``op``."""
        self._operations_left -= 1
        if self._operations_left <= 0 or len(self._states) > self._state_limit:
            self._sweep()
        running = self._thread.running = Running(op.clock)
        self._running.add(running)
        if self._watched:
            self._compare_source(op)

    def finish(self, op: Operation) -> None:
        """The calling thread has run ``op``, or has given up on it."""
        running = self._thread.running
        self._thread.running = None
        self._running.discard(running)
        if running.carried is not None:
            undefined = running.carried.finish()
            if undefined is not None:
                allocation, start, stop = undefined
                report = running.touch(Access.READ, None).report()
                self._report_undefined(report, allocation, [(start, stop)])
        self._clocks.finish(op.clock)

    def host_waits(self, op: Operation, *, asked: bool = False) -> None:
        """A synchronising call has waited for ``op``, or a query has said that it is done."""
        clocks = self._clocks
        clocks.host_waits(op.clock)
        if self._watched:
            for copy in self._watched.done(lambda copy: clocks.host_knows(copy.clock)):
                self._compare_source(copy)
                self._watched.release(copy)

    def host_access(
        self, allocation: Allocation, start: int, stop: int, kind: Access, stack: tuple[Frame, ...]
    ) -> None:
        """The host touches bytes ``[start, stop)`` of pinned or registered memory itself.

        Within a host callback the access is the callback's, in its place in the stream.
        """
        running = self._now(stack)
        self._touch(running, allocation, start, stop, running.touch(kind, None))

    def host_access_alone(
        self,
        allocation: Allocation,
        start: int,
        stop: int,
        kind: Access,
        stack: tuple[Frame, ...],
        pending: Iterable[Operation],
    ) -> None:
        """As :meth:`host_access`, of managed memory that the host may not touch before ``pending`` are waited for."""
        for op in pending:
            if not self._clocks.host_knows(op.clock):
                first = AccessReport(op.label, "may use it", op.stream_name, op.stack, launch=op.launch)
                second = AccessReport(HOST, ACTIONS[kind], stack=stack)
                message = exclusive_message(first, second, allocation, [(start, stop)])
                self.findings.add(Finding(Kind.RACE, message, first, second, ((start, stop),), allocation))

    def watch_source(
        self,
        op: Operation,
        allocation: Allocation,
        start: int,
        shape: tuple[int, int, int],
        pitches: tuple[int, int],
    ) -> None:
        """``op``, about to be queued, copies bytes ``(depth, height, width)`` of host memory.

        They begin at byte ``start`` of ``allocation``, slices and rows ``pitches`` bytes apart.
        """
        self._watched.watch(op, allocation, start, shape, pitches)

    def _compare_source(self, op: Operation) -> None:
        change = self._watched.changed(op)
        if change is None:
            return
        allocation, offsets = change
        shadow = allocation.shadow
        # What queued work has written, or the host has told of, is checked by its order.
        if shadow is None or shadow.last_write < op.clock.sequence:
            host = Touch(self._clocks.host_moment(HOST, ()), Access.WRITE)
            ranges = byte_ranges(offsets, 1)
            self._report(Kind.RACE, Touch(op.clock, Access.READ), host, allocation, ranges)

    # Allocations

    def allocated(self, allocation: Allocation) -> None:
        """``allocation`` is new, and this orders nothing.

        Told while an operation runs it is that one's doing (stream-ordered allocation), and whatever uses
        the memory must come after it.
        """
        running = getattr(self._thread, "running", None)
        if running is None:
            allocation.shadow = None
            return
        touch = Touch(running.moment, Access.WRITE, action="allocates")
        if allocation.shadow is None:
            self._shadow(allocation).initial = self._states.number(running, State(touch))
        else:
            # It was used before this ran.
            self._touch(running, allocation, 0, allocation.size, touch)

    def freed(self, allocation: Allocation, stack: tuple[Frame, ...] = ()) -> None:
        """``allocation`` is freed by the running operation, else by the host at ``stack``."""
        if allocation.shadow is not None and allocation.size:
            running = self._now(stack)
            touch = Touch(running.moment, Access.WRITE, action="frees")
            if self._states.races_with_last(running, touch, allocation.shadow):
                self._touch(running, allocation, 0, allocation.size, touch, Kind.FREED_IN_USE)
        allocation.shadow = None

    def written(self, allocation: Allocation, start: int, stop: int) -> None:
        """Bytes ``[start, stop)`` are defined from now on, and this orders nothing."""
        (allocation.shadow or self._shadow(allocation)).define(start, stop)

    def learn(
        self,
        op: Operation,
        allocation: Allocation,
        start: int,
        stop: int,
        pending: Sequence[QueuedOperation],
    ) -> None:
        """``op`` has waited for bytes ``[start, stop)``: what their writers came after, it comes after, too.

        So does what is queued behind it, of the operations ``pending``.
        """
        shadow = allocation.shadow
        if shadow is None:
            return
        writers = self._states.writers(shadow, start, stop)
        learned = self._clocks.learn(op.clock, writers)
        if not learned:
            return
        changed = {op.clock}
        latest: dict[int, Moment] = {}
        for each in sorted(pending, key=lambda one: one.clock.sequence):
            moment: Moment = each.clock
            before = [earlier.clock for earlier in each.after]
            previous = latest.get(id(moment.actor))
            if previous is not None:
                before.append(previous)
            latest[id(moment.actor)] = moment
            sources = [one for one in before if one in changed]
            if sources and moment not in changed:
                self._clocks.learn(moment, sources)
                changed.add(moment)

    # The observer

    def launch_begins(self, launch: Any) -> None:
        """The running operation is a kernel."""
        running = self._thread.running
        running.launch = launch
        if self.full:
            running.kernel = KernelRaces(launch, self.findings, running.moment, same_values=self._same_values)

    def launch_ends(self, launch: Any) -> None:
        """The kernel is done."""
        running = self._thread.running
        running.launch = running.kernel = None

    def global_access(
        self,
        allocation: Allocation,
        offsets: NDArray[np.int64],
        width: int,
        kind: Access,
        lanes: Lanes,
        site: Site,
        stored: Stored | None = None,
    ) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        if not offsets.size:
            return
        running: Running = self._thread.running
        self._of_operation(running, allocation, offsets, width, kind, lanes, site)
        if running.kernel is not None:
            running.kernel.global_access(allocation, offsets, width, kind, lanes, site, stored)

    def _of_operation(
        self,
        running: Running,
        allocation: Allocation,
        offsets: NDArray[np.int64],
        width: int,
        kind: Access,
        lanes: Lanes,
        site: Site,
    ) -> None:
        """The running operation touches memory; what its threads are to each other does not matter here."""
        shadow = allocation.shadow or self._shadow(allocation)
        index = shadow.gather(offsets, width)
        touch = running.touch(kind, site)
        if kind is not Access.READ:
            shadow.last_write = self._clocks.sequence
        raced = self._states.touch_granules(running, touch, shadow, index)
        if raced is not None:
            for state, where in raced.items():
                ranges = byte_ranges(index[where] * shadow.granule, shadow.granule)
                thread = thread_text(running, lanes, where)
                for other in touch.conflicts[state]:
                    self._report(Kind.RACE, other, touch, allocation, ranges, thread)
        if shadow.defined is not None:
            if kind is not Access.WRITE:
                defined = shadow.defined.take(index)
                if not defined.all():
                    report = touch.report(thread_text(running, lanes, ~defined))
                    ranges = byte_ranges(index[~defined] * shadow.granule, shadow.granule)
                    self._report_undefined(report, allocation, ranges)
            if kind is not Access.READ:
                shadow.defined[index] = True

    def shared_access(
        self,
        offsets: NDArray[np.int64],
        width: int,
        kind: Access,
        lanes: Lanes,
        site: Site,
        stored: Stored | None = None,
        owners: NDArray[np.int64] | None = None,
    ) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None and offsets.size:
            kernel.shared_access(offsets, width, kind, lanes, site, stored, owners)

    def barrier(self, blocks: NDArray[np.int64], lanes: Lanes) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.barrier(blocks)

    def warp_barrier(self, lanes: Lanes) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.warp_barrier(lanes)

    def fence(self, lanes: Lanes) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.fence(lanes)

    def release(self, key: Hashable, lanes: Lanes) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.release(key, lanes)

    def complete(self, key: Hashable, block: int) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.complete(key, block)

    def acquire(self, key: Hashable, lanes: Lanes) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.acquire(key, lanes)

    def fence_proxy(self, lanes: Lanes) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.fence_proxy(lanes)

    def asynchronous_begins(self, lanes: Lanes, site: Site, spans: Sequence[Span], *, generic: bool) -> Any:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        running: Running = self._thread.running
        for span in spans:
            if span.allocation is not None and span.offsets.size:
                issuers = _Issuers(lanes.block[span.lane], lanes.thread[span.lane])
                self._of_operation(
                    running, span.allocation, span.offsets, span.width, span.kind, issuers, site
                )
        if running.kernel is None:
            return None
        return running.kernel.flights.begin(lanes, site, spans, generic)

    def asynchronous_ends(self, operation: Any, lanes: NDArray[np.int64] | None, *, reads_only: bool) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        self._thread.running.kernel.flights.end(operation, lanes, reads_only=reads_only)

    def asynchronous_counts(self, operation: Any, lanes: NDArray[np.int64] | None, key: Hashable) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        self._thread.running.kernel.flights.count(operation, lanes, key)

    def products_end(self, operation: Any, which: NDArray[np.int64], lanes: Lanes) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        self._thread.running.kernel.products_end(operation, which, lanes)

    def fence_tensor_maps(self, lanes: Lanes) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.fence_tensor_maps(lanes)

    def tensor_map_used(self, allocation: Allocation, offset: int, lanes: Lanes, site: Site) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.flights.tensor_map_used(allocation, offset, lanes, site)

    def registers_touched(
        self, issuers: Lanes, site: Site, lanes: Lanes, touch: Site, *, writes: bool
    ) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.registers_touched(issuers, site, lanes, touch, writes=writes)

    def registers_unfenced(self, lanes: Lanes, writer: Site | None, site: Site) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.registers_unfenced(lanes, writer, site)

    def blocks_end(self, blocks: NDArray[np.int64]) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        kernel = self._thread.running.kernel
        if kernel is not None:
            kernel.blocks_end(blocks)

    def range_access(self, allocation: Allocation, start: int, stop: int, kind: Access) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        running: Running = self._thread.running
        touch = running.touch(kind, None)
        shadow = self._touch(running, allocation, start, stop, touch)
        if not self.full or start >= stop:
            return
        carried = running.carried
        if carried is None:
            if kind is not Access.WRITE:
                undefined = shadow.undefined(start, stop)
                if undefined:
                    self._report_undefined(touch.report(), allocation, undefined)
            if kind is not Access.READ:
                shadow.define(start, stop)
        elif kind is Access.READ:
            carried.read(allocation, start, stop)
        else:
            carried.write(shadow, start, stop)

    def range_discarded(self, allocation: Allocation, start: int, stop: int) -> None:
        """The running operation says that bytes ``[start, stop)`` are needed no more: to touch them races with it."""
        running: Running = self._thread.running
        touch = Touch(running.moment, Access.WRITE, action="discards")
        self._touch(running, allocation, start, stop, touch)

    def copy_begins(self) -> None:
        """See :class:`~drv.simulator.checks.observation.AccessObserver`."""
        if self.full:
            self._thread.running.carried = CopiedDefinition()

    # Behind them

    def _now(self, stack: tuple[Frame, ...]) -> Running:
        """The running operation, else the host."""
        running: Running | None = getattr(self._thread, "running", None)
        return running or Running(self._clocks.host_moment(HOST, stack))

    def _shadow(self, allocation: Allocation) -> Shadow:
        undefined = self.full and allocation.kind in UNDEFINED_AT_FIRST
        shadow = Shadow(allocation.base, allocation.size, track_definition=undefined)
        allocation.shadow = shadow
        self._shadows.add(shadow)
        return shadow

    def _touch(
        self,
        running: Running,
        allocation: Allocation,
        start: int,
        stop: int,
        touch: Touch,
        kind: Kind = Kind.RACE,
    ) -> Shadow:
        shadow: Shadow = allocation.shadow or self._shadow(allocation)
        if start < stop:
            if touch.kind is not Access.READ:
                shadow.last_write = self._clocks.sequence
            raced = self._states.touch_range(running, touch, shadow, start, stop)
            if raced:
                for state, ranges in raced.items():
                    for other in touch.conflicts[state]:
                        self._report(kind, other, touch, allocation, ranges)
        return shadow

    def _report(
        self,
        kind: Kind,
        other: Touch,
        touch: Touch,
        allocation: Allocation,
        ranges: list[tuple[int, int]],
        thread: str = "",
    ) -> None:
        # Told in the order in which they were queued, which is the same under every schedule.
        first, second = other.report(), touch.report(thread)
        if touch.moment.sequence < other.moment.sequence:
            first, second = second, first
        message = race_message(kind, first, second, allocation, ranges)
        self.findings.add(Finding(kind, message, first, second, tuple(ranges[:MAX_RANGES]), allocation))

    def _report_undefined(
        self, report: AccessReport, allocation: Allocation, ranges: list[tuple[int, int]]
    ) -> None:
        message = undefined_message(report, allocation, ranges)
        reported = tuple(ranges[:MAX_RANGES])
        self.findings.add(Finding(Kind.UNINITIALIZED, message, None, report, reported, allocation))

    def _sweep(self) -> None:
        """Drop states that cannot race with anything any more, or that no byte is in."""
        horizon = self._clocks.horizon()
        self._states.forget_before(horizon)
        self._clocks.forget_idle(horizon)
        if len(self._states) > self._state_limit // 2:
            self._states.keep(self._shadows)
        self._states.forget_all_if_full(self._shadows)
        for running in self._running:
            running.forget_states()
        self._state_limit = max(STATES_BETWEEN_SWEEPS, 2 * len(self._states))
        self._operations_left = max(OPERATIONS_BETWEEN_SWEEPS, len(self._states))


def thread_text(running: Running, lanes: Lanes, raced: NDArray[np.bool_]) -> str:
    """Block and thread of the first lane of which a granule is chosen, in ``(lanes, ...)``."""
    if running.launch is None:
        return ""
    first = int(raced.argmax()) // (raced.size // len(raced))
    return describe_thread(running.launch, int(lanes.block[first]), int(lanes.thread[first]))
