"""Discrete Fourier transforms; see :func:`fft` for sizes and norms. On CUDA through cuFFT, whose plans are cached."""

from tensor.operations.catalogue import bind as _bind
from tensor.operations.catalogue import published as _published

from . import functions, short_time  # noqa: F401 - which publish what is found here

__all__ = [*_published("fft")]
_bind("fft", globals())
