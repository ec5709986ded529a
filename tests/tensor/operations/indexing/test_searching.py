"""Positions in sorted sequences that have NaN or are searched for it, and dtypes that differ from the values'."""

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


def test_different_dtypes_are_promoted(checked_device: str) -> None:
    numbers = tensor.tensor([1, 2, 3], device=checked_device)
    between = tensor.tensor([1.5, 2.5], device=checked_device)
    assert tensor.searchsorted(numbers, between).tolist() == [1, 2]
    assert tensor.searchsorted(between, numbers).tolist() == [0, 1, 2]
    assert tensor.searchsorted(numbers, between[1]).item() == 2
    assert tensor.searchsorted(numbers.byte(), tensor.tensor([258, -1], device=checked_device)).tolist() == [
        3,
        0,
    ]


@pytest.mark.parametrize("number", [2.5, 2, True, math.inf])
def test_a_number_is_not_cut_off(number: float, checked_device: str) -> None:
    numbers = tensor.tensor([1, 2, 3], device=checked_device)
    expected = {2.5: 2, 2: 1, True: 0, math.inf: 3}[number]
    assert tensor.searchsorted(numbers, number).item() == expected
    assert tensor.bucketize(number, numbers).item() == expected


def test_dtypes_without_an_order_are_not_implemented(checked_device: str) -> None:
    z = tensor.ones(2, dtype=tensor.complex64, device=checked_device)
    for call in (
        lambda: tensor.searchsorted(z.real, z),
        lambda: tensor.sort(z),
        lambda: tensor.cummax(z, 0),
        lambda: tensor.logcumsumexp(tensor.ones(2, dtype=tensor.int64, device=checked_device), 0),
    ):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            call()
