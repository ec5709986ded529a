"""Neural network modules on top of `tensor`."""

from . import functional, init
from .linear import Bilinear, Identity, Linear
from .module import Module
from .parameter import Buffer, Parameter

__all__ = ["Bilinear", "Buffer", "Identity", "Linear", "Module", "Parameter", "functional", "init"]
