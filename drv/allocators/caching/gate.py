"""Mutual exclusion for sections of about a microsecond."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType


class Gate:
    """Lets one thread in at a time.

    It holds one token in a list; taking and returning it are single list operations, which Python makes
    atomic. That takes a quarter of the time of :class:`threading.Lock`, which would be a good part
    of what an allocation costs. It is not re-entrant: who finds the gate closed must know whether it
    was closed further up the same stack (:func:`closed_above`), as a finalizer may run anywhere.

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


def closed_above(sections: frozenset[CodeType], owner: object, waiting: int = 1) -> bool:
    """Whether one of ``sections``, called as a method of ``owner``, runs further up this thread's stack.

    The ``waiting`` innermost callers are those that wish to enter.
    """
    frame: FrameType | None = sys._getframe(1)
    for _ in range(waiting):
        frame = frame.f_back if frame is not None else None
    while frame is not None:
        if frame.f_code in sections and frame.f_locals.get("self") is owner:
            return True
        frame = frame.f_back
    return False
