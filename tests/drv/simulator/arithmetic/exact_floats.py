"""IEEE arithmetic by Python integers: the reference that NumPy-based results are compared with.

Values are `fractions.Fraction`, or the floats inf, -inf, nan and the two zeros.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeAlias

Number: TypeAlias = Fraction | float

#: Bits of the significand and the exponent of the smallest subnormal, by format.
FORMATS = {"f16": (11, -24, 65504), "bf16": (8, -133, (2**8 - 1) * 2**120)}
FORMATS["f32"] = (24, -149, (2**24 - 1) * 2**104)
FORMATS["f64"] = (53, -1074, (2**53 - 1) * 2**971)


def number(value: float) -> Number:
    """Return a float as a Fraction, unless it is special or a zero."""
    return Fraction(value) if math.isfinite(value) and value else value


def rounded(value: Number, target: str, rounding: str) -> float:
    """Round once to the format ``target``; the result is exact as a Python float."""
    if not isinstance(value, Fraction):
        return value
    precision, smallest, largest = FORMATS[target]
    top, bottom = abs(value.numerator), value.denominator
    exponent = max(top.bit_length() - bottom.bit_length() - precision, smallest)
    # The quotient of the bit lengths may be one too small.
    if top << max(-exponent - precision, 0) >= bottom << max(exponent + precision, 0):
        exponent += 1
    whole, rest = divmod(top << max(-exponent, 0), bottom << max(exponent, 0))
    twice = 2 * rest - (bottom << max(exponent, 0))
    upwards = (rounding == "rp") == (value > 0)
    if rounding == "rn":
        whole += twice > 0 or (twice == 0 and whole % 2 == 1)
    elif rounding in ("rp", "rm") and rest and upwards:
        whole += 1
    if whole << max(exponent, 0) > largest << max(-exponent, 0):
        infinite = rounding == "rn" or (rounding != "rz" and upwards)
        return math.copysign(math.inf if infinite else float(largest), 1 if value > 0 else -1)
    return math.copysign(math.ldexp(whole, exponent), 1 if value > 0 else -1)


def _zero(rounding: str) -> float:
    return -0.0 if rounding == "rm" else 0.0


def add(a: Number, b: Number, rounding: str = "rn") -> Number:
    """Return ``a + b`` exactly; ``rounding`` chooses the sign of a sum that cancels."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a + b or _zero(rounding)
    if isinstance(a, Fraction) or isinstance(b, Fraction):
        exact, other = (a, b) if isinstance(a, Fraction) else (b, a)
        return exact if other == 0 else other
    total = a + b
    if a == 0 and b == 0:
        return a if math.copysign(1, a) == math.copysign(1, b) else _zero(rounding)
    return total


def multiply(a: Number, b: Number) -> Number:
    """Return ``a * b`` exactly."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    return _sign(a) * b if isinstance(a, Fraction) else a * (_sign(b) if isinstance(b, Fraction) else b)


def divide(a: Number, b: Number) -> Number:
    """Return ``a / b`` exactly; a number divided by zero is infinite."""
    if isinstance(b, Fraction):
        return a / b if isinstance(a, Fraction) else a / _sign(b)
    if b == 0:
        sign = math.copysign(1, b)
        return (
            math.nan if a == 0 or a != a else (_sign(a) if isinstance(a, Fraction) else a) * sign * math.inf
        )
    return (_sign(a) if isinstance(a, Fraction) else a) / b


def fused(a: Number, b: Number, c: Number, rounding: str = "rn") -> Number:
    """Return ``a * b + c`` exactly."""
    return add(multiply(a, b), c, rounding)


def _sign(value: Fraction) -> float:
    return 1.0 if value > 0 else -1.0
