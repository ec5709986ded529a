"""Warnings that point at the line of the program, however many functions of these packages lie between."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_ROOT = Path(__file__).resolve().parents[2]
#: What files of these packages begin with: a program may have modules of the same names. Call forms that are written for a
#: definition of the program's own have no file.
_FILES = (
    *(str(_ROOT / name) + os.sep for name in ("drv", "nvrtc_kernels", "tensor", "nn", "parallel")),
    "<tensor call form ",
)


def caller_stacklevel() -> int:
    """Stack level, for :func:`warnings.warn` in the caller, of the innermost line that is not in these packages.

    An operation has forms of different depth (function, method, module), so that it cannot count its callers.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and inside(frame):
        level, frame = level + 1, frame.f_back
    return level


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is not in these packages."""
    warnings.warn(message, category, stacklevel=caller_stacklevel())


def inside(frame: FrameType) -> bool:
    """Whether a frame is one of these packages'."""
    return frame.f_code.co_filename.startswith(_FILES)
