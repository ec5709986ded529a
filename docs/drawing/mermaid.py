"""Diagrams in Mermaid's language, of the forms that the documents use: ``flowchart TD`` and ``sequenceDiagram``.

GitHub draws such blocks by a script in the browser. The site shows the drawing that is made here, and needs no script.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import flowchart, sequence_diagram
from .flowchart import Edge, Node
from .sequence_diagram import Loop, Message, Note

if TYPE_CHECKING:
    from .svg import Drawing

_NODE = re.compile(r'(\w+)(?:\["([^"]*)"\]|\{"([^"]*)"\})?')
_ARROW = re.compile(r'\s*(?:-->|--\s*(?:"([^"]*)"|(.+?))\s*-->)\s*')
_PARTICIPANT = re.compile(r"participant (\w+) as (.+)")
_MESSAGE = re.compile(r"(\w+?)(-{1,2})>>(\w+): (.+)")
_NOTE = re.compile(r"Note over ([\w,]+): (.+)")
_LOOP = re.compile(r"loop (.+)")


def draw(code: str, title: str = "Diagram") -> Drawing:
    """The diagram that ``code`` describes. Raises ValueError for a form that is not known, with its line."""
    first, *lines = [line.strip() for line in code.splitlines() if line.strip()]
    if first == "flowchart TD":
        return _flowchart(lines, title)
    if first == "sequenceDiagram":
        return _sequence(lines, title)
    raise ValueError(f"a diagram begins with 'flowchart TD' or 'sequenceDiagram', not with {first!r}")


def _flowchart(lines: list[str], title: str) -> Drawing:
    nodes: dict[str, Node] = {}
    edges = []
    for line in lines:
        at, before, label = 0, None, ""
        while True:
            match = _NODE.match(line, at)
            if match is None:
                raise ValueError(f"expected a node at {line[at:]!r} of {line!r}")
            name, box, decision = match.groups()
            node = nodes.setdefault(name, Node(label=name))
            if box is not None or decision is not None:
                node.label, node.decision = box or decision, decision is not None
            if before is not None:
                edges.append(Edge(before, node, label))
            at = match.end()
            if at == len(line):
                break
            arrow = _ARROW.match(line, at)
            if arrow is None:
                raise ValueError(f"expected an arrow at {line[at:]!r} of {line!r}")
            before, label, at = node, arrow[1] or arrow[2] or "", arrow.end()
    return flowchart.draw(list(nodes.values()), edges, title)


def _sequence(lines: list[str], title: str) -> Drawing:
    participants: dict[str, str] = {}
    steps: list[sequence_diagram.Step] = []
    for line in lines:
        if match := _PARTICIPANT.fullmatch(line):
            participants[match[1]] = match[2]
        elif match := _MESSAGE.fullmatch(line):
            steps.append(Message(match[1], match[3], match[4], answer=len(match[2]) == 2))
        elif match := _NOTE.fullmatch(line):
            steps.append(Note(match[1].split(","), match[2]))
        elif match := _LOOP.fullmatch(line):
            steps.append(Loop(match[1]))
        elif line == "end":
            steps.append(Loop(None))
        else:
            raise ValueError(f"a form of sequence diagrams that is not known: {line!r}")
    return sequence_diagram.draw(participants, steps, title)
