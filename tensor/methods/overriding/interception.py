"""How public functions come to ask for ``__torch_function__``: on demand.

As long as a process has no object and no mode that overrides, functions do not ask: not one instruction is spent on it.
The first such object, or mode, *intercepts* them all: the code of every public function and method is exchanged for code
that asks, and calls the original. Functions stay the objects that they were, so that names that a program imported
before ask as well, and ``func is tensor.add`` holds in a handler (:mod:`tensor.operations.definition.exchanged_code`).
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tensor.core.base import tensor_class
from tensor.operations.definition.call_forms import Form, defaults
from tensor.operations.definition.catalogue import namespaces, observe, published
from tensor.operations.definition.exchanged_code import OVERRIDES, Operation, lock, operation_of
from tensor.operations.definition.wrong_arguments import ask_with

from .protocol import PLAIN, call_overrides, converted, flattened, overrides, overriding, skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Methods of Python's that handlers see as others, as they do in PyTorch.
_OPERATORS = {
    "abs": "abs", "add": "add", "radd": "add", "iadd": "add_", "sub": "sub", "isub": "sub_", "mul": "mul", "rmul": "mul",
    "imul": "mul_", "truediv": "div", "itruediv": "div_", "ifloordiv": "floor_divide_", "mod": "remainder",
    "imod": "remainder_", "ge": "ge", "gt": "gt", "le": "le", "lt": "lt", "ne": "ne", "neg": "neg", "pos": "positive",
    "matmul": "matmul", "rand": "bitwise_and", "ror": "bitwise_or", "rxor": "bitwise_xor", "str": "__repr__",
}  # fmt: skip
_PUBLIC_NAMES = {f"__{name}__": public for name, public in _OPERATORS.items()}
#: Methods of Python's that never ask: what objects, classes and dictionaries are made with.
_NEVER = frozenset(
    [
        "__new__",
        "__init__",
        "__init_subclass__",
        "__class__",
        "__class_getitem__",
        "__getattr__",
        "__getattribute__",
        "__setattr__",
        "__delattr__",
        "__dir__",
        "__hash__",
        "__iter__",
        "__getstate__",
        "__sizeof__",
        "__torch_function__",
        "__reduce__",
        "__array_namespace__",
        "as_subclass",
    ]
)
_intercepted = False
#: Functions that ask, with the signatures that they had, and the names that some had before.
_asking: list[tuple[FunctionType, Any]] = []
_names: list[tuple[FunctionType, str, str]] = []


def is_intercepted() -> bool:
    """Whether functions ask already."""
    return _intercepted


def intercept() -> None:
    """Let all public functions and methods ask, from now on and in all threads."""
    global _intercepted
    with lock:
        if _intercepted:
            return
        PLAIN.add(tensor_class())
        _names[:] = [(each, each.__name__, each.__qualname__) for each, _, _ in _of_class()]
        for function, public in [*_targets()]:
            _exchange(function, public)
        _intercepted = True


def release() -> None:
    """Let functions no longer ask, as if nothing had overridden one yet; objects that do are not asked until the next one."""
    global _intercepted
    with lock:
        if not _intercepted:
            return
        _intercepted = False
        for function, signature in _asking:
            operation_of(function).release(OVERRIDES)
            if signature is None:
                vars(function).pop("__signature__", None)
            else:
                function.__signature__ = signature  # type: ignore[attr-defined]
        _asking.clear()
        for function, name, qualname in _names:
            function.__name__, function.__qualname__ = name, qualname


def _let_ask(function: FunctionType) -> None:
    with lock:
        if _intercepted:
            _exchange(function, function)


observe(_let_ask)


def overridable_functions() -> dict[str, list[Any]]:
    """What asks, or will on demand, by where it is found: functions by namespace, and those of ``Tensor``."""
    result: dict[str, list[Any]] = {
        namespace: [*{id(each): each for each in published(namespace).values()}.values()]
        for namespace in namespaces()
        if namespace != "Tensor"
    }
    result["Tensor"] = [
        public
        for _, public, _ in _of_class()
        if getattr(public, "__name__", "") not in ("__get__", "__set__")
    ]
    for name, attribute in _attributes():
        if isinstance(attribute, property):
            result[f"Tensor.{name}"] = [_getter(attribute)]
    return result


def _targets() -> Iterator[tuple[FunctionType, Any]]:
    """Functions, each with what handlers are told."""
    seen: set[int] = set()
    for function, public, name in _of_class():
        if id(function) not in seen:
            seen.add(id(function))
            if public is function and name.startswith("__") and name not in _PUBLIC_NAMES:
                # Handlers tell functions by their names, and layers below by the name that it had.
                operation_of(function)
                function.__name__, function.__qualname__ = name, f"Tensor.{name}"
            yield function, public
    for namespace in namespaces():
        for function in published(namespace).values():
            if id(function) not in seen:
                seen.add(id(function))
                yield function, function


def _attributes() -> Iterator[tuple[str, Any]]:
    """Attributes of the class ``Tensor`` and what it derives from, each once."""
    seen = set(_NEVER)
    for cls in tensor_class().__mro__[:-1]:
        for name, attribute in vars(cls).items():
            if name not in seen and (not name.startswith("_") or name.startswith("__")):
                seen.add(name)
                yield name, attribute


def name_of(function: Any) -> str | None:
    """The name of a function that asks as PyTorch's users know it; ``None`` of any other."""
    for name, attribute in _attributes():
        if isinstance(attribute, property):
            if function == _getter(attribute):
                return f"torch.Tensor.{name}.__get__"
        elif function is attribute:
            return f"torch.Tensor.{name}"
    for namespace in namespaces():
        for name, each in published(namespace).items():
            if function is each:
                return f"torch.{name}" if namespace == "tensor" else f"torch.{namespace}.{name}"
    return None


