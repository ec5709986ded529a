"""NumPy expressions of the arithmetic tables in LLVM's assembler, for one lane.

An instruction whose meaning is an expression (``"{0} * {1} + {2}"``) has it once: here the same text is read with NumPy's
rules for types, and gives the same bits. Python's numbers take the type of what they meet; shifts by the width or more give
0, or the sign in every bit.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

BOOL, F16, F32, F64 = (np.dtype(each) for each in (np.bool_, np.float16, np.float32, np.float64))
U16, U32, I32, I64, U64 = (np.dtype(each) for each in (np.uint16, np.uint32, np.int32, np.int64, np.uint64))
LT, GT, EQ, NE = ast.Lt(), ast.Gt(), ast.Eq(), ast.NotEq()
ADD, SUB, MUL, DIV = ast.Add(), ast.Sub(), ast.Mult(), ast.Div()
AND, OR, XOR = ast.BitAnd(), ast.BitOr(), ast.BitXor()


class NotNative(Exception):  # noqa: N818 - it decides who runs an instruction, and never leaves the translation
    """Something that native code does not do: NumPy does it."""


class Value(NamedTuple):
    """A name or constant of LLVM's assembler, and its NumPy type; a Python number has none."""

    text: str
    dtype: np.dtype[Any] | None


def llvm_type(dtype: np.dtype[Any]) -> str:
    """LLVM's type for values of a NumPy type."""
    if dtype.kind == "b":
        return "i1"
    if dtype.kind == "f":
        return {2: "half", 4: "float", 8: "double"}[dtype.itemsize]
    return f"i{8 * dtype.itemsize}"


def constant(number: float, dtype: np.dtype[Any]) -> str:
    """A number of type ``dtype`` as LLVM writes it."""
    if dtype.kind == "b":
        return "true" if number else "false"
    if dtype.kind == "f":
        bits = int.from_bytes(np.array(number, dtype).tobytes(), "little")
        return f"bitcast (i{8 * dtype.itemsize} {bits} to {llvm_type(dtype)})"
    return str(int(number) & ((1 << 8 * dtype.itemsize) - 1))


