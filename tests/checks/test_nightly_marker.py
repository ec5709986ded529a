"""Tests with the marker ``nightly`` run with ``--nightly`` and are skipped without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

_TESTS = """
import pytest

def test_short(): pass

@pytest.mark.nightly
def test_long(): pass
"""


@pytest.mark.parametrize(("options", "summary"), [((), "1 passed, 1 skipped"), (("--nightly",), "2 passed")])
def test_long_tests_run_when_asked_for(tmp_path: Path, options: tuple[str, ...], summary: str) -> None:
    file = tmp_path / "test_marked.py"
    file.write_text(_TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", "/dev/null", *options, str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert summary in done.stdout, done.stdout
