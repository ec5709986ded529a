"""From opcode text to its `VectorOperation`."""

from __future__ import annotations

from functools import cache

from .families import FAMILIES
from .operation import Row, UnknownInstruction, VectorOperation, function_of


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
