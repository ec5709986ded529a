"""Parametrizations of weights: weight normalization, spectral normalization and orthogonal matrices."""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from .norms import spectral_norm, weight_norm
from .orthogonal import orthogonal

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
