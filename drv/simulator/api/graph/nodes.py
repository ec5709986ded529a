"""Driver calls that add nodes to graphs, and ask for and change what nodes do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.api.launch import check_dimensions
from drv.simulator.api.memory.copy import CopyCalls
from drv.simulator.api.memory.fill import FillCalls
from drv.simulator.api.memory.memory_operations import MemoryOperationCalls
from drv.simulator.api.modules.kernel_parameters import gather
from drv.simulator.api.modules.library import LibraryCalls
from drv.simulator.driver_call import (
    OK,
    SUCCESS,
    CallError,
    call,
    integer,
    invalid_handle,
    invalid_value,
    structure,
    unsigned,
)
from drv.simulator.graphs.book import GraphBook
from drv.simulator.graphs.graph_memory import AllocationWork, FreeWork
from drv.simulator.graphs.nested import IF, SWITCH, WHILE, ChildGraphWork, Condition, ConditionalWork
from drv.simulator.work.copy import CopyWork
from drv.simulator.work.events import EventRecordWork, EventWaitWork
from drv.simulator.work.fill import FillWork
from drv.simulator.work.host import HostWork
from drv.simulator.work.kernel import NO_ATTRIBUTES, KernelWork
from drv.simulator.work.memory_operations import MemoryOperationsWork
from drv.simulator.work.simulated_library import LibraryWork
from drv.simulator.work.work import EmptyWork

from .attributes import attribute_bytes, attribute_value, like, node_attribute, with_attributes
from .edges import edges_from
from .node_parameters import (
    member_of,
    node_structure,
    write_allocation,
    write_bodies,
    write_copy,
    write_fill,
    write_host,
    write_kernel,
    write_memory_operations,
)
from .structure import child_work

if TYPE_CHECKING:
    from drv.simulator.driver_state import Context
    from drv.simulator.graphs.graph import Edge, Graph, Node
    from drv.simulator.work.work import Work

_TYPES = cuda.CUgraphNodeType
_ASSIGN_DEFAULT = int(cuda.CU_GRAPH_COND_ASSIGN_DEFAULT)
_MOVE = int(cuda.CUgraphChildGraphNodeOwnership.CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
_UNSUPPORTED = (_TYPES.CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, _TYPES.CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT)


class NodeCalls(LibraryCalls, CopyCalls, FillCalls, MemoryOperationCalls, GraphBook):
    """``cuGraphAdd*Node``, ``cuGraph*NodeGetParams``, ``cuGraph*NodeSetParams``."""

    # What structures describe

    def kernel_work(self, parameters: Any) -> KernelWork:
        """The launch that the parameters of a kernel node describe."""
        if parameters is None:
            raise invalid_value()
        function = parameters.func
        if integer(function):
            loaded = self.launchable(function)
        elif integer(parameters.kern):
            context = self.context(parameters.ctx) if integer(parameters.ctx) else self.current()
            loaded = self.function_in(self.kernel(parameters.kern), self.usable(context))
        else:
            raise invalid_value()
        grid = (parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ)
        block = (parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ)
        shared = parameters.sharedMemBytes
        check_dimensions(loaded, grid, block, shared)
        values = gather(loaded, parameters.kernelParams, parameters.extra)
        return with_attributes(KernelWork(loaded, grid, block, shared, values), NO_ATTRIBUTES)

    def _fill_work(self, context: Context, parameters: Any) -> FillWork:
        fill = parameters
        if fill is None or fill.elementSize not in (1, 2, 4) or fill.value >> 8 * fill.elementSize:
            raise invalid_value()
        address, height = integer(fill.dst), fill.height
        work = self.fill_work(context, address, fill.value, fill.elementSize, fill.width, height, fill.pitch)
        if work is None:
            raise invalid_value()
        return work

    def _host_work(self, context: Context, parameters: Any) -> HostWork:
        if parameters is None or not integer(parameters.fn):
            raise invalid_value()
        return HostWork(context, integer(parameters.fn), integer(parameters.userData))

    def _operations_work(self, parameters: Any) -> MemoryOperationsWork:
        batch = parameters
        if batch is None or batch.flags:
            raise invalid_value()
        context = self.usable(self.context(batch.ctx)) if integer(batch.ctx) else self.current()
        return self.memory_operations_work(context, self.memory_operations(batch.count, batch.paramArray))

    def _node_context(self, ctx: Any) -> Context:
        """The context that a node is to run in; the current one where none is named."""
        return self.usable(self.context(ctx)) if integer(ctx) else self.current()

    def _any_context(self) -> Context:
        """A context for a node for which it makes no difference."""
        stack = self.thread.contexts
        if stack:
            return self.usable(stack[-1])
        for context in self.contexts.values():
            if context.active and context.lost is None:
                return context
        raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)

    # Adding

    def _added(self, graph: Graph, work: Work, dependencies: dict[Node, Edge]) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUgraphNode(self.new_node(graph, work, dependencies).handle)

    def _graph_and_dependencies(
        self, hGraph: Any, dependencies: Any, count: Any, data: Any = None
    ) -> tuple[Graph, dict[Node, Edge]]:
        graph = self.graph(hGraph)
        return graph, edges_from(self, graph, dependencies, data, count)

    @call(1)
    def cuGraphAddKernelNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, nodeParams: Any
    ) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        parameters = structure(nodeParams, cuda.CUDA_KERNEL_NODE_PARAMS)
        return self._added(graph, self.kernel_work(parameters), earlier)

    @call(1)
    def cuGraphAddMemcpyNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, copyParams: Any, ctx: Any
    ) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        return self._added(graph, self.copy_work(self._node_context(ctx), copyParams), earlier)

    @call(1)
    def cuGraphAddMemsetNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, memsetParams: Any, ctx: Any
    ) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        parameters = structure(memsetParams, cuda.CUDA_MEMSET_NODE_PARAMS)
        return self._added(graph, self._fill_work(self._node_context(ctx), parameters), earlier)

    @call(1)
    def cuGraphAddHostNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, nodeParams: Any
    ) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        parameters = structure(nodeParams, cuda.CUDA_HOST_NODE_PARAMS)
        return self._added(graph, self._host_work(self._any_context(), parameters), earlier)

    @call(1)
    def cuGraphAddChildGraphNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, childGraph: Any
    ) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        child = self.graph(childGraph)
        if child.outermost() is graph.outermost():
            raise invalid_value()
        return self._added(graph, child_work(self, self._any_context(), child), earlier)

    @call(1)
    def cuGraphAddEmptyNode(self, hGraph: Any, dependencies: Any, numDependencies: Any) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        return self._added(graph, EmptyWork(self._any_context()), earlier)

    @call(1)
    def cuGraphAddEventRecordNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, event: Any
    ) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        known = self.event(event)
        return self._added(graph, EventRecordWork(known.context, known), earlier)

    @call(1)
    def cuGraphAddEventWaitNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, event: Any
    ) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        return self._added(graph, EventWaitWork(self._any_context(), self.event(event)), earlier)

    @call(1)
    def cuGraphAddBatchMemOpNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, nodeParams: Any
    ) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        parameters = structure(nodeParams, cuda.CUDA_BATCH_MEM_OP_NODE_PARAMS)
        return self._added(graph, self._operations_work(parameters), earlier)

    @call(1)
    def cuGraphAddExternalSemaphoresSignalNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, nodeParams: Any
    ) -> tuple[Any, ...]:
        self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)

    @call(1)
    def cuGraphAddExternalSemaphoresWaitNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, nodeParams: Any
    ) -> tuple[Any, ...]:
        self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)

    # Memory

    @call(1)
    def cuGraphAddMemAllocNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, nodeParams: Any
    ) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        parameters = structure(nodeParams, cuda.CUDA_MEM_ALLOC_NODE_PARAMS)
        node = self._add_allocation(graph, parameters, earlier)
        return SUCCESS, cuda.CUgraphNode(node.handle)

    def _add_allocation(self, graph: Graph, parameters: Any, dependencies: dict[Node, Edge]) -> Node:
        properties = parameters.poolProps
        handle_types = cuda.CUmemAllocationHandleType
        if (
            properties.allocType != cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
            or properties.handleTypes != handle_types.CU_MEM_HANDLE_TYPE_NONE
            or properties.location.type != cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        ):
            raise invalid_value()
        device = self.device(properties.location.id)
        context = self.primary.get(device.ordinal)
        current = self.thread.contexts[-1:]
        if current and current[0].device is device:
            context = current[0]
        if context is None:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
        access = list(parameters.accessDescs[: parameters.accessDescCount])
        self._check_granted(device.index, access)
        if graph.holder is not None:
            raise invalid_value()
        work = self.allocation_work(graph, self.usable(context), parameters.bytesize, properties, access)
        parameters.dptr = cuda.CUdeviceptr(work.graph_allocation.allocation.base)
        return self.new_node(graph, work, dependencies)

    def _check_granted(self, owner: int, access: list[Any]) -> None:
        for each in access:
            other = self.device(each.location.id)
            if other.index != owner and (other.index, owner) not in self.options.peers:
                raise CallError(CUresult.CUDA_ERROR_INVALID_DEVICE)

    @call(1)
    def cuGraphMemAllocNodeGetParams(self, hNode: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, AllocationWork)
        result = cuda.CUDA_MEM_ALLOC_NODE_PARAMS()
        write_allocation(node, result)
        return SUCCESS, result

    @call(1)
    def cuGraphAddMemFreeNode(
        self, hGraph: Any, dependencies: Any, numDependencies: Any, dptr: Any
    ) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, numDependencies)
        return self._added(graph, self.free_work(graph, integer(dptr)), earlier)

    @call(1)
    def cuGraphMemFreeNodeGetParams(self, hNode: Any) -> tuple[Any, ...]:
        work: Any = self._node_of(hNode, FreeWork).work
        return SUCCESS, cuda.CUdeviceptr(work.graph_allocation.allocation.base)

    # Conditions

    @call(1)
    def cuGraphConditionalHandleCreate(
        self, hGraph: Any, ctx: Any, defaultLaunchValue: Any, flags: Any
    ) -> tuple[Any, ...]:
        graph, context = self.graph(hGraph), self._node_context(ctx)
        default, bits = unsigned(defaultLaunchValue, 32), unsigned(flags, 32)
        if bits & ~_ASSIGN_DEFAULT:
            raise invalid_value()
        condition = Condition(self.new_handle(), graph, context, default if bits else None, default)
        self.conditions[condition.handle] = condition
        graph.handles.append(condition)
        return SUCCESS, cuda.CUgraphConditionalHandle(condition.handle)

    def _conditional_work(self, graph: Graph, parameters: Any) -> ConditionalWork:
        condition = self.conditions.get(integer(parameters.handle))
        context = self._node_context(parameters.ctx)
        if condition is None or condition.node is not None or condition.context is not context:
            raise invalid_value()
        if condition.graph.outermost() is not graph.outermost():
            raise invalid_value()
        try:
            conditional_type = int(parameters.type)
        except ValueError:
            raise invalid_value() from None
        size = parameters.size
        if not {WHILE: size == 1, IF: size in (1, 2), SWITCH: size > 0}.get(conditional_type, False):
            raise invalid_value()
        bodies = tuple(self.new_graph(is_body=True) for _ in range(size))
        work = ConditionalWork(context, condition, conditional_type, bodies)
        write_bodies(work, parameters)
        return work

    # Nodes of any type

    @call(1)
    def cuGraphAddNode(
        self,
        hGraph: Any,
        dependencies: Any,
        dependencyData: Any,
        numDependencies: Any,
        nodeParams: Any,
    ) -> tuple[Any, ...]:
        return self._add_any(hGraph, dependencies, dependencyData, numDependencies, nodeParams)

    @call(1)
    def cuGraphAddNode_v3(
        self,
        hGraph: Any,
        dependencies: Any,
        dependencyData: Any,
        numDependencies: Any,
        nodeParams: Any,
    ) -> tuple[Any, ...]:
        return self._add_any(hGraph, dependencies, dependencyData, numDependencies, nodeParams)

    def _add_any(
        self, hGraph: Any, dependencies: Any, data: Any, count: Any, nodeParams: Any
    ) -> tuple[Any, ...]:
        graph, earlier = self._graph_and_dependencies(hGraph, dependencies, count, data)
        node_type, parameters = member_of(nodeParams)
        if node_type == _TYPES.CU_GRAPH_NODE_TYPE_MEM_ALLOC:
            return SUCCESS, cuda.CUgraphNode(self._add_allocation(graph, parameters, earlier).handle)
        if node_type == _TYPES.CU_GRAPH_NODE_TYPE_MEM_FREE:
            work: Work = self.free_work(graph, integer(parameters.dptr))
        elif node_type == _TYPES.CU_GRAPH_NODE_TYPE_CONDITIONAL:
            work = self._conditional_work(graph, parameters)
        elif node_type == _TYPES.CU_GRAPH_NODE_TYPE_GRAPH:
            work = self._child_work(graph, parameters)
        else:
            work = self._described_work(node_type, parameters)
        node = self.new_node(graph, work, earlier)
        if isinstance(work, ConditionalWork):
            work.condition.node = node
        return SUCCESS, cuda.CUgraphNode(node.handle)

    def _child_work(self, graph: Graph, parameters: Any) -> ChildGraphWork:
        child = self.graph(parameters.graph)
        if child.outermost() is graph.outermost():
            raise invalid_value()
        if int(parameters.ownership) != _MOVE:
            return child_work(self, self._any_context(), child)
        if child.holder is not None or child.executables or child.capture is not None:
            raise invalid_value()
        return ChildGraphWork(self._any_context(), child)

    def _described_work(self, node_type: Any, parameters: Any) -> Work:
        """The work that the member of ``CUgraphNodeParams`` for a type of nodes describes."""
        if node_type in _UNSUPPORTED:
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        if node_type == _TYPES.CU_GRAPH_NODE_TYPE_KERNEL:
            work = self.kernel_work(parameters)
            if integer(parameters.ctx) and self.context(parameters.ctx) is not work.context:
                raise CallError(CUresult.CUDA_ERROR_INVALID_CONTEXT)
            return work
        if node_type == _TYPES.CU_GRAPH_NODE_TYPE_MEMCPY:
            if parameters.flags:
                raise invalid_value()
            return self.copy_work(self._node_context(parameters.copyCtx), parameters.copyParams)
        if node_type == _TYPES.CU_GRAPH_NODE_TYPE_MEMSET:
            return self._fill_work(self._node_context(parameters.ctx), parameters)
        if node_type == _TYPES.CU_GRAPH_NODE_TYPE_HOST:
            context = self._node_context(parameters.ctx) if integer(parameters.ctx) else self._any_context()
            return self._host_work(context, parameters)
        if node_type == _TYPES.CU_GRAPH_NODE_TYPE_EMPTY:
            return EmptyWork(self._any_context())
        if node_type == _TYPES.CU_GRAPH_NODE_TYPE_EVENT_RECORD:
            event = self.event(parameters.event)
            return EventRecordWork(event.context, event)
        if node_type == _TYPES.CU_GRAPH_NODE_TYPE_WAIT_EVENT:
            return EventWaitWork(self._any_context(), self.event(parameters.event))
        if node_type == _TYPES.CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
            return self._operations_work(parameters)
        raise invalid_value()

    # Asking and changing

    def _node_of(self, hNode: Any, *sorts: type) -> Node:
        """The node that a handle names, whose work is one of ``sorts``."""
        node = self.node(hNode)
        if not isinstance(node.work, sorts):
            raise invalid_value()
        return node

    @call(1)
    def cuGraphNodeGetParams(self, hNode: Any) -> tuple[Any, ...]:
        return SUCCESS, node_structure(self.node(hNode))

    @call()
    def cuGraphNodeSetParams(self, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        return self._set_any(hNode, nodeParams)

    @call()
    def cuGraphNodeSetParams_v2(self, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        return self._set_any(hNode, nodeParams)

    def _set_any(self, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        node = self.node(hNode)
        node_type, parameters = member_of(nodeParams)
        if node_type != node.work.node_type:
            raise invalid_value()
        if node.work.graphs or isinstance(node.work, (AllocationWork, FreeWork)):
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        self._change(node, self._described_work(node_type, parameters))
        return OK

    def _change(self, node: Node, work: Work) -> None:
        before = node.work
        if isinstance(before, KernelWork) and isinstance(work, KernelWork):
            work = like(before, work)
        node.work = work
        node.exported = None

    @call(1)
    def cuGraphKernelNodeGetParams(self, hNode: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, KernelWork, LibraryWork)
        result = cuda.CUDA_KERNEL_NODE_PARAMS()
        write_kernel(node, result)
        return SUCCESS, result

    @call()
    def cuGraphKernelNodeSetParams(self, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, KernelWork, LibraryWork)
        parameters = structure(nodeParams, cuda.CUDA_KERNEL_NODE_PARAMS)
        self._change(node, self.kernel_work(parameters))
        return OK

    @call(1)
    def cuGraphMemcpyNodeGetParams(self, hNode: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, CopyWork)
        result = cuda.CUDA_MEMCPY3D()
        write_copy(node, result)
        return SUCCESS, result

    @call()
    def cuGraphMemcpyNodeSetParams(self, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, CopyWork)
        self._change(node, self.copy_work(node.work.context, nodeParams))
        return OK

    @call(1)
    def cuGraphMemsetNodeGetParams(self, hNode: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, FillWork)
        result = cuda.CUDA_MEMSET_NODE_PARAMS()
        write_fill(node, result)
        return SUCCESS, result

    @call()
    def cuGraphMemsetNodeSetParams(self, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, FillWork)
        parameters = structure(nodeParams, cuda.CUDA_MEMSET_NODE_PARAMS)
        self._change(node, self._fill_work(node.work.context, parameters))
        return OK

    @call(1)
    def cuGraphHostNodeGetParams(self, hNode: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, HostWork)
        result = cuda.CUDA_HOST_NODE_PARAMS()
        write_host(node, result)
        return SUCCESS, result

    @call()
    def cuGraphHostNodeSetParams(self, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, HostWork)
        parameters = structure(nodeParams, cuda.CUDA_HOST_NODE_PARAMS)
        self._change(node, self._host_work(node.work.context, parameters))
        return OK

    @call(1)
    def cuGraphChildGraphNodeGetGraph(self, hNode: Any) -> tuple[Any, ...]:
        work = self._node_of(hNode, ChildGraphWork).work
        return SUCCESS, cuda.CUgraph(work.graphs[0].handle)

    @call(1)
    def cuGraphEventRecordNodeGetEvent(self, hNode: Any) -> tuple[Any, ...]:
        work: Any = self._node_of(hNode, EventRecordWork).work
        return SUCCESS, cuda.CUevent(work.event.handle)

    @call()
    def cuGraphEventRecordNodeSetEvent(self, hNode: Any, event: Any) -> tuple[Any, ...]:
        node, known = self._node_of(hNode, EventRecordWork), self.event(event)
        node.work = EventRecordWork(known.context, known)
        return OK

    @call(1)
    def cuGraphEventWaitNodeGetEvent(self, hNode: Any) -> tuple[Any, ...]:
        work: Any = self._node_of(hNode, EventWaitWork).work
        return SUCCESS, cuda.CUevent(work.event.handle)

    @call()
    def cuGraphEventWaitNodeSetEvent(self, hNode: Any, event: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, EventWaitWork)
        node.work = EventWaitWork(node.work.context, self.event(event))
        return OK

    @call(1)
    def cuGraphBatchMemOpNodeGetParams(self, hNode: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, MemoryOperationsWork)
        result = cuda.CUDA_BATCH_MEM_OP_NODE_PARAMS()
        write_memory_operations(node, result)
        return SUCCESS, result

    @call()
    def cuGraphBatchMemOpNodeSetParams(self, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        node = self._node_of(hNode, MemoryOperationsWork)
        parameters = structure(nodeParams, cuda.CUDA_BATCH_MEM_OP_NODE_PARAMS)
        self._change(node, self._operations_work(parameters))
        return OK

    @call(1)
    def cuGraphExternalSemaphoresSignalNodeGetParams(self, hNode: Any) -> tuple[Any, ...]:
        raise self._no_semaphores(hNode)

    @call()
    def cuGraphExternalSemaphoresSignalNodeSetParams(self, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        raise self._no_semaphores(hNode)

    @call(1)
    def cuGraphExternalSemaphoresWaitNodeGetParams(self, hNode: Any) -> tuple[Any, ...]:
        raise self._no_semaphores(hNode)

    @call()
    def cuGraphExternalSemaphoresWaitNodeSetParams(self, hNode: Any, nodeParams: Any) -> tuple[Any, ...]:
        raise self._no_semaphores(hNode)

    def _no_semaphores(self, hNode: Any) -> CallError:
        """No node is about external semaphores."""
        self.node(hNode)
        return invalid_value()

    # Attributes of kernel nodes

    @call(1)
    def cuGraphKernelNodeGetAttribute(self, hNode: Any, attr: Any) -> tuple[Any, ...]:
        work, attribute = _kernel(self._kernel_node(hNode)), node_attribute(attr)
        return SUCCESS, attribute_value(work, attribute)

    @call()
    def cuGraphKernelNodeSetAttribute(self, hNode: Any, attr: Any, value: Any) -> tuple[Any, ...]:
        node, attribute = self._kernel_node(hNode), node_attribute(attr)
        contents = attribute_bytes(structure(value, cuda.CUkernelNodeAttrValue))
        work = _kernel(node)
        node.work = with_attributes(work, {**work.attributes, attribute: contents})
        return OK

    @call()
    def cuGraphKernelNodeCopyAttributes(self, dst: Any, src: Any) -> tuple[Any, ...]:
        target = self._kernel_node(dst)
        to, of = _kernel(target), _kernel(self._kernel_node(src))
        if to.context is not of.context:
            raise invalid_value()
        target.work = with_attributes(to, of.attributes)
        return OK

    def _kernel_node(self, hNode: Any) -> Node:
        if integer(hNode) == 0:
            raise invalid_handle()
        return self._node_of(hNode, KernelWork)


def _kernel(node: Node) -> KernelWork:
    assert isinstance(node.work, KernelWork)
    return node.work
