"""What an allocator did, and which lines of Python made it do so."""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType, FrameType

#: Code and line of each frame of a Python stack, the innermost first.
Frames = tuple[tuple["CodeType", int], ...]
Context = Literal["state", "alloc", "all"]

_PACKAGE = str(Path(__file__).parent)
_LEVELS = {None: 0, "state": 1, "alloc": 2, "all": 3}


def python_stack() -> Frames:
    """The stack of the calling thread, without this package's own frames."""
    frames = []
    frame: FrameType | None = sys._getframe(1)
    inside = True
    while frame is not None:
        code = frame.f_code
        inside = inside and code.co_filename.startswith(_PACKAGE)
        if not inside:
            frames.append((code, frame.f_lineno))
        frame = frame.f_back
    return tuple(frames)


def describe(frames: Frames | None) -> list[dict[str, Any]]:
    """Frames as PyTorch's snapshots hold them."""
    return [
        {"filename": code.co_filename, "line": line, "name": code.co_qualname} for code, line in frames or ()
    ]


class History:
    """An observer that keeps the latest actions of an allocator, with Python stacks.

    Parameters
    ----------
    trace : bool
        Whether to keep actions, or only the stacks of what is allocated.
    context : {"state", "alloc", "all"} or None
        For what to keep stacks: nothing; live blocks; also actions; also frees.
    max_entries : int
        How many actions to keep.
    """

    def __init__(self, *, trace: bool, context: Context | None, max_entries: int) -> None:
        self._level = _LEVELS[context]
        self._trace = trace
        self._entries: deque[tuple[str, int, int, int, int, Frames | None]] = deque(
            maxlen=min(max(max_entries, 1), sys.maxsize)
        )

    def frames_for_allocation(self) -> Frames | None:
        """See :class:`~drv.allocators.protocol.Observer`."""
        return python_stack() if self._level >= _LEVELS["state"] else None

    def frames_for_free(self) -> Frames | None:
        """See :class:`~drv.allocators.protocol.Observer`."""
        return python_stack() if self._level >= _LEVELS["all"] else None

    def record(self, action: str, address: int, size: int, stream: int, frames: Frames | None) -> None:
        """See :class:`~drv.allocators.protocol.Observer`."""
        if self._trace:
            stack = frames if self._level >= _LEVELS["alloc"] else None
            self._entries.append((action, address, size, stream, time.time_ns() // 1000, stack))

    def trace(self) -> list[dict[str, Any]]:
        """The actions, the earliest first, as ``device_traces`` of PyTorch's snapshots hold them.

        Dictionaries with ``action``, ``addr``, ``size`` in bytes, ``stream``, ``time_us`` and ``frames``; at most as many as the
        history was asked to hold, the latest ones.
        """
        return list(_described(list(self._entries)))


def _described(
    entries: Iterable[tuple[str, int, int, int, int, Frames | None]],
) -> Iterable[dict[str, Any]]:
    for action, address, size, stream, microseconds, frames in entries:
        entry: dict[str, Any] = {
            "action": action,
            "device_free" if action == "oom" else "addr": address,
            "size": size,
            "stream": stream,
            "time_us": microseconds,
        }
        if frames is not None:
            entry["frames"] = describe(frames)
        yield entry
