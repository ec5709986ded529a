"""The timeline: what a driver's devices run while it is recorded, each operation with its modelled time.

The scheduler tells the recorder of every operation, as it tells the race checker: when it is queued and after which
others, when it runs, and when the host waits for it. An operation starts when the host has queued it, what it comes
after has ended, and the device has room: kernels share a device as far as their blocks leave it free, and each
direction of copies has one engine.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drv.kernel_names import readable
from drv.simulator.work.copy import CopyWork
from drv.simulator.work.events import EventRecordWork
from drv.simulator.work.fill import FillWork
from drv.simulator.work.host import HostWork
from drv.simulator.work.kernel import KernelWork
from drv.simulator.work.simulated_library import CommunicationCost, LibraryWork

from . import advice
from .device_schedule import DeviceSchedule
from .host_clock import HostClock, IdleHost, TimedLock
from .kernel_time import Shape, kernel_time
from .machine_code.assembling import assemble
from .metering.meter import Meter
from .observers import ByteCounter, CheckerAndRecorder
from .occupancy import occupancy
from .records import TimedOperation
from .work_time import copy_seconds, library_seconds, memory_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from drv.simulator.device_properties import SimulatedDevice
    from drv.simulator.driver_state import DriverState
    from drv.simulator.scheduler import Operation

    from .figures import Figures
    from .machine_code.cubin import CompiledKernel
    from .metering.caches import Level2
    from .repeats import Repeats

#: Bytes of copies and fills that are left out where results are not needed.
_LARGE = 1 << 20


class Recorder:
    """Records what a simulated driver's devices do. Use :func:`recording`.

    Parameters
    ----------
    driver : DriverState
        The driver.
    results : bool
        Whether the program needs what its kernels compute. Otherwise only a sample of a large grid runs, library calls
        compute nothing, and large copies and fills do nothing: memory then holds nothing of meaning.
    context : callable, optional
        Called when an operation is queued, in the thread that queues it; the operation's record keeps what it returns.
    origin : int, optional
        The reading of ``time.perf_counter_ns`` from which times count; now by default.
    repeats : Repeats, optional
        Where no results are needed, what launches took before that do the same; these are not sampled once more.
    host : bool
        Whether the host's Python code and calls take time.

    Attributes
    ----------
    operations : list of TimedOperation
        What has run so far, in the order in which it ran.
    """

    def __init__(
        self,
        driver: DriverState,
        *,
        results: bool = True,
        context: Callable[[], Any] | None = None,
        origin: int | None = None,
        repeats: Repeats | None = None,
        host: bool = True,
    ) -> None:
        self.operations: list[TimedOperation] = []
        self.clock = HostClock(origin) if host else IdleHost(origin)
        self._host = host
        self._repeats = None if results else repeats
        self._driver = driver
        self._results = results
        self._context = context
        self._devices: dict[int, DeviceSchedule] = {}
        self._running = threading.local()
        #: End of the latest operation of each stream that has one.
        self._ends: dict[int, float] = {}
        self._others: Any = None

    # Beginning and end

    def attach(self) -> None:
        """Begin. Raises RuntimeError if the driver is being recorded already."""
        driver = self._driver
        with driver.lock:
            checker = driver.scheduler.checker
            if isinstance(checker, (Recorder, CheckerAndRecorder)):
                raise RuntimeError("the simulated driver's modelled time is being recorded already")
            self._others = checker
            driver.scheduler.checker = self if checker is None else CheckerAndRecorder(checker, self)
            driver.sampled = not self._results
            driver.lock = TimedLock(driver.lock, self.clock)  # type: ignore[assignment]

    def detach(self) -> None:
        """End. What is still queued is not recorded."""
        driver = self._driver
        plain = driver.lock.plain  # type: ignore[attr-defined]
        with plain:
            driver.scheduler.checker = self._others
            driver.sampled = False
            driver.lock = plain

    # What the scheduler tells

    def submit(self, op: Operation, stream_key: Any, after: Iterable[Operation]) -> None:
        """``op`` is queued."""
        category, name = _described(op.work, op.label, op.host)
        self.clock.charge(category)
        device = op.stream.context.device
        record = TimedOperation(
            name=name,
            category=category,
            device=device.ordinal,
            stream=op.stream.identifier,
            stream_name=op.stream_name,
            submitted=self.clock.now(),
            stack=op.stack,
            context=None if self._context is None else self._context(),
            thread=threading.get_ident(),
        )
        op.timing = _Times(record, device, _times_of(after))

    def submit_inside(self, op: Any, name: Any, outer: Operation, after: Iterable[Any]) -> None:
        """``op`` is a node of a conditional graph, and runs within ``outer``."""
        times: _Times | None = outer.timing
        if times is None:
            return
        category, name = _described(op.work, op.label, False)
        around = times.record
        record = replace(around, name=name, category=category)
        op.timing = _Times(record, times.device, _times_of(after))

    def suspend(self) -> Any:
        """The running operation lets others run within it; :meth:`resume` takes the result."""
        return self._running.__dict__.pop("operation", None)

    def resume(self, running: Any) -> None:
        """End what :meth:`suspend` has begun."""
        self._running.operation = running

    def start(self, op: Any) -> None:
        """``op`` begins to run."""
        self._running.operation = op
        work = op.work
        if isinstance(work, LibraryWork):
            if work.cost is not None and not self._results:
                op.run = None
            elif work.cost is None:
                self._running.bytes = counter = ByteCounter(self._driver.observer)
                self._driver.observer = counter  # type: ignore[assignment]
        elif not self._results and isinstance(work, (CopyWork, FillWork)) and _size(work) > _LARGE:
            op.run = None
        elif self._repeats is not None and isinstance(work, KernelWork):
            key = self._repeats.key(work, self._driver.memory)
            self._running.repeat = key, self._repeats.get(key)
            if self._running.repeat[1] is not None and not self._repeats.needed(key):
                op.run = None

    def finish(self, op: Any) -> None:
        """``op`` has run."""
        self._running.operation = None
        counter = self._running.__dict__.pop("bytes", None)
        if counter is not None:
            self._driver.observer = counter.other
        times: _Times | None = op.timing
        if times is None:
            return
        record = times.record
        device = self._device(times.device)
        share, engine, seconds = self._cost(op.work, times, device, counter)
        ready = max((each.record.end for each in times.after), default=0.0)
        times.after = []
        ready = max(ready, self._ends.get(record.stream, 0.0))
        if engine:
            ready = max(ready, record.submitted + device.figures.launch_latency)
        record.start = device.begin(engine, ready, share)
        record.end = record.start + seconds
        device.takes(engine, record.start, record.end, share)
        self._ends[record.stream] = record.end
        if isinstance(op.work, EventRecordWork):
            # So that the time between two events is the modelled one.
            op.time = self.clock.origin + round(record.end * 1e9)
        if record.category != "event":
            self.operations.append(record)

    def host_waits(self, op: Operation, *, asked: bool = False) -> None:
        """The host has waited for ``op``, or ``asked`` whether it is done.

        What runs early on the simulator is done when an allocator asks. A host that polls waits; one that takes no time does not.
        """
        if op.timing is not None and (self._host or not asked):
            self.clock.wait_until(op.timing.record.end)

    def launch_begins(self, launch: Any) -> None:
        """The running operation is a kernel."""
        if self._running.__dict__.get("repeat", (None, None))[1] is not None:
            # Its time is known, and only what it writes is needed.
            return
        work: KernelWork = self._running.operation.work
        device = self._device(work.context.device)
        shape = self._shape(work)
        # As many blocks as a multiprocessor has of the grid, or can hold.
        beside = max(min(shape.occupancy.blocks, -(-shape.blocks // shape.multiprocessors)), 1)
        capacity = max(device.figures.l1_bytes - shape.shared * beside, 0) // beside
        launch.meter = Meter(
            device.level2,
            capacity,
            max(shape.occupancy.blocks * shape.multiprocessors, 1),
            results=self._results,
            observer=launch.observer,
            repeats=_computes(work),
        )
        self._running.launch = launch, shape

    def launch_ends(self, launch: Any) -> None:
        """The kernel is done."""

    # What an operation costs

    def _device(self, device: SimulatedDevice) -> DeviceSchedule:
        result = self._devices.get(device.ordinal)
        if result is None:
            result = self._devices[device.ordinal] = DeviceSchedule(device)
        return result

    def _compiled(self, work: KernelWork) -> dict[str, CompiledKernel]:
        return assemble(work.function.module.image, work.context.device.capability)

    def _shape(self, work: KernelWork) -> Shape:
        function, device = work.function, work.context.device
        kernel = self._compiled(work).get(function.kernel.name)
        registers = function.registers if kernel is None else kernel.registers
        shared = function.static_shared + work.shared
        threads = work.block[0] * work.block[1] * work.block[2]
        return Shape(
            work.grid,
            work.block,
            device.multiprocessors,
            occupancy(device.architecture, threads, registers, shared),
            registers,
            shared,
            0 if kernel is None else kernel.spills,
            kernel is not None,
        )

    def _cost(
        self, work: Any, times: _Times, device: DeviceSchedule, counter: ByteCounter | None
    ) -> tuple[float, str, float]:
        """Share of the device that an operation takes, the engine that runs it, and its seconds."""
        figures, record = device.figures, times.record
        if isinstance(work, KernelWork):
            launched = self._running.__dict__.pop("launch", None)
            key, before = self._running.__dict__.pop("repeat", (None, None))
            if before is not None:
                record.grid, record.block = work.grid, work.block
                share, engine, seconds = before
                return share, engine, seconds
            if launched is None:
                return 1.0, "compute", figures.kernel_overhead
            launch, shape = launched
            meter: Meter = launch.meter
            time = kernel_time(
                meter.counts,
                shape,
                figures,
                device.rates,
                self._compiled(work),
                sampled=meter.sampled,
            )
            record.kernel, record.bound = time, time.bound
            record.grid, record.block = work.grid, work.block
            record.metrics = advice.metrics(time)
            record.advice = advice.advice(time)
            cost = min(time.waves, 1.0), "compute", time.seconds
            if self._repeats is not None:
                self._repeats.note(key, cost, needed=not meter.sampled and not _computes(work))
            return cost
        if isinstance(work, LibraryWork):
            moved = 0 if counter is None else counter.moved
            seconds, record.bound = library_seconds(
                work.cost,
                moved,
                figures,
                times.device.multiprocessors,
                times.device.hardware,
            )
            record.metrics = _library_metrics(work, moved, seconds, record.bound)
            if isinstance(work.cost, CommunicationCost):
                record.nbytes = work.cost.bytes_moved
                return 0.0, work.cost.link, seconds
            return 1.0, "compute", seconds
        if isinstance(work, CopyWork):
            record.nbytes, record.direction = _size(work), _direction(work)
            engine = {"device": "compute", "peer": "peer"}.get(record.direction)
            if engine is None:
                engine = "to host" if work.target.host else "from host"
            _touch(device.level2, work.source, _size(work))
            _touch(device.level2, work.target, _size(work))
            return 0.5, engine, copy_seconds(record.nbytes, record.direction, figures)
        if isinstance(work, FillWork):
            record.nbytes = _size(work)
            device.level2.touch_range(work.address, work.address + record.nbytes)
            return 0.5, "compute", memory_seconds(record.nbytes, figures) + figures.kernel_overhead
        if record.category == "host":
            return 0.0, "host", 10e-6
        return 0.0, "", 0.0

    @property
    def end(self) -> float:
        """When the last operation so far ends, in seconds."""
        return max((each.end for each in self.operations), default=0.0)

    def figures(self, ordinal: int) -> Figures:
        """The figures of a device that has run something, or will."""
        return self._device(self._driver.devices[ordinal]).figures


@contextmanager
def recording(
    driver: DriverState,
    *,
    results: bool = True,
    context: Callable[[], Any] | None = None,
    repeats: Repeats | None = None,
    host: bool = True,
) -> Iterator[Recorder]:
    """Record what ``driver``'s devices do within a block; see :class:`Recorder`."""
    recorder = Recorder(driver, results=results, context=context, repeats=repeats, host=host)
    recorder.attach()
    try:
        yield recorder
    finally:
        recorder.detach()


