"""``profile``: what a program does with its time, on the host and on devices."""

from __future__ import annotations

import json
import os
import socket
import time
import warnings
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import drv
from tensor.core import spans as spans_module
from tensor.core.spans import ANNOTATION, STEP, Spans

from . import chrome
from .devices import source_of_devices
from .events import EventList, events_of
from .memory import MemoryWatch
from .memory_picture import write_memory_page
from .schedules import ProfilerAction, always
from .watching import Options, Watching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .devices import DeviceEvent, DeviceSource
    from .memory import MemoryEvent


class ProfilerActivity(Enum):
    """What a profile looks at.

    ``CPU`` is the host: operations, nodes of the graph, modules, annotations; ``CUDA`` its devices: kernels, copies, fills. The
    others have PyTorch's names and numbers, and nothing is seen of them.
    """

    CPU = 0
    XPU = 1
    CUDA = 2
    MTIA = 3
    HPU = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """What a profile can look at here: the host, and devices where there is a driver.

    A new set, of ``ProfilerActivity.CPU`` and perhaps ``ProfilerActivity.CUDA``.
    """
    result = {ProfilerActivity.CPU}
    if drv.is_available():
        result.add(ProfilerActivity.CUDA)
    return result


def kineto_available() -> bool:
    """False: traces are written by this package, not by PyTorch's library for it."""
    return False


class record_function:  # noqa: N801 - PyTorch's name
    """A named span around a block, or around a function as a decorator, which profiles show.

    Parameters
    ----------
    name : str
        What it is called.
    args : str, optional
        Said beside the name.

    Examples
    --------
    >>> from tensor import profiler
    >>> with profiler.profile() as run:
    ...     with profiler.record_function("two steps"):
    ...         x = tensor.ones(8).sum()
    >>> [event.key for event in run.key_averages() if event.key == "two steps"]
    ['two steps']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._span: Any = None
        self._spans: Spans | None = None

    def __enter__(self) -> Self:
        self._spans = spans_module.active
        if self._spans is not None:
            self._span = self._spans.begin(self.name, ANNOTATION)
            self._span.arguments = self.args
        return self

    def __exit__(self, *exception: object) -> None:
        if self._spans is not None:
            self._spans.end(self._span)
            self._spans = self._span = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Put the span around each call of ``function``."""

        @wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name, self.args):
                return function(*args, **kwargs)

        return noted


