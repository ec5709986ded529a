"""NumPy types of the registers of a function.

PTX declares little more than their widths: a compiler writes ``.b32`` for what it adds as signed integers or multiplies as
floats. A register is kept as the type that most instructions take it for, so that few have to look at its bits anew.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic import DTYPES
from drv.simulator.ptx.program import Register, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.simulator.ptx.program import Function, Instruction, Operand

_UNSIGNED_64 = np.dtype(np.uint64)
_DTYPES = {dtype.str: dtype for dtype in DTYPES.values()}


def register_types(function: Function) -> dict[str, np.dtype[Any]]:
    """NumPy type of each register, but for those of 16 bytes."""
    # By the names of types, as types themselves take long to look up.
    votes: dict[str, dict[str, int]] = {name: {} for name in function.register_types}
    for instruction in function.instructions:
        for name, type_name in _uses(instruction):
            counts = votes.get(name)
            if counts is not None:
                counts[type_name] = counts.get(type_name, 0) + 1
    result = {}
    for name, ptx_type in function.register_types.items():
        declared = DTYPES.get(ptx_type, _UNSIGNED_64)
        fitting = [
            (count, dtype)
            for each, count in votes[name].items()
            if (dtype := _DTYPES[each]).itemsize == declared.itemsize
            and (dtype.kind == "b") == (declared.kind == "b")
        ]
        result[name] = max(fitting, key=lambda each: each[0])[1] if fitting else declared
    return result


def _uses(instruction: Instruction) -> Iterator[tuple[str, str]]:
    """Registers of an instruction, and what it takes them for, where the opcode says so at first sight."""
    types = _types(instruction.opcode)
    if types is None:
        return
    result, source = types
    for position, operand in enumerate(instruction.operands):
        dtype = source if position else result
        if type(operand) is Register:
            yield operand.name, dtype
        else:
            for name in _registers(operand):
                yield name, dtype


@functools.cache
def _types(opcode: str) -> tuple[str, str] | None:
    """What an opcode takes its first operand for, and the others."""
    base, *fields = opcode.split(".")
    types = [DTYPES[qualifier].str for qualifier in fields if qualifier in DTYPES]
    if base == "mov" or not types:
        return None
    return types[0] if base == "cvt" else types[-1], types[-1]


def _registers(operand: Operand) -> Iterator[str]:
    if isinstance(operand, Register):
        yield operand.name
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from _registers(item)
