"""Warnings that point at the line of the program, however many functions of these packages lie between."""

from __future__ import annotations

import sys
import warnings

PACKAGES = frozenset(("drv", "nvrtc_kernels", "tensor", "nn", "parallel"))


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is not in these packages.

    An operation has forms of different depth (function, method, module), so that it cannot count its callers.
    """
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and inside(frame.f_globals):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def inside(namespace: dict[str, object]) -> bool:
    """Whether the globals of a function are those of a module of these packages."""
    return str(namespace.get("__name__")).partition(".")[0] in PACKAGES
