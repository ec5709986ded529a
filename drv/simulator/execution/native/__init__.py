"""Kernels as native code, where the optional package llvmlite is installed."""

from .kernel import NativeKernel
from .requirement import require

__all__ = ["NativeKernel", "require"]
