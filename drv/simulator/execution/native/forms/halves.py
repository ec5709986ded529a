"""f16 and bf16 arithmetic, alone and in pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.host.machine_code import has_feature
from drv.simulator.arithmetic.operation import DTYPES

from .expressions import NE, OR, U16, U32, Emitter, NotNative, Value
from .floats import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence


def widened(e: Emitter, value: Value) -> Value:
    """bf16 bits as float32."""
    return e.expression("({0}.astype(np.uint32) << 16).view(np.float32)", [value])


def rounded_bf16(e: Emitter, value: Value) -> Value:
    """float32 as bf16 bits, to nearest."""
    bits = e.bits(value, U32)
    rounded = e.expression("({0} + ({0} >> 16 & 1) + 0x7FFF >> 16).astype(np.uint16)", [bits])
    return e.select(e.compare(NE, value, value), Value("32767", U16), rounded)


def half_operation(e: Emitter, base: str, qualifiers: Sequence[str], operands: Sequence[Value]) -> Value:
    ptx_type = qualifiers[-1]
    rest = list(qualifiers[:-1])
    if rest not in ([], ["rn"]):
        raise NotNative(".".join(qualifiers))
    if ptx_type.endswith("x2"):
        single = ptx_type.removesuffix("x2")
        halves = []
        for shift in (0, 16):
            each = [
                e.bits(e.converted(e.shift("RShift", operand, Value(str(shift), U32)), U16), DTYPES[single])
                for operand in operands
            ]
            half = half_operation(e, base, [*rest, single], each)
            halves.append(e.converted(e.bits(half, U16), U32))
        return e.binary(OR, halves[0], e.shift("LShift", halves[1], Value("16", U32)))
    if ptx_type == "f16":
        if not has_feature("f16c", "fullfp16"):
            raise NotNative("half precision")
        return nearest(e, base, operands)
    if base in ("add", "sub", "mul"):
        return rounded_bf16(e, nearest(e, base, [widened(e, each) for each in operands]))
    raise NotNative(base)
