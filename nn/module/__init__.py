"""``Module``, the base class of every layer and model: its members, hooks, state dicts and conversions."""

from .lazy import LazyModuleMixin
from .module import Module

__all__ = ["LazyModuleMixin", "Module"]
