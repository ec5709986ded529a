"""Processes that a script starts: what their devices do, for a row of each in the script's report."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from tensor.core.spans import Spans
from tensor.profiler.devices import source_of_devices
from tools.counted import counted

from .kernels import kernels_of_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from drv import Runtime
    from tensor.profiler.devices import DeviceEvent, DeviceSource

#: Kernels of a process that are named, those that take longest.
_KERNELS = 5


class ProcessProfile:
    """Looks at the devices of a process that a profiled script has started: an observer of ``tools.run.following``.

    Its host is not looked at.

    Parameters
    ----------
    results : bool
        Whether results are needed; see :func:`drv.simulator.timed`.
    """

    def __init__(self, results: bool) -> None:
        self._results = results
        self._source: DeviceSource | None = None
        self._events: list[DeviceEvent] = []
        self._how = ""

    def simulator_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """See :class:`drv.selection.Supervisor`."""
        return options

    def started(self, runtime: Runtime) -> None:
        """See :class:`drv.selection.Supervisor`."""
        self._source = source_of_devices(runtime, results=self._results)
        if self._source is not None:
            self._source.start(Spans(perf_counter_ns))

    def ending(self, runtime: Runtime) -> None:
        """See :class:`drv.selection.Supervisor`."""
        if self._source is not None:
            self._source.stop()
            self._events += self._source.events()
            self._how = self._source.how
            self._source = None

    def report(self, process: str) -> dict[str, Any]:
        """See :class:`tools.run.following.Observer`."""
        self.ending(None)  # type: ignore[arg-type]
        kernels = kernels_of_events(self._events)
        return {
            "process": process,
            "launches": sum(len(each.launches) for each in kernels),
            "device_calls": len(self._events),
            "device_us": sum(each.nanoseconds for each in self._events) / 1e3,
            "device_times": self._how,
            "kernels": [
                {"name": each.name, "launches": len(each.launches), "total_us": each.total_us}
                for each in kernels[:_KERNELS]
            ],
        }


def lines_of(reports: Sequence[dict[str, Any]]) -> Iterable[str]:
    """A line that says what follows, and one for each process."""
    if not reports:
        return
    yield "processes that it started (their devices alone; the figures above are without them):"
    for each in reports:
        kernels = ", ".join(kernel["name"] for kernel in each["kernels"])
        yield (
            f"  {each['process']}: {counted(each['launches'], 'launch', 'launches')}, {each['device_us']:,.1f} us of devices"
            + (f"; longest: {kernels}" if kernels else "")
        )
