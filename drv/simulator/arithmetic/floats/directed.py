"""Rounding towards zero (rz), down (rm) and up (rp) of f32 and f64 arithmetic.

f32 operations are done in float64 and rounded to odd, which loses nothing that a later directed
rounding asks for. f64 operations round to nearest and then step by one where the error's sign says so.
Rounding down is rounding up of the negated operation, which also gives exact zeros their sign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .exact import fix_lanes
from .fused import fix_extremes, sum_of_product, sum_to_odd, to_odd, two_product, two_sum, within_range

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from drv.simulator.arithmetic.operation import Function, Lanes

MODES = ("rz", "rm", "rp")
_F32 = np.dtype(np.float32)


def narrow(exact: Lanes, rounding: str, dtype: np.dtype[Any] = _F32) -> Lanes:
    """Round float64 lanes, exact or rounded to odd, to ``dtype`` in the direction ``rounding``."""
    nearest = exact.astype(dtype)
    bits = nearest.view(f"i{nearest.itemsize}")
    back = nearest.astype(np.float64)
    if rounding == "rz":
        move = -(np.abs(back) > np.abs(exact)).astype(bits.dtype)
    elif rounding == "rp":
        move = (back < exact) * _outwards(nearest)
    else:
        move = (back > exact) * -_outwards(nearest)
    result: Lanes = (bits + move).view(dtype)
    return result


def _outwards(value: Lanes) -> Lanes:
    """Return what to add to the bit pattern of ``value`` for the next larger number."""
    integer = np.dtype(f"i{value.itemsize}").type
    outwards: Lanes = np.where(np.signbit(value), integer(-1), integer(1))
    return outwards


def directed_f32(operation: str, rounding: str) -> Function:
    """Return add, sub, mul, fma, div, rcp or sqrt of float32 lanes with a directed rounding."""
    if operation == "sqrt":
        return lambda a: narrow(_odd_sqrt(a.astype(np.float64)), rounding)
    return _downwards(operation, rounding, lambda mode, *operands: _in_double(operation, mode, *operands))


def directed_f64(operation: str, rounding: str) -> Function:
    """Return add, sub, mul, fma, div, rcp or sqrt of float64 lanes with a directed rounding."""
    if operation == "sqrt":
        return lambda a: _sqrt_f64(a, "rz" if rounding == "rm" else rounding)
    functions: dict[str, Function] = {"add": _add_f64, "mul": _mul_f64, "div": _div_f64, "fma": _fma_f64}
    normal = {"sub": "add", "rcp": "div"}.get(operation, operation)
    return _downwards(operation, rounding, functions[normal])


def _downwards(operation: str, rounding: str, rounded: Function) -> Function:
    """Express sub and rcp by add and div, and rounding down by rounding up."""
    down = rounding == "rm"
    mode = "rp" if down else rounding

    def apply(*operands: Lanes) -> Lanes:
        if operation == "sub":
            operands = (operands[0], -operands[1])
        elif operation == "rcp":
            operands = (np.ones(1, operands[0].dtype), operands[0])
        if not down:
            upwards: Lanes = rounded(mode, *operands)
            return upwards
        negated = (
            (-operands[0], *operands[1:])
            if operation not in ("add", "sub", "fma")
            else (-operands[0], *operands[1:-1], -operands[-1])
        )
        result: Lanes = -rounded(mode, *negated)
        return result

    return apply


def _in_double(operation: str, rounding: str, *operands: Lanes) -> Lanes:
    a, *others = (operand.astype(np.float64) for operand in operands)
    if operation in ("add", "sub"):
        odd = sum_to_odd(a, others[0])
    elif operation == "mul":
        odd = a * others[0]
    elif operation == "fma":
        odd = sum_to_odd(a * others[0], others[1])
    else:
        odd = _odd_quotient(a, others[0])
    return narrow(odd, rounding)


def _odd_quotient(a: Lanes, b: Lanes) -> Lanes:
    quotient = a / b
    return to_odd(quotient, _quotient_error(a, b, quotient))


def _quotient_error(a: Lanes, b: Lanes, quotient: Lanes) -> Lanes:
    """Return a number with the sign of ``a / b - quotient``."""
    product, error = two_product(quotient, b)
    signed: Lanes = np.copysign(1, b) * ((a - product) - error)
    return signed


def _odd_sqrt(a: Lanes) -> Lanes:
    root = np.sqrt(a)
    product, error = two_product(root, root)
    return to_odd(root, (a - product) - error)


def step(nearest: Lanes, error: Lanes, rounding: str) -> Lanes:
    """Move float64 lanes rounded to nearest to the next number where ``error`` (exact - nearest) says so."""
    bits = nearest.view(np.int64)
    if rounding == "rz":
        inwards = np.where(np.signbit(nearest), error > 0, error < 0)
        move: Lanes = -inwards.astype(np.int64)
    elif rounding == "rp":
        move = (error > 0) * _outwards(nearest)
    else:
        move = (error < 0) * -_outwards(nearest)
    result: Lanes = (bits + move).view(np.float64)
    return result


def _add_f64(rounding: str, a: Lanes, b: Lanes) -> Lanes:
    total, error = two_sum(a, b)
    result = step(total, error, rounding)
    huge = (np.abs(a) > 2.0**1000) | (np.abs(b) > 2.0**1000)
    _fix(result, huge, lambda x, y: x + y, (a, b), rounding)
    return result


def _mul_f64(rounding: str, a: Lanes, b: Lanes) -> Lanes:
    product, error = two_product(a, b)
    result = step(product, error, rounding)
    if not within_range(product, a, b):
        zero = (a == 0) | (b == 0)
        np.copyto(result, product, where=zero | ~np.isfinite(a) | ~np.isfinite(b))
        _fix(result, ~_moderate(product, a, b) & ~zero, lambda x, y: x * y, (a, b), rounding)
    return result


def _div_f64(rounding: str, a: Lanes, b: Lanes) -> Lanes:
    quotient = a / b
    result = step(quotient, _quotient_error(a, b, quotient), rounding)
    if not within_range(quotient, quotient, a, b) or np.abs(a).min() < 2.0**-900:
        zero = (a == 0) | (b == 0)
        np.copyto(result, quotient, where=zero | ~np.isfinite(a) | ~np.isfinite(b))
        extreme = ~_moderate(quotient, quotient, a, b) | (np.abs(a) < 2.0**-900)
        _fix(result, extreme & ~zero, lambda x, y: x / y, (a, b), rounding)
    return result


def _fma_f64(rounding: str, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    high, odd = sum_of_product(a, b, c)
    nearest, error = two_sum(high, odd)
    result = step(nearest, error, rounding)
    if not within_range(a * b, a, b, c):
        fix_extremes(result, a, b, c, rounding)
    return result


def _sqrt_f64(a: Lanes, rounding: str) -> Lanes:
    scale = np.where(a < 2.0**-500, 2.0**300, np.where(a > 2.0**500, 2.0**-300, 1.0))
    scaled = a * scale * scale
    root = np.sqrt(scaled)
    product, error = two_product(root, root)
    result: Lanes = step(root, (scaled - product) - error, rounding) / scale
    return result


def _moderate(result: Lanes, *operands: Lanes) -> Lanes:
    size = np.abs(result)
    moderate: Lanes = (size > 2.0**-960) & (size < 2.0**1000)
    for operand in operands:
        moderate = moderate & (np.abs(operand) < 2.0**490)
    return moderate


def _fix(
    result: Lanes,
    suspects: Lanes,
    exact: Callable[..., Fraction],
    operands: tuple[Lanes, ...],
    rounding: str,
) -> None:
    finite = suspects
    for operand in operands:
        finite = finite & np.isfinite(operand)
    fix_lanes(result, np.flatnonzero(finite), exact, operands, rounding)
