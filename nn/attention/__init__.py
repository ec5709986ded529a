"""Attention beside ``nn.functional.scaled_dot_product_attention``: the names of ``torch.nn.attention``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from . import bias as bias
from . import flex_attention as flex_attention
from . import varlen as varlen
from .backends import SDPBackend, sdpa_kernel

__all__ = ["SDPBackend", "sdpa_kernel"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
