"""bf16, the upper half of a float32: widening and rounding of bit patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .directed import narrow
from .fused import sum_to_odd

if TYPE_CHECKING:
    from drv.simulator.arithmetic.operation import Lanes

NAN = 0x7FFF


def widen(pattern: Lanes) -> Lanes:
    """Return bf16 patterns (uint16) as float32."""
    return (pattern.astype(np.uint32) << 16).view(np.float32)


def round_f32(value: Lanes) -> Lanes:
    """Round float32 lanes to bf16 patterns, to nearest, ties to even."""
    bits = value.view(np.uint32)
    rounded = (bits + (bits >> 16 & 1) + 0x7FFF >> 16).astype(np.uint16)
    return _with_nan(value, rounded)


def round_f64(value: Lanes) -> Lanes:
    """Round float64 lanes, exact or rounded to odd, to bf16 patterns, to nearest, ties to even."""
    nearest = value.astype(np.float32)
    bits = nearest.view(np.int32)
    tie = np.flatnonzero(bits & 0xFFFF == 0x8000)
    if len(tie):
        back, exact = np.abs(nearest[tie].astype(np.float64)), np.abs(value[tie])
        bits[tie] += (exact > back).astype(np.int32) - (exact < back)
    return round_f32(nearest)


def round_directed(value: Lanes, rounding: str) -> Lanes:
    """Round float64 lanes, exact or rounded to odd, to bf16 patterns towards "rz", "rm" or "rp"."""
    # Two roundings in one direction are one.
    bits = narrow(value, rounding).view(np.uint32)
    negative = bits >> 31 == 1
    outwards = {"rz": False, "rm": negative, "rp": ~negative}[rounding]
    away = (bits & 0xFFFF != 0) & outwards
    return _with_nan(value, ((bits >> 16) + away).astype(np.uint16))


def fma(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Return ``a * b + c`` of bf16 patterns, rounded once to nearest, ties to even."""
    product = widen(a).astype(np.float64) * widen(b)
    addend = widen(c).astype(np.float64)
    total = product + addend
    tie = np.flatnonzero(total.astype(np.float32).view(np.uint32) & 0xFFFF == 0x8000)
    if len(tie):
        terms = [term[tie] if len(term) == len(total) else term for term in (product, addend)]
        total[tie] = sum_to_odd(*terms)
    return round_f64(total)


def _with_nan(value: Lanes, rounded: Lanes) -> Lanes:
    nan = value != value
    if nan.any():
        rounded[nan] = NAN
    return rounded
