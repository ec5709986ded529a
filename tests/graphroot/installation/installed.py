"""Programs and commands of an environment in which the package is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Installed:
    """An environment, as ``venv`` makes it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    def run(self, *command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """``python`` or ``graphroot`` with arguments, as somebody types it in the folder ``cwd``."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "GRAPHROOT_DRIVER", "GRAPHROOT_SIMULATOR")
        }
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=cwd,
            env=inherited | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def out(self, *command: str, cwd: Path, **variables: str) -> str:
        """What a command that has to go well prints."""
        done = self.run(*command, cwd=cwd, **variables)
        if done.returncode != 0:
            pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}", pytrace=False)
        return done.stdout
