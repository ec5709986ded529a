"""f16 and bf16 arithmetic against exact fractions; approximations against float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from drv.simulator.arithmetic import resolve
from tests.drv.simulator.arithmetic import exact_floats
from tests.drv.simulator.arithmetic.exact_floats import number, rounded
from tests.drv.simulator.arithmetic.lanes import as_floats, demanding_floats, random_lanes, same

LANES = 3000
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def _lanes(t: str, seed: int) -> list[NDArray[Any]]:
    """Three operands with ties, cancellation, and addends far below the product."""
    rng = np.random.default_rng(seed)
    wide = demanding_floats("f32", LANES, 3, rng)
    if t == "f16":
        return [
            np.where(rng.random(LANES) < 0.5, w.astype(np.float16), random_lanes(t, LANES, rng)) for w in wide
        ]
    patterns = [w.astype(ml_dtypes.bfloat16).view(np.uint16) for w in wide]
    return [np.where(rng.random(LANES) < 0.7, p, random_lanes(t, LANES, rng)) for p in patterns]


def _expected(t: str, base: str, operands: list[NDArray[Any]]) -> NDArray[Any]:
    results = []
    for values in zip(*(as_floats(t, x).tolist() for x in operands), strict=True):
        a, b, *rest = (number(value) for value in values)
        match base:
            case "add":
                exact = exact_floats.add(a, b)
            case "sub":
                exact = exact_floats.add(a, -b)
            case "mul":
                exact = exact_floats.multiply(a, b)
            case _:
                exact = exact_floats.fused(a, b, rest[0])
        results.append(rounded(exact, t, "rn"))
    if t == "f16":
        return np.array(results).astype(np.float16)
    return (np.array(results).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("base", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_one_rounding(base: str, t: str) -> None:
    operands = _lanes(t, 21)[: 3 if base == "fma" else 2]
    expected = _expected(t, base, operands)
    results = resolve(f"{base}.rn.{t}").function(*operands)
    assert same(t, results, expected).all()
    packed = resolve(f"{base}.rn.{t}x2").function(*(x.view(np.uint32) for x in operands))
    assert same(f"{t}x2", packed, expected.view(np.uint32)).all()


def test_a_tie_of_bf16_is_broken_by_what_double_cannot_hold() -> None:
    # 1.0078125 * 1.0078125 has bits below a tie; 1.5 * 1.0078125 / ... is one: 1.51171875.
    a, b = (np.array([x], ml_dtypes.bfloat16).view(np.uint16) for x in (1.5, 1.0078125))
    for sign in (1, -1):
        c = np.array([sign * 2.0**-100], ml_dtypes.bfloat16).view(np.uint16)
        value = as_floats("bf16", resolve("fma.rn.bf16").function(a, b, c)).tolist()
        assert value == [1.515625 if sign > 0 else 1.5078125]


def test_modifiers() -> None:
    a = np.array([-1, 0.5, 3, np.nan, 2.0**-20], np.float16)
    one, zero = np.ones(1, np.float16), np.zeros(1, np.float16)
    assert resolve("fma.rn.sat.f16").function(a, one, zero).tolist() == [0, 0.5, 1, 0, 2.0**-20]
    relu = resolve("fma.rn.relu.f16").function(a, one, zero)
    assert relu.view(np.uint16).tolist() == [0, 0x3800, 0x4200, 0x7FFF, 16]
    assert resolve("add.ftz.f16").function(a[4:], zero).tolist() == [0]
    patterns = (a.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    brain_one, brain_zero = np.array([0x3F80], np.uint16), np.zeros(1, np.uint16)
    clamped = resolve("fma.rn.relu.bf16").function(patterns, brain_one, brain_zero)
    assert clamped.tolist() == [0, 0x3F00, 0x4040, 0x7FFF, 0x3580]


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_signs(t: str) -> None:
    (a, _, _) = _lanes(t, 22)
    sign = a.view(np.uint16)
    assert (resolve(f"neg.{t}").function(a).view(np.uint16) == sign ^ 0x8000).all()
    assert (resolve(f"abs.{t}").function(a).view(np.uint16) == sign & 0x7FFF).all()
    pair = a.view(np.uint32)
    assert (resolve(f"neg.{t}x2").function(pair).view(np.uint16) == sign ^ 0x8000).all()
    assert (resolve(f"abs.{t}x2").function(pair).view(np.uint16) == sign & 0x7FFF).all()


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_sums_in_f32(t: str) -> None:
    a, b, _ = _lanes(t, 23)
    c = random_lanes("f32", LANES, np.random.default_rng(24))
    wide = as_floats(t, a).astype(np.float32), as_floats(t, b).astype(np.float32)
    for rounding in ("rn", "rz", "rm", "rp"):
        fused = resolve(f"fma.{rounding}.f32.{t}").function(a, b, c)
        assert same("f32", fused, resolve(f"fma.{rounding}.f32").function(*wide, c)).all()
        added = resolve(f"add.{rounding}.f32.{t}").function(a, c)
        assert same("f32", added, resolve(f"add.{rounding}.f32").function(wide[0], c)).all()


APPROXIMATIONS = {
    "sin": (np.sin, -3.0, 3.0),
    "cos": (np.cos, -3.0, 3.0),
    "ex2": (np.exp2, -120.0, 120.0),
    "lg2": (np.log2, 1e-30, 1e30),
    "rcp": (np.reciprocal, 1e-30, 1e30),
    "sqrt": (np.sqrt, 0.0, 1e30),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-30, 1e30),
    "tanh": (np.tanh, -5.0, 5.0),
}


@pytest.mark.parametrize("base", sorted(APPROXIMATIONS))
def test_approximations(base: str) -> None:
    function, low, high = APPROXIMATIONS[base]
    values = np.random.default_rng(25).uniform(low, high, 20000).astype(np.float32)
    exact = function(values.astype(np.float64))
    error = np.abs(resolve(f"{base}.approx.f32").function(values) - exact)
    # Tighter than any bound that PTX states.
    assert (error <= np.maximum(np.abs(exact) * 2.0**-22.5, 2.0**-149)).all() or base in ("sin", "cos", "lg2")
    assert (error <= np.maximum(np.abs(exact), 1) * 2.0**-22).all()


def test_special_values_of_approximations() -> None:
    def value(opcode: str, *operands: float) -> float:
        result: float = resolve(opcode).function(*(np.array([x], np.float32) for x in operands))[0]
        return result

    assert value("rcp.approx.f32", -0.0) == -np.inf
    assert value("rcp.approx.ftz.f32", 1e-40) == np.inf
    assert value("rsqrt.approx.f32", np.inf) == 0
    assert value("lg2.approx.f32", 0.0) == -np.inf
    assert value("ex2.approx.ftz.f32", -130.0) == 0
    assert value("ex2.approx.f32", -130.0) == 2.0**-130
    assert np.isnan(value("sin.approx.f32", np.inf))
    assert value("div.approx.f32", 1.0, 2.0**127) == 0
    assert value("div.full.f32", 1.0, 2.0**127) == 2.0**-127
    assert np.isnan(value("div.approx.f32", np.inf, 2.0**127))
    assert value("div.approx.f32", 6.0, 3.0) == 2


def test_coarse_reciprocals_of_doubles() -> None:
    values = np.array([3.0, 1e-310, -7e300, np.inf, np.nan])
    result = resolve("rcp.approx.ftz.f64").function(values)
    assert (result.view(np.uint64)[:4] & 0xFFFFFFFF == 0).all()
    assert abs(result[0] * 3 - 1) < 2.0**-19
    assert result[1] == np.inf
    assert np.isnan(result[4])
    roots = resolve("rsqrt.approx.f64").function(np.array([4.0, 1e-310]))
    assert np.allclose(roots, [0.5, 1e155], rtol=1e-7)


def test_pairs_of_f32() -> None:
    a, b, c = demanding_floats("f32", 2000, 3, np.random.default_rng(26))
    single = resolve("fma.rn.f32").function(a, b, c)
    packed = resolve("fma.rn.f32x2").function(*(x.view(np.uint64) for x in (a, b, c)))
    assert same("f32x2", packed, single.view(np.uint64)).all()
