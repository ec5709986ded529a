"""Functions as C programs call them: what lies behind their pointers, before and after."""

from __future__ import annotations

import ctypes
import inspect
import os
from typing import Any

import pytest
from cuda.bindings import driver as cuda

from drv.simulator.driver import SimulatedDriver
from drv.simulator.outsiders import c_types
from drv.simulator.outsiders.c_functions import CFunctions
from drv.simulator.outsiders.parameters import parameters, result_names
from drv.simulator.outsiders.prototypes import forms
from tests.drv.simulator.api.graph.graphs import kernel_parameters
from tests.drv.simulator.machine import Machine

SUCCESS, INVALID_VALUE = 0, 1
LOSSY_QUERY = int(cuda.CUresult.CUDA_ERROR_LOSSY_QUERY)


class C:
    """The functions of a simulated driver, by their exported names."""

    def __init__(self, machine: Machine) -> None:
        self._functions = CFunctions(machine.driver)
        self._forms = {form.symbol: form for each in forms().values() for form in each}

    def __getattr__(self, symbol: str) -> Any:
        return self._functions.function(self._forms[symbol])


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def c(machine: Machine) -> C:
    return C(machine)


def handles(number: int) -> Any:
    return (ctypes.c_size_t * number)(*[99] * number)


def pointer(value: Any) -> int:
    return ctypes.addressof(value)


def chain(machine: Machine, length: int) -> tuple[Any, list[int]]:
    graph = machine.cuGraphCreate(0)
    nodes: list[Any] = []
    for _ in range(length):
        nodes.append(machine.cuGraphAddEmptyNode(graph, nodes[-1:], len(nodes[-1:])))
    return graph, [int(node) for node in nodes]


def test_every_result_of_every_function_can_be_written() -> None:
    """A structure of unknown size, or a pointer taken for a number, would be memory that C has not provided for."""
    wrong = []
    for form in (form for each in forms().values() for form in each):
        call = getattr(SimulatedDriver, form.function, None)
        if call is None or hasattr(CFunctions, f"_{form.function}"):
            continue
        expected = list(inspect.signature(call).parameters)[1:]
        names = result_names(form, expected)
        for each in parameters(form, expected):
            pointee = each.c_type.removeprefix("const ").removesuffix("*")
            known = getattr(cuda, pointee, None)
            is_number = known is None or hasattr(known, "__int__") or hasattr(known, "__members__")
            is_known = pointee in c_types._STRUCTURES or pointee in c_types._NUMBERS
            if each.result and each.name in names and not (is_number or is_known):
                wrong.append((form.symbol, each.c_type, each.name))
    # Semaphores of graphics libraries, and groups of devices, which no call can make.
    refused = ("CUDA_EXT_SEM_", "CUcliqueInfo")
    assert [each for each in wrong if not each[1].startswith(refused)] == []


def test_nodes_as_many_as_there_is_room_for(machine: Machine, c: C) -> None:
    graph, nodes = chain(machine, 3)
    count = ctypes.c_size_t(77)
    assert c.cuGraphGetNodes(int(graph), 0, pointer(count)) == SUCCESS
    assert count.value == 3
    for room, expected in ((2, [*nodes[:2], 99, 99, 99]), (5, [*nodes, 0, 0])):
        nodes_there, count = handles(5), ctypes.c_size_t(room)
        assert c.cuGraphGetNodes(int(graph), pointer(nodes_there), pointer(count)) == SUCCESS
        assert list(nodes_there) == expected
        assert count.value == min(room, 3)
    count = ctypes.c_size_t(1)
    assert c.cuGraphGetRootNodes(int(graph), pointer(nodes_there), pointer(count)) == SUCCESS
    assert (nodes_there[0], count.value) == (nodes[0], 1)
    assert c.cuGraphGetNodes(12345, 0, pointer(count)) == INVALID_VALUE


