"""Stubs are what the definitions say, and type checkers read them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import nn
import tensor

x = tensor.randn(2, 3)
y = x.t()
results: list[tensor.Tensor] = [
    x @ y + 1,
    2 * x - y.t() / 3,
    -x ** 2,
    x.sum(0, keepdim=True),
    tensor.abs(x),
    x.add_(1, alpha=2),
    tensor.abs_(x),
    nn.functional.relu(x),
    tensor.linalg.inv(x @ y),
    tensor.fft.fft(x).real,
    tensor.special.gammainc(x, x),
    nn.Linear(3, 4)(x),
]
x.add(1, beta=2)
tensor.absolut(x)
"""


def test_stubs_are_current() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.stubs", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_package_has_its_types_read() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert packages >= {"drv", "graphroot", "nn", "nvrtc_kernels", "parallel", "tensor", "tools"}
    assert {path.parent.name for path in ROOT.glob("*/py.typed")} == packages


def test_a_users_type_checker_knows_results_arguments_and_names(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    # With other settings than those of the check of all packages, these would be checked again, and again after this.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(script)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    # The cache may know the script of an earlier run, under its path.
    reported = re.findall(r"script\.py:(\d+): error: (.*)", done.stdout)
    lines = PROGRAM.splitlines()
    assert [lines[int(number) - 1] for number, _ in reported] == ["x.add(1, beta=2)", "tensor.absolut(x)"]
    assert "beta" in reported[0][1]
    assert "absolut" in reported[1][1]
