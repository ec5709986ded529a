"""What devices did while a profile ran, from the source that there is: the model of the simulated driver, or CUPTI."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

import drv
from drv.activity import ActivityRecorder
from tensor.core.spans import NODE, OPERATION
from tensor.cuda import Event, current_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.spans import Span, Spans

#: Categories of traces, by those of records.
_CATEGORIES = {
    "kernel": "kernel",
    "library": "kernel",
    "copy": "gpu_memcpy",
    "fill": "gpu_memset",
    "host": "gpu_user",
}


@dataclass(slots=True, eq=False)
class DeviceEvent:
    """Something that ran on a device. Times are in nanoseconds of the profile's clock.

    Attributes
    ----------
    category : str
        ``kernel``, ``gpu_memcpy``, ``gpu_memset``.
    queued : int
        When the host queued it; -1 if that is not known.
    span : Span or None
        The innermost span of the host that queued it.
    line : str
        ``file:line`` of the user's Python that queued it, empty if that is not known.
    details : dict
        Grid, block, bytes, figures of the model.
    advice : list of str
        What bounds a kernel and what would help, by the model.
    """

    name: str
    category: str
    device: int
    stream: int
    stream_name: str
    start: int
    end: int
    queued: int = -1
    span: Span | None = None
    line: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)
    kernel: Any = None

    @property
    def nanoseconds(self) -> int:
        """How long it took."""
        return self.end - self.start


class DeviceSource(Protocol):
    """Where times of devices come from."""

    #: ``modelled`` or ``measured``, and how.
    time_source: str
    how: str
    #: Reads the host's clock, to which the events' times belong.
    clock: Callable[[], int]

    def start(self, spans: Spans) -> None:
        """Begin to collect."""

    def stop(self) -> None:
        """End; what is queued is waited for."""

    def events(self) -> list[DeviceEvent]:
        """What ran, in order of its start."""


class Modelled:
    """Times of the simulated driver's model.

    Parameters
    ----------
    runtime : drv.Runtime
        The simulated driver's.
    results : bool
        Whether results are needed; see :func:`drv.simulator.timed`.
    """

    time_source = "modelled"

    def __init__(self, runtime: drv.Runtime, *, results: bool = True) -> None:
        # The model of time is loaded where devices are simulated.
        from drv.simulator.timing.recorder import Recorder

        self._runtime = runtime
        self._spans: Spans | None = None
        self.recorder = Recorder(runtime.driver, results=results, context=self._context, origin=0)
        self.clock: Callable[[], int] = self._now
        self._recorded_stacks = runtime.driver.recorder.enabled
        models = [device.model for device in runtime.driver.machine]
        names = sorted({"H100 (no model was asked for)" if each is None else each.name for each in models})
        self.how = f"modelled on the simulated driver, not measured: {', '.join(names)}"

    def _now(self) -> int:
        return round(self.recorder.clock.now() * 1e9)

    def _context(self) -> Any:
        return None if self._spans is None else self._spans.top

    def start(self, spans: Spans) -> None:
        """See :class:`DeviceSource`."""
        self._spans = spans
        self._runtime.driver.recorder.enabled = True
        self.recorder.attach()

    def stop(self) -> None:
        """See :class:`DeviceSource`."""
        if self._runtime.alive:
            for device in self._runtime.devices:
                if device.context is not None:
                    device.synchronize()
        self.recorder.detach()
        self._runtime.driver.recorder.enabled = self._recorded_stacks

    def events(self) -> list[DeviceEvent]:
        """See :class:`DeviceSource`."""
        result = []
        for each in self.recorder.operations:
            details: dict[str, Any] = dict(each.metrics)
            if each.grid is not None:
                details["grid"], details["block"] = list(each.grid), list(each.block or ())
            if each.nbytes:
                details["bytes"] = each.nbytes
            if each.direction:
                details["direction"] = each.direction
            result.append(
                DeviceEvent(
                    each.name,
                    _CATEGORIES.get(each.category, each.category),
                    each.device,
                    each.stream,
                    each.stream_name,
                    round(each.start * 1e9),
                    round(each.end * 1e9),
                    round(each.submitted * 1e9),
                    each.context,
                    f"{each.stack[0][0]}:{each.stack[0][1]}" if each.stack else "",
                    details,
                    each.advice,
                    each.kernel,
                )
            )
        return sorted(result, key=lambda event: event.start)


class Measured:
    """Times of the hardware, by CUPTI.

    Parameters
    ----------
    recorder : ActivityRecorder
        Records what GPUs do.
    """

    time_source = "measured"
    how = "measured by CUPTI"

    def __init__(self, recorder: ActivityRecorder) -> None:
        self._recorder = recorder
        self._spans: Spans | None = None
        self.clock: Callable[[], int] = perf_counter_ns

    def start(self, spans: Spans) -> None:
        """See :class:`DeviceSource`."""
        self._spans = spans
        self._recorder.start()
        spans.entered = lambda span: self._recorder.push(span.number + 1)
        spans.left = lambda span: self._recorder.pop()

    def stop(self) -> None:
        """See :class:`DeviceSource`."""
        assert self._spans is not None
        self._spans.entered = self._spans.left = None
        _wait_for_all()
        self._recorder.stop()
        if self._recorder.dropped:
            self.how = f"measured by CUPTI, which has dropped {self._recorder.dropped} records"

    def events(self) -> list[DeviceEvent]:
        """See :class:`DeviceSource`."""
        assert self._spans is not None
        spans = self._spans.all
        result = []
        for each in self._recorder.activities:
            details: dict[str, Any] = {}
            if each.grid is not None and each.block is not None:
                details |= {"grid": list(each.grid), "block": list(each.block)}
                details |= {"registers": each.registers, "shared_memory": each.shared}
            else:
                details["bytes"] = each.nbytes
            span = spans[each.external - 1] if 0 < each.external <= len(spans) else None
            result.append(
                DeviceEvent(
                    each.name,
                    _CATEGORIES[each.category],
                    each.device,
                    each.stream,
                    f"stream {each.stream}",
                    each.start,
                    each.end,
                    -1 if span is None else span.start,
                    span,
                    _line_of(span),
                    details,
                )
            )
        return result


class Events:
    """Times of the hardware, by events around the outermost operations: where CUPTI is not installed."""

    time_source = "measured"
    how = "measured by events around operations, as CUPTI is not installed (extra profile)"

    def __init__(self) -> None:
        self._spans: Spans | None = None
        self._pairs: list[tuple[Span, int, Any, Any]] = []
        self._open: dict[int, tuple[int, Any]] = {}
        self._first: dict[int, Any] = {}
        self._begun: dict[int, int] = {}
        self.clock: Callable[[], int] = perf_counter_ns

    def start(self, spans: Spans) -> None:
        """See :class:`DeviceSource`."""
        self._spans = spans
        spans.entered, spans.left = self._entered, self._left

    def _entered(self, span: Span) -> None:
        if not _outermost(span) or not drv.is_initialized():
            return
        stream = current_stream()
        device = stream.device_index
        if device not in self._first:
            _wait_for_all()
            self._first[device] = _recorded(stream)
            self._first[device].synchronize()
            self._begun[device] = perf_counter_ns()
        self._open[id(span)] = device, _recorded(stream)

    def _left(self, span: Span) -> None:
        begun = self._open.pop(id(span), None)
        if begun is not None:
            device, event = begun
            self._pairs.append((span, device, event, _recorded(current_stream(device))))

    def stop(self) -> None:
        """See :class:`DeviceSource`."""
        assert self._spans is not None
        self._spans.entered = self._spans.left = None
        _wait_for_all()

    def events(self) -> list[DeviceEvent]:
        """See :class:`DeviceSource`."""
        result = []
        for span, device, begin, end in self._pairs:
            base, first = self._begun[device], self._first[device]
            start = base + round(first.elapsed_time(begin) * 1e6)
            stop = base + round(first.elapsed_time(end) * 1e6)
            if stop > start:
                result.append(
                    DeviceEvent(
                        span.name,
                        "kernel",
                        device,
                        0,
                        "current stream",
                        start,
                        stop,
                        span.start,
                        span,
                        _line_of(span),
                    )
                )
        return sorted(result, key=lambda event: event.start)


def _outermost(span: Span) -> bool:
    """Whether a span is an operation, or a node, and inside no other."""
    if span.category not in (OPERATION, NODE):
        return False
    around = span.parent
    while around is not None:
        if around.category == NODE or (around.category == OPERATION and around.name != "aten::backward"):
            return False
        around = around.parent
    return span.name != "aten::backward"


def _recorded(stream: Any) -> Any:
    event = Event(enable_timing=True)
    event.record(stream)
    return event


def _line_of(span: Span | None) -> str:
    """``file:line`` of the user's Python, where stacks were noted."""
    while span is not None:
        if span.stack:
            return f"{span.stack[0][0]}:{span.stack[0][1]}"
        span = span.parent
    return ""


def _wait_for_all() -> None:
    for device in drv.runtime().devices:
        if device.context is not None:
            device.synchronize()


def source_of_devices(runtime: drv.Runtime | None = None, *, results: bool = True) -> DeviceSource | None:
    """The source of ``runtime``'s devices, by default of the driver in use; ``None`` where there is no driver."""
    if runtime is None:
        if not drv.is_available():
            return None
        runtime = drv.runtime()
    if runtime.simulated:
        return Modelled(runtime, results=results)
    try:
        return Measured(ActivityRecorder())
    except drv.LibraryNotInstalledError:
        return Events()
