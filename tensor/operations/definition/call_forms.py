"""How functions and methods may be called: with NumPy's names of arguments, under autocast, in place, and errors that
name arguments.

The function that a family defines takes PyTorch's arguments. What users call is one function around it that also takes
``axis`` and ``keepdims`` for ``dim`` and ``keepdim``, casts what an autocast block says, and turns the AttributeError
about an argument that should have been a tensor, which the families do not ask about as asking costs time, into an error
that names the argument. It is written out with all parameters, since that is the fastest way to pass them on: in
:mod:`.written_forms`, a file like any other, so that tracebacks show its lines.

A thousand functions are completed while the package is imported. So the pattern of a function is looked up by its role and
the list of its parameters, and its text is put together only where :mod:`.written_forms` does not have it.
"""

from __future__ import annotations

import inspect
import linecache
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from tensor.core.modes.autocast import autocast_blocks
from tensor.core.modes.grad_mode import modes
from tensor.core.sparse import SparseOperandError
from tensor.operations.autocast import enter
from tensor.operations.sparse_rules import answer

from .catalogue import published
from .exchanged_code import code_of
from .written_forms import ABSENT, FORMS
from .wrong_arguments import Answer, explanation

if TYPE_CHECKING:
    from tensor.operations.autocast import Autocast

#: Names of parameters that are tensors, or sequences of them, whatever else they may be.
_TENSORS = frozenset(("self", "tensors"))
#: NumPy's names of parameters.
_ALIASES = {"dim": "axis", "keepdim": "keepdims"}
#: Sequences that may be given one by one, as one argument, or by name.
_SEQUENCES = frozenset(("dims", "repeats", "shape", "size"))
#: What a pattern is for: "completed" ones take NumPy's names too where they are "aliased", and ask for autocast where they
#: are "casting"; those that other families call are "casting" alone.
COMPLETED, COMPLETED_CASTING, ALIASED, ALIASED_CASTING, CASTING, IN_PLACE = (
    "completed",
    "completed casting",
    "aliased",
    "aliased casting",
    "casting",
    "in place",
)


def complete_methods(cls: type[Any]) -> None:
    """Let the methods of a class that have a ``dim``, and are not published, take NumPy's names too."""
    for name in set(dir(cls)) - published("Tensor").keys():
        method = getattr(cls, name)
        if isinstance(method, FunctionType) and "dim" in Form.of(method).names:
            setattr(cls, name, completed(method, cls.__module__, name, f"{cls.__name__}."))


def takes_tensors(function: FunctionType, names: tuple[str, ...]) -> bool:
    """Whether one of the arguments ``names`` of a function, other than ``out``, is a tensor, as its annotations say."""
    annotations = function.__annotations__
    for name in names:
        if name != "out" and (name in _TENSORS or "Tensor" in str(annotations.get(name, ""))):
            return True
    return False


def completed(
    function: FunctionType,
    module: str,
    name: str,
    owner: str = "",
    rules: Autocast | None = None,
    *,
    aliases: bool = True,
    form: Form | None = None,
) -> FunctionType:
    """``function`` with autocast, whose AttributeError about an argument is a TypeError that names it.

    With ``aliases`` it takes NumPy's names of parameters too. A caller that has the ``form`` of ``function`` at hand may pass it.
    """
    if form is None:
        if hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        form = Form.of(function)
    names: dict[str, Any] = {}
    if aliases and form.has_aliases():
        role = ALIASED if rules is None else ALIASED_CASTING
        own = form.defaults(function)
        names = {f"_default_{each}": own.get(each, ABSENT) for each in _ALIASES if each in form.names}
    else:
        role = COMPLETED if rules is None else COMPLETED_CASTING
    call = _written(role, form, function, module, name, names, rules)
    # So that it is pickled by the name that users know.
    call.__module__, call.__qualname__, call.__name__ = module, f"{owner}{name}", name
    return call


