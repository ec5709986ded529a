"""Mutual exclusion for sections of about a microsecond."""

from __future__ import annotations

import sys
import time
from functools import wraps
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar

from drv.host.interrupts import whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")
G = TypeVar("G", bound="Gated")

#: What a method calls to close the gate.
_ENTRANCES = frozenset(("enter", "_enter", "_go_inside"))


class Gate:
    """Lets one thread in at a time.

    It holds one token in a list; taking and returning it are single list operations, which Python makes
    atomic. That takes a quarter of the time of :class:`threading.Lock`, which would be a good part
    of what an allocation costs. It is not re-entrant: who finds the gate closed must know whether it
    was closed further up the same stack, as a finalizer may run anywhere (:class:`Gated` does).

    Attributes
    ----------
    enter : callable
        ``enter()`` closes the gate, or raises IndexError if it is closed.
    leave : callable
        ``leave(None)`` opens it.
    """

    __slots__ = ("enter", "leave")

    LONGEST_PAUSE = 1e-3

    def __init__(self) -> None:
        tokens = [None]
        self.enter: Callable[[], None] = tokens.pop
        self.leave: Callable[[None], None] = tokens.append

    def wait(self) -> None:
        """Enter once the thread inside has left."""
        pause = 0.0
        while True:
            try:
                self.enter()
                return
            except IndexError:
                # A pause of 0 hands the interpreter to another thread, most likely the one inside.
                time.sleep(pause)
                pause = min(pause * 2 or 1e-6, self.LONGEST_PAUSE)


class Gated:
    """An object with a gate, and methods that run behind it: its sections.

    A method becomes a section by one of two decorators. :func:`inside` closes the gate around it;
    :func:`section` marks a method that closes the gate itself, for those that are called so often that
    a wrapper would show. A finalizer that finds the gate closed looks for sections further up its own
    stack, and would wait for itself for ever if it overlooked one; so a class with a method that closes
    the gate and has neither decorator is refused when it is defined.
    """

    #: What a finalizer meets that closes the gate twice.
    _refusal: ClassVar[str] = "a finalizer called an object that was at work"
    _sections: ClassVar[frozenset[CodeType]] = frozenset()

    def __init__(self) -> None:
        self._gate = Gate()
        self._enter, self._leave = self._gate.enter, self._gate.leave

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        methods = [value for value in vars(cls).values() if isinstance(value, FunctionType)]
        for method in methods:
            if not _ENTRANCES.isdisjoint(method.__code__.co_names) and not _is_section(method):
                raise TypeError(
                    f"{method.__qualname__} closes the gate and is not marked: decorate it with @inside, or with "
                    f"@section if it closes the gate itself"
                )
        sections = [whole(method) for method in methods if _is_section(method)]
        cls._sections |= {method.__code__ for method in sections}

    def _is_inside(self, callers: int = 1) -> bool:
        """Whether a section of this object runs further up this thread's stack.

        The innermost ``callers`` frames are of those that wish to enter.
        """
        frame: FrameType | None = sys._getframe(1)
        for _ in range(callers):
            frame = frame.f_back if frame is not None else None
        while frame is not None:
            if frame.f_code in self._sections and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False

    def _go_inside(self) -> None:
        """Close the gate for the calling section, which waits its turn.

        Raises
        ------
        RuntimeError
            If this thread is inside already.
        """
        try:
            self._enter()
        except IndexError:
            if self._is_inside(callers=2):
                raise RuntimeError(self._refusal) from None
            self._gate.wait()


def section(method: F) -> F:
    """Mark a method of a :class:`Gated` class that closes the gate itself."""
    method.__dict__["section"] = True
    return method


def inside(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """Run a method of a :class:`Gated` class behind the gate.

    It raises RuntimeError where a finalizer calls it in the middle of another section.
    """

    @section
    @wraps(method)
    def entering(self: G, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._go_inside()
        try:
            return method(self, *args, **kwargs)
        finally:
            self._leave(None)

    return entering


def _is_section(method: FunctionType) -> bool:
    return bool(method.__dict__.get("section"))
