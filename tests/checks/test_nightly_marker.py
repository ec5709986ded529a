"""Tests with the marker ``nightly`` run with ``--nightly`` and are left out without; so are parts of those ``sampled``."""

from __future__ import annotations

import re
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

@pytest.mark.parametrize("x", range(7))
@pytest.mark.sampled(3)
def test_one_parameter(x): print("ran", x)

@pytest.mark.parametrize("x", range(3))
@pytest.mark.parametrize("y", [[], [1, 2], [3]])
@pytest.mark.sampled(100)
def test_two_parameters(x, y): print("ran", x, y)
"""


_SAMPLED = ["ran 0", "ran 2", "ran 5", *("ran 0 []", "ran 1 [1, 2]", "ran 2 [3]")]


@pytest.mark.parametrize(
    ("options", "summary"),
    [((), "7 passed, 11 deselected"), (("--nightly",), "18 passed")],
    ids=["plain", "nightly"],
)
def test_long_tests_run_when_asked_for(tmp_path: Path, options: tuple[str, ...], summary: str) -> None:
    file = tmp_path / "test_marked.py"
    file.write_text(_TESTS, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-c",
        "/dev/null",
        "-s",
        *options,
        str(file),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert summary in done.stdout, done.stdout
    if not options:
        assert sorted(re.findall(r"ran .*", done.stdout)) == sorted(_SAMPLED)
