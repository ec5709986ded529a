"""Graphs: nodes and the dependencies between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from drv.python_stack import Frame
    from drv.simulator.work.work import Work


class Edge(NamedTuple):
    """What ``CUgraphEdgeData`` says of a dependency; all zero: the whole node waits for the whole other one."""

    from_port: int = 0
    to_port: int = 0
    type: int = 0


WHOLE = Edge()


class CycleError(Exception):
    """Nodes depend on each other in a circle; ``node`` is one of them."""

    def __init__(self, node: Node) -> None:
        super().__init__("the graph has a cycle")
        self.node = node


@dataclass(slots=True, eq=False)
class Node:
    """A node. ``number`` counts the nodes that its graph has had, from 0; ``stack`` is where it was made."""

    handle: int
    identifier: int
    graph: Graph
    number: int
    work: Work
    stack: tuple[Frame, ...] = ()
    #: In the order in which they were given.
    dependencies: dict[Node, Edge] = field(default_factory=dict)
    dependents: dict[Node, Edge] = field(default_factory=dict)
    #: What programs that ask for its parameters have pointers to.
    exported: Any = None

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """Graphs that are inside the node."""
        return self.work.graphs

    @property
    def note(self) -> str:
        """What reports say of it behind its label."""
        text = f", node {self.number} of graph {self.graph.identifier}"
        if self.stack:
            name, line, _ = self.stack[0]
            text += f" (from {name}:{line})"
        return text


@dataclass(slots=True, eq=False)
class Graph:
    """A graph. ``nodes`` are in the order in which they were added."""

    handle: int
    identifier: int
    nodes: dict[Node, None] = field(default_factory=dict)
    #: The node that it is inside of.
    holder: Node | None = None
    #: Whether it is the body of a conditional node, where not every sort of node may be.
    is_body: bool = False
    #: The capture that adds to it now.
    capture: Any = None
    #: For a clone, its nodes by those that they are copies of.
    copies: dict[Node, Node] = field(default_factory=dict)
    #: Executable graphs that were made of it and are still there.
    executables: int = 0
    #: Conditional handles that belong to it.
    handles: list[Any] = field(default_factory=list)
    #: References to user objects.
    references: dict[Any, int] = field(default_factory=dict)
    _added: int = 0

    def add(
        self,
        handle: int,
        identifier: int,
        work: Work,
        dependencies: Mapping[Node, Edge],
        stack: tuple[Frame, ...] = (),
    ) -> Node:
        """A new node that does ``work`` after ``dependencies``."""
        node = Node(handle, identifier, self, self._added, work, stack)
        self._added += 1
        self.nodes[node] = None
        for earlier, edge in dependencies.items():
            connect(earlier, node, edge)
        for graph in work.graphs:
            graph.holder = node
        return node

    def remove(self, node: Node) -> None:
        """Take ``node`` out, with its edges."""
        for earlier in node.dependencies:
            del earlier.dependents[node]
        for later in node.dependents:
            del later.dependencies[node]
        node.dependencies.clear()
        node.dependents.clear()
        del self.nodes[node]

    def roots(self) -> list[Node]:
        """Nodes that depend on none."""
        return [node for node in self.nodes if not node.dependencies]

    def leaves(self) -> list[Node]:
        """Nodes that none depends on."""
        return [node for node in self.nodes if not node.dependents]

    def edges(self) -> list[tuple[Node, Node, Edge]]:
        """Dependencies: the earlier node, the later one, and what is said of the two."""
        return [(node, later, edge) for node in self.nodes for later, edge in node.dependents.items()]

    def ordered(self) -> list[Node]:
        """All nodes, each after its dependencies, otherwise as they were added. Raises :class:`CycleError`."""
        waiting = {node: len(node.dependencies) for node in self.nodes}
        result: list[Node] = []
        ready = [node for node in reversed(self.nodes) if not waiting[node]]
        while ready:
            node = ready.pop()
            result.append(node)
            for later in reversed(node.dependents):
                waiting[later] -= 1
                if not waiting[later]:
                    ready.append(later)
        if len(result) < len(self.nodes):
            raise CycleError(next(node for node, count in waiting.items() if count))
        return result

    def everything(self) -> Iterator[Node]:
        """All nodes, those of graphs inside nodes included."""
        graphs = [self]
        while graphs:
            for node in graphs.pop().nodes:
                yield node
                graphs.extend(node.graphs)

    def in_body(self) -> bool:
        """Whether it is the body of a conditional node, or inside one."""
        graph: Graph | None = self
        while graph is not None:
            if graph.is_body:
                return True
            graph = None if graph.holder is None else graph.holder.graph
        return False

    def outermost(self) -> Graph:
        """The graph that this one is inside of, however deep, and which is inside of none."""
        graph = self
        while graph.holder is not None:
            graph = graph.holder.graph
        return graph


def connect(earlier: Node, later: Node, edge: Edge = WHOLE) -> None:
    """Let ``later`` depend on ``earlier``."""
    earlier.dependents[later] = edge
    later.dependencies[earlier] = edge


def disconnect(earlier: Node, later: Node) -> None:
    """Let ``later`` no longer depend on ``earlier``."""
    del earlier.dependents[later]
    del later.dependencies[earlier]


def behind(nodes: Iterable[Node]) -> set[Node]:
    """``nodes``, and all that they depend on, however indirectly."""
    result = set(nodes)
    stack = list(result)
    while stack:
        for earlier in stack.pop().dependencies:
            if earlier not in result:
                result.add(earlier)
                stack.append(earlier)
    return result


def copied(original: Graph, into: Graph, new_node: Callable[[Graph, Node], Node]) -> None:
    """Fill ``into`` with copies of the nodes of ``original``; ``new_node`` makes each, without edges."""
    for node in original.nodes:
        into.copies[node] = new_node(into, node)
    for node, copy in into.copies.items():
        for earlier, edge in node.dependencies.items():
            connect(into.copies[earlier], copy, edge)
