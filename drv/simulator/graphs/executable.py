"""Executable graphs: a graph as it was when it was instantiated, with its work in an order to launch it in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .chains import Chains
from .nested import ChildGraphWork, ConditionalWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drv.simulator.driver_state import Context
    from drv.simulator.scheduler import Operation, Stream
    from drv.simulator.work.work import Work

    from .graph import Edge, Graph, Node
    from .graph_memory import GraphAllocation
    from .nested import Condition


@dataclass(slots=True, eq=False)
class Step:
    """A node of an executable graph. ``origin`` is the graph's node; its work and edges are those of instantiation."""

    origin: Node
    work: Work
    dependencies: list[Step]
    edges: list[Edge]
    #: How many nodes depend on it.
    dependents: int = 0
    enabled: bool = True
    #: Chain that it is in, and the steps of other chains that it comes after. Graphs inside nodes have their own.
    chain: int = 0
    after: list[int] = field(default_factory=list)
    #: What is inside: the child graph, or the bodies.
    inside: tuple[Image, ...] = ()
    plans: tuple[Plan, ...] = ()

    @property
    def note(self) -> str:
        """What reports say of it behind the work's label."""
        return self.origin.note


@dataclass(slots=True, eq=False)
class Image:
    """The nodes of a graph when it was instantiated, in the order in which they were added."""

    steps: list[Step]

    def leaves(self) -> list[Step]:
        """Steps that none depends on."""
        return [step for step in self.steps if not step.dependents]

    def everything(self) -> Iterator[Step]:
        """All steps, those of graphs inside included."""
        images = [self]
        while images:
            for step in images.pop().steps:
                yield step
                images.extend(step.inside)


@dataclass(slots=True, eq=False)
class Plan:
    """Steps in an order in which they can be queued, without child graphs, whose own steps stand for them."""

    steps: list[Step]
    #: The context of each chain, and its last step.
    lanes: list[Context]
    ends: list[int]
    #: An identifier for each chain, which for bodies stands for a stream.
    keys: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Executable:
    """A graph that can be launched."""

    handle: int
    identifier: int
    graph: Graph
    flags: int
    image: Image
    plan: Plan
    by_node: dict[Node, Step]
    conditions: list[Condition]
    #: What its nodes allocate and do not free.
    unfreed: list[GraphAllocation] = field(default_factory=list)
    #: Streams of the chains that the launching stream is not, by number.
    branches: dict[int, Stream] = field(default_factory=dict)
    #: The end of the latest launch.
    last: Operation | None = None
    references: dict[Any, int] = field(default_factory=dict)


def imaged(graph: Graph) -> Image:
    """``graph`` as it is now. Raises :class:`~drv.simulator.graphs.graph.CycleError`."""
    steps: dict[Node, Step] = {}
    for node in graph.ordered():
        dependencies = [steps[earlier] for earlier in node.dependencies]
        steps[node] = Step(node, node.work, dependencies, list(node.dependencies.values()))
        for earlier in dependencies:
            earlier.dependents += 1
        steps[node].inside = tuple(imaged(inner) for inner in node.graphs)
    return Image([steps[node] for node in graph.nodes])


def planned(image: Image, new_key: Callable[[], int]) -> Plan:
    """An order for the steps of ``image`` and of the child graphs in it; plans of bodies are made, too."""
    chains = Chains()
    steps: list[Step] = []
    _append_steps(image, [], steps, chains, new_key)
    ends = [0] * len(chains.lanes)
    for number, step in enumerate(steps):
        ends[step.chain] = number
    lanes: list[Any] = list(chains.lanes)
    return Plan(steps, lanes, ends, [new_key() for _ in lanes])


def _append_steps(
    image: Image, outer: list[int], steps: list[Step], chains: Chains, new_key: Callable[[], int]
) -> list[int]:
    """Add the steps of ``image``, which come after the steps ``outer``; returns those that it ends with."""
    ends: dict[Step, list[int]] = {}
    for step in _ordered(image):
        after = list(dict.fromkeys(number for each in step.dependencies for number in ends[each]))
        if not step.dependencies:
            after = outer
        if isinstance(step.work, ChildGraphWork):
            ends[step] = _append_steps(step.inside[0], after, steps, chains, new_key)
            continue
        if isinstance(step.work, ConditionalWork):
            step.plans = tuple(planned(body, new_key) for body in step.inside)
        step.chain = chains.add(step.work.context, after)
        step.after = [number for number in after if steps[number].chain != step.chain]
        ends[step] = [len(steps)]
        steps.append(step)
    leaves = image.leaves()
    return list(dict.fromkeys(number for leaf in leaves for number in ends[leaf])) if leaves else outer


def _ordered(image: Image) -> list[Step]:
    waiting = {step: len(step.dependencies) for step in image.steps}
    later: dict[Step, list[Step]] = {step: [] for step in image.steps}
    for step in image.steps:
        for earlier in step.dependencies:
            later[earlier].append(step)
    ready = [step for step in reversed(image.steps) if not waiting[step]]
    result = []
    while ready:
        step = ready.pop()
        result.append(step)
        for each in reversed(later[step]):
            waiting[each] -= 1
            if not waiting[each]:
                ready.append(each)
    return result
