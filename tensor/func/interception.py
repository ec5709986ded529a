"""Operations called through a dispatcher while a ``vmap`` or a symbolic trace runs, and untouched otherwise.

There is no dispatcher between a caller and an operation, and none is added: while any ``vmap`` runs, the code of each
operation's function is replaced by code that calls :mod:`.dispatch` (:mod:`tensor.operations.definition.exchanged_code`).
Whoever holds the function, under whatever name, calls the replacement, and when the last ``vmap`` ends every function has
its own code again, so that nothing is paid outside.
Symbolic tracing (:mod:`nn.fx.interception`) does so too, as a layer above; what it does not record goes to the layer below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.autograd import differentiation
from tensor.autograd.function import Function
from tensor.methods.tensor import Tensor
from tensor.operations.creation import conversions, copies
from tensor.operations.definition import catalogue
from tensor.operations.definition.exchanged_code import (
    Operation,
    intercept_all,
    lock,
    operation_of,
    release_all,
)
from tensor.operations.indexing import subscripts
from tensor.operations.pointwise_operation import Pointwise
from tensor.operations.random import dropout
from tensor.operations.recurrent import recurrent
from tensor.operations.shapes import views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType, FunctionType

#: Namespaces whose functions are operations.
_NAMESPACES = ("tensor", "Tensor", "linalg", "nn.functional", "special", "fft")


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
        with lock:
            if not self._count:
                self._find()
                intercept_all(self._layer, self._known)
            self._count += 1

    def leave(self) -> None:
        """The inverse of :meth:`enter`."""
        with lock:
            self._count -= 1
            if not self._count:
                release_all(self._layer, self._known)

    def _find(self) -> None:
        published = sum(len(catalogue.published(namespace)) for namespace in _NAMESPACES)
        if published == self._published:
            return
        for function in self._functions():
            operation = operation_of(function)
            if operation not in self._known:
                self._known[operation] = operation.replacement(self._dispatcher)
        self._published = published
