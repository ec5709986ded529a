"""Operands of products, and the comparison of results that differ by rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensor
from nvrtc_kernels import dtypes
from tests.pytorch import torch
from tests.tensor.comparison import array_of, assert_same_outcome, outcome, torch_of
from tests.tensor.operations.against_pytorch import make

#: Differences that sums in another order may make, beside the largest number of a result.
ROUNDING = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 1e-5,
    "float64": 1e-12,
    "complex64": 1e-5,
    "complex128": 1e-12,
}
TYPES = [*ROUNDING, "uint8", "int8", "int16", "int32", "int64"]


def small(shape: tuple[int, ...], kind: str = "float32", device: str = "cpu") -> Any:
    """Numbers whose products no type overflows at once; complex ones with both parts."""
    if kind.startswith("complex"):
        parts = [make(shape, "float64") / 20 for _ in range(2)]
        return tensor.complex(*parts).to(dtypes.dtype_named(kind)).to(device)
    if dtypes.dtype_named(kind).is_floating_point:
        return (make(shape, "float64") / 20).to(dtypes.dtype_named(kind)).to(device)
    return (make(shape, "int64").remainder(11)).to(dtypes.dtype_named(kind)).to(device)


def assert_close(found: Any, expected: Any) -> None:
    """Assert that results have the same type and shape, and that sums differ by rounding only."""
    assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    assert tuple(found.shape) == tuple(expected.shape)
    mine, theirs = array_of(found), array_of(expected)
    rounding = ROUNDING.get(found.dtype.name)
    if rounding is None:
        np.testing.assert_array_equal(mine, theirs)
        return
    wide = np.complex128 if found.dtype.is_complex else np.float64
    mine, theirs = mine.astype(wide), theirs.astype(wide)
    largest = np.abs(theirs).max(initial=1)
    np.testing.assert_allclose(mine, theirs, rtol=rounding, atol=rounding * largest)


def check(name: str, *given: Any, **options: Any) -> None:
    """Assert that a function has the outcome that PyTorch's has."""
    theirs = [torch_of(x) if isinstance(x, tensor.Tensor) else x for x in given]
    expected = outcome(getattr(torch, name), *theirs, **options)
    assert_same_outcome(outcome(getattr(tensor, name), *given, **options), expected, assert_close)
