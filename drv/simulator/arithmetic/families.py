"""Which tables hold the rows of an instruction, by the first part of its opcode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import bits, bytewise, carries, comparisons, conversions, integers, packing
from .floats import approximate, halves
from .floats import single_and_double as floats

if TYPE_CHECKING:
    from .operation import Family

_TABLES: dict[Family, str] = {
    integers.rows: "add sub mul mad min max div rem abs neg sad mul24 mad24",
    bits.rows: "and or xor not cnot shl shr shf popc clz brev bfind fns bfe bfi bmsk szext",
    bytewise.rows: "lop3 prmt dp4a dp2a vabsdiff4",
    carries.rows: "add addc sub subc mad madc",
    comparisons.rows: "setp set selp slct testp",
    floats.rows: "add sub mul mad fma min max div sqrt rcp abs neg copysign",
    approximate.rows: "rcp sqrt rsqrt sin cos lg2 ex2 tanh div",
    halves.rows: "add sub mul fma min max abs neg tanh ex2 setp set",
    conversions.rows: "cvt",
    packing.rows: "cvt",
}

#: The tables to look into, by the opcode's first part.
FAMILIES: dict[str, tuple[Family, ...]] = {
    base: tuple(family for family, bases in _TABLES.items() if base in bases.split())
    for base in sorted({base for bases in _TABLES.values() for base in bases.split()})
}
