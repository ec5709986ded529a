"""Functions that are written out as text at import: those of equal text share the compilation, which is most of it."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from types import CodeType, FunctionType


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<string>", "exec")


def written(text: str, name: str, namespace: dict[str, Any]) -> FunctionType:
    """The function ``_call`` that ``text`` defines, under ``name``, with ``namespace`` as its globals."""
    exec(_compiled(text), namespace)
    call: FunctionType = namespace.pop("_call")
    # Tracebacks show the name of the code.
    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name)
    return call


class Parameter(NamedTuple):
    """A parameter, as far as the text of a function depends on it: not on the value of its default."""

    name: str
    #: "either" (by place or by name), "named", "starred" or "double starred".
    kind: str
    optional: bool


class Form(NamedTuple):
    """What the parameters of a function are called and how they are given: functions of one form share their text."""

    #: As the code has them: by place, by name, starred, double starred.
    names: tuple[str, ...]
    places: int
    named: int
    starred: bool
    double_starred: bool
    optional_places: int
    optional_names: tuple[str, ...]

    @classmethod
    def of(cls, function: FunctionType) -> Form:
        """That of a function, or of the one that it wraps; many times quicker than ``inspect.signature``."""
        function = _wrapped(function)
        code = function.__code__
        places, named = code.co_argcount, code.co_kwonlyargcount
        starred = bool(code.co_flags & inspect.CO_VARARGS)
        double_starred = bool(code.co_flags & inspect.CO_VARKEYWORDS)
        return cls(
            code.co_varnames[: places + named + starred + double_starred],
            places,
            named,
            starred,
            double_starred,
            len(function.__defaults__ or ()),
            tuple(function.__kwdefaults__ or ()),
        )

    def parameters(self) -> list[Parameter]:
        """The parameters in the order in which a definition writes them."""
        first_optional, end = self.places - self.optional_places, self.places + self.named
        found = [
            Parameter(name, "either", place >= first_optional)
            for place, name in enumerate(self.names[: self.places])
        ]
        if self.starred:
            found.append(Parameter(self.names[end], "starred", False))
        found += [
            Parameter(name, "named", name in self.optional_names) for name in self.names[self.places : end]
        ]
        if self.double_starred:
            found.append(Parameter(self.names[-1], "double starred", False))
        return found


def defaults(function: FunctionType) -> dict[str, Any]:
    """Defaults by the names of the parameters that have one."""
    function = _wrapped(function)
    code, places = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(places) : code.co_argcount]
    return dict(zip(names, places, strict=True)) | (function.__kwdefaults__ or {})


def _wrapped(function: FunctionType) -> FunctionType:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
