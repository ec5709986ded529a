"""Functions of the subset of Python do the same compiled as they do interpreted."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drv.host import machine_code
from drv.simulator.execution.native.subset import NotInSubset, Record, compile_functions

pytestmark = pytest.mark.skipif(not machine_code.available(), reason="llvmlite is not installed")

RECORD = Record({"n": None, "total": None, "items": "i32", "bytes_": "u8", "words": "i64"})
LIMIT = 5


def summed(s: Any) -> int:
    """Sums, by every kind of statement."""
    total = 0
    for index in range(s.n):
        if s.items[index] < 0 and s.bytes_[index] > LIMIT:
            continue
        if s.items[index] == 7 or s.bytes_[index] == 3:
            total -= s.items[index] * 2
        else:
            total += (s.items[index] << 3) ^ (s.words[index] >> 1) & ~s.bytes_[index] | 1
        s.words[index] = total
        s.bytes_[index] += 250
        if total > 100000:
            break
    left = 3
    while left > 0:
        total = halved(s, total)
        left -= 1
    s.total = total
    return -total


def halved(s: Any, value: int) -> int:
    """Half of a value, towards minus infinity."""
    if value == 0:
        return 0
    for step in range(1, 2):
        value = value >> step
    return value


class Interpreted:
    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.n, self.total = len(arrays["items"]), 0
        # As Python numbers, which do not overflow; stores do as the array's type says.
        self.items, self.bytes_, self.words = (Items(arrays[name]) for name in ("items", "bytes_", "words"))


class Items:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __getitem__(self, index: int) -> int:
        return int(self.array[index])

    def __setitem__(self, index: int, value: int) -> None:
        bits = 8 * self.array.itemsize
        self.array[index : index + 1] = np.array([value & ((1 << bits) - 1)], np.uint64).astype(
            self.array.dtype
        )


@pytest.fixture(scope="module")
def compiled() -> Any:
    code = machine_code.LoadedCode(
        machine_code.compiled(compile_functions([summed, halved], RECORD, {"summed"})),
        "test of subset",
        ["summed"],
    )
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(code.addresses["summed"])
    function.code = code
    return function


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(-100, 100), st.integers(0, 255), st.integers(-(2**40), 2**40)), max_size=12
    )
)
def test_the_same_as_interpreted(compiled: Any, rows: list[tuple[int, int, int]]) -> None:
    arrays = {
        name: np.array([row[column] for row in rows] or [0], dtype)
        for column, (name, dtype) in enumerate(
            (("items", np.int32), ("bytes_", np.uint8), ("words", np.int64))
        )
    }
    expected = {name: array.copy() for name, array in arrays.items()}
    interpreted = Interpreted(expected)
    record = np.array([len(arrays["items"]), 0, *(arrays[name].ctypes.data for name in arrays)], np.int64)
    assert compiled(record.ctypes.data) == summed(interpreted)
    assert record[1] == interpreted.total
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name])


def divides(s: Any) -> int:
    return s.n // 2


def catches(s: Any) -> int:
    try:
        return s.n
    finally:
        s.total = 1


def indexes_a_number(s: Any) -> int:
    return s.n[0]


@pytest.mark.parametrize("function", [divides, catches, indexes_a_number])
def test_what_is_not_in_the_subset_is_refused(function: Any) -> None:
    with pytest.raises(NotInSubset):
        compile_functions([function], RECORD, set())
