"""Registers of a kernel that have one value in all threads of a launch: computed once for the launch, not in its blocks.

A compiler reads the parameters and prepares strides and pointers in every thread. What an instruction computes is the
launch's where it only takes parameters, constants, the launch's shape, and other such values, and nothing else writes its
results.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

from drv.simulator.arithmetic.resolution import FAMILIES
from drv.simulator.ptx.control_flow import CARRY, Block, read, written
from drv.simulator.ptx.program import Address, Symbol

from .blocks import NOT_UNDERSTOOD, BlockTranslator
from .code import Names, Translation

if TYPE_CHECKING:
    from types import CodeType

    from drv.simulator.ptx.program import Instruction

    from .code import Code
    from .plan import FunctionPlan

#: Special registers that are the same in all threads.
_SHAPE = {f"%{name}.{axis}" for name in ("ntid", "nctaid") for axis in "xyz"} | {
    "%nwarpid",
    "%dynamic_smem_size",
    "%total_smem_size",
}


class Invariants:
    """What is computed once for a launch of an entry function.

    Attributes
    ----------
    instructions
        The instructions, which no block has to run.
    names
        Registers that they write.
    uses_symbols
        Whether addresses of module variables are among what they are computed from.
    """

    def __init__(self, plan: FunctionPlan) -> None:
        function = plan.function
        writes = [written(each) for each in function.instructions]
        definitions = Counter(itertools.chain.from_iterable(writes))
        formals = {each.name for each in function.formals}
        block = Block(-1, [])
        names = Names()
        translator = BlockTranslator(plan, block, names)
        known: set[str] = set()
        symbols: set[str] = set()
        for instruction, results in zip(function.instructions, writes, strict=True):
            if (
                instruction.guard is not None
                or not results
                or CARRY in results
                or any(definitions[name] > 1 for name in results)
                or not is_pure(instruction)
            ):
                continue
            used = read(instruction)
            if not used <= known | formals | plan.kernel.symbols | _SHAPE:
                continue
            try:
                translator.translate(instruction)
            except NOT_UNDERSTOOD:
                # The block in which it stands will tell, if it is reached.
                translator = BlockTranslator(plan, block, names)
                for each in block.instructions:
                    translator.translate(each)
                continue
            block.instructions.append(instruction)
            known |= results
            symbols |= used
        self.instructions: frozenset[Instruction] = frozenset(block.instructions)
        self.names = tuple(name for name in plan.numbers if name in known)
        block.live_out = self.names
        code, source = translator.code(0, 0)
        self._translation = Translation(f"invariants of {function.name}", [code], "\n".join(source), names)
        self.uses_symbols = not symbols.isdisjoint(plan.kernel.module.variables)

    @property
    def code(self) -> Code:
        """Translated: its outputs are these registers."""
        return self._translation.code(0)

    def instruction_at(self, python: CodeType, line: int) -> Instruction | None:
        """The instruction that line ``line`` of translated code does."""
        return self._translation.instruction_at(python, line)


def is_pure(instruction: Instruction) -> bool:
    """Whether nothing but the operands decides the result."""
    fields = instruction.fields
    if instruction.base == "ld":
        address = instruction.operands[1]
        return fields[1] == "param" and isinstance(address, Address) and isinstance(address.base, Symbol)
    return instruction.base in ("mov", "cvta") or (instruction.base in FAMILIES and "cc" not in fields)
