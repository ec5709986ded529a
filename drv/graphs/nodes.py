"""Nodes of graphs, and the conditions that some of them ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import Graph


class GraphNode:
    """A piece of work in a graph.

    Attributes
    ----------
    graph : Graph
        The graph that it is in.
    handle
        ``CUgraphNode``, as the driver's functions take it.

    Notes
    -----
    Nodes are equal when the driver's nodes are.
    """

    __slots__ = ("graph", "handle")

    def __init__(self, graph: Graph, handle: Any) -> None:
        self.graph = graph
        self.handle = handle

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphNode) and int(self.handle) == int(other.handle)

    def __hash__(self) -> int:
        return hash(int(self.handle))

    def __repr__(self) -> str:
        return f"<drv.GraphNode {self.kind} {int(self.handle):#x}>"

    @property
    def kind(self) -> str:
        """What it does: ``"kernel"``, ``"memcpy"``, ``"memset"``, ``"host"``, ``"graph"``, ``"empty"``, ``"wait_event"``,
        ``"event_record"``, ``"mem_alloc"``, ``"mem_free"``, ``"batch_mem_op"`` or ``"conditional"``.
        """
        node_type = self._ask("cuGraphNodeGetType")
        return str(node_type.name).removeprefix("CU_GRAPH_NODE_TYPE_").lower()

    @property
    def dependencies(self) -> tuple[GraphNode, ...]:
        """Nodes that it comes after, by an edge of the graph.

        Raises
        ------
        InvalidValueError
            If the node's graph was closed.
        """
        return self._neighbours("cuGraphNodeGetDependencies")

    @property
    def dependents(self) -> tuple[GraphNode, ...]:
        """Nodes that come after it, by an edge of the graph.

        Raises
        ------
        InvalidValueError
            If the node's graph was closed.
        """
        return self._neighbours("cuGraphNodeGetDependentNodes")

    def _neighbours(self, call: str) -> tuple[GraphNode, ...]:
        count = self._ask(call)[2]
        handles = self._ask(call, count)[0] if count else ()
        return tuple(GraphNode(self.graph, handle) for handle in handles)

    def _ask(self, call: str, *arguments: Any) -> Any:
        runtime = self.graph.runtime
        return runtime.check(getattr(runtime.driver, call)(self.handle, *arguments), call)


class Condition:
    """A number that kernels set, and by which a node of a graph decides what it runs.

    :meth:`Graph.condition` makes one; a kernel that gets :attr:`handle` as an argument of 64 bits sets it with
    ``cudaGraphSetConditional``.

    Attributes
    ----------
    handle : int
        What a kernel takes it by.
    """

    __slots__ = ("handle",)

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __repr__(self) -> str:
        return f"<drv.Condition {self.handle:#x}>"
