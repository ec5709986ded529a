"""Elementary functions made of loops with vector instructions and polynomials, whether or not NumPy's loops here have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor
from tensor.operations.pointwise import elementary_on_host as on_host
from tests.tensor.operations.operands import units_off

#: Ufunc, its form, least and largest operand, units off.
FUNCTIONS: dict[str, tuple[np.ufunc, Callable[..., Any], float, float, float]] = {
    "expm1": (np.expm1, on_host.expm1_of_singles, -104, 88.7, 3),
    "sinh": (np.sinh, on_host.sinh_of_singles, -89, 89, 3),
    "cosh": (np.cosh, on_host.cosh_of_singles, -89, 89, 4),
    "log1p": (np.log1p, on_host.log1p_of_singles, -0.999999, 1e38, 4),
    "atanh": (np.arctanh, on_host.atanh_of_singles, -0.999999, 0.999999, 4),
    "tan": (np.tan, on_host.tan_of_singles, -1e5, 1e5, 4),
    "atan": (np.arctan, on_host.atan_of_singles, -1e30, 1e30, 3),
    "asin": (np.arcsin, on_host.asin_of_singles, -1, 1, 3),
    "acos": (np.arccos, on_host.acos_of_singles, -1, 1, 3),
}
SPECIAL = np.array(
    [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e-23, -3e-23, 3e38, -3e38, 0.5, -0.5, 2, -2, 87, -87, 104, -104],
    np.float32,
)  # fmt: skip


def _points(low: float, high: float) -> Any:
    """Evenly, evenly near 0, and evenly over all sizes."""
    rng = np.random.default_rng(0)
    parts = [rng.uniform(low, high, 20_000), rng.uniform(max(low, -3), min(high, 3), 20_000)]
    parts += [
        s * np.exp(rng.uniform(-70, np.log(max(s * end, 1e-30)), 20_000)) for s, end in ((1, high), (-1, low))
    ]
    return np.concatenate(parts).astype(np.float32).clip(np.float32(low), np.float32(high))


def _assert_close(result: Any, expected: Any, units: float) -> None:
    representable = ~(np.abs(expected) >= np.finfo(np.float32).max)
    off = np.where(representable, units_off(tensor.from_numpy(result), expected), 0)
    worst = int(off.argmax())
    assert off[worst] <= units, f"{result[worst]} instead of {expected[worst]}, off by {off[worst]:.1f} units"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name: str) -> None:
    ufunc, single, low, high, units = FUNCTIONS[name]
    x = _points(low, high)
    with np.errstate(all="ignore"):
        result = on_host.computing(ufunc, single)(x)
        expected = ufunc(x.astype(np.float64))
    _assert_close(result, expected, units)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str) -> None:
    ufunc, single, _, _, units = FUNCTIONS[name]
    x = np.tile(SPECIAL, 100)
    with np.errstate(all="ignore"):
        result, expected = on_host.computing(ufunc, single)(x), ufunc(x)
    exact = ~np.isfinite(expected) | (expected == 0)
    np.testing.assert_array_equal(result[exact], expected[exact])
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])
    _assert_close(result, expected.astype(np.float64), units + 4)


def test_angles_of_two_coordinates() -> None:
    atan2 = on_host.computing(np.arctan2, on_host.atan2_of_singles)
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(-80, 80, 20_000)) * rng.choice([-1, 1], 20_000)
    a = np.concatenate([rng.standard_normal(40_000), sizes]).astype(np.float32)
    b = rng.permutation(a)
    special = [x.reshape(-1) for x in np.meshgrid(SPECIAL, SPECIAL)]
    a, b = np.append(a, np.tile(special[0], 5)), np.append(b, np.tile(special[1], 5))
    with np.errstate(all="ignore"):
        result, expected = atan2(a, b), np.arctan2(a.astype(np.float64), b.astype(np.float64))
    _assert_close(result, expected, 3)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


def test_operands_that_are_stretched_or_have_gaps_and_outputs() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 120)).astype(np.float32)
    atan, atan2 = (
        on_host.computing(np.arctan, on_host.atan_of_singles),
        on_host.computing(np.arctan2, on_host.atan2_of_singles),
    )
    expected = atan(x)
    np.testing.assert_array_equal(atan(x[:, ::2]), expected[:, ::2])
    into = np.empty((60, 240), np.float32)[:, ::2]
    assert atan(x, out=into) is into
    np.testing.assert_array_equal(into, expected)
    np.testing.assert_array_equal(atan2(x, x[0]), atan2(x, np.tile(x[0], (60, 1))))
    np.testing.assert_array_equal(atan2(x, np.float32(1)), atan2(x, np.ones_like(x)))


def test_other_dtypes_are_the_ufuncs() -> None:
    atan = on_host.computing(np.arctan, on_host.atan_of_singles)
    for dtype in (np.float64, np.complex64):
        x = np.random.default_rng(0).standard_normal(3000).astype(dtype)
        np.testing.assert_array_equal(atan(x), np.arctan(x))
        np.testing.assert_array_equal(atan(x, out=np.empty_like(x)), np.arctan(x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours(dtype: type[np.floating[Any]]) -> None:
    """Of every pair of special numbers, zeros of both signs among them, and of others."""
    limits = np.finfo(dtype)
    sizes = [0.0, limits.smallest_subnormal, limits.tiny, 0.5, 1.0, limits.max, np.inf]
    special = np.array([*sizes, *np.negative(sizes), np.nan], dtype)
    rng = np.random.default_rng(0)
    for operands in (
        np.meshgrid(special, special),
        rng.standard_normal((2, 3001)).astype(dtype),
        np.meshgrid(special[:0], special),
    ):
        a, b = (np.ascontiguousarray(each) for each in operands)
        result = tensor.nextafter(tensor.tensor(a), tensor.tensor(b)).numpy()
        with np.errstate(all="ignore"):
            expected = np.nextafter(a, b)
        np.testing.assert_array_equal(result, expected)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))
