"""Dependencies as the calls of graphs take and give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from drv.simulator.driver_call import invalid_value, listed, structure, unsigned
from drv.simulator.graphs.graph import WHOLE, Edge, Graph, Node
from drv.simulator.work.kernel import KernelWork

if TYPE_CHECKING:
    from drv.simulator.graphs.book import GraphBook

_TYPES = [int(each) for each in cuda.CUgraphDependencyType]
_PORTS = (
    cuda.CU_GRAPH_KERNEL_NODE_PORT_DEFAULT,
    cuda.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
    cuda.CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER,
)


def edges_from(book: GraphBook, graph: Graph, dependencies: Any, data: Any, count: Any) -> dict[Node, Edge]:
    """Nodes of ``graph`` that a new one is to depend on, none twice, with what is said of each."""
    number = unsigned(count)
    nodes = [book.node(each) for each in listed(dependencies, number)]
    edges = edge_list(data, number)
    for node, edge in zip(nodes, edges, strict=True):
        if node.graph is not graph:
            raise invalid_value()
        check_port(node, edge)
    result = dict(zip(nodes, edges, strict=True))
    if len(result) < number:
        raise invalid_value()
    return result


def edge_list(data: Any, count: int) -> list[Edge]:
    """What ``count`` structures say of dependencies; without them, nothing."""
    if data is None or not len(data):
        return [WHOLE] * count
    return [edge_of(each) for each in listed(data, count)]


def edge_of(data: Any) -> Edge:
    """What a structure says of a dependency."""
    fields = structure(data, cuda.CUgraphEdgeData)
    if fields.to_port or int(fields.type) not in _TYPES:
        raise invalid_value()
    return Edge(int(fields.from_port), 0, int(fields.type))


def check_port(earlier: Node, edge: Edge) -> None:
    """Refuse what is said of a dependency on ``earlier`` where its sort of node has no such thing."""
    if edge != WHOLE and (not isinstance(earlier.work, KernelWork) or edge.from_port not in _PORTS):
        raise invalid_value()


def edge_structure(edge: Edge) -> cuda.CUgraphEdgeData:
    """``edge`` as programs are given it."""
    result = cuda.CUgraphEdgeData()
    result.from_port, result.to_port, result.type = edge.from_port, edge.to_port, edge.type
    return result
