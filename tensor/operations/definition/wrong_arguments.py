"""Which argument was wrong, told after the fact: TypeErrors that name it, made from an AttributeError of the inside.

Functions do not ask their arguments what they are, as asking takes time in every call. They fail where they use what is no
tensor, and only then the annotations of the definition say which argument should have been something else.
"""

from __future__ import annotations

import re
from functools import cache
from inspect import CO_VARARGS
from typing import TYPE_CHECKING, Any, NamedTuple

from nvrtc_kernels.dtypes import dtype
from tensor.core.base import TensorBase
from tensor.core.memory_format import memory_format
from tensor.core.names.absent import MissingNameError
from tensor.core.warning import inside

from .exchanged_code import code_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FunctionType


def _is_sequence(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, (str, bytes))


#: What the names in annotations admit.
_ADMITTED: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda value: isinstance(value, TensorBase),
    "None": lambda value: value is None,
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: hasattr(value, "__index__"),
    "int": lambda value: hasattr(value, "__index__"),
    "float": lambda value: hasattr(value, "__float__"),
    "complex": lambda value: hasattr(value, "__float__") or hasattr(value, "__complex__"),
    "dtype": lambda value: isinstance(value, dtype),
    "MemoryFormat": lambda value: isinstance(value, memory_format),
    "Sequence[Tensor]": lambda value: isinstance(value, (list, tuple)),
    "Sequence": _is_sequence,
    "list": _is_sequence,
    "tuple": _is_sequence,
    "Callable": callable,
}
#: How errors call alternatives, where not as annotations do.
_WORDS = {
    "Sequence[Tensor]": "tuple of Tensors",
    "Sequence[Tensor | None]": "tuple of Tensors",
    "Sequence[int]": "tuple of ints",
    "Sequence[float]": "tuple of floats",
    "MemoryFormat": "memory_format",
    "complex": "Number",
}
#: An alternative: a name, and what it is of.
_ALTERNATIVE = r"(\w+)(\[.*?\])?(?: \| |$)"


class _Expected(NamedTuple):
    """What a parameter takes."""

    #: Alternatives, each by the name of its class; none where anything may be given.
    classes: tuple[str, ...]
    words: str
    #: Whether it may be a sequence of tensors.
    of_tensors: bool
    #: Whether it collects arguments that are given one by one.
    starred: bool
    #: Counted from 1; ``None`` for one that is given by name only.
    position: int | None

    def admits(self, value: Any) -> bool:
        return not self.classes or any(_ADMITTED[name](value) for name in self.classes)


class Answer(NamedTuple):
    """A call that an argument takes over, which is no tensor and has a ``__torch_function__``."""

    arguments: dict[str, Any]

    def of(self, public: FunctionType) -> Any:
        """The answer to the call of ``public``."""
        return _asking[0](public, self.arguments)


_asking: list[Callable[[FunctionType, dict[str, Any]], Any]] = []


def ask_with(ask: Callable[[FunctionType, dict[str, Any]], Any]) -> None:
    """Let ``ask(public, arguments)`` answer calls that an argument takes over.

    It is asked when a function has failed at such an argument, and told its arguments by name.
    """
    _asking[:] = [ask]


def _takes_over(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_takes_over, value))
    return not isinstance(value, (TensorBase, type)) and hasattr(value, "__torch_function__")


def explanation(
    error: AttributeError | TypeError,
    function: FunctionType,
    name: str,
    arguments: tuple[tuple[str, Any], ...],
) -> TypeError | Answer | None:
    """The TypeError that says which argument of ``function`` an AttributeError is about; ``None`` if it is about none.

    Where an argument takes over calls, it is its :class:`Answer`.

    It is about none if the user's own code raised it, or if all arguments are what the annotations say.
    """
    if _asking and any(_takes_over(value) for _, value in arguments):
        return Answer(dict(arguments))
    if not isinstance(error, AttributeError) or error.name is None or not _of_the_inside(error):
        return None
    culprit = error.owner if isinstance(error, MissingNameError) else error.obj
    suspects, elements = [], []
    for argument, value in arguments:
        expected = _expected(function, argument)
        values = value if expected.starred else (value,)
        if expected.starred and len(value) == 1 and isinstance(value[0], (list, tuple)) and value[0]:
            values = value = value[0]
        wrong = next((each for each in values if not expected.admits(each)), _NOTHING)
        if wrong is not _NOTHING:
            suspects.append((wrong, f"{_of(argument, expected)} must be {expected.words}"))
        elif value is culprit and not (expected.classes or value is None or isinstance(value, TensorBase)):
            suspects.append((value, f"{_of(argument, expected)} cannot be"))
        if isinstance(value, (list, tuple)) and expected.of_tensors:
            elements += [
                (each, f"element {position} in {_of(argument, expected)}")
                for position, each in enumerate(value)
                if each is culprit and not isinstance(each, TensorBase)
            ]
    for value, told in suspects:
        if value is culprit and not elements:
            return _type_error(name, told, value)
    for value, told in elements:
        return TypeError(f"{name}(): expected Tensor as {told}, but got {type(value).__name__}")
    return _type_error(name, suspects[0][1], suspects[0][0]) if suspects else None


_NOTHING = object()


def _of_the_inside(error: AttributeError) -> bool:
    """Whether the innermost function that an error left is one of these packages, and no code that they call."""
    traceback = error.__traceback__
    frames = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    # What raises for a name that is not there is a function of ours, too: its caller is meant.
    innermost = -2 if isinstance(error, MissingNameError) else -1
    return len(frames) >= -innermost and inside(frames[innermost])


def _type_error(name: str, told: str, value: Any) -> TypeError:
    return TypeError(f"{name}(): {told}, not {type(value).__name__}")


def _of(argument: str, expected: _Expected) -> str:
    shown = f"argument '{'input' if argument == 'self' else argument}'"
    return shown if expected.position is None else f"{shown} (position {expected.position})"


@cache
def _expected(function: FunctionType, argument: str) -> _Expected:
    code = code_of(function)
    by_place = code.co_varnames[: code.co_argcount]
    starred = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :][
        : bool(code.co_flags & CO_VARARGS)
    ]
    position = (*by_place, *starred).index(argument) + 1 if argument in (*by_place, *starred) else None
    text = str(function.__annotations__.get(argument, "Tensor" if argument == "self" else "Any"))
    alternatives = [(each[1], each[1] + (each[2] or "")) for each in re.finditer(_ALTERNATIVE, text)]
    classes = tuple(full if full in _ADMITTED else name for name, full in alternatives)
    if not all(name in _ADMITTED for name in classes):
        classes = ()
    words = " or ".join(_WORDS.get(full, full) for _, full in alternatives if full != "None")
    of_tensors = argument in starred or not classes or "[Tensor" in text
    return _Expected(classes, words, of_tensors, argument in starred, position)
