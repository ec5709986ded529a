"""Settings of what computes: :mod:`~tensor.backends.cuda`, :mod:`~tensor.backends.cudnn`, ``fp32_precision``."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tensor.core.modes.precision import fp32_name, settings, tf32_of
from tensor.core.names.absent import missing as _missing

from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]


class _Settings(ModuleType):
    @property
    def fp32_precision(self) -> str:
        """``"tf32"`` or ``"ieee"`` for products and convolutions alike; ``"none"`` where they differ.

        Assigning sets both; ``"none"`` goes back to TF32, and anything else raises RuntimeError.
        """
        if settings.matmul_tf32 is not settings.convolution_tf32:
            return "none"
        return fp32_name(settings.matmul_tf32)

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        tf32 = tf32_of(value)
        settings.set_matmul_tf32(tf32)
        settings.convolution_tf32 = tf32


# Assigning to a module's attribute calls a setter only if the module's class has it.
sys.modules[__name__].__class__ = _Settings

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker

    def __getattr__(name: str) -> Any:
        raise _missing(__name__, name)