def autocasting(function: FunctionType, rules: Autocast, form: Form) -> FunctionType:
    """``function``, which has the form, for other functions of families to call: under autocast, with no further names of arguments.

    Between the caller and ``function`` there is one frame, in blocks and outside of them.
    """
    return _written(CASTING, form, function, function.__module__, function.__name__, {}, rules)


#: What ``help()`` shows of an in-place form.
_IN_PLACE_TEXT = """:func:`{name}` in place: the result is written to ``{written}``, which is returned.

{summary}

Shape and dtype of ``{written}`` stay. The parameters are those of :func:`{name}` without ``out``, and so are the errors.

Raises
------
RuntimeError
    Also if the result does not have the shape of ``{written}``, if its dtype cannot be cast to that of ``{written}``
    (a floating dtype to an integer one, or complex to real), if elements of ``{written}`` overlap in memory, or if
    ``{written}`` is a leaf that requires a gradient.
"""


def in_place(function: FunctionType, marker: Any) -> FunctionType:
    """The function that passes ``out=marker`` to ``function``, which writes the result to its first argument."""
    function = _wrapped(function)
    name = f"{function.__name__}_"
    names = {
        "__name__": function.__module__,
        "_function": function,
        "_in_place": marker,
        "_name": name,
        **_CALLED,
    }
    call = names["_public"] = written(IN_PLACE, Form.of(function), function, name, names)
    call.__module__, call.__qualname__, call.__name__ = function.__module__, f"Tensor.{name}", name
    call.__doc__ = _IN_PLACE_TEXT.format(
        name=function.__name__,
        written=code_of(call).co_varnames[0],
        summary=(function.__doc__ or "").partition("\n")[0],
    )
    call.__annotations__ = {key: value for key, value in function.__annotations__.items() if key != "out"}
    return call


def _written(
    role: str,
    form: Form,
    function: FunctionType,
    module: str,
    name: str,
    names: dict[str, Any],
    rules: Autocast | None,
) -> FunctionType:
    names = {**_CALLED, **names, "_function": function, "_name": name, "__name__": module}
    if rules is not None:
        dtype_at = _dtype_at(form)
        names |= {"_blocks": autocast_blocks, "_enter": enter, "_modes": modes}
        names |= {"_rules": rules._replace(dtype_at=dtype_at), "_name": function.__name__}
    call: Any = written(role, form, function, name, names)
    # As functools.update_wrapper does, in a third of its time.
    call.__module__, call.__qualname__, call.__name__ = (
        function.__module__,
        function.__qualname__,
        function.__name__,
    )
    call.__doc__, call.__annotations__ = function.__doc__, function.__annotations__
    vars(call).update(vars(function))
    call.__wrapped__ = function
    names["_public"] = call
    if rules is not None:
        call.autocasts, call.bare = rules, function
    return call  # type: ignore[no-any-return]


def text_of(role: str, form: Form) -> str:
    """The source of the pattern of a role for functions of a form.

    A default stands for that of the function: where it is ``ABSENT``, the function has none.
    """
    # Imported where a text is put together: the package needs none.
    from textwrap import indent

    aliased, casts = role in (ALIASED, ALIASED_CASTING), role in (COMPLETED_CASTING, ALIASED_CASTING, CASTING)
    # Those that only families call have no further names.
    sequences = frozenset[str]() if role in (CASTING, IN_PLACE) else _SEQUENCES
    without = "out" if role == IN_PLACE else ""
    parameters = [each for each in form.parameters() if each.name != without]
    names = {each.name for each in parameters}
    aliases = {
        each.name: _ALIASES[each.name]
        for each in parameters
        if aliased and each.name in _ALIASES and _ALIASES[each.name] not in names
    }
    heads, passed, steps = [], [], []
    keyword_only = optional = False
    for each in parameters:
        default = ""
        optional = optional or each.name in aliases
        if each.optional:
            default = "=None"
        elif optional and each.kind == "either":
            default = "=ABSENT"
            steps.append(f"    if {each.name} is _absent: raise _missing(_name, {each.name!r})")
        if each.kind == "named" and not keyword_only:
            heads.append("*")
        keyword_only = keyword_only or each.kind in ("named", "starred")
        stars = "*" if each.kind == "starred" else "**" if each.kind == "double starred" else ""
        if stars == "*" and each.name in sequences:
            heads += [f"*_{each.name}", f"{each.name}=ABSENT"]
            passed.append(f"*_{each.name}")
            steps.append(_SEQUENCE.format(own=each.name))
            continue
        heads.append(f"{stars}{each.name}{default}")
        by_name = f"{each.name}=" if each.kind == "named" else ""
        passed.append(f"{by_name}{stars}{each.name}")
    if aliases and not keyword_only:
        heads.append("*")
    for own, alias in aliases.items():
        heads.append(f"{alias}=ABSENT")
        steps.insert(0, _ALIAS.format(own=own, alias=alias))
    if role == IN_PLACE:
        passed.append("out=_in_place")
    return _CALL.format(
        heads=", ".join(heads),
        steps="\n".join(steps),
        passed=", ".join(passed),
        cast=indent(_CAST.format(**_cast_arguments(form, sequences)), "    ") if casts else "",
        arguments=_named_arguments(parameters, sequences),
    )


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

