"""The older interface of profiles, ``torch.autograd.profiler``: one block of a program, from its beginning to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.names.absent import hints as _hints

from .events import EventList, FunctionEvent, FunctionEventAvg
from .profile import ProfilerActivity, kineto_available, record_function
from .profile import profile as _Profile

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "kineto_available",
    "profile",
    "record_function",
]


class profile:  # noqa: N801 - PyTorch's name
    """Collects what a program does inside ``with``; :class:`tensor.profiler.profile` can do more.

    Parameters
    ----------
    enabled : bool
        False lets the block run as without a profile.
    use_cuda : bool
        Whether devices are looked at.
    use_device : str, optional
        ``"cuda"`` as well; None for the host alone.
    record_shapes, with_flops, profile_memory, with_stack, with_modules
        As for :class:`tensor.profiler.profile`.
    use_kineto, experimental_config, acc_events, custom_trace_id_callback
        Accepted and not used.
    use_cpu : bool
        Whether the host is looked at.

    Raises
    ------
    ValueError
        If there is nothing to look at, or no such kind of device.
    RuntimeError
        If it is entered a second time, or results are asked for that there are not.

    Examples
    --------
    >>> from tensor.autograd import profiler
    >>> with profiler.profile() as run:
    ...     with profiler.record_function("twice"):
    ...         y = tensor.ones(3) * 2
    >>> [each.count for each in run.key_averages() if each.key == "twice"]
    [1]
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
    ) -> None:
        if use_device not in (None, "cuda"):
            raise ValueError(f"profile(): use_device is {use_device!r}, expected 'cuda' or None")
        activities = {ProfilerActivity.CPU} if use_cpu else set()
        if use_cuda or use_device == "cuda":
            activities.add(ProfilerActivity.CUDA)
        self.enabled = enabled
        self._entered = False
        self._run = _Profile(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
        )

    def __enter__(self) -> Self:
        if self._entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._entered = True
        if self.enabled:
            self._run.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.enabled:
            self._run.stop()

    def _results(self) -> EventList:
        if not (self.enabled and self._entered):
            raise RuntimeError("Profiler didn't finish running")
        return self._run.events()

    @property
    def function_events(self) -> EventList:
        """All events; raises RuntimeError if nothing was profiled."""
        return self._results()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of the host, each counted once; raises RuntimeError if nothing was profiled."""
        return self._results().self_cpu_time_total

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Averages of the events by name.

        Parameters
        ----------
        group_by_input_shape : bool
            Whether events with other shapes of inputs are apart.
        group_by_stack_n : int
            How many lines of the Python stack keep events apart.

        Raises
        ------
        RuntimeError
            If nothing was profiled.
        """
        return self._results().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """All events in one average.

        Raises
        ------
        RuntimeError
            If nothing was profiled.
        """
        return self._results().total_average()

    def table(self, **options: Any) -> str:
        """The events as a table; ``options`` are those of :meth:`EventList.table`, which it raises as, too.

        Raises
        ------
        RuntimeError
            If nothing was profiled.
        """
        return self._results().table(**options)

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace to ``path`` that Chrome and Perfetto show.

        Raises
        ------
        RuntimeError
            If nothing was profiled.
        """
        self._results()
        self._run.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks to ``path``, as :meth:`tensor.profiler.profile.export_stacks`, by the times ``metric``.

        Raises
        ------
        RuntimeError
            If nothing was profiled.
        """
        self._results()
        self._run.export_stacks(path, metric)

    def __repr__(self) -> str:
        return (
            repr(self._results()) if self.enabled and self._entered else "<unfinished torch.autograd.profile>"
        )

    def __str__(self) -> str:
        return self.table() if self.enabled and self._entered else repr(self)


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
