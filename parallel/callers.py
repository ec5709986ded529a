"""Where in the user's code a warning belongs."""

from __future__ import annotations

import sys

_PACKAGES = frozenset(("parallel", "nn", "tensor", "nvrtc_kernels", "drv"))


def caller_stacklevel() -> int:
    """Stack level, for :func:`warnings.warn` in the caller, of the code that has called into the packages."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _PACKAGES:
        level, frame = level + 1, frame.f_back
    return level
