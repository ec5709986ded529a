"""Events of a profile, their averages by name, and the table of these, with the names that PyTorch's have."""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tensor.core.spans import Span

    from .devices import DeviceEvent


class DeviceType(Enum):
    """Where an event ran.

    ``CPU`` is the host, ``CUDA`` a device.
    """

    CPU = 0
    CUDA = 1


class FunctionEvent:
    """A span of the host, or something that ran on a device. Times are in microseconds.

    Parameters
    ----------
    name, category : str
        Its name, and what kind of thing it is, such as ``cpu_op``.
    device_type : DeviceType
        Where it ran.
    start, end : float
        When it began and ended.
    thread, number : int
        The thread of the host, and a number of its own.

    Attributes
    ----------
    name, key : str
        Its name.
    time_range : Interval
        ``start`` and ``end``.
    cpu_time_total, self_cpu_time_total : float
        Time of the host, with and without that of the events inside.
    device_time_total, self_device_time_total : float
        Time of devices that it queued, with and without what events inside queued.
    cpu_parent, cpu_children
        Events around and inside it.
    kernels : list
        Events of devices that it queued itself.
    """

    count = 1
    is_async = False
    cpu_memory_usage = self_cpu_memory_usage = 0

    def __init__(
        self,
        name: str,
        category: str,
        device_type: DeviceType,
        start: float,
        end: float,
        thread: int,
        number: int,
    ) -> None:
        self.name = self.key = self.trace_name = name
        self.category = category
        self.device_type = device_type
        self.time_range = Interval(start, end)
        self.thread = thread
        self.id = number
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.kernels: list[FunctionEvent] = []
        self.input_shapes: Any = []
        self.stack: list[str] = []
        self.sequence_nr = -1
        self.device_index = 0
        self.device_memory_usage = 0
        self.self_device_memory_usage = 0
        self.flops = 0.0
        self.module = ""
        self.node = ""
        self.line = ""
        self.details: dict[str, Any] = {}
        self.advice: list[str] = []

    @property
    def cpu_time_total(self) -> float:
        """Microseconds of the host."""
        return self.time_range.elapsed_us() if self.device_type is DeviceType.CPU else 0.0

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the host outside the events inside."""
        return self.cpu_time_total - sum(each.cpu_time_total for each in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """Microseconds of devices that it queued itself, or that it ran there."""
        if self.device_type is not DeviceType.CPU:
            return self.time_range.elapsed_us()
        return sum(each.time_range.elapsed_us() for each in self.kernels)

    @property
    def device_time_total(self) -> float:
        """Microseconds of devices that it and the events inside queued."""
        return _device_total(self)

    @property
    def cpu_time(self) -> float:
        """As :attr:`cpu_time_total`: of one event that is the mean."""
        return self.cpu_time_total

    @property
    def device_time(self) -> float:
        """As :attr:`device_time_total`."""
        return self.device_time_total

    cuda_time_total = device_time_total
    cuda_time = device_time
    self_cuda_time_total = self_device_time_total

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} device_type={self.device_type} "
            f"cpu_time={format_time(self.cpu_time_total)} device_time={format_time(self.device_time_total)}>"
        )


def _device_total(event: FunctionEvent) -> float:
    total = 0.0
    pending = [event]
    while pending:
        each = pending.pop()
        total += each.self_device_time_total
        pending += each.cpu_children
    return total


class Interval:
    """Start and end in microseconds."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


