"""Scratch memory is used again, in the cache line's place, and never by two arrays at a time."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tensor.core.host.memory import LINE
from tensor.core.host.scratch import BLOCK, scratch

LIKE = np.empty((100, 300), np.float32)


def _address(array: np.ndarray) -> int:
    return array.ctypes.data


def test_memory_is_used_again_when_nobody_refers_to_it() -> None:
    first = scratch(LIKE)
    address = _address(first)
    assert address % LINE == 0
    view = first[3:].reshape(-1)[::2]
    del first
    assert _address(scratch(LIKE)) != address
    del view
    assert _address(scratch(LIKE, np.float64)) == address


def test_arrays_in_use_do_not_overlap() -> None:
    arrays = [scratch(LIKE) for _ in range(5)]
    for i, array in enumerate(arrays):
        array[...] = i
    for i, array in enumerate(arrays):
        assert (array == i).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex128])
@pytest.mark.parametrize("shape", [(0,), (3,), (70, 80), (BLOCK,)], ids=str)
def test_arrays_have_the_shape_and_dtype(shape: tuple[int, ...], dtype: type) -> None:
    array = scratch(np.empty(shape, np.int16), dtype)
    assert array.shape == shape
    assert array.dtype == dtype
    assert array.flags.c_contiguous


def test_threads_have_memory_of_their_own() -> None:
    first = scratch(LIKE)
    first[...] = 1

    def write() -> None:
        scratch(LIKE)[...] = 2

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert (first == 1).all()
