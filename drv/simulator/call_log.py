"""What the driver logs: the calls that failed, as text, for ``cuLogs*``."""

from __future__ import annotations

import os
from collections import deque
from time import localtime, strftime, time
from typing import TYPE_CHECKING

from cuda.bindings.driver import CUresult

if TYPE_CHECKING:
    from collections.abc import Callable

#: Messages that are held; about as many as NVIDIA's driver has room for (25600 bytes).
_CAPACITY = 320
_TRUNCATED = "[older messages are lost]\n"
_NO_ERROR = CUresult.CUDA_ERROR_NOT_READY


class CallLog:
    """The latest failed calls, each numbered.

    Attributes
    ----------
    next : int
        Number of the next message.
    listeners : dict
        What is called with each message, by handle.
    """

    def __init__(self) -> None:
        self._calls: deque[tuple[float, str, CUresult]] = deque(maxlen=_CAPACITY)
        self.next = 0
        self.listeners: dict[int, Callable[[str], None]] = {}

    def failed(self, name: str, status: CUresult) -> None:
        """The call ``name`` answers with ``status``."""
        if status is _NO_ERROR:
            return
        entry = (time(), name, status)
        self._calls.append(entry)
        self.next += 1
        for listener in list(self.listeners.values()):
            listener(_message(entry))

    def since(self, number: int) -> str:
        """The messages from ``number`` on; the text says so where some of them are lost."""
        first = self.next - len(self._calls)
        messages = [_message(each) for each in list(self._calls)[max(number - first, 0) :]]
        return (_TRUNCATED if number < first else "") + "".join(messages)

    def latest(self, number: int, nbytes: int) -> str:
        """As :meth:`since`, of the latest messages as many as ``nbytes`` hold; none where not even one fits."""
        text = self.since(number)
        if len(text) <= nbytes:
            return text
        latest: deque[str] = deque()
        room = nbytes - len(_TRUNCATED)
        for entry in reversed(self._calls):
            message = _message(entry)
            room -= len(message)
            if room < 0:
                break
            latest.appendleft(message)
        return _TRUNCATED + "".join(latest) if latest else ""


def _message(entry: tuple[float, str, CUresult]) -> str:
    moment, name, status = entry
    return (
        f"[{strftime('%H:%M:%S', localtime(moment))}][{os.getpid()}][CUDA][E] {name} returns {status.name}\n"
    )
