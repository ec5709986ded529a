"""The protocol ``__torch_function__``: which arguments override a call, and who is asked in which order."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from nvrtc_kernels.dtypes import dtype
from tensor.core.base import TensorBase, tensor_class
from tensor.core.devices.device import device
from tensor.core.size import Size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class _Overriding(threading.local):
    """Of one thread: the modes from outermost to innermost, and what is turned off."""

    modes: tuple[Any, ...] = ()
    no_subclasses = False
    nothing = False
    #: Whether the next function that would ask does not.
    skips = False


overriding = _Overriding()


class _Disabled:
    """What a class has for ``__torch_function__`` whose objects count as plain tensors: it calls the function."""

    def __call__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


#: PyTorch's ``torch._C._disabled_torch_function_impl``.
disabled_torch_function = _Disabled()

#: Classes of arguments that are known not to override; others are asked for the attribute.
PLAIN: set[type[Any]] = {
    bool, int, float, complex, str, type(None), slice, type(...), Size, dtype, device, dict, set, frozenset, bytes
}  # fmt: skip


def overrides(cls: type[Any]) -> bool:
    """Whether objects of ``cls`` take over calls: it has a ``__torch_function__`` that is not disabled."""
    if cls in PLAIN or cls is tensor_class():
        return False
    function = getattr(cls, "__torch_function__", None)
    # Of classes themselves (isinstance's argument, say) the attribute is that of their objects.
    return function is not None and function is not disabled_torch_function and not issubclass(cls, type)


def overriding_arguments(arguments: Iterable[Any]) -> list[Any]:
    """Arguments that override, one of each class: subclasses before the classes they derive from, else left to right."""
    result: list[Any] = []
    for each in arguments:
        cls = type(each)
        if any(cls is type(other) for other in result) or not overrides(cls):
            continue
        position = next((i for i, other in enumerate(result) if issubclass(cls, type(other))), len(result))
        result.insert(position, each)
    return result


def flattened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """The arguments of a call, and elements of those that are lists or tuples."""
    for each in (*args, *kwargs.values()):
        if type(each) in (list, tuple):
            yield from each
        else:
            yield each


def skipped() -> bool:
    """Whether the caller is the function that does not ask, of :func:`redispatch`; the next one does."""
    skips = overriding.skips
    if skips:
        overriding.skips = False
    return skips


def has_overrides(relevant: Iterable[Any]) -> bool:
    """Whether a mode of this thread or one of the arguments takes over a call."""
    if overriding.nothing or skipped():
        return False
    if overriding.modes:
        return True
    return not overriding.no_subclasses and any(overrides(type(each)) for each in relevant)


def call_overrides(
    public: Callable[..., Any], relevant: Iterable[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Ask the innermost mode, then the arguments that override, until one of them answers.

    Raises
    ------
    TypeError
        If all of them answer ``NotImplemented``.
    """
    arguments = [] if overriding.no_subclasses and not overriding.modes else overriding_arguments(relevant)
    types = tuple(map(type, arguments))
    asked: list[Any] = []
    if overriding.modes:
        *outer, mode = overriding.modes
        asked.append(mode)
        modes = overriding.modes
        overriding.modes = tuple(outer)
        try:
            result = mode.__torch_function__(public, types, args, kwargs)
        finally:
            overriding.modes = modes
        if result is not NotImplemented:
            return result
    if not overriding.no_subclasses:
        for each in arguments:
            asked.append(each)
            result = each.__torch_function__(public, types, args, kwargs)
            if result is not NotImplemented:
                return result
    name = getattr(public, "__qualname__", repr(public))
    raise TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented: "
        + ", ".join(_described(each) for each in asked)
    )


def _described(each: Any) -> str:
    what = "tensor subclass" if isinstance(each, TensorBase) else "object or mode of class"
    return f"{what} {type(each).__module__}.{type(each).__qualname__}"


class DisableTorchFunctionSubclass:
    """In ``with``, arguments do not take over calls in this thread; modes do."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = overriding.no_subclasses
        overriding.no_subclasses = True

    def __exit__(self, *exception: object) -> None:
        overriding.no_subclasses = self._before


class DisableTorchFunction:
    """In ``with``, neither arguments nor modes take over calls in this thread."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = overriding.nothing
        overriding.nothing = True

    def __exit__(self, *exception: object) -> None:
        overriding.nothing = self._before


def redispatch(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call ``func``, which does not ask this once; what it calls asks."""
    overriding.skips = True
    try:
        return func(*args, **kwargs)
    finally:
        overriding.skips = False


def converted(result: Any, cls: type[Any]) -> Any:
    """``result`` with its tensors as objects of ``cls``, those in tuples and lists too."""
    if isinstance(result, TensorBase):
        return (
            result if isinstance(result, cls) or not issubclass(cls, TensorBase) else result.as_subclass(cls)
        )
    if isinstance(result, (tuple, list)) and any(
        isinstance(each, (TensorBase, tuple, list)) for each in result
    ):
        elements = [converted(each, cls) for each in result]
        make: Any = getattr(type(result), "_make", type(result))
        return make(elements)
    return result