_CAST = """
    if _blocks.count{unless}:
        _args, _named, _casts = _enter(_name, _rules, ({args}), {{{named}}})
        try:
            return _function(*_args, **_named)
        finally:
            if _casts is not None:
                _modes.autocast = _casts"""

_CALL = """
def _call({heads}):
{steps}
    try:{cast}
        return _function({passed})
    except (AttributeError, TypeError, _SparseOperandError) as _error:
        _arguments = ({arguments})
        if isinstance(_error, _SparseOperandError):
            return _answer(_error, _function, _name, _arguments)
        _clearer = _explanation(_error, _function, _name, _arguments)
        if _clearer is None:
            raise
        if _clearer.__class__ is _Answer:
            return _clearer.of(_public)
        raise _clearer from None
"""


def _named_arguments(parameters: list[Parameter], collected: frozenset[str]) -> str:
    """Names and values of the arguments, for the error about a wrong one; of ``collected`` ones, those given one by one."""
    return "".join(
        f"({each.name!r}, {'_' if each.kind == 'starred' and each.name in collected else ''}{each.name}), "
        for each in parameters
    )


def _cast_arguments(form: Form, collected: frozenset[str]) -> dict[str, str]:
    """How the arguments are handed to ``enter``: by position, and by name.

    Starred ones that are in ``collected`` have an underscore before their name there.
    """
    args, named = [], []
    for each in form.parameters():
        if each.kind == "named":
            named.append(each.name)
        else:
            stars = "*_" if each.name in collected else "*"
            args.append(f"{stars}{each.name}" if each.kind == "starred" else each.name)
    has_out = "out" in named or "out" in args
    return {
        "unless": " and out is None" if has_out else "",
        "args": "".join(f"{each}, " for each in args),
        "named": ", ".join(f"{each!r}: {each}" for each in named if each != "out"),
    }


def _dtype_at(form: Form) -> int | str | None:
    """Where ``dtype`` is among the arguments: by position, by name, or not at all."""
    for position, each in enumerate(form.parameters()):
        if each.name == "dtype":
            return "dtype" if each.kind == "named" else position
    return None


def _twice(name: str, own: str, alias: str) -> TypeError:
    return TypeError(f"{name}() got arguments '{own}' and '{alias}', which mean the same")


def _missing(name: str, argument: str) -> TypeError:
    return TypeError(f"{name}() missing 1 required argument: '{argument}'")


#: What all functions call, beside what is theirs alone.
_CALLED = {
    "_absent": ABSENT,
    "_twice": _twice,
    "_missing": _missing,
    "_explanation": explanation,
    "_Answer": Answer,
    "_SparseOperandError": SparseOperandError,
    "_answer": answer,
}


#: The patterns of all functions that were written out, in the order in which they were asked for.
patterns: dict[tuple[str, Form], FunctionType] = {}


