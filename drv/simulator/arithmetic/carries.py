"""Arithmetic on numbers of several words: the carry flag goes in and out ("cc").

A subtraction adds the complement: its flag is 1 when nothing was borrowed. The PTX manual calls the flag
the borrow, which comes to the same as long as only subtractions read it; code that the compiler makes for
128-bit division reads it with ``addc``, and there only the carry is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .integers import high_s64, high_u64
from .operation import Row, scalar_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .operation import Function, Lanes

TYPES = ("u32", "s32", "u64", "s64")


def rows() -> Iterator[Row]:
    """Yield add.cc, addc, sub.cc, subc, mad.cc and madc."""
    for t in TYPES:
        cast = f".astype({scalar_name(t)})"
        for base, second, carry_out in (("add", "{1}", add_with_carry), ("sub", "~{1}", subtract_with_carry)):
            both = (t, "cc")
            yield Row(f"{base}.cc.{t}", (t, t), both, carry_out)
            yield Row(f"{base}c.cc.{t}", (t, t, "cc"), both, carry_out)
            yield Row(f"{base}c.{t}", (t, t, "cc"), (t,), f"{{0}} + {second} + {{2}}{cast}")
        for half, product in (("lo", _low), ("hi", _high)):
            multiply_add = _multiply_add(product)
            yield Row(f"mad.{half}.cc.{t}", (t, t, t), (t, "cc"), multiply_add)
            yield Row(f"madc.{half}.cc.{t}", (t, t, t, "cc"), (t, "cc"), multiply_add)
            yield Row(f"madc.{half}.{t}", (t, t, t, "cc"), (t,), _without_carry_out(multiply_add))


def add_with_carry(a: Lanes, b: Lanes, carry: Lanes | None = None) -> tuple[Lanes, Lanes]:
    """Return ``a + b + carry`` and the carry out of it."""
    unsigned = f"u{a.itemsize}"
    total = a + b
    overflow = total.view(unsigned) < a.view(unsigned)
    if carry is None:
        return total, overflow
    result = total + carry.astype(a.dtype)
    return result, overflow | (result.view(unsigned) < total.view(unsigned))


def subtract_with_carry(a: Lanes, b: Lanes, carry: Lanes | None = None) -> tuple[Lanes, Lanes]:
    """Return ``a - b``, less 1 where ``carry`` is 0, and the carry out of it: whether nothing was borrowed."""
    if carry is not None:
        return add_with_carry(a, ~b, carry)
    unsigned = f"u{a.itemsize}"
    return a - b, a.view(unsigned) >= b.view(unsigned)


def _low(a: Lanes, b: Lanes) -> Lanes:
    product: Lanes = a * b
    return product


def _high(a: Lanes, b: Lanes) -> Lanes:
    if a.itemsize == 8:
        return (high_u64 if a.dtype.kind == "u" else high_s64)(a, b)
    wide_type = f"{a.dtype.kind}8"
    high: Lanes = (a.astype(wide_type) * b.astype(wide_type) >> 32).astype(a.dtype)
    return high


def _multiply_add(product: Function) -> Function:
    def multiply_add(a: Lanes, b: Lanes, c: Lanes, carry: Lanes | None = None) -> tuple[Lanes, Lanes]:
        return add_with_carry(product(a, b), c, carry)

    return multiply_add


def _without_carry_out(function: Function) -> Function:
    return lambda *operands: function(*operands)[0]
