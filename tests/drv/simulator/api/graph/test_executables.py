"""Executable graphs: launches, their order, and what can be changed."""

from __future__ import annotations

import ctypes
import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.compiled import KERNELS, ptx
from tests.drv.simulator.machine import Machine

from .graphs import (
    HOST_FUNCTION,
    TYPES,
    any_node,
    copy_parameters,
    fill_parameters,
    host_node,
    host_parameters,
    kernel_parameters,
    launched,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    MachineMaker = Callable[..., Machine]

RESULTS = cuda.CUgraphExecUpdateResult
AUTO_FREE, UPLOAD, DEVICE_LAUNCH, NODE_PRIORITY = 1, 2, 4, 8


def function(machine: Machine, name: str) -> Any:
    return machine.cuModuleGetFunction(machine.cuModuleLoadData(ptx(KERNELS)), name.encode())


def update(machine: Machine, executable: Any, graph: Any) -> str:
    status, info = machine.driver.cuGraphExecUpdate(executable, graph)
    failed = info.result != RESULTS.CU_GRAPH_EXEC_UPDATE_SUCCESS
    assert status.name == ("CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE" if failed else "CUDA_SUCCESS")
    return info.result.name.removeprefix("CU_GRAPH_EXEC_UPDATE_").removeprefix("ERROR_")


def test_a_launch_is_ordered_in_its_stream(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    graph = machine.cuGraphCreate(0)
    for number in range(3):
        host_node(machine, graph, number)
    executable, stream = machine.cuGraphInstantiate(graph, 0), machine.stream()
    machine.mark(stream, "before")
    machine.cuGraphLaunch(executable, stream)
    machine.mark(stream, "after")
    machine.cuStreamSynchronize(stream)
    assert machine.log[0] == "before"
    assert sorted(machine.log[1:4]) == [0, 1, 2]
    assert machine.log[4] == "after"


def test_launches_of_one_executable_graph_are_ordered(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    graph = machine.cuGraphCreate(0)
    first = host_node(machine, graph, "a")
    host_node(machine, graph, "b", first)
    executable = machine.cuGraphInstantiate(graph, 0)
    streams = [machine.stream() for _ in range(3)]
    for stream in streams:
        machine.cuGraphLaunch(executable, stream)
    machine.cuStreamSynchronize(streams[-1])
    assert machine.log == ["a", "b"] * 3


def test_branches_run_in_any_order() -> None:
    orders = set()
    for seed in range(12):
        other = Machine(schedule="random", seed=seed)
        graph = other.cuGraphCreate(0)
        for number in range(3):
            host_node(other, graph, number)
        launched(other, graph)
        assert sorted(other.log) == [0, 1, 2]
        orders.add(tuple(other.log))
    assert len(orders) > 2


def test_a_launch_on_the_legacy_stream_waits_for_blocking_streams(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    graph = machine.cuGraphCreate(0)
    host_node(machine, graph, "x")
    host_node(machine, graph, "y")
    executable, blocking = machine.cuGraphInstantiate(graph, 0), machine.stream(0)
    machine.mark(blocking, "before")
    machine.cuGraphLaunch(executable, 0)
    machine.mark(blocking, "after")
    machine.cuCtxSynchronize()
    assert machine.log[0] == "before"
    assert machine.log[-1] == "after"


def test_an_empty_graph_can_be_launched(machine: Machine) -> None:
    executable = launched(machine, machine.cuGraphCreate(0))
    stream = machine.stream()
    machine.mark(stream, 1)
    machine.cuGraphLaunch(executable, stream)
    machine.mark(stream, 2)
    machine.cuStreamSynchronize(stream)
    assert machine.log == [1, 2]


def test_changes_of_the_graph_do_not_reach_what_was_made_of_it(machine: Machine) -> None:
    graph = machine.cuGraphCreate(0)
    node = host_node(machine, graph, "old")
    executable = machine.cuGraphInstantiate(graph, 0)
    machine.cuGraphHostNodeSetParams(node, host_parameters(machine, "new"))
    host_node(machine, graph, "added")
    machine.cuGraphLaunch(executable, machine.stream())
    machine.cuCtxSynchronize()
    assert machine.log == ["old"]


def test_new_parameters_hold_from_the_next_launch_on(lazy: Machine) -> None:
    machine = lazy
    address = machine.device_memory(4)
    graph, context = machine.cuGraphCreate(0), machine.contexts[0]
    node = machine.cuGraphAddMemsetNode(graph, None, 0, fill_parameters(address, 1, 4), context)
    executable, stream = machine.cuGraphInstantiate(graph, 0), machine.stream()
    pinned, array = machine.pinned(8)
    for number in range(2):
        machine.cuGraphLaunch(executable, stream)
        machine.cuMemcpyDtoHAsync(pinned + 4 * number, address, 4, stream)
        other = fill_parameters(address, 2, 4)
        machine.cuGraphExecMemsetNodeSetParams(executable, node, other, context)
    machine.cuStreamSynchronize(stream)
    assert array.tolist() == [1] * 4 + [2] * 4


def test_disabled_nodes_only_order(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    address, context = machine.device_memory(4), machine.contexts[0]
    graph = machine.cuGraphCreate(0)
    first = host_node(machine, graph, "first")
    fill = machine.cuGraphAddMemsetNode(graph, [first], 1, fill_parameters(address, 1, 4), context)
    host_node(machine, graph, "last", fill)
    machine.poke(address, [0] * 4)
    executable, stream = machine.cuGraphInstantiate(graph, 0), machine.stream()
    assert machine.cuGraphNodeGetEnabled(executable, fill) == 1
    machine.cuGraphNodeSetEnabled(executable, fill, 0)
    assert machine.cuGraphNodeGetEnabled(executable, fill) == 0
    machine.cuGraphLaunch(executable, stream)
    machine.cuStreamSynchronize(stream)
    assert machine.log == ["first", "last"]
    assert machine.peek(address, 4).tolist() == [0] * 4
    machine.cuGraphNodeSetEnabled(executable, fill, 1)
    machine.cuGraphLaunch(executable, stream)
    machine.cuStreamSynchronize(stream)
    assert machine.peek(address, 4).tolist() == [1] * 4
    assert machine.status("cuGraphNodeSetEnabled", executable, first, 0) == "INVALID_VALUE"


def test_upload_and_flags(machine: Machine) -> None:
    graph, stream = machine.cuGraphCreate(0), machine.stream()
    host_node(machine, graph, 0)
    parameters = cuda.CUDA_GRAPH_INSTANTIATE_PARAMS()
    parameters.flags, parameters.hUploadStream = cuda.cuuint64_t(UPLOAD | NODE_PRIORITY), stream
    executable = machine.cuGraphInstantiateWithParams(graph, parameters)
    assert int(machine.cuGraphExecGetFlags(executable)) == NODE_PRIORITY
    machine.cuGraphUpload(executable, stream)
    machine.cuStreamSynchronize(stream)
    assert machine.log == []
    for wrong in (UPLOAD, 16, AUTO_FREE | DEVICE_LAUNCH):
        assert machine.status("cuGraphInstantiate", graph, wrong) == "INVALID_VALUE"


def test_a_graph_for_launches_from_the_device_holds_no_host_function(machine: Machine) -> None:
    graph = machine.cuGraphCreate(0)
    parameters = cuda.CUDA_GRAPH_INSTANTIATE_PARAMS()
    parameters.flags = cuda.cuuint64_t(DEVICE_LAUNCH)
    assert machine.status("cuGraphInstantiateWithParams", graph, parameters) == "INVALID_VALUE"
    node = host_node(machine, graph, 0)
    assert machine.status("cuGraphInstantiateWithParams", graph, parameters) == "NOT_SUPPORTED"
    assert parameters.result_out.name == "CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED"
    assert int(parameters.hErrNode_out) == int(node)


def test_a_fault_in_a_graph_loses_the_context_and_says_which_node_it_was(any_schedule: MachineMaker) -> None:
    machine = any_schedule()
    graph = machine.cuGraphCreate(0)
    wild = kernel_parameters(function(machine, "wild"), 1, 1, (ctypes.c_void_p(64),))
    machine.cuGraphAddKernelNode(graph, None, 0, wild)
    stream = machine.stream()
    machine.cuGraphLaunch(machine.cuGraphInstantiate(graph, 0), stream)
    assert machine.status("cuStreamSynchronize", stream) == "ILLEGAL_ADDRESS"
    report = machine.driver.fault_report()
    assert f"In kernel 'wild', node 0 of graph {machine.driver.graph(graph).identifier} (from " in report
    assert "test_executables.py" in report
    assert machine.status("cuStreamQuery", stream) == "ILLEGAL_ADDRESS"


@pytest.mark.parametrize("sticky", [True, False])
def test_faults_on_demand_reach_launches_in_graphs(machine: Machine, sticky: bool) -> None:
    graph = machine.cuGraphCreate(0)
    machine.cuGraphAddKernelNode(graph, None, 0, kernel_parameters(function(machine, "nothing"), 1, 1, ()))
    executable, stream = machine.cuGraphInstantiate(graph, 0), machine.stream()
    machine.driver.inject.fail_launch(2, "nothing", sticky=sticky)
    machine.cuGraphLaunch(executable, stream)
    status = machine.status("cuGraphLaunch", executable, stream)
    assert status == ("SUCCESS" if sticky else "LAUNCH_FAILED")
    assert machine.status("cuStreamSynchronize", stream) == ("LAUNCH_FAILED" if sticky else "SUCCESS")


def test_several_devices_in_one_graph(any_schedule: MachineMaker) -> None:
    machine = any_schedule(devices=2)
    graph = machine.cuGraphCreate(0)
    addresses = []
    for ordinal in range(2):
        machine.use(ordinal)
        addresses.append(machine.device_memory(16))
    node = None
    for ordinal in range(2):
        machine.use(ordinal)
        before = [] if node is None else [node]
        parameters = fill_parameters(addresses[ordinal], ordinal + 1, 16)
        node = machine.cuGraphAddMemsetNode(graph, before, len(before), parameters, machine.contexts[ordinal])
    host_node(machine, graph, "after", node)
    machine.use(0)
    launched(machine, graph, 2)
    assert [machine.peek(each, 1)[0] for each in addresses] == [1, 2]


def test_an_executable_graph_can_go_while_it_runs(lazy: Machine) -> None:
    graph = lazy.cuGraphCreate(0)
    host_node(lazy, graph, 1)
    host_node(lazy, graph, 2)
    executable, stream = lazy.cuGraphInstantiate(graph, 0), lazy.stream()
    lazy.cuGraphLaunch(executable, stream)
    lazy.cuGraphExecDestroy(executable)
    lazy.cuGraphDestroy(graph)
    gc.collect()
    lazy.cuStreamSynchronize(stream)
    assert sorted(lazy.log) == [1, 2]
    assert lazy.driver.contexts[int(lazy.contexts[0])].branches == []


def test_launch_blocking_waits_for_graphs() -> None:
    machine = Machine(schedule="lazy", environment={"CUDA_LAUNCH_BLOCKING": "1"})
    graph = machine.cuGraphCreate(0)
    host_node(machine, graph, 1)
    machine.cuGraphLaunch(machine.cuGraphInstantiate(graph, 0), machine.stream())
    assert machine.log == [1]


# Updates


def chained(machine: Machine, labels: list[Any], graph: Any = None) -> Any:
    graph = machine.cuGraphCreate(0) if graph is None else graph
    node = None
    for label in labels:
        node = host_node(machine, graph, label, *([] if node is None else [node]))
    return graph


def test_update_takes_the_parameters_of_a_graph_of_the_same_shape(machine: Machine) -> None:
    executable = machine.cuGraphInstantiate(chained(machine, [1, 2, 3]), 0)
    assert update(machine, executable, chained(machine, [4, 5, 6])) == "SUCCESS"
    machine.cuGraphLaunch(executable, machine.stream())
    machine.cuCtxSynchronize()
    assert machine.log == [4, 5, 6]


def test_nodes_are_paired_by_their_edges_and_not_by_the_order_of_their_making(machine: Machine) -> None:
    executable = machine.cuGraphInstantiate(chained(machine, [1, 2]), 0)
    graph = machine.cuGraphCreate(0)
    second, first = host_node(machine, graph, "second"), host_node(machine, graph, "first")
    machine.cuGraphAddDependencies(graph, [first], [second], None, 1)
    assert update(machine, executable, graph) == "SUCCESS"
    machine.cuGraphLaunch(executable, machine.stream())
    machine.cuCtxSynchronize()
    assert machine.log == ["first", "second"]


def test_another_shape_or_type_is_refused_and_nothing_changes(machine: Machine) -> None:
    executable = machine.cuGraphInstantiate(chained(machine, [1, 2]), 0)
    assert update(machine, executable, chained(machine, [4])) == "TOPOLOGY_CHANGED"
    parallel = machine.cuGraphCreate(0)
    host_node(machine, parallel, 5), host_node(machine, parallel, 6)
    assert update(machine, executable, parallel) == "TOPOLOGY_CHANGED"
    other = machine.cuGraphCreate(0)
    first = host_node(machine, other, 7)
    empty = machine.cuGraphAddEmptyNode(other, [first], 1)
    _, info = machine.driver.cuGraphExecUpdate(executable, other)
    assert info.result == RESULTS.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED
    assert int(info.errorNode) == int(empty)
    machine.cuGraphLaunch(executable, machine.stream())
    machine.cuCtxSynchronize()
    assert machine.log == [1, 2]


def test_what_a_node_may_not_become(machine: Machine) -> None:
    device, (pinned, _) = machine.device_memory(64), machine.pinned(64)
    context = machine.contexts[0]

    def copies(source: int) -> Any:
        graph = machine.cuGraphCreate(0)
        machine.cuGraphAddMemcpyNode(graph, None, 0, copy_parameters(device, source, 16), context)
        return graph

    executable = machine.cuGraphInstantiate(copies(device + 32), 0)
    assert update(machine, executable, copies(device + 16)) == "SUCCESS"
    assert update(machine, executable, copies(pinned)) == "PARAMETERS_CHANGED"

    def fills(**others: int) -> Any:
        graph = machine.cuGraphCreate(0)
        parameters = fill_parameters(device, 0, 4, 1, **others)
        machine.cuGraphAddMemsetNode(graph, None, 0, parameters, context)
        return graph

    executable = machine.cuGraphInstantiate(fills(), 0)
    assert update(machine, executable, fills(width=8)) == "SUCCESS"
    assert update(machine, executable, fills(height=2, pitch=16)) == "PARAMETERS_CHANGED"

    def kernels(cooperative: int) -> Any:
        graph = machine.cuGraphCreate(0)
        node = machine.cuGraphAddKernelNode(
            graph, None, 0, kernel_parameters(function(machine, "nothing"), 1, 1, ())
        )
        value = cuda.CUkernelNodeAttrValue()
        value.cooperative = cooperative
        attribute = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        machine.cuGraphKernelNodeSetAttribute(node, attribute, value)
        return graph

    executable = machine.cuGraphInstantiate(kernels(0), 0)
    assert update(machine, executable, kernels(0)) == "SUCCESS"
    assert update(machine, executable, kernels(1)) == "ATTRIBUTES_CHANGED"


def test_update_reaches_child_graphs(machine: Machine) -> None:
    def nested(label: str) -> Any:
        graph = machine.cuGraphCreate(0)
        machine.cuGraphAddChildGraphNode(graph, None, 0, chained(machine, [label, label]))
        return graph

    graph = nested("old")
    executable = machine.cuGraphInstantiate(graph, 0)
    assert update(machine, executable, nested("new")) == "SUCCESS"
    machine.cuGraphLaunch(executable, machine.stream())
    child = machine.cuGraphGetNodes(graph, 1)[0][0]
    machine.cuGraphExecChildGraphNodeSetParams(executable, child, chained(machine, ["newer", "newer"]))
    machine.cuGraphLaunch(executable, machine.stream())
    machine.cuCtxSynchronize()
    assert machine.log == ["new"] * 2 + ["newer"] * 2
    arguments = executable, child, chained(machine, [1])
    assert machine.status("cuGraphExecChildGraphNodeSetParams", *arguments) == "GRAPH_EXEC_UPDATE_FAILURE"


def test_single_nodes_of_an_executable_graph(machine: Machine) -> None:
    out = machine.device_memory(4)
    graph, context = machine.cuGraphCreate(0), machine.contexts[0]
    kernel = kernel_parameters(function(machine, "bounded"), 1, 32, (ctypes.c_void_p(out),))
    node = machine.cuGraphAddKernelNode(graph, None, 0, kernel)
    copy = machine.cuGraphAddMemcpyNode(graph, [node], 1, copy_parameters(out, out, 4), context)
    executable, stream = machine.cuGraphInstantiate(graph, 0), machine.stream()
    kernel.blockDimX = 64
    machine.cuGraphExecKernelNodeSetParams(executable, node, kernel)
    machine.cuGraphExecMemcpyNodeSetParams(executable, copy, copy_parameters(out, out, 2), context)
    machine.cuGraphLaunch(executable, stream)
    machine.cuStreamSynchronize(stream)
    assert machine.peek(out, 4).view(np.int32).tolist() == [64]
    anything = any_node(TYPES.CU_GRAPH_NODE_TYPE_MEMCPY)
    anything.memcpy.copyParams, anything.memcpy.copyCtx = copy_parameters(out, out, 1), context
    machine.cuGraphExecNodeSetParams(executable, copy, anything)
    assert machine.status("cuGraphExecNodeSetParams", executable, node, anything) == "INVALID_VALUE"
    other = machine.cuGraphAddEmptyNode(graph, None, 0)
    arguments = executable, other, kernel
    assert machine.status("cuGraphExecKernelNodeSetParams", *arguments) == "INVALID_VALUE"


# User objects


def test_a_user_object_lives_as_long_as_somebody_refers_to_it(machine: Machine) -> None:
    destroyed = []
    function = HOST_FUNCTION(destroyed.append)
    address = ctypes.cast(function, ctypes.c_void_p).value
    user_object = machine.cuUserObjectCreate(77, cuda.CUhostFn(address), 2, 1)
    graph = machine.cuGraphCreate(0)
    machine.cuGraphRetainUserObject(graph, user_object, 1, 0)
    machine.cuUserObjectRetain(user_object, 1)
    machine.cuUserObjectRelease(user_object, 2)
    machine.cuGraphRetainUserObject(graph, user_object, 1, 1)
    machine.cuGraphReleaseUserObject(graph, user_object, 1)
    clone = machine.cuGraphClone(graph)
    executable = machine.cuGraphInstantiate(graph, 0)
    machine.cuGraphDestroy(graph)
    machine.cuGraphDestroy(clone)
    assert destroyed == []
    machine.cuGraphExecDestroy(executable)
    thread = machine.driver.scheduler._callback_thread
    if thread is not None:
        thread.join()
    assert destroyed == [77]
    assert machine.status("cuUserObjectRetain", user_object, 1) == "INVALID_VALUE"


def test_references_that_are_not_there(machine: Machine) -> None:
    address = ctypes.cast(HOST_FUNCTION(lambda _: None), ctypes.c_void_p).value
    create = ("cuUserObjectCreate", 0, cuda.CUhostFn(address))
    assert machine.status(*create, 0, 1) == "INVALID_VALUE"
    assert machine.status(*create, 1, 0) == "INVALID_VALUE"
    assert machine.status("cuUserObjectCreate", 0, cuda.CUhostFn(0), 1, 1) == "INVALID_VALUE"
    user_object, graph = machine.cuUserObjectCreate(0, cuda.CUhostFn(address), 1, 1), machine.cuGraphCreate(0)
    assert machine.status("cuUserObjectRelease", user_object, 2) == "INVALID_VALUE"
    assert machine.status("cuGraphReleaseUserObject", graph, user_object, 1) == "INVALID_VALUE"
    assert machine.status("cuGraphRetainUserObject", graph, user_object, 1, 2) == "INVALID_VALUE"
