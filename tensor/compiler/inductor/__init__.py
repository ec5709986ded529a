"""Names of ``torch._inductor``: the settings of a compiler that is not here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from . import config

__all__ = ["config"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
