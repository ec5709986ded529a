"""Translation of ``wgmma`` instructions, and of what other instructions do to registers of products under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.arithmetic import UnknownInstruction
from drv.simulator.arithmetic.matrices.warpgroups import warpgroup_form
from drv.simulator.ptx.control_flow import read, written
from drv.simulator.ptx.products import MULTIPLY
from drv.simulator.ptx.program import Register, Vector

from .block_writer import BlockWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drv.simulator.ptx.program import Instruction, Operand


class WarpgroupInstructions(BlockWriter):
    """Instructions become calls of :class:`~drv.simulator.execution.asynchronous.products.ProductAccess`."""

    def do_wgmma(self, instruction: Instruction) -> None:
        action = instruction.fields[1]
        if action == "mma_async":
            self._multiply(instruction)
        elif action == "commit_group":
            self.lines.append("X.commit_products()")
        elif action == "wait_group":
            self._wait(instruction)
        elif action != "fence":
            raise UnknownInstruction(instruction.opcode)

    def _names(self, operand: Operand) -> list[str]:
        if not isinstance(operand, Vector) or not all(isinstance(each, Register) for each in operand.items):
            raise UnknownInstruction(str(operand))
        return [each.name for each in operand.items if isinstance(each, Register)]

    def _numbers(self, names: Iterable[str]) -> str:
        return f"({''.join(f'{self.plan.numbers[name]}, ' for name in names)})"

    def _values(self, names: Iterable[str]) -> str:
        """Values of registers, each as it is declared."""
        return f"({''.join(f'{self.canonical_of(name)}, ' for name in names)})"

    def canonical_of(self, name: str) -> str:
        """The value of a register as it is declared, also where the block has not touched it yet."""
        self.known(name)
        return self.canonical(name)

    def _multiply(self, instruction: Instruction) -> None:
        form = warpgroup_form(instruction.opcode)
        operands = list(instruction.operands)
        names = self._names(operands.pop(0))
        per = form.product.n // 4 if form.product.d == "f16" else form.product.n // 2
        if len(names) != per:
            raise UnknownInstruction(
                f"{instruction.opcode} with {len(names)} registers of the result, not {per}"
            )
        a, b = operands.pop(0), operands.pop(0)
        scale = self.use(operands.pop(0), "pred")
        if isinstance(a, Vector):
            registers = self._names(a)
            if len(registers) != 4:
                raise UnknownInstruction(
                    f"{instruction.opcode} with {len(registers)} registers of the first factor"
                )
            values = "".join(f"{self.register(name, 'b32')}, " for name in registers)
            left = f"({self._numbers(registers)}, ({values}))"
        else:
            left = self.use(a, "b64")
        negative = [False, False]
        if form.scales:
            for index in range(2):
                factor = self.number_of(operands.pop(0))
                if factor not in (1, -1):
                    raise UnknownInstruction(f"{instruction.opcode} with a factor scaled by {factor}")
                negative[index] = factor == -1
        transposed = [False, False]
        if form.transposes:
            for index in range(1 if isinstance(a, Vector) else 0, 2):
                transposed[index] = bool(self.number_of(operands.pop(0)))
        if operands:
            raise UnknownInstruction(f"{instruction.opcode} with {len(operands)} operands too many")
        targets = f"({self.plan.function.name!r}, {self._numbers(names)})"
        call = (
            f"X.multiply_async({self.site(instruction)}, {instruction.opcode!r}, {targets}, {self._values(names)}, "
            f"{left}, {self.use(b, 'b64')}, {scale}, {tuple(negative)}, {tuple(transposed)})"
        )
        self._define(names, call)

    def _wait(self, instruction: Instruction) -> None:
        *results, count = instruction.operands
        names = self._names(results[0]) if results else []
        call = (
            f"X.wait_for_products({self.number_of(count)}, {self.plan.function.name!r}, {self._numbers(names)}, "
            f"{self._values(names)})"
        )
        if names:
            self._define(names, call)
        else:
            self.lines.append(call)

    def _define(self, names: list[str], call: str) -> None:
        """Registers take the arrays that ``call`` gives, in their declared types or as their bits."""
        values = [self.emit("None") for _ in names]
        del self.lines[-len(values) :]
        self.lines.append(f"{', '.join(values)}, = {call}")
        for name, value in zip(names, values, strict=True):
            dtype = self.plan.dtypes[name]
            self.values[name] = {dtype.name: self.emit(f"{value}.view(np.{dtype.name})")}

    # Registers of products under way

    def touches(self, instruction: Instruction) -> None:
        """What comes before an instruction, in a function with products: notes of registers that it should not touch."""
        state = self.products
        if state is None:
            return
        concerned = state.registers.concerned
        reads, writes = read(instruction) & concerned, written(instruction) & concerned
        if not reads and not writes and instruction.base != "wgmma":
            return
        hazards = state.step(instruction, reads, writes)
        function = self.plan.function.name
        if instruction.opcode.startswith(MULTIPLY) and (hazards.unfenced or hazards.never_fenced):
            writer = "None" if hazards.unfenced is None else self.site(hazards.unfenced)
            self.lines.append(f"X.unfenced_product({self.site(instruction)}, {writer})")
        for names, is_write in (
            ([name for name in hazards.early if name not in writes], False),
            ([name for name in (*hazards.early, *hazards.overwritten) if name in writes], True),
        ):
            if names:
                where = f"{self.site(instruction)}, {function!r}, {self._numbers(names)}, {is_write}"
                self.lines.append(f"X.touch_products({where})")
        for name in hazards.replaced:
            self.lines.append(f"X.rename_product({function!r}, {self.plan.numbers[name]}, -1)")
        target = instruction.operands[0] if instruction.operands else None
        if (
            instruction.base == "mov"
            and isinstance(target, Register)
            and isinstance(instruction.operands[1], Register)
            and target.name in state.written
        ):
            numbers = self.plan.numbers[target.name], self.plan.numbers[instruction.operands[1].name]
            self.lines.append(f"X.rename_product({function!r}, {numbers[0]}, {numbers[1]})")
