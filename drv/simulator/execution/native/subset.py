"""A small subset of Python, compiled to LLVM's assembler: functions of integers and of the arrays of one record.

The executor's scheduling runs between native blocks, so it is native too. It is written once, as Python that a reader and a
debugger can run, and compiled from its source:

- every value is a 64-bit signed integer, a truth value counts as 0 or 1;
- the first parameter is the record: ``s.steps`` is a field, ``s.where[lane]`` an item of an array whose address is in a field;
- ``if``, ``while``, ``for name in range(...)``, ``break``, ``continue``, ``return``, assignments and calls of functions of the
  subset; ``call(function, s, first, last)`` calls the address ``function``.

Division, exceptions, and everything else that is not in this list is refused when it is compiled.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

#: A 64-bit signed integer, where functions of the subset are read as Python.
Word: TypeAlias = Any
_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "ashr",
}
_COMPARISONS = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge"}
#: Element types of arrays: LLVM's type, and how an element becomes 64 bits.
ELEMENTS = {
    "i8": ("i8", "sext"),
    "u8": ("i8", "zext"),
    "i32": ("i32", "sext"),
    "u32": ("i32", "zext"),
    "i64": ("i64", ""),
}


@dataclass(slots=True, frozen=True)
class Record:
    """Fields of a record, each 8 bytes, in order; an array's has the element type, an integer's ``None``."""

    fields: Mapping[str, str | None]

    def offset(self, name: str) -> int:
        """Byte at which a field is."""
        return 8 * list(self.fields).index(name)


class NotInSubset(Exception):  # noqa: N818 - only a mistake in this project's own source raises it
    """Python that the subset does not have."""


def call(function: Word, s: Any, first: Word, last: Word) -> Word:
    """Call the function at an address, in compiled code; Python cannot."""
    raise NotImplementedError


def compile_functions(functions: Iterable[Callable[..., object]], record: Record, exported: set[str]) -> str:
    """LLVM assembler of functions that may call each other; only ``exported`` ones can be called from outside."""
    functions = list(functions)
    names = {function.__name__ for function in functions}
    texts = []
    for function in functions:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        constants = {name: value for name, value in function.__globals__.items() if isinstance(value, int)}
        writer = _FunctionWriter(record, names, constants)
        texts.append(writer.function(tree, external=function.__name__ in exported))
    return "\n".join(texts)


@dataclass(slots=True)
class _FunctionWriter:
    record: Record
    functions: set[str]
    constants: Mapping[str, int]
    lines: list[str] = field(default_factory=list)
    slots: dict[str, None] = field(default_factory=dict)
    count: int = 0
    loops: list[tuple[str, str]] = field(default_factory=list)
    ended: bool = False

    def function(self, tree: ast.FunctionDef, *, external: bool) -> str:
        parameters = [each.arg for each in tree.args.args]
        for statement in tree.body:
            self.statement(statement)
        if not self.ended:
            self.write("ret i64 0")
        head = ", ".join(["ptr noalias %s", *(f"i64 %arg.{name}" for name in parameters[1:])])
        linkage = "" if external else "internal "
        slots = [f"  %{name} = alloca i64" for name in {**self.slots, **dict.fromkeys(parameters[1:])}]
        stores = [f"  store i64 %arg.{name}, ptr %{name}" for name in parameters[1:]]
        return "\n".join(
            [f"define {linkage}i64 @{tree.name}({head}) {{", "entry:", *slots, *stores, *self.lines, "}"]
        )

    # Pieces of text

    def write(self, text: str) -> None:
        if not self.ended:
            self.lines.append(f"  {text}")

    def emit(self, text: str) -> str:
        self.count += 1
        self.write(f"%t{self.count} = {text}")
        return f"%t{self.count}"

    def label(self, name: str) -> None:
        if not self.ended:
            self.write(f"br label %{name}")
        self.ended = False
        self.lines.append(f"{name}:")

    def jump(self, name: str) -> None:
        self.write(f"br label %{name}")
        self.ended = True

    def fresh(self, lead: str) -> str:
        self.count += 1
        return f"{lead}{self.count}"

    # Statements

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(ast.Constant()):
                pass
            case ast.Expr(value):
                self.value(value)
            case ast.Assign([target], value):
                self.assign(target, self.value(value))
            case ast.AugAssign(target, operator, value):
                self.assign(target, self.binary(operator, self.value(target), self.value(value)))
            case ast.If(test, body, orelse):
                self.branch(test, body, orelse)
            case ast.While(test, body, []):
                self.loop(test, body)
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), arguments), body, []):
                self.count_loop(name, [self.value(each) for each in arguments], body)
            case ast.Break():
                self.jump(self.loops[-1][1])
            case ast.Continue():
                self.jump(self.loops[-1][0])
            case ast.Return(value):
                self.write(f"ret i64 {'0' if value is None else self.value(value)}")
                self.ended = True
            case ast.Pass():
                pass
            case _:
                raise NotInSubset(ast.unparse(node))

    def assign(self, target: ast.expr, value: str) -> None:
        match target:
            case ast.Name(name):
                self.slots[name] = None
                self.write(f"store i64 {value}, ptr %{name}")
            case ast.Attribute(ast.Name("s"), name):
                self.write(f"store i64 {value}, ptr {self.address(name)}")
            case ast.Subscript(ast.Attribute(ast.Name("s"), name), index):
                ir_type, _ = self.element(name)
                item = self.item(name, index)
                if ir_type != "i64":
                    value = self.emit(f"trunc i64 {value} to {ir_type}")
                self.write(f"store {ir_type} {value}, ptr {item}")
            case _:
                raise NotInSubset(ast.unparse(target))

    def branch(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        then, other, end = self.fresh("then"), self.fresh("else"), self.fresh("end")
        self.write(f"br i1 {self.condition(test)}, label %{then}, label %{other if orelse else end}")
        self.ended = True
        for name, statements in ((then, body), (other, orelse)):
            if statements:
                self.label(name)
                for each in statements:
                    self.statement(each)
                if not self.ended:
                    self.jump(end)
        self.label(end)

    def loop(self, test: ast.expr, body: list[ast.stmt]) -> None:
        head, inside, end = self.fresh("while"), self.fresh("body"), self.fresh("end")
        self.label(head)
        self.write(f"br i1 {self.condition(test)}, label %{inside}, label %{end}")
        self.ended = True
        self.label(inside)
        self.loops.append((head, end))
        for each in body:
            self.statement(each)
        self.loops.pop()
        if not self.ended:
            self.jump(head)
        self.label(end)

    def count_loop(self, name: str, bounds: list[str], body: list[ast.stmt]) -> None:
        first, stop = bounds if len(bounds) == 2 else ["0", *bounds]
        self.slots[name] = None
        head, inside, after, end = (self.fresh(each) for each in ("for", "body", "next", "end"))
        self.write(f"store i64 {first}, ptr %{name}")
        self.label(head)
        more = self.emit(f"icmp slt i64 {self.emit(f'load i64, ptr %{name}')}, {stop}")
        self.write(f"br i1 {more}, label %{inside}, label %{end}")
        self.ended = True
        self.label(inside)
        self.loops.append((after, end))
        for each in body:
            self.statement(each)
        self.loops.pop()
        self.label(after)
        following = self.emit(f"add i64 {self.emit(f'load i64, ptr %{name}')}, 1")
        self.write(f"store i64 {following}, ptr %{name}")
        self.jump(head)
        self.label(end)

    # Values

    def value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value) if isinstance(value, int):
                return str(int(value))
            case ast.Name(name) if name in self.constants and name not in self.slots:
                return str(int(self.constants[name]))
            case ast.Name(name):
                return self.emit(f"load i64, ptr %{name}")
            case ast.Attribute(ast.Name("s"), name):
                return self.emit(f"load i64, ptr {self.address(name)}")
            case ast.Subscript(ast.Attribute(ast.Name("s"), name), index):
                ir_type, extension = self.element(name)
                item = self.emit(f"load {ir_type}, ptr {self.item(name, index)}")
                return self.emit(f"{extension} {ir_type} {item} to i64") if extension else item
            case ast.BinOp(left, operator, right):
                return self.binary(operator, self.value(left), self.value(right))
            case ast.UnaryOp(ast.USub(), operand):
                return self.emit(f"sub i64 0, {self.value(operand)}")
            case ast.UnaryOp(ast.Invert(), operand):
                return self.emit(f"xor i64 {self.value(operand)}, -1")
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(ast.Not(), _):
                return self.emit(f"zext i1 {self.condition(node)} to i64")
            case ast.Call(ast.Name("call"), [function, ast.Name("s"), *arguments]):
                pointer = self.emit(f"inttoptr i64 {self.value(function)} to ptr")
                return self.emit(f"call i64 {pointer}({self.arguments(arguments)})")
            case ast.Call(ast.Name(name), [ast.Name("s"), *arguments]) if name in self.functions:
                return self.emit(f"call i64 @{name}({self.arguments(arguments)})")
            case _:
                raise NotInSubset(ast.unparse(node))

    def arguments(self, nodes: list[ast.expr]) -> str:
        return ", ".join(["ptr %s", *(f"i64 {self.value(each)}" for each in nodes)])

    def binary(self, operator: ast.operator, left: str, right: str) -> str:
        if type(operator) not in _OPERATORS:
            raise NotInSubset(ast.dump(operator))
        return self.emit(f"{_OPERATORS[type(operator)]} i64 {left}, {right}")

    def condition(self, node: ast.expr) -> str:
        """An ``i1``. Both sides of ``and`` and ``or`` are computed: they have no effects and are always possible."""
        match node:
            case ast.Compare(left, [operator], [right]) if type(operator) in _COMPARISONS:
                return self.emit(
                    f"icmp {_COMPARISONS[type(operator)]} i64 {self.value(left)}, {self.value(right)}"
                )
            case ast.BoolOp(operator, values):
                name = "and" if isinstance(operator, ast.And) else "or"
                result, *rest = [self.condition(each) for each in values]
                for each in rest:
                    result = self.emit(f"{name} i1 {result}, {each}")
                return result
            case ast.UnaryOp(ast.Not(), operand):
                return self.emit(f"xor i1 {self.condition(operand)}, true")
            case _:
                return self.emit(f"icmp ne i64 {self.value(node)}, 0")

    def address(self, name: str) -> str:
        return self.emit(f"getelementptr inbounds i8, ptr %s, i64 {self.record.offset(name)}")

    def element(self, name: str) -> tuple[str, str]:
        element_type = self.record.fields[name]
        if element_type is None:
            raise NotInSubset(f"s.{name} is no array")
        return ELEMENTS[element_type]

    def item(self, name: str, index: ast.expr) -> str:
        ir_type, _ = self.element(name)
        array = self.emit(f"load ptr, ptr {self.address(name)}")
        return self.emit(f"getelementptr inbounds {ir_type}, ptr {array}, i64 {self.value(index)}")
