"""cvt between floats, from floats to integers, and to pairs of halves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.host.machine_code import has_feature
from drv.simulator.arithmetic.operation import DTYPES

from .expressions import F16, F32, NE, OR, U16, U32, Emitter, NotNative, Value, llvm_type
from .floats import flushed, saturated
from .halves import rounded_bf16, widened

if TYPE_CHECKING:
    from collections.abc import Sequence


def _to_integer(e: Emitter, value: Value, target: str, source: str, rounding: str) -> Value:
    """A float as an integer, saturated; NaN is 0, or the highest bit alone where 64 bits are involved."""
    dtype = DTYPES[target]
    if source == "f16":
        value = e.converted(value, F32)
    elif source == "bf16":
        value = widened(e, value)
    whole = e.function({"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[rounding], value)
    assert whole.dtype is not None
    ir_type, result = llvm_type(whole.dtype), llvm_type(dtype)
    sign = "s" if dtype.kind == "i" else "u"
    name = f"llvm.fpto{sign}i.sat.{result}.f{8 * whole.dtype.itemsize}"
    converted = Value(e.intrinsic(name, result, (ir_type, whole.text)), dtype)
    if source == "f64" or dtype.itemsize == 8:
        nan = e.compare(NE, whole, whole)
        highest = Value(str(1 << 8 * dtype.itemsize - 1), dtype)
        return e.select(nan, highest, converted)
    return converted


def convert(e: Emitter, qualifiers: Sequence[str], operands: Sequence[Value]) -> list[Value]:
    target, source = qualifiers[-2:]
    rest = list(qualifiers[:-2])
    value = operands[0]
    flush = "ftz" in rest
    rest = [qualifier for qualifier in rest if qualifier != "ftz"]
    if source[0] == "f" or source == "bf16":
        if len(operands) > 1:
            return [_packed(e, target, source, rest, operands)]
        if flush and source == "f32":
            value = flushed(e, value)
        if target in DTYPES and target[0] in "us" and rest[:1] and rest[0] in ("rni", "rzi", "rmi", "rpi"):
            if [qualifier for qualifier in rest[1:] if qualifier != "sat"]:
                raise NotNative(".".join(qualifiers))
            return [_to_integer(e, value, target, source, rest[0])]
        if (target, source, rest) == ("bf16", "f32", ["rn"]):
            return [rounded_bf16(e, value)]
        if target in ("f32", "f64") and source in ("f32", "f64"):
            result = value
            for qualifier in rest:
                if qualifier in ("rni", "rzi", "rmi", "rpi"):
                    name = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[qualifier]
                    result = e.function(name, result)
                elif qualifier not in ("rn", "sat"):
                    raise NotNative(".".join(qualifiers))
            result = e.converted(result, DTYPES[target])
            if flush and target == "f32":
                result = flushed(e, result)
            if "sat" in rest:
                result = saturated(e, result)
            return [result]
    raise NotNative(".".join(qualifiers))


def _packed(e: Emitter, target: str, source: str, rest: list[str], operands: Sequence[Value]) -> Value:
    if source != "f32" or rest != ["rn"] or target not in ("f16x2", "bf16x2") or len(operands) != 2:
        raise NotNative(target)
    halves = []
    for each in operands:
        if target == "bf16x2":
            half = rounded_bf16(e, each)
        elif has_feature("f16c", "fullfp16"):
            half = e.bits(e.converted(each, F16), U16)
        else:
            raise NotNative("half precision")
        halves.append(e.converted(half, U32))
    return e.binary(OR, e.shift("LShift", halves[0], Value("16", U32)), halves[1])
