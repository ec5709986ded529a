"""Translation of instructions with which the lanes of a warp meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.arithmetic import UnknownInstruction
from drv.simulator.ptx.program import Instruction, Pair

from .block_writer import BlockWriter

if TYPE_CHECKING:
    from drv.simulator.ptx.program import Instruction


class WarpInstructions(BlockWriter):
    """Instructions become calls of :class:`~drv.simulator.execution.lanes.Lanes`."""

    def do_shfl(self, instruction: Instruction) -> None:
        target, value, lane, clamp = instruction.operands[:4]
        mode = instruction.fields[2] if instruction.fields[1] == "sync" else instruction.fields[1]
        if mode not in ("up", "down", "bfly", "idx"):
            raise UnknownInstruction(instruction.opcode)
        first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
        result, valid = self.emit("None"), self.emit("None")
        del self.lines[-2:]
        arguments = ", ".join(self.use(each, "b32") for each in (value, lane, clamp))
        self.lines.append(f"{result}, {valid} = X.shuffle({mode!r}, {arguments})")
        if first is not None:
            self.define(first, "b32", result)
        if second is not None:
            self.define(second, "pred", valid)

    def do_vote(self, instruction: Instruction) -> None:
        target, predicate, mask = instruction.operands
        mode = instruction.fields[2]
        if mode not in ("all", "any", "uni", "ballot"):
            raise UnknownInstruction(instruction.opcode)
        call = f"X.vote({mode!r}, {self.use(predicate, 'pred')}, {self.use(mask, 'b32')})"
        self.define(target, "b32" if mode == "ballot" else "pred", call)

    def do_match(self, instruction: Instruction) -> None:
        target, value, mask = instruction.operands
        mode, ptx_type = instruction.fields[1], instruction.fields[-1]
        if mode not in ("any", "all"):
            raise UnknownInstruction(instruction.opcode)
        arguments = f"{self.use(value, ptx_type)}, {self.use(mask, 'b32')}"
        if mode == "any":
            self.define(target, "b32", f"X.match_any({arguments})")
            return
        first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
        result, same = self.emit("None"), self.emit("None")
        del self.lines[-2:]
        self.lines.append(f"{result}, {same} = X.match_all({arguments})")
        for each, each_type, expression in ((first, "b32", result), (second, "pred", same)):
            if each is not None:
                self.define(each, each_type, expression)

    def do_redux(self, instruction: Instruction) -> None:
        target, value, mask = instruction.operands
        operation, ptx_type = instruction.fields[2], instruction.fields[-1]
        if operation not in ("add", "min", "max", "and", "or", "xor") or len(instruction.fields) > 4:
            raise UnknownInstruction(instruction.opcode)
        self.define(
            target, ptx_type, f"X.reduce({operation!r}, {self.use(value, ptx_type)}, {self.use(mask, 'b32')})"
        )

    def do_elect(self, instruction: Instruction) -> None:
        target, mask = instruction.operands
        first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
        leader, elected = self.emit("None"), self.emit("None")
        del self.lines[-2:]
        self.lines.append(f"{leader}, {elected} = X.elect({self.use(mask, 'b32')})")
        for each, ptx_type, value in ((first, "b32", leader), (second, "pred", elected)):
            if each is not None:
                self.define(each, ptx_type, value)

    def do_activemask(self, instruction: Instruction) -> None:
        self.define(instruction.operands[0], "b32", "X.active_mask()")

    def do_bar(self, instruction: Instruction) -> None:
        self.lines.append("X.warp_barrier()")
