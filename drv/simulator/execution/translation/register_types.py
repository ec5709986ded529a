"""NumPy types of the registers of a function.

PTX declares little more than their widths: a compiler writes ``.b32`` for what it adds as signed integers or multiplies as
floats. A register is kept as the type that most instructions take it for, so that few have to look at its bits anew.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic import DTYPES
from drv.simulator.ptx.program import Register, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.simulator.ptx.program import Function, Instruction, Operand

_UNSIGNED_64 = np.dtype(np.uint64)


def register_types(function: Function) -> dict[str, np.dtype[Any]]:
    """NumPy type of each register, but for those of 16 bytes."""
    votes: defaultdict[str, Counter[np.dtype[Any]]] = defaultdict(Counter)
    for instruction in function.instructions:
        for name, dtype in _uses(instruction):
            votes[name][dtype] += 1
    result = {}
    for name, ptx_type in function.register_types.items():
        declared = DTYPES.get(ptx_type, _UNSIGNED_64)
        fitting = [
            (count, dtype)
            for dtype, count in votes[name].items()
            if dtype.itemsize == declared.itemsize and (dtype.kind == "b") == (declared.kind == "b")
        ]
        result[name] = max(fitting, key=lambda each: each[0])[1] if fitting else declared
    return result


def _uses(instruction: Instruction) -> Iterator[tuple[str, np.dtype[Any]]]:
    """Registers of an instruction, and what it takes them for, where the opcode says so at first sight."""
    base, fields, operands = instruction.base, instruction.fields, instruction.operands
    if base == "mov" or not operands:
        return
    types = [DTYPES[qualifier] for qualifier in fields if qualifier in DTYPES]
    if not types:
        return
    result, source = types[0] if base == "cvt" else types[-1], types[-1]
    for position, operand in enumerate(operands):
        dtype = source if position or base in ("st", "red") else result
        for name in _registers(operand):
            yield name, dtype


def _registers(operand: Operand) -> Iterator[str]:
    if isinstance(operand, Register):
        yield operand.name
    elif isinstance(operand, Vector):
        for item in operand.items:
            yield from _registers(item)
