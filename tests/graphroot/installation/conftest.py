"""The package as it is installed: a wheel, in an environment that has nothing else of ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from .installed import Installed

ROOT = Path(__file__).resolve().parents[3]
_SOURCES = (
    "LICENSE", "README.md", "pyproject.toml",
    "drv", "graphroot", "nn", "nvrtc_kernels", "parallel", "tensor", "tests", "tools",
)  # fmt: skip


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout."""
    source, result = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in _SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source)
    _pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(result), str(source))
    (built,) = result.iterdir()
    return built


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    """A fresh environment with the wheel; what it depends on is that of the environment that runs the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    environment = Installed(folder)
    _pip(
        "--python", str(environment.python), "install", "--no-deps", "--no-index", "--no-compile", str(wheel)
    )
    # As if they were installed there, since NVIDIA's libraries are looked for in site-packages itself.
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        target = environment.packages / path.name
        if "graphroot" not in path.name and not path.name.startswith("torch") and not target.exists():
            target.symlink_to(path)
    return environment


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
