"""Functions that say which of their arguments should have been a tensor.

The families take a tensor's attributes without a question, which costs nothing. What is no tensor then lacks
an attribute, and the functions at the top level make that an error about the argument.
"""

from __future__ import annotations

import inspect
from functools import update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from .base import TensorBase

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = TypeVar("Function", bound=Callable[..., Any])


def explain(namespace: dict[str, Any]) -> None:
    """Replace the functions of tensors in a module's namespace by such that explain themselves."""
    made: dict[FunctionType, Any] = {}
    for name, function in list(namespace.items()):
        if isinstance(function, FunctionType) and _takes_tensors(function):
            if function not in made:
                own = function.__name__
                known = own if namespace.get(own) is function else name
                made[function] = explaining(function, namespace["__name__"], known)
            namespace[name] = made[function]


#: Names of parameters that are tensors, or sequences of them, whatever else they may be.
_TENSORS = frozenset(("self", "tensors"))


def _takes_tensors(function: FunctionType) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(
        each.name in _TENSORS or "Tensor" in str(each.annotation) for each in parameters if each.name != "out"
    )


def explaining(function: Function, module: str, name: str) -> Function:
    """``function``, whose AttributeError about an argument becomes a TypeError that names it.

    The function that calls it is written out with all parameters: that is the fastest way to pass them on.
    """
    heads, passed, named = [], [], []
    keyword_only = False
    for each in inspect.signature(function).parameters.values():
        optional = "" if each.default is each.empty else "=None"
        if each.kind is each.VAR_POSITIONAL:
            heads.append(f"*{each.name}")
            passed.append(f"*{each.name}")
            keyword_only = True
        elif each.kind is each.VAR_KEYWORD:
            heads.append(f"**{each.name}")
            passed.append(f"**{each.name}")
        elif each.kind is each.KEYWORD_ONLY:
            heads.append(f"{each.name}{optional}" if keyword_only else f"*, {each.name}{optional}")
            passed.append(f"{each.name}={each.name}")
            keyword_only = True
        else:
            heads.append(f"{each.name}{optional}")
            passed.append(each.name)
        named.append(f"({each.name!r}, {each.name}), ")
    made: dict[str, Any] = {"_function": function, "_explanation": _explanation, "__name__": module}
    exec(
        _CALL.format(name=name, heads=", ".join(heads), passed=", ".join(passed), named="".join(named)), made
    )
    call = update_wrapper(made[name], function)
    call.__defaults__, call.__kwdefaults__ = function.__defaults__, function.__kwdefaults__  # type: ignore[attr-defined]
    # So that it is pickled by the name that users know.
    call.__module__, call.__qualname__, call.__name__ = module, name, name
    return call  # type: ignore[no-any-return]


_CALL = """
def {name}({heads}):
    try:
        return _function({passed})
    except AttributeError as _error:
        _found = _explanation(_error, {name!r}, ({named}))
        if _found is None:
            raise
        raise _found from None
"""


def _explanation(
    error: AttributeError, name: str, arguments: tuple[tuple[str, Any], ...]
) -> TypeError | None:
    culprit = error.obj
    if isinstance(culprit, TensorBase):
        return None
    for position, (argument, given) in enumerate(arguments, 1):
        shown = "input" if argument == "self" else argument
        where = f"argument '{shown}' (position {position})"
        if given is culprit:
            return TypeError(f"{name}(): {where} must be Tensor, not {type(given).__name__}")
        if isinstance(given, (list, tuple)):
            for place, each in enumerate(given):
                if each is culprit:
                    return TypeError(
                        f"{name}(): expected Tensor as element {place} in {where}, but got {type(each).__name__}"
                    )
        if isinstance(given, str) and isinstance(culprit, str) and culprit in given:
            return TypeError(f"{name}(): {where} must be tuple of Tensors, not str")
    argument, given = arguments[0]
    if error.name in TensorBase.__slots__ and not isinstance(given, (TensorBase, list, tuple)):
        # What the function has made of the argument, which it took for a tensor.
        return TypeError(
            f"{name}(): argument '{argument}' (position 1) must be Tensor, not {type(given).__name__}"
        )
    return None