class Emitter:
    """Instructions of LLVM, one after the other, and what they compute."""

    def __init__(self, prefix: str = "v") -> None:
        self.lines: list[str] = []
        self.count = 0
        self.prefix = prefix
        #: Declarations of functions that are called.
        self.declarations: dict[str, None] = {}

    def emit(self, text: str) -> str:
        """Name of the result of an instruction."""
        self.count += 1
        self.lines.append(f"%{self.prefix}{self.count} = {text}")
        return f"%{self.prefix}{self.count}"

    def intrinsic(self, name: str, result: str, *operands: tuple[str, str], extra: str = "") -> str:
        """Call an intrinsic function; operands are ``(type, value)``."""
        types = ", ".join(ir_type for ir_type, _ in operands)
        more = ", i1" if extra else ""
        self.declarations[f"declare {result} @{name}({types}{more})"] = None
        return self.emit(f"call {result} @{name}({', '.join(map(' '.join, operands))}{extra})")

    # Conversions

    def bits(self, value: Value, dtype: np.dtype[Any]) -> Value:
        """The same bits as another type of the same size."""
        assert value.dtype is not None
        old, new = llvm_type(value.dtype), llvm_type(dtype)
        return Value(value.text if old == new else self.emit(f"bitcast {old} {value.text} to {new}"), dtype)

    def converted(self, value: Value, dtype: np.dtype[Any]) -> Value:
        """``value.astype(dtype)``."""
        if value.dtype is None:
            return Value(constant(float(value.text) if dtype.kind == "f" else int(value.text), dtype), dtype)
        source = value.dtype
        old, new = llvm_type(source), llvm_type(dtype)
        if source == dtype or (old == new and source.kind != "f"):
            return Value(value.text, dtype)
        if dtype.kind == "b":
            if source.kind == "f":
                return Value(self.emit(f"fcmp une {old} {value.text}, {constant(0, source)}"), dtype)
            return Value(self.emit(f"icmp ne {old} {value.text}, 0"), dtype)
        if (source.itemsize, dtype.itemsize) == (8, 2) and source.kind == dtype.kind == "f":
            # No processor does it at once; rounded to odd on the way it is rounded once.
            return self.converted(self.odd_single(value), dtype)
        if source.kind == "f" and dtype.kind == "f":
            operation = "fpext" if dtype.itemsize > source.itemsize else "fptrunc"
        elif source.kind == "f":
            raise NotNative("a float as an integer: what is out of range is the machine's")
        elif dtype.kind == "f":
            operation = "sitofp" if source.kind == "i" else "uitofp"
        elif dtype.itemsize < source.itemsize and source.kind != "b":
            operation = "trunc"
        else:
            operation = "sext" if source.kind == "i" else "zext"
        return Value(self.emit(f"{operation} {old} {value.text} to {new}"), dtype)

    def odd_single(self, value: Value) -> Value:
        """A double as float32: of the two next to it, the one whose last bit is set."""
        single, double, bits = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32)
        nearest = self.converted(value, single)
        back = self.converted(nearest, double)
        pattern = self.bits(nearest, bits)
        inexact = self.expression("({0} < {1}) | ({0} > {1})", [back, value])
        even = self.expression("({0} & 1) == 0", [pattern])
        outwards = self.expression("np.abs({0}) < np.abs({1})", [back, value])
        moved = self.expression(
            "np.where({0} & {1}, np.where({2}, {3}, {4}), {5})",
            [inexact, even, outwards, Value("1", bits), Value("-1", bits), Value("0", bits)],
        )
        return self.bits(self.binary(ast.Add(), pattern, moved), single)

    def common(self, *values: Value) -> tuple[list[Value], np.dtype[Any]]:
        """Values as the type that NumPy computes with."""
        types = [value.dtype for value in values if value.dtype is not None]
        if not types:
            raise NotNative("an expression of constants")
        dtype = functools.reduce(np.promote_types, types)
        return [self.converted(value, dtype) for value in values], dtype

    # Operations

    def binary(self, operator: ast.operator, left: Value, right: Value) -> Value:
        """``left operator right``."""
        if isinstance(operator, ast.Pow) and left.dtype is None and right.dtype is None:
            return Value(repr(float(left.text) ** float(right.text)), None)
        if left.dtype is None and right.dtype is None:
            return Value(str(_PYTHON[type(operator)](int(left.text), int(right.text))), None)
        (left, right), dtype = self.common(left, right)
        ir_type = llvm_type(dtype)
        name = type(operator).__name__
        if dtype.kind == "f":
            if name not in _FLOAT:
                raise NotNative(name)
            return Value(self.emit(f"{_FLOAT[name]} {ir_type} {left.text}, {right.text}"), dtype)
        if name in ("LShift", "RShift"):
            return self.shift(name, left, right)
        if dtype.kind == "b" and name not in ("BitAnd", "BitOr", "BitXor"):
            raise NotNative(f"{name} of truth values")
        if name not in _INTEGER:
            raise NotNative(name)
        return Value(self.emit(f"{_INTEGER[name]} {ir_type} {left.text}, {right.text}"), dtype)

    def shift(self, name: str, left: Value, right: Value) -> Value:
        """A shift of integers of one type; by too much, all bits have gone."""
        dtype = left.dtype
        assert dtype is not None
        ir_type, width = llvm_type(dtype), 8 * dtype.itemsize
        signed = name == "RShift" and dtype.kind == "i"
        operation = "shl" if name == "LShift" else "ashr" if signed else "lshr"
        if right.text.isdecimal():
            # A constant amount.
            if int(right.text) < width:
                return Value(self.emit(f"{operation} {ir_type} {left.text}, {right.text}"), dtype)
            if not signed:
                return Value("0", dtype)
            return Value(self.emit(f"ashr {ir_type} {left.text}, {width - 1}"), dtype)
        fits = self.emit(f"icmp ult {ir_type} {right.text}, {width}")
        if signed:
            amount = self.emit(f"select i1 {fits}, {ir_type} {right.text}, {ir_type} {width - 1}")
            return Value(self.emit(f"ashr {ir_type} {left.text}, {amount}"), dtype)
        amount = self.emit(f"select i1 {fits}, {ir_type} {right.text}, {ir_type} 0")
        shifted = self.emit(f"{operation} {ir_type} {left.text}, {amount}")
        return Value(self.emit(f"select i1 {fits}, {ir_type} {shifted}, {ir_type} 0"), dtype)

    def compare(self, operator: ast.cmpop, left: Value, right: Value) -> Value:
        """``left operator right``, a truth value."""
        (left, right), dtype = self.common(left, right)
        name = type(operator).__name__
        if dtype.kind == "f":
            relation = "une" if name == "NotEq" else f"o{_RELATIONS[name]}"
            text = self.emit(f"fcmp {relation} {llvm_type(dtype)} {left.text}, {right.text}")
        else:
            sign = "" if name in ("Eq", "NotEq") else "s" if dtype.kind == "i" else "u"
            text = self.emit(f"icmp {sign}{_RELATIONS[name]} {llvm_type(dtype)} {left.text}, {right.text}")
        return Value(text, np.dtype(np.bool_))

    def select(self, condition: Value, first: Value, second: Value) -> Value:
        """``np.where(condition, first, second)``."""
        (first, second), dtype = self.common(first, second)
        ir_type = llvm_type(dtype)
        return Value(
            self.emit(f"select i1 {condition.text}, {ir_type} {first.text}, {ir_type} {second.text}"), dtype
        )

    def extremum(self, operator: ast.cmpop, left: Value, right: Value) -> Value:
        """``np.minimum`` and ``np.maximum`` of integers."""
        (left, right), dtype = self.common(left, right)
        if dtype.kind == "f":
            raise NotNative("np.minimum of floats")
        return self.select(self.compare(operator, left, right), left, right)

    def function(self, name: str, value: Value, dtype: np.dtype[Any] | None = None) -> Value:
        """An intrinsic function of one float."""
        dtype = dtype or value.dtype
        assert dtype is not None
        ir_type = llvm_type(dtype)
        suffix = {"half": "f16", "float": "f32", "double": "f64"}[ir_type]
        return Value(self.intrinsic(f"llvm.{name}.{suffix}", ir_type, (ir_type, value.text)), dtype)

    def expression(self, text: str, operands: Sequence[Value]) -> Value:
        """Value of a NumPy expression over ``{0}``, ``{1}``, ..."""
        return _read(self, _parsed(text, len(operands)), operands)


