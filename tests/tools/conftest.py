"""Scripts for memcheck."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .running import Bench

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A folder to write scripts to, and the current one."""
    monkeypatch.chdir(tmp_path)
    return Bench(tmp_path)
