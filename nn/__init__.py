"""Neural network modules on top of `tensor`."""

from .module import Module
from .parameter import Buffer, Parameter

__all__ = ["Buffer", "Module", "Parameter"]
