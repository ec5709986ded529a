"""Comparing and making tensors in tests: the names of ``torch.testing``."""

from .comparison import assert_allclose, assert_close
from .random_tensors import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
