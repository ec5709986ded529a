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

    from drv.simulator.ptx.program import Function, Operand

_UNSIGNED_64 = np.dtype(np.uint64)
_DTYPES = {dtype.str: dtype for dtype in DTYPES.values()}
_NONE: dict[str, int] = {}


def register_types(function: Function) -> dict[str, np.dtype[Any]]:
    """NumPy type of each register, but for those of 16 bytes."""
    # By the names of types, as types themselves take long to look up.
    votes: dict[str, dict[str, int]] = {}
    for instruction in function.instructions:
        types = _types(instruction.opcode)
        if types is None:
            continue
        type_name, source = types
        for operand in instruction.operands:
            for name in (operand.name,) if type(operand) is Register else _registers(operand):
                counts = votes.get(name)
                if counts is None:
                    votes[name] = {type_name: 1}
                else:
                    counts[type_name] = counts.get(type_name, 0) + 1
            type_name = source
    return {
        name: _elected(votes.get(name, _NONE), ptx_type) for name, ptx_type in function.register_types.items()
    }


def _elected(votes: dict[str, int], ptx_type: str) -> np.dtype[Any]:
    """The type with the most votes among those of the width that is declared; without any, the declared one."""
    most, result = 0, None
    for each, count in votes.items():
        if count > most and (dtype := _fitting(each, ptx_type)) is not None:
            most, result = count, dtype
    return DTYPES.get(ptx_type, _UNSIGNED_64) if result is None else result


@functools.cache
def _fitting(type_name: str, ptx_type: str) -> np.dtype[Any] | None:
    """A type, if a register that is declared as ``ptx_type`` may be kept as such."""
    dtype, declared = _DTYPES[type_name], DTYPES.get(ptx_type, _UNSIGNED_64)
    fits = dtype.itemsize == declared.itemsize and (dtype.kind == "b") == (declared.kind == "b")
    return dtype if fits else None


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
