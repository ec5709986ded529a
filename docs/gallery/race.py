"""The report of a data race, and the two streams that it is about."""

from __future__ import annotations

import re
from pathlib import Path

import drv
from docs.drawing.svg import Drawing
from examples.find_a_race import harmonic_sum

_ROOT = Path(__file__).resolve().parents[2]


def measure() -> list[str]:
    """The lines of the report of ``examples/find_a_race.py``, with paths from the root."""
    drv.simulator.install(devices=2, check="race")
    try:
        harmonic_sum(1000, wait=False)
    except drv.DataRaceError as race:
        text = str(race)
    else:
        raise RuntimeError("find_a_race.py ran without a race being reported")
    text = text.replace(f"{_ROOT}/", "")
    # Of each stack the line that counts: the last one.
    return re.sub(
        r'(?:    File "[^"]*", line \d+, in .*\n)*(    File "examples[^\n]*)', r"\1", text
    ).splitlines()


def draw(report: list[str]) -> Drawing:
    """Both streams with the forgotten wait, and the report below."""
    lines = [part for line in report for part in _folded(line, 104)]
    drawing = Drawing(
        760, 176 + 17 * len(lines) + 18, "A data race: nothing orders the kernel sum after the kernel fill"
    )
    for y, name in ((54, "producer"), (112, "consumer")):
        drawing.text(16, y + 5, f"stream {name}", anchor="start", colour="faint", size=12)
        drawing.line([(128, y), (740, y)], colour="rule", width=2)
    drawing.box(180, 36, 200, 36, fill="blue", line=None, opacity=0.85)
    drawing.text(238, 59, "fill writes x", colour="ground", bold=True)
    drawing.box(300, 94, 200, 36, fill="orange", line=None, opacity=0.85)
    drawing.text(442, 117, "sum reads x", colour="ground", bold=True)
    drawing.box(300, 26, 80, 114, fill="red", line="red", radius=3, dashed=True, opacity=0.12)
    drawing.text(340, 18, "both at once", colour="red", size=12)
    drawing.line([(380, 72), (540, 92)], colour="green", dashed=True, arrow=True)
    drawing.text(548, 88, "consumer.wait_stream(producer)", colour="green", anchor="start", size=12)
    drawing.text(548, 104, "would order them", colour="green", anchor="start", size=12)
    drawing.box(12, 156, 736, 17 * len(lines) + 22)
    for row, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        colour = "red" if row == 0 else "green" if line.startswith("Record") else "ink"
        drawing.text(26 + 6.6 * indent, 177 + 17 * row, line.strip(), anchor="start", size=12, colour=colour)
    return drawing


def _folded(line: str, width: int) -> list[str]:
    """A line in lines that fit, the following ones further in."""
    indent = " " * (len(line) - len(line.lstrip()))
    result, words = [indent], line.split()
    for word in words:
        if len(result[-1]) + len(word) > width and result[-1].strip():
            result.append(f"{indent}    ")
        result[-1] += word if not result[-1].strip() else f" {word}"
    return result
