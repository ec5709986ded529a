"""CUDA C++ kernels, and the code that specialises, compiles and caches them."""

from graphroot.coexistence import share as _share

from .kernel_cache import KernelCache
from .program import Program
from .raw_kernel import RawKernel

__all__ = ["KernelCache", "Program", "RawKernel"]

_share(__name__)
