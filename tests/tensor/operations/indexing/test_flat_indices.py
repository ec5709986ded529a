"""``unravel_index`` against PyTorch and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tensor
from tests.tensor.expressions import assert_expression

TEXTS = [
    "m.unravel_index(m.tensor(5, **on), (2, 3))",
    "m.unravel_index(m.tensor([5, 0, 3], **on), (2, 3))",
    "m.unravel_index(m.tensor([[5], [0]], **on), shape=(3, 2, 2))",
    "m.unravel_index(m.tensor([5], dtype=m.int32, **on), 7)",
    "m.unravel_index(m.tensor([], dtype=m.int64, **on), (2, 3))",
    "m.unravel_index(m.tensor([1.5], **on), (2, 3))",
    "m.unravel_index(m.tensor([True], **on), (2, 3))",
    "m.unravel_index(m.tensor([1], **on), (2, -3))",
    "m.unravel_index(m.tensor([1], **on), 'a')",
]


@pytest.mark.parity
@pytest.mark.parametrize("text", TEXTS)
def test_against_pytorch(text: str, device_name: str) -> None:
    assert_expression(text, device_name)


def test_against_numpy() -> None:
    result = tensor.unravel_index(tensor.arange(24), (2, 3, 4))
    for mine, expected in zip(result, np.unravel_index(np.arange(24), (2, 3, 4)), strict=True):
        assert mine.tolist() == expected.tolist()


def test_a_list_is_no_tensor() -> None:
    with pytest.raises(TypeError, match="argument 'indices' must be Tensor, not list"):
        tensor.unravel_index([1], (2, 3))