class profile:  # noqa: N801 - PyTorch's name
    """Collects what a program does, inside ``with``, or between :meth:`start` and :meth:`stop`.

    On a GPU device times are the hardware's. On the simulated driver they are modelled: tables and traces say so.

    Parameters
    ----------
    activities : iterable of ProfilerActivity, optional
        What to look at: the host, devices, or (by default) both.
    schedule : callable, optional
        Gives the :class:`ProfilerAction` of each step by its number; :func:`schedule` makes one. Without, all is recorded.
    on_trace_ready : callable, optional
        Called with the profile at the end of each cycle of the schedule, or at its end.
    record_shapes : bool
        Whether shapes of operations' inputs are noted.
    profile_memory : bool
        Whether allocations of devices are, with the Python line of each.
    with_stack : bool
        Whether Python stacks of operations are.
    with_flops : bool
        Kept for PyTorch's sake: floating point operations of kernels are always known to the model.
    with_modules : bool
        Kept for PyTorch's sake: the path of modules is always noted.
    experimental_config, execution_trace_observer, acc_events, custom_trace_id_callback, use_cuda
        Accepted and not used.
    results : bool
        On the simulated driver: whether results are needed. Otherwise only a sample of a large grid runs; see
        :func:`drv.simulator.timed`.

    Attributes
    ----------
    step_num : int
        Number of the step that runs.
    current_action : ProfilerAction
        What is done in it.

    Raises
    ------
    ValueError
        If there is nothing to look at.
    RuntimeError
        If it is started while another profile runs.

    Examples
    --------
    >>> from tensor import profiler
    >>> with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as run:
    ...     x = tensor.ones(100)
    ...     y = x + x
    >>> [event.count for event in run.key_averages() if event.key == "aten::add"]
    [1]
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Any = None,
        results: bool = True,
    ) -> None:
        chosen = set(activities) if activities is not None else {ProfilerActivity.CPU, ProfilerActivity.CUDA}
        if not chosen:
            raise ValueError("profile(): activities is empty: name ProfilerActivity.CPU, .CUDA, or both")
        self.activities = chosen
        self.schedule = schedule or always
        self._scheduled = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self._results = results
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._metadata: dict[str, Any] = {}
        self._watching: Watching | None = None
        self._source: DeviceSource | None = None
        self._memory: MemoryWatch | None = None
        self._spans: Spans | None = None
        self._step_span: Any = None
        self._device_events: list[DeviceEvent] = []
        self._memory_events: list[MemoryEvent] = []
        self._running = False
        self._how = ""

    # Running

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin, with the action of step 0.

        Raises
        ------
        RuntimeError
            If this profile runs already, or another one.
        """
        if self._running:
            raise RuntimeError("this profile runs already")
        self._running = True
        try:
            self._act(self.schedule(self.step_num))
        except BaseException:
            self._running = False
            raise

    def stop(self) -> None:
        """End; ``on_trace_ready`` is called if something was recorded and has not been given to it.

        Does nothing if the profile does not run.
        """
        if not self._running:
            return
        self._running = False
        recorded = self._watching is not None
        self._end()
        self.current_action = ProfilerAction.NONE
        if recorded and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """The next step of the schedule begins.

        At the end of a cycle of the schedule ``on_trace_ready`` is called. Does nothing if the profile does not run.

        Raises
        ------
        RuntimeError
            If the step is the first that is recorded, and another profile runs.
        """
        if not self._running:
            return
        saved = self.current_action is ProfilerAction.RECORD_AND_SAVE
        self.step_num += 1
        if saved:
            self._end()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self._act(self.schedule(self.step_num))

    def _act(self, action: ProfilerAction) -> None:
        self.current_action = action
        records = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if records and self._watching is None:
            self._begin()
        elif not records and self._watching is not None:
            self._end()
        if self._watching is not None and self._scheduled:
            assert self._spans is not None
            if self._step_span is not None:
                self._spans.end(self._step_span)
            self._step_span = self._spans.begin(f"ProfilerStep#{self.step_num}", STEP)

    def watch_devices(self, runtime: drv.Runtime | None = None) -> None:
        """Look at the devices of a driver that is chosen while the profile runs.

        Parameters
        ----------
        runtime : drv.Runtime, optional
            The driver's; that in use by default.

        Raises
        ------
        RuntimeError
            If the profile does not run, or looks at devices already.
        """
        if self._spans is None or self._source is not None:
            raise RuntimeError("watch_devices(): the profile does not run, or looks at devices already")
        source = self._source = source_of_devices(runtime, results=self._results)
        if source is None:
            return
        self._spans.clock = source.clock
        source.start(self._spans)
        if self.profile_memory:
            self._memory = MemoryWatch(self._spans, runtime or drv.runtime())
            self._memory.start()

    def leave_devices(self) -> None:
        """Stop looking at devices, and keep what was seen of them: the driver is about to be dropped.

        :meth:`watch_devices` looks at those of another driver.
        """
        if self._source is not None:
            self._source.stop()
            self._device_events += self._source.events()
            self._how = self._source.how
            self._source = None
        if self._memory is not None:
            self._memory.stop()
            self._memory_events += self._memory.events
            self._memory = None

    def _begin(self) -> None:
        if spans_module.active is not None:
            raise RuntimeError("another profile runs: only one at a time can")
        self._spans = Spans(time.perf_counter_ns)
        self._device_events, self._memory_events = [], []
        if ProfilerActivity.CUDA in self.activities:
            self.watch_devices()
        self._watching = Watching(self._spans, Options(shapes=self.record_shapes, stack=self.with_stack))
        self._watching.start()

    def _end(self) -> None:
        if self._watching is None:
            return
        assert self._spans is not None
        if self._step_span is not None:
            self._spans.end(self._step_span)
            self._step_span = None
        self._watching.stop()
        self._watching = None
        now = self._spans.clock()
        for span in self._spans.all:
            if not span.end:
                span.end = now
        self.leave_devices()

    # Results

    @property
    def device_times(self) -> str:
        """How times of devices were had: ``modelled ...``, ``measured ...``, or empty where no device was looked at."""
        return self._how if self._source is None else self._source.how

    def device_events(self) -> list[DeviceEvent]:
        """What devices did, with its times, figures, and the span of the host that queued it.

        In the order in which they were queued. Times are those that :attr:`device_times` says.
        """
        return list(self._device_events)

    def memory_events(self) -> list[MemoryEvent]:
        """Allocations and frees of devices, where memory was profiled.

        Sizes are in bytes, negative for frees. Empty without ``profile_memory=True``.
        """
        return list(self._memory_events)

    def spans(self) -> list[spans_module.Span]:
        """Spans of the host: operations, nodes, modules, annotations.

        Empty if ``activities`` does not have ``ProfilerActivity.CPU``.
        """
        spans = [] if self._spans is None else self._spans.all
        return spans if ProfilerActivity.CPU in self.activities else []

    def events(self) -> EventList:
        """All events: those of the host, then those of devices.

        :meth:`key_averages` sums them up by name.
        """
        return EventList(
            events_of(self.spans(), self._device_events, self._memory_events),
            times=self.device_times,
            memory=self.profile_memory,
        )

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Events averaged by name; see :meth:`EventList.key_averages`.

        Parameters
        ----------
        group_by_input_shape : bool
            Whether events with other shapes of inputs are apart.
        group_by_stack_n : int
            How many lines of the Python stack keep events apart.
        """
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def add_metadata(self, key: str, value: str) -> None:
        """Write ``value`` into traces as ``key``.

        Traces that were written before do not get it. A later value of the same key takes its place.
        """
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Write what the JSON text ``value`` says into traces as ``key``.

        Raises
        ------
        ValueError
            If ``value`` is not JSON.
        """
        self._metadata[key] = json.loads(value)

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for Chrome and Perfetto to the file ``path``; compressed if that ends in ``.gz``.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        chrome.write(os.fspath(path), self.chrome_trace())

    def chrome_trace(self) -> dict[str, Any]:
        """What :meth:`export_chrome_trace` writes.

        A dictionary that ``json.dump`` takes, in the format of Chrome's traces; times are in microseconds.
        """
        return chrome.trace(
            self.spans(),
            self._device_events,
            self._memory_events,
            {"device times": self.device_times, **self._metadata},
        )

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with a metric, a line each, as flame graphs are made of; needs ``with_stack=True``.

        Parameters
        ----------
        path : str
            The file.
        metric : str
            ``self_cpu_time_total``, or ``self_cuda_time_total`` (``self_device_time_total``).

        Raises
        ------
        ValueError
            If there is no such metric.
        OSError
            If the file cannot be written.
        """
        names = {
            "self_cpu_time_total": "self_cpu_time_total",
            "self_cuda_time_total": "self_device_time_total",
            "self_device_time_total": "self_device_time_total",
        }
        if metric not in names:
            raise ValueError(f"export_stacks(): metric is {metric!r}, expected one of {', '.join(names)}")
        lines = []
        for event in self.events():
            value = int(getattr(event, names[metric]))
            if event.stack and value > 0:
                lines.append(f"{';'.join([*reversed(event.stack), event.name]).replace(' ', '_')} {value}")
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write what was allocated over time; needs ``profile_memory=True``.

        Parameters
        ----------
        path : str
            The file: ``.json`` for times and totals by line, ``.raw.json`` for every event, ``.html`` for a picture
            (extra ``profile``).
        device : str, optional
            ``cuda:0`` by default.

        Raises
        ------
        ValueError
            If the file's name has another ending, or memory was not profiled.
        LibraryNotInstalledError
            If a picture is asked for and plotly is not installed.
        OSError
            If it cannot be written.
        """
        if not self.profile_memory:
            raise ValueError(
                "export_memory_timeline(): memory was not profiled: use profile(profile_memory=True)"
            )
        ordinal = int((device or "cuda:0").partition(":")[2] or 0)
        events = [each for each in self._memory_events if each.device == ordinal]
        path = os.fspath(path)
        if path.endswith(".raw.json"):
            content: Any = [
                [each.time // 1000, "create" if each.size > 0 else "free", abs(each.size), each.line]
                for each in events
            ]
        elif path.endswith(".json"):
            content = _timeline(events)
        elif path.endswith(".html"):
            write_memory_page(Path(path), events, f"Memory of cuda:{ordinal} over time")
            return
        else:
            raise ValueError(f"export_memory_timeline(): {path!r} must end in .json, .raw.json or .html")
        Path(path).write_text(json.dumps(content), encoding="utf-8")

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Not supported: warns with UserWarning, and changes nothing.

        In PyTorch it switches ``activities`` on or off, as ``enable`` says, while a profile runs.
        """
        warnings.warn("toggle_collection_dynamic() changes nothing here", stacklevel=2)


def _timeline(events: list[MemoryEvent]) -> dict[str, Any]:
    lines = list(dict.fromkeys(each.line for each in events))
    held = dict.fromkeys(lines, 0)
    times, sizes = [], []
    for each in events:
        held[each.line] += each.size
        times.append(each.time // 1000)
        sizes.append(list(held.values()))
    return {"lines": lines, "times_us": times, "bytes": sizes}


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For ``on_trace_ready``: write each trace to a file of its own in a folder, as TensorBoard finds them.

    Parameters
    ----------
    dir_name : str
        The folder, which is made where it is missing.
    worker_name : str, optional
        Beginning of the files' names; by default the machine's name and the process.
    use_gzip : bool
        Whether they are compressed.

    Returns
    -------
    callable
        Takes a profile.
    """

    def handle(run: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        run.export_chrome_trace(str(folder / f"{worker}.{time.time_ns()}{ending}"))

    return handle
