"""Integer division and products, bits and bit fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .expressions import (
    ADD,
    AND,
    DIV,
    EQ,
    F64,
    GT,
    I32,
    MUL,
    OR,
    SUB,
    U32,
    XOR,
    Emitter,
    NotNative,
    Value,
    llvm_type,
    number,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def division(e: Emitter, base: str, operands: Sequence[Value]) -> Value:
    """Quotient or remainder; all ones for a divisor of 0."""
    a, b = operands
    dtype = a.dtype
    assert dtype is not None
    ir_type, _bits = llvm_type(dtype), 8 * dtype.itemsize
    zero = e.compare(EQ, b, number(0))
    ones = Value("-1", dtype)
    if dtype.kind == "i":
        # The quotient by -1 may overflow.
        minus = e.compare(EQ, b, ones)
        safe = e.select(e.binary(OR, zero, minus), Value("1", dtype), b)
        negated = Value(e.emit(f"sub {ir_type} 0, {a.text}"), dtype)
        if base == "rem":
            result = e.select(minus, Value("0", dtype), _quotient(e, a, safe, remainder=True))
        else:
            result = e.select(minus, negated, _quotient(e, a, safe))
    else:
        safe = e.select(zero, Value("1", dtype), b)
        result = _quotient(e, a, safe, remainder=base == "rem")
    return e.select(zero, ones, result)


def _quotient(e: Emitter, a: Value, b: Value, *, remainder: bool = False) -> Value:
    dtype = a.dtype
    assert dtype is not None
    ir_type = llvm_type(dtype)
    sign = "s" if dtype.kind == "i" else "u"
    if dtype.itemsize == 8:
        return Value(e.emit(f"{sign}{'rem' if remainder else 'div'} {ir_type} {a.text}, {b.text}"), dtype)
    # Doubles hold the operands, and their quotient is below the next integer by more than it is rounded.
    exact = e.binary(DIV, e.converted(a, F64), e.converted(b, F64))
    result_type = I32 if sign == "s" else U32
    quotient = Value(e.emit(f"fpto{sign}i double {exact.text} to i32"), result_type)
    quotient = e.converted(quotient, dtype)
    if not remainder:
        return quotient
    return e.binary(SUB, a, e.binary(MUL, quotient, b))


def high_product(e: Emitter, a: Value, b: Value) -> Value:
    dtype = a.dtype
    assert dtype is not None
    extend = "sext" if dtype.kind == "i" else "zext"
    widened = [e.emit(f"{extend} i64 {each.text} to i128") for each in (a, b)]
    product = e.emit(f"mul i128 {widened[0]}, {widened[1]}")
    return Value(e.emit(f"trunc i128 {e.emit(f'lshr i128 {product}, 64')} to i64"), dtype)


def leading_zeros(e: Emitter, value: Value) -> Value:
    assert value.dtype is not None
    ir_type = llvm_type(value.dtype)
    count = e.intrinsic(f"llvm.ctlz.{ir_type}", ir_type, (ir_type, value.text), extra=", i1 false")
    return e.converted(Value(count, np.dtype(f"u{value.dtype.itemsize}")), U32)


def leading_bit(e: Emitter, value: Value) -> Value:
    """Position of the highest bit that differs from the sign; all ones if none does."""
    dtype = value.dtype
    assert dtype is not None
    bits = 8 * dtype.itemsize
    if dtype.kind == "i":
        unsigned = np.dtype(f"u{dtype.itemsize}")
        value = e.bits(e.binary(XOR, value, e.shift("RShift", value, Value(str(bits - 1), dtype))), unsigned)
    return e.binary(SUB, Value(str(bits - 1), U32), leading_zeros(e, value))


def reversed_bits(e: Emitter, value: Value) -> Value:
    assert value.dtype is not None
    ir_type = llvm_type(value.dtype)
    return Value(e.intrinsic(f"llvm.bitreverse.{ir_type}", ir_type, (ir_type, value.text)), value.dtype)


def inserted(e: Emitter, operands: Sequence[Value]) -> Value:
    field, value, position, length = operands
    dtype = value.dtype
    assert dtype is not None
    one = Value("1", dtype)
    position = e.converted(e.binary(AND, position, number(255)), dtype)
    length = e.converted(e.binary(AND, length, number(255)), dtype)
    ones = e.binary(SUB, e.shift("LShift", one, length), number(1))
    mask = e.shift("LShift", ones, position)
    outside = e.binary(AND, value, e.binary(XOR, mask, Value("-1", dtype)))
    return e.binary(OR, outside, e.binary(AND, e.shift("LShift", field, position), mask))


def _constant_bits(value: Value) -> int:
    if not value.text.lstrip("-").isdecimal():
        raise NotNative("an operand that is no constant")
    return int(value.text)


def permuted(e: Emitter, operands: Sequence[Value]) -> Value:
    """Bytes by a constant selector."""
    a, b, selector = operands
    selections = [_constant_bits(selector) >> position & 15 for position in range(0, 16, 4)]
    result = Value("0", U32)
    for position, choice in enumerate(selections):
        source = b if choice & 4 else a
        low = 8 * (choice & 3)
        if choice & 8:
            byte = e.expression(f"({{0}} >> {low + 7} & 1) * np.uint32(255)", [source])
        else:
            byte = e.expression(f"{{0}} >> {low} & 255", [source])
        result = e.binary(OR, result, e.shift("LShift", byte, Value(str(8 * position), U32)))
    return result


def looked_up(e: Emitter, operands: Sequence[Value]) -> Value:
    """Bits by a constant table."""
    table = _constant_bits(operands[3])
    result = Value("0", U32)
    for row in range(8):
        if table >> row & 1:
            term = Value("-1", U32)
            for operand, position in zip(operands, (2, 1, 0), strict=False):
                factor = operand if row >> position & 1 else e.binary(XOR, operand, Value("-1", U32))
                term = e.binary(AND, term, factor)
            result = e.binary(OR, result, term)
    return result


def find_leading(e: Emitter, qualifiers: Sequence[str], operands: Sequence[Value]) -> list[Value]:
    position = leading_bit(e, operands[0])
    if qualifiers[0] != "shiftamt":
        return [position]
    assert operands[0].dtype is not None
    highest = Value(str(8 * operands[0].dtype.itemsize - 1), U32)
    none = e.compare(EQ, position, Value("-1", U32))
    return [e.select(none, position, e.binary(SUB, highest, position))]


def extract_signed(e: Emitter, qualifiers: Sequence[str], operands: Sequence[Value]) -> list[Value]:
    """A field of signed values; see ``_extract_signed`` in :mod:`drv.simulator.arithmetic.bits`."""
    value, *others = operands
    dtype = value.dtype
    assert dtype is not None
    bits = 8 * dtype.itemsize
    position, length = (e.bits(e.binary(AND, each, number(255)), I32) for each in others)
    left = e.binary(SUB, e.binary(SUB, Value(str(bits), I32), position), length)
    left = e.extremum(GT, left, number(0))
    right = e.binary(ADD, left, position)
    left, right = e.converted(left, dtype), e.converted(right, dtype)
    field = e.shift("RShift", e.shift("LShift", value, left), right)
    return [e.select(e.compare(EQ, length, number(0)), Value("0", dtype), field)]
