"""How functions of :mod:`tensor` and :mod:`nn.functional` notice that an argument is a proxy.

They do not ask their arguments what they are, as that would cost time in every call. While something is traced, and only
then, they are intercepted as for ``vmap`` (:mod:`tensor.func.interception`), in a layer above: so a call is recorded
wherever the program keeps the function, in a module's globals, as an attribute or as a default.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

from nn import functional
from tensor import Tensor, _assert
from tensor.func.interception import Interception
from tensor.operations.definition.catalogue import published
from tensor.operations.definition.exchanged_code import TRACE, Operation

from .proxy import tracer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def _record(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tracer = tracer_of(args, kwargs)
    if tracer is None:
        return operation.below(TRACE)(*args, **kwargs)
    method = _methods().get(operation.function)
    if method is not None:
        return tracer.create_proxy("call_method", method, args, kwargs)
    return tracer.create_proxy("call_function", operation.function, args, kwargs)


def _named() -> set[Any]:
    """The functions that take tensors and are not only methods."""
    spaces = ("tensor", "nn.functional", "linalg", "special", "fft")
    names: set[Any] = {_assert, *(function for space in spaces for function in published(space).values())}
    return names | {
        value
        for name, value in vars(functional).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


@cache
def _methods() -> dict[FunctionType, str]:
    """What functions are called that are nothing but methods."""
    methods = {**published("Tensor"), "__getitem__": Tensor.__getitem__}
    named = _named()
    result: dict[FunctionType, str] = {}
    for name, function in methods.items():
        if isinstance(function, FunctionType) and function not in named:
            result.setdefault(function, name)
    return result


def _functions() -> Iterable[FunctionType]:
    return [each for each in (*_named(), *_methods()) if not each.__code__.co_freevars]


_interception = Interception(TRACE, _record, _functions)


@contextmanager
def functions_ask() -> Iterator[None]:
    """A block in which calls with proxies are recorded by the proxies' tracers."""
    _interception.enter()
    try:
        yield
    finally:
        _interception.leave()
