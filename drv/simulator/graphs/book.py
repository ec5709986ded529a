"""Book-keeping of graphs: handles, and what belongs to what."""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import CallError, integer, invalid_value
from drv.simulator.memory.address_space import Allocation, MemoryKind
from drv.simulator.memory.records import MemoryBook

from .graph import Edge, Graph, Node, copied
from .graph_memory import AllocationWork, FreeWork, GraphAllocation, GraphMemory
from .nested import ChildGraphWork, Condition, fits_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.device_properties import SimulatedDevice
    from drv.simulator.driver_state import Context
    from drv.simulator.options import Options
    from drv.simulator.work.work import Work

    from .executable import Executable

_DESTROY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@dataclass(slots=True, eq=False)
class UserObject:
    """What a program's own destructor releases: ``destroy``, a C function, is called with ``pointer`` when neither the program
    nor a graph refers to it.
    """

    handle: int
    pointer: int
    destroy: int
    references: int


class GraphBook(MemoryBook):
    """Finds, makes and destroys graphs, their nodes and what hangs on them."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self.graphs: dict[int, Graph] = {}
        self.graph_nodes: dict[int, Node] = {}
        self.executables: dict[int, Executable] = {}
        self.conditions: dict[int, Condition] = {}
        self.user_objects: dict[int, UserObject] = {}
        #: Allocations of nodes, by address.
        self.graph_allocations: dict[int, GraphAllocation] = {}
        self._graph_bases: list[int] = []
        self._graph_memory: dict[int, GraphMemory] = {}
        self._graphs_created = 0

    # Graphs and nodes

    def graph(self, hGraph: Any) -> Graph:
        """The graph that a handle names."""
        graph = self.graphs.get(integer(hGraph))
        if graph is None:
            raise invalid_value()
        return graph

    def node(self, hNode: Any) -> Node:
        """The node that a handle names."""
        node = self.graph_nodes.get(integer(hNode))
        if node is None:
            raise invalid_value()
        return node

    def executable(self, hGraphExec: Any) -> Executable:
        """The executable graph that a handle names."""
        executable = self.executables.get(integer(hGraphExec))
        if executable is None:
            raise invalid_value()
        return executable

    def new_graph(self, *, is_body: bool = False) -> Graph:
        """An empty graph."""
        self._graphs_created += 1
        graph = Graph(self.new_handle(), self._graphs_created, is_body=is_body)
        self.graphs[graph.handle] = graph
        return graph

    def new_graph_identifier(self) -> int:
        """A number unique among graphs and executable graphs."""
        self._graphs_created += 1
        return self._graphs_created

    def new_node(self, graph: Graph, work: Work, dependencies: Mapping[Node, Edge]) -> Node:
        """A node of ``graph`` that does ``work`` after ``dependencies``."""
        if graph.in_body() and not fits_body(work):
            raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
        stack = self.recorder.take()
        node = graph.add(self.new_handle(), self.new_identifier(), work, dependencies, stack)
        self.graph_nodes[node.handle] = node
        return node

    def cloned(self, original: Graph) -> Graph:
        """A copy of ``original`` and of the graphs inside it."""
        result = self.new_graph()
        copied(original, result, self._cloned_node)
        for user_object, count in original.references.items():
            user_object.references += count
            result.references[user_object] = count
        return result

    def _cloned_node(self, into: Graph, node: Node) -> Node:
        work = node.work
        if isinstance(work, ChildGraphWork):
            work = ChildGraphWork(work.context, self.cloned(work.graph))
        copy = into.add(self.new_handle(), self.new_identifier(), work, {}, node.stack)
        self.graph_nodes[copy.handle] = copy
        return copy

    def destroy_graph(self, graph: Graph) -> None:
        """Forget ``graph``, its nodes and the graphs inside them."""
        for node in list(graph.nodes):
            self.destroy_node(node)
        for condition in graph.handles:
            self.conditions.pop(condition.handle, None)
        self.release_references(graph.references)
        self.graphs.pop(graph.handle, None)

    def destroy_node(self, node: Node) -> None:
        """Take ``node`` out of its graph and forget it."""
        for graph in node.graphs:
            self.destroy_graph(graph)
        if isinstance(node.work, AllocationWork) and not node.work.graph_allocation.live:
            base = node.work.graph_allocation.allocation.base
            del self.graph_allocations[base]
            self._graph_bases.remove(base)
        node.graph.remove(node)
        self.graph_nodes.pop(node.handle, None)

    def set_condition(self, context: Context, handle: int, value: int) -> bool:
        """A kernel in ``context`` gives a condition its value; whether there is one with that handle."""
        condition = self.conditions.get(handle)
        if condition is None or condition.context is not context:
            return False
        condition.value = value
        return True

    # What lives as long as graphs that refer to it

    def user_object(self, handle: Any) -> UserObject:
        """The user object that a handle names."""
        user_object = self.user_objects.get(integer(handle))
        if user_object is None:
            raise invalid_value()
        return user_object

    def release_references(self, references: dict[UserObject, int]) -> None:
        """Let go of references that a graph had."""
        for user_object, count in references.items():
            self.release_user_object(user_object, count)
        references.clear()

    def release_user_object(self, user_object: UserObject, count: int) -> None:
        """Let go of ``count`` references; without the last one the object is destroyed, in a thread of the driver's."""
        user_object.references -= count
        if user_object.references > 0:
            return
        self.user_objects.pop(user_object.handle, None)
        destroy, pointer = _DESTROY(user_object.destroy), user_object.pointer
        self.scheduler.call_on_host(lambda: destroy(pointer))

    # Memory of nodes

    def graph_memory(self, device: SimulatedDevice) -> GraphMemory:
        """What the graphs of ``device`` have allocated."""
        return self._graph_memory.setdefault(device.index, GraphMemory(device))

    def unmap_memory_of(self, graph: Graph) -> None:
        """No launch needs the addresses of ``graph``'s allocations any more."""
        for memory in self._graph_memory.values():
            memory.unmap(graph)

    def new_graph_allocation(self, context: Context, graph: Graph, size: int) -> GraphAllocation:
        """An allocation that a node of ``graph`` is to make: so far nothing but its address."""
        if size <= 0:
            raise invalid_value()
        device = context.device
        base = self.new_address(device, size)
        allocation = Allocation(
            base, size, MemoryKind.DEVICE, self.nothing, device.ordinal, stack=self.recorder.take()
        )
        result = GraphAllocation(
            allocation, context, self.charged(size), self.graph_memory(device), graph.outermost()
        )
        self.graph_allocations[base] = result
        insort(self._graph_bases, base)
        return result

    def allocation_work(
        self, graph: Graph, context: Context, size: int, properties: Any = None, access: Any = ()
    ) -> AllocationWork:
        """The work of a node of ``graph`` that allocates ``size`` bytes on the device of ``context``."""
        if properties is None:
            properties = cuda.CUmemPoolProps()
            properties.allocType = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
            properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            properties.location.id = context.device.ordinal
        return AllocationWork(
            context, self.new_graph_allocation(context, graph, size), properties, list(access)
        )

    def free_work(self, graph: Graph, address: int) -> FreeWork:
        """The work of a node of ``graph`` that frees what a node has allocated at ``address``."""
        allocation = self.graph_allocations.get(address)
        if allocation is None or allocation.freed_in is not None or graph.holder is not None:
            raise invalid_value()
        allocation.freed_in = graph
        return FreeWork(allocation.context, allocation)

    def promised(self, address: int, nbytes: int) -> Allocation | None:
        """Memory that a node of a graph is to allocate."""
        index = bisect_right(self._graph_bases, address) - 1
        if index < 0:
            return None
        allocation = self.graph_allocations[self._graph_bases[index]].allocation
        return allocation if address + nbytes <= allocation.end else None

    # Captures

    def refuse_implicit(self, context: Context) -> None:
        """Refuse work on the legacy default stream of ``context`` that would have to wait for a captured stream."""
        for capture in self.captures:
            if capture.blocks_legacy(context):
                reason = "it would have to wait for work on the legacy default stream"
                raise capture.invalidate(CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, reason)

    def end_captures(self, context: Context) -> None:
        """Let go of captures on streams of ``context``, which is destroyed."""
        for capture in list(self.captures):
            if any(stream.context is context for stream in capture.forks):
                capture.finish()
                if capture.owns_graph:
                    self.destroy_graph(capture.graph)

    def nothing_captured(self, context: Context) -> None:
        """Refuse a call about all of ``context`` while a stream of it is captured."""
        for capture in self.captures:
            if any(stream.context is context for stream in capture.forks):
                raise capture.invalidate(
                    CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the whole context was to be waited for"
                )
