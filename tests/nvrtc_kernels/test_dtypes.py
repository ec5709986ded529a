"""Element types and their promotion."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import promote_types


def test_printed_and_pickled_by_name() -> None:
    assert repr(dtypes.float32) == "tensor.float32"
    assert repr(dtypes.bool_) == "tensor.bool"
    for each in dtypes.EVERY:
        assert pickle.loads(pickle.dumps(each)) is each
        assert dtypes.from_numpy(each.numpy) is each


@pytest.mark.parametrize("given", ["U3", "O", "V4", "M8[s]"])
def test_numpy_types_that_no_tensor_holds(given: str) -> None:
    with pytest.raises(TypeError, match="only supported types are"):
        dtypes.from_numpy(np.dtype(given))


def test_byte_order_does_not_matter() -> None:
    assert dtypes.from_numpy(">f4") is dtypes.float32


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("uint8", "int8", "int16"),
        ("bool", "uint8", "uint8"),
        ("int64", "float16", "float16"),
        ("float16", "bfloat16", "float32"),
        ("bfloat16", "float64", "float64"),
        ("complex64", "float64", "complex128"),
        ("complex64", "int64", "complex64"),
        ("complex64", "bfloat16", "complex64"),
    ],
)
def test_promotion(first: str, second: str, expected: str) -> None:
    one, two = dtypes.dtype_named(first), dtypes.dtype_named(second)
    assert promote_types(one, two) is promote_types(two, one) is dtypes.dtype_named(expected)


@pytest.mark.parity
def test_promotion_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for one in dtypes.EVERY:
        for two in dtypes.EVERY:
            try:
                expected = torch.promote_types(getattr(torch, one.name), getattr(torch, two.name))
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match=re.escape(str(error))):
                    promote_types(one, two)
            else:
                assert promote_types(one, two).name == str(expected).removeprefix("torch.")


def test_real_and_complex_counterparts() -> None:
    assert dtypes.complex64.to_real() is dtypes.float32
    assert dtypes.float64.to_complex() is dtypes.complex128
    assert dtypes.int8.to_real() is dtypes.int8
    with pytest.raises(TypeError, match="no complex type with parts of tensor.float16"):
        dtypes.float16.to_complex()
