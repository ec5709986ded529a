"""Settings of convolutions, under the names that scripts know. cuDNN itself is not used."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from tensor.core.modes.precision import flag, fp32_name, settings, tf32_of
from tensor.core.names.absent import hints as _hints

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Taken for PyTorch's sake; nothing depends on them.
enabled = True
benchmark = False
deterministic = False


def is_available() -> bool:
    """False: there is no cuDNN, convolutions are this project's own kernels."""
    return False


def version() -> None:
    """None, where PyTorch returns a number: there is no cuDNN."""
    return


class _Convolutions:
    """The settings of convolutions alone, which are all that there are."""

    __slots__ = ()

    @property
    def fp32_precision(self) -> str:
        """``"tf32"`` or ``"ieee"``: the same as ``allow_tf32``; ``"none"`` may be assigned to go back.

        Assigning anything else raises RuntimeError.
        """
        return fp32_name(settings.convolution_tf32)

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        settings.convolution_tf32 = tf32_of(value)


#: ``conv.fp32_precision`` is the same as ``fp32_precision``.
conv = _Convolutions()


@contextmanager
def flags(
    enabled: bool = True, benchmark: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """Settings of this module inside ``with tensor.backends.cudnn.flags(allow_tf32=False):``.

    ``allow_tf32`` decides whether convolutions round float32 to TF32; ``enabled``, ``benchmark`` and
    ``deterministic`` are kept for scripts that read them, and change nothing.

    Raises
    ------
    RuntimeError
        If ``allow_tf32`` is not a bool.
    """
    here = sys.modules[__name__].__dict__
    before = {name: here[name] for name in ("enabled", "benchmark", "deterministic")}
    tf32 = settings.convolution_tf32
    settings.convolution_tf32 = flag("backends.cudnn.allow_tf32", allow_tf32)
    here.update(enabled=enabled, benchmark=benchmark, deterministic=deterministic)
    try:
        yield
    finally:
        here.update(before)
        settings.convolution_tf32 = tf32


class _Settings(ModuleType):
    @property
    def allow_tf32(self) -> bool:
        """Whether convolutions round float32 to TF32 (10 mantissa bits); True at first.

        Assigning anything but a bool raises RuntimeError.
        """
        return settings.convolution_tf32

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        settings.convolution_tf32 = flag("backends.cudnn.allow_tf32", value)

    @property
    def fp32_precision(self) -> str:
        """``"tf32"`` or ``"ieee"``: the same as ``allow_tf32``; ``"none"`` may be assigned to go back.

        Assigning anything else raises RuntimeError.
        """
        return conv.fp32_precision

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        conv.fp32_precision = value


# Assigning to a module's attribute calls a setter only if the module's class has it.
sys.modules[__name__].__class__ = _Settings

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
