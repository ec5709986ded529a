"""Random graphs: a launch gives what their order says, and races are found between nodes that it leaves unordered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drv.simulator.api.graph.graphs import TYPES, any_node, copy_parameters, fill_parameters
from tests.drv.simulator.checks.machine import Machine

CELLS = 3


@dataclass(frozen=True)
class Task:
    """Sets a cell to a number of its own, or to what another cell holds."""

    target: int
    source: int | None
    after: frozenset[int]


@st.composite
def programs(draw: st.DrawFn) -> list[Task]:
    tasks: list[Task] = []
    for number in range(draw(st.integers(1, 7))):
        after = draw(st.sets(st.integers(0, number - 1))) if number else set()
        source = draw(st.none() | st.integers(0, CELLS - 1))
        target = draw(st.integers(0, CELLS - 1).filter(lambda cell, source=source: cell != source))
        tasks.append(Task(target, source, frozenset(after)))
    return tasks


def unordered(tasks: list[Task]) -> bool:
    """Whether two tasks of which none comes before the other touch one cell, and one of them writes it."""
    before: list[set[int]] = []
    for task in tasks:
        before.append(set(task.after).union(*(before[each] for each in task.after)))
    for later, task in enumerate(tasks):
        for earlier in range(later):
            other = tasks[earlier]
            touched = {task.target} & {other.target, other.source} | {task.source} & {other.target}
            if earlier not in before[later] and touched - {None}:
                return True
    return False


def expected(tasks: list[Task]) -> list[int]:
    cells = [0] * CELLS
    for number, task in enumerate(tasks, 1):
        cells[task.target] = number if task.source is None else cells[task.source]
    return cells


class Graph:
    """The tasks as nodes, within a conditional node where that is asked for."""

    def __init__(self, machine: Machine, tasks: list[Task], *, in_body: bool) -> None:
        self.machine = machine
        self.cells = machine.alloc(CELLS)
        self.stream = machine.stream()
        machine.fill(self.cells, 0, self.stream, CELLS)
        self.graph = graph = machine.call("cuGraphCreate", 0)
        if in_body:
            graph = self._body()
        nodes: list[Any] = []
        for number, task in enumerate(tasks, 1):
            after = [nodes[each] for each in sorted(task.after)]
            address = self.cells + task.target
            arguments = graph, after, len(after)
            if task.source is None:
                parameters = fill_parameters(address, number, 1)
                name = "cuGraphAddMemsetNode"
            else:
                parameters = copy_parameters(address, self.cells + task.source, 1)
                name = "cuGraphAddMemcpyNode"
            nodes.append(machine.call(name, *arguments, parameters, machine.contexts[0]))

    def _body(self) -> Any:
        call, context = self.machine.call, self.machine.contexts[0]
        handle = call("cuGraphConditionalHandleCreate", self.graph, context, 1, 1)
        parameters = any_node(
            TYPES.CU_GRAPH_NODE_TYPE_CONDITIONAL,
            conditional__handle=handle,
            conditional__type=cuda.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF,
            conditional__size=1,
            conditional__ctx=context,
        )
        call("cuGraphAddNode", self.graph, None, None, 0, parameters)
        return parameters.conditional.phGraph_out[0]

    def launch(self) -> list[int]:
        executable = self.machine.call("cuGraphInstantiate", self.graph, 0)
        for _ in range(2):
            self.machine.fill(self.cells, 0, self.stream, CELLS)
            self.machine.call("cuGraphLaunch", executable, self.stream)
        self.machine.sync(self.stream)
        result: list[int] = np.array(self.machine.bytes(self.cells, CELLS)).tolist()
        return result


@pytest.mark.parametrize("in_body", [False, True])
@settings(max_examples=60, deadline=None)
@given(tasks=programs(), seed=st.integers(0, 3))
def test_races_are_found_just_where_nothing_orders(in_body: bool, tasks: list[Task], seed: int) -> None:
    raced = unordered(tasks)
    for schedule in ("eager", "lazy", "random"):
        machine = Machine(schedule, seed, "race", devices=1)
        cells = Graph(machine, tasks, in_body=in_body).launch()
        assert bool(machine.finding_kinds) == raced
        if not raced:
            assert cells == expected(tasks)
