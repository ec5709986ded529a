"""What a profile says of each kernel, over all its launches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from drv.simulator.timing.advice import METRICS
from tensor.profiler.events import module_of, node_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor.profiler import profile
    from tensor.profiler.devices import DeviceEvent

#: Figures of a kernel that are names; the most frequent one stands for all launches.
_NAMES = ("bound", "occupancy_limit")
#: Figures of the whole script, with their units.
TOTALS = {
    "launches": ("launches", "kernels and library calls"),
    "device_calls": ("calls", "kernels, library calls, copies and fills"),
    "device_us": ("us", "time of devices, summed"),
    "elapsed_us": ("us", "from the first call of the host to the end of the last operation"),
    "dram_bytes": ("bytes", "bytes that DRAM moves for kernels and library calls"),
    "copied_bytes": ("bytes", "bytes of copies"),
    "peak_bytes": (
        "bytes",
        "bytes of device memory allocated at the most at once, where memory was profiled",
    ),
}


@dataclass(slots=True)
class Kernel:
    """Launches of one kernel, or calls of one library function."""

    name: str
    category: str
    launches: list[DeviceEvent] = field(default_factory=list)

    @property
    def total_us(self) -> float:
        """Microseconds of all launches."""
        return sum(each.nanoseconds for each in self.launches) / 1e3

    @property
    def line(self) -> str:
        """The line of Python that launched it most often."""
        return _most(each.line for each in self.launches)

    @property
    def module(self) -> str:
        """The module in which it was launched most often."""
        return _most(module_of(each.span) for each in self.launches)

    @property
    def node(self) -> str:
        """The node of the graph that launched it most often; empty if it runs forward."""
        return _most(node_of(each.span) for each in self.launches)

    @property
    def advice(self) -> list[str]:
        """What is said of the launch that takes longest."""
        return max(self.launches, key=lambda each: each.nanoseconds).advice

    def values(self, metric: str) -> list[Any]:
        """The metric of each launch that has it."""
        if metric == "launches":
            return [len(self.launches)]
        if metric == "total_us":
            return [self.total_us]
        return [each.details[metric] for each in self.launches if metric in each.details]

    def metric(self, name: str) -> Any:
        """The metric over all launches, each weighted by its time; the most frequent one of names; ``None`` if there is none."""
        pairs = [(each.details[name], each.nanoseconds) for each in self.launches if name in each.details]
        if not pairs:
            return None
        if name in _NAMES:
            return Counter(value for value, _ in pairs).most_common(1)[0][0]
        if name == "modelled_us":
            return sum(value for value, _ in pairs) / len(pairs)
        weight = sum(nanoseconds for _, nanoseconds in pairs)
        if not weight:
            return sum(value for value, _ in pairs) / len(pairs)
        return sum(value * nanoseconds for value, nanoseconds in pairs) / weight

    def record(self) -> dict[str, Any]:
        """All of it, for JSON."""
        first = self.launches[0].details
        result: dict[str, Any] = {
            "name": self.name,
            "category": self.category,
            "launches": len(self.launches),
            "total_us": self.total_us,
        }
        for name in METRICS:
            value = self.metric(name)
            if value is not None:
                result[name] = value
        if "limits_us" in first:
            longest = max(self.launches, key=lambda each: each.nanoseconds)
            result["limits_us"] = longest.details["limits_us"]
            result["grid"], result["block"] = longest.details["grid"], longest.details["block"]
        result |= {"module": self.module, "node": self.node, "line": self.line, "advice": self.advice}
        return result


def kernels_of(run: profile) -> list[Kernel]:
    """Kernels and library functions of a profile, those that take longest in all first."""
    return kernels_of_events(run.device_events())


def kernels_of_events(events: Iterable[DeviceEvent]) -> list[Kernel]:
    """The same of what devices did."""
    kernels: dict[str, Kernel] = {}
    for event in events:
        if event.category == "kernel":
            kernels.setdefault(event.name, Kernel(event.name, event.category)).launches.append(event)
    return sorted(kernels.values(), key=lambda each: -each.total_us)


def totals_of(run: profile) -> dict[str, Any]:
    """Figures of the whole script by the names of :data:`TOTALS`."""
    events, spans, memory = run.device_events(), run.spans(), run.memory_events()
    starts = [span.start for span in spans] + [each.start for each in events]
    ends = [span.end for span in spans] + [each.end for each in events]
    totals = {
        "launches": sum(each.category == "kernel" for each in events),
        "device_calls": len(events),
        "device_us": sum(each.nanoseconds for each in events) / 1e3,
        "elapsed_us": (max(ends) - min(starts)) / 1e3 if starts else 0.0,
        "dram_bytes": sum(each.details.get("dram_bytes", 0) for each in events),
        "copied_bytes": sum(each.details.get("bytes", 0) for each in events if each.category == "gpu_memcpy"),
    }
    if run.profile_memory:
        totals["peak_bytes"] = max((each.total for each in memory), default=0)
    return totals


def _most(values: Any) -> str:
    counted = Counter(value for value in values if value)
    return counted.most_common(1)[0][0] if counted else ""
