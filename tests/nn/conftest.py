"""Where the tensors of a test lie, and how precise products are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tensor
from tests.tensor.conftest import place_name

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["place_name"]


@pytest.fixture
def full_precision() -> Iterator[None]:
    """Products without the rounding of TF32."""
    before = tensor.get_float32_matmul_precision()
    tensor.set_float32_matmul_precision("highest")
    yield
    tensor.set_float32_matmul_precision(before)
