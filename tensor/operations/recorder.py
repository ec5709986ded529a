"""Recording an operation of several inputs whose derivative is one function, see :mod:`.recording.recorder`."""

from __future__ import annotations

from tensor.autograd.recording.recorder import record

__all__ = ["record"]
