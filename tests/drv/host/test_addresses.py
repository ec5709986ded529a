"""Addresses of arrays are NumPy's, however they are asked."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from drv.host.addresses import address_of

ARRAYS = {
    "float32": np.zeros((3, 4), np.float32),
    "complex": np.zeros(5, np.complex128),
    "bool": np.zeros(7, np.bool_),
    "half": np.zeros(7, np.float16),
    "bfloat16": np.zeros(7, ml_dtypes.bfloat16),
    "one element": np.array(3.0),
    "a part": np.zeros((6, 4))[2:],
    "gaps": np.zeros((6, 4))[1:, ::2],
    "transposed": np.zeros((6, 4)).T,
    "nothing": np.zeros((0, 4)),
    "read-only": np.broadcast_to(np.float32(2), 1),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_the_address_is_numpys(name: str) -> None:
    array = ARRAYS[name]
    assert address_of(array) == array.ctypes.data


def test_asking_leaves_the_array_as_it_is() -> None:
    array = np.zeros(4)
    address_of(array)
    array.resize(8, refcheck=False)
    assert array.size == 8
