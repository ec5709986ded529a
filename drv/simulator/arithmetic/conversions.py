"""cvt between integers and floats of all widths, with every rounding and modifier.

A NaN keeps the pattern that the host's conversion gives it, but in bf16 and after .relu: there it is
the canonical one.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from .floats.brain_floats import round_directed, round_f32, round_f64, widen
from .floats.directed import MODES, narrow, step
from .floats.extrema import CANONICAL_NAN
from .floats.fused import to_odd, two_sum
from .floats.single_and_double import flush_f32, saturate
from .operation import DTYPES, Row, scalar_name, width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .operation import Function, Lanes

INTEGERS = tuple(f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64))
FLOATS = ("bf16", "f16", "f32", "f64")
#: Roundings to a whole number.
TO_WHOLE: dict[str, Function] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
#: Pairs of floats where every value of the first is one of the second.
EXACT = (("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64"), ("f32", "f64"))
_LARGEST = {"f16": 65504.0, "bf16": (2 - 2.0**-7) * 2.0**127, "f32": (2 - 2.0**-23) * 2.0**127}


def rows() -> Iterator[Row]:
    """Yield cvt of single values."""
    yield from _between_integers()
    for source, t in product(FLOATS, INTEGERS):
        for rounding, function in TO_WHOLE.items():
            for ftz in ("", ".ftz") if source == "f32" else ("",):
                convert = to_integer(t, source, function, flush=bool(ftz))
                for sat in ("", ".sat"):
                    yield Row(f"cvt.{rounding}{ftz}{sat}.{t}.{source}", (source,), (t,), convert)
    for source, t in product(INTEGERS, FLOATS):
        for rounding in ("rn", *MODES):
            meaning: str | Function = from_integer(t, rounding)
            if rounding == "rn" and t != "bf16":
                meaning = f"{{0}}.astype({scalar_name(t)})"
            yield Row(f"cvt.{rounding}.{t}.{source}", (source,), (t,), meaning)
            saturated = _then(saturation(t), _function(meaning, t))
            yield Row(f"cvt.{rounding}.sat.{t}.{source}", (source,), (t,), saturated)
    yield from _widening()
    yield from _narrowing()
    yield from _to_whole_floats()


def _between_integers() -> Iterator[Row]:
    for source, t in product(INTEGERS, INTEGERS):
        name = scalar_name(t)
        yield Row(f"cvt.{t}.{source}", (source,), (t,), f"{{0}}.astype({name})")
        source_range, result_range = np.iinfo(DTYPES[source]), np.iinfo(DTYPES[t])
        limits = max(source_range.min, result_range.min), min(source_range.max, result_range.max)
        saturated = f"np.clip({{0}}, {limits[0]}, {limits[1]}).astype({name})"
        yield Row(f"cvt.sat.{t}.{source}", (source,), (t,), saturated)


def to_integer(t: str, source: str, rounded: Function, *, flush: bool = False) -> Function:
    """Return the conversion of float ``source`` to integer ``t``, which always saturates.

    NaN gives 0, or, when either type has 64 bits, the highest bit of ``t`` alone.
    """
    dtype = DTYPES[t]
    bits = width(t)
    lowest = 0.0 if t.startswith("u") else -(2.0 ** (bits - 1))
    beyond = 2.0 ** (bits if t.startswith("u") else bits - 1)
    limits = np.iinfo(dtype)
    wide = source == "f64" or bits == 64
    of_nan = np.array(1 << bits - 1 if wide else 0, f"u{bits // 8}").view(dtype)[()]

    def convert(value: Lanes) -> Lanes:
        if source in _TO_F32:
            value = _TO_F32[source](value)
        elif flush:
            value = flush_f32(value)
        whole = rounded(value)
        inside = (whole >= lowest) & (whole < beyond)
        if inside.all():
            result: Lanes = whole.astype(dtype)
            return result
        result = np.where(inside, whole, 0).astype(dtype)
        result[whole < lowest] = limits.min
        result[whole >= beyond] = limits.max
        result[whole != whole] = of_nan
        return result

    return convert


def from_integer(t: str, rounding: str) -> Function:
    """Return the conversion of integers to float ``t``, rounded once."""

    def convert(value: Lanes) -> Lanes:
        # Both halves are exact in float64, and so is their sum with its error.
        high = (value >> value.dtype.type(min(32, 4 * value.itemsize))).astype(np.float64)
        scale = 2.0 ** min(32, 4 * value.itemsize)
        low = (value & value.dtype.type((1 << min(32, 4 * value.itemsize)) - 1)).astype(np.float64)
        total, error = two_sum(high * scale, low)
        if t == "f64":
            return step(total, error, rounding)
        return round_double(t, rounding, to_odd(total, error))

    return convert


def round_double(t: str, rounding: str, value: Lanes) -> Lanes:
    """Round float64 lanes, exact or rounded to odd, to the float type ``t``."""
    if t == "bf16":
        return round_f64(value) if rounding == "rn" else round_directed(value, rounding)
    if rounding != "rn":
        return narrow(value, rounding, DTYPES[t])
    result: Lanes = value.astype(DTYPES[t])
    return result


def saturation(t: str) -> Function:
    """Return the clamp to [0, 1] of float ``t``; NaN becomes +0."""
    if t != "bf16":
        return saturate
    return lambda pattern: round_f32(saturate(widen(pattern)))


def relu(t: str) -> Function:
    """Return the replacement of negative floats of type ``t`` by +0; NaN becomes the canonical one."""
    if t == "bf16":
        # Conversions to bf16 leave no NaN but the canonical one.
        return lambda pattern: np.where(pattern >> 15 == 1, np.uint16(0), pattern)

    def clamp(value: Lanes) -> Lanes:
        positive = np.where(value > 0, value, value.dtype.type(0))
        return np.where(value != value, CANONICAL_NAN[value.dtype], positive)

    return clamp


def finite(t: str) -> Function:
    """Return the clamp of float64 lanes to the finite numbers of ``t``."""
    return lambda value: np.clip(value, -_LARGEST[t], _LARGEST[t])


def _widening() -> Iterator[Row]:
    for source, t in EXACT:
        expression = f"{{0}}.astype({scalar_name(t)})"
        if source == "bf16":
            expression = "({0}.astype(np.uint32) << 16).view(np.float32)"
            if t == "f64":
                expression += ".astype(np.float64)"
        function = _function(expression, t)
        yield Row(f"cvt.{t}.{source}", (source,), (t,), expression)
        yield Row(f"cvt.sat.{t}.{source}", (source,), (t,), _then(saturate, function))
        if source == "f32":
            yield Row(f"cvt.ftz.{t}.{source}", (source,), (t,), _then(function, flush_f32))
            yield Row(f"cvt.ftz.sat.{t}.{source}", (source,), (t,), _then(saturate, function, flush_f32))
        elif t == "f32":
            # Subnormals of f16 are normal in f32: there is nothing to flush but in bf16.
            yield Row(f"cvt.ftz.{t}.{source}", (source,), (t,), _then(flush_f32, function))
            yield Row(f"cvt.ftz.sat.{t}.{source}", (source,), (t,), _then(saturate, flush_f32, function))


def _narrowing() -> Iterator[Row]:
    exact = set(EXACT)
    for source, t in product(FLOATS, FLOATS):
        if source == t or (source, t) in exact:
            continue
        for rounding in ("rn", *MODES):
            for modifiers, convert in modified(source, t, rounding):
                meaning: str | Function = convert
                if rounding == "rn" and not modifiers and "bf16" not in (source, t):
                    meaning = f"{{0}}.astype({scalar_name(t)})"
                yield Row(f"cvt.{rounding}{modifiers}.{t}.{source}", (source,), (t,), meaning)


def modified(source: str, t: str, rounding: str) -> Iterator[tuple[str, Function]]:
    """Yield the narrowing conversions with one rounding, by their modifiers (".ftz.sat", ".relu", ...)."""
    for ftz, last in product(("", ".ftz"), ("", ".sat", ".relu", ".satfinite", ".relu.satfinite")):
        if ftz and "f32" not in (source, t):
            continue
        chain: list[Function] = []
        if ftz and source == "f32":
            chain.append(flush_f32)
        chain.append(_rounding(source, t, rounding, clamp=last.endswith(".satfinite")))
        if ftz and t == "f32":
            chain.append(flush_f32)
        if last.startswith((".sat", ".relu")) and last != ".satfinite":
            chain.append(saturation(t) if last == ".sat" else relu(t))
        yield ftz + last, _then(*reversed(chain))
        if last == ".relu.satfinite":
            yield f"{ftz}.satfinite.relu", _then(*reversed(chain))


def _rounding(source: str, t: str, rounding: str, *, clamp: bool) -> Function:
    clamped = finite(t) if clamp else None
    if (source, t, rounding) == ("f32", "bf16", "rn") and not clamp:
        return round_f32
    if rounding == "rn" and "bf16" not in (source, t) and not clamp:
        return lambda value: value.astype(DTYPES[t])

    def convert(value: Lanes) -> Lanes:
        value = (widen(value) if source == "bf16" else value).astype(np.float64)
        return round_double(t, rounding, value if clamped is None else clamped(value))

    return convert


def _to_whole_floats() -> Iterator[Row]:
    """Yield conversions of a float type to itself: to whole numbers, flushed, or saturated."""
    for rounding, function in TO_WHOLE.items():
        yield Row(f"cvt.{rounding}.bf16.bf16", ("bf16",), ("bf16",), _then(round_f32, function, widen))
    for t in ("f16", "f32", "f64"):
        for rounding, function in (*TO_WHOLE.items(), ("", _same)):
            for ftz in ("", ".ftz") if t == "f32" else ("",):
                convert = _then(function, flush_f32) if ftz else function
                prefix = f"cvt.{rounding}{ftz}" if rounding else f"cvt{ftz}"
                whole = f"np.{function.__name__}({{0}})" if rounding and not ftz else None
                yield Row(f"{prefix}.{t}.{t}", (t,), (t,), whole or convert)
                yield Row(f"{prefix}.sat.{t}.{t}", (t,), (t,), _then(saturate, convert))


def _same(value: Lanes) -> Lanes:
    return value


def _to_f32(value: Lanes) -> Lanes:
    result: Lanes = value.astype(np.float32)
    return result


_TO_F32: dict[str, Function] = {"f16": _to_f32, "bf16": widen}


def _function(meaning: str | Function, t: str) -> Function:
    """Return a conversion to ``t`` that is a cast, or already a function, as a function."""
    if not isinstance(meaning, str):
        return meaning
    if "view" not in meaning:
        return lambda value: value.astype(DTYPES[t])
    return lambda value: widen(value).astype(DTYPES[t])


def _then(*functions: Function) -> Function:
    """Return the composition of functions of one operand, the last one applied first."""

    def chain(value: Lanes) -> Lanes:
        for function in reversed(functions):
            value = function(value)
        return value

    return chain