def _pattern(role: str, form: Form) -> FunctionType:
    """A function that has the parameters and the code of a role and a form.

    It is in :mod:`.written_forms`, which ``python -m tools.stubs`` writes, or, for a definition that came later, compiled.
    """
    key = role, form
    pattern: Any = patterns.get(key) or FORMS.get(key)
    if pattern is None:
        file = f"<tensor call form {len(patterns)}>"
        source = text_of(role, form).strip()
        # Without a time of change, linecache keeps what no file has.
        linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
        namespace: dict[str, Any] = {"ABSENT": ABSENT}
        exec(compile(source, file, "exec"), namespace)
        pattern = namespace["_call"]
    result: FunctionType = pattern
    patterns[key] = result
    return result


def written(
    role: str, form: Form, function: FunctionType, name: str, namespace: dict[str, Any]
) -> FunctionType:
    """The function of a role for ``function``, which has the form, under ``name``, with ``namespace`` as its globals."""
    pattern = _pattern(role, form)
    code, own = pattern.__code__, form.defaults(function)
    first, end = code.co_argcount - len(pattern.__defaults__ or ()), code.co_argcount
    # Tracebacks show the name of the code.
    call = FunctionType(
        code.replace(co_name=name, co_qualname=name),
        namespace,
        name,
        tuple([own.get(each, ABSENT) for each in code.co_varnames[first:end]]),
    )
    if pattern.__kwdefaults__:
        call.__kwdefaults__ = {each: own.get(each, ABSENT) for each in pattern.__kwdefaults__}
    return call


class Parameter(NamedTuple):
    """A parameter, as far as the text of a function depends on it: not on the value of its default."""

    name: str
    #: "either" (by position or by name), "named", "starred" or "double starred".
    kind: str
    optional: bool


class Form(NamedTuple):
    """What the parameters of a function are called and how they are given: functions of one form share their text."""

    #: As the code has them: by position, by name, starred, double starred.
    names: tuple[str, ...]
    positional: int
    named: int
    starred: bool
    double_starred: bool
    optional_positional: int
    optional_names: tuple[str, ...]

    @classmethod
    def of(cls, function: FunctionType) -> Form:
        """That of a function, or of the one that it wraps; many times quicker than ``inspect.signature``."""
        return _form_of(_wrapped(function))

    def defaults(self, function: FunctionType) -> dict[str, Any]:
        """Defaults of a function of this form by the names of the parameters that have one."""
        names = self.names[self.positional - self.optional_positional : self.positional]
        return dict(zip(names, function.__defaults__ or (), strict=True)) | (function.__kwdefaults__ or {})

    def has_aliases(self) -> bool:
        """Whether NumPy has other names for some of the parameters."""
        names = self.names
        return not self.double_starred and any(
            own in names and alias not in names for own, alias in _ALIASES.items()
        )

    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in the order in which a definition writes them."""
        first_optional, end = self.positional - self.optional_positional, self.positional + self.named
        result = [
            Parameter(name, "either", position >= first_optional)
            for position, name in enumerate(self.names[: self.positional])
        ]
        if self.starred:
            result.append(Parameter(self.names[end], "starred", False))
        result += [
            Parameter(name, "named", name in self.optional_names)
            for name in self.names[self.positional : end]
        ]
        if self.double_starred:
            result.append(Parameter(self.names[-1], "double starred", False))
        return tuple(result)


# A definition asks for that of its function several times in a row.
@lru_cache(maxsize=4)
def _form_of(function: FunctionType) -> Form:
    code = code_of(function)
    positions, named = code.co_argcount, code.co_kwonlyargcount
    starred = bool(code.co_flags & inspect.CO_VARARGS)
    double_starred = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return Form(
        code.co_varnames[: positions + named + starred + double_starred],
        positions,
        named,
        starred,
        double_starred,
        len(function.__defaults__ or ()),
        tuple(function.__kwdefaults__ or ()),
    )


def defaults(function: FunctionType) -> dict[str, Any]:
    """Defaults by the names of the parameters that have one."""
    function = _wrapped(function)
    return _form_of(function).defaults(function)


def _wrapped(function: FunctionType) -> FunctionType:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
