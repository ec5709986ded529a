"""Attention."""

from __future__ import annotations

from tensor.neural.attention import scaled_dot_product_attention

__all__ = ["scaled_dot_product_attention"]
