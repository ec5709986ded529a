"""Driver calls about what a graph consists of: nodes, edges, copies, its text for Graphviz."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import OK, SUCCESS, CallError, call, invalid_value, listed, text, unsigned
from drv.simulator.graphs.book import GraphBook
from drv.simulator.graphs.dot import dot_text
from drv.simulator.graphs.graph import connect, disconnect
from drv.simulator.graphs.graph_memory import AllocationWork, FreeWork
from drv.simulator.graphs.nested import ChildGraphWork, ConditionalWork

from .edges import check_port, edge_list, edge_structure

if TYPE_CHECKING:
    from drv.simulator.graphs.graph import Edge, Graph, Node

_ALL_DOT_FLAGS = sum(int(flag) for flag in cuda.CUgraphDebugDot_flags)
_MEMORY = (AllocationWork, FreeWork)
#: A graph with nodes that do this is not copied.
_UNIQUE = (*_MEMORY, ConditionalWork)


class StructureCalls(GraphBook):
    """``cuGraphCreate``, ``cuGraphDestroy``, and what asks for nodes and edges and changes them."""

    @call(1)
    def cuGraphCreate(self, flags: Any) -> tuple[Any, ...]:
        if unsigned(flags, 32) != 0:
            raise invalid_value()
        return SUCCESS, cuda.CUgraph(self.new_graph().handle)

    @call()
    def cuGraphDestroy(self, hGraph: Any) -> tuple[Any, ...]:
        graph = self.graph(hGraph)
        if graph.holder is not None or graph.capture is not None:
            raise invalid_value()
        self.destroy_graph(graph)
        return OK

    # Copies

    @call(1)
    def cuGraphClone(self, originalGraph: Any) -> tuple[Any, ...]:
        original = self.graph(originalGraph)
        copyable(original)
        return SUCCESS, cuda.CUgraph(self.cloned(original).handle)

    @call(1)
    def cuGraphNodeFindInClone(self, hOriginalNode: Any, hClonedGraph: Any) -> tuple[Any, ...]:
        node = self.graph(hClonedGraph).copies.get(self.node(hOriginalNode))
        if node is None or node.handle not in self.graph_nodes:
            raise invalid_value()
        return SUCCESS, cuda.CUgraphNode(node.handle)

    # What identifies graphs and nodes

    @call(1)
    def cuGraphGetId(self, hGraph: Any) -> tuple[Any, ...]:
        return SUCCESS, self.graph(hGraph).identifier

    @call(1)
    def cuGraphNodeGetType(self, hNode: Any) -> tuple[Any, ...]:
        return SUCCESS, self.node(hNode).work.node_type

    @call(1)
    def cuGraphNodeGetContainingGraph(self, hNode: Any) -> tuple[Any, ...]:
        return SUCCESS, cuda.CUgraph(self.node(hNode).graph.handle)

    @call(1)
    def cuGraphNodeGetLocalId(self, hNode: Any) -> tuple[Any, ...]:
        return SUCCESS, self.node(hNode).number

    @call(1)
    def cuGraphNodeGetToolsId(self, hNode: Any) -> tuple[Any, ...]:
        return SUCCESS, self.node(hNode).identifier

    # Nodes and edges

    @call(2)
    def cuGraphGetNodes(self, hGraph: Any, numNodes: Any = 0) -> tuple[Any, ...]:
        return SUCCESS, *_nodes(list(self.graph(hGraph).nodes), numNodes)

    @call(2)
    def cuGraphGetRootNodes(self, hGraph: Any, numRootNodes: Any = 0) -> tuple[Any, ...]:
        return SUCCESS, *_nodes(self.graph(hGraph).roots(), numRootNodes)

    @call(4)
    def cuGraphGetEdges(self, hGraph: Any, numEdges: Any = 0) -> tuple[Any, ...]:
        edges = self.graph(hGraph).edges()
        earlier, _ = _nodes([edge[0] for edge in edges], numEdges)
        later, count = _nodes([edge[1] for edge in edges], numEdges)
        return SUCCESS, earlier, later, _edges([edge[2] for edge in edges], len(earlier)), count

    @call(3)
    def cuGraphNodeGetDependencies(self, hNode: Any, numDependencies: Any = 0) -> tuple[Any, ...]:
        return SUCCESS, *_neighbours(self.node(hNode).dependencies, numDependencies)

    @call(3)
    def cuGraphNodeGetDependentNodes(self, hNode: Any, numDependentNodes: Any = 0) -> tuple[Any, ...]:
        return SUCCESS, *_neighbours(self.node(hNode).dependents, numDependentNodes)

    @call()
    def cuGraphAddDependencies(
        self, hGraph: Any, from_: Any, to: Any, edgeData: Any, numDependencies: Any
    ) -> tuple[Any, ...]:
        pairs = self._pairs(hGraph, from_, to, numDependencies)
        edges = edge_list(edgeData, len(pairs))
        if len(set(pairs)) < len(pairs):
            raise invalid_value()
        for (earlier, later), edge in zip(pairs, edges, strict=True):
            if earlier is later or later in earlier.dependents:
                raise invalid_value()
            check_port(earlier, edge)
        for (earlier, later), edge in zip(pairs, edges, strict=True):
            connect(earlier, later, edge)
        return OK

    @call()
    def cuGraphRemoveDependencies(
        self, hGraph: Any, from_: Any, to: Any, edgeData: Any, numDependencies: Any
    ) -> tuple[Any, ...]:
        pairs = self._pairs(hGraph, from_, to, numDependencies)
        edges = edge_list(edgeData, len(pairs))
        _removable(self.graph(hGraph))
        for (earlier, later), edge in zip(pairs, edges, strict=True):
            if earlier.dependents.get(later) != edge:
                raise invalid_value()
        for earlier, later in set(pairs):
            disconnect(earlier, later)
        return OK

    def _pairs(self, hGraph: Any, earlier: Any, later: Any, count: Any) -> list[tuple[Node, Node]]:
        graph, number = self.graph(hGraph), unsigned(count)
        pairs = [
            (self.node(first), self.node(second))
            for first, second in zip(listed(earlier, number), listed(later, number), strict=True)
        ]
        if any(first.graph is not graph or second.graph is not graph for first, second in pairs):
            raise invalid_value()
        return pairs

    @call()
    def cuGraphDestroyNode(self, hNode: Any) -> tuple[Any, ...]:
        node = self.node(hNode)
        _removable(node.graph)
        if node.graph.capture is not None:
            raise invalid_value()
        self.destroy_node(node)
        return OK

    # Text

    @call()
    def cuGraphDebugDotPrint(self, hGraph: Any, path: Any, flags: Any) -> tuple[Any, ...]:
        graph, bits = self.graph(hGraph), unsigned(flags, 32)
        if bits & ~_ALL_DOT_FLAGS:
            raise invalid_value()
        try:
            Path(os.fsdecode(text(path))).write_text(dot_text(graph, bits), encoding="utf-8")
        except OSError:
            raise CallError(CUresult.CUDA_ERROR_OPERATING_SYSTEM) from None
        return OK


def copyable(graph: Graph) -> None:
    """Refuse a graph that cannot be copied."""
    if any(isinstance(node.work, _UNIQUE) for node in graph.everything()):
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)


def child_work(book: GraphBook, context: Any, graph: Graph) -> ChildGraphWork:
    """The work of a node that does a copy of ``graph``."""
    copyable(graph)
    return ChildGraphWork(context, book.cloned(graph))


def _removable(graph: Graph) -> None:
    if any(isinstance(node.work, _MEMORY) for node in graph.nodes):
        raise invalid_value()


def _nodes(nodes: list[Node], room: Any) -> tuple[list[Any], int]:
    """Handles of nodes for which a program has room, and how many they are; without room, how many there are."""
    size = unsigned(room)
    if size == 0:
        return [], len(nodes)
    handles = [node.handle for node in nodes[:size]]
    return [cuda.CUgraphNode(handle) for handle in handles + [0] * (size - len(handles))], len(handles)


def _edges(edges: list[Edge], room: int) -> list[Any]:
    return [edge_structure(edge) for edge in edges[:room]] + [
        cuda.CUgraphEdgeData() for _ in range(room - len(edges))
    ]


def _neighbours(neighbours: dict[Node, Edge], room: Any) -> tuple[list[Any], list[Any], int]:
    nodes, count = _nodes(list(neighbours), room)
    return nodes, _edges(list(neighbours.values()), len(nodes)), count
