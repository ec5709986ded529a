"""Conditional nodes as they run: the condition is looked at, and a body run, until the node is done.

Bodies hold nothing that waits or runs on the host, so that they run within the operation of their node, their own nodes
in any order that the graph allows. To the race finder each is work of its own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from drv.simulator.faults import DeviceFault
from drv.simulator.work.work import InnerOperation

from .nested import WHILE, ConditionalWork

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.simulator.driver_state import DriverState
    from drv.simulator.scheduler import Operation, Stream

    from .executable import Plan, Step


class BodyOperation:
    """Runs the bodies of a conditional node within its operation."""

    def __init__(self, driver: DriverState, operation: Operation) -> None:
        self._driver = driver
        self._operation = operation
        self._checker: Any = driver.scheduler.checker

    @classmethod
    def queue(
        cls, driver: DriverState, step: Step, work: ConditionalWork, stream: Stream, after: list[Operation]
    ) -> Operation:
        """Queue the node at the end of ``stream``, after the operations ``after`` as well."""
        operation = driver.operation(stream, work.label + step.note, None, after)
        operation.work = work
        operation.inside = tuple(_keys(step))
        operation.run = partial(cls(driver, operation)._run, step)
        driver.scheduler.enqueue(operation)
        return operation

    def _run(self, step: Step) -> None:
        if self._checker is None:
            self._conditional(step, [])
            return
        running = self._checker.suspend()
        try:
            self._conditional(step, [])
        finally:
            self._checker.resume(running)

    def _conditional(self, step: Step, after: list[InnerOperation]) -> list[InnerOperation]:
        """Run the bodies of ``step``, behind the operations ``after``; returns what comes last of it."""
        work = step.work
        assert isinstance(work, ConditionalWork)
        while (chosen := work.chosen()) is not None:
            after = self._body(step.plans[chosen], after)
            if work.conditional_type != WHILE:
                break
        return after

    def _body(self, plan: Plan, after: list[InnerOperation]) -> list[InnerOperation]:
        """Run a body once, its nodes in an order that the schedule chooses."""
        latest: dict[int, int] = {}
        earlier: list[list[int]] = []
        for number, step in enumerate(plan.steps):
            same = [latest[step.chain]] if step.chain in latest else []
            earlier.append([*same, *step.after])
            latest[step.chain] = number
        later: list[list[int]] = [[] for _ in plan.steps]
        for number, numbers in enumerate(earlier):
            for each in numbers:
                later[each].append(number)
        waiting = [len(numbers) for numbers in earlier]
        due = [number for number, count in enumerate(waiting) if not count]
        results: list[list[InnerOperation]] = [[] for _ in plan.steps]
        while due:
            number = due.pop(self._driver.scheduler.choose(len(due)))
            before = [operation for each in earlier[number] for operation in results[each]] or after
            results[number] = self._step(plan, plan.steps[number], before)
            for each in later[number]:
                waiting[each] -= 1
                if not waiting[each]:
                    due.append(each)
        ends = [operation for number in plan.ends for operation in results[number]]
        return ends or after

    def _step(self, plan: Plan, step: Step, after: list[InnerOperation]) -> list[InnerOperation]:
        if isinstance(step.work, ConditionalWork):
            return self._conditional(step, after)
        if not (step.enabled and step.work.does_something):
            return after
        operation, checker = self._operation, self._checker
        inner = InnerOperation(
            step.work.label + step.note,
            operation.stack,
            operation.stream_name,
            operation.launch,
            step.work,
        )
        if checker is not None:
            checker.submit_inside(inner, plan.keys[step.chain], operation, after)
            checker.start(inner)
        try:
            step.work.run(self._driver)
        except DeviceFault as fault:
            fault.report += f"\nIn {inner.label}."
            raise
        finally:
            if checker is not None:
                checker.finish(inner)
        return [inner]


def _keys(step: Step) -> Iterator[int]:
    for plan in step.plans:
        yield from plan.keys
        for inner in plan.steps:
            yield from _keys(inner)
