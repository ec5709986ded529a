"""Operations called through a dispatcher while a ``vmap`` or a symbolic trace runs, and untouched otherwise.

There is no dispatcher between a caller and an operation, and none is added: while any ``vmap`` runs, the code of each
operation's function is replaced by code that calls :mod:`.dispatch`. Whoever holds the function, under whatever name, calls
the replacement, and when the last ``vmap`` ends every function has its own code again, so that nothing is paid outside.
Symbolic tracing (:mod:`nn.fx.interception`) does so too, as a layer above; what it does not record goes to the layer below.
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
        "_active",
        "_code",
        "function",
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
        self.original.__kwdefaults__ = function.__kwdefaults__
        self.names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.positional = code.co_argcount
        self.starred = (
            code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & 4 else None
        )
        self._code = code
        #: Code that stands in for the function's own, by layer.
        self._active: dict[int, CodeType] = {}

    def replacement(self, dispatcher: Callable[..., Any]) -> CodeType:
        """Code that calls ``dispatcher(operation, args, kwargs)``."""
        own = partial(dispatcher, self)
        constants = tuple([own if each == _PLACE else each for each in _template.__code__.co_consts])
        return _template.__code__.replace(
            co_consts=constants, co_name=self._code.co_name, co_qualname=self._code.co_qualname
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
        self.function.__code__ = self._active[max(self._active)] if self._active else self._code

    def below(self, layer: int) -> FunctionType:
        """What callers would come to without ``layer`` and those above it."""
        lower = [each for each in self._active if each < layer]
        if not lower:
            return self.original
        return FunctionType(self._active[max(lower)], self.function.__globals__, self.name)

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


#: Held while code is exchanged.
_lock = threading.Lock()
#: Every function that any layer has intercepted. A function is looked at before its code is exchanged, and only once.
_operations: dict[int, Operation] = {}


class Interception:
    """A layer: functions that are intercepted between the first ``enter`` and the last ``leave`` of any thread.

    Parameters
    ----------
    layer : int
        Its height: of several layers that intercept a function, callers come to the highest.
    dispatcher : callable
        ``dispatcher(operation, args, kwargs)`` answers a call.
    functions : callable
        Gives the functions. It is called again when there are more published ones, as definitions of users may have come.
    """

    def __init__(
        self,
        layer: int,
        dispatcher: Callable[..., Any],
        functions: Callable[[], Iterable[FunctionType]] = _functions,
    ) -> None:
        self._layer = layer
        self._dispatcher = dispatcher
        self._functions = functions
        self._count = 0
        #: How many names there were when the operations were last looked for.
        self._published = 0
        #: The operations, each with the code that stands in for its own.
        self._known: dict[Operation, CodeType] = {}

    def enter(self) -> None:
        """Intercept the functions until :meth:`leave` was called as often."""
        with _lock:
            if not self._count:
                self._find()
                for operation, code in self._known.items():
                    operation.intercept(self._layer, code)
            self._count += 1

    def leave(self) -> None:
        """The inverse of :meth:`enter`."""
        with _lock:
            self._count -= 1
            if not self._count:
                for operation in self._known:
                    operation.release(self._layer)

    def _find(self) -> None:
        published = sum(len(catalogue.published(namespace)) for namespace in _NAMESPACES)
        if published == self._published:
            return
        for function in self._functions():
            operation = _operations.get(id(function))
            if operation is None:
                operation = _operations[id(function)] = Operation(function)
            if operation not in self._known:
                self._known[operation] = operation.replacement(self._dispatcher)
        self._published = published
