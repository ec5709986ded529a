"""Instructions that PTX documents with an error bound, by short sequences that vectorize.

The simulator has the same instructions with a GPU's bits. Here the bound is what counts, and time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drv.simulator.execution.native.forms.expressions import (
    ADD,
    AND,
    DIV,
    F32,
    F64,
    GT,
    I32,
    I64,
    LT,
    MUL,
    OR,
    SUB,
    Emitter,
    Value,
    constant,
    llvm_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Coefficients of 2^r for r in [-1/2, 1/2], highest first: a minimax fit of the relative error, 2^-28.9 before rounding.
_EXP2 = (
    0.00015353361959569156,
    0.0013398875016719103,
    0.00961843691766262,
    0.055503323674201965,
    0.24022647738456726,
    0.6931471824645996,
    1.0,
)
#: 1 / log(2), and what float32 leaves of it.
_PER_LOG_2 = 1.4426950216293335, 1.9259629911266175e-08
#: Coefficients of log2(1 + r) / r for 1 + r in [sqrt(1/2), sqrt(2)], highest first: a minimax fit of the relative error, 2^-25.
_LOG2 = (
    0.12582816183567047,
    -0.20728203654289246,
    0.21572472155094147,
    -0.23894348740577698,
    0.28791511058807373,
    -0.360703706741333,
    0.48091068863868713,
    -0.7213473320007324,
    1.4426950216293335,
)
#: Bits of sqrt(1/2), and the least number that is not subnormal.
_ROOT_HALF_BITS, _LEAST = 0x3F3504F3, 2.0**-126
#: Added to a float32 below 2^22, it leaves the nearest integer in the low bits.
_WHOLE = 1.5 * 2.0**23


def _number(value: float, dtype: np.dtype = F32) -> Value:
    return Value(constant(value, dtype), dtype)


def fused(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    """``a * b + c``, rounded once."""
    assert a.dtype is not None
    ir_type = llvm_type(a.dtype)
    name = f"llvm.fma.f{8 * a.dtype.itemsize}"
    return Value(e.intrinsic(name, ir_type, *((ir_type, each.text) for each in (a, b, c))), a.dtype)


def _scaled_power(e: Emitter, shifted: Value, rest: Value) -> Value:
    """``2**(n + rest)``, where ``rest`` is at most 1/2, and ``n`` is what was added to :data:`_WHOLE`."""
    power = _number(_EXP2[0])
    for coefficient in _EXP2[1:]:
        power = fused(e, power, rest, _number(coefficient))
    whole = e.shift("LShift", e.bits(shifted, I32), Value("23", I32))
    return e.bits(e.binary(ADD, e.bits(power, I32), whole), F32)


def exponential(e: Emitter, x: Value) -> Value:
    """``exp(x)`` of a float32, with a relative error below 2^-22; 0 where that is subnormal."""
    high, low = map(_number, _PER_LOG_2)
    shifted = fused(e, x, high, _number(_WHOLE))
    whole = e.binary(SUB, shifted, _number(_WHOLE))
    # In two parts, so that a large x leaves all its digits.
    rest = fused(e, x, high, e.binary(SUB, _number(0.0), whole))
    rest = fused(e, x, low, rest)
    result = _scaled_power(e, shifted, rest)
    result = e.select(e.compare(LT, x, _number(-87.3)), _number(0.0), result)
    # Infinity where it is too large, and NaN of NaN.
    return e.select(e.compare(LT, x, _number(88.7)), result, e.binary(ADD, x, _number(np.inf)))


def logarithm(e: Emitter, x: Value) -> Value:
    """``log(x)`` of a float64 that is at least 1 and finite, with an absolute error below 1e-10; of others something.

    By the series of ``log((1 + t) / (1 - t))``, for a factor of ``x`` in [1, 2) less its middle in powers of two.
    """
    bits = e.bits(x, I64)
    exponent = e.binary(SUB, e.shift("RShift", bits, Value("52", I64)), Value("1023", I64))
    mantissa = e.binary(AND, bits, Value(str((1 << 52) - 1), I64))
    factor = e.bits(e.binary(OR, mantissa, Value(str(1023 << 52), I64)), F64)
    root = _number(2.0**0.5, F64)
    t = e.binary(DIV, e.binary(SUB, factor, root), e.binary(ADD, factor, root))
    square = e.binary(MUL, t, t)
    series = _number(0.0, F64)
    for order in range(13, 0, -2):
        series = fused(e, series, square, _number(2.0 / order, F64))
    whole = e.binary(ADD, e.converted(exponent, F64), _number(0.5, F64))
    return fused(e, whole, _number(float(np.log(2.0)), F64), e.binary(MUL, series, t))


def _power_of_two(e: Emitter, x: Value) -> Value:
    """``2**x`` with a relative error below 2^-23; 0 where that is subnormal."""
    shifted = e.binary(ADD, x, _number(_WHOLE))
    rest = e.binary(SUB, x, e.binary(SUB, shifted, _number(_WHOLE)))
    result = _scaled_power(e, shifted, rest)
    # Infinity where it is too large, and NaN of NaN.
    beyond = e.binary(ADD, x, _number(np.inf))
    result = e.select(e.compare(LT, x, _number(128.0)), result, beyond)
    return e.select(e.compare(LT, x, _number(-126.0)), _number(0.0), result)


def _power_of_two_with_subnormals(e: Emitter, x: Value) -> Value:
    small = e.compare(LT, x, _number(-126.0))
    moved = e.select(small, e.binary(ADD, x, _number(24.0)), x)
    scale = e.select(small, _number(2.0**-24), _number(1.0))
    return e.binary(MUL, _power_of_two(e, moved), scale)


def _binary_logarithm(e: Emitter, x: Value) -> Value:
    """``log2(x)`` with an error below 2^-23 of it; of subnormal numbers as of 0."""
    bits = e.bits(x, I32)
    whole = e.shift("RShift", e.binary(SUB, bits, Value(str(_ROOT_HALF_BITS), I32)), Value("23", I32))
    factor = e.bits(e.binary(SUB, bits, e.shift("LShift", whole, Value("23", I32))), F32)
    rest = e.binary(SUB, factor, _number(1.0))
    series = _number(_LOG2[0])
    for coefficient in _LOG2[1:]:
        series = fused(e, series, rest, _number(coefficient))
    result = fused(e, rest, series, e.converted(whole, F32))
    # Infinity of infinity, and NaN of NaN.
    result = e.select(e.compare(LT, x, _number(np.inf)), result, e.binary(ADD, x, _number(np.inf)))
    result = e.select(e.compare(LT, x, _number(_LEAST)), _number(-np.inf), result)
    return e.select(e.compare(GT, x, _number(-_LEAST)), result, _number(np.nan))


def _binary_logarithm_with_subnormals(e: Emitter, x: Value) -> Value:
    small = e.compare(LT, x, _number(_LEAST))
    result = _binary_logarithm(e, e.select(small, e.binary(MUL, x, _number(2.0**24)), x))
    return e.select(small, e.binary(SUB, result, _number(24.0)), result)


def _near_sum(e: Emitter, a: Value, b: Value) -> Value:
    """``a + b``, for which PTX says that it is rounded towards zero. Logarithms take a power of two from it, and work with what the
    number is beside that, so that either neighbour does.
    """
    return e.binary(ADD, a, b)


def _near(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    """``a * b + c``, for which PTX says that it is rounded down. Exponential functions cut off a fraction by it, and take either
    neighbour, since they work with what is left.
    """
    return fused(e, a, b, c)


def _reciprocal(dtype: np.dtype) -> Callable[..., Value]:
    return lambda e, x: e.binary(DIV, _number(1.0, dtype), x)


def _reciprocal_root(dtype: np.dtype) -> Callable[..., Value]:
    return lambda e, x: e.binary(DIV, _number(1.0, dtype), e.function("sqrt", x))


def _quotient(e: Emitter, a: Value, b: Value) -> Value:
    return e.binary(DIV, a, b)


def _root(e: Emitter, x: Value) -> Value:
    return e.function("sqrt", x)


def _extremum(operator: object) -> Callable[..., Value]:
    """The number of two where one is NaN; -0 and +0 are equal here."""

    def form(e: Emitter, a: Value, b: Value) -> Value:
        better = e.select(e.compare(operator, a, b), a, b)  # type: ignore[arg-type]
        missing = Value(e.emit(f"fcmp uno {llvm_type(b.dtype)} {b.text}, {b.text}"), np.dtype(np.bool_))  # type: ignore[arg-type]
        return e.select(missing, a, better)

    return form


#: By opcode: types of operands, type of the result, and what computes it.
APPROXIMATIONS: dict[str, tuple[Sequence[str], str, Callable[..., Value]]] = {
    "ex2.approx.ftz.f32": (("f32",), "f32", _power_of_two),
    "ex2.approx.f32": (("f32",), "f32", _power_of_two_with_subnormals),
    "add.rz.f32": (("f32", "f32"), "f32", _near_sum),
    "lg2.approx.ftz.f32": (("f32",), "f32", _binary_logarithm),
    "lg2.approx.f32": (("f32",), "f32", _binary_logarithm_with_subnormals),
    "rcp.approx.ftz.f32": (("f32",), "f32", _reciprocal(F32)),
    "rcp.approx.f32": (("f32",), "f32", _reciprocal(F32)),
    "rcp.approx.ftz.f64": (("f64",), "f64", _reciprocal(F64)),
    "rsqrt.approx.ftz.f32": (("f32",), "f32", _reciprocal_root(F32)),
    "rsqrt.approx.f32": (("f32",), "f32", _reciprocal_root(F32)),
    "rsqrt.approx.ftz.f64": (("f64",), "f64", _reciprocal_root(F64)),
    "sqrt.approx.ftz.f32": (("f32",), "f32", _root),
    "sqrt.approx.f32": (("f32",), "f32", _root),
    "div.full.f32": (("f32", "f32"), "f32", _quotient),
    "div.approx.f32": (("f32", "f32"), "f32", _quotient),
    "div.approx.ftz.f32": (("f32", "f32"), "f32", _quotient),
    "fma.rm.f32": (("f32", "f32", "f32"), "f32", _near),
    "fma.rm.ftz.f32": (("f32", "f32", "f32"), "f32", _near),
    "min.f32": (("f32", "f32"), "f32", _extremum(LT)),
    "max.f32": (("f32", "f32"), "f32", _extremum(GT)),
    "min.f64": (("f64", "f64"), "f64", _extremum(LT)),
    "max.f64": (("f64", "f64"), "f64", _extremum(GT)),
}
