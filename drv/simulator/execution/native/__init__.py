"""Kernels as native code, where the optional package llvmlite is installed."""

from .kernel import NativeKernel
from .machine_code import require

__all__ = ["NativeKernel", "require"]
