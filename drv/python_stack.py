"""Python stacks of the calls that queued an operation or made an allocation, taken cheaply, for reports."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType, FrameType

#: One line of a Python stack: file name, line, function.
Frame = tuple[str, int, str]

#: Packages of this project: what they do on behalf of the user is not what a report should point at.
_NAMES = ("drv", "nvrtc_kernels", "tensor", "nn", "parallel")
_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = (
    *(str(_ROOT / name) + os.sep for name in _NAMES),
    "<frozen importlib",
)
#: Programs that run scripts: what is further out is how one was started, and no part of the script.
_RUNS_SCRIPTS = tuple(str(_ROOT / "tools" / name) + os.sep for name in ("memcheck", "profile", "run"))
#: Test runners: what is further out is how they came to the test.
_RUNNERS = ("_pytest", "pluggy")
_OUTSIDE: Frame = ("", 0, "")


class StackRecorder:
    """Takes stacks without the frames of this project's packages, innermost frame first.

    A line number costs a walk through the code object's line table, so frames already seen are
    remembered by code object and instruction.
    """

    DEPTH = 16
    REMEMBERED = 65536

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._frames: dict[tuple[CodeType, int], Frame | None] = {}

    def take(self) -> tuple[Frame, ...]:
        """Stack of the caller, at most ``DEPTH`` frames; empty when recording is off."""
        if not self.enabled:
            return ()
        known = self._frames
        stack: list[Frame] = []
        frame = sys._getframe(1)
        while frame is not None:
            key = (frame.f_code, frame.f_lasti)
            try:
                entry = known[key]
            except KeyError:
                if len(known) >= self.REMEMBERED:
                    known.clear()
                code = frame.f_code
                if code.co_filename.startswith(_PACKAGES) or _is_generated(frame):
                    entry = None
                elif code.co_filename.startswith(_RUNS_SCRIPTS) or _module(frame) in _RUNNERS:
                    entry = _OUTSIDE
                else:
                    entry = (code.co_filename, frame.f_lineno or 0, code.co_name)
                known[key] = entry
            if entry is _OUTSIDE:
                break
            if entry is not None:
                stack.append(entry)
                if len(stack) == self.DEPTH:
                    break
            frame = frame.f_back  # type: ignore[assignment]
        return tuple(stack)


def _is_generated(frame: FrameType) -> bool:
    """Whether a frame runs code that this project has made from text."""
    generated = frame.f_code.co_filename.startswith("<")
    return generated and _module(frame) in _NAMES


def _module(frame: FrameType) -> str:
    """Top-level package of the module whose code a frame runs."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def format_stack(stack: tuple[Frame, ...], indent: str = "    ") -> str:
    """Lines of a stack for people, innermost last as in a traceback."""
    return "\n".join(
        f'{indent}File "{name}", line {line}, in {function}' for name, line, function in reversed(stack)
    )
