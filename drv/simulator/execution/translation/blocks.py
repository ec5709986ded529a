"""Basic blocks to Python source over NumPy arrays.

A block becomes a function ``block(X, R)``, its name followed by its number. It takes the lanes that run it, and their
registers by number: a register file, or no more than the block's inputs. It writes the registers that are live after it,
and returns what decides where the lanes go next. Values are arrays of shape ``(lanes,)``, or ``(1,)`` where all lanes have
the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic import UnknownInstruction, resolve
from drv.simulator.memory.address_space import LOCAL_WINDOW, SHARED_WINDOW
from drv.simulator.ptx.control_flow import CARRY, WARPGROUP, End, member_mask, operand_registers
from drv.simulator.ptx.program import (
    TYPE_BYTES,
    Group,
    Immediate,
    Instruction,
    Pair,
    Register,
    Symbol,
    Vector,
)

from .asynchronous_instructions import AsynchronousInstructions
from .cluster_instructions import ClusterInstructions
from .code import Call, Code, Names, Site, Translation
from .matrix_instructions import MatrixInstructions
from .memory_instructions import MemoryInstructions
from .texture_instructions import TextureInstructions
from .warp_instructions import WarpInstructions
from .warpgroup_instructions import WarpgroupInstructions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from drv.simulator.ptx.control_flow import Block
    from drv.simulator.ptx.program import Operand

    from .plan import FunctionPlan

_IGNORED = {
    "prefetch",
    "prefetchu",
    "pmevent",
    "griddepcontrol",
    "discard",
    "applypriority",
    "setmaxnreg",
    "nanosleep",
}
#: What comes of an instruction that does not exist, or whose operands are not what its opcode needs.
NOT_UNDERSTOOD = (UnknownInstruction, LookupError, TypeError, ValueError, AttributeError)
#: Line of a block's source at which its instructions begin, below the head of the function and the line of its inputs.
_FIRST_LINE = 3


def translate(plan: FunctionPlan, blocks: Sequence[Block]) -> Translation:
    """Translate blocks of a function."""
    names = Names()
    codes: list[Code | Exception] = []
    lines: list[str] = []
    done = () if plan.invariants is None else plan.invariants.instructions
    for index, block in enumerate(blocks):
        translator = BlockTranslator(plan, block, names)
        try:
            for instruction in block.instructions:
                if instruction not in done:
                    translator.instruction(instruction)
            code, source = translator.code(index, len(lines))
        except Exception as error:
            # If it is ever reached, the launch raises it.
            codes.append(error)
        else:
            codes.append(code)
            lines += source
    return Translation.compiled(plan.function.name, codes, lines, names)


class BlockTranslator(
    MatrixInstructions,
    WarpgroupInstructions,
    AsynchronousInstructions,
    MemoryInstructions,
    TextureInstructions,
    WarpInstructions,
    ClusterInstructions,
):
    """Translates the instructions of a block one after the other, and makes its code of them."""

    # Results of the translation

    def code(self, index: int, line: int) -> tuple[Code, list[str]]:
        """What has been translated, with the end of the block, and its function, whose name ends with ``index``.

        It begins behind ``line`` lines of a module.
        """
        lines = self.first_lines
        last = self.block.last
        if last is not None:
            lines.append((len(self.lines), last))
        decision, call, reduction = self.ending()
        after = dict.fromkeys([*self.block.live_out, *self.handed_over()])
        outputs = [name for name in after if name in self.values and self.is_written(name)]
        numbers = self.plan.numbers
        # All of them are read before one is written.
        results = [f"R[{numbers[name]}] = {self.canonical(name)}" for name in outputs]
        inputs = [f"{value} = R[{numbers[name]}]" for name, value in self.inputs.items()]
        source = [
            f"def block{index}(X, R):",
            f" {'; '.join(inputs) or 'pass'}",
            *(f" {line}" for line in self.lines),
            f" {'; '.join([*results, f'return {decision}'])}",
        ]
        code = Code(
            self.block,
            tuple(numbers[name] for name in self.inputs),
            tuple(numbers[name] for name in outputs),
        )
        code.lines = tuple((at + line + _FIRST_LINE, instruction) for at, instruction in lines)
        code.call, code.reduction = call, reduction
        if last is not None:
            code.site = Site(last, self.plan.function.name)
            if self.block.end is End.PHASE and isinstance(last.operands[0], Register):
                code.result = numbers[last.operands[0].name]
                code.acquires = self.acquires
            code.arrives = self.block.end is End.BARRIER and "arrive" in last.fields
            code.of_cluster = self.block.end is End.BARRIER and last.fields[:2] == ["barrier", "cluster"]
        if self.block.converges:
            first = self.block.instructions[0]
            members = member_mask(first)
            code.mask, code.of_warpgroup = self.mask_source(members), members == WARPGROUP
            if self.block.last is None:
                code.site = Site(first, self.plan.function.name)
        return code, source

    def ending(self) -> tuple[str, Call | None, tuple[int, str]]:
        """What the end of the block decides by, the call that it makes, and a reducing barrier's register."""
        last, end = self.block.last, self.block.end
        call, reduction = None, (0, "")
        mark = len(self.lines)
        try:
            decision = self.decision()
            if last is not None and end is End.CALL:
                call = self.call(last)
            elif last is not None and end is End.BARRIER and "red" in last.fields:
                reduction = self.reduction(last)
        except NOT_UNDERSTOOD:
            if last is None:
                raise
            self.refuse(last, mark)
            decision = "None"
        return decision, call, reduction

    def reduction(self, barrier: Instruction) -> tuple[int, str]:
        """Register and operation of a barrier that reduces."""
        result = barrier.operands[0]
        operation = next((each for each in ("popc", "and", "or") if each in barrier.fields), None)
        if operation is None or not isinstance(result, Register):
            raise UnknownInstruction(barrier.opcode)
        return self.plan.numbers[result.name], operation

    def handed_over(self) -> Iterable[str]:
        """Parameters that the end of the block passes on: arguments of a call, results of a function."""
        if self.block.end is End.CALL and self.block.last is not None:
            return (name for operand in self.block.last.operands for name in operand_registers(operand))
        return (each.name for each in self.plan.function.results)

    def is_written(self, name: str) -> bool:
        return next(iter(self.values[name].values())) != self.inputs.get(name)

    def mask_source(self, operand: Operand) -> Any:
        if isinstance(operand, Register):
            return self.plan.numbers.get(operand.name)
        if not isinstance(operand, Immediate):
            return None
        return np.array([operand.value & 0xFFFFFFFF], np.uint32)

    def call(self, instruction: Instruction) -> Call:
        groups = [operand.items for operand in instruction.operands if isinstance(operand, Group)]
        results = groups.pop(0) if isinstance(instruction.operands[0], Group) else ()
        arguments = groups[0] if groups else ()
        target = _callee(instruction)
        number = self.plan.numbers
        indirect = isinstance(target, Register)
        name = target.name if isinstance(target, Symbol) else ""
        return Call(
            name,
            indirect,
            tuple(number[each.name] for each in arguments if isinstance(each, Symbol)),
            tuple(number[each.name] for each in results if isinstance(each, Symbol)),
        )

    def decision(self) -> str:
        """What the driver of the block needs to know: a condition, an index, a barrier, an address."""
        last, end = self.block.last, self.block.end
        if last is None or end in (End.FALL, End.JUMP, End.RETURN, End.EXIT):
            return "None"
        if end is End.BRANCH:
            assert last.guard is not None
            register, negated = last.guard
            value = self.use(register, "pred")
            return self.emit(f"~{value}") if negated else value
        if end is End.SWITCH:
            return self.use(last.operands[0], "u32")
        if end is End.CALL:
            target = _callee(last)
            return self.use(target, "u64") if isinstance(target, Register) else "None"
        if end is End.PHASE:
            decision, self.acquires = self.awaited_phase(last)
            return decision
        operands = list(last.operands)
        if last.fields[:2] == ["barrier", "cluster"]:
            if last.fields[2] != "wait" or set(last.fields[3:]) - {"acquire", "aligned"}:
                raise UnknownInstruction(last.opcode)
            return "None"
        if len(operands) < (3 if "red" in last.fields else 1):
            raise UnknownInstruction(last.opcode)
        if "red" in last.fields:
            operands.pop(0)
            predicate = self.use(operands.pop(), "pred")
        else:
            predicate = "None"
        values = [self.use(each, "u32") for each in operands] + ["None", "None"]
        return f"({values[0]}, {values[1]}, {predicate})"

    # Instructions

    def instruction(self, instruction: Instruction) -> None:
        """Translate an instruction, or let the launch stop where it reaches it."""
        mark = len(self.lines)
        self.first_lines.append((mark, instruction))
        try:
            if self.products is not None:
                self.touches(instruction)
            self.translate(instruction)
        except NOT_UNDERSTOOD as error:
            self.refuse(instruction, mark, getattr(error, "known", ""))

    def translate(self, instruction: Instruction) -> None:
        """Write what an instruction does; raises one of ``NOT_UNDERSTOOD`` where nobody knows."""
        method = getattr(self, f"do_{instruction.base}", None)
        if method is not None:
            method(instruction)
        elif instruction.base not in _IGNORED:
            self.arithmetic(instruction)

    def refuse(self, instruction: Instruction, mark: int, known: str = "") -> None:
        """Stop the launch when it reaches ``instruction``, and not before; its lines begin at ``mark``."""
        del self.lines[mark:]
        self.lines.append(f"X.unknown({self.site(instruction)}, {known!r})")
        self.undefined(instruction)

    def arithmetic(self, instruction: Instruction) -> None:
        results = instruction.operands[0]
        targets = [results.first, results.second] if isinstance(results, Pair) else [results]
        sources = instruction.operands[1:]
        operation = resolve(instruction.opcode, len(sources), len(targets))
        arguments = [
            self.use(source, ptx_type) for source, ptx_type in zip(sources, operation.operands, strict=False)
        ]
        if "cc" in operation.operands:
            arguments.append(self.register(CARRY, "pred"))
        if operation.expression is not None:
            expression = operation.expression.format(*arguments)
        else:
            function = self.names.operation(instruction.opcode, len(sources), len(targets))
            expression = f"{function}({', '.join(arguments)})"
        if "cc" in operation.results:
            targets.append(Register(CARRY))
        if len(operation.results) == 1:
            self.define(targets[0], operation.results[0], expression)
            return
        values = [self.emit("None") for _ in operation.results]
        del self.lines[-len(values) :]
        self.lines.append(f"{', '.join(values)} = {expression}")
        for target, ptx_type, value in zip(targets, operation.results, values, strict=True):
            if target is not None:
                self.define(target, ptx_type, value)

    def do_mov(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        ptx_type = instruction.fields[-1]
        if isinstance(target, Vector):
            self.unpacked(target, source, ptx_type)
        elif (
            isinstance(source, Register) and isinstance(target, Register) and source.name in self.plan.numbers
        ):
            if self.plan.dtypes[source.name].itemsize == self.plan.dtypes[target.name].itemsize:
                self.values[target.name] = dict(self.known(source.name))
            else:
                self.define(target, ptx_type, self.use(source, ptx_type))
        else:
            self.define(target, ptx_type, self.use(source, ptx_type))

    def unpacked(self, target: Vector, source: Operand, ptx_type: str) -> None:
        if ptx_type == "b128":
            values = self.emit(
                f"X.halves({self.register(source.name, ptx_type)})" if isinstance(source, Register) else ""
            )
            for position, item in enumerate(target.items):
                self.define(item, "b64", f"{values}[{position}]")
            return
        size = TYPE_BYTES[ptx_type]
        each = size // len(target.items)
        if each * len(target.items) != size:
            raise UnknownInstruction(str(target))
        whole = self.use(source, f"u{8 * size}")
        for position, item in enumerate(target.items):
            if item is not None:
                shifted = (
                    whole
                    if not position
                    else f"({whole} >> {self.constant(f'u{8 * size}', 8 * each * position)})"
                )
                self.define(item, f"u{8 * each}", f"{shifted}.astype(np.uint{8 * each})")

    def do_cvta(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        fields = instruction.fields
        value = self.use(source, "u64")
        window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(fields[-2].partition("::")[0])
        if window is not None:
            value = f"{value} {'-' if 'to' in fields else '+'} {self.constant('u64', window)}"
        self.define(target, "u64", value)

    def do_isspacep(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        space, _, window = instruction.fields[1].partition("::")
        if space not in ("global", "shared", "local", "param", "const"):
            raise UnknownInstruction(instruction.opcode)
        # A cluster is all that has shared memory in reach.
        space = "own shared" if space == "shared" and window != "cluster" else space
        self.define(target, "pred", f"X.is_space({space!r}, {self.use(source, 'u64')})")

    def do_trap(self, instruction: Instruction) -> None:
        self.lines.append(f"X.trap({self.site(instruction)})")

    do_brkpt = do_trap


def _callee(instruction: Instruction) -> Operand:
    """What a call names: a function, or a register that holds the address of one."""
    callee = next((each for each in instruction.operands if not isinstance(each, Group)), None)
    if not isinstance(callee, (Symbol, Register)):
        raise UnknownInstruction(instruction.opcode)
    return callee
