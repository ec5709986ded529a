"""What the wheel has in it, and that it runs where only it is installed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphroot import __version__

if TYPE_CHECKING:
    from .installed import Installed

PACKAGES = ("drv", "graphroot", "nn", "nvrtc_kernels", "parallel", "tensor", "tools")
ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.simulator_only


def test_what_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert wheel.name == f"graphroot-{__version__}-py3-none-any.whl"
    assert {name.partition("/")[0] for name in names} == {*PACKAGES, f"graphroot-{__version__}.dist-info"}
    suffixes = {".py", ".pyi", ".typed", ".cu", ".cuh", ".html", ".css", ".js", ".md"}
    files = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in suffixes
    }
    assert files | {
        f"tensor/torch_names/search_path/torch-2.13.0+graphroot.{__version__}.dist-info/METADATA",
        f"tensor/torch_names/search_path/torch-2.13.0+graphroot.{__version__}.dist-info/INSTALLER",
    } == {name for name in names if not name.startswith("graphroot-")}


def test_versions(installed: Installed, tmp_path: Path) -> None:
    code = "import tensor, importlib.metadata as m; print(tensor.__version__, m.version('graphroot'))"
    assert installed.out("python", "-c", code, cwd=tmp_path) == f"{__version__} {__version__}\n"
    assert installed.out("graphroot", "--version", cwd=tmp_path).startswith(f"graphroot {__version__} ")
    (tmp_path / "program.py").write_text("import torch\nprint(torch.__version__)\n")
    assert (
        installed.out("graphroot", "run", "program.py", cwd=tmp_path) == f"2.13.0+graphroot.{__version__}\n"
    )


def test_a_program_on_a_simulated_gpu_and_a_process_that_it_starts(
    installed: Installed, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(
        "import subprocess, sys, torch\n"
        "print(torch.ones(3, device='cuda').sum().item(), flush=True)\n"
        "if len(sys.argv) == 1:\n"
        "    subprocess.run([sys.executable, __file__, 'child'], check=True)\n"
    )
    out = installed.out("graphroot", "run", "--simulate", "program.py", cwd=tmp_path)
    assert out == "3.0\n3.0\n"


def test_every_command_is_there(installed: Installed, tmp_path: Path) -> None:
    out = installed.out("graphroot", "--help", cwd=tmp_path)
    commands = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert commands[:2] == ["run", "simulate"]
    for command in commands:
        assert installed.out("graphroot", command, "--help", cwd=tmp_path).startswith(
            f"usage: graphroot {command} "
        )
    assert "graphroot" in installed.out("python", "-m", "graphroot", "--help", cwd=tmp_path)
