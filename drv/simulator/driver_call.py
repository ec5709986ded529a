"""How a driver call answers: statuses, refused arguments, the lock, calls made by finalizers."""

from __future__ import annotations

import ctypes
from functools import update_wrapper
from threading import get_ident
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
from cuda.bindings.driver import CUresult

from .injection import RELEASES, Injection
from .scheduler import Reentered, Scheduler

if TYPE_CHECKING:
    import threading
    from collections import deque
    from collections.abc import Callable

    from .call_log import CallLog

#: The answer of a call that has nothing to return.
OK = (CUresult.CUDA_SUCCESS,)
SUCCESS = CUresult.CUDA_SUCCESS


class Callee(Protocol):
    """What a call needs of the driver it is made on."""

    lock: threading.RLock  # type: ignore[valid-type, unused-ignore]
    scheduler: Scheduler
    inject: Injection
    initialised: bool
    closed: bool
    #: Captures of streams that have begun and not ended.
    captures: list[Any]
    log: CallLog
    #: Releases that finalizers asked for in the middle of another call.
    postponed: deque[Callable[[], Any]]

    def refuse_in_capture(self, name: str) -> None:
        """Raise :class:`CallError` where a capture forbids the call ``name``."""


Parameters = ParamSpec("Parameters")
State = TypeVar("State", bound=Callee)


class CallError(Exception):
    """A call answers with ``status``."""

    def __init__(self, status: CUresult) -> None:
        super().__init__(status.name)
        self.status = status


def invalid_value() -> CallError:
    """The error of an argument that has no meaning."""
    return CallError(CUresult.CUDA_ERROR_INVALID_VALUE)


def invalid_handle() -> CallError:
    """The error of a handle that names nothing, or something of another kind or context."""
    return CallError(CUresult.CUDA_ERROR_INVALID_HANDLE)


def call(
    results: int = 0, *, uninitialised: bool = False, unsafe: bool = False
) -> Callable[
    [Callable[Concatenate[State, Parameters], tuple[Any, ...]]],
    Callable[Concatenate[State, Parameters], tuple[Any, ...]],
]:
    """A method as a driver call: locked, refused where CUDA refuses it, errors as ``(status, None, ...)``.

    One that is ``unsafe`` does what the capture of a stream does not see, such as to allocate or to wait: CUDA forbids
    it in a capture, as the thread's capture mode says.
    """
    nothing = (None,) * results

    def decorate(
        method: Callable[Concatenate[State, Parameters], tuple[Any, ...]],
    ) -> Callable[Concatenate[State, Parameters], tuple[Any, ...]]:
        name = method.__name__

        def checked(self: State, /, *args: Parameters.args, **keywords: Parameters.kwargs) -> tuple[Any, ...]:
            if self.inject.asked and not self.lock._is_owned():  # type: ignore[attr-defined]
                fault = self.inject.call_fault(name, CUresult.CUDA_ERROR_UNKNOWN)
                if fault is not None:
                    if name in RELEASES:
                        method(self, *args, **keywords)
                    return (fault, *nothing)
            scheduler = self.scheduler
            try:
                with self.lock:
                    if scheduler.callback_threads and get_ident() in scheduler.callback_threads:
                        return (CUresult.CUDA_ERROR_NOT_PERMITTED, *nothing)
                    if not (self.initialised or uninitialised):
                        return (CUresult.CUDA_ERROR_NOT_INITIALIZED, *nothing)
                    if self.closed and not uninitialised:
                        return (CUresult.CUDA_ERROR_DEINITIALIZED, *nothing)
                    try:
                        if unsafe and self.captures:
                            self.refuse_in_capture(name)
                        if scheduler.wanders:
                            scheduler.wander()
                        return method(self, *args, **keywords)
                    except CallError as error:
                        self.log.failed(name, error.status)
                        return (error.status, *nothing)
                    except Reentered:
                        return (CUresult.CUDA_ERROR_NOT_PERMITTED, *nothing)
            finally:
                if scheduler.interrupts.pending:
                    scheduler.interrupts.after_call()

        update_wrapper(checked, method)
        return checked

    return decorate


def from_finalizer(
    method: Callable[Concatenate[State, Parameters], tuple[Any, ...]],
) -> Callable[Concatenate[State, Parameters], tuple[Any, ...]]:
    """A releasing call that a finalizer may make in the middle of another call of the same thread.

    No Python code runs inside NVIDIA's driver, but the garbage collector may run inside this one. The
    release is then put off until the outer call, or the next one, is done.
    """

    def checked(self: State, /, *args: Parameters.args, **keywords: Parameters.kwargs) -> tuple[Any, ...]:
        if self.lock._is_owned():  # type: ignore[attr-defined]
            self.postponed.append(lambda: method(self, *args, **keywords))
            return OK
        answer = method(self, *args, **keywords)
        while self.postponed:
            self.postponed.popleft()()
        return answer

    update_wrapper(checked, method)
    return checked


def integer(value: Any) -> int:
    """An integer argument, a handle object or ``None`` (0) as an int; ``TypeError`` for anything else."""
    if value is None:
        return 0
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError("an integer is required")
    return int(value)


def unsigned(value: Any, bits: int = 64) -> int:
    """An unsigned integer argument of ``bits`` bits; ``OverflowError`` when it does not fit."""
    if value is None:
        raise TypeError("an integer is required")
    number = integer(value)
    if number < 0:
        raise OverflowError("can't convert negative value to an unsigned integer")
    if number >> bits:
        raise OverflowError(f"Python int too large to convert to {bits} unsigned bits")
    return number


def signed(value: Any) -> int:
    """An ``int`` argument of C; ``OverflowError`` when it does not fit."""
    number = integer(value)
    if not -(1 << 31) <= number < 1 << 31:
        raise OverflowError("Python int too large to convert to a C int")
    return number


def structure(value: Any, structure_type: type) -> Any:
    """An argument that points to a structure of the bindings; ``TypeError`` for anything else but ``None``."""
    if value is None:
        raise invalid_value()
    if not isinstance(value, structure_type):
        raise TypeError(f"expected {structure_type.__name__}, found {type(value).__name__}")
    return value


def listed(values: Any, count: int) -> list[Any]:
    """The first ``count`` of an argument that is a list; the bindings' error where it is shorter."""
    result = list(values or ())
    if count > len(result):
        raise RuntimeError(f"List is too small: {len(result)} < {count}")
    return result[:count]


def text(value: Any) -> bytes:
    """A ``char *`` argument; ``TypeError`` for anything but bytes."""
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError(f"expected bytes, found {type(value).__name__}")
    return bytes(value).split(b"\0", 1)[0]


def host_address(value: Any) -> int:
    """Address that a ``void *`` argument means: an int, ``None``, a buffer, or an object with ``getPtr``."""
    if value is None:
        return 0
    if isinstance(value, int):
        return unsigned(value)
    get_pointer = getattr(value, "getPtr", None)
    if get_pointer is not None:
        return int(get_pointer())
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(
            f"Provided argument is of type {type(value)} but expected Type NoneType, int or object with Buffer Protocol"
        ) from None
    if view.nbytes == 0:
        return 0
    return int(np.frombuffer(view, np.uint8).ctypes.data)


def filled(structure: Any, data: bytes) -> Any:
    """``structure``, with ``data`` as its first bytes: some structures of the bindings have no names for theirs."""
    ctypes.memmove(structure.getPtr(), data, len(data))
    return structure


def contents(structure: Any, nbytes: int) -> bytes:
    """The first ``nbytes`` bytes of ``structure``."""
    return ctypes.string_at(structure.getPtr(), nbytes)
