"""Discrete Fourier transforms; see :func:`fft` for sizes and norms. On CUDA through cuFFT, whose plans are cached."""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints
from tensor.operations.definition.catalogue import bind as _bind
from tensor.operations.definition.catalogue import published as _published

from . import functions, short_time  # noqa: F401 - which publish what is found here

__all__ = [*_published("fft")]
_bind("fft", globals())

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
