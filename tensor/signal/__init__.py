"""Processing of signals: :mod:`~tensor.signal.windows`."""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from . import windows

__all__ = ["windows"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
