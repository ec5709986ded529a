"""Axes of a drawing: a frame with ticks, and from values to pixels."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from docs.drawing.svg import Drawing


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers from ``low`` to ``high``."""
    step = (high - low) / count
    power = 10.0 ** floor(log10(step))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= step * 0.999)
    return [step * k for k in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


@dataclass(slots=True)
class Axes:
    """A rectangle of a drawing in pixels, and the values that its edges stand for."""

    drawing: Drawing
    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is."""
        (x_low, x_high), (y_low, y_high) = self.x_range, self.y_range
        return (
            self.left + self.width * (x - x_low) / (x_high - x_low),
            self.top + self.height * (1 - (y - y_low) / (y_high - y_low)),
        )

    def frame(
        self,
        x_label: str,
        y_label: str,
        x_text: Callable[[float], str] = "{:g}".format,
        y_text: Callable[[float], str] = "{:g}".format,
    ) -> None:
        """Lines across at round values, with the values and what they are of; none for the height without ``y_label``."""
        drawing, bottom = self.drawing, self.top + self.height
        for value in ticks(*self.y_range) if y_label else ():
            _, y = self.at(self.x_range[0], value)
            drawing.line([(self.left, y), (self.left + self.width, y)], colour="rule", width=1)
            drawing.text(self.left - 8, y + 4, y_text(value), size=11, colour="faint", anchor="end")
        for value in ticks(*self.x_range):
            x, _ = self.at(value, self.y_range[0])
            drawing.line([(x, bottom), (x, bottom + 4)], colour="faint", width=1)
            drawing.text(x, bottom + 17, x_text(value), size=11, colour="faint")
        drawing.text(self.left, self.top - 10, y_label, size=12, colour="faint", anchor="start")
        drawing.text(self.left + self.width, bottom + 33, x_label, size=12, colour="faint", anchor="end")

    def curve(self, points: Sequence[tuple[float, float]], colour: str, *, width: float = 1.6) -> None:
        """A line through points."""
        self.drawing.line([self.at(*each) for each in points], colour=colour, width=width)

    def dots(self, points: Sequence[tuple[float, float]], colour: str, *, radius: float = 3) -> None:
        """A circle at each point."""
        for each in points:
            self.drawing.dot(*self.at(*each), radius, colour=colour)
