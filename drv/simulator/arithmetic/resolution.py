"""From opcode text to its `VectorOperation`: which tables hold the rows of an instruction, and which row is meant."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from . import bits, bytewise, carries, comparisons, conversions, integers, packing
from .floats import approximate, halves
from .floats import single_and_double as floats
from .operation import Row, UnknownInstruction, VectorOperation, function_of

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

#: The tables to look into, by the opcode without its qualifiers.
FAMILIES: dict[str, tuple[Family, ...]] = {
    base: tuple(family for family, bases in _TABLES.items() if base in bases.split())
    for base in sorted({base for bases in _TABLES.values() for base in bases.split()})
}


@cache
def table(base: str) -> dict[str, list[Row]]:
    """Return the rows of the instruction ``base`` ("add", "cvt", ...) by opcode; empty when there are none.

    Forms of one opcode that differ in the number of operands or results are rows of one list, the
    usual form first.
    """
    rows: dict[str, list[Row]] = {}
    for family in FAMILIES.get(base, ()):
        for row in family():
            if row.opcode == base or row.opcode.startswith(base + "."):
                rows.setdefault(row.opcode, []).append(row)
    return rows


@cache
def resolve(opcode: str, operands: int | None = None, results: int | None = None) -> VectorOperation:
    """Return what ``opcode``, the full text such as "fma.rn.ftz.f32", computes.

    ``operands`` and ``results`` are how many sources and destinations the instruction is written with
    (the carry flag not counted). They choose between forms that share an opcode: ``setp`` with a second
    result ``p|q``, ``min`` and ``max`` of three. Without them it is the usual form.

    Raises
    ------
    UnknownInstruction
        When no table has such a row.
    """
    for row in table(opcode.partition(".")[0]).get(opcode, ()):
        if operands is not None and operands != len(row.operands) - row.operands.count("cc"):
            continue
        if results is not None and results != len(row.results) - row.results.count("cc"):
            continue
        return _operation(row)
    raise UnknownInstruction(opcode)


def _operation(row: Row) -> VectorOperation:
    if not isinstance(row.meaning, str):
        return VectorOperation(row.opcode, row.operands, row.results, row.meaning, None)
    function = function_of(row.meaning, len(row.operands))
    return VectorOperation(row.opcode, row.operands, row.results, function, row.meaning)
