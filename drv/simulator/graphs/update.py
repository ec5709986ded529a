"""New parameters for all nodes of an executable graph, from a graph of the same shape.

The nodes of the two are paired as CUDA documents: those that no other depends on in their order, and from there those
that paired nodes depend on, in the order of the edges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuda.bindings.driver import CUgraphExecUpdateResult

from drv.simulator.work.copy import CopyWork
from drv.simulator.work.fill import FillWork
from drv.simulator.work.kernel import KernelWork
from drv.simulator.work.memory_operations import MemoryOperationsWork

from .graph_memory import AllocationWork, FreeWork
from .nested import ConditionalWork

if TYPE_CHECKING:
    from drv.simulator.memory.queued_copy import Endpoint
    from drv.simulator.work.work import Work

    from .executable import Image, Step
    from .graph import Graph, Node

Result = CUgraphExecUpdateResult
_TOPOLOGY = Result.CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
_PARAMETERS = Result.CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED


@dataclass(slots=True)
class UpdateError(Exception):
    """Why an executable graph cannot be updated: the node, and the dependency where one does not match."""

    result: CUgraphExecUpdateResult
    node: Node | None = None
    dependency: Node | None = None


def paired(image: Image, graph: Graph) -> dict[Step, Node]:
    """Each step of ``image``, and of what is inside, with the node of ``graph`` that it is like.

    Raises :class:`UpdateError` where the two differ in shape, or nodes in their type.
    """
    if len(image.steps) != len(graph.nodes):
        raise UpdateError(_TOPOLOGY)
    ends, leaves = image.leaves(), graph.leaves()
    if len(leaves) != len(ends):
        raise UpdateError(_TOPOLOGY, leaves[0])
    pairs: dict[Step, Node] = {}
    steps: dict[Node, Step] = {}
    stack = list(reversed(list(zip(ends, leaves, strict=True))))
    while stack:
        step, node = stack.pop()
        if pairs.get(step) is node:
            continue
        if len(step.dependencies) != len(node.dependencies):
            raise UpdateError(_TOPOLOGY, node)
        pairs[step], steps[node] = node, step
        if step.work.node_type != node.work.node_type:
            raise UpdateError(Result.CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, node)
        following = []
        edges = zip(step.dependencies, step.edges, node.dependencies.items(), strict=True)
        for earlier, edge, (dependency, edge_update) in edges:
            known = pairs.get(earlier), steps.get(dependency)
            if edge != edge_update or known not in ((None, None), (dependency, earlier)):
                raise UpdateError(_TOPOLOGY, node, dependency)
            following.append((earlier, dependency))
        stack += reversed(following)
    for step, node in list(pairs.items()):
        if len(step.inside) != len(node.graphs):
            raise UpdateError(_TOPOLOGY, node)
        for inner, inner_graph in zip(step.inside, node.graphs, strict=True):
            pairs |= paired(inner, inner_graph)
    return pairs


def check_change(before: Work, after: Work, node: Node) -> None:
    """Refuse work that cannot take the place of other work in an executable graph. Raises :class:`UpdateError`."""
    if isinstance(before, KernelWork) and isinstance(after, KernelWork):
        if before.context is not after.context:
            raise UpdateError(Result.CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE, node)
        if before.cooperative != after.cooperative:
            raise UpdateError(Result.CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED, node)
    elif isinstance(before, CopyWork) and isinstance(after, CopyWork):
        sides = (before.source, after.source), (before.target, after.target)
        if not all(_same_memory(*side) for side in sides):
            raise UpdateError(_PARAMETERS, node)
    elif isinstance(before, FillWork) and isinstance(after, FillWork):
        if before.rows != after.rows or (before.rows > 1 and _extent(before) != _extent(after)):
            raise UpdateError(_PARAMETERS, node)
    elif isinstance(before, MemoryOperationsWork) and isinstance(after, MemoryOperationsWork):
        if [each.operation_type for each in before.operations] != [
            each.operation_type for each in after.operations
        ]:
            raise UpdateError(_PARAMETERS, node)
    elif isinstance(before, (AllocationWork, FreeWork)) and isinstance(after, (AllocationWork, FreeWork)):
        if before.graph_allocation is not after.graph_allocation:
            raise UpdateError(_PARAMETERS, node)
    elif isinstance(before, ConditionalWork) and isinstance(after, ConditionalWork):
        if before.conditional_type != after.conditional_type:
            raise UpdateError(_PARAMETERS, node)
    elif before.context is not after.context and before.node_type != after.node_type:
        raise UpdateError(_PARAMETERS, node)


def _same_memory(before: Endpoint, after: Endpoint) -> bool:
    first, second = before.allocation, after.allocation
    return (None if first is None else first.device) == (None if second is None else second.device) and (
        before.host,
        before.array is None,
    ) == (after.host, after.array is None)


def _extent(work: FillWork) -> tuple[int, int, int]:
    return work.count, work.item, work.pitch
