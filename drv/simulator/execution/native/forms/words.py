"""Words that the native forms of arithmetic share: types, operators and numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from .expressions import Emitter, Value

#: Results of an instruction, from the parts of its opcode behind the first and its operands; raises :class:`NotNative`.
Form: TypeAlias = Callable[[Emitter, Sequence[str], Sequence[Value]], list[Value]]

BOOL, F16, F32, F64 = (np.dtype(each) for each in (np.bool_, np.float16, np.float32, np.float64))
U16, U32, I32, I64, U64 = (np.dtype(each) for each in (np.uint16, np.uint32, np.int32, np.int64, np.uint64))
LT, GT, EQ, NE = ast.Lt(), ast.Gt(), ast.Eq(), ast.NotEq()
ADD, SUB, MUL, DIV = ast.Add(), ast.Sub(), ast.Mult(), ast.Div()
AND, OR, XOR = ast.BitAnd(), ast.BitOr(), ast.BitXor()


def number(value: float) -> Value:
    """A constant that takes the type of what it meets."""
    return Value(repr(value), None)
