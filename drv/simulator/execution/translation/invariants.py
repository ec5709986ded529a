"""Registers of a kernel that have one value in all threads of a launch: computed once for the launch, not in its blocks.

A compiler reads the parameters and prepares strides and pointers in every thread. What an instruction computes is the
launch's where it only takes parameters, constants, the launch's shape, and other such values, and nothing else writes its
results.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
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


@dataclass(slots=True)
class Invariants:
    """What is computed once for a launch of an entry function.

    Attributes
    ----------
    block
        The instructions, which no other block has to run.
    names
        Registers that they write.
    translation
        The block, translated: its outputs are these registers.
    uses_symbols
        Whether addresses of module variables are among what they are computed from.
    """

    block: Block
    names: tuple[str, ...]
    translation: Translation
    uses_symbols: bool
    instructions: frozenset[Instruction] = field(init=False)

    def __post_init__(self) -> None:
        self.instructions = frozenset(self.block.instructions)

    @property
    def code(self) -> Code:
        """Translated: its outputs are these registers."""
        return self.translation.code(0)

    def instruction_at(self, python: CodeType, line: int) -> Instruction | None:
        """The instruction that line ``line`` of translated code does."""
        return self.translation.instruction_at(python, line)


def invariants_of(plan: FunctionPlan) -> Invariants:
    """The invariants of an entry function."""
    function = plan.function
    writes = [written(each) for each in function.instructions]
    definitions = Counter(itertools.chain.from_iterable(writes))
    varying = {name for name, count in definitions.items() if count > 1} | {CARRY}
    available = {each.name for each in function.formals} | plan.kernel.symbols | _SHAPE
    block = Block(-1, [])
    names = Names()
    translator = BlockTranslator(plan, block, names)
    known: set[str] = set()
    symbols: set[str] = set()
    for instruction, results in zip(function.instructions, writes, strict=True):
        if (
            instruction.guard is not None
            or not results
            or not results.isdisjoint(varying)
            or not is_pure(instruction)
        ):
            continue
        used = read(instruction)
        if not used <= available:
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
        available |= results
        symbols |= used
    block.live_out = tuple(name for name in plan.numbers if name in known)
    code, source = translator.code(0, 0)
    translation = Translation.compiled(f"invariants of {function.name}", [code], source, names)
    uses_symbols = not symbols.isdisjoint(plan.kernel.module.variables)
    return Invariants(block, block.live_out, translation, uses_symbols)


def is_pure(instruction: Instruction) -> bool:
    """Whether nothing but the operands decides the result."""
    fields = instruction.fields
    if instruction.base == "ld":
        address = instruction.operands[1]
        return fields[1] == "param" and isinstance(address, Address) and isinstance(address.base, Symbol)
    return instruction.base in ("mov", "cvta") or (instruction.base in FAMILIES and "cc" not in fields)
