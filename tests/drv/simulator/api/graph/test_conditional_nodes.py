"""Nodes whose bodies run on a condition that kernels set."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.checks.machine import SCHEDULES
from tests.drv.simulator.checks.machine import Machine as RaceMachine

from .graphs import TYPES, any_node, host_parameters

if TYPE_CHECKING:
    from tests.drv.simulator.machine import Machine

SOURCE = r"""
extern "C" __device__ __cudart_builtin__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);
extern "C" __global__ void count_down(unsigned long long handle, int *n)
{
    *n -= 1;
    cudaGraphSetConditional(handle, *n > 0);
}
extern "C" __global__ void choose(unsigned long long handle, unsigned value)
{
    cudaGraphSetConditional(handle, value);
}
extern "C" __global__ void add(int *out, int value) { *out += value; }
"""
CONDITIONS = cuda.CUgraphConditionalNodeType
IF, WHILE, SWITCH = (
    CONDITIONS.CU_GRAPH_COND_TYPE_IF,
    CONDITIONS.CU_GRAPH_COND_TYPE_WHILE,
    CONDITIONS.CU_GRAPH_COND_TYPE_SWITCH,
)
ASSIGN_DEFAULT = 1


class Program:
    """A graph on a machine with all checks, whose bodies are captured."""

    def __init__(self, schedule: str, seed: int) -> None:
        self.machine = machine = RaceMachine(schedule, seed, "full", devices=1)
        self.kernels = machine.kernels(SOURCE)
        self.graph = machine.call("cuGraphCreate", 0)
        self.stream = machine.stream()

    def number(self, value: int) -> int:
        address = self.machine.alloc(4)
        self.machine.call("cuMemsetD32Async", address, value, 1, self.stream)
        return address

    def handle(self, default: int = 0, flags: int = ASSIGN_DEFAULT) -> Any:
        call = self.machine.call
        return call("cuGraphConditionalHandleCreate", self.graph, self.machine.contexts[0], default, flags)

    def kernel(self, name: str, *arguments: Any, stream: Any = None) -> None:
        stream = self.stream if stream is None else stream
        self.machine.launch(self.kernels[name], 1, 1, stream, *arguments)

    def node(
        self, handle: Any, kind: Any, size: int, graph: Any = None, *after: Any
    ) -> tuple[Any, list[Any]]:
        """A conditional node, and its bodies."""
        parameters = conditional(handle, kind, size, self.machine.contexts[0])
        graph = self.graph if graph is None else graph
        node = self.machine.call("cuGraphAddNode", graph, list(after), None, len(after), parameters)
        return node, parameters.conditional.phGraph_out

    def capture(self, graph: Any, *after: Any) -> None:
        call = self.machine.call
        call("cuStreamBeginCaptureToGraph", self.stream, graph, list(after), None, len(after), 0)

    def end(self) -> None:
        self.machine.call("cuStreamEndCapture", self.stream)

    def launch(self, times: int = 1) -> None:
        executable = self.machine.call("cuGraphInstantiate", self.graph, 0)
        for _ in range(times):
            self.machine.call("cuGraphLaunch", executable, self.stream)
        self.machine.sync(self.stream)

    def value(self, address: int) -> int:
        return int(self.machine.bytes(address, 4).view(np.int32)[0])


def conditional(handle: Any, kind: Any, size: int, context: Any) -> Any:
    return any_node(
        TYPES.CU_GRAPH_NODE_TYPE_CONDITIONAL,
        conditional__handle=handle,
        conditional__type=kind,
        conditional__size=size,
        conditional__ctx=context,
    )


schedules = pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:5])


@schedules
def test_a_loop_runs_until_its_condition_is_zero(schedule: str, seed: int) -> None:
    program = Program(schedule, seed)
    left, total = program.number(5), program.number(0)
    handle = program.handle(default=1)
    _, bodies = program.node(handle, WHILE, 1)
    program.capture(bodies[0])
    program.kernel("add", total, np.int32(3))
    program.kernel("count_down", int(handle), left)
    program.end()
    program.launch()
    assert (program.value(left), program.value(total)) == (0, 15)
    assert program.machine.finding_kinds == []


def test_the_default_holds_at_each_launch() -> None:
    program = Program("lazy", 0)
    left, total = program.number(1), program.number(0)
    handle = program.handle(default=1)
    _, bodies = program.node(handle, WHILE, 1)
    program.capture(bodies[0])
    program.kernel("add", total, np.int32(1))
    program.kernel("count_down", int(handle), left)
    program.end()
    program.launch(3)
    assert program.value(total) == 3


def test_without_a_default_a_condition_keeps_its_value() -> None:
    program = Program("lazy", 0)
    total = program.number(0)
    handle = program.handle(default=0, flags=0)
    _, bodies = program.node(handle, IF, 1)
    program.capture(bodies[0])
    program.kernel("add", total, np.int32(1))
    program.end()
    program.kernel("choose", int(handle), np.int32(1))
    program.launch(2)
    assert program.value(total) == 2


@schedules
@pytest.mark.parametrize("value", [0, 1, 7])
def test_if_and_else(schedule: str, seed: int, value: int) -> None:
    program = Program(schedule, seed)
    taken, otherwise = program.number(0), program.number(0)
    handle = program.handle()
    program.capture(program.graph)
    program.kernel("choose", int(handle), np.int32(value))
    program.end()
    before = program.machine.call("cuGraphGetNodes", program.graph, 1)[0][0]
    _, bodies = program.node(handle, IF, 2, None, before)
    for body, address in zip(bodies, (taken, otherwise), strict=True):
        program.capture(body)
        program.kernel("add", address, np.int32(1))
        program.end()
    program.launch(2)
    assert (program.value(taken), program.value(otherwise)) == ((2, 0) if value else (0, 2))
    assert program.machine.finding_kinds == []


@pytest.mark.parametrize("value", range(4))
def test_a_switch_runs_the_body_of_the_value(value: int) -> None:
    program = Program("lazy", 0)
    counts = [program.number(0) for _ in range(3)]
    _, bodies = program.node(program.handle(default=value), SWITCH, 3)
    for body, address in zip(bodies, counts, strict=True):
        program.capture(body)
        program.kernel("add", address, np.int32(1))
        program.end()
    program.launch()
    assert [program.value(each) for each in counts] == [int(value == number) for number in range(3)]


@schedules
def test_loops_in_loops(schedule: str, seed: int) -> None:
    program = Program(schedule, seed)
    outer_left, inner_left, total = program.number(3), program.number(0), program.number(0)
    outer, inner = program.handle(default=1), program.handle(default=1)
    _, bodies = program.node(outer, WHILE, 1)
    program.capture(bodies[0])
    program.machine.call("cuMemsetD32Async", inner_left, 4, 1, program.stream)
    program.kernel("choose", int(inner), np.int32(1))
    program.end()
    last = program.machine.call("cuGraphGetNodes", bodies[0], 2)[0][1]
    loop, inner_bodies = program.node(inner, WHILE, 1, bodies[0], last)
    program.capture(inner_bodies[0])
    program.kernel("add", total, np.int32(1))
    program.kernel("count_down", int(inner), inner_left)
    program.end()
    program.capture(bodies[0], loop)
    program.kernel("count_down", int(outer), outer_left)
    program.end()
    program.launch()
    assert program.value(total) == 12
    assert program.machine.finding_kinds == []


@schedules
def test_branches_of_a_body_race_with_each_other_and_not_with_what_is_around(
    schedule: str, seed: int
) -> None:
    program = Program(schedule, seed)
    machine = program.machine
    shared, left, other = program.number(0), program.number(2), machine.stream()
    handle = program.handle(default=1)
    before, after = machine.event(), machine.event()
    _, bodies = program.node(handle, WHILE, 1)
    program.capture(bodies[0])
    machine.record(before, program.stream)
    machine.wait(other, before)
    program.kernel("add", shared, np.int32(1), stream=other)
    program.kernel("add", shared, np.int32(1))
    machine.record(after, other)
    machine.wait(program.stream, after)
    program.kernel("count_down", int(handle), left)
    program.end()
    program.launch()
    # Iterations, and what is queued before and after, are ordered.
    machine.fill(shared, 0, program.stream, 4)
    machine.finish()
    assert machine.finding_kinds == ["race"] * len(machine.finding_kinds)
    finding = machine.driver.findings[0]
    assert finding.first.operation != finding.second.operation
    assert "Both are nodes of graph 1: let one depend on the other." in str(finding)
    assert all("kernel 'add'" in each.first.operation for each in machine.driver.findings)


def test_a_race_with_a_body_is_found() -> None:
    program = Program("eager", 0)
    machine, left, other = program.machine, program.number(2), program.machine.stream()
    handle = program.handle(default=1)
    _, bodies = program.node(handle, WHILE, 1)
    program.capture(bodies[0])
    program.kernel("count_down", int(handle), left)
    program.end()
    executable = machine.call("cuGraphInstantiate", program.graph, 0)
    machine.call("cuGraphLaunch", executable, program.stream)
    machine.fill(left, 0, other, 4)
    machine.finish()
    assert set(machine.finding_kinds) == {"race"}
    assert "after the launch of graph 1" in str(machine.driver.findings[0])


def test_a_fault_in_a_body_names_its_node() -> None:
    program = Program("eager", 0)
    machine = program.machine
    handle = program.handle(default=1)
    _, bodies = program.node(handle, IF, 1)
    program.capture(bodies[0])
    program.kernel("add", 64, np.int32(1))
    program.end()
    executable = machine.call("cuGraphInstantiate", program.graph, 0)
    machine.call("cuGraphLaunch", executable, program.stream)
    assert machine.driver.cuStreamSynchronize(program.stream)[0].name == "CUDA_ERROR_ILLEGAL_ADDRESS"
    report = machine.driver.fault_report()
    assert "In kernel 'add', node 0 of graph 2" in report
    assert "In conditional node (if), node 0 of graph 1" in report


def test_a_kernel_sets_no_condition_that_is_not_there() -> None:
    program = Program("eager", 0)
    program.kernel("choose", 12345, np.int32(1))
    assert program.machine.driver.cuStreamSynchronize(program.stream)[0].name == "CUDA_ERROR_LAUNCH_FAILED"
    assert "set the condition 0x3039" in program.machine.driver.fault_report()


# What is refused


def test_handles_and_sizes_that_do_not_fit(machine: Machine) -> None:
    graph, context = machine.cuGraphCreate(0), machine.contexts[0]
    create = ("cuGraphConditionalHandleCreate", graph)
    assert machine.status(*create, context, 0, 2) == "INVALID_VALUE"
    assert machine.status(*create, 1, 0, 0) == "INVALID_CONTEXT"
    handle = machine.cuGraphConditionalHandleCreate(graph, context, 0, 0)
    add = ("cuGraphAddNode", graph, None, None, 0)
    for kind, size in ((WHILE, 2), (IF, 3), (IF, 0), (SWITCH, 0)):
        assert machine.status(*add, conditional(handle, kind, size, context)) == "INVALID_VALUE"
    unknown = cuda.CUgraphConditionalHandle(5)
    assert machine.status(*add, conditional(unknown, IF, 1, context)) == "INVALID_VALUE"
    other = machine.cuGraphCreate(0)
    foreign = machine.cuGraphConditionalHandleCreate(other, context, 0, 0)
    assert machine.status(*add, conditional(foreign, IF, 1, context)) == "INVALID_VALUE"
    # A handle without its node.
    assert machine.status("cuGraphInstantiate", graph, 0) == "INVALID_VALUE"
    machine.cuGraphAddNode(graph, None, None, 0, conditional(handle, IF, 1, context))
    assert machine.status(*add, conditional(handle, IF, 1, context)) == "INVALID_VALUE"
    executable = machine.cuGraphInstantiate(graph, 0)
    # One at a time.
    assert machine.status("cuGraphInstantiate", graph, 0) == "INVALID_VALUE"
    machine.cuGraphExecDestroy(executable)
    machine.cuGraphInstantiate(graph, 0)
    assert machine.status("cuGraphClone", graph) == "NOT_SUPPORTED"
    assert machine.status("cuGraphAddChildGraphNode", other, None, 0, graph) == "NOT_SUPPORTED"


def test_bodies_hold_no_host_functions_and_no_allocations(machine: Machine) -> None:
    graph, context = machine.cuGraphCreate(0), machine.contexts[0]
    handle = machine.cuGraphConditionalHandleCreate(graph, context, 0, 0)
    parameters = conditional(handle, IF, 1, context)
    node = machine.cuGraphAddNode(graph, None, None, 0, parameters)
    body = parameters.conditional.phGraph_out[0]
    host = host_parameters(machine, 1)
    assert machine.status("cuGraphAddHostNode", body, None, 0, host) == "NOT_SUPPORTED"
    child = machine.cuGraphAddChildGraphNode(body, None, 0, machine.cuGraphCreate(0))
    embedded = machine.cuGraphChildGraphNodeGetGraph(child)
    assert machine.status("cuGraphAddHostNode", embedded, None, 0, host) == "NOT_SUPPORTED"
    machine.cuGraphAddEmptyNode(body, None, 0)
    assert machine.status("cuGraphDestroy", body) == "INVALID_VALUE"
    returned = machine.cuGraphNodeGetParams(node).conditional
    assert (int(returned.handle), returned.size) == (int(handle), 1)
    assert int(returned.phGraph_out[0]) == int(body)
    stream = machine.stream()
    machine.cuStreamBeginCaptureToGraph(stream, body, None, None, 0, 0)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
    address = cuda.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value)
    assert machine.status("cuLaunchHostFunc", stream, address, 0) == "NOT_SUPPORTED"
    machine.cuStreamEndCapture(stream)
