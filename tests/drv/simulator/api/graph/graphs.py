"""Graphs for tests: nodes in few words, and what they are and depend on."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

if TYPE_CHECKING:
    from tests.drv.simulator.machine import Machine

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
TYPES = cuda.CUgraphNodeType


def types(machine: Machine, graph: Any) -> list[str]:
    """Types of the nodes, in the order in which they were added."""
    nodes = machine.cuGraphGetNodes(graph, machine.cuGraphGetNodes(graph)[1])[0]
    names = [machine.cuGraphNodeGetType(node).name for node in nodes]
    return [name.removeprefix("CU_GRAPH_NODE_TYPE_") for name in names]


def edges(machine: Machine, graph: Any) -> set[tuple[int, int]]:
    """Numbers of the nodes that depend on each other: the earlier and the later."""
    count = machine.cuGraphGetEdges(graph)[3]
    earlier, later, _, _ = machine.cuGraphGetEdges(graph, count)
    number = machine.cuGraphNodeGetLocalId
    return {(number(a), number(b)) for a, b in zip(earlier, later, strict=True)}


def launched(machine: Machine, graph: Any, times: int = 1) -> Any:
    """Instantiate a graph, launch it and wait; the executable graph."""
    executable, stream = machine.cuGraphInstantiate(graph, 0), machine.stream()
    for _ in range(times):
        machine.cuGraphLaunch(executable, stream)
    machine.cuStreamSynchronize(stream)
    return executable


def fill_parameters(address: int, value: int, count: int, item: int = 1, **others: int) -> Any:
    """Parameters of a memset node."""
    result = cuda.CUDA_MEMSET_NODE_PARAMS()
    result.dst, result.value, result.elementSize = cuda.CUdeviceptr(address), value, item
    result.width, result.height = count, 1
    for name, each in others.items():
        setattr(result, name, each)
    return result


def copy_parameters(target: int, source: int, nbytes: int) -> Any:
    """Parameters of a memcpy node of one dimension, between any sorts of memory."""
    result = cuda.CUDA_MEMCPY3D()
    result.srcMemoryType = result.dstMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_UNIFIED
    result.srcDevice, result.dstDevice = cuda.CUdeviceptr(source), cuda.CUdeviceptr(target)
    result.WidthInBytes, result.Height, result.Depth = nbytes, 1, 1
    return result


def kernel_parameters(function: Any, grid: int, block: int, values: tuple[Any, ...]) -> Any:
    """Parameters of a kernel node; ``values`` are ctypes objects, one for each of the kernel's."""
    result = cuda.CUDA_KERNEL_NODE_PARAMS()
    result.func = function
    result.gridDimX, result.gridDimY, result.gridDimZ = grid, 1, 1
    result.blockDimX, result.blockDimY, result.blockDimZ = block, 1, 1
    result.kernelParams = (tuple(each.value for each in values), tuple(type(each) for each in values))
    return result


def host_parameters(machine: Machine, label: Any) -> Any:
    """Parameters of a host node that appends ``label`` to the machine's log."""
    function = HOST_FUNCTION(lambda _: machine.log.append(label))
    machine.keep.append(function)
    result = cuda.CUDA_HOST_NODE_PARAMS()
    result.fn = cuda.CUhostFn(ctypes.cast(function, ctypes.c_void_p).value)
    return result


def host_node(machine: Machine, graph: Any, label: Any, *after: Any) -> Any:
    """A node that appends ``label`` to the machine's log."""
    return machine.cuGraphAddHostNode(graph, list(after), len(after), host_parameters(machine, label))


def any_node(kind: Any, **members: Any) -> Any:
    """Parameters of a node of any type; members are set as ``kernel__func=...``."""
    result = cuda.CUgraphNodeParams()
    result.type = kind
    for name, value in members.items():
        member, _, field = name.partition("__")
        setattr(getattr(result, member), field, value)
    return result
