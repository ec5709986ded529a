"""Sequence diagrams: participants as columns, and messages between them from top to bottom."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from .svg import Drawing, text_width, wrapped

_LINE = 16
_ROW = 14


@dataclass(slots=True)
class Message:
    """An arrow from one participant to another or to itself; an answer is dashed."""

    start: str
    end: str
    text: str
    answer: bool = False


@dataclass(slots=True)
class Note:
    """A text across the columns of the participants."""

    over: list[str]
    text: str


@dataclass(slots=True)
class Loop:
    """What follows, up to the end of the loop, happens repeatedly; no text for the end."""

    text: str | None


Step = Message | Note | Loop


def draw(participants: dict[str, str], steps: list[Step], title: str, *, width: float = 720) -> Drawing:
    """The diagram, ``width`` pixels wide; ``participants`` maps their names to what is written above the columns."""
    heads = {name: wrapped(label, 130) for name, label in participants.items()}
    columns, width = _columns(heads, steps, width)
    spacing = width / len(columns)
    head = _LINE * max(map(len, heads.values())) + 14
    drawing = Drawing(width, head, title)
    rows = [_lines(step, columns, spacing, width) for step in steps]
    bottom = head + 16 + sum(_height(step, lines) for step, lines in zip(steps, rows, strict=True))
    for x in columns.values():
        drawing.line([(x, head), (x, bottom)], colour="rule")
    y, loops = head + 16.0, []
    for step, lines in zip(steps, rows, strict=True):
        y += _height(step, lines)
        if isinstance(step, Message):
            _draw_message(drawing, step, lines, columns, y)
        elif isinstance(step, Note):
            _draw_note(drawing, step, lines, columns, spacing, y)
        elif step.text is not None:
            loops.append((y - _height(step, lines) + 6, step.text))
        else:
            top, text = loops.pop()
            drawing.box(4, top, width - 8, y - top - 6, fill="none", line="faint", dashed=True)
            label = f"loop: {text}"
            drawing.box(4, top, text_width(label, 12) + 20, 20, fill="panel", line="faint")
            drawing.text(12, top + 14, label, size=12, colour="faint", anchor="start")
    for name, lines in heads.items():
        wide = _head_width(lines)
        drawing.box(columns[name] - wide / 2, 1, wide, head - 2)
        for number, line in enumerate(lines):
            drawing.text(
                columns[name], head / 2 + _LINE * (number - (len(lines) - 1) / 2) + 4, line, bold=True
            )
    drawing.height = bottom + 2
    return drawing


def _head_width(lines: list[str]) -> float:
    """Of the box above a column, whose text is bold."""
    return 1.08 * max(map(text_width, lines)) + 16


def _columns(heads: dict[str, list[str]], steps: list[Step], width: float) -> tuple[dict[str, float], float]:
    """Where the columns are, and the width of all: more than asked for where the texts between them need it."""
    names = list(heads)
    halves = [_head_width(heads[name]) / 2 for name in names]
    gaps = [left + right + 10 for left, right in itertools.pairwise(halves)]
    for step in steps:
        if not isinstance(step, Message) or step.start == step.end:
            continue
        first, last = sorted((names.index(step.start), names.index(step.end)))
        longest = max(text_width(word, 12) for word in step.text.split())
        need = max(longest, min(text_width(step.text, 12), 110)) + 16
        short = need - sum(gaps[first:last])
        for number in range(first, last):
            gaps[number] += max(short, 0) / (last - first)
    total = halves[0] + sum(gaps) + halves[-1] + 8
    spare = max(width - total, 0) / len(gaps)
    places = [halves[0] + 4]
    for gap in gaps:
        places.append(places[-1] + gap + spare)
    return dict(zip(names, places, strict=True)), max(width, total)


def _lines(step: Step, columns: dict[str, float], spacing: float, width: float) -> list[str]:
    if isinstance(step, Loop):
        return []
    if isinstance(step, Note):
        places = [columns[name] for name in step.over]
        return wrapped(step.text, max(places) - min(places) + spacing * 0.9 - 16, 12)
    start, end = columns[step.start], columns[step.end]
    if start != end:
        return wrapped(step.text, abs(end - start) - 12, 12)
    return wrapped(
        step.text, max(spacing * 1.6, width - start - 60) if start < width / 2 else spacing * 1.3, 12
    )


def _height(step: Step, lines: list[str]) -> float:
    if isinstance(step, Loop):
        return 34 if step.text is not None else 18
    if isinstance(step, Note):
        return _LINE * len(lines) + 22
    own = 14 if step.start == step.end else 0
    return _LINE * len(lines) + _ROW + own


def _draw_message(
    drawing: Drawing, step: Message, lines: list[str], columns: dict[str, float], y: float
) -> None:
    start, end = columns[step.start], columns[step.end]
    if step.start != step.end:
        for number, line in enumerate(reversed(lines)):
            _label(drawing, (start + end) / 2, y - 6 - _LINE * number, line, "middle")
        drawing.line([(start, y), (end, y)], colour="ink", dashed=step.answer, arrow=True)
        return
    # The text stands beside the loop, on the side where there is room.
    wide = max(text_width(line, 12) for line in lines) + 40
    side = 1 if start + wide < drawing.width else -1
    top, turn = y - 22, start + 24 * side
    drawing.line([(start, top), (turn, top), (turn, y - 2), (start, y - 2)], colour="ink", arrow=True)
    middle = (top + y) / 2 + 4 - _LINE * (len(lines) - 1) / 2
    for number, line in enumerate(lines):
        _label(drawing, turn + 8 * side, middle + _LINE * number, line, "start" if side > 0 else "end")


def _label(drawing: Drawing, x: float, y: float, text: str, anchor: str) -> None:
    """Text on ground of its own, which keeps it readable where a column's line passes behind it."""
    width = text_width(text, 12) + 4
    left = {"start": x - 2, "middle": x - width / 2, "end": x - width + 2}[anchor]
    drawing.box(left, y - 11, width, 15, fill="ground", line=None, radius=2)
    drawing.text(x, y, text, size=12, anchor=anchor)


def _draw_note(
    drawing: Drawing, step: Note, lines: list[str], columns: dict[str, float], spacing: float, y: float
) -> None:
    places = [columns[name] for name in step.over]
    left = max(min(places) - spacing * 0.45, 1)
    right = min(max(places) + spacing * 0.45, drawing.width - 1)
    top = y - _LINE * len(lines) - 8
    drawing.box(left, top, right - left, _LINE * len(lines) + 8, line="orange")
    for number, line in enumerate(lines):
        drawing.text((left + right) / 2, top + 15 + _LINE * number, line, size=12)
