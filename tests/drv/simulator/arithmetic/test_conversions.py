"""cvt against exact fractions, for every pair of types and rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from drv.simulator.arithmetic import DTYPES, resolve
from tests.drv.simulator.arithmetic.exact_floats import number, rounded
from tests.drv.simulator.arithmetic.lanes import as_floats, random_lanes, same

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INTEGERS = tuple(f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64))
FLOATS = ("bf16", "f16", "f32", "f64")
LANES = 400


def _convert(opcode: str, *operands: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return resolve(opcode).function(*operands)


def _floats(t: str, seed: int = 0) -> NDArray[Any]:
    """Lanes of a float type: random patterns, ties of the shorter types, whole and half numbers."""
    rng = np.random.default_rng(seed)
    lanes = random_lanes(t, LANES, rng)
    values = rng.integers(-600, 600, LANES) / 2.0 * 2.0 ** rng.integers(-3, 30, LANES)
    with np.errstate(all="ignore"):
        if t == "bf16":
            simple = values.astype(ml_dtypes.bfloat16).view(np.uint16)
        else:
            simple = values.astype(DTYPES[t])
            # Few significant bits: exact values and ties of the narrower types.
            unsigned = f"u{lanes.itemsize}"
            dropped = rng.integers(0, np.finfo(lanes.dtype).nmant + 1, LANES).astype(unsigned)
            lanes = (lanes.view(unsigned) >> dropped << dropped).view(lanes.dtype)
    return np.concatenate((lanes, random_lanes(t, LANES, rng), simple))


def _expected(t: str, rounding: str, values: list[float]) -> NDArray[Any]:
    exact = np.array([rounded(number(value), t, rounding) for value in values])
    if t == "bf16":
        return (exact.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return exact.astype(DTYPES[t])


@pytest.mark.parametrize(("source", "t"), [(s, t) for s, t in product(FLOATS, FLOATS) if s != t])
def test_floats_to_floats(source: str, t: str) -> None:
    lanes = _floats(source)
    values = as_floats(source, lanes).astype(np.float64).tolist()
    widening = (source, t) in {
        ("f16", "f32"),
        ("f16", "f64"),
        ("bf16", "f32"),
        ("bf16", "f64"),
        ("f32", "f64"),
    }
    for rounding in ("rn",) if widening else ("rn", "rz", "rm", "rp"):
        modifier = "" if widening else f".{rounding}"
        with np.errstate(all="ignore"):
            expected = _expected(t, rounding, values)
        wrong = np.flatnonzero(~same(t, _convert(f"cvt{modifier}.{t}.{source}", lanes), expected))
        assert not len(wrong), (rounding, values[wrong[0]].hex(), expected[wrong[0]])


@pytest.mark.parametrize(("source", "t"), list(product(INTEGERS, FLOATS)))
def test_integers_to_floats(source: str, t: str) -> None:
    rng = np.random.default_rng(4)
    lanes = random_lanes(source, LANES, rng)
    shifts = rng.integers(0, 8 * lanes.itemsize, LANES).astype(lanes.dtype)
    lanes = np.concatenate((lanes, lanes >> shifts, lanes >> shifts << shifts))
    for rounding in ("rn", "rz", "rm", "rp"):
        exact = [rounded(Fraction(value) if value else 0.0, t, rounding) for value in lanes.tolist()]
        expected = np.array(exact)
        with np.errstate(all="ignore"):
            if t == "bf16":
                expected = (expected.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            else:
                expected = expected.astype(DTYPES[t])
        assert same(t, _convert(f"cvt.{rounding}.{t}.{source}", lanes), expected).all(), rounding


_WHOLE = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize(("source", "t"), list(product(FLOATS, INTEGERS)))
def test_floats_to_integers(source: str, t: str) -> None:
    lanes = _floats(source, 5)
    values = as_floats(source, lanes).astype(np.float64).tolist()
    limits = np.iinfo(DTYPES[t])
    bits = limits.bits
    highest_bit = limits.min if t.startswith("s") else 1 << bits - 1
    for rounding, whole in _WHOLE.items():
        expected = []
        for value in values:
            if value != value:
                expected.append(highest_bit if source == "f64" or bits == 64 else 0)
            elif math.isinf(value):
                expected.append(limits.max if value > 0 else limits.min)
            else:
                expected.append(min(max(whole(value), limits.min), limits.max))
        assert _convert(f"cvt.{rounding}.{t}.{source}", lanes).tolist() == expected, rounding


@pytest.mark.parametrize(("source", "t"), list(product(INTEGERS, INTEGERS)))
def test_integers_to_integers(source: str, t: str) -> None:
    lanes = random_lanes(source, LANES, np.random.default_rng(6))
    limits = np.iinfo(DTYPES[t])
    clamped = [min(max(value, limits.min), limits.max) for value in lanes.tolist()]
    assert _convert(f"cvt.sat.{t}.{source}", lanes).tolist() == clamped
    wrapped = [(value - limits.min) % (1 << limits.bits) + limits.min for value in lanes.tolist()]
    assert _convert(f"cvt.{t}.{source}", lanes).tolist() == wrapped


@pytest.mark.parametrize("t", ["f16", "f32", "f64"])
def test_floats_to_whole_floats(t: str) -> None:
    lanes = _floats(t, 7)
    for rounding, function in {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}.items():
        assert same(t, _convert(f"cvt.{rounding}.{t}.{t}", lanes), function(lanes)).all()
        brain = _floats("bf16", 7)
        whole = as_floats("bf16", _convert(f"cvt.{rounding}.bf16.bf16", brain))
        assert same("f32", whole, function(as_floats("bf16", brain))).all()


def test_modifiers() -> None:
    lanes = np.array([np.nan, -1.0, -0.0, 0.25, 7e4, 1e39, 1e-40, -1e-40, np.inf], np.float64).astype(
        np.float32
    )
    assert _convert("cvt.rn.sat.f16.f32", lanes).tolist() == [0, 0, 0, 0.25, 1, 1, 0, 0, 1]
    relu = _convert("cvt.rn.relu.f16.f32", lanes)
    assert relu.view(np.uint16).tolist() == [0x7FFF, 0, 0, 0x3400, 0x7C00, 0x7C00, 0, 0, 0x7C00]
    finite = _convert("cvt.rn.satfinite.f16.f32", lanes)
    assert finite[1:].tolist() == [-1, -0.0, 0.25, 65504, 65504, 0, -0.0, 65504]
    flushed = _convert("cvt.ftz.f64.f32", lanes[6:8])
    assert flushed.tolist() == [0, 0]
    assert np.signbit(flushed).tolist() == [False, True]
    # Rounding up makes 1 of a subnormal, unless that is flushed first.
    assert _convert("cvt.rpi.s32.f32", lanes[6:8]).tolist() == [1, 0]
    assert _convert("cvt.rpi.ftz.s32.f32", lanes[6:8]).tolist() == [0, 0]
    assert _convert("cvt.sat.f32.f32", lanes).tolist() == [0, 0, 0, 0.25, 1, 1, np.float32(1e-40), 0, 1]
    assert _convert("cvt.rn.relu.bf16.f32", lanes[:4]).tolist() == [0x7FFF, 0, 0, 0x3E80]


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_the_first_of_two_becomes_the_upper_half(t: str) -> None:
    upper, lower = _floats("f32", 8), _floats("f32", 9)
    packed = _convert(f"cvt.rn.{t}x2.f32", upper, lower)
    single = f"cvt.rn.{t}.f32"
    assert ((packed >> 16).astype(np.uint16) == _convert(single, upper).view(np.uint16)).all()
    assert (packed.astype(np.uint16) == _convert(single, lower).view(np.uint16)).all()


def test_tf32() -> None:
    one = 0x3F800000
    patterns = np.array(
        [one + 0x1000, one + 0xFFF, one + 0x3000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000], np.uint32
    )
    lanes = patterns.view(np.float32)
    away = [one + 0x2000, one, one + 0x4000, 0x7F800000, 0x7F800000, 0x7FFFFFFF]
    assert _convert("cvt.rna.tf32.f32", lanes).tolist() == away
    even = [one, one, one + 0x4000, 0x7F800000, 0x7F800000, 0x7FFFFFFF]
    assert _convert("cvt.rn.tf32.f32", lanes).tolist() == even
    truncated = [one, one, one + 0x2000, 0x7F7FE000, 0x7F800000, 0x7FFFFFFF]
    assert _convert("cvt.rz.tf32.f32", lanes).tolist() == truncated
    assert _convert("cvt.rna.satfinite.tf32.f32", lanes)[3:5].tolist() == [0x7F7FE000] * 2


@pytest.mark.parametrize("small", ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"])
def test_small_floats(small: str) -> None:
    bits = 4 if small == "e2m1" else 8
    dtype = {
        "e4m3": ml_dtypes.float8_e4m3fn,
        "e5m2": ml_dtypes.float8_e5m2,
        "e2m3": ml_dtypes.float6_e2m3fn,
        "e3m2": ml_dtypes.float6_e3m2fn,
        "e2m1": ml_dtypes.float4_e2m1fn,
    }[small]
    count = 1 << {"e4m3": 8, "e5m2": 8, "e2m1": 4}.get(small, 6)
    patterns = np.arange(count, dtype=np.uint8)
    values = patterns.view(dtype).astype(np.float32)
    packed_dtype = np.uint8 if bits == 4 else np.uint16
    packed = patterns.astype(packed_dtype) << bits | patterns[::-1]
    decoded = _convert(f"cvt.rn.f16x2.{small}x2", packed)
    expected = np.stack((values[::-1], values), axis=1).astype(np.float16).reshape(-1)
    assert same("f16x2", decoded, expected.view(np.uint32)).all()
    brain = as_floats("bf16x2", _convert(f"cvt.rn.bf16x2.{small}x2", packed))
    assert same("f32", brain, expected.astype(np.float32)).all()
    known = np.isfinite(values)
    upper, lower = values[known], np.zeros(1, np.float32)
    encoded = _convert(f"cvt.rn.satfinite.{small}x2.f32", upper, lower)
    assert (encoded >> bits).tolist() == patterns[known].tolist()
    assert (encoded & ((1 << bits) - 1)).tolist() == [0] * len(upper)
    largest = float(np.abs(upper).max())
    beyond = np.array([1e9, -1e9, np.inf, -np.inf], np.float32)
    clamped = _convert(f"cvt.rn.satfinite.{small}x2.f32", beyond, lower)
    sides = (clamped >> bits).astype(np.uint8).view(dtype).astype(np.float64).tolist()
    assert sides == [largest, -largest, largest, -largest]
    assert (
        encoded.tolist()
        == _convert(f"cvt.rn.satfinite.{small}x2.f16x2", _convert("cvt.rn.f16x2.f32", upper, lower)).tolist()
    )


def test_packs_of_integers() -> None:
    a = np.array([300, -5, 100000], np.int32)
    b = np.array([7, 200, -100000], np.int32)
    assert _convert("cvt.pack.sat.s16.s32", a, b).tolist() == [300 << 16 | 7, 0xFFFB00C8, 0x7FFF8000]
    rest = np.array([0xABCD1234], np.uint32)
    assert _convert("cvt.pack.sat.u8.s32.b32", a, b, rest).tolist() == [0x1234FF07, 0x123400C8, 0x1234FF00]
