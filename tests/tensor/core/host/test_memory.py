"""Memory of large arrays on the host is kept, bounded, and never shared."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tensor
from tensor.core.host import memory as host_memory


@pytest.fixture(autouse=True)
def nothing_kept():
    gc.collect()
    host_memory._cached.clear()
    yield
    host_memory._cached.clear()


def test_the_next_array_of_a_size_gets_the_memory():
    first = tensor.empty(1 << 17)
    address = first.data_ptr()
    del first
    assert tensor.empty(1 << 17).data_ptr() == address


def test_memory_stays_while_any_view_is_there():
    x = tensor.ones(1 << 17)
    view = x.numpy()[5:].reshape(-1)[::2]
    part = x[7:]
    del x
    y = tensor.zeros(1 << 17)
    del y
    assert (view == 1).all()
    assert bool((part == 1).all())


def test_living_arrays_never_share_memory():
    result = [tensor.full((300, 301), float(i)) for i in range(8)]
    for i, each in enumerate(result):
        assert bool((each == i).all())


def test_small_and_huge_arrays_are_not_kept():
    for size in (10, host_memory.MOST + 1):
        array = host_memory.empty((size,), np.uint8, size)
        assert array.flags.owndata
        del array
    assert not host_memory.kept_bytes()


def test_what_is_kept_is_bounded():
    result = [host_memory.empty((16 << 20,), np.uint8, 16 << 20) for _ in range(12)]
    while result:
        result.pop()
        assert host_memory.kept_bytes() <= host_memory.LIMIT
    assert host_memory.kept_bytes()


@pytest.mark.parametrize("kind", [np.float32, np.int8, np.complex128, np.bool_])
def test_arrays_have_the_shape_and_type_that_was_asked_for(kind):
    nbytes = 3 * 100_003 * np.dtype(kind).itemsize
    array = host_memory.empty((3, 100_003), kind, nbytes)
    assert array.shape == (3, 100_003)
    assert array.dtype == kind
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.nbytes == nbytes
    assert array.ctypes.data % host_memory.LINE == 0
