"""Timing of calls, on the host and on the device, of this project and of what it is compared with."""

from __future__ import annotations

import gc
import importlib.util
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Literal

import drv
import tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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


def on_gpu() -> bool:
    """Whether there is a GPU, which calls are measured on then."""
    return drv.is_available() and not drv.runtime().simulated


def libraries(device: str, *, one_thread: bool = True) -> dict[str, Any]:
    """What is compared: tensors of this project and, where it is installed, PyTorch, by the names of contenders.

    Parameters
    ----------
    device
        Where PyTorch is going to work, which its name tells.
    one_thread
        Whether it may use only one thread of the CPU.
    """
    result: dict[str, Any] = {OURS: tensor}
    if importlib.util.find_spec("torch"):
        import torch

        if one_thread:
            torch.set_num_threads(1)
        result[f"torch {device}"] = torch
    return result


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


def work_times(calls: Mapping[str, Callable[[], object]], libraries: Mapping[str, Any]) -> dict[str, float]:
    """Median time of each call's work, in nanoseconds: on the GPU where there is one, and otherwise on the CPU.

    Contenders that are none of ``libraries`` queue their work on the default stream, as this project does.
    """
    if not on_gpu():
        return host_times(calls)
    events = {name: libraries.get(name, tensor).cuda.Event for name in calls}
    return device_times({name: (call, events[name]) for name, call in calls.items()})


def repeated(call: Callable[[], object], number: int) -> Callable[[], None]:
    """``number`` calls as one, so that the timing loop costs nothing."""
    calls = range(number)

    def run() -> None:
        for _ in calls:
            call()

    return run


def host_rows(
    only: str,
    libraries: Mapping[str, Any],
    calls: Callable[[Any, str], Mapping[str, Callable[[], object]]],
    number: int,
) -> Iterator[Row]:
    """Host time per call where the work does not matter, for the rows whose name contains ``only``.

    Without a GPU it is measured on a simulated device that runs nothing, and PyTorch's on the CPU.

    Parameters
    ----------
    calls
        Of a library on a device, the calls by their names.
    number
        How many calls are timed as one.
    """
    simulated = not on_gpu()
    if simulated:
        drv.reset()
        drv.simulator.install(memory="8GiB", execute=False, check="off")
    result = {
        name: calls(library, "cpu" if simulated and name != OURS else "cuda")
        for name, library in libraries.items()
    }
    for name in result[OURS]:
        row = f"host time, {name}"
        if only not in row:
            continue
        contenders = {
            library: repeated(each[name], number) for library, each in result.items() if name in each
        }
        yield Row(row, "ns", {library: time / number for library, time in host_times(contenders).items()})
    if simulated:
        drv.reset()
