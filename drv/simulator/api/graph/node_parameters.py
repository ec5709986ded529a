"""Parameters of nodes: the structures of the bindings, and the work that they describe."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from drv.simulator.driver_call import integer, structure
from drv.simulator.work.copy import CopyWork
from drv.simulator.work.events import EventRecordWork, EventWaitWork
from drv.simulator.work.fill import FillWork
from drv.simulator.work.host import HostWork
from drv.simulator.work.kernel import KernelWork
from drv.simulator.work.memory_operations import MemoryOperationsWork
from drv.simulator.work.simulated_library import LibraryWork

from ...graphs.graph_memory import AllocationWork, FreeWork
from ...graphs.nested import ChildGraphWork, ConditionalWork

if TYPE_CHECKING:
    from drv.simulator.graphs.graph import Node
    from drv.simulator.memory.queued_copy import Endpoint

_MEMORY_TYPES = cuda.CUmemorytype
_NODE_TYPES = cuda.CUgraphNodeType
#: The member of ``CUgraphNodeParams`` for each type of node.
MEMBERS = {
    _NODE_TYPES.CU_GRAPH_NODE_TYPE_KERNEL: "kernel",
    _NODE_TYPES.CU_GRAPH_NODE_TYPE_MEMCPY: "memcpy",
    _NODE_TYPES.CU_GRAPH_NODE_TYPE_MEMSET: "memset",
    _NODE_TYPES.CU_GRAPH_NODE_TYPE_HOST: "host",
    _NODE_TYPES.CU_GRAPH_NODE_TYPE_GRAPH: "graph",
    _NODE_TYPES.CU_GRAPH_NODE_TYPE_WAIT_EVENT: "eventWait",
    _NODE_TYPES.CU_GRAPH_NODE_TYPE_EVENT_RECORD: "eventRecord",
    _NODE_TYPES.CU_GRAPH_NODE_TYPE_MEM_ALLOC: "alloc",
    _NODE_TYPES.CU_GRAPH_NODE_TYPE_MEM_FREE: "free",
    _NODE_TYPES.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: "memOp",
    _NODE_TYPES.CU_GRAPH_NODE_TYPE_CONDITIONAL: "conditional",
}


def write_kernel(node: Node, target: Any) -> None:
    """Fill ``target``, a structure with the parameters of a kernel node."""
    work = node.work
    if isinstance(work, LibraryWork):
        # It stands for kernels that have no handle here.
        target.gridDimX = target.gridDimY = target.gridDimZ = 1
        target.blockDimX = target.blockDimY = target.blockDimZ = 1
        target.ctx = cuda.CUcontext(work.context.handle)
        return
    assert isinstance(work, KernelWork)
    target.func = cuda.CUfunction(work.function.handle)
    target.gridDimX, target.gridDimY, target.gridDimZ = work.grid
    target.blockDimX, target.blockDimY, target.blockDimZ = work.block
    target.sharedMemBytes = work.shared
    target.ctx = cuda.CUcontext(work.context.handle)
    parameters = ctypes.create_string_buffer(work.parameters, max(len(work.parameters), 1))
    addresses = [ctypes.addressof(parameters) + offset for offset, _ in work.function.parameters]
    pointers = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
    node.exported = (parameters, pointers)
    target.kernelParams = ctypes.addressof(pointers) if addresses else 0


def write_copy(node: Node, target: Any) -> None:
    """Fill ``target``, a ``CUDA_MEMCPY3D``."""
    work = node.work
    assert isinstance(work, CopyWork)
    target.Depth, target.Height, target.WidthInBytes = work.shape
    for side, endpoint in (("src", work.source), ("dst", work.target)):
        _write_side(target, side, endpoint)


def _write_side(target: Any, side: str, endpoint: Endpoint) -> None:
    array = endpoint.array
    if array is not None:
        z, rest = divmod(endpoint.address - array.address, array.slice_pitch)
        y, x = divmod(rest, array.pitch)
        setattr(target, f"{side}MemoryType", _MEMORY_TYPES.CU_MEMORYTYPE_ARRAY)
        setattr(target, f"{side}Array", cuda.CUarray(array.handle))
        for name, value in (("XInBytes", x), ("Y", y), ("Z", z)):
            setattr(target, f"{side}{name}", value)
        return
    if endpoint.host:
        setattr(target, f"{side}MemoryType", _MEMORY_TYPES.CU_MEMORYTYPE_HOST)
        setattr(target, f"{side}Host", endpoint.address)
    else:
        setattr(target, f"{side}MemoryType", _MEMORY_TYPES.CU_MEMORYTYPE_DEVICE)
        setattr(target, f"{side}Device", cuda.CUdeviceptr(endpoint.address))
    setattr(target, f"{side}Pitch", endpoint.pitch)
    height = endpoint.slice_pitch // endpoint.pitch if endpoint.pitch else 0
    setattr(target, f"{side}Height", height)


def write_fill(node: Node, target: Any) -> None:
    """Fill ``target``, a structure with the parameters of a memset node."""
    work = node.work
    assert isinstance(work, FillWork)
    target.dst = cuda.CUdeviceptr(work.address)
    target.pitch = work.pitch
    target.value = work.value
    target.elementSize = work.item
    target.width = work.count
    target.height = work.rows


def write_host(node: Node, target: Any) -> None:
    """Fill ``target``, a structure with the parameters of a host node."""
    work = node.work
    assert isinstance(work, HostWork)
    target.fn = cuda.CUhostFn(work.address)
    target.userData = work.data


def write_allocation(node: Node, target: Any) -> None:
    """Fill ``target``, a structure with the parameters of an allocation node."""
    work = node.work
    assert isinstance(work, AllocationWork)
    target.poolProps = work.pool_properties
    target.accessDescs = list(work.access)
    target.accessDescCount = len(work.access)
    target.bytesize = work.graph_allocation.allocation.size
    target.dptr = cuda.CUdeviceptr(work.graph_allocation.allocation.base)


def write_memory_operations(node: Node, target: Any) -> None:
    """Fill ``target``, a structure with the parameters of a node of operations on memory."""
    work = node.work
    assert isinstance(work, MemoryOperationsWork)
    target.ctx = cuda.CUcontext(work.context.handle)
    target.count = len(work.operations)
    target.paramArray = [operation.structure() for operation in work.operations]
    target.flags = 0


def write_conditional(node: Node, target: Any) -> None:
    """Fill ``target``, a ``CUDA_CONDITIONAL_NODE_PARAMS``; it has a pointer to the node's table of bodies."""
    work = node.work
    assert isinstance(work, ConditionalWork)
    target.handle = cuda.CUgraphConditionalHandle(work.condition.handle)
    target.type = cuda.CUgraphConditionalNodeType(work.conditional_type)
    target.size = len(work.bodies)
    target.ctx = cuda.CUcontext(work.context.handle)
    write_bodies(work, target)


