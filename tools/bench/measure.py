"""Timing of host calls."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OURS = "graphroot"


@dataclass(slots=True, frozen=True)
class Row:
    """One line of a suite's table.

    ``values`` maps a contender to its median in ``unit``. ``reach`` is the figure to reach, in the same
    unit, or ``None`` where there is none; ``better`` tells in which direction.
    """

    name: str
    unit: str
    values: Mapping[str, float]
    better: Literal["lower", "higher"] = "lower"
    reach: float | None = None
    note: str = ""
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def reached(self) -> bool | None:
        """Whether this project's value is at least as good as ``reach``; ``None`` without one."""
        if self.reach is None or OURS not in self.values:
            return None
        ours = self.values[OURS]
        return ours <= self.reach if self.better == "lower" else ours >= self.reach


def _time_per_call(call: Callable[[], object], number: int) -> float:
    repeat = range(number)
    start = perf_counter_ns()
    for _ in repeat:
        call()
    return (perf_counter_ns() - start) / number


def host_times(
    calls: Mapping[str, Callable[[], object]], *, seconds: float = 0.5, rounds: int = 7
) -> dict[str, float]:
    """Median host time of each call, in nanoseconds.

    Each contender is warmed up and calibrated so that one round takes ``seconds / rounds``; rounds of
    the contenders alternate, so that a slow spell of the machine falls on all of them. Cyclic garbage
    collection is off while a round runs, as in :mod:`timeit`.
    """
    numbers = {}
    for name, call in calls.items():
        call()
        number, elapsed = 1, 0.0
        while elapsed < 1e7 and number < 1 << 24:
            elapsed = _time_per_call(call, number) * number
            number *= 2
        numbers[name] = max(1, int(number / 2 * (seconds / rounds * 1e9) / max(elapsed, 1.0)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    enabled = gc.isenabled()
    try:
        for _ in range(rounds):
            for name, call in calls.items():
                gc.disable()
                times[name].append(_time_per_call(call, numbers[name]))
                if enabled:
                    gc.enable()
                gc.collect(0)
    finally:
        if enabled:
            gc.enable()
    return {name: median(values) for name, values in times.items()}


def host_time(call: Callable[[], object], *, seconds: float = 0.5, rounds: int = 7) -> float:
    """Median host time of one call, in nanoseconds. See :func:`host_times`."""
    return host_times({OURS: call}, seconds=seconds, rounds=rounds)[OURS]


def device_times(
    calls: Mapping[str, tuple[Callable[[], object], Callable[..., Any]]],
    *,
    seconds: float = 0.5,
    rounds: int = 7,
) -> dict[str, float]:
    """Median time of each call's work on the device, in nanoseconds.

    ``calls`` maps a contender to its call and its class of events, which are recorded on the current stream
    before and after as many calls as take ``seconds / rounds``; rounds of the contenders alternate.
    """

    def timed(name: str, number: int) -> float:
        call, event = calls[name]
        start, end = event(enable_timing=True), event(enable_timing=True)
        start.record()
        for _ in range(number):
            call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e6 / number

    numbers = {}
    for name in calls:
        timed(name, 2)
        numbers[name] = max(1, int(seconds / rounds * 1e9 / max(timed(name, 3), 1.0)))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name in calls:
            times[name].append(timed(name, numbers[name]))
    return {name: median(values) for name, values in times.items()}
