"""Ctrl-C where work has to be whole.

KeyboardInterrupt can come with any call of the main thread. In the middle of an allocator's bookkeeping it would leave a
block that is on no list, in a finalizer Python would print it and go on, and on the simulated driver it would leave a kernel
that has written some of its results. So Ctrl-C is held back there until the work is done. To ask costs nothing before it
comes: then the stack tells which functions are at work.

Only where Ctrl-C means KeyboardInterrupt, as Python has it at first: a handler of the program's own stays.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

F = TypeVar("F", bound="Callable[..., Any]")

#: Seconds after which Ctrl-C that was held back comes again.
PAUSE = 1e-3


class User:
    """Who needs Ctrl-C to be held back, from now until :meth:`close`."""

    def __init__(self) -> None:
        _users.add(self)
        if _in_main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupted)

    def holds_back(self, number: int, frame: FrameType | None) -> bool:
        """Whether this user has taken a Ctrl-C, and sees to it that it comes later; it may raise KeyboardInterrupt itself."""
        return False

    def close(self) -> None:
        """Need it no longer; with the last user Python's own handler is back."""
        _users.discard(self)
        if not _users and _in_main_thread() and signal.getsignal(signal.SIGINT) is _interrupted:
            signal.signal(signal.SIGINT, signal.default_int_handler)


_users: WeakSet[User] = WeakSet()
_whole: set[CodeType] = set()


def whole(function: F) -> F:
    """Let no Ctrl-C come in the middle of a function."""
    _whole.add(function.__code__)
    return function


def is_whole(frame: FrameType | None) -> bool:
    """Whether a function that is to be whole, or a finalizer, is at work at ``frame`` or further up its stack."""
    while frame is not None:
        if frame.f_code in _whole or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _interrupted(number: int, frame: FrameType | None) -> None:
    for user in list(_users):
        if user.holds_back(number, frame):
            return
    if is_whole(frame):
        # Not threading.Thread, whose locks the interrupted code may hold.
        _thread.start_new_thread(_redeliver, ())
        return
    signal.default_int_handler(number, frame)


def _redeliver() -> None:
    time.sleep(PAUSE)
    _thread.interrupt_main()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
