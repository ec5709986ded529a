"""The directive ``reference``: what a module publishes, from its docstrings.

``.. reference:: tensor.fft`` lists its classes with their methods and its functions, by name. A class that several modules
publish has its methods in the first of them.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import signature, stringify_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sphinx.application import Sphinx

_PAGES = Path(__file__).resolve().parents[1] / "reference"
#: A class whose methods would be too many for a page: they are the functions of the same names.
_SHORT = frozenset(("tensor.Tensor",))


class Reference(SphinxDirective):
    """Everything that the module named by the argument publishes."""

    required_arguments = 1
    has_content = False
    option_spec: ClassVar[dict[str, Callable[[str], object]] | None] = {}

    def run(self) -> list[nodes.Node]:
        module = self.arguments[0]
        only = self.config.reference_only
        if only and module not in only:
            return []
        result = nodes.container()
        lines = StringList(list(_lines(module)), source=f"reference of {module}")
        self.state.nested_parse(lines, 0, result)
        return [result]


def published(module: str) -> Iterator[tuple[str, object]]:
    """The classes and functions that a module publishes, by name."""
    imported = importlib.import_module(module)
    names = getattr(imported, "__all__", None) or [name for name in vars(imported) if name[0] != "_"]
    for name in sorted(set(names)):
        value = getattr(imported, name)
        if inspect.isclass(value) or (callable(value) and not inspect.ismodule(value)):
            yield name, value


@functools.cache
def _first_publishers() -> dict[object, str]:
    """The module under which each class is explained, of those that the pages of the reference name."""
    result: dict[object, str] = {}
    for page in sorted(_PAGES.glob("*.rst")):
        for module in re.findall(r"^\.\. reference:: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            for _, value in published(module):
                if inspect.isclass(value):
                    result.setdefault(value, module)
    return result


def _lines(module: str) -> Iterator[str]:
    yield from (f".. py:currentmodule:: {module}", "")
    for name, value in published(module):
        full = f"{module}.{name}"
        if not inspect.getdoc(value):
            continue
        if not inspect.isclass(value):
            yield from (f".. autofunction:: {full}", "")
            continue
        yield f".. autoclass:: {full}"
        if _first_publishers()[value] != module:
            yield "   :no-index:"
        # An exception says all in its docstring.
        elif full not in _SHORT and not issubclass(value, BaseException):
            yield "   :members:"
        yield ""


def constructor(value: type) -> Callable[..., object] | None:
    """The function whose parameters a class is called with; None if Python tells none.

    It is the first along the bases, as for ``help()``. autodoc takes any ``__new__`` before every ``__init__``, and so shows
    ``(*args, **kwargs)`` for modules, whose ``__new__`` only looks for misspelt keywords.
    """
    for base in value.__mro__[:-1]:
        for name in ("__new__", "__init__"):
            function = inspect.unwrap(getattr(base.__dict__.get(name), "__func__", base.__dict__.get(name)))
            if inspect.isfunction(function):
                return function
    return None


def _class_signature(
    _app: Sphinx, what: str, _name: str, value: object, _options: object, arguments: str | None, _result: str
) -> tuple[str, str] | None:
    if what != "class" or not inspect.isclass(value) or arguments is None:
        return None
    if getattr(value, "_is_protocol", False):
        return "", ""  # It is not called.
    if not re.fullmatch(r"\(\*args[^()]*, \*\*kwargs[^()]*\)", arguments):
        return None
    function = constructor(value)
    if function is None:
        return None
    parameters = signature(function, bound_method=True)
    return stringify_signature(parameters, show_return_annotation=False, unqualified_typehints=True), ""


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("autodoc-process-signature", _class_signature)
    app.add_config_value("reference_only", [], "env", list)
    app.add_directive("reference", Reference)
    return {"parallel_read_safe": True}
