"""Remainders, whole quotients and hypotenuses with NumPy alone: the bits of NumPy's own loops, wherever the operands lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensor.operations.pointwise import quotients_on_host as on_host

COUNT = 140_001
SPECIAL = np.array(
    [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38, 5, 3, 7.5, -7.5, 2**-130],
    np.float32,
)


def _operands() -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(0)

    def bits() -> Any:
        return rng.integers(0, 1 << 32, COUNT, dtype=np.uint32).view(np.float32)

    def normal(scale: float) -> Any:
        return (rng.standard_normal(COUNT) * scale).astype(np.float32)

    def whole(limit: int) -> Any:
        return rng.integers(-limit, limit, COUNT).astype(np.float32)

    multiples = whole(1 << 20) * np.float32(0.1)
    return {
        "normal": (normal(1), normal(1)),
        "any bits": (bits(), bits()),
        "special": tuple(np.tile(x.reshape(-1), 10) for x in np.meshgrid(SPECIAL, SPECIAL)),
        "whole numbers": (whole(1000), whole(20)),
        "near multiples": (np.nextafter(multiples, np.float32(np.inf)), np.float32(0.1)),
        "multiples": (multiples, np.float32(-0.1)),
        "large quotients": (normal(1e7), normal(1)),
        "a number by all": (np.float32(1e5), normal(1)),
        "rows": (normal(1)[:140_000].reshape(70, 2000), normal(1)[:2000]),
        "few": (normal(1)[:9], normal(1)[:9]),
    }


OPERANDS = _operands()
FUNCTIONS = {
    "fmod": (on_host.fmod_on_host, np.fmod),
    "remainder": (on_host.remainder_on_host, on_host._remainder),
    "floor_divide": (on_host.floor_divide_on_host, np.floor_divide),
    "hypot": (on_host.hypot_on_host, np.hypot),
}


@pytest.mark.parametrize("operands", OPERANDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_numpys(name: str, operands: str) -> None:
    a, b = OPERANDS[operands]
    function, exact = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        expected = exact(a, b)
        result = function(a, b)
        into = np.empty((*expected.shape, 2), np.float32)[..., 0]
        assert function(a, b, into) is into
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(into, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int8])
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_other_dtypes_are_numpys(name: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-100, 100, 1000).astype(dtype), rng.integers(1, 10, 1000).astype(dtype)
    function, exact = FUNCTIONS[name]
    result = function(a, b)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, exact(a, b))