class _Times:
    """Of one operation: its record, and those that it comes after, until it has run."""

    __slots__ = ("after", "device", "record")

    def __init__(self, record: TimedOperation, device: SimulatedDevice, after: list[_Times]) -> None:
        self.record = record
        self.device = device
        self.after = after


def _times_of(operations: Iterable[Any]) -> list[_Times]:
    return [each.timing for each in operations if each.timing is not None]


def _described(work: Any, label: str, on_host: bool) -> tuple[str, str]:
    """Category and name of an operation."""
    if isinstance(work, KernelWork):
        return "kernel", readable(work.function.kernel.name)
    if isinstance(work, LibraryWork):
        return "library", label
    if isinstance(work, CopyWork):
        return "copy", label
    if isinstance(work, FillWork):
        return "fill", label
    if on_host or isinstance(work, HostWork):
        return "host", label
    return "event", label


def _size(work: CopyWork | FillWork) -> int:
    if isinstance(work, FillWork):
        return work.count * work.item * work.rows
    depth, height, width = work.shape
    return depth * height * width


def _direction(work: CopyWork) -> str:
    source, target = work.source, work.target
    if source.allocation is None or target.allocation is None:
        return "pageable"
    if source.host or target.host:
        return "host"
    return "device" if source.allocation.device == target.allocation.device else "peer"


def _touch(level2: Level2, endpoint: Any, nbytes: int) -> None:
    if not endpoint.host:
        level2.touch_range(endpoint.address, endpoint.address + nbytes)


def _computes(work: KernelWork) -> bool:
    """Whether a kernel has floating point numbers in registers.

    What others may be: sorts, and whatever else writes where the next kernel finds what it reads.
    """
    return any(each.lstrip(".").startswith("f") for each in work.function.kernel.register_types.values())


def _library_metrics(work: LibraryWork, moved: int, seconds: float, bound: str) -> dict[str, Any]:
    cost = work.cost
    result: dict[str, Any] = {"modelled_us": seconds * 1e6, "bound": bound}
    if cost is not None:
        result["dram_bytes"] = cost.bytes_moved
        result["flops"] = getattr(cost, "flops", 0)
    else:
        result["dram_bytes"] = moved
    return result
