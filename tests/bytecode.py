"""Bytecode of a first run, of which processes that run tests side by side each compile a share.

Every process of ``pytest -n`` collects all tests. From nothing each would compile all packages, and have pytest rewrite the
assertions of all modules of tests, which takes longer than the rest of the collection.
"""

from __future__ import annotations

import compileall
import contextlib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGES = ("drv", "graphroot", "nn", "nvrtc_kernels", "parallel", "tensor", "tools")


def compile_share(config: pytest.Config) -> None:
    """Compile this process's share of the packages, and import its share of the tests that are to be collected.

    A module that does not import says so again when it is collected.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    sources = sorted(path for package in _PACKAGES for path in (config.rootpath / package).rglob("*.py"))
    for path in sources[number::count]:
        compileall.compile_file(path, quiet=2)
    for name in sorted(_modules(config))[number::count]:
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


def _modules(config: pytest.Config) -> Iterator[str]:
    """Names of the modules of tests in the folders that are collected."""
    tests = Path(__file__).resolve().parent
    for argument in config.args:
        folder = (config.invocation_params.dir / argument).resolve()
        if folder.is_relative_to(tests):
            for path in folder.rglob("test_*.py"):
                yield ".".join(path.relative_to(config.rootpath).with_suffix("").parts)
