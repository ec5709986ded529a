"""Bytecode of a first run, of which processes that run tests side by side each compile a share.

Every process of ``pytest -n`` collects all tests. From nothing each would compile all packages, and have pytest rewrite the
assertions of all modules of tests, which takes longer than the rest of the collection.

Modules of tests are imported by a process of their own: what they change in this one would depend on its share, and all
processes have to collect the same tests.
"""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGES = ("drv", "graphroot", "nn", "nvrtc_kernels", "parallel", "tensor", "tools")


def compile_share(config: pytest.Config) -> None:
    """Compile this process's share of the packages, and have its share of the tests compiled that are to be collected.

    A module that does not import says so when this process collects it.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    sources = sorted(path for package in _PACKAGES for path in (config.rootpath / package).rglob("*.py"))
    for path in sources[number::count]:
        compileall.compile_file(path, quiet=2)
    tests = [path for path in sorted(_modules(config))[number::count] if not _is_compiled(path)]
    if tests:
        collecting = ["-m", "pytest", "--collect-only", "-qq", "-p", "no:xdist", "-p", "no:cacheprovider"]
        subprocess.run(
            [sys.executable, *collecting, *map(str, tests)],
            cwd=config.rootpath,
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


def _is_compiled(path: Path) -> bool:
    """Whether there is bytecode of a module of tests, under the name that pytest has for it."""
    name = f"{path.stem}.{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
    compiled = Path(cache_from_source(path)).with_name(name)
    return compiled.exists() and compiled.stat().st_mtime >= path.stat().st_mtime


def _modules(config: pytest.Config) -> Iterator[Path]:
    """Modules of tests in the folders that are collected."""
    tests = Path(__file__).resolve().parent
    for argument in config.args:
        folder = (config.invocation_params.dir / argument).resolve()
        if folder.is_relative_to(tests):
            yield from folder.rglob("test_*.py")
