"""Operations called through :mod:`.dispatch` while a ``vmap`` runs, and untouched otherwise.

There is no dispatcher between a caller and an operation, and none is added: while any ``vmap`` runs, the code of each
operation's function is replaced by code that calls the dispatcher. Whoever holds the function, under whatever name, calls
the replacement, and when the last ``vmap`` ends every function has its own code again, so that nothing is paid outside.
"""

from __future__ import annotations

import threading
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from tensor.autograd import differentiation
from tensor.autograd.function import Function
from tensor.methods.tensor import Tensor
from tensor.operations.creation import conversions, copies
from tensor.operations.definition import catalogue
from tensor.operations.indexing import subscripts
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.random import dropout
from tensor.operations.recurrent import recurrent
from tensor.operations.shapes import views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: Namespaces whose functions are operations.
_NAMESPACES = ("tensor", "Tensor", "linalg", "nn.functional", "special", "fft")
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
    key : str
        Its name behind the last part of its module's name, as ``"softmax.log_softmax"``.
    path : str
        Its name behind the last two parts.
    """

    __slots__ = (
        "_code",
        "_replacement",
        "function",
        "key",
        "name",
        "names",
        "original",
        "path",
        "positional",
        "starred",
    )

    def __init__(self, function: FunctionType, dispatcher: Callable[..., Any]) -> None:
        code = function.__code__
        self.function = function
        self.name = function.__name__
        self.key = f"{function.__module__.rpartition('.')[2]}.{self.name}"
        self.path = ".".join((*function.__module__.split(".")[-2:], self.name))
        self.original = FunctionType(
            code, function.__globals__, self.name, function.__defaults__, function.__closure__
        )
        self.original.__kwdefaults__ = function.__kwdefaults__
        self.names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.positional = code.co_argcount
        self.starred = (
            code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & 4 else None
        )
        self._code = code
        own = partial(dispatcher, self)
        constants = tuple([own if each == _PLACE else each for each in _template.__code__.co_consts])
        self._replacement: CodeType = _template.__code__.replace(
            co_consts=constants, co_name=code.co_name, co_qualname=code.co_qualname
        )

    def intercept(self) -> None:
        """Let callers come to the dispatcher."""
        self.function.__code__ = self._replacement

    def release(self) -> None:
        """Let callers come to the function's own code."""
        self.function.__code__ = self._code

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


def _functions() -> Iterator[FunctionType]:
    for namespace in _NAMESPACES:
        for function in catalogue.published(namespace).values():
            yield _definition(function)
    further: tuple[Any, ...] = (
        subscripts.get,
        subscripts.put,
        views.reverse_dimensions,
        views.matrix_transpose,
        copies.contiguous,
        conversions.as_bool,
        conversions.as_index,
        conversions.as_int,
        conversions.as_float,
        conversions.as_complex,
        differentiation.grad,
        Tensor.detach,
        Tensor.detach_,
        dropout.drop,
        recurrent.recur,
        Pointwise.unary,
        Pointwise.binary,
        Pointwise.__call__,
        Pointwise.in_place,
        Pointwise.out,
    )
    yield from further
    yield Function.apply.__func__  # type: ignore[attr-defined]


def _definition(function: Any) -> FunctionType:
    """The function that a family defines, of any of its forms."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    if "_in_place" in function.__globals__ and "_function" in function.__globals__:
        return _definition(function.__globals__["_function"])
    return function  # type: ignore[no-any-return]


class Interception:
    """All operations, intercepted between the first ``enter`` and the last ``leave`` of any thread."""

    def __init__(self, dispatcher: Callable[..., Any]) -> None:
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        self._count = 0
        #: How many names there were when the operations were last looked for.
        self._published = 0
        self._known: dict[int, Operation] = {}

    def enter(self) -> None:
        """Intercept operations until :meth:`leave` was called as often."""
        with self._lock:
            if not self._count:
                for operation in self._operations():
                    operation.intercept()
            self._count += 1

    def leave(self) -> None:
        """The inverse of :meth:`enter`."""
        with self._lock:
            self._count -= 1
            if not self._count:
                for operation in self._known.values():
                    operation.release()

    def _operations(self) -> Iterable[Operation]:
        # Definitions of users may have come since.
        published = sum(len(catalogue.published(namespace)) for namespace in _NAMESPACES)
        if published != self._published:
            for function in _functions():
                if id(function) not in self._known:
                    self._known[id(function)] = Operation(function, self._dispatcher)
            self._published = published
        return self._known.values()
