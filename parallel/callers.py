"""Where in the user's code a warning belongs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
# By their files: a program may have modules of the same names.
_PACKAGES = tuple(str(_ROOT / name) + os.sep for name in ("parallel", "nn", "tensor", "nvrtc_kernels", "drv"))


def caller_stacklevel() -> int:
    """Stack level, for :func:`warnings.warn` in the caller, of the code that has called into the packages."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGES):
        level, frame = level + 1, frame.f_back
    return level
