"""setp, set, selp, slct, testp, min and max against Python comparisons."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from drv.simulator.arithmetic import DTYPES, resolve
from tests.drv.simulator.arithmetic.lanes import as_floats, random_lanes, same

FLOATS = ("f16", "bf16", "f32", "f64")
NAMES = ("eq", "ne", "lt", "le", "gt", "ge")
LANES = 500
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def _holds(name: str, a: Any, b: Any) -> bool:
    nan = a != a or b != b
    if name == "num":
        return not nan
    if name == "nan":
        return nan
    unordered = len(name) == 3
    name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name[:2])
    if nan:
        return unordered
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[name]


def _lanes(t: str) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(11)
    a, b = random_lanes(t, LANES, rng), random_lanes(t, LANES, rng)
    return a, np.where(rng.random(LANES) < 0.2, a, b)


@pytest.mark.parametrize("t", ["b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", *FLOATS])
def test_predicates_and_masks(t: str) -> None:
    a, b = _lanes(t)
    other = np.random.default_rng(12).random(LANES) < 0.5
    names = NAMES
    if t in FLOATS:
        names = (*NAMES, *(f"{name}u" for name in NAMES), "num", "nan")
        values = [as_floats(t, x).tolist() for x in (a, b)]
    else:
        names = NAMES[:2] if t[0] == "b" else (*NAMES, "lo", "ls", "hi", "hs") if t[0] == "u" else NAMES
        values = [a.tolist(), b.tolist()]
    for name in names:
        expected = np.array([_holds(name, x, y) for x, y in zip(*values, strict=True)])
        assert (resolve(f"setp.{name}.{t}").function(a, b) == expected).all()
        p, q = resolve(f"setp.{name}.{t}", results=2).function(a, b)
        assert (p == expected).all()
        assert (q != expected).all()
        for combination, combine in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
            opcode = f"setp.{name}.{combination}.{t}"
            assert (resolve(opcode).function(a, b, other) == combine(expected, other)).all()
            p, q = resolve(opcode, results=2).function(a, b, other)
            assert (p == combine(expected, other)).all()
            assert (q == combine(~expected, other)).all()
            mask = resolve(f"set.{name}.{combination}.u32.{t}").function(a, b, other)
            assert (mask == np.where(combine(expected, other), 0xFFFFFFFF, 0)).all()
        assert (resolve(f"set.{name}.s32.{t}").function(a, b) == np.where(expected, -1, 0)).all()
        assert (resolve(f"set.{name}.f32.{t}").function(a, b) == np.where(expected, 1.0, 0.0)).all()


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_packed_comparisons(t: str) -> None:
    pair = f"{t}x2"
    a, b = _lanes(pair)
    part = np.float16 if t == "f16" else np.uint16
    single = resolve(f"setp.le.{t}").function(a.view(part), b.view(part))
    low, high = resolve(f"setp.le.{pair}").function(a, b)
    assert (low == single[::2]).all()
    assert (high == single[1::2]).all()
    both = resolve(f"setp.le.and.{pair}").function(a, b, high)
    assert (both[0] == (low & high)).all()
    masks = resolve(f"set.le.u32.{pair}").function(a, b).view(np.uint16)
    assert (masks == np.where(single, 0xFFFF, 0)).all()
    ones = as_floats(pair, resolve(f"set.le.{pair}.{pair}").function(a, b))
    assert (ones == single).all()


def test_flushed_comparisons() -> None:
    tiny, zero = np.array([1e-40, -1e-40], np.float32), np.zeros(1, np.float32)
    assert resolve("setp.eq.ftz.f32").function(tiny, zero).tolist() == [True, True]
    assert resolve("setp.eq.f32").function(tiny, zero).tolist() == [False, False]
    assert resolve("set.ne.ftz.u32.f32").function(tiny, zero).tolist() == [0, 0]


def test_selections() -> None:
    a, b = np.array([1, 2, 3], np.int32), np.array([7], np.int32)
    assert resolve("selp.s32").function(a, b, np.array([True, False, True])).tolist() == [1, 7, 3]
    assert resolve("slct.s32.s32").function(a, b, np.array([0, -1, 5], np.int32)).tolist() == [1, 7, 3]
    chosen = resolve("slct.s32.f32").function(a, b, np.array([-0.0, -1e-40, np.nan], np.float32))
    assert chosen.tolist() == [1, 7, 7]
    flushed = resolve("slct.ftz.s32.f32").function(a, b, np.array([-1e-40, -1.0, np.nan], np.float32))
    assert flushed.tolist() == [1, 7, 7]


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_classes_of_floats(t: str) -> None:
    info = np.finfo(DTYPES[t])
    values = np.array([0, -1, info.tiny, info.tiny / 2, -info.smallest_subnormal, np.inf, np.nan], DTYPES[t])
    expected = {
        "finite": [1, 1, 1, 1, 1, 0, 0],
        "infinite": [0, 0, 0, 0, 0, 1, 0],
        "number": [1, 1, 1, 1, 1, 1, 0],
        "notanumber": [0, 0, 0, 0, 0, 0, 1],
        "normal": [0, 1, 1, 0, 0, 0, 0],
        "subnormal": [0, 0, 0, 1, 1, 0, 0],
    }
    for name, flags in expected.items():
        assert resolve(f"testp.{name}.{t}").function(values).tolist() == [bool(flag) for flag in flags]


def _extremum(base: str, a: float, b: float, *, keeps_nan: bool) -> float:
    if a != a or b != b:
        return math.nan if keeps_nan or (a != a and b != b) else (b if a != a else a)
    order = sorted((a, b), key=lambda x: (x, math.copysign(1, x)))
    return order[0] if base == "min" else order[1]


@pytest.mark.parametrize("base", ["min", "max"])
@pytest.mark.parametrize("t", FLOATS)
def test_extrema(base: str, t: str) -> None:
    a, b = _lanes(t)
    pairs = list(zip(as_floats(t, a).tolist(), as_floats(t, b).tolist(), strict=True))
    canonical = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FFFFFFFFFFFFFFF}[t]
    for keeps_nan in (False, True) if t != "f64" else (False,):
        nan = ".NaN" if keeps_nan else ""
        result = resolve(f"{base}{nan}.{t}").function(a, b)
        expected = np.array([_extremum(base, x, y, keeps_nan=keeps_nan) for x, y in pairs])
        given_values = as_floats(t, result).astype(np.float64)
        assert same("f64", given_values, expected).all()
        patterns = result.view(f"u{result.itemsize}")[np.isnan(expected)]
        assert (patterns == canonical).all()
        if t == "f64":
            continue
        signed = as_floats(t, resolve(f"{base}{nan}.xorsign.abs.{t}").function(a, b)).tolist()
        for (x, y), value in zip(pairs, signed, strict=True):
            size = _extremum(base, abs(x), abs(y), keeps_nan=keeps_nan)
            assert size != size if value != value else abs(value) == size
            if value == value:
                assert math.copysign(1, value) == math.copysign(1, x) * math.copysign(1, y)


def test_extrema_of_three() -> None:
    a, b, c = (np.array(x, np.float32) for x in ([1, np.nan, -5], [2, np.nan, 3], [-3, 4, 1]))
    assert resolve("min.f32", operands=3).function(a, b, c).tolist() == [-3, 4, -5]
    assert resolve("max.abs.f32").function(a, b, c).tolist() == [3, 4, 5]
    assert np.isnan(resolve("max.NaN.f32", operands=3).function(a, b, c)).tolist() == [False, True, False]
