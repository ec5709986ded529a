"""f32 and f64 arithmetic in every rounding against exact fractions."""

from __future__ import annotations

import ctypes
import ctypes.util
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from drv.simulator.arithmetic import DTYPES, resolve
from tests.drv.simulator.arithmetic import exact_floats
from tests.drv.simulator.arithmetic.exact_floats import number, rounded
from tests.drv.simulator.arithmetic.lanes import demanding_floats, same

ROUNDINGS = ("rn", "rz", "rm", "rp")
LANES = 300


def _reference(base: str, rounding: str, t: str, values: tuple[float, ...]) -> float:
    operands = [number(value) for value in values]
    match base:
        case "add":
            exact = exact_floats.add(operands[0], operands[1], rounding)
        case "sub":
            exact = exact_floats.add(operands[0], -operands[1], rounding)
        case "mul":
            exact = exact_floats.multiply(operands[0], operands[1])
        case "div":
            exact = exact_floats.divide(operands[0], operands[1])
        case "rcp":
            exact = exact_floats.divide(exact_floats.Fraction(1), operands[0])
        case _:
            exact = exact_floats.fused(operands[0], operands[1], operands[2], rounding)
    return rounded(exact, t, rounding)


def _check(opcode: str, base: str, rounding: str, t: str, operands: list[NDArray]) -> None:
    with np.errstate(all="ignore"):
        results = resolve(opcode).function(*operands)
        lanes = zip(*(operand.tolist() for operand in operands), strict=True)
        expected = np.array([_reference(base, rounding, t, values) for values in lanes], DTYPES[t])
    wrong = np.flatnonzero(~same(t, results, expected))
    shown = [
        (*(float(o[i]).hex() for o in operands), float(results[i]).hex(), float(expected[i]).hex())
        for i in wrong[:3]
    ]
    assert not len(wrong), (opcode, shown)


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("base", ["add", "sub", "mul", "div", "rcp", "fma"])
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_one_rounding(base: str, rounding: str, t: str, seed: int) -> None:
    arity = {"rcp": 1, "fma": 3}.get(base, 2)
    operands = demanding_floats(t, LANES if t == "f32" else 60, arity, np.random.default_rng(seed))
    _check(f"{base}.{rounding}.{t}", base, rounding, t, operands)


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_square_roots(rounding: str, t: str, seed: int) -> None:
    (a,) = demanding_floats(t, LANES, 1, np.random.default_rng(seed))
    with np.errstate(all="ignore"):
        roots = resolve(f"sqrt.{rounding}.{t}").function(a)
    for value, root in zip(a.tolist(), roots.tolist(), strict=True):
        if value < 0 or value != value:
            assert root != root
        elif value == 0 or math.isinf(value):
            assert math.copysign(1, root) == math.copysign(1, value)
            assert root == value
        else:
            dtype = DTYPES[t].type
            below = float(np.nextafter(dtype(root), dtype(0)))
            above = float(np.nextafter(dtype(root), dtype(np.inf)))
            exact, chosen = exact_floats.Fraction(value), exact_floats.Fraction(root)
            lower, upper = exact_floats.Fraction(below), exact_floats.Fraction(above)
            if rounding == "rp":
                assert lower**2 < exact <= chosen**2
            elif rounding == "rn":
                assert ((lower + chosen) / 2) ** 2 <= exact <= ((chosen + upper) / 2) ** 2
            else:
                assert chosen**2 <= exact < upper**2


@pytest.mark.skipif(ctypes.util.find_library("m") is None, reason="needs the C library's fma")
@pytest.mark.parametrize(
    ("t", "name", "c_type"), [("f32", "fmaf", ctypes.c_float), ("f64", "fma", ctypes.c_double)]
)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_fma_is_the_c_librarys(t: str, name: str, c_type: type, seed: int) -> None:
    function = getattr(ctypes.CDLL(ctypes.util.find_library("m")), name)
    function.restype, function.argtypes = c_type, [c_type] * 3
    operands = demanding_floats(t, 2000, 3, np.random.default_rng(seed))
    with np.errstate(all="ignore"):
        results = resolve(f"fma.rn.{t}").function(*operands)
    lanes = zip(*(operand.tolist() for operand in operands), strict=True)
    expected = np.array([function(*values) for values in lanes], DTYPES[t])
    assert same(t, results, expected).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_tie_is_broken_by_what_double_cannot_hold(sign: int) -> None:
    # 97 * 172961 is 2^24 + 1, a tie of float32, and c is below float64's last bit of the sum.
    a, b = np.array([97.0], np.float32), np.array([172961.0], np.float32)
    c = np.array([sign * 2.0**-100], np.float32)
    fma = resolve("fma.rn.f32").function
    expected = 2.0**24 + (2 if sign > 0 else 0)
    assert fma(a, b, c).tolist() == [expected]
    assert fma(a, b, c.repeat(3)).tolist() == [expected] * 3
    assert fma(a.repeat(2), b, c).tolist() == [expected] * 2


@pytest.mark.parametrize("base", ["add", "sub", "mul", "fma"])
def test_flush_and_saturation(base: str) -> None:
    operands = demanding_floats("f32", 5000, 3 if base == "fma" else 2, np.random.default_rng(3))
    tiny = np.finfo(np.float32).tiny

    def flushed(lanes: NDArray) -> NDArray:
        return np.where(np.abs(lanes) < tiny, np.copysign(np.float32(0), lanes), lanes)

    with np.errstate(all="ignore"):
        plain = resolve(f"{base}.rn.f32").function
        for rounding in (".rn", "") if base != "fma" else (".rn",):
            ftz = resolve(f"{base}{rounding}.ftz.f32").function(*operands)
            assert same("f32", ftz, flushed(plain(*(flushed(o) for o in operands)))).all()
        sat = resolve(f"{base}.rn.sat.f32").function(*operands)
        unclamped = plain(*operands)
        flushed_too = resolve(f"{base}.rn.ftz.sat.f32").function(*operands)
        expected = np.where(unclamped > 0, np.minimum(unclamped, 1), np.float32(0))
    assert sat.tobytes() == expected.tobytes()
    assert not ((flushed_too > 0) & (flushed_too < tiny)).any()
    assert ((flushed_too >= 0) & (flushed_too <= 1)).all()
