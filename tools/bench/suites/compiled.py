"""Steps of training as they are, compiled as a whole, so in the mode that replays graphs, and captured as one graph.

Device calls, bytes and time are those of the simulated driver and its model of an H200; host time is that of a simulated
device which runs nothing (``execute=off``), where a graph's replay is one call. Needs no GPU.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

import drv
import tensor
from drv.simulator.timing.recorder import recording
from drv.simulator.timing.repeats import Repeats
from tools.bench.measure import OURS, Row
from tools.bench.training_models import TRAININGS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

_REPLAYED = "reduce-overhead"
_MODES = ("eager", OURS, _REPLAYED)
#: Steps before those that are measured: in the last mode they are recorded, warm up, and are captured.
_FIRST_STEPS = 3
#: Figures to reach, by model and row.
_REACH = {("GPT", "device calls"): 120.0}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the suite."""
    parser.add_argument("--repeat", type=int, default=20, help="steps, whose median counts (20)")


def rows(only: str, options: argparse.Namespace) -> Iterator[Row]:
    """Measure the models whose name contains ``only``."""
    for name in TRAININGS:
        if only not in name:
            continue
        modelled = {mode: _modelled(name, mode) for mode in _MODES}
        for number, (what, unit) in enumerate(
            (("device calls", ""), ("bytes of DRAM", "MB"), ("device time", "us"))
        ):
            yield Row(
                f"{name}: {what}",
                unit,
                {mode: figures[number] for mode, figures in modelled.items()},
                reach=_REACH.get((name.split()[0], what)),
            )
        host, first = _host_times(name, options.repeat)
        yield Row(f"{name}: host time", "ms", host)
        yield Row(f"{name}: first step", "s", first, note="plans, and the compilation of the function")


def _step(name: str, mode: str, *, capturable: bool = False) -> Callable[[], None]:
    """What does a step."""
    training = TRAININGS[name](capturable)
    step: Any = training.step_of(training.loss)
    if mode != "eager":
        step = tensor.compile(step, fullgraph=True, mode=mode if mode == _REPLAYED else None)
    return lambda: step(*training.batch)


def _modelled(name: str, mode: str) -> tuple[float, float, float]:
    """Device calls, megabytes and microseconds of a step."""
    drv.simulator.install(memory="16GiB", check="off", model="h200")
    step = _step(name, mode)
    driver: Any = drv.runtime().driver
    # Of launches that do the same, a sample of the first one runs: of those of ResNet-18 it takes minutes.
    first = Repeats()
    for _ in range(_FIRST_STEPS):
        with recording(driver, results=False, repeats=first):
            step()
    with drv.simulator.timed(results=False) as timing:
        step()
    operations = timing.operations
    moved = sum(each.metrics.get("dram_bytes") or 0 for each in operations)
    result = len(operations), moved / 1e6, sum(each.metrics.get("modelled_us") or 0.0 for each in operations)
    del step, timing, operations
    drv.reset()
    return result


def _host_times(name: str, repeat: int) -> tuple[dict[str, float], dict[str, float]]:
    """Milliseconds of the host's processor for a step, medians of what is measured in turn, and seconds of the first one."""
    drv.simulator.install(memory="16GiB", execute=False, check="off", model="h200")
    steps, first = {}, {}
    for mode in _MODES:
        steps[mode] = _step(name, mode)
        begin = time.perf_counter()
        steps[mode]()
        first[mode] = time.perf_counter() - begin
    steps["graph"] = _replay(name)
    for _ in range(_FIRST_STEPS):
        steps[_REPLAYED]()
    times: dict[str, list[float]] = {mode: [] for mode in steps}
    for _ in range(repeat):
        for mode, step in steps.items():
            # As in training, after one of its like: random numbers go on where a graph's last replay left them.
            step()
            # Of this process alone: others on the machine change less of it.
            begin = time.process_time()
            step()
            times[mode].append(time.process_time() - begin)
    steps.clear()
    drv.reset()
    return {mode: median(each) * 1e3 for mode, each in times.items()}, first


def _replay(name: str) -> Callable[[], None]:
    """What replays a graph of a compiled step."""
    step = _step(name, OURS, capturable=True)
    side = tensor.cuda.Stream()
    with tensor.cuda.stream(side):
        for _ in range(3):
            step()
    side.synchronize()
    graph = tensor.cuda.CUDAGraph()
    with tensor.cuda.graph(graph):
        step()
    return graph.replay
