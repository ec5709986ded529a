"""Functions whose code is exchanged for a while: how calls of operations are intercepted at no cost to any other time.

Several layers may intercept a function at once; callers come to the highest. A function stays the object that it is, so
that whoever holds it, under whatever name, calls what stands in for it. What asks for the parameters of a function that may
be intercepted asks :func:`code_of`.
"""

from __future__ import annotations

import threading
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Layers of interception, from the lowest: functions of samples, symbolic traces, classes and modes that take over calls.
VMAP, TRACE, OVERRIDES = range(3)
_PLACE = "the dispatcher"


def _template(*args: Any, **kwargs: Any) -> Any:
    dispatcher: Any = "the dispatcher"
    return dispatcher(args, kwargs)


class Operation:
    """A function that is intercepted.

    Attributes
    ----------
    function : function
        As everybody calls it.
    original : function
        What it does when nothing is intercepted.
    code : code
        Its own, whatever stands in for it.
    key : str
        Its name behind the last part of its module's name, as ``"softmax.log_softmax"``.
    path : str
        Its name behind the last two parts.
    """

    __slots__ = (
        "_active",
        "code",
        "function",
        "is_alone",
        "key",
        "name",
        "names",
        "original",
        "path",
        "positional",
        "starred",
    )

    def __init__(self, function: FunctionType) -> None:
        code = function.__code__
        self.function = function
        self.name = function.__name__
        self.key = f"{function.__module__.rpartition('.')[2]}.{self.name}"
        self.path = ".".join((*function.__module__.split(".")[-2:], self.name))
        self.original = FunctionType(
            code, function.__globals__, self.name, function.__defaults__, function.__closure__
        )
        #: Whether no more than one layer intercepts it.
        self.is_alone = True
        self.original.__kwdefaults__ = function.__kwdefaults__
        self.original.__annotations__ = function.__annotations__
        self.names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.positional = code.co_argcount
        self.starred = (
            code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & 4 else None
        )
        self.code = code
        #: Code that stands in for the function's own, by layer.
        self._active: dict[int, CodeType] = {}

    def replacement(self, dispatcher: Callable[..., Any]) -> CodeType:
        """Code that calls ``dispatcher(operation, args, kwargs)``."""
        own = partial(dispatcher, self)
        constants = tuple([own if each == _PLACE else each for each in _template.__code__.co_consts])
        return _template.__code__.replace(
            co_consts=constants,
            # As many cells as the function's closure has, which cannot be exchanged.
            co_freevars=self.code.co_freevars,
            co_name=self.code.co_name,
            co_qualname=self.code.co_qualname,
        )

    def intercept(self, layer: int, code: CodeType) -> None:
        """Let callers come to ``code``, unless a higher layer has code of its own."""
        self._active[layer] = code
        self._show()

    def release(self, layer: int) -> None:
        """Let callers come to what is below ``layer``: in the end, to the function's own code."""
        del self._active[layer]
        self._show()

    def _show(self) -> None:
        self.is_alone = len(self._active) < 2
        self.function.__code__ = self._active[max(self._active)] if self._active else self.code

    def below(self, layer: int) -> FunctionType:
        """What callers would come to without ``layer`` and those above it."""
        lower = [each for each in self._active if each < layer]
        if not lower:
            return self.original
        function = self.function
        return FunctionType(
            self._active[max(lower)], function.__globals__, self.name, None, function.__closure__
        )

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by name, those that were left out not among them."""
        result = dict(zip(self.names[: self.positional], args, strict=False))
        if self.starred is not None:
            result[self.starred] = args[self.positional :]
        result.update(kwargs)
        return result

    def call(self, arguments: dict[str, Any]) -> Any:
        """Call the function, on tensors of lower levels."""
        rest = dict(arguments)
        starred = rest.pop(self.starred, ()) if self.starred is not None else ()
        if starred:
            leading = [rest.pop(name) for name in self.names[: self.positional]]
            return self.function(*leading, *starred, **rest)
        first = self.names[: self.positional]
        leading = []
        for name in first:
            if name not in rest:
                break
            leading.append(rest.pop(name))
        return self.function(*leading, **rest)


def intercept_all(layer: int, codes: dict[Operation, CodeType]) -> None:
    """:meth:`Operation.intercept` for many functions: a ``vmap`` begins with hundreds, so each costs as little as can be."""
    for operation, code in codes.items():
        active = operation._active
        if active:
            operation.intercept(layer, code)
        else:
            active[layer] = operation.function.__code__ = code


def release_all(layer: int, operations: Iterable[Operation]) -> None:
    """:meth:`Operation.release` for many functions."""
    for operation in operations:
        if operation.is_alone:
            operation._active.clear()
            operation.function.__code__ = operation.code
        else:
            operation.release(layer)


#: Held while code is exchanged.
lock = threading.Lock()
#: Every function that any layer has intercepted. A function is looked at before its code is exchanged, and only once.
_operations: dict[int, Operation] = {}


def operation_of(function: FunctionType) -> Operation:
    """The one object for a function that is intercepted."""
    operation = _operations.get(id(function))
    if operation is None:
        operation = _operations[id(function)] = Operation(function)
    return operation


def code_of(function: FunctionType) -> CodeType:
    """The code that a function was defined with."""
    operation = _operations.get(id(function))
    return function.__code__ if operation is None else operation.code
