"""How functions of :mod:`tensor` and :mod:`nn.functional` notice that an argument is a proxy.

They do not ask their arguments what they are, as that would cost time in every call. While something is traced, and only
then, the code of each function is exchanged for one that asks: so it is recorded wherever the program keeps the function,
in a module's globals, as an attribute or as a default.
"""

from __future__ import annotations

import inspect
import threading
from contextlib import contextmanager
from functools import cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

from nn import functional
from tensor import Tensor, _assert
from tensor.operations.definition.catalogue import published

from .proxy import tracer_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def _asking(*args: Any, _answer: Any, **kwargs: Any) -> Any:
    return _answer(args, kwargs)


def _answer(function: FunctionType, original: FunctionType, method: str, args: Any, kwargs: Any) -> Any:
    tracer = tracer_of(args, kwargs)
    if tracer is None:
        return original(*args, **kwargs)
    if method:
        return tracer.create_proxy("call_method", method, args, kwargs)
    return tracer.create_proxy("call_function", function, args, kwargs)


@cache
def _functions() -> list[tuple[FunctionType, str]]:
    """The functions that take tensors, and what they are called if they are nothing but methods."""
    spaces = ("tensor", "nn.functional", "linalg", "special", "fft")
    names = {function: "" for space in spaces for function in published(space).values()}
    names[_assert] = ""  # type: ignore[index]
    for name, value in vars(functional).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            names.setdefault(value, "")
    methods = {**published("Tensor"), "__getitem__": Tensor.__getitem__}
    for name, function in methods.items():
        if isinstance(function, FunctionType):
            names.setdefault(function, name)
    return [(function, name) for function, name in names.items() if not function.__code__.co_freevars]


class _Exchange:
    """How many traces are going on; the first one exchanges the code, the last one puts it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traces = 0
        self._originals: list[tuple[FunctionType, Any, Any]] = []

    def begin(self) -> None:
        with self._lock:
            self._traces += 1
            if self._traces > 1:
                return
            for function, method in _functions():
                named = function.__kwdefaults__
                original = FunctionType(
                    function.__code__, function.__globals__, function.__name__, function.__defaults__
                )
                original.__kwdefaults__ = named
                self._originals.append((function, function.__code__, named))
                # In this order another thread that calls the function meanwhile is served by either code.
                function.__kwdefaults__ = {
                    **(named or {}),
                    "_answer": partial(_answer, function, original, method),
                }
                function.__code__ = _asking.__code__.replace(co_name=function.__name__)

    def end(self) -> None:
        with self._lock:
            self._traces -= 1
            if self._traces:
                return
            for function, code, named in self._originals:
                function.__code__ = code
                function.__kwdefaults__ = named
            self._originals.clear()


_exchange = _Exchange()


@contextmanager
def functions_ask() -> Iterator[None]:
    """A block in which calls with proxies are recorded by the proxies' tracers."""
    _exchange.begin()
    try:
        yield
    finally:
        _exchange.end()
