"""The examples in docstrings do what they say, and every public name has a docstring."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import drv
import drv.allocators

pytestmark = pytest.mark.simulator_only

#: Modules whose examples choose the driver themselves.
INSTALLING = ("drv.simulator", "drv.simulator.outsiders.stand_in")


_PROMPT = re.compile(r"^\s*>>> ", re.MULTILINE)


def _with_examples() -> list[str]:
    """Modules with a prompt in their source, in place of an import and a search of all docstrings of each."""
    root = Path(drv.__path__[0])
    paths = [path for path in sorted(root.rglob("*.py")) if _PROMPT.search(path.read_text(encoding="utf-8"))]
    names = [".".join(path.relative_to(root.parent).with_suffix("").parts) for path in paths]
    return [each.removesuffix(".__init__") for each in names]


@pytest.mark.parametrize("name", _with_examples())
def test_examples(name: str) -> None:
    if name not in INSTALLING:
        drv.simulator.install()
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    for test in finder.find(importlib.import_module(name), name, extraglobs={"drv": drv, "np": np}):
        runner.run(test)
    assert runner.tries
    assert not runner.failures


def _public(owner: object, prefix: str) -> list[str]:
    """Names of public functions, classes, methods and properties without a docstring."""
    missing = []
    for name, value in vars(owner).items():
        value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if name.startswith("_") or not (inspect.isfunction(value) or inspect.isclass(value)):
            continue
        if not value.__doc__:
            missing.append(f"{prefix}.{name}")
        if inspect.isclass(value) and value.__module__.startswith("drv"):
            missing += _public(value, f"{prefix}.{name}")
    return missing


@pytest.mark.parametrize("module", [drv, drv.simulator, drv.allocators], ids=lambda module: module.__name__)
def test_every_public_name_has_a_docstring(module: object) -> None:
    public = type("public", (), {name: getattr(module, name) for name in module.__all__})
    assert _public(public, module.__name__) == []
