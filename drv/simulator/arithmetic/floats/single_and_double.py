"""f32 and f64 arithmetic, with roundings, flushing of subnormals (ftz) and saturation (sat).

A NaN that add, sub, mul, div, fma or sqrt makes keeps the host's bit pattern (a GPU's f32 NaN is
0x7FFFFFFF); min and max return the canonical one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drv.simulator.arithmetic.integers import on_halves
from drv.simulator.arithmetic.operation import Row

from .directed import MODES, directed_f32, directed_f64
from .extrema import extrema_rows
from .fused import fma_f32, fma_f64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.simulator.arithmetic.operation import Function, Lanes

_SMALLEST_NORMAL = np.float32(2.0**-126)

#: Rounded to nearest: name, number of operands, function, and expression if there is one.
NEAREST: dict[str, tuple[int, Function, str | None]] = {
    "add": (2, np.add, "{0} + {1}"),
    "sub": (2, np.subtract, "{0} - {1}"),
    "mul": (2, np.multiply, "{0} * {1}"),
    "div": (2, np.divide, "{0} / {1}"),
    "sqrt": (1, np.sqrt, "np.sqrt({0})"),
    "rcp": (1, np.reciprocal, "1 / {0}"),
}
FUSED = {"f32": fma_f32, "f64": fma_f64}
SATURATING = ("add", "sub", "mul", "fma", "mad")
#: These may be written without a rounding.
ROUNDING_OPTIONAL = ("add", "sub", "mul")


def rows() -> Iterator[Row]:
    """Yield add, sub, mul, fma, mad, div, sqrt, rcp, abs, neg, min, max and copysign of f32 and f64."""
    for base, arity, rounding, t, function, expression in _rounded():
        operands = (t,) * arity
        spellings = [f"{base}.{rounding}"]
        if rounding == "rn" and base in ROUNDING_OPTIONAL:
            spellings.append(base)
        for spelling in spellings:
            yield Row(f"{spelling}.{t}", operands, (t,), expression or function)
            if t == "f64":
                continue
            yield Row(f"{spelling}.ftz.f32", operands, (t,), flushed(function))
            if base in SATURATING:
                yield Row(f"{spelling}.sat.f32", operands, (t,), saturated(function))
                yield Row(f"{spelling}.ftz.sat.f32", operands, (t,), saturated(flushed(function)))
            if base in ("add", "sub", "mul", "fma"):
                for flush in ("", ".ftz"):
                    pair = on_halves(flushed(function) if flush else function, np.dtype(np.float32))
                    yield Row(f"{spelling}{flush}.f32x2", ("f32x2",) * arity, ("f32x2",), pair)
    for t in ("f32", "f64"):
        yield Row(f"abs.{t}", (t,), (t,), "np.abs({0})")
        yield Row(f"neg.{t}", (t,), (t,), "-{0}")
        yield Row(f"copysign.{t}", (t, t), (t,), "np.copysign({1}, {0})")
    yield Row("abs.ftz.f32", ("f32",), ("f32",), flushed(np.abs))
    yield Row("neg.ftz.f32", ("f32",), ("f32",), flushed(np.negative))
    yield from extrema_rows("f32", flush_f32)
    yield from extrema_rows("f64")


def _rounded() -> Iterator[tuple[str, int, str, str, Function, str | None]]:
    for t, directed in (("f32", directed_f32), ("f64", directed_f64)):
        for base, (arity, function, expression) in NEAREST.items():
            yield base, arity, "rn", t, function, expression
            for mode in MODES:
                yield base, arity, mode, t, directed(base, mode), None
        for base in ("fma", "mad"):
            yield base, 3, "rn", t, FUSED[t], None
            for mode in MODES:
                yield base, 3, mode, t, directed("fma", mode), None


def flush_f32(value: Lanes) -> Lanes:
    """Return float32 lanes with subnormals replaced by 0 of their sign."""
    flushed_lanes: Lanes = value * (np.abs(value) >= _SMALLEST_NORMAL)
    return flushed_lanes


def flushed(function: Function) -> Function:
    """Return ``function`` with its float32 operands and its result flushed."""

    def flush_around(*operands: Lanes) -> Lanes:
        return flush_f32(function(*(flush_f32(operand) for operand in operands)))

    return flush_around


def saturate(value: Lanes) -> Lanes:
    """Return float lanes clamped to [0, 1]; NaN and -0 become +0."""
    clamped: Lanes = np.fmin(np.fmax(value, 0), 1) + value.dtype.type(0)
    return clamped


def saturated(function: Function) -> Function:
    """Return ``function`` with its result saturated."""
    return lambda *operands: saturate(function(*operands))
