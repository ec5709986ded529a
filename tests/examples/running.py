"""Running examples as a newcomer does, and having them as modules."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skip tests where a package is not installed.

    Every process of ``pytest -n`` collects all tests: importing packages to find that out takes seconds in each.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def run(*command: str, **variables: str) -> str:
    """What Python says when it runs ``command`` in the project's folder, which has to go well."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def load(name: str) -> ModuleType:
    """The example ``name`` as a module."""
    result = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert result is not None
    assert result.loader is not None
    output = importlib.util.module_from_spec(result)
    result.loader.exec_module(output)
    return output
