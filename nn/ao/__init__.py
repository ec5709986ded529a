"""Names of ``torch.ao``: what models that can be quantized elsewhere are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from . import quantization

__all__ = ["quantization"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
