"""Flow charts from top to bottom, laid out in layers (Sugiyama's method).

Every node is placed below all that lead to it, nodes of a layer are ordered by the mean place of their neighbours so that
few edges cross, and are then moved towards these neighbours as far as the others leave room.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from .svg import Drawing, text_width, wrapped

_LINE = 17
_PADDING = 12
_GAP = 22
_LAYER_GAP = 40
_SWEEPS = 24
_SETTLING = 300


@dataclass(slots=True, eq=False)
class Node:
    """A box, a decision (a hexagon), or a bend of an edge that passes through a layer."""

    label: str = ""
    decision: bool = False
    bend: bool = False
    lines: list[str] = field(default_factory=list)
    width: float = 0
    height: float = 0
    layer: int = 0
    x: float = 0
    y: float = 0
    above: list[Node] = field(default_factory=list)
    below: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Edge:
    """An arrow between two nodes, with a label or none, and the bends on its way."""

    start: Node
    end: Node
    label: str = ""
    bends: list[Node] = field(default_factory=list)


def draw(nodes: list[Node], edges: list[Edge], title: str, *, width: float = 190) -> Drawing:
    """The chart. Labels are broken into lines of at most ``width`` pixels."""
    for node in nodes:
        node.lines = wrapped(node.label, width)
        node.width = max(map(text_width, node.lines)) + 2 * _PADDING + (24 if node.decision else 0)
        node.height = _LINE * len(node.lines) + _PADDING + (6 if node.decision else 0)
    layers = _layers(nodes, edges)
    _order(layers)
    _place(layers)
    right = max(node.x + node.width / 2 for layer in layers for node in layer)
    left = min(node.x - node.width / 2 for layer in layers for node in layer)
    boxes = [any(not node.bend for node in layer) for layer in layers] + [True]
    top = 1.0
    for number, layer in enumerate(layers):
        height = max(node.height for node in layer)
        for node in layer:
            node.x -= left - 1
            node.y = top + height / 2
            node.height = node.height if not node.bend else height
        top += height + (_LAYER_GAP if boxes[number] and boxes[number + 1] else _LAYER_GAP / 2)
    last = max(node.y + node.height / 2 for node in nodes)
    drawing = Drawing(right - left + 2, last + 2, title)
    for edge in edges:
        _draw_edge(drawing, edge)
    for node in nodes:
        _draw_node(drawing, node)
    return drawing


def _layers(nodes: list[Node], edges: list[Edge]) -> list[list[Node]]:
    for _ in nodes:
        for edge in edges:
            # A label has a layer of its own, where it needs room like a box.
            edge.end.layer = max(edge.end.layer, edge.start.layer + (2 if edge.label else 1))
    layers: list[list[Node]] = [[] for _ in range(max(node.layer for node in nodes) + 1)]
    for node in nodes:
        layers[node.layer].append(node)
    for edge in edges:
        chain = [edge.start]
        for number in range(edge.start.layer + 1, edge.end.layer):
            bend = Node(bend=True, width=12, layer=number)
            if edge.label and number == edge.start.layer + 1:
                bend.lines = wrapped(edge.label, 140, 12)
                bend.width = max(text_width(line, 12) for line in bend.lines) + 8
                bend.height = _LINE * len(bend.lines) + 4
            layers[number].append(bend)
            chain.append(bend)
        edge.bends = chain[1:]
        chain.append(edge.end)
        for upper, lower in itertools.pairwise(chain):
            upper.below.append(lower)
            lower.above.append(upper)
    return layers


def _order(layers: list[list[Node]]) -> None:
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(_SWEEPS):
        downward = sweep % 2 == 0
        for layer in layers if downward else reversed(layers):
            place = {id(node): number for each in layers for number, node in enumerate(each)}

            def mean(node: Node, place: dict[int, int] = place, downward: bool = downward) -> float:
                near = node.above if downward else node.below
                return sum(place[id(each)] for each in near) / len(near) if near else place[id(node)]

            layer.sort(key=mean)
        if (crossings := _crossings(layers)) < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    for layer, order in zip(layers, best, strict=True):
        layer[:] = order


def _crossings(layers: list[list[Node]]) -> int:
    count = 0
    for upper, lower in itertools.pairwise(layers):
        place = {id(node): number for number, node in enumerate(lower)}
        ends = [(i, place[id(end)]) for i, node in enumerate(upper) for end in node.below]
        count += sum(a < c and b > d for a, b in ends for c, d in ends)
    return count


def _place(layers: list[list[Node]]) -> None:
    for layer in layers:
        at = 0.0
        for node in layer:
            node.x = at + node.width / 2
            at += node.width + _GAP
    for sweep in range(_SWEEPS + _SETTLING):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wishes = []
            for node in layer:
                near = (
                    [*node.above, *node.below]
                    if sweep >= _SWEEPS
                    else (node.above if sweep % 2 == 0 else node.below)
                )
                wishes.append(sum(each.x for each in near) / len(near) if near else node.x)
            _settle(layer, wishes)
    # Chains become straight.
    for layer in layers:
        _settle(
            layer,
            [
                sum(each.x for each in node.above) / len(node.above) if node.above else node.x
                for node in layer
            ],
        )


def _settle(layer: list[Node], wishes: list[float]) -> None:
    """Give each node the place it wishes for, and groups that would overlap the mean of theirs."""
    groups: list[tuple[list[int], float]] = []
    offsets = [0.0]
    for left, right in itertools.pairwise(layer):
        offsets.append(offsets[-1] + (left.width + right.width) / 2 + _GAP)
    for number, wish in enumerate(wishes):
        groups.append(([number], wish - offsets[number]))
        while len(groups) > 1 and groups[-2][1] > groups[-1][1]:
            members, base = groups.pop()
            before, other = groups.pop()
            mean = (base * len(members) + other * len(before)) / (len(members) + len(before))
            groups.append(([*before, *members], mean))
    for members, base in groups:
        for number in members:
            layer[number].x = base + offsets[number]


def _draw_edge(drawing: Drawing, edge: Edge) -> None:
    start, end = edge.start, edge.end
    points = [(start.x, start.y + start.height / 2)]
    for bend in edge.bends:
        points += [(bend.x, bend.y - bend.height / 2), (bend.x, bend.y + bend.height / 2)]
    points.append((end.x, end.y - end.height / 2))
    drawing.line(points, arrow=True, curved=True)
    for bend in edge.bends:
        height = _LINE * len(bend.lines)
        if bend.lines:
            drawing.box(
                bend.x - bend.width / 2, bend.y - height / 2, bend.width, height, fill="ground", line=None
            )
        for number, line in enumerate(bend.lines):
            drawing.text(bend.x, bend.y - height / 2 + _LINE * number + 13, line, size=12, colour="faint")


def _draw_node(drawing: Drawing, node: Node) -> None:
    left, top = node.x - node.width / 2, node.y - node.height / 2
    if node.decision:
        right, bottom = left + node.width, top + node.height
        corners = [(left, node.y), (left + 14, top), (right - 14, top)]
        corners += [(right, node.y), (right - 14, bottom), (left + 14, bottom)]
        drawing.polygon(corners, "panel", "blue")
    else:
        drawing.box(left, top, node.width, node.height)
    first = node.y - _LINE * (len(node.lines) - 1) / 2 + 4.5
    for number, line in enumerate(node.lines):
        drawing.text(node.x, first + _LINE * number, line)
