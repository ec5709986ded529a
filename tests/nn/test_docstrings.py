"""What ``help()`` shows of the public names: every parameter is explained, and examples give what they say."""

from __future__ import annotations

import doctest
import inspect
import re
from typing import Any

import pytest

import nn
import nn.fx
import nn.grad
import nn.module
import nn.optim.lr_scheduler
import nn.utils.prune
import nn.utils.stateless
import tensor

_NAMESPACES = (
    nn,
    nn.module,
    nn.functional,
    nn.fx,
    nn.grad,
    nn.init,
    nn.optim,
    nn.optim.lr_scheduler,
    nn.utils,
    nn.utils.parametrizations,
    nn.utils.parametrize,
    nn.utils.prune,
    nn.utils.rnn,
    nn.utils.stateless,
)
#: Public classes and functions that are defined in this package, by namespace and name.
PUBLIC: dict[str, dict[str, Any]] = {
    namespace.__name__: {
        name: value
        for name in namespace.__all__
        if (value := getattr(namespace, name)) is not None
        and not inspect.ismodule(value)
        and value.__module__.split(".")[0] == "nn"
    }
    for namespace in _NAMESPACES
}
#: Says that another docstring explains the parameters.
_ELSEWHERE = re.compile(r"(parameters are those of|Alias of|As those of)")


@pytest.mark.parametrize("namespace", PUBLIC)
def test_every_parameter_is_explained(namespace: str) -> None:
    assert PUBLIC[namespace]
    for name, value in PUBLIC[namespace].items():
        text = inspect.getdoc(value) or ""
        assert text, name
        assert "$" not in text, name
        parameters = inspect.signature(value).parameters.values()
        named = [each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
        missing = [each for each in named if each[0] != "_" and not re.search(rf"\b{each}\b", text)]
        assert not missing or _ELSEWHERE.search(text), name


@pytest.mark.parametrize("namespace", PUBLIC)
def test_every_method_is_documented(namespace: str) -> None:
    undocumented = [
        f"{name}.{key}"
        for name, value in PUBLIC[namespace].items()
        if inspect.isclass(value)
        for key, each in vars(value).items()
        if key[0] != "_" and inspect.isfunction(each) and not inspect.getdoc(each)
    ]
    assert undocumented == []


def _examples() -> dict[str, doctest.DocTest]:
    """Of the public names, and of the methods of classes. They see ``nn`` and ``tensor``, as a program does."""
    finder = doctest.DocTestFinder(recurse=False)
    found: list[doctest.DocTest] = []
    public = {
        f"{namespace}.{name}": value for namespace, names in PUBLIC.items() for name, value in names.items()
    }
    for name, value in public.items():
        members = vars(value).items() if inspect.isclass(value) else ()
        methods = {f"{name}.{key}": each for key, each in members if inspect.isfunction(each)}
        for path, each in {name: inspect.unwrap(value), **methods}.items():
            found += finder.find(each, path, False, {"nn": nn, "tensor": tensor})
    return {test.name: test for test in found if test.examples}


EXAMPLES = _examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    report: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(EXAMPLES[name], out=report.append)
    assert not outcome.failed, "".join(report)