_FLOAT = {"Add": "fadd", "Sub": "fsub", "Mult": "fmul", "Div": "fdiv"}
_INTEGER = {"Add": "add", "Sub": "sub", "Mult": "mul", "BitAnd": "and", "BitOr": "or", "BitXor": "xor"}
_RELATIONS = {"Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge"}
_PYTHON: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: int.__add__,
    ast.Sub: int.__sub__,
    ast.Mult: int.__mul__,
    ast.LShift: int.__lshift__,
    ast.RShift: int.__rshift__,
    ast.BitAnd: int.__and__,
}
_ROUNDINGS = {"rint": "rint", "trunc": "trunc", "floor": "floor", "ceil": "ceil", "sqrt": "sqrt"}


@functools.cache
def _parsed(text: str, operands: int) -> ast.expr:
    names = [f"operand{index}" for index in range(operands)]
    return ast.parse(text.format(*names), mode="eval").body


def _read(e: Emitter, node: ast.expr, operands: Sequence[Value]) -> Value:
    def of(each: ast.expr) -> Value:
        return _read(e, each, operands)

    match node:
        case ast.Name(name):
            return operands[int(name.removeprefix("operand"))]
        case ast.Constant(value):
            return Value(repr(value), None)
        case ast.BinOp(left, operator, right):
            return e.binary(operator, of(left), of(right))
        case ast.Compare(left, [operator], [right]):
            return e.compare(operator, of(left), of(right))
        case ast.UnaryOp(operator, operand):
            return _unary(e, operator, of(operand))
        case ast.Call(ast.Attribute(ast.Name("np"), name), arguments):
            return _call(e, name, [of(each) for each in arguments])
        case ast.Call(ast.Attribute(value, "astype"), [dtype]):
            return e.converted(of(value), _dtype(dtype))
        case ast.Call(ast.Attribute(value, "view"), [dtype]):
            return e.bits(of(value), _dtype(dtype))
        case _:
            raise NotNative(ast.unparse(node))