class FunctionEventAvg:
    """Events of one name together.

    Attributes are those of :class:`FunctionEvent`, summed; ``count`` is how many.

    Parameters
    ----------
    key : str
        Their name.
    device_type : DeviceType
        Where they ran.
    """

    def __init__(self, key: str, device_type: DeviceType) -> None:
        self.key = key
        self.device_type = device_type
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.input_shapes: Any = []
        self.stack: list[str] = []
        self.flops = 0.0
        self.bound = ""
        self.is_user_annotation = False

    def add(self, event: FunctionEvent) -> None:
        """Take ``event``, a :class:`FunctionEvent`, in.

        Its times are added, and ``count`` grows by one.
        """
        self.count += 1
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.device_time_total += event.device_time_total
        self.self_device_time_total += event.self_device_time_total
        self.device_memory_usage += event.device_memory_usage
        self.self_device_memory_usage += event.self_device_memory_usage
        self.input_shapes, self.stack = event.input_shapes, event.stack
        self.flops += event.flops
        self.bound = event.details.get("bound", self.bound)
        self.is_user_annotation = event.category == "user_annotation"

    @property
    def cpu_time(self) -> float:
        """Mean microseconds of the host."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Mean microseconds of devices."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def cuda_time_total(self) -> float:
        """As :attr:`device_time_total`."""
        return self.device_time_total

    @property
    def self_cuda_time_total(self) -> float:
        """As :attr:`self_device_time_total`."""
        return self.self_device_time_total

    @property
    def cuda_time(self) -> float:
        """As :attr:`device_time`."""
        return self.device_time

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} self_cpu_time={format_time(self.self_cpu_time_total)} "
            f"self_device_time={format_time(self.self_device_time_total)}>"
        )


#: Columns that a table can be sorted by, and the attribute that each is.
_SORTS = {
    "cpu_time": "cpu_time",
    "cuda_time": "device_time",
    "device_time": "device_time",
    "cpu_time_total": "cpu_time_total",
    "cuda_time_total": "device_time_total",
    "device_time_total": "device_time_total",
    "self_cpu_time_total": "self_cpu_time_total",
    "self_cuda_time_total": "self_device_time_total",
    "self_device_time_total": "self_device_time_total",
    "cpu_memory_usage": "cpu_memory_usage",
    "cuda_memory_usage": "device_memory_usage",
    "device_memory_usage": "device_memory_usage",
    "self_cpu_memory_usage": "self_cpu_memory_usage",
    "self_cuda_memory_usage": "self_device_memory_usage",
    "self_device_memory_usage": "self_device_memory_usage",
    "count": "count",
}


class EventList(list[Any]):
    """Events or averages, with a table of them.

    Parameters
    ----------
    events
        What is in it.
    times : str
        How device times were had: the table says so.
    memory : bool
        Whether memory was profiled.
    """

    def __init__(self, events: Iterable[Any] = (), *, times: str = "", memory: bool = False) -> None:
        super().__init__(events)
        self._times = times
        self._memory = memory

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the host, each counted once."""
        return float(sum(each.self_cpu_time_total for each in self))

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Averages by name.

        Parameters
        ----------
        group_by_input_shapes : bool
            Whether events with other shapes of inputs are apart.
        group_by_stack_n : int
            How many lines of the Python stack keep events apart.
        """
        averages: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key: tuple[Any, ...] = event.key, event.device_type
            if group_by_input_shapes:
                key += (str(event.input_shapes),)
            if group_by_stack_n:
                key += (tuple(event.stack[:group_by_stack_n]),)
            average = averages.get(key)
            if average is None:
                average = averages[key] = FunctionEventAvg(event.key, event.device_type)
            average.add(event)
        return EventList(averages.values(), times=self._times, memory=self._memory)

    def total_average(self) -> FunctionEventAvg:
        """All events in one average, named ``Total``.

        Averages among them are added to it.
        """
        total = FunctionEventAvg("Total", DeviceType.CPU)
        for event in self:
            total.add(event) if isinstance(event, FunctionEvent) else _join(total, event)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """A table of the events.

        Parameters
        ----------
        sort_by : str, optional
            ``cpu_time``, ``device_time`` (or ``cuda_time``), the same with ``_total`` and ``self_..._total``,
            ``device_memory_usage``, ``count``; the largest first. By default in the order of the events.
        row_limit : int
            Rows at the most; -1 for all.
        max_src_column_width, max_name_column_width, max_shapes_column_width : int
            Characters of stacks, names and shapes.
        header : str, optional
            A line above.
        top_level_events_only : bool
            Whether events inside others are left out.
        time_unit : str, optional
            ``us``, ``ms`` or ``s`` for all times; by default each has what fits it.

        Raises
        ------
        ValueError
            If there is no such column to sort by.
        """
        rows = list(self)
        if top_level_events_only:
            rows = [each for each in rows if getattr(each, "cpu_parent", None) is None]
        if sort_by is not None:
            if sort_by not in _SORTS:
                raise ValueError(f"table(): sort_by is {sort_by!r}, expected one of {', '.join(_SORTS)}")
            rows.sort(key=lambda each: getattr(each, _SORTS[sort_by]), reverse=True)
        if row_limit >= 0:
            rows = rows[:row_limit]
        cpu = sum(each.self_cpu_time_total for each in self)
        device = sum(each.self_device_time_total for each in self if each.device_type is not DeviceType.CPU)

        def text(microseconds: float) -> str:
            return format_time(microseconds, time_unit)

        columns: list[tuple[str, Callable[[Any], str]]] = [
            ("Name", lambda each: _clipped(each.key, max_name_column_width)),
            ("Self CPU %", lambda each: _percent(each.self_cpu_time_total, cpu)),
            ("Self CPU", lambda each: text(each.self_cpu_time_total)),
            ("CPU total %", lambda each: _percent(each.cpu_time_total, cpu)),
            ("CPU total", lambda each: text(each.cpu_time_total)),
            ("CPU time avg", lambda each: text(each.cpu_time)),
        ]
        if device:
            columns += [
                ("Self CUDA", lambda each: text(each.self_device_time_total)),
                ("Self CUDA %", lambda each: _percent(each.self_device_time_total, device)),
                ("CUDA total", lambda each: text(each.device_time_total)),
                ("CUDA time avg", lambda each: text(each.device_time)),
            ]
        if self._memory:
            columns += [
                ("CUDA Mem", lambda each: format_memory(each.device_memory_usage)),
                ("Self CUDA Mem", lambda each: format_memory(each.self_device_memory_usage)),
            ]
        columns.append(("# of Calls", lambda each: str(each.count)))
        if any(getattr(each, "bound", "") for each in rows):
            columns.append(("Bound by", lambda each: getattr(each, "bound", "")))
        if any(each.input_shapes for each in rows):
            columns.append(
                ("Input Shapes", lambda each: _clipped(str(each.input_shapes), max_shapes_column_width))
            )
        if any(each.stack for each in rows):
            columns.append(
                (
                    "Source Location",
                    lambda each: _clipped(each.stack[0] if each.stack else "", max_src_column_width),
                )
            )
        lines = _aligned(columns, rows)
        if header is not None:
            lines.insert(0, header)
        lines.append(f"Self CPU time total: {text(cpu)}")
        if device:
            lines.append(f"Self CUDA time total: {text(device)}")
        if self._times:
            lines.append(f"CUDA times are {self._times}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def _join(total: FunctionEventAvg, other: FunctionEventAvg) -> None:
    for name in (
        "count",
        "self_cpu_time_total",
        "self_device_time_total",
        "self_device_memory_usage",
        "flops",
    ):
        setattr(total, name, getattr(total, name) + getattr(other, name))


def _aligned(columns: list[tuple[str, Callable[[Any], str]]], rows: list[Any]) -> list[str]:
    cells = [[title for title, _ in columns]] + [[cell(row) for _, cell in columns] for row in rows]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    rule = "  ".join("-" * width for width in widths)
    lines = [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]
    return [rule, lines[0], rule, *lines[1:], rule]


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "-"


def format_time(microseconds: float, unit: str | None = None) -> str:
    """A time as tables have it."""
    if unit == "s" or (unit is None and microseconds >= 1e6):
        return f"{microseconds / 1e6:.3f}s"
    if unit == "ms" or (unit is None and microseconds >= 1e3):
        return f"{microseconds / 1e3:.3f}ms"
    return f"{microseconds:.3f}us"


def format_memory(nbytes: int) -> str:
    """A number of bytes as tables have it."""
    for size, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {name}"
    return f"{nbytes} b"


def events_of(
    spans: Iterable[Span], devices: Iterable[DeviceEvent], memory: Iterable[Any]
) -> list[FunctionEvent]:
    """Events of a profile: those of the host, with what each queued, then those of devices."""
    by_span: dict[int, FunctionEvent] = {}
    result: list[FunctionEvent] = []
    for number, span in enumerate(spans):
        name, category = span.name, span.category
        event = FunctionEvent(
            name,
            category,
            DeviceType.CPU,
            span.start / 1e3,
            max(span.end, span.start) / 1e3,
            span.thread,
            number,
        )
        event.sequence_nr = span.sequence
        event.input_shapes = span.shapes or []
        event.stack = [f"{file}({line}): {function}" for file, line, function in span.stack or ()]
        event.flops = span.flops
        event.module = module_of(span)
        event.node = node_of(span)
        by_span[id(span)] = event
        result.append(event)
        if span.parent is not None and id(span.parent) in by_span:
            event.cpu_parent = by_span[id(span.parent)]
            event.cpu_parent.cpu_children.append(event)
    changed: dict[int, int] = defaultdict(int)
    for change in memory:
        if change.span is not None:
            changed[id(change.span)] += change.size
    for key, size in changed.items():
        event_of = by_span.get(key)
        if event_of is not None:
            event_of.self_device_memory_usage += size
            around: FunctionEvent | None = event_of
            while around is not None:
                around.device_memory_usage += size
                around = around.cpu_parent
    for number, each in enumerate(devices, len(result)):
        event = FunctionEvent(
            each.name, each.category, DeviceType.CUDA, each.start / 1e3, each.end / 1e3, each.stream, number
        )
        event.device_index = each.device
        event.details, event.advice, event.line = each.details, each.advice, each.line
        event.flops = float(each.details.get("flops", 0.0))
        if each.span is not None:
            event.module, event.node = module_of(each.span), node_of(each.span)
            launcher = by_span.get(id(each.span))
            if launcher is not None:
                launcher.kernels.append(event)
        result.append(event)
    return result


def module_of(span: Span | None) -> str:
    """The path of the module in which a span is; of a node, in which the operation was that it is the gradient of."""
    forward = None
    while span is not None:
        if span.category == "module":
            return span.name
        if span.category == "autograd_node" and forward is None:
            forward = span.forward
        span = span.parent
    return module_of(forward) if forward is not None else ""


def node_of(span: Span | None) -> str:
    """Name of the node of the graph that a span belongs to; empty if it runs forward."""
    while span is not None:
        if span.category == "autograd_node":
            return span.name
        span = span.parent
    return ""
