"""What ``help()`` shows of operations: more than a line, and examples that print what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING, Any

import pytest

import drv
import nn
import tensor
from tensor.operations.definition import catalogue

if TYPE_CHECKING:
    from types import ModuleType

NAMESPACES = ("tensor", "Tensor", "linalg", "nn.functional", "special", "fft")
#: Functions as they are defined, by namespace and name.
OPERATIONS: dict[str, Any] = {
    f"{namespace}.{name}": inspect.unwrap(function)
    for namespace in NAMESPACES
    for name, function in catalogue.published(namespace).items()
}


def _is_brief(function: Any) -> bool:
    return len((inspect.getdoc(function) or "").strip().splitlines()) <= 1


def test_every_namespace_is_known() -> None:
    assert set(NAMESPACES) == set(catalogue._published)


def test_every_operation_has_more_than_one_line() -> None:
    assert [name for name, function in OPERATIONS.items() if _is_brief(function)] == []


def test_an_in_place_form_says_what_it_computes_and_raises() -> None:
    text = inspect.getdoc(tensor.Tensor.exp_) or ""
    assert (inspect.getdoc(tensor.exp) or "").partition("\n")[0] in text
    with pytest.raises(RuntimeError, match="can't be cast"):
        tensor.tensor([1, 2]).exp_()
    assert "RuntimeError" in text and "cannot be cast" in text


# Examples


def _modules() -> list[ModuleType]:
    names = {each.name for each in pkgutil.walk_packages(tensor.__path__, "tensor.")}
    # Its import changes the process; tests/tensor/torch_names runs its example in one of its own.
    names.remove("tensor.as_torch")
    return [
        tensor,
        *(importlib.import_module(name) for name in sorted(names) if not name.endswith("__main__")),
    ]


def _has_examples(value: Any) -> bool:
    """Whether the docstring of a function, or of a class or a member of it, has an example.

    ``doctest`` finds out where in its file each of thousands of functions stands before it looks at the docstring.
    """
    if ">>>" in (value.__doc__ or ""):
        return True
    members = vars(value).values() if inspect.isclass(value) else ()
    return any(
        _has_examples(getattr(each, "__func__", each))
        for each in members
        if inspect.isroutine(each)
        or isinstance(each, property)
        or (inspect.isclass(each) and each.__qualname__ == f"{value.__qualname__}.{each.__name__}")
    )


def _examples() -> dict[str, doctest.DocTest]:
    """Of all published operations, and of all modules of ``tensor`` with their functions and classes, by name.

    Those of public names see ``drv``, ``nn`` and ``tensor``; the others see their module's names too.
    """
    public = {"drv": drv, "nn": nn, "tensor": tensor}
    finder, parser = doctest.DocTestFinder(), doctest.DocTestParser()
    found: list[doctest.DocTest] = []
    for function in OPERATIONS.values():
        if _has_examples(function):
            # Without False the finder leaves out what another module has defined.
            found += finder.find(function, f"{function.__module__}.{function.__name__}", False, public)
    published = {id(function) for function in OPERATIONS.values()}
    for module in _modules():
        file = module.__file__ or ""
        found.append(parser.get_doctest(module.__doc__ or "", dict(public), module.__name__, file, 0))
        for name, each in vars(module).items():
            value = inspect.unwrap(each) if callable(each) else each
            if not (inspect.isfunction(value) or inspect.isclass(value)) or id(value) in published:
                continue
            if value.__module__ == module.__name__ and _has_examples(value):
                scope = public if name in tensor.__all__ else vars(module) | public
                found += finder.find(value, f"{module.__name__}.{name}", False, scope)
    return {test.name: test for test in found if test.examples}


EXAMPLES = _examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    report: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(EXAMPLES[name], out=report.append)
    assert not outcome.failed, "".join(report)
