"""Pages of ours in a real browser, where one is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)
needs_browser = pytest.mark.skipif(_BROWSER is None, reason="no browser is installed")
#: Errors of a page's code are noted in an attribute of its body.
_WATCH = (
    "<script>const broken = [];"
    "addEventListener('error', (event) => broken.push(event.message));"
    "addEventListener('unhandledrejection', (event) => broken.push(String(event.reason)));"
    "setInterval(() => { document.body.dataset.broken = JSON.stringify(broken); }, 100);</script>"
)


def drawn(page: Path, folder: Path) -> str:
    """The document that a browser makes of ``page``, whose code says when it has drawn everything, without an error."""
    page.write_text(page.read_text().replace("<style>", _WATCH + "<style>", 1))
    profile = folder / "browser"
    profile.mkdir()
    command = [
        str(_BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", f"--user-data-dir={profile}",
        "--virtual-time-budget=30000", "--dump-dom", page.as_uri(),
    ]  # fmt: skip
    document = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True).stdout
    body = re.search(r"<body[^>]*>", document)
    assert body is not None
    assert 'data-drawn="yes"' in body[0], body[0]
    assert 'data-broken="[]"' in body[0], body[0]
    return document
