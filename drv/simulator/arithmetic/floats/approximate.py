"""The fast approximations, computed far more accurately than PTX promises, with its special cases."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from drv.simulator.arithmetic.operation import Row

from .single_and_double import flushed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.simulator.arithmetic.operation import Function, Lanes

#: One operand of f32; ``{0}`` is computed as PTX says for infinities, zeros and NaN by NumPy too.
OF_ONE: dict[str, tuple[str, Function]] = {
    "rcp": ("1 / {0}", np.reciprocal),
    "sqrt": ("np.sqrt({0})", np.sqrt),
    "rsqrt": ("1 / np.sqrt({0})", lambda a: 1 / np.sqrt(a)),
    "sin": ("np.sin({0})", np.sin),
    "cos": ("np.cos({0})", np.cos),
    "lg2": ("np.log2({0})", np.log2),
}
#: Adding it leaves a double's integral part in the lowest bits.
WHOLE = 1.5 * 2.0**52
#: Beyond these powers of two there is nothing in float32, and much room in float64.
FARTHEST = 1000.0
#: Of ``2**x`` around 0, highest first: ``log(2)**n / n!``. The first that is left out is below 1e-17 at 0.5.
COEFFICIENTS = tuple(math.log(2) ** n / math.factorial(n) for n in range(13, -1, -1))


def rows() -> Iterator[Row]:
    """Yield the .approx and .full forms of f32 and f64."""
    one = ("f32",)
    for base, (expression, function) in OF_ONE.items():
        yield Row(f"{base}.approx.f32", one, one, expression)
        yield Row(f"{base}.approx.ftz.f32", one, one, flushed(function))
    yield Row("ex2.approx.f32", one, one, exp2)
    yield Row("ex2.approx.ftz.f32", one, one, flushed(exp2))
    yield Row("tanh.approx.f32", one, one, "np.tanh({0})")
    two = ("f32", "f32")
    yield Row("div.full.f32", two, one, "{0} / {1}")
    yield Row("div.full.ftz.f32", two, one, flushed(np.divide))
    yield Row("div.approx.f32", two, one, divide_approximately)
    yield Row("div.approx.ftz.f32", two, one, flushed(divide_approximately))
    double = ("f64",)
    yield Row("rsqrt.approx.f64", double, double, "1 / np.sqrt({0})")
    yield Row("rcp.approx.ftz.f64", double, double, lambda a: _upper_half(1 / _flush_f64(a)))
    yield Row("rsqrt.approx.ftz.f64", double, double, lambda a: _upper_half(1 / np.sqrt(_flush_f64(a))))


def exp2(a: Lanes) -> Lanes:
    """Return ``2**a`` of float32 lanes, computed in float64: correct but for ties that are all but exact.

    The operations are those that every processor rounds alike, so that the bits are the same everywhere. NumPy's own
    exp2 of float32 may be wrong by more than the 2 ulp that PTX allows.
    """
    x = a.astype(np.float64)
    np.minimum(x, FARTHEST, out=x)
    np.maximum(x, -FARTHEST, out=x)
    shifted = x + WHOLE
    x -= shifted - WHOLE
    result = x * COEFFICIENTS[0]
    for coefficient in COEFFICIENTS[1:-1]:
        result += coefficient
        result *= x
    result += COEFFICIENTS[-1]
    exponent = shifted.view(np.int64)
    exponent += 1023
    exponent <<= 52
    result *= shifted
    power: Lanes = result.astype(np.float32)
    return power


def divide_approximately(a: Lanes, b: Lanes) -> Lanes:
    """Return ``a / b``, or 0 (NaN for infinite ``a``) where ``b`` is finite and larger than 2^126 in size."""
    size = np.abs(b)
    quotient: Lanes = a / b
    beyond = (size > np.float32(2.0**126)) & (size < np.inf)
    if beyond.any():
        return np.where(beyond, a * np.copysign(np.float32(0), b), quotient)
    return quotient


def _flush_f64(value: Lanes) -> Lanes:
    flushed_lanes: Lanes = value * (np.abs(value) >= 2.0**-1022)
    return flushed_lanes


def _upper_half(value: Lanes) -> Lanes:
    """Flush, and clear the lower 32 bits, as the instruction does."""
    truncated: Lanes = (_flush_f64(value).view(np.uint64) & 0xFFFFFFFF00000000).view(np.float64)
    # A NaN whose payload was in the lower half would have become an infinity.
    return np.where(value != value, value, truncated)
