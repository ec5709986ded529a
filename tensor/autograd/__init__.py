"""Differentiation: what tensors know of it."""

from .state import AutogradState

__all__ = ["AutogradState"]
