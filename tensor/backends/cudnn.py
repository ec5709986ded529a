"""cuDNN, which convolutions go through where it is installed, under the names that scripts know.

It is NVIDIA's library of neural networks, 700 MB (``pip install 'graphroot[cudnn]'``). Without it convolutions are computed by this
project's own kernels, as are those that cuDNN is slower at. Simulated devices have one with the option ``cudnn=on``.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import drv
from tensor.core.modes.cudnn import settings as _settings
from tensor.core.modes.precision import flag, fp32_name, settings, tf32_of
from tensor.core.names.absent import hints as _hints
from tensor.operations.convolution.through_cudnn import TYPES as _TYPES
from tensor.operations.convolution.through_cudnn import library_of as _library_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensor.methods.tensor import Tensor


def _library() -> Any:
    """NVIDIA's library for the driver in use; ``None`` where there is none, or no driver."""
    try:
        return _library_of(drv.runtime())
    except drv.CudaError:
        return None


def is_available() -> bool:
    """Whether cuDNN is installed, and there is a driver to use it with."""
    return _library() is not None


def version() -> int | None:
    """The version of cuDNN, as ``major * 10000 + minor * 100 + patch``; ``None`` where there is none.

    >>> tensor.backends.cudnn.version()  # where there is none
    """
    library = _library()
    return None if library is None else int(library.cudnnGetVersion())


def is_acceptable(tensor: Tensor) -> bool:
    """Whether cuDNN may compute convolutions of a tensor.

    It must be on a CUDA device, of dtype float16, bfloat16, float32 or float64, and cuDNN must be installed and ``enabled``.

    Parameters
    ----------
    tensor : Tensor
        Of any shape.
    """
    return _settings.cudnn.enabled and tensor.is_cuda and tensor.dtype.name in _TYPES and is_available()


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

# Properties of the module's class, below.
enabled: bool
benchmark: bool
benchmark_limit: int
deterministic: bool
allow_tf32: bool
fp32_precision: str


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str | None = None,
) -> tuple[bool, bool, int, bool, bool]:
    """Change settings, those that are not ``None``; returns them all as they were, in the same order.

    Parameters
    ----------
    _enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32
        Values for the attributes of these names.
    _fp32_precision : str, optional
        ``"ieee"`` or ``"tf32"``, in the place of ``_allow_tf32``; ``"none"`` says nothing.

    Raises
    ------
    RuntimeError
        For a value of the wrong type; nothing is changed.
    """
    before = _settings.cudnn
    tf32 = settings.convolution_tf32
    changes = {
        name: flag(f"backends.cudnn.{name}", value)
        for name, value in (
            ("enabled", _enabled),
            ("benchmark", _benchmark),
            ("deterministic", _deterministic),
        )
        if value is not None
    }
    limit = before.benchmark_limit if _benchmark_limit is None else _limit(_benchmark_limit)
    allowed = tf32 if _allow_tf32 is None else flag("backends.cudnn.allow_tf32", _allow_tf32)
    if _fp32_precision is not None:
        precise = tf32_of(_fp32_precision)
        allowed = allowed if _fp32_precision == "none" else precise
    settings.convolution_tf32 = allowed
    _settings.cudnn = before._replace(benchmark_limit=limit, **changes)
    return before.enabled, before.benchmark, before.benchmark_limit, before.deterministic, tf32


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """Settings of this module inside ``with tensor.backends.cudnn.flags(enabled=True, allow_tf32=False):``.

    What is not given is as it is here, so that cuDNN is not used unless ``enabled`` is given, as in PyTorch. ``fp32_precision`` is
    ``allow_tf32`` by another name: ``"ieee"`` or ``"tf32"``.

    Parameters
    ----------
    enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision
        Values for the attributes of these names.

    Raises
    ------
    RuntimeError
        For a value of the wrong type.
    """
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        set_flags(*before)


def _limit(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RuntimeError(
            f"backends.cudnn.benchmark_limit expects a whole number, 0 for no limit, but got {value!r}"
        )
    return value


class _Settings(ModuleType):
    @property
    def enabled(self) -> bool:
        """Whether convolutions go through cuDNN where it is installed; True at first. It is a bool."""
        return _settings.cudnn.enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        _settings.cudnn = _settings.cudnn._replace(enabled=flag("backends.cudnn.enabled", value))

    @property
    def benchmark(self) -> bool:
        """Whether the algorithms of cuDNN and our own kernels are timed at the first convolution of each geometry, so that the
        quickest is taken from then on; False at first, and then cuDNN says which of its algorithms it expects to be that.
        """
        return _settings.cudnn.benchmark

    @benchmark.setter
    def benchmark(self, value: bool) -> None:
        _settings.cudnn = _settings.cudnn._replace(benchmark=flag("backends.cudnn.benchmark", value))

    @property
    def benchmark_limit(self) -> int:
        """How many algorithms are timed at most, beside our own; 10 at first, 0 is all.

        Assigning anything but a whole number raises RuntimeError.
        """
        return _settings.cudnn.benchmark_limit

    @benchmark_limit.setter
    def benchmark_limit(self, value: int) -> None:
        _settings.cudnn = _settings.cudnn._replace(benchmark_limit=_limit(value))

    @property
    def deterministic(self) -> bool:
        """Whether only algorithms are taken that give the same bits in every run; False at first.

        ``use_deterministic_algorithms(True)`` has the same effect on convolutions.
        """
        return _settings.cudnn.deterministic

    @deterministic.setter
    def deterministic(self, value: bool) -> None:
        _settings.cudnn = _settings.cudnn._replace(deterministic=flag("backends.cudnn.deterministic", value))

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