def _dtype(node: ast.expr) -> np.dtype[Any]:
    assert isinstance(node, ast.Attribute)
    dtype: np.dtype[Any] = np.dtype(node.attr.rstrip("_"))
    return dtype


def _unary(e: Emitter, operator: ast.unaryop, value: Value) -> Value:
    dtype = value.dtype
    if isinstance(operator, ast.USub):
        if dtype is None:
            return Value(
                value.text.removeprefix("-") if value.text.startswith("-") else f"-{value.text}", None
            )
        if dtype.kind == "f":
            return Value(e.emit(f"fneg {llvm_type(dtype)} {value.text}"), dtype)
        return Value(e.emit(f"sub {llvm_type(dtype)} 0, {value.text}"), dtype)
    if isinstance(operator, ast.Invert) and dtype is not None:
        ones = "true" if dtype.kind == "b" else "-1"
        return Value(e.emit(f"xor {llvm_type(dtype)} {value.text}, {ones}"), dtype)
    raise NotNative(type(operator).__name__)


def _call(e: Emitter, name: str, values: list[Value]) -> Value:
    first = values[0]
    dtype = first.dtype
    match name:
        case "where":
            return e.select(*values)
        case "minimum":
            return e.extremum(ast.Lt(), *values)
        case "maximum":
            return e.extremum(ast.Gt(), *values)
        case "clip":
            return e.extremum(ast.Lt(), e.extremum(ast.Gt(), first, values[1]), values[2])
        case "uint32" | "uint64" | "float32":
            return e.converted(first, np.dtype(name))
    assert dtype is not None
    ir_type = llvm_type(dtype)
    match name:
        case "abs" if dtype.kind == "f":
            return e.function("fabs", first)
        case "abs" if dtype.kind == "i":
            return Value(
                e.intrinsic(f"llvm.abs.{ir_type}", ir_type, (ir_type, first.text), extra=", i1 false"), dtype
            )
        case "isfinite":
            return e.compare(ast.Lt(), e.function("fabs", first), Value("inf", None))
        case "isinf":
            return e.compare(ast.Eq(), e.function("fabs", first), Value("inf", None))
        case "copysign":
            suffix = {2: "f16", 4: "f32", 8: "f64"}[dtype.itemsize]
            return Value(
                e.intrinsic(
                    f"llvm.copysign.{suffix}", ir_type, (ir_type, first.text), (ir_type, values[1].text)
                ),
                dtype,
            )
        case "bitwise_count":
            return Value(e.intrinsic(f"llvm.ctpop.{ir_type}", ir_type, (ir_type, first.text)), dtype)
        case _ if name in _ROUNDINGS and dtype.kind == "f":
            return e.function(_ROUNDINGS[name], first)
        case _:
            raise NotNative(f"np.{name}")


def number(value: float) -> Value:
    """A constant that takes the type of what it meets."""
    return Value(repr(value), None)


#: Results of an instruction, from the qualifiers of its opcode and its operands; raises :class:`NotNative`.
Form: TypeAlias = Callable[[Emitter, Sequence[str], Sequence[Value]], list[Value]]
