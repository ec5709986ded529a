"""Parts of a graph replaced by others: the names of ``torch.fx.subgraph_rewriter``."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from nn.module import Module
from tensor.core.names.absent import hints as _hints

from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["InternalMatch", "Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A place where a pattern was.

    ``anchor`` is the node of the pattern's result; ``nodes_map`` has the node, or the number, for each of the pattern's.
    """

    anchor: Node
    nodes_map: dict[Node, Any]


@dataclass
class ReplacedPatterns:
    """As :class:`Match`, with the nodes that were put there.

    Attributes
    ----------
    anchor, nodes_map
        As of :class:`Match`.
    replacements : list of Node
        The new nodes.
    """

    anchor: Node
    nodes_map: dict[Node, Any]
    replacements: list[Node]


@dataclass
class InternalMatch:
    """A place where a pattern is, as filters see it.

    Attributes
    ----------
    anchors : list of Node
        The pattern's nodes whose values it returns.
    nodes_map : dict
        The node, or the number, for each node of the pattern.
    placeholder_nodes : list
        What stands for the pattern's parameters, in order.
    returning_nodes : list of Node
        What stands for the anchors.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Replace each match of ``pattern`` in the graph of ``gm`` by ``replacement``, and compile its code anew.

    A match does the same with the same literals, whatever nodes are called; its parameters stand for any values.
    What it computes on the way is used nowhere else. Of matches that overlap the first one is replaced.

    Parameters
    ----------
    gm : GraphModule
        Whose graph is changed; modules and attributes that only ``replacement`` has are added to it.
    pattern, replacement : callable or GraphModule
        Functions, which are traced, with the same parameters; ``pattern`` uses all of its own.

    Returns
    -------
    list of Match
        What was replaced, in the order of the graph.

    Raises
    ------
    ValueError
        If the pattern returns a parameter, or something that it has not computed.
    RuntimeError
        If ``replacement`` has other numbers of parameters or results.

    Examples
    --------
    >>> from nn.fx import replace_pattern, symbolic_trace
    >>> traced = symbolic_trace(lambda x, y: tensor.relu(x + y) * 2)
    >>> matches = replace_pattern(traced, lambda x: tensor.relu(x), lambda x: x.sigmoid())
    >>> len(matches), traced(tensor.zeros(1), tensor.zeros(1))
    (1, tensor([1.]))
    """
    replaced = _replace(gm, pattern, replacement, (), ignore_literals=False, callback=None)
    return [Match(each.anchor, each.nodes_map) for each in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: Sequence[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
) -> list[ReplacedPatterns]:
    """As :func:`replace_pattern`, for the matches that all ``match_filters`` accept.

    Parameters
    ----------
    gm, pattern, replacement
        As there; graphs too.
    match_filters : sequence of callables, optional
        Called with the match, the graph and the pattern's graph; False leaves the match as it is.
    ignore_literals : bool
        Whether numbers of the pattern stand for any.
    replacement_callback : callable, optional
        Returns the graph of the replacement for a match, from the arguments of a filter, in place of ``replacement``.

    Returns
    -------
    list of ReplacedPatterns
        What was replaced, in the order of the graph.

    Raises
    ------
    ValueError, RuntimeError
        As :func:`replace_pattern`, and where there is neither a replacement nor a callback.
    """
    if replacement is None and replacement_callback is None:
        raise ValueError("Must provide replacement GraphModule or replacement callback")
    return _replace(
        gm,
        pattern,
        replacement,
        match_filters or (),
        ignore_literals=ignore_literals,
        callback=replacement_callback,
    )


def _graph_of(function: Callable[..., Any] | Graph | GraphModule) -> Graph:
    if isinstance(function, GraphModule):
        return function.graph
    return function if isinstance(function, Graph) else symbolic_trace(function).graph


def _replace(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None,
    filters: Sequence[Callable[[InternalMatch, Graph, Graph], bool]],
    *,
    ignore_literals: bool,
    callback: Callable[[InternalMatch, Graph, Graph], Graph] | None,
) -> list[ReplacedPatterns]:
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    new = None if replacement is None else _graph_of(replacement)
    matches = [
        match
        for match in _matches(graph, pattern_graph, ignore_literals)
        if all(each(match, graph, pattern_graph) for each in filters)
    ]
    results = []
    #: What has taken the place of nodes that other matches begin with.
    moved: dict[Node, Any] = {}
    for match in matches:
        graph_here = new if callback is None else callback(match, graph, pattern_graph)
        assert graph_here is not None
        added = _put(graph, match, graph_here, moved)
        for each in reversed(pattern_graph.nodes):
            if each.op not in ("placeholder", "output"):
                graph.erase_node(match.nodes_map[each])
        results.append(ReplacedPatterns(match.anchors[0], match.nodes_map, added))
    gm.recompile()
    if isinstance(replacement, Module):
        _add_attributes(gm, replacement)
    return results


def _put(graph: Graph, match: InternalMatch, new: Graph, moved: dict[Node, Any]) -> list[Node]:
    """Put a copy of the graph ``new`` where ``match`` is, and have its results used; the new nodes."""
    parameters = [each for each in new.nodes if each.op == "placeholder"]
    if len(parameters) != len(match.placeholder_nodes):
        raise RuntimeError(
            f"the replacement has {len(parameters)} parameters, and the pattern {len(match.placeholder_nodes)}: they must have "
            "the same"
        )
    values = {
        parameter: moved.get(value, value) if isinstance(value, Node) else value
        for parameter, value in zip(parameters, match.placeholder_nodes, strict=True)
    }
    users = {user for each in match.returning_nodes for user in each.users}
    before = {*graph.nodes}
    # Everything that the match used is above its first user, and so is what it used of other matches.
    place = next((each for each in graph.nodes if each in users), None)
    last = max(match.returning_nodes, key=[*graph.nodes].index) if place is None else None
    with graph.inserting_before(place) if last is None else graph.inserting_after(last):
        result = graph.graph_copy(new, values)
    results = [result] if isinstance(result, Node) else [*result]
    if len(results) != len(match.returning_nodes):
        raise RuntimeError(
            f"the replacement has {len(results)} results, and the pattern {len(match.returning_nodes)}: they must have the same"
        )
    for old, each in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(each)
        moved[old] = each
    return [each for each in graph.nodes if each not in before]


def _add_attributes(gm: GraphModule, source: Module) -> None:
    """Give ``gm`` the modules and tensors of ``source`` that its graph names, and it has not."""
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        try:
            _attribute(gm, target)
        except AttributeError:
            value = _attribute(source, target)
            if node.op == "call_module":
                gm.add_submodule(target, copy.deepcopy(value))
            else:
                path, _, name = target.rpartition(".")
                owner = _attribute(gm, path) if path else gm
                setattr(owner, name, copy.deepcopy(value))


def _attribute(owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner


# Where a pattern is


def _matches(graph: Graph, pattern: Graph, ignore_literals: bool) -> Iterator[InternalMatch]:
    """Matches of a pattern, first ones first, none of which share a node."""
    output = pattern.output_node()
    anchors = [*output.all_input_nodes]
    if not anchors or any(each.op == "placeholder" for each in anchors):
        raise ValueError(
            "replace_pattern: the pattern must return what it has computed, and not its parameters or constants"
        )
    parameters = [each for each in pattern.nodes if each.op == "placeholder"]
    unused = [each.name for each in parameters if not each.users]
    if unused:
        raise ValueError(f"replace_pattern: the pattern does not use its parameters {', '.join(unused)}")
    taken: set[Node] = set()
    for mapping in _Matcher(graph, anchors, ignore_literals).all():
        inside = {each for key, each in mapping.items() if key.op != "placeholder" and isinstance(each, Node)}
        returned = [mapping[each] for each in anchors]
        contained = all(user in inside for each in inside - {*returned} for user in each.users)
        if contained and not inside & taken:
            taken |= inside
            yield InternalMatch(anchors, mapping, [mapping[each] for each in parameters], returned)


class _Matcher:
    """Looks for a pattern from its results to its parameters."""

    def __init__(self, graph: Graph, anchors: list[Node], ignore_literals: bool) -> None:
        self._nodes = [*graph.nodes]
        self._anchors = anchors
        self._ignore_literals = ignore_literals

    def all(self) -> Iterator[dict[Node, Any]]:
        """Nodes of the graph for nodes of the pattern, for every way to find all of its results."""
        yield from self._from(0, {})

    def _from(self, number: int, mapping: dict[Node, Any]) -> Iterator[dict[Node, Any]]:
        if number == len(self._anchors):
            yield mapping
            return
        for node in self._nodes:
            further = dict(mapping)
            if node.op != "output" and self._node(self._anchors[number], node, further):
                yield from self._from(number + 1, further)

    def _node(self, pattern: Node, node: Node, mapping: dict[Node, Any]) -> bool:
        if pattern in mapping:
            return mapping[pattern] is node
        if pattern.op != "placeholder":
            if node in mapping.values() or (pattern.op, pattern.target) != (node.op, node.target):
                return False
            if pattern.kwargs.keys() != node.kwargs.keys():
                return False
        mapping[pattern] = node
        if pattern.op == "placeholder":
            return True
        return self._argument(pattern.args, node.args, mapping) and all(
            self._argument(value, node.kwargs[name], mapping) for name, value in pattern.kwargs.items()
        )

    def _argument(self, pattern: Any, value: Any, mapping: dict[Node, Any]) -> bool:
        if isinstance(pattern, Node):
            if isinstance(value, Node):
                return self._node(pattern, value, mapping)
            # A parameter stands for numbers, too.
            if pattern.op != "placeholder":
                return False
            return bool(mapping.setdefault(pattern, value) == value)
        if isinstance(pattern, (list, tuple)):
            return (
                isinstance(value, (list, tuple))
                and len(pattern) == len(value)
                and all(self._argument(a, b, mapping) for a, b in zip(pattern, value, strict=True))
            )
        if isinstance(pattern, dict):
            return (
                isinstance(value, dict)
                and pattern.keys() == value.keys()
                and all(self._argument(pattern[key], value[key], mapping) for key in pattern)
            )
        if isinstance(pattern, slice):
            ends = ("start", "stop", "step")
            return isinstance(value, slice) and all(
                self._argument(getattr(pattern, each), getattr(value, each), mapping) for each in ends
            )
        if isinstance(value, Node):
            return False
        return self._ignore_literals or (type(pattern) is type(value) and pattern == value)


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
