"""Whether operations are recorded: per thread, as context managers and decorators."""

from __future__ import annotations

import functools
import inspect
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from .autocast import Casts

_F = TypeVar("_F", bound="Callable[..., Any]")


class _Modes(threading.local):
    """Of one thread.

    ``recording`` is what operations ask; ``inference`` says that it cannot be turned on. ``autocast`` says what
    operands are cast to, see :mod:`.autocast`.
    """

    recording = True
    inference = False
    autocast: Casts | None = None


modes = _Modes()

#: First version of storages that are made in inference mode. Writes count up from it; it stays negative.
INFERENCE = -(1 << 62)


class Blocks:
    """How many blocks of some kind are entered, in all threads: what asks for the mode can do so only if there are any."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()

    def add(self, number: int) -> None:
        with self.lock:
            self.count += number


#: Blocks in inference mode. New storages ask for the mode only if there are any.
inference_blocks = Blocks()


def first_version() -> int:
    """Version of a storage that is made now."""
    return INFERENCE if modes.inference else 0


class unrecorded:  # noqa: N801 - read as a word: ``with unrecorded():``
    """Inside ``with``, operations of this thread are not recorded: what an operation is made of is no part of the graph.

    The runtime's own form of :class:`no_grad`, with as few calls as there can be.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = modes.recording
        modes.recording = False

    def __exit__(self, *exception: object) -> None:
        modes.recording = self._before


class recording:  # noqa: N801 - read as a word: ``with recording():``
    """Inside ``with``, operations of this thread are recorded whatever the mode is, inference mode included.

    It is for histories that an earlier recorded operation left to be written down later.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = modes.recording
        modes.recording = True

    def __exit__(self, *exception: object) -> None:
        modes.recording = self._before


class _Mode:
    """A mode that holds inside ``with``, and inside functions decorated with it."""

    def __enter__(self) -> Self:
        raise NotImplementedError

    def __exit__(self, *exception: object) -> None:
        raise NotImplementedError

    def _copy(self) -> _Mode:
        """The same mode, for another entry."""
        return type(self)()

    def __call__(self, function: _F) -> _F:
        """``function`` in this mode. A generator runs in it between its yields, and not outside."""
        if inspect.isgeneratorfunction(function):
            return cast("_F", self._around_generator(function))

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self._copy():
                return function(*args, **kwargs)

        return cast("_F", inside)

    def _around_generator(self, function: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with self._copy():
                generator = function(*args, **kwargs)
            step: Callable[[], Any] = functools.partial(next, generator)
            while True:
                try:
                    with self._copy():
                        value = step()
                except StopIteration as end:
                    return end.value
                try:
                    received = yield value
                except GeneratorExit:
                    with self._copy():
                        generator.close()
                    raise
                except BaseException as error:
                    step = functools.partial(generator.throw, error)
                else:
                    step = functools.partial(generator.send, received)

        return inside


class set_grad_enabled(_Mode):  # noqa: N801 - PyTorch's name
    """Record operations (``mode=True``), or do not, from now on in this thread; used with ``with``, until its end.

    Inside :class:`inference_mode` nothing is recorded either way.

    >>> x = tensor.ones(1, requires_grad=True)
    >>> with tensor.set_grad_enabled(False):
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        self._before = modes.recording
        modes.recording = self.mode and not modes.inference

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        modes.recording = self._before

    def _copy(self) -> _Mode:
        return set_grad_enabled(self.mode)

    def __call__(self, function: _F) -> _F:
        modes.recording = self._before
        return super().__call__(function)


class no_grad(_Mode):  # noqa: N801 - PyTorch's name
    """Record nothing inside ``with``, or in functions that this decorates: results do not require grad. Per thread.

    >>> x = tensor.ones(1, requires_grad=True)
    >>> with tensor.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __new__(cls, function: Any = None) -> Any:
        self = object.__new__(cls)
        return self if function is None else self(function)

    def __enter__(self) -> Self:
        self._before = modes.recording
        modes.recording = False
        return self

    def __exit__(self, *exception: object) -> None:
        modes.recording = self._before


class enable_grad(_Mode):  # noqa: N801 - PyTorch's name
    """Record again, inside :class:`no_grad`: with ``with``, or as a decorator. Per thread.

    Inside :class:`inference_mode` nothing is recorded all the same.

    >>> x = tensor.ones(1, requires_grad=True)
    >>> with tensor.no_grad(), tensor.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    def __new__(cls, function: Any = None) -> Any:
        self = object.__new__(cls)
        return self if function is None else self(function)

    def __enter__(self) -> Self:
        self._before = modes.recording
        modes.recording = not modes.inference
        return self

    def __exit__(self, *exception: object) -> None:
        modes.recording = self._before


class inference_mode(_Mode):  # noqa: N801 - PyTorch's name
    """Record nothing, and let nothing inside turn recording on again; with ``with``, or as a decorator. Per thread.

    Tensors whose memory is allocated inside are not saved for a backward pass later, nor written in place by
    operations that are recorded; clones of them are.

    >>> with tensor.inference_mode():
    ...     x = tensor.ones(1)
    >>> x.is_inference(), x.clone().is_inference()
    (True, False)

    Parameters
    ----------
    mode : bool
        Whether the mode is on inside; with ``False`` operations are recorded.
    """

    def __new__(cls, mode: Any = True) -> Any:
        self = object.__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        self.mode = bool(mode)
        return self

    mode: bool

    def __enter__(self) -> Self:
        self._before = modes.recording, modes.inference
        modes.recording, modes.inference = not self.mode, self.mode
        inference_blocks.add(self.mode)
        return self

    def __exit__(self, *exception: object) -> None:
        inference_blocks.add(-self.mode)
        modes.recording, modes.inference = self._before

    def _copy(self) -> _Mode:
        return cast("_Mode", inference_mode(self.mode))


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded; True unless a mode such as :class:`no_grad` is on."""
    return modes.recording


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside :class:`inference_mode`; nothing is recorded then."""
    return modes.inference
