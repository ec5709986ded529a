"""Settings of convolutions, under the names that scripts know. cuDNN itself is not used."""

from __future__ import annotations

import sys
from types import ModuleType

from ..precision import settings

#: Taken for PyTorch's sake; nothing depends on them.
enabled = True
benchmark = False
deterministic = False


def is_available() -> bool:
    """False: convolutions are this project's own."""
    return False


def version() -> None:
    """None: there is no cuDNN."""
    return


class _Settings(ModuleType):
    @property
    def allow_tf32(self) -> bool:
        """Whether convolutions round float32 to TF32 (10 mantissa bits); True at first."""
        return settings.convolution_tf32

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        settings.convolution_tf32 = bool(value)

    @property
    def fp32_precision(self) -> str:
        """``"tf32"`` or ``"ieee"``: the same as ``allow_tf32``."""
        return "tf32" if settings.convolution_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in ("tf32", "ieee"):
            raise RuntimeError(f"fp32_precision must be 'tf32' or 'ieee', got {value!r}")
        settings.convolution_tf32 = value == "tf32"


# Assigning to a module's attribute calls a setter only if the module's class has it.
sys.modules[__name__].__class__ = _Settings
