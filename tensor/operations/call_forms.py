"""How functions and methods may be called: with NumPy's names of arguments, and errors that name arguments.

``axis`` and ``keepdims`` mean ``dim`` and ``keepdim``, as in PyTorch. What should have been a tensor and is
none lacks an attribute that the families take without a question, which costs nothing; at the surface that
becomes an error about the argument.
"""

from __future__ import annotations

from functools import cache, update_wrapper
from types import FunctionType
from typing import Any

from tensor.core.base import TensorBase

from .written_code import Form, defaults, written

#: Names of parameters that are tensors, or sequences of them, whatever else they may be.
_TENSORS = frozenset(("self", "tensors"))
#: NumPy's names of parameters.
_ALIASES = {"dim": "axis", "keepdim": "keepdims"}
#: Sequences that may be given one by one, as one argument, or by name.
_SEQUENCES = frozenset(("dims", "repeats", "shape", "size"))
_ABSENT = object()


def complete_functions(namespace: dict[str, Any]) -> None:
    """Let the functions of tensors in a module's namespace take NumPy's names, and explain themselves."""
    made: dict[FunctionType, Any] = {}
    for name, function in list(namespace.items()):
        if isinstance(function, FunctionType) and _takes_tensors(function):
            if function not in made:
                own = function.__name__
                known = own if namespace.get(own) is function else name
                made[function] = completed(function, namespace["__name__"], known)
            namespace[name] = made[function]


def complete_methods(cls: type[Any]) -> None:
    """Let the methods of a class that have a ``dim`` take NumPy's names too."""
    for name in dir(cls):
        method = getattr(cls, name)
        if isinstance(method, FunctionType) and "dim" in Form.of(method).names:
            setattr(cls, name, completed(method, cls.__module__, name, f"{cls.__name__}."))


def _takes_tensors(function: FunctionType) -> bool:
    annotations = function.__annotations__
    return any(
        name in _TENSORS or "Tensor" in str(annotations.get(name, ""))
        for name in Form.of(function).names
        if name != "out"
    )


def completed(function: FunctionType, module: str, name: str, owner: str = "") -> FunctionType:
    """``function`` with NumPy's names, whose AttributeError about an argument is a TypeError that names it.

    The function that calls it is written out with all parameters: that is the fastest way to pass them on.
    """
    if hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    text, required = _text(Form.of(function))
    made: dict[str, Any] = {"_function": function, "_explanation": _explanation, "_absent": _ABSENT}
    made |= {"__name__": module, "_name": name, "_twice": _twice, "_missing": _missing}
    made |= {f"_default_{each}": default for each, default in defaults(function).items()}
    made |= {f"_default_{each}": _ABSENT for each in required}
    call: FunctionType = update_wrapper(written(text, name, made), function)
    # So that it is pickled by the name that users know.
    call.__module__, call.__qualname__, call.__name__ = module, f"{owner}{name}", name
    return call


@cache
def _text(form: Form) -> tuple[str, list[str]]:
    """The call that is written out, and the parameters that only look as if they could be left out."""
    parameters = form.parameters()
    names = {each.name for each in parameters}
    open_ended = parameters[-1].kind == "double starred"
    aliases = {
        each.name: _ALIASES[each.name]
        for each in parameters
        if each.name in _ALIASES and _ALIASES[each.name] not in names and not open_ended
    }
    heads, passed, steps, required = [], [], [], []
    keyword_only = optional = False
    for each in parameters:
        default = ""
        optional = optional or each.name in aliases
        if each.optional:
            default = f"=_default_{each.name}"
        elif optional and each.kind == "either":
            default = "=_absent"
            required.append(each.name)
            steps.append(f"    if {each.name} is _absent: raise _missing(_name, {each.name!r})")
        if each.kind == "named" and not keyword_only:
            heads.append("*")
        keyword_only = keyword_only or each.kind in ("named", "starred")
        stars = "*" if each.kind == "starred" else "**" if each.kind == "double starred" else ""
        if stars == "*" and each.name in _SEQUENCES:
            heads += [f"*_{each.name}", f"{each.name}=_absent"]
            passed.append(f"*_{each.name}")
            steps.append(_SEQUENCE.format(own=each.name))
            continue
        heads.append(f"{stars}{each.name}{default}")
        by_name = f"{each.name}=" if each.kind == "named" else ""
        passed.append(f"{by_name}{stars}{each.name}")
    if aliases and not keyword_only:
        heads.append("*")
    for own, alias in aliases.items():
        heads.append(f"{alias}=_absent")
        steps.insert(0, _ALIAS.format(own=own, alias=alias))
    named = "".join(f"({each.name!r}, {each.name}), " for each in parameters)
    text = _CALL.format(heads=", ".join(heads), steps="\n".join(steps), passed=", ".join(passed), named=named)
    return text, required


_ALIAS = """
    if {alias} is not _absent:
        if {own} is not _default_{own}:
            raise _twice(_name, {own!r}, {alias!r})
        {own} = {alias}"""

_SEQUENCE = """
    if {own} is not _absent:
        if _{own}:
            raise _twice(_name, {own!r}, "*{own}")
        _{own} = ({own},)"""

_CALL = """
def _call({heads}):
{steps}
    try:
        return _function({passed})
    except AttributeError as _error:
        _found = _explanation(_error, _name, ({named}))
        if _found is None:
            raise
        raise _found from None
"""


def _twice(name: str, own: str, alias: str) -> TypeError:
    return TypeError(f"{name}() got arguments '{own}' and '{alias}', which mean the same")


def _missing(name: str, argument: str) -> TypeError:
    return TypeError(f"{name}() missing 1 required argument: '{argument}'")


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
