"""What ``help()`` shows of the public names: every parameter is explained, and examples give what they say."""

from __future__ import annotations

import doctest
import inspect
import re
from typing import Any

import pytest

import nn
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
#: Public classes and functions that are defined in this package, by name.
PUBLIC: dict[str, Any] = {
    f"{namespace.__name__}.{name}": value
    for namespace in _NAMESPACES
    for name in namespace.__all__
    if (value := getattr(namespace, name)) is not None
    and not inspect.ismodule(value)
    and value.__module__.split(".")[0] == "nn"
}
#: Says that another docstring explains the parameters.
_ELSEWHERE = re.compile(r"(parameters are those of|Alias of|As those of)")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_explained(name: str) -> None:
    value = PUBLIC[name]
    text = inspect.getdoc(value) or ""
    assert text
    assert "$" not in text
    parameters = inspect.signature(value).parameters.values()
    named = [each.name for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    missing = [each for each in named if each[0] != "_" and not re.search(rf"\b{each}\b", text)]
    assert not missing or _ELSEWHERE.search(text)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_method_is_documented(name: str) -> None:
    value = PUBLIC[name]
    if inspect.isclass(value):
        members = {
            key: each for key, each in vars(value).items() if key[0] != "_" and inspect.isfunction(each)
        }
        assert [key for key, each in members.items() if not inspect.getdoc(each)] == []


@pytest.mark.parametrize(
    "name", [name for name, value in PUBLIC.items() if "tensor" in (getattr(value, "__doc__", None) or "")]
)
def test_examples(name: str) -> None:
    """Those with a result, which need nothing but ``nn`` and ``tensor``."""
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(PUBLIC[name]) or "")
    for position, example in enumerate(examples):
        if not example.want or "for example" in example.source:
            continue
        scope: dict[str, Any] = {"nn": nn, "tensor": tensor}
        for before in examples[:position]:
            exec(before.source, scope)
        try:
            result = eval(example.source.strip(), scope)
        except NameError:
            # It goes on with a model of the reader's.
            continue
        assert repr(result) == example.want.strip()
