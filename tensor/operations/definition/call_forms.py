"""How functions and methods may be called: with NumPy's names of arguments, under autocast, in place, and errors that
name arguments.

The function that a family defines takes PyTorch's arguments. What users call is one function around it that also takes
``axis`` and ``keepdims`` for ``dim`` and ``keepdim``, casts what an autocast block says, and turns the AttributeError
about an argument that should have been a tensor, which the families do not ask about as asking costs time, into an error
that names the argument. It is written out with all parameters, since that is the fastest way to pass them on: in
:mod:`.written_forms`, a file like any other, so that tracebacks show its lines.
"""

from __future__ import annotations

import inspect
import linecache
from functools import cache, lru_cache
from hashlib import blake2b
from textwrap import indent
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from tensor.core.modes.autocast import autocast_blocks
from tensor.core.modes.grad_mode import modes
from tensor.core.sparse import SparseOperandError
from tensor.operations.autocast import enter
from tensor.operations.sparse_rules import answer

from .catalogue import published
from .exchanged_code import code_of
from .written_forms import FORMS
from .wrong_arguments import Answer, explanation

if TYPE_CHECKING:
    from types import CodeType

    from tensor.operations.autocast import Autocast

#: Names of parameters that are tensors, or sequences of them, whatever else they may be.
_TENSORS = frozenset(("self", "tensors"))
#: NumPy's names of parameters.
_ALIASES = {"dim": "axis", "keepdim": "keepdims"}
#: Sequences that may be given one by one, as one argument, or by name.
_SEQUENCES = frozenset(("dims", "repeats", "shape", "size"))
_ABSENT = object()
#: Files that :mod:`linecache` knows the written functions by begin so.
FILE_PREFIX = "<tensor call form "
#: What functions call that gave up: for an argument of a wrong class, and for a sparse tensor.
_FALLBACKS = {
    "_explanation": explanation,
    "_Answer": Answer,
    "_SparseOperandError": SparseOperandError,
    "_answer": answer,
}


def complete_methods(cls: type[Any]) -> None:
    """Let the methods of a class that have a ``dim``, and are not published, take NumPy's names too."""
    for name in set(dir(cls)) - published("Tensor").keys():
        method = getattr(cls, name)
        if isinstance(method, FunctionType) and "dim" in Form.of(method).names:
            setattr(cls, name, completed(method, cls.__module__, name, f"{cls.__name__}."))


def takes_tensors(function: FunctionType, first: int = 0) -> bool:
    """Whether an argument of a function from ``first`` on, other than ``out``, is a tensor, as its annotations say."""
    annotations = function.__annotations__
    return any(
        name in _TENSORS or "Tensor" in str(annotations.get(name, ""))
        for name in Form.of(function).names[first:]
        if name != "out"
    )


def completed(
    function: FunctionType,
    module: str,
    name: str,
    owner: str = "",
    rules: Autocast | None = None,
    *,
    aliases: bool = True,
) -> FunctionType:
    """``function`` with autocast, whose AttributeError about an argument is a TypeError that names it.

    With ``aliases`` it takes NumPy's names of parameters too.
    """
    if hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    form = Form.of(function)
    text, required = _call_text(form, rules is not None, aliases)
    names: dict[str, Any] = {
        "_absent": _ABSENT,
        "_twice": _twice,
        "_missing": _missing,
    }
    names |= {f"_default_{each}": default for each, default in defaults(function).items()}
    names |= {f"_default_{each}": _ABSENT for each in required}
    call = _written(text, function, module, name, names, rules)
    # So that it is pickled by the name that users know.
    call.__module__, call.__qualname__, call.__name__ = module, f"{owner}{name}", name
    return call


def autocasting(function: FunctionType, rules: Autocast) -> FunctionType:
    """``function`` for other functions of families to call: under autocast, with no further names of arguments.

    Between the caller and ``function`` there is one frame, in blocks and outside of them.
    """
    text = _cast_text(Form.of(function))
    names = {f"_default_{each}": default for each, default in defaults(function).items()}
    return _written(text, function, function.__module__, function.__name__, names, rules)


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
    text = _in_place_text(Form.of(function))
    names = {f"_default_{each}": default for each, default in defaults(function).items()}
    name = f"{function.__name__}_"
    names |= {
        "_function": _wrapped(function),
        "_in_place": marker,
        "_name": name,
        **_FALLBACKS,
    }
    names["__name__"] = function.__module__
    call = names["_public"] = written(text, name, names)
    call.__module__, call.__qualname__, call.__name__ = function.__module__, f"Tensor.{name}", name
    call.__doc__ = _IN_PLACE_TEXT.format(
        name=function.__name__,
        written=code_of(call).co_varnames[0],
        summary=(function.__doc__ or "").partition("\n")[0],
    )
    call.__annotations__ = {key: value for key, value in function.__annotations__.items() if key != "out"}
    return call


