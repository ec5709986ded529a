"""f32 and f64 arithmetic with roundings, flushing of subnormals and saturation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drv.host.machine_code import has_feature
from drv.simulator.arithmetic.floats.approximate import COEFFICIENTS, FARTHEST, WHOLE

from .expressions import (
    ADD,
    AND,
    DIV,
    EQ,
    F16,
    F32,
    F64,
    GT,
    I32,
    I64,
    LT,
    MUL,
    NE,
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

#: Parts of an opcode that change how operands and results are treated, not what is computed.
_AROUND = ("ftz", "sat")
_CANONICAL_NAN = {F16: 0x7FFF, F32: 0x7FFFFFFF, F64: 0x7FFFFFFFFFFFFFFF}
_TINY = 2.0**-126


def flushed(e: Emitter, value: Value) -> Value:
    """Subnormal float32 as 0 of its sign."""
    tiny = e.compare(LT, e.function("fabs", value), number(_TINY))
    bits = e.binary(AND, e.bits(value, U32), number(0x80000000))
    return e.select(tiny, e.bits(bits, F32), value)


def saturated(e: Emitter, value: Value) -> Value:
    """Within [0, 1]; NaN and -0 are +0."""
    zero, one = number(0.0), number(1.0)
    below_one = e.select(e.compare(LT, value, one), value, one)
    return e.select(e.compare(GT, value, zero), below_one, zero)


def _fused(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    if a.dtype == F16:
        widened = [e.converted(each, F64) for each in (a, b, c)]
        return e.converted(e.binary(ADD, e.binary(MUL, widened[0], widened[1]), widened[2]), F16)
    assert a.dtype is not None
    if not has_feature("fma"):
        raise NotNative("fused multiply-add")
    ir_type = llvm_type(a.dtype)
    name = f"llvm.fma.f{8 * a.dtype.itemsize}"
    return Value(e.intrinsic(name, ir_type, *((ir_type, each.text) for each in (a, b, c))), a.dtype)


def nearest(e: Emitter, base: str, operands: Sequence[Value]) -> Value:
    """A float operation rounded to nearest."""
    if base in ("fma", "mad"):
        return _fused(e, *operands)
    first = operands[0]
    if base in ("add", "sub", "mul", "div"):
        operator = {"add": ADD, "sub": SUB, "mul": MUL, "div": DIV}[base]
        if first.dtype == F16:
            widened = [e.converted(each, F32) for each in operands]
            return e.converted(e.binary(operator, *widened), F16)
        return e.binary(operator, *operands)
    if base == "sqrt":
        return e.function("sqrt", first)
    if base == "rcp":
        return e.binary(DIV, number(1.0), first)
    if base == "rsqrt":
        return e.binary(DIV, number(1.0), e.function("sqrt", first))
    if base == "ex2" and first.dtype == F32:
        return _power_of_two(e, first)
    if base == "neg":
        return e.expression("-{0}", [first])
    if base == "abs":
        return e.function("fabs", first)
    raise NotNative(base)


def float_operation(
    e: Emitter, base: str, qualifiers: Sequence[str], operands: Sequence[Value]
) -> list[Value]:
    ptx_type = qualifiers[-1]
    rest = [qualifier for qualifier in qualifiers[:-1] if qualifier not in _AROUND]
    if ptx_type not in ("f32", "f64"):
        raise NotNative(ptx_type)
    flush = "ftz" in qualifiers
    if flush and ptx_type != "f32":
        raise NotNative("ftz of doubles")
    if flush:
        operands = [flushed(e, each) for each in operands]
    if base in ("min", "max") and rest in ([], ["NaN"]) and len(operands) == 2:
        result = _extremum(e, base, operands, keeps_nan=rest == ["NaN"])
        return [result]
    if rest in ([], ["rn"], ["full"]) or (rest == ["approx"] and base in ("rcp", "sqrt", "rsqrt", "ex2")):
        if base == "rsqrt" and ptx_type == "f64" and flush:
            raise NotNative("upper halves")
        result = nearest(e, base, operands)
    elif rest == ["approx"] and base == "div":
        result = _approximate_quotient(e, *operands)
    elif len(rest) == 1 and rest[0] in ("rz", "rm", "rp") and ptx_type == "f32":
        result = _directed(e, base, rest[0], operands)
    else:
        raise NotNative(".".join(qualifiers))
    if flush:
        result = flushed(e, result)
    if "sat" in qualifiers:
        result = saturated(e, result)
    return [result]


def _approximate_quotient(e: Emitter, a: Value, b: Value) -> Value:
    size = e.function("fabs", b)
    large = e.compare(GT, size, number(2.0**126))
    finite = e.compare(LT, size, number(np.inf))
    signed = e.bits(e.binary(AND, e.bits(b, U32), number(0x80000000)), F32)
    return e.select(e.binary(AND, large, finite), e.binary(MUL, a, signed), e.binary(DIV, a, b))


def _power_of_two(e: Emitter, value: Value) -> Value:
    """``2**value``; see :func:`drv.simulator.arithmetic.floats.approximate.exp2`."""
    x = e.converted(value, F64)
    x = e.select(
        e.compare(GT, x, number(FARTHEST)),
        number(FARTHEST),
        e.select(e.compare(LT, x, number(-FARTHEST)), number(-FARTHEST), x),
    )
    shifted = e.binary(ADD, x, number(WHOLE))
    x = e.binary(SUB, x, e.binary(SUB, shifted, number(WHOLE)))
    result = e.binary(MUL, x, number(COEFFICIENTS[0]))
    for coefficient in COEFFICIENTS[1:-1]:
        result = e.binary(MUL, e.binary(ADD, result, number(coefficient)), x)
    result = e.binary(ADD, result, number(COEFFICIENTS[-1]))
    exponent = e.expression("({0} + 1023) << 52", [e.bits(shifted, I64)])
    return e.converted(e.binary(MUL, result, e.bits(exponent, F64)), F32)


def _negated(e: Emitter, value: Value) -> Value:
    return e.expression("-{0}", [value])


def _sum_to_odd(e: Emitter, a: Value, b: Value) -> Value:
    """``a + b`` of doubles rounded to odd; see :mod:`drv.simulator.arithmetic.floats.fused`."""
    total = e.binary(ADD, a, b)
    b_virtual = e.binary(SUB, total, a)
    error = e.binary(ADD, e.binary(SUB, a, e.binary(SUB, total, b_virtual)), e.binary(SUB, b, b_virtual))
    bits = e.bits(total, I64)
    above, below = e.compare(GT, error, number(0.0)), e.compare(LT, error, number(0.0))
    even = e.compare(EQ, e.binary(AND, bits, number(1)), number(0))
    moved = e.binary(AND, e.binary(OR, above, below), even)
    agree = e.binary(XOR, above, e.compare(GT, total, number(0.0)))
    one = Value("1", I64)
    away = e.select(agree, Value("-1", I64), one)
    return e.bits(e.binary(ADD, bits, e.select(moved, away, Value("0", I64))), F64)


def _directed(e: Emitter, base: str, rounding: str, operands: Sequence[Value]) -> Value:
    """A float32 operation rounded in one direction; see :mod:`drv.simulator.arithmetic.floats.directed`."""
    if base not in ("add", "sub", "mul", "fma"):
        raise NotNative(base)
    values = [e.converted(each, F64) for each in operands]
    down = rounding == "rm"
    if base == "sub":
        values[1] = _negated(e, values[1])
    if down:
        values[0] = _negated(e, values[0])
        if base != "mul":
            values[-1] = _negated(e, values[-1])
    if base == "mul":
        exact = e.binary(MUL, *values)
    elif base == "fma":
        exact = _sum_to_odd(e, e.binary(MUL, values[0], values[1]), values[2])
    else:
        exact = _sum_to_odd(e, *values)
    nearest = e.converted(exact, F32)
    bits, back = e.bits(nearest, I32), e.converted(nearest, F64)
    zero, one, less = Value("0", I32), Value("1", I32), Value("-1", I32)
    if rounding == "rz":
        moved = e.compare(GT, e.function("fabs", back), e.function("fabs", exact))
        step = less
    else:
        moved = e.compare(LT, back, exact)
        step = e.select(e.compare(LT, bits, number(0)), less, one)
    result = e.bits(e.binary(ADD, bits, e.select(moved, step, zero)), F32)
    return _negated(e, result) if down else result


def _extremum(e: Emitter, base: str, operands: Sequence[Value], *, keeps_nan: bool) -> Value:
    """The smaller or larger of two: -0 is less than +0; see :mod:`drv.simulator.arithmetic.floats.extrema`."""
    a, b = operands
    dtype = a.dtype
    assert dtype is not None
    unsigned = np.dtype(f"u{dtype.itemsize}")
    merge = OR if base == "min" else AND
    merged = e.bits(e.binary(merge, e.bits(a, unsigned), e.bits(b, unsigned)), dtype)
    operator = LT if base == "min" else GT
    chosen = e.select(e.compare(operator, a, b), a, b)
    chosen = e.select(e.compare(EQ, a, b), merged, chosen)
    canonical = e.bits(Value(str(_CANONICAL_NAN[dtype]), unsigned), dtype)
    a_nan, b_nan = e.compare(NE, a, a), e.compare(NE, b, b)
    if keeps_nan:
        return e.select(e.binary(OR, a_nan, b_nan), canonical, chosen)
    return e.select(a_nan, e.select(b_nan, canonical, b), e.select(b_nan, a, chosen))
