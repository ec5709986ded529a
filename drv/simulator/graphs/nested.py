"""Work that is made of graphs: child graphs, and nodes whose bodies run on a condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuda.bindings.driver import CUgraphConditionalNodeType, CUgraphNodeType

from drv.simulator.work.copy import CopyWork
from drv.simulator.work.fill import FillWork
from drv.simulator.work.kernel import KernelWork
from drv.simulator.work.simulated_library import LibraryWork
from drv.simulator.work.work import EmptyWork, Work

if TYPE_CHECKING:
    from drv.simulator.driver_state import Context

    from .graph import Graph

IF = int(CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF)
WHILE = int(CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE)
SWITCH = int(CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_SWITCH)
_NAMES = {IF: "if", WHILE: "while", SWITCH: "switch"}


class ChildGraphWork(Work):
    """All that a graph does. Nodes that depend on it wait for all of that."""

    __slots__ = ("graph",)
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_GRAPH

    def __init__(self, context: Context, graph: Graph) -> None:
        super().__init__(context, "child graph")
        self.graph = graph

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The child graph."""
        return (self.graph,)


@dataclass(slots=True, eq=False)
class Condition:
    """A conditional handle and the value that kernels have given it. ``default`` holds at each launch, if not None."""

    handle: int
    graph: Graph
    context: Context
    default: int | None
    value: int = 0
    #: The node that asks for it.
    node: Any = None


class ConditionalWork(Work):
    """Bodies that run as a condition says."""

    __slots__ = ("bodies", "condition", "conditional_type", "table")
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL

    def __init__(
        self, context: Context, condition: Condition, conditional_type: int, bodies: tuple[Graph, ...]
    ) -> None:
        super().__init__(context, f"conditional node ({_NAMES[conditional_type]})")
        self.condition = condition
        self.conditional_type = conditional_type
        self.bodies = bodies
        #: C array of the handles of the bodies, as programs are given it.
        self.table: Any = None

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The bodies."""
        return self.bodies

    def chosen(self) -> int | None:
        """Which body runs next, by the value of the condition; None where none does."""
        value = self.condition.value
        if self.conditional_type == SWITCH:
            return value if value < len(self.bodies) else None
        if value:
            return 0
        return 1 if self.conditional_type == IF and len(self.bodies) == 2 else None


#: What may be in the body of a conditional node.
_IN_BODIES = (KernelWork, LibraryWork, EmptyWork, ChildGraphWork, FillWork, CopyWork, ConditionalWork)


def fits_body(work: Work) -> bool:
    """Whether ``work`` and what is inside it may be in the body of a conditional node."""
    inner = (node.work for graph in work.graphs for node in graph.everything())
    return all(isinstance(each, _IN_BODIES) for each in (work, *inner))
