"""No test compares with PyTorch without the marker ``parity``, and none carries it in vain."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pytorch import torch

ROOT = Path(__file__).resolve().parents[2]

_TESTS = """
import pytest
from tests.pytorch import torch

def test_without(): torch.ones(1)

@pytest.mark.parity
def test_with(): torch.ones(1)

@pytest.mark.parity
def test_in_vain(): pass
"""


def test_pytorch_is_not_imported_without_the_marker() -> None:
    for name in ("torch", "torch.nn"):
        with pytest.raises(pytest.fail.Exception, match="carries the marker parity"):
            pytest.importorskip(name)


@pytest.mark.parity
def test_the_marker_is_not_carried_in_vain(tmp_path: Path) -> None:
    assert torch.nn
    file = tmp_path / "test_marked.py"
    file.write_text(_TESTS, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.pytorch",
        "--parity",
        "-c",
        "/dev/null",
        str(file),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed, 1 deselected" in done.stdout
    assert "carries the marker parity and does not use PyTorch" in done.stdout
