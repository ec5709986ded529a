"""Formatting, lint, types and import layers, so that one test command checks everything."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.pytorch import PACKAGES as PACKAGES_OF_PARITY

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sys.executable).parent
PACKAGES = {"drv", "nvrtc_kernels", "tensor", "nn", "parallel", "tools"}

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
    tests, parity = (line.strip() for line in lines if "pytest" in line)
    assert tests in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "--parity" not in tests
    assert parity in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert PACKAGES_OF_PARITY in parity
    assert "--parity" in parity


def test_wheel_is_pure_python_and_holds_the_packages_and_kernels(tmp_path: Path) -> None:
    source = tmp_path / "source"
    suffixes = {".py", ".cu", ".cuh", ".typed"}
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.suffix in suffixes]
    for path in [*files, ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE"]:
        target = source / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(tmp_path), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {str(path.relative_to(ROOT)) for path in files} <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == PACKAGES
