"""A picture of a prediction, as SVG: efficiency against devices, and a step's time by part."""

from __future__ import annotations

from html import escape
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .prediction import Row

_WIDTH, _HEIGHT, _LEFT, _TOP, _INNER, _DEPTH = 760, 320, 54, 62, 296, 190
#: Parts of a step, from below: attribute, label and colour.
_PARTS = (
    ("compute_ms", "compute", "#3b7dd8"),
    ("exposed_ms", "communication alone", "#d9822b"),
    ("idle_ms", "neither", "#8a8f98"),
)
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#59636e}line{stroke:#8884}"
    "@media(prefers-color-scheme:dark){text{fill:#9da7b1}}"
)


def picture(rows: Sequence[Row], title: str) -> str:
    """The text of an SVG file, which follows the theme of the reader's system.

    Parameters
    ----------
    rows : sequence of Row
        What was predicted.
    title : str
        What stands above it.
    """
    return pictures({title: rows})


def pictures(predictions: Mapping[str, Sequence[Row]]) -> str:
    """The text of an SVG file with several predictions, one below the other and with the same scales.

    Parameters
    ----------
    predictions : mapping of str to sequence of Row
        What was predicted, by what stands above it; at least one.
    """
    everything = [each for rows in predictions.values() for each in rows]
    slowest = max(each.step_ms for each in everything)
    # In steps of a quarter. A device of many has less to update than one alone, and may be more efficient.
    quarters = max(4, ceil(4 * max(each.efficiency for each in everything) - 1e-9))
    groups = [
        f'<g transform="translate(0 {_HEIGHT * number})">'
        + "".join([_text(16, 22, title, size=14), *_efficiency(rows, quarters), *_parts(rows, slowest)])
        + "</g>"
        for number, (title, rows) in enumerate(predictions.items())
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT * len(groups)}" role="img">'
        f"<title>{escape('; '.join(predictions))}</title><style>{_STYLE}</style>{''.join(groups)}</svg>\n"
    )


def _efficiency(rows: Sequence[Row], quarters: int) -> list[str]:
    shapes = [_text(_LEFT, _TOP - 14, "efficiency")]
    for quarter in range(quarters + 1):
        y = _TOP + _DEPTH * (1 - quarter / quarters)
        shapes += [
            _line(_LEFT, y, _LEFT + _INNER, y),
            _text(_LEFT - 8, y + 4, f"{25 * quarter} %", anchor="end"),
        ]
    points = [
        (
            _LEFT + _INNER * (number + 0.5) / len(rows),
            _TOP + _DEPTH * (1 - 4 * each.efficiency / quarters),
        )
        for number, each in enumerate(rows)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    shapes.append(f'<polyline points="{path}" fill="none" stroke="#2f9e62" stroke-width="2"/>')
    for (x, y), each in zip(points, rows, strict=True):
        shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#2f9e62"/>')
        shapes.append(_text(x, _TOP + _DEPTH + 18, f"{each.devices:,}", anchor="middle"))
    shapes.append(_text(_LEFT + _INNER, _TOP + _DEPTH + 36, "devices", anchor="end"))
    return shapes


def _parts(rows: Sequence[Row], most: float) -> list[str]:
    left = _LEFT + _INNER + 84
    shapes = [_text(left, _TOP - 14, "milliseconds of a step")]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _TOP + _DEPTH * (1 - share)
        shapes += [
            _line(left, y, left + _INNER, y),
            _text(left - 8, y + 4, f"{most * share:.3g}", anchor="end"),
        ]
    step = _INNER / len(rows)
    for number, each in enumerate(rows):
        x, y = left + step * (number + 0.2), float(_TOP + _DEPTH)
        for attribute, _, colour in _PARTS:
            height = _DEPTH * getattr(each, attribute) / most
            y -= height
            shapes.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{step * 0.6:.1f}" height="{height:.1f}" fill="{colour}"/>'
            )
        shapes.append(_text(x + step * 0.3, _TOP + _DEPTH + 18, f"{each.devices:,}", anchor="middle"))
    for (_, label, colour), x in zip(_PARTS, (left, left + 84, left + 244), strict=True):
        y = _TOP + _DEPTH + 40
        shapes.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        shapes.append(_text(x + 18, y, label))
    return shapes


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="font-size:{size}px">{escape(text)}</text>'


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'
