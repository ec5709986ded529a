"""Integer arithmetic: results wrap around, as the type's width says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .operation import Row, scalar_name, width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .operation import Function, Lanes

INTEGERS = ("u16", "u32", "u64", "s16", "s32", "s64")
WIDER = {"u16": "u32", "u32": "u64", "s16": "s32", "s32": "s64"}

#: Instructions whose operands and result all have the type of the opcode.
SAME_TYPE = {
    "add": ("{0} + {1}", 2),
    "sub": ("{0} - {1}", 2),
    "mul.lo": ("{0} * {1}", 2),
    "mad.lo": ("{0} * {1} + {2}", 3),
    "min": ("np.minimum({0}, {1})", 2),
    "max": ("np.maximum({0}, {1})", 2),
    "sad": ("np.maximum({0}, {1}) - np.minimum({0}, {1}) + {2}", 3),
}


def rows() -> Iterator[Row]:
    """Yield add, sub, mul, mad, sad, min, max, div, rem, abs and neg of integers."""
    for t in INTEGERS:
        for base, (expression, arity) in SAME_TYPE.items():
            yield Row(f"{base}.{t}", (t,) * arity, (t,), expression)
        yield Row(f"div.{t}", (t, t), (t,), _quotient)
        yield Row(f"rem.{t}", (t, t), (t,), _remainder)
        if t.startswith("s"):
            yield Row(f"abs.{t}", (t,), (t,), "np.abs({0})")
            yield Row(f"neg.{t}", (t,), (t,), "-{0}")
            for base, function in (("min", "np.minimum"), ("max", "np.maximum")):
                # The manual writes the modifier first, the compiler last.
                for opcode in (f"{base}.relu.{t}", f"{base}.{t}.relu"):
                    yield Row(opcode, (t, t), (t,), f"np.maximum({function}({{0}}, {{1}}), 0)")
    for t, wide in WIDER.items():
        product = f"{{0}}.astype({scalar_name(wide)}) * {{1}}"
        high = f"({product} >> {width(t)}).astype({scalar_name(t)})"
        yield Row(f"mul.wide.{t}", (t, t), (wide,), product)
        yield Row(f"mad.wide.{t}", (t, t, wide), (wide,), product + " + {2}")
        yield Row(f"mul.hi.{t}", (t, t), (t,), high)
        yield Row(f"mad.hi.{t}", (t, t, t), (t,), high + " + {2}")
    for t, high_product in (("u64", high_u64), ("s64", high_s64)):
        yield Row(f"mul.hi.{t}", (t, t), (t,), high_product)
        yield Row(f"mad.hi.{t}", (t, t, t), (t,), _high_and_add(high_product))
    for base, expression in (("add", "{0} + {1}"), ("sub", "{0} - {1}")):
        wide = expression.replace("{0}", "{0}.astype(np.int64)")
        yield Row(f"{base}.sat.s32", ("s32", "s32"), ("s32",), _clipped(wide))
    high = "({0}.astype(np.int64) * {1} >> 32)"
    yield Row("mad.hi.sat.s32", ("s32", "s32", "s32"), ("s32",), _clipped(high + " + {2}"))
    yield from _products_of_24_bits()
    yield from _packed_16_bits()


def _clipped(expression: str) -> str:
    return f"np.clip({expression}, -0x80000000, 0x7FFFFFFF).astype(np.int32)"


def _products_of_24_bits() -> Iterator[Row]:
    for t in ("u32", "s32"):
        wide_type = scalar_name(WIDER[t])
        low24 = "({%d} & 0xFFFFFF)" if t == "u32" else "({%d} << 8 >> 8)"
        product = f"({low24 % 0}.astype({wide_type}) * {low24 % 1})"
        for half, shift in (("lo", 0), ("hi", 16)):
            value = f"({product} >> {shift}).astype({scalar_name(t)})"
            yield Row(f"mul24.{half}.{t}", (t, t), (t,), value)
            yield Row(f"mad24.{half}.{t}", (t, t, t), (t,), value + " + {2}")
    saturated = "(({0} << 8 >> 8).astype(np.int64) * ({1} << 8 >> 8) << 16 >> 32) + {2}"
    yield Row("mad24.hi.sat.s32", ("s32", "s32", "s32"), ("s32",), _clipped(saturated))


def _packed_16_bits() -> Iterator[Row]:
    for packed, dtype in (("u16x2", np.uint16), ("s16x2", np.int16)):
        for base, operation in (("add", np.add), ("min", np.minimum), ("max", np.maximum)):
            function = on_halves(operation, np.dtype(dtype))
            yield Row(f"{base}.{packed}", (packed, packed), (packed,), function)
            if packed == "s16x2" and base != "add":
                relu = on_halves(_then_relu(operation), np.dtype(dtype))
                for opcode in (f"{base}.relu.{packed}", f"{base}.{packed}.relu"):
                    yield Row(opcode, (packed, packed), (packed,), relu)


def _then_relu(operation: Function) -> Function:
    return lambda a, b: np.maximum(operation(a, b), 0)


def on_halves(operation: Function, dtype: np.dtype[Any]) -> Function:
    """Return ``operation``, of arrays of the smaller ``dtype``, as one of arrays of packed bit patterns."""

    def packed(*operands: Lanes) -> Lanes:
        lanes = max(len(operand) for operand in operands)
        halves = [
            (operand if len(operand) == lanes else operand.repeat(lanes)).view(dtype) for operand in operands
        ]
        result: Lanes = operation(*halves).view(operands[0].dtype)
        return result

    return packed


def high_u64(a: Lanes, b: Lanes) -> Lanes:
    """Return the upper 64 bits of the 128-bit products of unsigned ``a`` and ``b``."""
    a_low, a_high = a & 0xFFFFFFFF, a >> 32
    b_low, b_high = b & 0xFFFFFFFF, b >> 32
    middle = a_high * b_low + (a_low * b_low >> 32)
    other = a_low * b_high + (middle & 0xFFFFFFFF)
    high: Lanes = a_high * b_high + (middle >> 32) + (other >> 32)
    return high


def high_s64(a: Lanes, b: Lanes) -> Lanes:
    """Return the upper 64 bits of the 128-bit products of signed ``a`` and ``b``."""
    high = high_u64(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
    result: Lanes = high - (a >> 63 & b) - (b >> 63 & a)
    return result


def _high_and_add(high_product: Function) -> Function:
    def multiply_add(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        result: Lanes = high_product(a, b) + c
        return result

    return multiply_add


def _quotient(a: Lanes, b: Lanes) -> Lanes:
    # PTX leaves x / 0 to the machine; GPUs answer with all ones.
    return _all_ones_where_zero(b, _truncated_quotient(a, b))


def _truncated_quotient(a: Lanes, b: Lanes) -> Lanes:
    quotient: Lanes = a // b
    # NumPy rounds down. That is toward zero where no number is negative, as the bits of all together tell.
    if a.dtype.kind == "i" and (np.bitwise_or.reduce(a) | np.bitwise_or.reduce(b)) < 0:
        quotient += (quotient * b != a) & ((a ^ b) < 0)
    return quotient


def _remainder(a: Lanes, b: Lanes) -> Lanes:
    # NumPy divides by a single number with multiplications, but has no such way for remainders.
    remainder = a - _truncated_quotient(a, b) * b if len(b) == 1 else np.fmod(a, b)
    return _all_ones_where_zero(b, remainder)


def _all_ones_where_zero(divisor: Lanes, result: Lanes) -> Lanes:
    if divisor[0] if len(divisor) == 1 else np.logical_and.reduce(divisor):
        return result
    return np.where(divisor == 0, ~result.dtype.type(0), result)