def test_edges_with_what_they_are_like(machine: Machine, c: C) -> None:
    graph, nodes = chain(machine, 2)
    first, second = handles(1), handles(1)
    count = ctypes.c_size_t(1)
    edges = (ctypes.c_ubyte * 8)(*[9] * 8)
    get = int(graph), pointer(first), pointer(second)
    assert c.cuGraphGetEdges_v2(*get, pointer(edges), pointer(count)) == SUCCESS
    assert (first[0], second[0], count.value, bytes(edges)) == (*nodes, 1, bytes(8))
    assert c.cuGraphGetEdges(*get, pointer(count)) == SUCCESS
    late = machine.cuGraphAddEmptyNode(graph, None, 0)
    extra = (ctypes.c_size_t * 1)(nodes[1]), (ctypes.c_size_t * 1)(int(late))
    ends = [pointer(each) for each in extra]
    assert c.cuGraphAddDependencies(int(graph), *ends, 1) == SUCCESS
    assert machine.cuGraphGetEdges(graph, 9)[-1] == 2
    assert c.cuGraphRemoveDependencies_v2(int(graph), *ends, pointer(edges), 1) == SUCCESS
    assert machine.cuGraphGetEdges(graph, 9)[-1] == 1
    depends, count = handles(2), ctypes.c_size_t(2)
    assert c.cuGraphNodeGetDependencies(nodes[1], pointer(depends), pointer(count)) == SUCCESS
    assert (list(depends), count.value) == ([nodes[0], 0], 1)
    count = ctypes.c_size_t(2)
    assert c.cuGraphNodeGetDependentNodes(nodes[0], pointer(depends), pointer(count)) == SUCCESS
    assert (list(depends), count.value) == ([nodes[1], 0], 1)


def test_edges_that_a_program_does_not_ask_about(machine: Machine, c: C) -> None:
    """A program for graphs as they were before edges had data is told where it would miss something."""
    module = machine.cuModuleLoadData(
        b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry f() { ret; }"
    )
    parameters = kernel_parameters(machine.cuModuleGetFunction(module, b"f"), 1, 32, ())
    graph, edge = machine.cuGraphCreate(0), cuda.CUgraphEdgeData()
    # The second kernel may begin before the first has ended.
    edge.from_port, edge.type = 1, cuda.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
    first, second = (machine.cuGraphAddKernelNode(graph, None, 0, parameters) for _ in range(2))
    machine.cuGraphAddDependencies(graph, [first], [second], [edge], 1)
    ends, count = handles(2), ctypes.c_size_t(1)
    lists = pointer(ends), pointer(ends) + 8
    assert c.cuGraphGetEdges(int(graph), *lists, pointer(count)) == LOSSY_QUERY
    assert list(ends) == [99, 99]
    edges = (ctypes.c_ubyte * 8)()
    assert c.cuGraphGetEdges_v2(int(graph), *lists, pointer(edges), pointer(count)) == SUCCESS
    assert (list(ends), edges[0], edges[2]) == ([int(first), int(second)], 1, int(edge.type))


def test_copies_in_a_batch(machine: Machine, c: C) -> None:
    source, target = (machine.cuMemAlloc(64) for _ in range(2))
    for index in range(4):
        machine.cuMemsetD8(int(source) + 16 * index, index, 16)
    machine.cuMemsetD8(target, 9, 64)
    targets = (ctypes.c_size_t * 2)(int(target), int(target) + 32)
    sources = (ctypes.c_size_t * 2)(int(source) + 16, int(source) + 48)
    sizes = (ctypes.c_size_t * 2)(16, 8)
    attributes = cuda.CUmemcpyAttributes()
    attributes.srcAccessOrder = cuda.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_STREAM
    begins = (ctypes.c_size_t * 1)(0)
    stream = machine.stream()
    lists = pointer(targets), pointer(sources), pointer(sizes), 2, attributes.getPtr(), pointer(begins), 1
    assert c.cuMemcpyBatchAsync_v2(*lists, int(stream)) == SUCCESS
    machine.cuStreamSynchronize(stream)
    assert machine.peek(int(target), 64).tolist() == [1] * 16 + [9] * 16 + [3] * 8 + [9] * 24


def test_multiprocessors_are_split(machine: Machine, c: C) -> None:
    whole, rest = cuda.CUdevResource(), cuda.CUdevResource()
    assert c.cuDeviceGetDevResource(0, whole.getPtr(), 1) == SUCCESS
    assert whole.sm.smCount == 132
    count = ctypes.c_uint(5)
    split = c.cuDevSmResourceSplitByCount
    assert split(0, pointer(count), whole.getPtr(), 0, 0, 16) == SUCCESS
    assert count.value == 8
    parts, count = (ctypes.c_ubyte * (3 * 144))(), ctypes.c_uint(3)
    assert split(pointer(parts), pointer(count), whole.getPtr(), rest.getPtr(), 0, 16) == SUCCESS
    assert count.value == 3
    assert [cuda.CUdevResource(_ptr=pointer(parts) + 144 * index).sm.smCount for index in range(3)] == [
        16
    ] * 3
    assert rest.sm.smCount == 132 - 48
    description = ctypes.c_size_t()
    assert c.cuDevResourceGenerateDesc(pointer(description), pointer(parts), 2) == SUCCESS
    assert description.value