def _of_class() -> Iterator[tuple[FunctionType, Any, str]]:
    cls = tensor_class()
    for name, attribute in _attributes():
        if isinstance(attribute, property):
            for function, public in (
                (attribute.fget, _getter(attribute)),
                (attribute.fset, attribute.__set__),
            ):
                if isinstance(function, FunctionType):
                    yield function, public, name
        elif isinstance(attribute, FunctionType):
            yield attribute, getattr(cls, _PUBLIC_NAMES.get(name, name)), name


def _getter(attribute: property) -> Any:
    return attribute.__get__


def _exchange(function: FunctionType, public: Any) -> None:
    """Let ``function``, which handlers know as ``public``, ask before it computes."""
    operation = operation_of(function)
    _asking.append((function, vars(function).get("__signature__")))
    if not hasattr(function, "__wrapped__"):
        function.__signature__ = inspect.signature(operation.original)  # type: ignore[attr-defined]
    is_operator = public is not function and isinstance(public, FunctionType)
    operation.intercept(OVERRIDES, operation.replacement(_asker(public, is_operator=is_operator)))


def _asker(public: Any, *, is_operator: bool) -> Callable[[Operation, Any, Any], Any]:
    """What callers come to: the function itself, unless an argument or a mode takes the call over."""

    def ask(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not overriding.modes and (overriding.no_subclasses or not _any_overrides(args, kwargs)):
            function = operation.original if operation.is_alone else operation.below(OVERRIDES)
            return function(*args, **kwargs)
        if overriding.nothing or skipped():
            return operation.below(OVERRIDES)(*args, **kwargs)
        try:
            return call_overrides(public, flattened(args, kwargs), args, kwargs)
        except TypeError:
            if is_operator:
                # So that Python asks the other operand.
                return NotImplemented
            raise

    return ask


def _any_overrides(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    for each in args:
        cls = type(each)
        if cls in PLAIN:
            continue
        if cls is list or cls is tuple:
            if any(overrides(type(element)) for element in each):
                return True
        elif overrides(cls):
            return True
    return bool(kwargs) and any(overrides(type(each)) for each in flattened((), kwargs))


def _answered(public: FunctionType, arguments: dict[str, Any]) -> Any:
    """The answer of an argument to a call that nobody had intercepted yet; later ones are."""
    intercept()
    form, usual = Form.of(public), defaults(public)
    named = dict(arguments)
    args = [named.pop(name) for name in form.names[: form.positional] if name not in usual and name in named]
    if form.starred and (starred := form.names[form.positional + form.named]) in named:
        args += named.pop(starred)
    options = {name: value for name, value in named.items() if value is not usual.get(name, _NOTHING)}
    return call_overrides(public, flattened(tuple(args), options), tuple(args), options)


_NOTHING = object()
ask_with(_answered)


def overridden(cls: type[Any], func: Any, types: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    """What ``Tensor.__torch_function__`` does: call ``func``, and make what it returns objects of ``cls``."""
    if not all(issubclass(cls, each) for each in types):
        return NotImplemented
    before = overriding.no_subclasses
    overriding.no_subclasses = True
    try:
        result = func(*args, **(kwargs or {}))
    finally:
        overriding.no_subclasses = before
    return result if func in _unwrapped() else converted(result, cls)


def _unwrapped() -> set[Any]:
    """Functions whose results keep their class: gradients, and the tensor that a view is of."""
    cls = tensor_class()
    return {
        getattr(cls, name).__get__ for name in ("grad", "_base") if isinstance(getattr(cls, name), property)
    }
