"""Classes and modes that take over operations: ``__torch_function__``, as PyTorch has it.

A subclass of :class:`~tensor.Tensor` stays one: what functions and methods return for its objects is of the class, as the
``__torch_function__`` that it inherits does. One of its own sees each call first. Any other object with the attribute,
and a :class:`TorchFunctionMode` that is entered, do the same.

As long as there is no such object and no mode, functions do not ask for them, and cost what they cost without. From the
first on, every call of a public function asks its arguments.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Self

from tensor.core.base import TensorBase
from tensor.core.names.absent import hints as _hints
from tensor.methods.overriding import interception as _interception
from tensor.methods.overriding import protocol as _protocol
from tensor.methods.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]


class TorchFunctionMode:
    """In ``with``, takes over all calls of public functions and methods in this thread.

    Override ``__torch_function__(self, func, types, args=(), kwargs=None)``; inside of it the mode is not active, so that
    ``func(*args, **kwargs)`` computes. Modes nest, and the innermost is asked first.

    Examples
    --------
    >>> class Doubling(tensor.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         result = func(*args, **(kwargs or {}))
    ...         return result * 2 if func is tensor.ones else result
    >>> with Doubling():
    ...     tensor.ones(2)
    tensor([2., 2.])
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Answer a call; NotImplemented leaves it to the arguments. Raises NotImplementedError where not overridden."""
        raise NotImplementedError(
            f"{type(self).__name__} has no __torch_function__: define it as __torch_function__(self, func, types, args=(), "
            "kwargs=None)"
        )

    def __enter__(self) -> Self:
        _interception.intercept()
        _protocol.overriding.modes = (*_protocol.overriding.modes, self)
        return self

    def __exit__(self, *exception: object) -> None:
        _protocol.overriding.modes = _protocol.overriding.modes[:-1]


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of ``relevant_args``, or a mode that is entered, takes over calls.

    Tensors, parameters and what has no ``__torch_function__`` do not.

    Examples
    --------
    >>> tensor.overrides.has_torch_function((tensor.ones(2), 3))
    False
    """
    return _protocol.has_overrides(relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """The answer of a mode, or of one of ``relevant_args``, to a call of ``public_api`` with ``args`` and ``kwargs``.

    For functions in Python that let arguments take over. Raises TypeError if all of them return NotImplemented.

    Examples
    --------
    >>> def twice(x):
    ...     if tensor.overrides.has_torch_function((x,)):
    ...         return tensor.overrides.handle_torch_function(twice, (x,), x)
    ...     return 2 * x
    >>> twice(tensor.ones(1))
    tensor([2.])
    """
    return _protocol.call_overrides(public_api, relevant_args, args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Any], Any]:
    """Decorator for a function that lets arguments take over: ``dispatcher`` returns those that may, of all.

    Examples
    --------
    >>> @tensor.overrides.wrap_torch_function(lambda x: (x,))
    ... def twice(x):
    ...     return 2 * x
    >>> twice(tensor.ones(1))
    tensor([2.])
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def asking(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(asking, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return asking

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a tensor, or has a ``__torch_function__``.

    Examples
    --------
    >>> tensor.overrides.is_tensor_like(tensor.ones(1)), tensor.overrides.is_tensor_like([1.0])
    (True, False)
    """
    return isinstance(inp, TensorBase) or hasattr(inp, "__torch_function__")


def get_overridable_functions() -> dict[Any, list[Any]]:
    """Functions that ``__torch_function__`` may take over, by the module or class that they are found in.

    Keys are ``"tensor"``, ``"nn.functional"``, ``"linalg"``, ``"special"``, ``"fft"``, the class ``Tensor``, and the names
    of its properties.
    """
    functions = _interception.overridable_functions()
    return {(Tensor if name == "Tensor" else name): each for name, each in functions.items()}


def get_testing_overrides() -> dict[Any, Callable[..., int]]:
    """For each overridable function one of the same signature, which returns -1: for tests of handlers.

    Examples
    --------
    >>> tensor.overrides.get_testing_overrides()[tensor.add](tensor.ones(1), 2)
    -1
    """
    functions = _interception.overridable_functions()
    return {each: _stand_in(each) for rows in functions.values() for each in rows}


def _stand_in(function: Callable[..., Any]) -> Callable[..., int]:
    def answer(*args: Any, **kwargs: Any) -> int:
        signature.bind(*args, **kwargs)
        return -1

    signature = inspect.signature(function)
    answer.__signature__ = signature  # type: ignore[attr-defined]
    return answer


def get_ignored_functions() -> set[Any]:
    """Public functions that no ``__torch_function__`` sees: those that make objects of classes, and hash them.

    Examples
    --------
    >>> tensor.Tensor.as_subclass in tensor.overrides.get_ignored_functions()
    True
    """
    ignored = (Tensor.as_subclass, Tensor.__new__, Tensor.__init__, Tensor.__hash__, Tensor.__dir__)
    return {*ignored, Tensor._make_subclass}


def resolve_name(f: Any) -> str | None:
    """The name of an overridable function ``f`` as PyTorch's users know it, or ``None``.

    Examples
    --------
    >>> tensor.overrides.resolve_name(tensor.add), tensor.overrides.resolve_name(tensor.Tensor.shape.__get__)
    ('torch.add', 'torch.Tensor.shape.__get__')
    """
    return _interception.name_of(f)


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether ``func``, as a ``__torch_function__`` is told it, is a method or a property of tensors.

    Examples
    --------
    >>> tensor.overrides.is_tensor_method_or_property(tensor.Tensor.add)
    True
    """
    if getattr(func, "__name__", "") in ("__get__", "__set__"):
        return True
    return any(func is each for each in _interception.overridable_functions()["Tensor"])


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Change nothing inside: for programs that run with PyTorch, too.

    There is one level of dispatch here, which every call of a public function passes.
    """
    yield


def redispatch_function(func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    """Call ``func`` with ``args`` and ``kwargs``, which does not ask for ``__torch_function__`` this once; functions that it calls do.

    For a ``__torch_function__`` that sees what ``func`` is made of, too; ``types`` is what it was told.
    """
    return _protocol.redispatch(func, tuple(args), dict(kwargs or {}))


__getattr__ = _hints(__name__)
