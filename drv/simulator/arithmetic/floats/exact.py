"""Rational arithmetic with one rounding to double, for the rare lanes where float64 tricks overflow."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.simulator.arithmetic.operation import Lanes

_SMALLEST_EXPONENT = -1074
_PRECISION = 53


def round_to_double(value: Fraction, rounding: str) -> float:
    """Round ``value``, not 0, to float64: "rn" to nearest even, "rz" to 0, "rm" down, "rp" up."""
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    exponent = max(exponent - _PRECISION + 1, _SMALLEST_EXPONENT)
    scaled = size / Fraction(2) ** exponent
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    twice = 2 * rest - scaled.denominator
    away = {
        "rn": twice > 0 or (twice == 0 and whole & 1 == 1),
        "rz": False,
        "rm": rest > 0 and value < 0,
        "rp": rest > 0 and value > 0,
    }[rounding]
    try:
        result = math.ldexp(whole + away, exponent)
    except OverflowError:
        infinite = rounding == "rn" or rounding == ("rp" if value > 0 else "rm")
        result = math.inf if infinite else math.nextafter(math.inf, 0)
    return result if value > 0 else -result


def fix_lanes(
    result: Lanes,
    lanes: Lanes,
    exact: Callable[..., Fraction],
    operands: tuple[Lanes, ...],
    rounding: str,
) -> None:
    """Put ``exact(*operands)``, rounded once, into the ``lanes`` (indices) of ``result``.

    The operands of these lanes are finite and not 0: an exact 0 is a sum that cancels, whose sign is the rounding's.
    """
    shaped = [np.broadcast_to(operand, result.shape) for operand in operands]
    for lane in lanes.tolist():
        value = exact(*(Fraction(float(operand[lane])) for operand in shaped))
        zero = -0.0 if rounding == "rm" else 0.0
        result[lane] = round_to_double(value, rounding) if value else zero


def multiply_add(a: Fraction, b: Fraction, c: Fraction) -> Fraction:
    """Return ``a * b + c``."""
    return a * b + c