def test_values_that_are_exchanged(machine: Machine, c: C) -> None:
    mode = ctypes.c_int(int(cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    assert c.cuThreadExchangeStreamCaptureMode(pointer(mode)) == SUCCESS
    assert mode.value == int(cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    assert c.cuThreadExchangeStreamCaptureMode(pointer(mode)) == SUCCESS
    assert mode.value == int(cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)


def test_logs(machine: Machine, c: C) -> None:
    iterator, after = (ctypes.c_uint * 2)(0, 7), ctypes.c_size_t(200)
    assert c.cuLogsCurrent(pointer(iterator), 0) == SUCCESS
    machine.status("cuMemFree", 12345)
    buffer = ctypes.create_string_buffer(200)
    assert c.cuLogsDumpToMemory(pointer(iterator), pointer(buffer), pointer(after), 0) == SUCCESS
    assert after.value == len(buffer.value)
    assert b"cuMemFree returns CUDA_ERROR_INVALID_VALUE" in buffer.value
    # The iterator has four bytes, and what comes behind it is the program's.
    assert list(iterator) == [1, 7]


def test_attributes_by_their_own_sizes(machine: Machine, c: C) -> None:
    value = (ctypes.c_uint64 * 2)(5, 5)
    high = int(cuda.CUgraphMem_attribute.CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
    assert c.cuDeviceGetGraphMemAttribute(0, high, pointer(value)) == SUCCESS
    assert list(value) == [0, 5]
    assert c.cuDeviceSetGraphMemAttribute(0, high, pointer(value)) == SUCCESS
    value[0] = 3
    assert c.cuDeviceSetGraphMemAttribute(0, high, pointer(value)) == INVALID_VALUE
    stream = machine.stream()
    priority = (ctypes.c_ubyte * 65)(*[8] * 65)
    attribute = int(cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PRIORITY)
    assert c.cuStreamGetAttribute(int(stream), attribute, pointer(priority)) == SUCCESS
    assert priority[64] == 8
    assert c.cuStreamSetAttribute(int(stream), attribute, pointer(priority)) == SUCCESS


def test_memory_that_is_mapped_and_exported(machine: Machine, c: C) -> None:
    properties = cuda.CUmemAllocationProp()
    properties.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.requestedHandleTypes = kind = (
        cuda.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    )
    memory = machine.cuMemCreate(2 << 20, properties, 0)
    descriptor = (ctypes.c_int * 2)(-1, -1)
    address = int(machine.cuMemAddressReserve(2 << 20, 0, 0, 0))
    machine.cuMemMap(address, 2 << 20, 0, memory, 0)
    access = cuda.CUmemAccessDesc()
    access.location, access.flags = (
        properties.location,
        cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    )
    assert c.cuMemSetAccess(address, 2 << 20, access.getPtr(), 1) == SUCCESS
    assert c.cuMemSetAccess(address, 2 << 20, 0, 1) == INVALID_VALUE
    machine.cuMemsetD8(address, 1, 16)
    assert c.cuMemExportToShareableHandle(pointer(descriptor), int(memory), int(kind), 0) == SUCCESS
    assert descriptor[0] >= 0
    assert descriptor[1] == -1
    os.close(descriptor[0])
    machine.cuMemUnmap(address, 2 << 20)
    machine.cuMemRelease(memory)


def test_tensor_maps(machine: Machine, c: C) -> None:
    address = machine.device_memory(1 << 12)
    sizes, strides = (ctypes.c_uint64 * 3)(64, 5, 2), (ctypes.c_uint64 * 2)(128, 640)
    box, steps = (ctypes.c_uint32 * 3)(32, 4, 1), (ctypes.c_uint32 * 3)(1, 1, 1)
    half = cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16

    def encode(rank: int) -> tuple[int, bytes]:
        out = (ctypes.c_ubyte * 128)()
        lists = map(pointer, (sizes, strides, box, steps))
        status = c.cuTensorMapEncodeTiled(pointer(out), int(half), rank, address, *lists, 0, 2, 1, 0)
        return status, bytes(out)

    direct = machine.cuTensorMapEncodeTiled(
        half,
        3,
        address,
        [cuda.cuuint64_t(each) for each in sizes],
        [cuda.cuuint64_t(each) for each in strides],
        [cuda.cuuint32_t(each) for each in box],
        [cuda.cuuint32_t(each) for each in steps],
        cuda.CUtensorMapInterleave(0),
        cuda.CUtensorMapSwizzle(2),
        cuda.CUtensorMapL2promotion(1),
        cuda.CUtensorMapFloatOOBfill(0),
    )
    assert encode(3) == (SUCCESS, ctypes.string_at(direct.getPtr(), 128))
    assert encode(0)[0] == encode(6)[0] == INVALID_VALUE
