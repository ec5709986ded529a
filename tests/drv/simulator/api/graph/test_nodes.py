"""Nodes of each type: what they do, their parameters, and what is refused."""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda.bindings import driver as cuda

from tests.drv.simulator.compiled import KERNELS, ptx

from .graphs import (
    TYPES,
    any_node,
    copy_parameters,
    fill_parameters,
    host_node,
    host_parameters,
    kernel_parameters,
    launched,
    types,
)

if TYPE_CHECKING:
    from tests.drv.simulator.machine import Machine


@pytest.fixture
def graph(machine: Machine) -> Any:
    return machine.cuGraphCreate(0)


def function(machine: Machine, name: str) -> Any:
    return machine.cuModuleGetFunction(machine.cuModuleLoadData(ptx(KERNELS)), name.encode())


def axpy(machine: Machine, out: int, x: int, factor: float, count: int) -> Any:
    values = ctypes.c_void_p(out), ctypes.c_void_p(x), ctypes.c_float(factor), ctypes.c_int(count)
    return kernel_parameters(function(machine, "axpy"), 1, 32, values)


def floats(machine: Machine, *values: float) -> int:
    address = machine.device_memory(4 * len(values))
    machine.poke(address, np.array(values, np.float32).view(np.uint8))
    return address


def test_a_kernel_node_keeps_the_parameters_of_its_making(machine: Machine, graph: Any) -> None:
    out, x = floats(machine, 1, 2), floats(machine, 10, 20)
    parameters = axpy(machine, out, x, 2, 2)
    node = machine.cuGraphAddKernelNode(graph, None, 0, parameters)
    del parameters
    launched(machine, graph, 2)
    assert machine.peek(out, 8).view(np.float32).tolist() == [41, 82]
    returned = machine.cuGraphKernelNodeGetParams(node)
    assert (returned.gridDimX, returned.blockDimX, returned.sharedMemBytes) == (1, 32, 0)
    pointers = (ctypes.c_void_p * 4).from_address(returned.kernelParams)
    assert ctypes.c_uint64.from_address(pointers[0]).value == out
    assert ctypes.c_float.from_address(pointers[2]).value == 2
    # They are what a node can be made of.
    machine.cuGraphAddKernelNode(graph, [node], 1, returned)
    launched(machine, graph)
    assert machine.peek(out, 8).view(np.float32).tolist() == [81, 162]
    machine.cuGraphKernelNodeSetParams(node, axpy(machine, out, x, -4, 2))
    launched(machine, graph)
    assert machine.peek(out, 8).view(np.float32).tolist() == [61, 122]


def test_a_kernel_of_a_library(machine: Machine, graph: Any) -> None:
    library = machine.cuLibraryLoadData(ptx(KERNELS), [], [], 0, [], [], 0)
    parameters = kernel_parameters(0, 1, 1, ())
    parameters.func = cuda.CUfunction(0)
    assert machine.status("cuGraphAddKernelNode", graph, None, 0, parameters) == "INVALID_VALUE"
    parameters.kern = machine.cuLibraryGetKernel(library, b"nothing")
    node = machine.cuGraphAddKernelNode(graph, None, 0, parameters)
    assert int(machine.cuGraphKernelNodeGetParams(node).func)
    launched(machine, graph)


@pytest.mark.parametrize("field", ["gridDimX", "blockDimX", "sharedMemBytes"])
def test_a_launch_that_no_device_can_do_makes_no_node(machine: Machine, graph: Any, field: str) -> None:
    parameters = kernel_parameters(function(machine, "nothing"), 1, 1, ())
    setattr(parameters, field, 1 << 31)
    assert machine.status("cuGraphAddKernelNode", graph, None, 0, parameters) == "INVALID_VALUE"
    assert types(machine, graph) == []


