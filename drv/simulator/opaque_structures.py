"""Structures of the bindings whose bytes have no names in Python: inter-process handles, UUIDs and the like."""

from __future__ import annotations

import ctypes
from typing import Any


def filled(structure: Any, data: bytes) -> Any:
    """``structure``, with ``data`` as its first bytes."""
    ctypes.memmove(structure.getPtr(), data, len(data))
    return structure


def contents(structure: Any, nbytes: int) -> bytes:
    """The first ``nbytes`` bytes of ``structure``."""
    return ctypes.string_at(structure.getPtr(), nbytes)