def _written(
    text: str, function: FunctionType, module: str, name: str, names: dict[str, Any], rules: Autocast | None
) -> FunctionType:
    names |= {"_function": function, "_name": name, "__name__": module, **_FALLBACKS}
    if rules is not None:
        dtype_at = _dtype_at(Form.of(function))
        names |= {"_blocks": autocast_blocks, "_enter": enter, "_modes": modes}
        names |= {"_rules": rules._replace(dtype_at=dtype_at), "_name": function.__name__}
    call: Any = written(text, name, names)
    # As functools.update_wrapper does, in a third of its time: there are a thousand calls while the package is imported.
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


@cache
def _call_text(form: Form, casts: bool, takes_aliases: bool) -> tuple[str, list[str]]:
    """The call that is written out, and the parameters that only look as if they could be left out."""
    parameters = form.parameters()
    names = {each.name for each in parameters}
    takes_aliases = takes_aliases and parameters[-1].kind != "double starred"
    aliases = {
        each.name: _ALIASES[each.name]
        for each in parameters
        if takes_aliases and each.name in _ALIASES and _ALIASES[each.name] not in names
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
    cast = indent(_CAST.format(**_cast_arguments(form, _SEQUENCES)), "    ") if casts else ""
    text = _CALL.format(
        heads=", ".join(heads),
        steps="\n".join(steps),
        passed=", ".join(passed),
        cast=cast,
        arguments=_named_arguments(form, _SEQUENCES),
    )
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
    except (AttributeError, TypeError) as _error:
        _clearer = _explanation(_error, _function, _name, ({arguments}))
        if _clearer is None:
            raise
        if _clearer.__class__ is _Answer:
            return _clearer.of(_public)
        raise _clearer from None
    except _SparseOperandError as _error:
        return _answer(_error, _function, _name, ({arguments}))
"""


@cache
def _cast_text(form: Form) -> str:
    heads, passed = _heads(form)
    cast = indent(_CAST.format(**_cast_arguments(form)), "    ")
    return _CALL.format(heads=heads, steps="", passed=passed, cast=cast, arguments=_named_arguments(form))


@cache
def _in_place_text(form: Form) -> str:
    heads, passed = _heads(form, without="out")
    passed += ", out=_in_place"
    return _CALL.format(
        heads=heads, steps="", passed=passed, cast="", arguments=_named_arguments(form, without="out")
    )


def _heads(form: Form, without: str = "") -> tuple[str, str]:
    """Parameters as a definition writes them, and as a call passes them on."""
    heads, passed = [], []
    starred = False
    for each in form.parameters():
        if each.name == without:
            continue
        if each.kind == "named" and not starred:
            heads.append("*")
        starred = starred or each.kind in ("named", "starred")
        stars = "*" if each.kind == "starred" else "**" if each.kind == "double starred" else ""
        heads.append(f"{stars}{each.name}" + (f"=_default_{each.name}" if each.optional else ""))
        passed.append(f"{each.name}={each.name}" if each.kind == "named" else f"{stars}{each.name}")
    return ", ".join(heads), ", ".join(passed)


def _named_arguments(form: Form, collected: frozenset[str] = frozenset(), without: str = "") -> str:
    """Names and values of the arguments, for the error about a wrong one; of ``collected`` ones, those given one by one."""
    return "".join(
        f"({each.name!r}, {'_' if each.kind == 'starred' and each.name in collected else ''}{each.name}), "
        for each in form.parameters()
        if each.name != without
    )


def _cast_arguments(form: Form, collected: frozenset[str] = frozenset()) -> dict[str, str]:
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


#: The texts of all functions that were written out, in the order in which they were asked for.
texts: dict[str, CodeType] = {}


def _code_of(text: str) -> CodeType:
    """Code that defines ``_call`` as ``text`` does and returns it, with names looked up in its globals.

    It is in :mod:`.written_forms`, which ``python -m tools.stubs`` writes, or, for a definition that came later, compiled.
    """
    code = texts.get(text)
    if code is None:
        maker = FORMS.get(key_of(text))
        if maker is None:
            namespace: dict[str, Any] = {}
            file = f"{FILE_PREFIX}{len(texts)}>"
            source = maker_text("maker", text)
            # Without a time of change, linecache keeps what no file has.
            linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
            exec(compile(source, file, "exec"), namespace)
            maker = namespace["maker"]
        code = texts[text] = maker.__code__
    return code


def maker_text(name: str, text: str) -> str:
    """The source of a function ``name`` that returns the function ``_call`` which ``text`` defines."""
    return f"def {name}():\n{indent(text.strip(), '    ')}\n    return _call\n"


def key_of(text: str) -> str:
    """What a text is found by."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def written(text: str, name: str, namespace: dict[str, Any]) -> FunctionType:
    """The function ``_call`` that ``text`` defines, under ``name``, with ``namespace`` as its globals."""
    call: FunctionType = FunctionType(_code_of(text), namespace)()
    # Tracebacks show the name of the code.
    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name)
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

    @cache  # noqa: B019 - there are as many forms as lists of parameters
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
    code, positions = code_of(function), function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(positions) : code.co_argcount]
    return dict(zip(names, positions, strict=True)) | (function.__kwdefaults__ or {})


def _wrapped(function: FunctionType) -> FunctionType:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
