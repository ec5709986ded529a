"""The file: pictures' data as JSON, the plotting library, style and code, all in one page.

Memory over time is drawn as :mod:`tensor.profiler.memory_picture` does it.
"""

from __future__ import annotations

import html
import json
from importlib import resources
from typing import TYPE_CHECKING, Any

from tensor.profiler.memory_picture import drawing_code, plotting_library

from .pictures import pictures

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tensor.profiler import profile


def write_report(path: Path, run: profile, name: str, content: Mapping[str, Any]) -> None:
    """Write the report of ``run`` to ``path``.

    Parameters
    ----------
    path : Path
        The file.
    run : profile
        The profile, which has ended.
    name : str
        What was run.
    content : mapping
        What ``--json`` writes.

    Raises
    ------
    LibraryNotInstalledError
        If plotly is not installed.
    OSError
        If the file cannot be written.
    """
    data = {"name": name, **content, **pictures(run)}
    # No text in the data may end the element that it stands in.
    text = json.dumps(data, default=str).replace("</", "<\\/")
    page = _part("page.html")
    for mark, value in (
        ("@title@", html.escape(f"Profile of {name}")),
        ("@style@", _part("page.css")),
        ("@plotly@", plotting_library()),
        ("@data@", text),
        ("@code@", drawing_code() + _part("page.js")),
    ):
        page = page.replace(mark, value)
    path.write_text(page, encoding="utf-8")


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
