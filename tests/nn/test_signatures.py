"""Names, arguments and defaults are PyTorch's."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import nn

#: What other compilers and devices than those of this library would need.
_ABSENT = {"compile", "dump_patches", "ipu", "mtia", "share_memory", "xpu", "T_destination"}
#: Written out here; PyTorch takes any arguments.
_WRITTEN_OUT = {"forward", "to"}


def parameters(function: Any) -> Any:
    """Names, kinds and defaults; ``None`` where Python cannot tell."""
    try:
        argument = inspect.signature(function).parameters.values()
    except ValueError:
        return None
    result = [(each.name, each.kind, _text(each.default)) for each in argument]
    kinds = {kind for name, kind, _ in result if name != "self"}
    return None if kinds == {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} else result


def _text(default: Any) -> str:
    """A default as text; functions by their name."""
    return default.__name__ if inspect.isfunction(default) else repr(default).replace("torch.", "")


def assert_same_parameters(mine: Any, theirs: Any) -> None:
    expected = parameters(theirs)
    if expected is None:
        return
    result = parameters(mine)
    # A place for the result is allowed in addition.
    assert [each for each in result if each[0] != "out"] == [each for each in expected if each[0] != "out"]


def public(owner: Any) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_") and name not in _ABSENT]


@pytest.mark.parity
def test_methods_of_modules() -> None:
    torch = pytest.importorskip("torch")
    for name in public(torch.nn.Module):
        mine = getattr(nn.Module, name)
        if callable(mine) and name not in _WRITTEN_OUT:
            assert_same_parameters(mine, getattr(torch.nn.Module, name))


@pytest.mark.parity
@pytest.mark.parametrize("name", [each for each in nn.__all__ if inspect.isclass(getattr(nn, each))])
def test_classes(name: str) -> None:
    torch = pytest.importorskip("torch")
    mine, theirs = getattr(nn, name), getattr(torch.nn, name)
    result = "__init__" if issubclass(mine, nn.Module) else "__new__"
    assert_same_parameters(getattr(mine, result), getattr(theirs, result))
    for method in public(theirs) if result == "__init__" else ():
        if callable(getattr(theirs, method)):
            assert callable(getattr(mine, method))


@pytest.mark.parity
@pytest.mark.parametrize("module", ["functional", "init", "utils"])
def test_functions(module: str) -> None:
    torch = pytest.importorskip("torch")
    mine, theirs = getattr(nn, module), getattr(torch.nn, module)
    for name in mine.__all__:
        if inspect.isfunction(getattr(mine, name)):
            assert_same_parameters(getattr(mine, name), getattr(theirs, name))


@pytest.mark.parametrize("module", [nn, nn.functional, nn.init, nn.utils])
def test_public_names_are_there(module: Any) -> None:
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)
