"""Functions that are written out as text at import: those of equal text share the compilation, which is most of it."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

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


def parameter_names(function: FunctionType) -> tuple[str, ...]:
    """Names of the parameters of a function, or of the one that it wraps; much quicker than ``inspect.signature``."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]
