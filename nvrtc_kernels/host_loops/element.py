"""A device function of PTX as a function of LLVM's: values in, values out, and no memory in between but constants.

Registers are variables on the stack, which LLVM turns into values; branches stay branches, which its vectorizer turns
into selections. Tables that the module holds are constants. A function that reads or writes other memory, calls another, or
goes back in its text is refused.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic import DTYPES, UnknownInstruction, resolve
from drv.simulator.execution.native.forms import NotNative, OperandEmitter, Value, llvm_type, native_form
from drv.simulator.ptx.program import Address, Immediate, Negated, Pair, Register, Symbol, Vector

from .approximations import APPROXIMATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from drv.simulator.ptx import Function, Instruction
    from drv.simulator.ptx.program import Operand, Variable

_END = "end"


class ElementWriter(OperandEmitter):
    """The text of one function.

    Parameters
    ----------
    function : Function
        A device function, as it was parsed.
    variables : mapping of str to Variable
        Those of its module. The ones that it reads through the read-only cache are constants.
    """

    def __init__(self, function: Function, variables: Mapping[str, Variable] = MappingProxyType({})) -> None:
        super().__init__("v")
        self._function = function
        self._variables = variables
        #: Text of the constants that the function reads, by the variable's name.
        self.constants: dict[str, str] = {}
        self._types = {name: DTYPES[ptx_type] for name, ptx_type in function.register_types.items()}
        self._blocks = 0

    def text(
        self, name: str, parameters: Sequence[str], signed: Sequence[bool], results: Sequence[tuple[int, str]]
    ) -> str:
        """The definition of ``name``: it takes values of LLVM's types ``parameters``, and returns a structure.

        ``signed`` says which of them are integers with a sign. ``results`` are byte and type of each element of the structure
        in what the device function returns.

        Raises
        ------
        NotNative
            If there is something in the function that has no form here.
        """
        function = self._function
        self.body()
        head = []
        for number, (formal, ir_type) in enumerate(zip(function.formals, parameters, strict=True)):
            head.append(f'%"p.{formal.name}" = alloca [{formal.size} x i8], align 16')
            value, bits = f"{ir_type} %a{number}", 8 * formal.size
            if ir_type[0] == "i" and int(ir_type[1:]) < bits:
                # Small integers are passed as larger ones.
                head.append(f"%w{number} = {'sext' if signed[number] else 'zext'} {value} to i{bits}")
                value = f"i{bits} %w{number}"
            head.append(f'store {value}, ptr %"p.{formal.name}"')
        (result,) = function.results
        head.append(f'%"p.{result.name}" = alloca [{result.size} x i8], align 16')
        head += [f"{_slot(each)} = alloca {llvm_type(dtype)}" for each, dtype in self._types.items()]
        tail = []
        structure = "undef"
        whole = "{ " + ", ".join(ir_type for _, ir_type in results) + " }"
        for number, (byte, ir_type) in enumerate(results):
            tail += [
                f'%at{number} = getelementptr inbounds i8, ptr %"p.{result.name}", i64 {byte}',
                f"%out{number} = load {ir_type}, ptr %at{number}, align 1",
                f"%all{number} = insertvalue {whole} {structure}, {ir_type} %out{number}, {number}",
            ]
            structure = f"%all{number}"
        arguments = ", ".join(f"{ir_type} %a{number}" for number, ir_type in enumerate(parameters))
        lines = [*head, *self.lines, *tail, f"ret {whole} {structure}"]
        return "\n".join(
            [f"define internal {whole} @{name}({arguments}) alwaysinline {{", "entry:", *lines, "}", ""]
        )

    # Control

    def body(self) -> None:
        """Write all instructions."""
        function = self._function
        labels: dict[int, list[str]] = {}
        for label, position in function.labels.items():
            labels.setdefault(position, []).append(label)
        open_block = True
        for position, instruction in enumerate(function.instructions):
            for label in labels.get(position, ()):
                if open_block:
                    self.lines.append(f'br label %"l.{label}"')
                self.lines.append(f'"l.{label}":')
                open_block = True
            if not open_block:
                # Nothing leads here.
                self._label(self._fresh())
                open_block = True
            if instruction.base in ("bra", "ret"):
                open_block = self._jump(instruction, position)
            elif instruction.guard is not None:
                self._guarded(instruction)
            else:
                self._instruction(instruction)
        if open_block:
            self.lines.append(f'br label %"{_END}"')
        for label in labels.get(len(function.instructions), ()):
            self.lines += [f'"l.{label}":', f'br label %"{_END}"']
        self._label(_END)

    def _fresh(self) -> str:
        self._blocks += 1
        return f"b.{self._blocks}"

    def _label(self, name: str) -> None:
        self.lines.append(f'"{name}":')

    def _jump(self, instruction: Instruction, position: int) -> bool:
        """Write a branch; whether what follows is reached from it."""
        target = _END
        if instruction.base == "bra":
            operand = instruction.operands[0]
            if not isinstance(operand, Symbol) or self._function.labels[operand.name] <= position:
                raise NotNative("a loop")
            target = f"l.{operand.name}"
        if instruction.guard is None:
            self.lines.append(f'br label %"{target}"')
            return False
        after = self._fresh()
        self._branch(instruction.guard, target, after)
        self._label(after)
        return True

    def _branch(self, guard: tuple[Register, bool], target: str, other: str) -> None:
        register, negated = guard
        condition = self.use(register, "pred").text
        taken, left = (other, target) if negated else (target, other)
        self.lines.append(f'br i1 {condition}, label %"{taken}", label %"{left}"')

    def _guarded(self, instruction: Instruction) -> None:
        assert instruction.guard is not None
        inside, after = self._fresh(), self._fresh()
        self._branch(instruction.guard, inside, after)
        self._label(inside)
        self._instruction(instruction)
        self.lines.append(f'br label %"{after}"')
        self._label(after)

    # Instructions

    def _instruction(self, instruction: Instruction) -> None:
        try:
            if instruction.base == "mov":
                self._move(instruction)
            elif instruction.fields[:3] == ["ld", "global", "nc"] and self.constants:
                self._constant(instruction)
            elif instruction.base in ("ld", "st"):
                self._parameter(instruction)
            else:
                self._arithmetic(instruction)
        except (UnknownInstruction, LookupError, ValueError, TypeError) as error:
            raise NotNative(f"{instruction.text}: {error}") from error

    def _arithmetic(self, instruction: Instruction) -> None:
        results, *sources = instruction.operands
        form = APPROXIMATIONS.get(instruction.opcode)
        if form is not None:
            types, result_type, function = form
            values = [function(self, *map(self.use, sources, types))]
            result_types: Sequence[str] = (result_type,)
            targets = [results]
        else:
            targets = [results.first, results.second] if isinstance(results, Pair) else [results]
            operation = resolve(instruction.opcode, len(sources), len(targets))
            if "cc" in operation.operands or "cc" in operation.results:
                raise NotNative("the carry flag")
            operands = [self.use(each, t) for each, t in zip(sources, operation.operands, strict=True)]
            if operation.expression is not None:
                values = [self.expression(operation.expression, operands)]
            else:
                values = native_form(self, instruction.opcode, operands)
            result_types = operation.results
        for target, ptx_type, value in zip(targets, result_types, values, strict=False):
            self.define(target, self.bits(value, DTYPES[ptx_type]))

    def _move(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        ptx_type = instruction.fields[-1]
        if not isinstance(target, Vector):
            self.define(target, self.use(source, ptx_type))
            return
        size = 8 * DTYPES[ptx_type].itemsize
        bits = size // len(target.items)
        whole = self.use(source, f"u{size}")
        for position, item in enumerate(target.items):
            if item is not None:
                shifted = self.shift("RShift", whole, Value(str(bits * position), whole.dtype))
                self.define(item, self.converted(shifted, DTYPES[f"u{bits}"]))

    def _parameter(self, instruction: Instruction) -> None:
        """Read an argument, or write a result."""
        fields = instruction.fields
        loads = instruction.base == "ld"
        value, address = instruction.operands if loads else instruction.operands[::-1]
        if fields[1] != "param" or not isinstance(address, Address) or not isinstance(address.base, Symbol):
            raise NotNative(instruction.opcode)
        dtype = DTYPES[fields[-1]]
        ir_type = llvm_type(dtype)
        for index, item in enumerate(value.items if isinstance(value, Vector) else (value,)):
            byte = address.offset + index * dtype.itemsize
            pointer = self.emit(f'getelementptr inbounds i8, ptr %"p.{address.base.name}", i64 {byte}')
            if loads:
                self.define(item, Value(self.emit(f"load {ir_type}, ptr {pointer}, align 1"), dtype))
            else:
                text = self.use(item, fields[-1]).text
                self.lines.append(f"store {ir_type} {text}, ptr {pointer}, align 1")

    def _address(self, variable: Variable, dtype: np.dtype[Any]) -> Value:
        """The address of a variable of the module, which becomes a constant."""
        name = f'@"c.{variable.name}"'
        if variable.relocations or variable.external:
            raise NotNative(variable.name)
        text = "".join(f"\\{byte:02X}" for byte in variable.initial.ljust(variable.size, b"\0"))
        array = f"[{variable.size} x i8]"
        self.constants[name] = f'{name} = private constant {array} c"{text}", align {variable.align}'
        return Value(f"ptrtoint (ptr {name} to i64)", dtype)

    def _constant(self, instruction: Instruction) -> None:
        """Read a constant: there is nothing else whose address the function has."""
        value, address = instruction.operands
        if not isinstance(address, Address) or not isinstance(address.base, Register):
            raise NotNative(instruction.opcode)
        dtype = DTYPES[instruction.fields[-1]]
        base = self.use(address.base, "u64").text
        for index, item in enumerate(value.items if isinstance(value, Vector) else (value,)):
            at = self.emit(f"add i64 {base}, {address.offset + index * dtype.itemsize}")
            pointer = self.emit(f"inttoptr i64 {at} to ptr")
            # As all accesses of the loop: in parallel.
            load = f"load {llvm_type(dtype)}, ptr {pointer}, align {dtype.itemsize}, !llvm.access.group !0"
            self.define(item, Value(self.emit(load), dtype))

    # Operands

    def use(self, operand: Operand, ptx_type: str) -> Value:
        """An operand as PTX type ``ptx_type``."""
        dtype = DTYPES[ptx_type]
        if isinstance(operand, Immediate):
            return self.immediate(operand, ptx_type)
        if isinstance(operand, Negated):
            return Value(self.emit(f"xor i1 {self.use(operand.register, ptx_type).text}, true"), dtype)
        if isinstance(operand, Register) and operand.name in self._types:
            own = self._types[operand.name]
            loaded = Value(self.emit(f"load {llvm_type(own)}, ptr {_slot(operand.name)}"), own)
            return self.resized(loaded, dtype)
        if isinstance(operand, Vector):
            return self.packed(operand, dtype)
        if isinstance(operand, Symbol) and operand.name in self._variables:
            return self._address(self._variables[operand.name], dtype)
        raise NotNative(str(operand))

    def define(self, operand: Operand, value: Value) -> None:
        """Let a register have a value; one of fewer bits is extended as its type says."""
        if operand is None:
            return
        if not isinstance(operand, Register) or value.dtype is None:
            raise NotNative(f"result {operand}")
        own, dtype = self._types[operand.name], value.dtype
        if dtype.itemsize < own.itemsize and dtype.kind != "b":
            sign = "i" if dtype.kind == "i" else "u"
            value = self.bits(value, np.dtype(f"{sign}{dtype.itemsize}"))
            value = self.converted(value, np.dtype(f"{sign}{own.itemsize}"))
        self.lines.append(
            f"store {llvm_type(own)} {self.resized(value, own).text}, ptr {_slot(operand.name)}"
        )


def _slot(register: str) -> str:
    return f'%"r.{register}"'
