"""Processing of signals: :mod:`~tensor.signal.windows`."""

from . import windows

__all__ = ["windows"]
