"""The file: pictures' data as JSON, the plotting library, style and code, all in one page.

Pictures are drawn by plotly.js, which comes with the Python package plotly (extra ``profile``). It is put into the page
compressed, and unpacked by the browser itself, so that a report has two megabytes and not five.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drv.errors import LibraryNotInstalledError

from .pictures import pictures

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        ("@plotly@", _plotting_library()),
        ("@data@", text),
        ("@code@", _part("page.js")),
    ):
        page = page.replace(mark, value)
    path.write_text(page, encoding="utf-8")


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _plotting_library() -> str:
    """plotly.js, compressed, as text."""
    try:
        import plotly
    except ImportError:
        raise LibraryNotInstalledError(
            "reports need plotly: pip install 'graphroot[profile]' (--json and --trace do without)"
        ) from None
    source = Path(str(plotly.__file__)).parent / "package_data" / "plotly.min.js"
    return base64.b64encode(gzip.compress(source.read_bytes(), 9)).decode()
