"""Formatting, lint, types and import layers, so that one test command checks everything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pytorch import PACKAGES as PACKAGES_OF_PARITY

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sys.executable).parent

CHECKS = {
    "format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "lint": [sys.executable, "-m", "ruff", "check", "."],
    "types": [sys.executable, "-m", "mypy"],
    "layers": [str(SCRIPTS / "lint-imports")],
}


@pytest.mark.parametrize("name", CHECKS)
def test_source(name: str) -> None:
    done = subprocess.run(CHECKS[name], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_continuous_integration_runs_documented_commands() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    tests, packages, parity = (line.strip() for line in lines if "-m pytest" in line)
    assert tests in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "--parity" not in tests
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert packages in contributing
    assert parity in contributing
    assert PACKAGES_OF_PARITY in parity
    assert "--parity" in parity
