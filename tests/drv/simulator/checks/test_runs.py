"""Values that differ, as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

from drv.simulator.checks.runs import distinct, distinct_and_where, divided


@pytest.mark.parametrize("values", [[], [3], [3, 3, 3], [5, 5, 2, 2, 2, 5, 9], [1, 2, 3], [-1, 7, -1, 7]])
def test_as_numpys_unique(values: list[int]) -> None:
    array = np.array(values, np.int64)
    each, where = np.unique(array, return_inverse=True)
    np.testing.assert_array_equal(distinct(array), each)
    result, which = distinct_and_where(array)
    np.testing.assert_array_equal(result, each)
    np.testing.assert_array_equal(which, where)


def test_the_result_does_not_hold_what_it_is_of() -> None:
    assert distinct(np.zeros(1000, np.int64)).base is None


def test_as_numpys_divmod() -> None:
    numbers = np.arange(-300, 300)
    for result, expected in zip(divided(numbers, 96), np.divmod(numbers, 96), strict=True):
        np.testing.assert_array_equal(result, expected)
