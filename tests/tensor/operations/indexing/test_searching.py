"""Positions in sorted sequences that have NaN, or are searched for it."""

from __future__ import annotations

import math

import pytest

import tensor

NAN = math.nan


@pytest.mark.parametrize("dtype", [tensor.float32, tensor.bfloat16, tensor.float64])
@pytest.mark.parametrize(
    ("sequence", "left", "right"),
    [
        ([], [0, 0, 0, 0], [0, 0, 0, 0]),
        ([1.0, 2.0, math.inf], [3, 0, 2, 0], [3, 1, 3, 0]),
        ([1.0, 2.0, NAN], [3, 0, 3, 0], [3, 1, 3, 0]),
        ([-math.inf, 1.0, math.inf, NAN, NAN], [5, 1, 2, 0], [5, 2, 5, 1]),
        ([NAN, NAN], [2, 2, 2, 2], [2, 2, 2, 2]),
    ],
)
def test_nan_is_behind_everything(
    sequence: list[float], left: list[int], right: list[int], dtype: tensor.dtype, checked_device: str
) -> None:
    ascending = tensor.tensor(sequence, dtype=dtype, device=checked_device)
    values = tensor.tensor([NAN, 1.0, math.inf, -math.inf], dtype=dtype, device=checked_device)
    descending, backwards = ascending.flip(0), tensor.arange(len(sequence), device=checked_device).flip(0)
    for is_right, expected in ((False, left), (True, right)):
        assert tensor.searchsorted(ascending, values, right=is_right).tolist() == expected
        assert tensor.bucketize(values, ascending, right=is_right).tolist() == expected
        assert tensor.searchsorted(descending, values, right=is_right, sorter=backwards).tolist() == expected
