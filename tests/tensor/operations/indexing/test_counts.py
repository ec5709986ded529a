"""How often numbers occur, where the result's size is told and where it follows from the numbers."""

from __future__ import annotations

import pytest

import tensor


@pytest.mark.parametrize("minlength", [0, 1, 4, 6, 7, 5000])
def test_sizes_follow_from_the_largest_number(minlength: int, checked_device: str) -> None:
    x = tensor.tensor([0, 2, 5, 2, 2], device=checked_device)
    result = x.bincount(minlength=minlength)
    assert result.tolist() == [1, 0, 3, 0, 0, 1] + [0] * (minlength - 6)
    assert (result.is_contiguous(), result._is_view()) == (True, False)


def test_negative_numbers_are_refused(checked_device: str) -> None:
    x = tensor.tensor([0, -1, 2], device=checked_device)
    for minlength in (0, 8):
        with pytest.raises(RuntimeError, match="negative number"):
            x.bincount(minlength=minlength)
