"""A launch of an executable graph: its nodes, queued as the operations that they are.

They come after what the launching stream holds and after earlier launches of the same executable graph, and what is
queued on the stream later comes after them. Between themselves they are ordered as the graph says and no further:
branches run on streams of their own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from drv.simulator.scheduler import GraphLaunch, Stream
from drv.simulator.work.kernel import FailingKernelWork, KernelWork

from .bodies import BodyOperation
from .nested import ConditionalWork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cuda.bindings.driver import CUresult

    from drv.simulator.driver_state import DriverState
    from drv.simulator.scheduler import Operation

    from .executable import Executable, Step
    from .nested import Condition


def queue(
    driver: DriverState, executable: Executable, stream: Stream, faults: Mapping[Step, CUresult]
) -> None:
    """Queue ``executable`` on ``stream``. Launches of kernels that are in ``faults`` fail with that status."""
    driver.graph_launch = GraphLaunch(f"graph {executable.graph.identifier}", stream.name)
    try:
        _queue(driver, executable, stream, faults)
    finally:
        driver.graph_launch = None
    executable.last = stream.last


def _queue(
    driver: DriverState, executable: Executable, stream: Stream, faults: Mapping[Step, CUresult]
) -> None:
    plan = executable.plan
    own = plan.lanes.index(stream.context) if stream.context in plan.lanes else None
    after: list[Operation] = []
    last = executable.last
    if last is not None and last.stream is not stream:
        after.append(last)
    start: Operation | None = None
    branches = {chain for chain in range(len(plan.lanes)) if chain != own}
    if branches or after or executable.conditions or not plan.steps:
        set_defaults = partial(_set_defaults, executable.conditions) if executable.conditions else None
        label = f"launch of graph {executable.graph.identifier}"
        start = driver.enqueue(stream, label, set_defaults, after)
    streams = [
        stream if chain == own else _branch(driver, executable, chain) for chain in range(len(plan.lanes))
    ]
    operations: list[Operation] = []
    begun = [chain == own for chain in range(len(plan.lanes))]
    for step in plan.steps:
        chain = step.chain
        earlier = [operations[number] for number in step.after]
        if not begun[chain]:
            begun[chain] = True
            if start is not None and not earlier:
                earlier.append(start)
        operations.append(_queue_step(driver, step, streams[chain], earlier, faults.get(step)))
    if branches:
        ends = [operations[number] for chain, number in enumerate(plan.ends) if chain in branches]
        driver.enqueue(stream, f"end of graph {executable.graph.identifier}", None, ends)


def _queue_step(
    driver: DriverState, step: Step, stream: Stream, after: list[Operation], fault: CUresult | None
) -> Operation:
    work = step.work
    if not step.enabled:
        return driver.enqueue(stream, f"disabled node: {work.label}{step.note}", None, after)
    if isinstance(work, ConditionalWork):
        return BodyOperation.queue(driver, step, work, stream, after)
    if fault is not None and isinstance(work, KernelWork):
        work = FailingKernelWork(work, fault)
    return work.queue(driver, stream, after, step.note)


def _branch(driver: DriverState, executable: Executable, chain: int) -> Stream:
    stream = executable.branches.get(chain)
    if stream is None:
        context = executable.plan.lanes[chain]
        name = driver.stream_name(context, f"branch {chain + 1} of graph {executable.graph.identifier}")
        stream = Stream(0, context, name, driver.new_identifier(), blocking=False)
        executable.branches[chain] = stream
        context.branches.append(stream)
    return stream


def _set_defaults(conditions: list[Condition]) -> None:
    for condition in conditions:
        if condition.default is not None:
            condition.value = condition.default