def test_attributes_of_a_kernel_node(machine: Machine, graph: Any) -> None:
    node = machine.cuGraphAddKernelNode(
        graph, None, 0, kernel_parameters(function(machine, "nothing"), 1, 1, ())
    )
    other = machine.cuGraphAddKernelNode(
        graph, None, 0, kernel_parameters(function(machine, "nothing"), 1, 1, ())
    )
    attributes = cuda.CUlaunchAttributeID
    value = cuda.CUkernelNodeAttrValue()
    value.priority = -3
    machine.cuGraphKernelNodeSetAttribute(node, attributes.CU_LAUNCH_ATTRIBUTE_PRIORITY, value)
    value = cuda.CUkernelNodeAttrValue()
    value.cooperative = 1
    machine.cuGraphKernelNodeSetAttribute(node, attributes.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value)
    machine.cuGraphKernelNodeCopyAttributes(other, node)
    for each in (node, other):
        get = machine.cuGraphKernelNodeGetAttribute
        assert get(each, attributes.CU_LAUNCH_ATTRIBUTE_PRIORITY).priority == -3
        assert get(each, attributes.CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative == 1
    unknown = ("cuGraphKernelNodeGetAttribute", node, attributes.CU_LAUNCH_ATTRIBUTE_IGNORE)
    assert machine.status(*unknown) == "INVALID_VALUE"
    empty = machine.cuGraphAddEmptyNode(graph, None, 0)
    wrong = ("cuGraphKernelNodeGetAttribute", empty, attributes.CU_LAUNCH_ATTRIBUTE_PRIORITY)
    assert machine.status(*wrong) == "INVALID_VALUE"


def test_copies_between_all_sorts_of_memory(machine: Machine, graph: Any) -> None:
    device, (pinned, array) = machine.device_memory(64), machine.pinned(64)
    pageable = np.arange(64, dtype=np.uint8)
    target = np.zeros(64, np.uint8)
    context = machine.contexts[0]
    places = [int(pageable.ctypes.data), device, pinned, int(target.ctypes.data)]
    node = None
    for source, to in itertools.pairwise(places):
        before = [] if node is None else [node]
        node = machine.cuGraphAddMemcpyNode(
            graph, before, len(before), copy_parameters(to, source, 64), context
        )
    executable = launched(machine, graph)
    assert (target == np.arange(64)).all()
    # Pageable memory is read at each launch.
    pageable[:] = 5
    stream = machine.stream()
    machine.cuGraphLaunch(executable, stream)
    machine.cuStreamSynchronize(stream)
    assert (array == 5).all()
    assert (target == 5).all()
    returned = machine.cuGraphMemcpyNodeGetParams(node)
    assert returned.srcMemoryType == returned.dstMemoryType == cuda.CUmemorytype.CU_MEMORYTYPE_HOST
    assert (returned.WidthInBytes, returned.Height, returned.Depth) == (64, 1, 1)
    machine.cuGraphMemcpyNodeSetParams(node, returned)
    empty = copy_parameters(device, device, 0)
    assert machine.status("cuGraphAddMemcpyNode", graph, None, 0, empty, context) == "INVALID_VALUE"
    nowhere = copy_parameters(1 << 50, device, 4)
    assert machine.status("cuGraphAddMemcpyNode", graph, None, 0, nowhere, context) == "INVALID_VALUE"


def test_rectangles(machine: Machine, graph: Any) -> None:
    source, target = machine.device_memory(64), machine.device_memory(64)
    machine.poke(source, np.arange(64))
    machine.poke(target, np.zeros(64))
    parameters = copy_parameters(target, source, 2)
    parameters.Height, parameters.srcPitch, parameters.dstPitch = 3, 8, 4
    parameters.srcXInBytes, parameters.srcY = 1, 2
    node = machine.cuGraphAddMemcpyNode(graph, None, 0, parameters, machine.contexts[0])
    executable = launched(machine, graph)
    assert machine.peek(target, 12).tolist() == [17, 18, 0, 0, 25, 26, 0, 0, 33, 34, 0, 0]
    # An executable graph takes other addresses of linear copies only.
    arguments = executable, node, parameters, machine.contexts[0]
    assert machine.status("cuGraphExecMemcpyNodeSetParams", *arguments) == "INVALID_VALUE"


def test_fills(machine: Machine, graph: Any) -> None:
    address, context = machine.device_memory(64), machine.contexts[0]
    machine.poke(address, np.zeros(64))
    rows = fill_parameters(address, 0x0102, 2, 2, height=2, pitch=16)
    node = machine.cuGraphAddMemsetNode(graph, None, 0, rows, context)
    launched(machine, graph)
    assert machine.peek(address, 24).tolist() == [2, 1, 2, 1] + [0] * 12 + [2, 1, 2, 1] + [0] * 4
    returned = machine.cuGraphMemsetNodeGetParams(node)
    assert (returned.value, returned.elementSize, returned.width, returned.height, returned.pitch) == (
        0x0102,
        2,
        2,
        2,
        16,
    )
    machine.cuGraphMemsetNodeSetParams(node, fill_parameters(address, 9, 4))
    launched(machine, graph)
    assert machine.peek(address, 4).tolist() == [9] * 4
    for wrong in (
        fill_parameters(address, 0, 4, 3),
        fill_parameters(address, 256, 4, 1),
        fill_parameters(address, 0, 65, 1),
        fill_parameters(address, 0, 0, 1),
        fill_parameters(address + 1, 0, 4, 2),
        fill_parameters(address, 0, 8, 1, height=2, pitch=4),
    ):
        assert machine.status("cuGraphAddMemsetNode", graph, None, 0, wrong, context) == "INVALID_VALUE"


def test_host_functions(machine: Machine, graph: Any) -> None:
    first = host_node(machine, graph, 1)
    host_node(machine, graph, 2, first)
    executable = launched(machine, graph)
    assert machine.log == [1, 2]
    returned = machine.cuGraphHostNodeGetParams(first)
    assert int(returned.fn) == int(machine.cuGraphHostNodeGetParams(first).fn)
    machine.cuGraphExecHostNodeSetParams(executable, first, host_parameters(machine, 3))
    machine.cuGraphLaunch(executable, machine.stream())
    machine.cuCtxSynchronize()
    assert machine.log == [1, 2, 3, 2]
    machine.cuGraphHostNodeSetParams(first, host_parameters(machine, 4))
    launched(machine, graph)
    assert machine.log[4:] == [4, 2]
    parameters = cuda.CUDA_HOST_NODE_PARAMS()
    assert machine.status("cuGraphAddHostNode", graph, None, 0, parameters) == "INVALID_VALUE"


def test_child_graphs_are_copies_that_can_be_changed(machine: Machine, graph: Any) -> None:
    inner = machine.cuGraphCreate(0)
    host_node(machine, inner, "inner")
    before = host_node(machine, graph, "before")
    child = machine.cuGraphAddChildGraphNode(graph, [before], 1, inner)
    host_node(machine, graph, "after", child)
    machine.cuGraphDestroy(inner)
    embedded = machine.cuGraphChildGraphNodeGetGraph(child)
    host_node(machine, embedded, "added")
    launched(machine, graph)
    assert machine.log[0] == "before"
    assert machine.log[-1] == "after"
    assert sorted(machine.log[1:3]) == ["added", "inner"]
    assert machine.status("cuGraphAddChildGraphNode", graph, None, 0, graph) == "INVALID_VALUE"
    assert machine.status("cuGraphAddChildGraphNode", embedded, None, 0, graph) == "INVALID_VALUE"


def test_an_empty_child_graph_orders_what_is_around_it(machine: Machine, graph: Any) -> None:
    before = host_node(machine, graph, "before")
    child = machine.cuGraphAddChildGraphNode(graph, [before], 1, machine.cuGraphCreate(0))
    host_node(machine, graph, "after", child)
    launched(machine, graph)
    assert machine.log == ["before", "after"]


def test_a_child_graph_that_is_moved_is_the_graph_itself(machine: Machine, graph: Any) -> None:
    inner = machine.cuGraphCreate(0)
    host_node(machine, inner, "inner")
    parameters = any_node(TYPES.CU_GRAPH_NODE_TYPE_GRAPH, graph__graph=inner)
    parameters.graph.ownership = cuda.CUgraphChildGraphNodeOwnership.CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE
    node = machine.cuGraphAddNode(graph, None, None, 0, parameters)
    assert int(machine.cuGraphChildGraphNodeGetGraph(node)) == int(inner)
    assert machine.status("cuGraphDestroy", inner) == "INVALID_VALUE"
    launched(machine, graph)
    assert machine.log == ["inner"]
    machine.cuGraphDestroy(graph)
    assert machine.status("cuGraphGetNodes", inner) == "INVALID_VALUE"


def test_events(machine: Machine, graph: Any) -> None:
    event, other = machine.event(), machine.event()
    wait = machine.cuGraphAddEventWaitNode(graph, None, 0, event)
    record = machine.cuGraphAddEventRecordNode(graph, [wait], 1, other)
    assert int(machine.cuGraphEventWaitNodeGetEvent(wait)) == int(event)
    machine.cuGraphEventWaitNodeSetEvent(wait, other)
    assert int(machine.cuGraphEventWaitNodeGetEvent(wait)) == int(other)
    machine.cuGraphEventRecordNodeSetEvent(record, event)
    assert int(machine.cuGraphEventRecordNodeGetEvent(record)) == int(event)
    assert machine.status("cuGraphEventRecordNodeGetEvent", wait) == "INVALID_VALUE"
    executable = launched(machine, graph)
    machine.cuEventSynchronize(event)
    machine.cuGraphExecEventRecordNodeSetEvent(executable, record, other)
    machine.cuGraphExecEventWaitNodeSetEvent(executable, wait, event)
    machine.cuGraphLaunch(executable, machine.stream())
    machine.cuEventSynchronize(other)
    assert machine.status("cuGraphAddEventWaitNode", graph, None, 0, 1) == "INVALID_HANDLE"


def test_operations_on_memory(machine: Machine, graph: Any) -> None:
    address = machine.device_memory(16)
    machine.poke(address, np.zeros(16))
    operations = cuda.CUstreamBatchMemOpType
    write, wait = cuda.CUstreamBatchMemOpParams(), cuda.CUstreamBatchMemOpParams()
    write.writeValue.operation = operations.CU_STREAM_MEM_OP_WRITE_VALUE_32
    write.writeValue.address, write.writeValue.value = cuda.CUdeviceptr(address), cuda.cuuint32_t(7)
    wait.waitValue.operation = operations.CU_STREAM_MEM_OP_WAIT_VALUE_64
    wait.waitValue.address, wait.waitValue.value64 = cuda.CUdeviceptr(address), cuda.cuuint64_t(7)
    parameters = cuda.CUDA_BATCH_MEM_OP_NODE_PARAMS()
    parameters.ctx, parameters.count = machine.contexts[0], 2
    parameters.paramArray = [write, wait]
    node = machine.cuGraphAddBatchMemOpNode(graph, None, 0, parameters)
    host_node(machine, graph, "after", node)
    executable = launched(machine, graph)
    assert machine.peek(address, 4).tolist() == [7, 0, 0, 0]
    assert machine.log == ["after"]
    returned = machine.cuGraphBatchMemOpNodeGetParams(node)
    assert returned.count == 2
    assert int(returned.paramArray[0].writeValue.value) == 7
    machine.cuGraphBatchMemOpNodeSetParams(node, returned)
    write.writeValue.value = cuda.cuuint32_t(8)
    parameters.paramArray = [write, wait]
    machine.cuGraphExecBatchMemOpNodeSetParams(executable, node, parameters)
    machine.cuGraphLaunch(executable, machine.stream())
    machine.cuCtxSynchronize()
    assert machine.peek(address, 4).tolist() == [8, 0, 0, 0]
    parameters.paramArray = [wait, write]
    arguments = executable, node, parameters
    assert machine.status("cuGraphExecBatchMemOpNodeSetParams", *arguments) == "INVALID_VALUE"


def test_external_semaphores_are_not_there(machine: Machine, graph: Any) -> None:
    empty = machine.cuGraphAddEmptyNode(graph, None, 0)
    for name in ("Signal", "Wait"):
        parameters = getattr(cuda, f"CUDA_EXT_SEM_{name.upper()}_NODE_PARAMS")()
        add = f"cuGraphAddExternalSemaphores{name}Node"
        assert machine.status(add, graph, None, 0, parameters) == "NOT_SUPPORTED"
        ask = f"cuGraphExternalSemaphores{name}NodeGetParams"
        assert machine.status(ask, empty) == "INVALID_VALUE"


def test_nodes_of_any_type_by_one_call(machine: Machine, graph: Any) -> None:
    address, context = machine.device_memory(64), machine.contexts[0]
    kernel = any_node(TYPES.CU_GRAPH_NODE_TYPE_KERNEL)
    described = kernel_parameters(function(machine, "nothing"), 1, 1, ())
    kernel.kernel.func = described.func
    for name in ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"):
        setattr(kernel.kernel, name, 1)
    fill = any_node(TYPES.CU_GRAPH_NODE_TYPE_MEMSET)
    for name, value in (("value", 3), ("elementSize", 1), ("width", 64), ("height", 1)):
        setattr(fill.memset, name, value)
    fill.memset.dst, fill.memset.ctx = cuda.CUdeviceptr(address), context
    copy = any_node(
        TYPES.CU_GRAPH_NODE_TYPE_MEMCPY,
        memcpy__copyParams=copy_parameters(address, address + 32, 32),
        memcpy__copyCtx=context,
    )
    function_parameters = host_parameters(machine, "host")
    host = any_node(TYPES.CU_GRAPH_NODE_TYPE_HOST, host__fn=function_parameters.fn)
    event = machine.event()
    record = any_node(TYPES.CU_GRAPH_NODE_TYPE_EVENT_RECORD, eventRecord__event=event)
    wait = any_node(TYPES.CU_GRAPH_NODE_TYPE_WAIT_EVENT, eventWait__event=event)
    child = any_node(TYPES.CU_GRAPH_NODE_TYPE_GRAPH, graph__graph=machine.cuGraphCreate(0))
    empty = any_node(TYPES.CU_GRAPH_NODE_TYPE_EMPTY)
    node = None
    for parameters in (kernel, fill, copy, host, record, wait, child, empty):
        before = [] if node is None else [node]
        node = machine.cuGraphAddNode(graph, before, None, len(before), parameters)
        assert machine.cuGraphNodeGetType(node) == parameters.type
        assert machine.cuGraphNodeGetParams(node).type == parameters.type
        if parameters is fill:
            assert int(machine.cuGraphNodeGetParams(node).memset.value) == 3
    launched(machine, graph)
    assert machine.log == ["host"]
    assert machine.peek(address, 64).tolist() == [3] * 64
    nodes = machine.cuGraphGetNodes(graph, 8)[0]
    fill.memset.value = 4
    machine.cuGraphNodeSetParams(nodes[1], fill)
    assert int(machine.cuGraphNodeGetParams(nodes[1]).memset.value) == 4
    assert machine.status("cuGraphNodeSetParams", nodes[1], copy) == "INVALID_VALUE"
    assert machine.status("cuGraphNodeSetParams", nodes[6], child) == "NOT_SUPPORTED"
    other = machine.cuCtxCreate(None, 0, 0)
    kernel.kernel.ctx = other
    assert machine.status("cuGraphAddNode", graph, None, None, 0, kernel) == "INVALID_CONTEXT"


def test_parameters_of_the_wrong_type_of_node(machine: Machine, graph: Any) -> None:
    empty = machine.cuGraphAddEmptyNode(graph, None, 0)
    for name in ("Kernel", "Memcpy", "Memset", "Host", "MemAlloc", "MemFree", "BatchMemOp"):
        assert machine.status(f"cuGraph{name}NodeGetParams", empty) == "INVALID_VALUE"
    assert machine.status("cuGraphChildGraphNodeGetGraph", empty) == "INVALID_VALUE"
    with pytest.raises(TypeError, match="expected CUDA_KERNEL_NODE_PARAMS"):
        machine.driver.cuGraphAddKernelNode(graph, None, 0, cuda.CUDA_MEMCPY3D())
    assert machine.status("cuGraphAddKernelNode", graph, None, 0, None) == "INVALID_VALUE"
