"""A picture of memory over time, by the line of Python that allocated, as a page that needs no network.

It is drawn by plotly.js, which comes with the Python package plotly (extra ``profile``). That is put into the page
compressed, and unpacked by the browser itself, so that a page has two megabytes and not five.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections import defaultdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drv.errors import LibraryNotInstalledError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .memory import MemoryEvent

#: Points in time, and lines of Python that have a colour of their own.
_MOST_POINTS, _MOST_LINES = 1500, 11


def write_memory_page(path: Path, events: Sequence[MemoryEvent], title: str) -> None:
    """Write the picture of ``events``.

    Raises
    ------
    LibraryNotInstalledError
        If plotly is not installed.
    OSError
        If the file cannot be written.
    """
    begin = events[0].time if events else 0
    # No text in the data may end the element that it stands in.
    data = json.dumps({"memory": memory_series(events, begin)}).replace("</", "<\\/")
    page = _part("memory_picture.html")
    for mark, value in (
        ("@title@", html.escape(title)),
        ("@plotly@", plotting_library()),
        ("@data@", data),
        ("@code@", drawing_code()),
    ):
        page = page.replace(mark, value)
    path.write_text(page, encoding="utf-8")


def memory_series(events: Sequence[MemoryEvent], begin: int) -> dict[str, Any]:
    """Bytes held over time by each line; times in microseconds from ``begin``, nanoseconds of the profile's clock."""
    peaks: dict[str, int] = defaultdict(int)
    held: dict[str, int] = defaultdict(int)
    for each in events:
        held[each.line] += each.size
        peaks[each.line] = max(peaks[each.line], held[each.line])
    lines = sorted(peaks, key=lambda line: -peaks[line])
    shown, others = lines[:_MOST_LINES], set(lines[_MOST_LINES:])
    step = max(1, len(events) // _MOST_POINTS)
    held = defaultdict(int)
    times: list[float] = []
    series: dict[str, list[int]] = {line: [] for line in shown}
    if others:
        series["others"] = []
    peak, peak_index = -1, 0
    total = 0
    points: list[tuple[float, dict[str, int]]] = []
    for number, each in enumerate(events):
        held["others" if each.line in others else each.line] += each.size
        total += each.size
        if total > peak:
            peak, peak_index = total, number
        if number % step == 0 or number == len(events) - 1 or number == peak_index:
            points.append(((each.time - begin) / 1e3, dict(held)))
    for time, values in points[-4 * _MOST_POINTS :]:
        times.append(time)
        for line, sizes in series.items():
            sizes.append(values.get(line, 0))
    return {
        "times": times,
        "series": [{"line": short(line), "bytes": sizes} for line, sizes in series.items()],
        "peak": max(peak, 0),
    }


def short(line: str) -> str:
    """``file:line`` from the current folder on, where it lies in that."""
    file, colon, number = line.rpartition(":")
    path = Path(file)
    if colon and path.is_absolute() and path.is_relative_to(Path.cwd()):
        return f"{path.relative_to(Path.cwd())}:{number}"
    return line


def drawing_code() -> str:
    """What a page draws the picture with: the function ``memory``, and what other pictures have in common with it."""
    return _part("memory_picture.js")


def plotting_library() -> str:
    """plotly.js, compressed, as text.

    Raises
    ------
    LibraryNotInstalledError
        If plotly is not installed.
    """
    try:
        import plotly  # type: ignore[import-untyped]
    except ImportError:
        raise LibraryNotInstalledError(
            "pictures need plotly: pip install 'graphroot[profile]' (.json files and traces do without)"
        ) from None
    source = Path(str(plotly.__file__)).parent / "package_data" / "plotly.min.js"
    return base64.b64encode(gzip.compress(source.read_bytes(), 9)).decode()


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
