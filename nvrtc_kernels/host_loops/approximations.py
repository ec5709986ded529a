"""Instructions that PTX documents with an error bound, by short sequences that vectorize.

The simulator has the same instructions with a GPU's bits. Here the bound is what counts, and time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drv.simulator.execution.native.forms.expressions import (
    ADD,
    DIV,
    F32,
    F64,
    GT,
    I32,
    LT,
    MUL,
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


def _power_of_two(e: Emitter, x: Value) -> Value:
    """``2**x`` with a relative error below 2^-23; 0 where that is subnormal."""
    shifted = e.binary(ADD, x, _number(_WHOLE))
    rest = e.binary(SUB, x, e.binary(SUB, shifted, _number(_WHOLE)))
    power = _number(_EXP2[0])
    for coefficient in _EXP2[1:]:
        power = fused(e, power, rest, _number(coefficient))
    whole = e.shift("LShift", e.bits(shifted, I32), Value("23", I32))
    result = e.bits(e.binary(ADD, e.bits(power, I32), whole), F32)
    # Infinity where it is too large, and NaN of NaN.
    beyond = e.binary(ADD, x, _number(np.inf))
    result = e.select(e.compare(LT, x, _number(128.0)), result, beyond)
    return e.select(e.compare(LT, x, _number(-126.0)), _number(0.0), result)


def _power_of_two_with_subnormals(e: Emitter, x: Value) -> Value:
    small = e.compare(LT, x, _number(-126.0))
    moved = e.select(small, e.binary(ADD, x, _number(24.0)), x)
    scale = e.select(small, _number(2.0**-24), _number(1.0))
    return e.binary(MUL, _power_of_two(e, moved), scale)


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
