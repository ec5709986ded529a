"""The examples in docstrings of ``parallel`` print what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import nn
import parallel
import tensor

from .simulated import install

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.simulator_only


def _examples() -> dict[str, doctest.DocTest]:
    """Of the modules of ``parallel``, by name. They see what a program has imported, and nothing of their module."""
    scope = {"nn": nn, "parallel": parallel, "tensor": tensor, "timedelta": timedelta}
    names = ["parallel", *(each.name for each in pkgutil.walk_packages(parallel.__path__, "parallel."))]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    finder = doctest.DocTestFinder(recurse=False)
    found: list[doctest.DocTest] = []
    for module in modules:
        found += finder.find(module, module.__name__, False, scope)
        owners = [
            each
            for each in vars(module).values()
            if inspect.isclass(each) and each.__module__ == module.__name__
        ]
        for owner in (module, *owners):
            for name, value in vars(owner).items():
                each = getattr(value, "__func__", value)
                if (inspect.isfunction(each) or inspect.isclass(each) or isinstance(each, property)) and (
                    owner is not module or each.__module__ == module.__name__
                ):
                    prefix = module.__name__ if owner is module else f"{module.__name__}.{owner.__name__}"
                    found += finder.find(each, f"{prefix}.{name}", False, scope)
    tests = {test.name: test for test in found}
    return {
        name: test
        for name, test in tests.items()
        if any(not each.options.get(doctest.SKIP) for each in test.examples)
    }


EXAMPLES = _examples()


@pytest.fixture
def group_of_one() -> Iterator[None]:
    """Two simulated devices, and a job of one rank, where examples of collectives run."""
    install(2)
    parallel.init_process_group("gloo", store=parallel.HashStore(), rank=0, world_size=1)
    yield
    if parallel.is_initialized():
        parallel.destroy_process_group()


@pytest.mark.usefixtures("group_of_one")
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    report: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(EXAMPLES[name], out=report.append)
    assert not outcome.failed, "".join(report)
