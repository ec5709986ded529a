"""Memory that graphs allocate and free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.checks.machine import SCHEDULES
from tests.drv.simulator.checks.machine import Machine as RaceMachine
from tests.drv.simulator.machine import Machine

from .graphs import fill_parameters, host_node, types

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]

ATTRIBUTES = cuda.CUgraphMem_attribute
USED, USED_HIGH = ATTRIBUTES.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, ATTRIBUTES.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH
RESERVED = ATTRIBUTES.CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT
RESERVED_HIGH = ATTRIBUTES.CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH
AUTO_FREE = 1


def allocation(size: int, device: int = 0) -> Any:
    result = cuda.CUDA_MEM_ALLOC_NODE_PARAMS()
    result.poolProps.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    result.poolProps.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    result.poolProps.location.id = device
    result.bytesize = size
    return result


def numbers(machine: Machine) -> list[int]:
    return [int(machine.cuDeviceGetGraphMemAttribute(0, each)) for each in (USED, RESERVED)]


def with_memory(machine: Machine, *, freed: bool) -> tuple[Any, int]:
    """A graph that allocates 1024 bytes, fills them, and may free them; and their address."""
    graph, parameters = machine.cuGraphCreate(0), allocation(1024)
    node = machine.cuGraphAddMemAllocNode(graph, None, 0, parameters)
    address = int(parameters.dptr)
    fill = fill_parameters(address, 7, 1024)
    node = machine.cuGraphAddMemsetNode(graph, [node], 1, fill, machine.contexts[0])
    if freed:
        machine.cuGraphAddMemFreeNode(graph, [node], 1, address)
    return graph, address


def test_memory_that_a_graph_frees_itself(any_schedule: MachineMaker) -> None:
    machine = any_schedule(check="full")
    graph, address = with_memory(machine, freed=True)
    executable, stream = machine.cuGraphInstantiate(graph, 0), machine.stream()
    free = machine.cuMemGetInfo()[0]
    for _ in range(3):
        machine.cuGraphLaunch(executable, stream)
    machine.cuStreamSynchronize(stream)
    assert machine.driver.memory.find(address) is None
    assert numbers(machine) == [1024, 1024]
    assert machine.cuMemGetInfo()[0] == free - 1024
    machine.cuDeviceGraphMemTrim(0)
    assert numbers(machine) == [0, 0]
    assert machine.cuMemGetInfo()[0] == free
    assert int(machine.cuDeviceGetGraphMemAttribute(0, USED_HIGH)) == 1024
    machine.cuDeviceSetGraphMemAttribute(0, USED_HIGH, cuda.cuuint64_t(0))
    machine.cuDeviceSetGraphMemAttribute(0, RESERVED_HIGH, cuda.cuuint64_t(0))
    assert int(machine.cuDeviceGetGraphMemAttribute(0, USED_HIGH)) == 0
    assert int(machine.cuDeviceGetGraphMemAttribute(0, RESERVED_HIGH)) == 0
    assert not machine.driver.findings
    for attribute, value in ((USED_HIGH, 1), (USED, 0)):
        arguments = 0, attribute, cuda.cuuint64_t(value)
        assert machine.status("cuDeviceSetGraphMemAttribute", *arguments) == "INVALID_VALUE"


@pytest.mark.parametrize("free", ["cuMemFree", "cuMemFreeAsync"])
def test_memory_that_is_left_is_used_and_freed_outside(any_schedule: MachineMaker, free: str) -> None:
    machine = any_schedule()
    graph, address = with_memory(machine, freed=False)
    executable, stream = machine.cuGraphInstantiate(graph, 0), machine.stream()
    pinned, array = machine.pinned(1024)
    for number in range(2):
        machine.cuGraphLaunch(executable, stream)
        machine.cuMemcpyDtoHAsync(pinned, address, 1024, stream)
        assert machine.status("cuGraphLaunch", executable, stream) == "INVALID_VALUE", number
        arguments = (address, stream) if free == "cuMemFreeAsync" else (address,)
        assert machine.status(free, *arguments) == "SUCCESS"
        assert machine.status(free, *arguments) == "INVALID_VALUE"
    machine.cuStreamSynchronize(stream)
    assert (array == 7).all()
    assert machine.driver.memory.find(address) is None
    assert numbers(machine) == [1024, 1024]
    machine.cuGraphExecDestroy(executable)
    assert numbers(machine) == [0, 1024]


def test_memory_is_freed_before_the_next_launch_where_that_is_asked_for(any_schedule: MachineMaker) -> None:
    machine = any_schedule(check="full")
    graph, address = with_memory(machine, freed=False)
    executable, stream = machine.cuGraphInstantiate(graph, AUTO_FREE), machine.stream()
    for _ in range(3):
        machine.cuGraphLaunch(executable, stream)
    machine.cuStreamSynchronize(stream)
    assert machine.peek(address, 4).tolist() == [7] * 4
    assert numbers(machine) == [1024, 1024]
    assert not machine.driver.findings


def test_another_graph_frees_it(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    graph, address = with_memory(machine, freed=False)
    other = machine.cuGraphCreate(0)
    machine.cuGraphAddMemFreeNode(other, None, 0, address)
    # It is freed in one place.
    assert machine.status("cuGraphAddMemFreeNode", graph, None, 0, address) == "INVALID_VALUE"
    first, second = machine.cuGraphInstantiate(graph, 0), machine.cuGraphInstantiate(other, 0)
    stream = machine.stream()
    assert machine.status("cuGraphLaunch", second, stream) == "INVALID_VALUE"
    for _ in range(2):
        machine.cuGraphLaunch(first, stream)
        machine.cuGraphLaunch(second, stream)
    machine.cuStreamSynchronize(stream)
    assert machine.driver.memory.find(address) is None
    assert numbers(machine) == [1024, 1024]


def test_graphs_that_run_one_after_the_other_map_the_same_memory(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    stream = machine.stream()
    graphs = [with_memory(machine, freed=freed)[0] for freed in (True, True, False)]
    first, second, leaves = (machine.cuGraphInstantiate(graph, 0) for graph in graphs)
    for executable in (first, second, first):
        machine.cuGraphLaunch(executable, stream)
    assert numbers(machine) == [1024, 1024]
    machine.cuGraphLaunch(leaves, stream)
    machine.cuGraphLaunch(first, stream)
    assert numbers(machine) == [2048, 2048]
    machine.cuDeviceGraphMemTrim(0)
    # What is allocated stays.
    assert numbers(machine) == [1024, 1024]
    machine.cuStreamSynchronize(stream)


def test_allocations_and_frees_are_captured(any_schedule: MachineMaker) -> None:
    machine = any_schedule(check="full")
    stream = machine.stream()
    machine.cuStreamBeginCapture(stream, 0)
    address = int(machine.cuMemAllocAsync(64, stream))
    machine.cuMemsetD8Async(address, 1, 64, stream)
    machine.cuMemFreeAsync(address, stream)
    outside = machine.cuStreamGetCaptureInfo(stream)[2]
    graph = machine.cuStreamEndCapture(stream)
    assert int(outside) == int(graph)
    assert types(machine, graph) == ["MEM_ALLOC", "MEMSET", "MEM_FREE"]
    executable = machine.cuGraphInstantiate(graph, 0)
    machine.cuGraphLaunch(executable, stream)
    machine.cuStreamSynchronize(stream)
    node = machine.cuGraphGetNodes(graph, 3)[0][0]
    parameters = machine.cuGraphMemAllocNodeGetParams(node)
    assert (parameters.bytesize, int(parameters.dptr)) == (64, address)
    free = machine.cuGraphGetNodes(graph, 3)[0][2]
    assert int(machine.cuGraphMemFreeNodeGetParams(free)) == address


def test_memory_from_outside_is_not_freed_in_a_capture(machine: Machine) -> None:
    stream = machine.stream()
    address = machine.cuMemAllocAsync(64, stream)
    machine.cuStreamBeginCapture(stream, 0)
    assert machine.status("cuMemFreeAsync", address, stream) == "INVALID_VALUE"
    machine.cuStreamEndCapture(stream)
    machine.cuMemFreeAsync(address, stream)


def test_what_a_graph_with_memory_cannot_do(machine: Machine) -> None:
    graph, address = with_memory(machine, freed=True)
    nodes = machine.cuGraphGetNodes(graph, 3)[0]
    assert machine.status("cuGraphClone", graph) == "NOT_SUPPORTED"
    assert machine.status("cuGraphDestroyNode", nodes[1]) == "INVALID_VALUE"
    remove = ("cuGraphRemoveDependencies", graph, [nodes[0]], [nodes[1]], None, 1)
    assert machine.status(*remove) == "INVALID_VALUE"
    other = machine.cuGraphCreate(0)
    assert machine.status("cuGraphAddChildGraphNode", other, None, 0, graph) == "NOT_SUPPORTED"
    executable = machine.cuGraphInstantiate(graph, 0)
    assert machine.status("cuGraphInstantiate", graph, 0) == "INVALID_VALUE"
    machine.cuGraphExecDestroy(executable)
    machine.cuGraphInstantiate(graph, 0)
    assert machine.status("cuGraphAddMemFreeNode", other, None, 0, address) == "INVALID_VALUE"
    assert machine.status("cuGraphAddMemFreeNode", other, None, 0, 16) == "INVALID_VALUE"
    child = machine.cuGraphAddChildGraphNode(other, None, 0, machine.cuGraphCreate(0))
    embedded = machine.cuGraphChildGraphNodeGetGraph(child)
    assert machine.status("cuGraphAddMemAllocNode", embedded, None, 0, allocation(4)) == "INVALID_VALUE"
    assert machine.status("cuGraphAddMemAllocNode", other, None, 0, allocation(0)) == "INVALID_VALUE"
    assert machine.status("cuGraphAddMemAllocNode", other, None, 0, allocation(4, 9)) == "INVALID_DEVICE"


def test_a_launch_for_which_there_is_no_memory() -> None:
    small = Machine(memory="1MiB")
    graph, parameters = small.cuGraphCreate(0), allocation(2 << 20)
    small.cuGraphAddMemAllocNode(graph, None, 0, parameters)
    executable, stream = small.cuGraphInstantiate(graph, 0), small.stream()
    assert small.status("cuGraphLaunch", executable, stream) == "OUT_OF_MEMORY"
    small.cuStreamSynchronize(stream)


def test_use_after_the_free_is_a_fault(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    graph, address = with_memory(machine, freed=True)
    executable, stream = machine.cuGraphInstantiate(graph, 0), machine.stream()
    machine.cuGraphLaunch(executable, stream)
    machine.cuMemsetD8Async(address, 0, 4, stream)
    assert machine.status("cuStreamSynchronize", stream) == "ILLEGAL_ADDRESS"
    assert "which is freed" in machine.driver.fault_report()


@pytest.mark.parametrize(("schedule", "seed"), SCHEDULES[:6])
def test_use_that_nothing_orders_behind_the_allocation_is_a_race(schedule: str, seed: int) -> None:
    machine = RaceMachine(schedule, seed, devices=1)
    graph, parameters = machine.call("cuGraphCreate", 0), allocation(64)
    machine.call("cuGraphAddMemAllocNode", graph, None, 0, parameters)
    executable = machine.call("cuGraphInstantiate", graph, 0)
    first, second = machine.stream(), machine.stream()
    machine.call("cuGraphLaunch", executable, first)
    machine.fill(int(parameters.dptr), 1, first, 64)
    machine.follow(second, first)
    machine.fill(int(parameters.dptr), 2, second, 64)
    machine.finish()
    assert machine.finding_kinds == []
    machine.call("cuMemFreeAsync", int(parameters.dptr), second)
    machine.follow(first, second)
    machine.call("cuGraphLaunch", executable, first)
    machine.fill(int(parameters.dptr), 3, second, 64)
    machine.finish()
    assert machine.finding_kinds == ["race"]


def test_what_was_there_before_is_not_defined_after_the_next_allocation() -> None:
    machine = RaceMachine("eager", 0, "full", devices=1)
    graph, parameters = machine.call("cuGraphCreate", 0), allocation(64)
    machine.call("cuGraphAddMemAllocNode", graph, None, 0, parameters)
    executable = machine.call("cuGraphInstantiate", graph, AUTO_FREE)
    stream, other, address = machine.stream(), machine.alloc(64), int(parameters.dptr)
    machine.call("cuGraphLaunch", executable, stream)
    machine.fill(address, 1, stream, 64)
    machine.work(stream, other, address, 64)
    assert machine.finding_kinds == []
    machine.call("cuGraphLaunch", executable, stream)
    machine.work(stream, other, address, 64)
    machine.finish()
    assert machine.finding_kinds == ["uninitialized"]


def test_the_copies_of_a_graph_read_what_its_allocation_holds(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    graph, address = with_memory(machine, freed=False)
    pinned, array = machine.pinned(16)
    fill = machine.cuGraphGetNodes(graph, 2)[0][1]
    copy = cuda.CUDA_MEMCPY3D()
    copy.srcMemoryType, copy.dstMemoryType = (
        cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE,
        cuda.CUmemorytype.CU_MEMORYTYPE_HOST,
    )
    copy.srcDevice, copy.dstHost = cuda.CUdeviceptr(address + 8), pinned
    copy.WidthInBytes, copy.Height, copy.Depth = 16, 1, 1
    node = machine.cuGraphAddMemcpyNode(graph, [fill], 1, copy, machine.contexts[0])
    host_node(machine, graph, "done", node)
    stream = machine.stream()
    machine.cuGraphLaunch(machine.cuGraphInstantiate(graph, 0), stream)
    machine.cuStreamSynchronize(stream)
    assert array.tolist() == np.full(16, 7).tolist()
    assert machine.log == ["done"]
