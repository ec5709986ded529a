"""A drawing that is put together from shapes and written as SVG, the same bytes for the same shapes.

Colours are names of a palette and follow the theme of the page that the drawing stands in; where there is none, as in a
viewer of files, they follow what the reader's system prefers.
"""

from __future__ import annotations

import itertools
from html import escape

#: For each colour: the variable of the page's theme, and what it is without one, on light and on dark ground.
_PALETTE = {
    "ink": ("--color-foreground-primary", "#1f2328", "#e6edf3"),
    "faint": ("--color-foreground-secondary", "#59636e", "#9da7b1"),
    "rule": ("--color-background-border", "#d1d9e0", "#3d444d"),
    "panel": ("--color-background-secondary", "#f6f8fa", "#1a1c1e"),
    "ground": ("--color-background-primary", "#ffffff", "#131416"),
    "blue": ("--picture-blue", "#3b7dd8", "#4f8fe6"),
    "orange": ("--picture-orange", "#d9822b", "#e39445"),
    "green": ("--picture-green", "#2f9e62", "#3fb374"),
    "red": ("--picture-red", "#d64545", "#ec6a6a"),
    "violet": ("--picture-violet", "#8a63d2", "#a384e0"),
}
_FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
#: Widths of characters in parts of the font's size; of others the usual one. Wide enough for the usual sans-serif fonts.
_WIDTHS = {
    **dict.fromkeys("iljI.,:;'|!", 0.28),
    **dict.fromkeys('ftr()[]{}- /"', 0.37),
    **dict.fromkeys("mwMW@%", 0.86),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ", 0.68),
}


def text_width(text: str, size: float = 13) -> float:
    """About how wide ``text`` is in pixels."""
    return size * sum(_WIDTHS.get(character, 0.56) for character in text)


def wrapped(text: str, width: float, size: float = 13) -> list[str]:
    """``text`` in lines of at most ``width`` pixels, as evenly long as their number allows."""
    lines = _filled(text, width, size)
    narrower = width
    while len(lines) > 1 and narrower > 20:
        tighter = _filled(text, narrower - 8, size)
        if len(tighter) > len(lines):
            break
        lines, narrower = tighter, narrower - 8
    return lines


def _filled(text: str, width: float, size: float) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]


def number(value: float) -> str:
    """A coordinate: one decimal, and none where it is 0."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


class Drawing:
    """Shapes on a canvas of ``width`` x ``height`` pixels; ``title`` is what a screen reader says of it."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._shapes: list[str] = []

    def _add(self, element: str, text: str = "", **attributes: object) -> None:
        written = "".join(
            f' {name.rstrip("_").replace("_", "-")}="{escape(self._value(value))}"'
            for name, value in attributes.items()
            if value is not None
        )
        self._shapes.append(
            f"<{element}{written}>{escape(text, quote=False)}</{element}>"
            if text
            else f"<{element}{written}/>"
        )

    @staticmethod
    def _value(value: object) -> str:
        return number(value) if isinstance(value, (int, float)) else str(value)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = "panel",
        line: str | None = "rule",
        radius: float = 5,
        dashed: bool = False,
        opacity: float | None = None,
    ) -> None:
        """A rectangle with rounded corners."""
        self._add(
            "rect",
            x=x,
            y=y,
            width=width,
            height=height,
            rx=radius,
            class_=f"f-{fill} s-{line or 'none'}",
            stroke_dasharray="4 3" if dashed else None,
            fill_opacity=None if opacity is None else f"{opacity:g}",
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 13,
        colour: str = "ink",
        anchor: str = "middle",
        bold: bool = False,
    ) -> None:
        """A line of text whose baseline is at ``y``; ``anchor`` is start, middle or end."""
        self._add(
            "text",
            text,
            x=x,
            y=y,
            class_=f"f-{colour}",
            font_size=size if size != 13 else None,
            text_anchor=None if anchor == "middle" else anchor,
            font_weight="600" if bold else None,
        )

    def line(
        self,
        points: list[tuple[float, float]],
        *,
        colour: str = "faint",
        width: float = 1.3,
        dashed: bool = False,
        arrow: bool = False,
        curved: bool = False,
    ) -> None:
        """A line through ``points``, with an arrow's head at the last one; ``curved`` leaves them vertically."""
        path = f"M{number(points[0][0])} {number(points[0][1])}"
        for (x, y), (to_x, to_y) in itertools.pairwise(points):
            if curved and x != to_x:
                middle = number((y + to_y) / 2)
                path += f"C{number(x)} {middle} {number(to_x)} {middle} {number(to_x)} {number(to_y)}"
            else:
                path += f"L{number(to_x)} {number(to_y)}"
        self._add(
            "path",
            d=path,
            class_=f"f-none s-{colour}",
            stroke_width=width,
            stroke_dasharray="5 4" if dashed else None,
        )
        if arrow:
            self._head(points[-2], points[-1], colour, vertical=curved)

    def _head(
        self, before: tuple[float, float], tip: tuple[float, float], colour: str, *, vertical: bool
    ) -> None:
        x, y = tip
        across, down = (0.0, y - before[1]) if vertical else (x - before[0], y - before[1])
        length = (across**2 + down**2) ** 0.5 or 1
        across, down = 7 * across / length, 7 * down / length
        corners = [(x, y), (x - across - down / 2, y - down + across / 2)]
        corners.append((x - across + down / 2, y - down - across / 2))
        self.polygon(corners, colour)

    def polygon(
        self,
        corners: list[tuple[float, float]],
        fill: str,
        line: str | None = None,
        opacity: float | None = None,
    ) -> None:
        """A closed area."""
        self._add(
            "polygon",
            points=" ".join(f"{number(x)},{number(y)}" for x, y in corners),
            class_=f"f-{fill} s-{line or 'none'}",
            fill_opacity=None if opacity is None else f"{opacity:g}",
        )

    def dot(self, x: float, y: float, radius: float = 3, *, colour: str = "ink") -> None:
        """A filled circle."""
        self._add("circle", cx=x, cy=y, r=radius, class_=f"f-{colour} s-none")

    def svg(self) -> str:
        """The file's text."""
        width, height = number(self.width), number(self.height)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-size="13" text-anchor="middle">'
        )
        body = [f"<title>{escape(self.title, quote=False)}</title>", _style(), *self._shapes]
        return "\n".join([head, *body, "</svg>", ""])


def _style() -> str:
    def variables(shade: int) -> str:
        return "".join(f"--{name}:var({row[0]},{row[shade]});" for name, row in _PALETTE.items())

    rules = [f".picture{{{variables(1)}font-family:{_FAMILY}}}"]
    rules.append(f"@media (prefers-color-scheme:dark){{.picture{{{variables(2)}}}}}")
    rules += [
        f".picture .f-{name}{{fill:var(--{name})}}.picture .s-{name}{{stroke:var(--{name})}}"
        for name in _PALETTE
    ]
    rules.append(".picture .f-none{fill:none}.picture .s-none{stroke:none}")
    return "<style>" + "\n".join(rules) + "</style>"
