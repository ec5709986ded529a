"""Comparing and making tensors in tests: the names of ``torch.testing``."""

from typing import TYPE_CHECKING

from tensor.core.names.absent import hints as _hints

from .comparison import assert_allclose, assert_close
from .random_tensors import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
