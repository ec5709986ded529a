"""Instructions as functions over lanes: the record, its dtypes, and the table rows it is made from.

Every family of instructions (a file of this package) is a function that yields rows: opcode, operand
types, result types, and either a NumPy expression or a function. `resolution.resolve` finds the row of
an opcode and makes a `VectorOperation` of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Lanes: TypeAlias = NDArray[Any]
Function: TypeAlias = Callable[..., Any]

#: The NumPy dtype that holds a value of a PTX type; "cc" is the carry flag. Packed and bf16 types are bit patterns.
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "pred": np.bool_,
        "cc": np.bool_,
        "b8": np.uint8,
        "u8": np.uint8,
        "s8": np.int8,
        "b16": np.uint16,
        "u16": np.uint16,
        "s16": np.int16,
        "b32": np.uint32,
        "u32": np.uint32,
        "s32": np.int32,
        "b64": np.uint64,
        "u64": np.uint64,
        "s64": np.int64,
        "f16": np.float16,
        "bf16": np.uint16,
        "f16x2": np.uint32,
        "bf16x2": np.uint32,
        "f32x2": np.uint64,
        "u16x2": np.uint32,
        "s16x2": np.uint32,
        "tf32": np.uint32,
        "f32": np.float32,
        "f64": np.float64,
    }.items()
}


class UnknownInstruction(Exception):  # noqa: N818 - it ends a launch with a report of its own
    """No row of the arithmetic tables has this opcode (with this many operands and results).

    ``known`` says which instructions like it there are, where that helps.
    """

    def __init__(self, opcode: str, known: str = "") -> None:
        super().__init__(f"{opcode}: not an arithmetic instruction that the simulator knows")
        self.opcode = opcode
        self.known = known


@dataclass(frozen=True, slots=True)
class VectorOperation:
    """The value semantics of one PTX instruction over lanes.

    Operands and results are arrays of the dtypes that `DTYPES` gives their types, shape ``(n,)``, or
    ``(1,)`` for a value that all lanes share; they broadcast, and a result is ``(1,)`` when all operands are.
    A result may share memory with an operand. Callers enter ``np.errstate(all="ignore")``.
    """

    opcode: str
    #: PTX types of the sources in order; the carry flag, "cc", is an extra last one.
    operands: tuple[str, ...]
    #: PTX types of the results; the carry flag, "cc", is an extra last one.
    results: tuple[str, ...]
    #: Arrays in, array out; a tuple of arrays when there are several results.
    function: Function
    #: The same as a Python expression over ``{0}``, ``{1}``, ... (names or calls) and ``np``, for inlining in
    #: translated code; None where there is only the function.
    expression: str | None


class Row(NamedTuple):
    """One line of a family's table: ``meaning`` is an expression over ``{0}``, ``{1}``, ... or a function."""

    opcode: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    meaning: str | Function


Family: TypeAlias = Callable[[], Iterator[Row]]


def function_of(expression: str, operands: int) -> Function:
    """Return the function of ``operands`` arrays that ``expression`` over ``{0}``, ``{1}``, ... describes."""
    names = [f"operand{index}" for index in range(operands)]
    source = f"lambda {', '.join(names)}: {expression.format(*names)}"
    return cast("Function", eval(source, {"np": np}))


def width(ptx_type: str) -> int:
    """Return the number of bits of an integer or bit type such as "u32"."""
    return int(ptx_type[1:])


def scalar_name(ptx_type: str) -> str:
    """Return the expression text of the NumPy type that holds ``ptx_type``, such as "np.uint32"."""
    return f"np.{DTYPES[ptx_type].name}" if ptx_type not in ("pred", "cc") else "np.bool_"
