"""Registers that asynchronous products (``wgmma.mma_async``) write and read while a function goes on.

A function may touch them again when it has waited, and must fence what it wrote to them before. What is in flight, or not
fenced, is worked out for every block of the function, along all of its paths. Copies from register to register are
not touches: compilers rename registers so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .program import Immediate, Register, Vector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .program import Function, Instruction, Operand

MULTIPLY, WAIT = "wgmma.mma_async.", "wgmma.wait_group."


def with_results(function: Function) -> None:
    """Give instructions that wait for products the registers that they may bring, as their first operand."""
    names = dict.fromkeys(
        name
        for each in function.instructions
        if each.operands and each.opcode.startswith(MULTIPLY)
        for name in _names(each.operands[0])
    )
    if not names:
        return
    copies: dict[str, list[str]] = {}
    for target, source in _moves(function.instructions):
        copies.setdefault(source, []).append(target)
    results = Vector(tuple(Register(name) for name in _reached(names, copies)))
    for each in function.instructions:
        if each.operands and each.opcode.startswith(WAIT) and not isinstance(each.operands[0], Vector):
            each.operands = (results, *each.operands)


def _names(operand: Operand) -> Iterable[str]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    return [item.name for item in items if isinstance(item, Register)]


def _moves(instructions: Iterable[Instruction]) -> Iterator[tuple[str, str]]:
    """Target and source of each copy from register to register."""
    for each in instructions:
        if each.base == "mov" and len(each.operands) == 2:
            target, source = each.operands
            if isinstance(target, Register) and isinstance(source, Register):
                yield target.name, source.name


def _reached(names: Iterable[str], following: Mapping[str, Iterable[str]]) -> dict[str, None]:
    """``names``, those that follow them, and so on; in order."""
    result = dict.fromkeys(names)
    pending = list(result)
    for name in pending:
        for each in following.get(name, ()):
            if each not in result:
                result[each] = None
                pending.append(each)
    return result


@dataclass(frozen=True, slots=True)
class ProductRegisters:
    """Registers that the asynchronous products of a function have to do with; all others are none of their business."""

    #: That products write.
    results: frozenset[str]
    #: That products write or read, and what is copied to these: a fence must come between what writes them and the product.
    fenced: frozenset[str]
    #: These, and copies of results.
    concerned: frozenset[str]

    @classmethod
    def of(cls, instructions: Sequence[Instruction]) -> ProductRegisters | None:
        """Those of a function's instructions; ``None`` where none is a product."""
        results: set[str] = set()
        operands: set[str] = set()
        for each in instructions:
            if each.operands and each.opcode.startswith(MULTIPLY):
                results.update(_names(each.operands[0]))
                operands.update(name for vector in each.operands[1:2] for name in _names(vector))
        if not results:
            return None
        copies: dict[str, list[str]] = {}
        origins: dict[str, list[str]] = {}
        for target, source in _moves(instructions):
            copies.setdefault(source, []).append(target)
            origins.setdefault(target, []).append(source)
        fenced = frozenset(_reached(results | operands, origins))
        return cls(frozenset(results), fenced, fenced | frozenset(_reached(results, copies)))


@dataclass(slots=True)
class Hazards:
    """What an instruction does that it should not."""

    #: Registers whose results have not come, that it reads or writes.
    early: list[str] = field(default_factory=list)
    #: Registers that a product may still read, that it writes.
    overwritten: list[str] = field(default_factory=list)
    #: Copies of results to come that it replaces.
    replaced: list[str] = field(default_factory=list)
    #: The instruction that wrote a register of this product since the last fence.
    unfenced: Instruction | None = None
    #: Whether there may have been no fence at all before this product.
    never_fenced: bool = False


@dataclass(slots=True)
class ProductState:
    """What may be so at a point of a function."""

    registers: ProductRegisters
    #: Registers that products are going to write, and copies of these.
    written: set[str] = field(default_factory=set)
    #: Registers that products are going to read.
    reading: set[str] = field(default_factory=set)
    #: Registers written since the last fence, and by which instruction.
    unfenced: dict[str, Instruction] = field(default_factory=dict)
    fenced: bool = False

    def copy(self) -> ProductState:
        """The same, to be changed."""
        return ProductState(
            self.registers, set(self.written), set(self.reading), dict(self.unfenced), self.fenced
        )

    def merge(self, other: ProductState) -> bool:
        """What is so here or there; whether that is more than before."""
        before = len(self.written), len(self.reading), len(self.unfenced), self.fenced
        self.written |= other.written
        self.reading |= other.reading
        if not other.unfenced.keys() <= self.unfenced.keys():
            self.unfenced = other.unfenced | self.unfenced
        self.fenced &= other.fenced
        return before != (len(self.written), len(self.reading), len(self.unfenced), self.fenced)

    def step(self, instruction: Instruction, reads: set[str], writes: set[str]) -> Hazards:
        """Go past an instruction, with the registers that it reads and writes."""
        hazards = Hazards()
        results = self.registers.results
        opcode = instruction.opcode
        if opcode.startswith("wgmma."):
            self._step_product(instruction, hazards)
            return hazards
        operands = instruction.operands
        if instruction.base == "mov" and len(operands) == 2 and isinstance(operands[0], Register):
            if operands[0].name in self.registers.concerned:
                self._step_move(operands[0].name, operands[1], hazards, results)
            return hazards
        hazards.early = sorted((reads & self.written) | (writes & self.written & results))
        hazards.overwritten = sorted(writes & self.reading)
        hazards.replaced = sorted((writes & self.written) - results)
        self.written -= writes
        self.unfenced.update(dict.fromkeys(writes & self.registers.fenced, instruction))
        return hazards

    def _step_product(self, instruction: Instruction, hazards: Hazards) -> None:
        opcode = instruction.opcode
        if opcode.startswith("wgmma.fence"):
            self.unfenced.clear()
            self.fenced = True
        elif opcode.startswith(MULTIPLY) and len(instruction.operands) > 1:
            d, a = instruction.operands[:2]
            outputs = _names(d)
            inputs = _names(a) if isinstance(a, Vector) else []
            hazards.never_fenced = not self.fenced
            hazards.unfenced = next(
                (self.unfenced[name] for name in (*outputs, *inputs) if name in self.unfenced), None
            )
            hazards.early = sorted(set(inputs) & self.written)
            self.written.update(outputs)
            self.reading.update(inputs)
            for name in outputs:
                self.unfenced.pop(name, None)
        elif opcode.startswith(WAIT) and instruction.operands[-1:] == (Immediate(0),):
            self.written.clear()
            self.reading.clear()

    def _step_move(self, target: str, source: Operand, hazards: Hazards, results: frozenset[str]) -> None:
        name = source.name if isinstance(source, Register) else ""
        if target in self.reading:
            hazards.overwritten = [target]
        if name in self.written:
            self.written.add(target)
        else:
            if target in self.written:
                if target in results:
                    hazards.early = [target]
                else:
                    hazards.replaced = [target]
            self.written.discard(target)
        # A constant may be put there by the compiler at any time.
        writer = self.unfenced.get(name) if target in self.registers.fenced else None
        if writer is None:
            self.unfenced.pop(target, None)
        else:
            self.unfenced[target] = writer
