"""Running programs that say ``import torch`` in processes of their own."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[3]


def start(*command: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``python`` with these arguments in ``folder``, where graphroot can be imported."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def write(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text).lstrip(), encoding="utf-8")
    return path


def run(folder: Path, text: str, *arguments: str, **variables: str) -> str:
    """Run a program of this text, which has to succeed, and return what it printed."""
    done = start(write(folder, text), *arguments, folder=folder, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_on_pytorch(folder: Path, text: str) -> str:
    """Run a program on PyTorch itself, in this process, and return what it printed: for tests with the marker ``parity``."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(write(folder, text, "on_pytorch.py")), run_name="__main__")
    return printed.getvalue()