def write_bodies(work: ConditionalWork, target: Any) -> None:
    """Point ``phGraph_out`` of ``target`` to the handles of the bodies."""
    if work.table is None:
        work.table = (ctypes.c_size_t * len(work.bodies))(*(body.handle for body in work.bodies))
    # Behind the handle, of 8 bytes, and type and size, of 4 each.
    ctypes.c_size_t.from_address(target.getPtr() + 16).value = ctypes.addressof(work.table)


def write_event(node: Node, target: Any) -> None:
    """Fill ``target``, a structure with the parameters of a node that records an event or waits for one."""
    work = node.work
    assert isinstance(work, (EventRecordWork, EventWaitWork))
    target.event = cuda.CUevent(work.event.handle)


def write_child(node: Node, target: Any) -> None:
    """Fill ``target``, a ``CUDA_CHILD_GRAPH_NODE_PARAMS``."""
    work = node.work
    assert isinstance(work, ChildGraphWork)
    target.graph = cuda.CUgraph(work.graph.handle)


def write_free(node: Node, target: Any) -> None:
    """Fill ``target``, a ``CUDA_MEM_FREE_NODE_PARAMS``."""
    work = node.work
    assert isinstance(work, FreeWork)
    target.dptr = cuda.CUdeviceptr(work.graph_allocation.allocation.base)


WRITERS = {
    "kernel": write_kernel,
    "memset": write_fill,
    "host": write_host,
    "graph": write_child,
    "eventWait": write_event,
    "eventRecord": write_event,
    "alloc": write_allocation,
    "free": write_free,
    "memOp": write_memory_operations,
    "conditional": write_conditional,
}


def node_structure(node: Node) -> cuda.CUgraphNodeParams:
    """What ``cuGraphNodeGetParams`` gives for ``node``."""
    result = cuda.CUgraphNodeParams()
    result.type = node.work.node_type
    member = MEMBERS.get(node.work.node_type)
    if member is None:
        return result
    target = getattr(result, member)
    if member == "memcpy":
        copy = cuda.CUDA_MEMCPY3D()
        write_copy(node, copy)
        target.copyParams = copy
        target.copyCtx = cuda.CUcontext(node.work.context.handle)
    else:
        WRITERS[member](node, target)
    return result


def member_of(parameters: Any) -> tuple[Any, Any]:
    """Type and member of a ``CUgraphNodeParams``."""
    fields = structure(parameters, cuda.CUgraphNodeParams)
    member = MEMBERS.get(fields.type)
    return fields.type, None if member is None else getattr(fields, member)


def handle_of(value: Any) -> int:
    """A handle in a structure as a number."""
    return integer(value)
