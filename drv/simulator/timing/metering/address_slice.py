"""The part of a loop that its control flow and its addresses follow from.

Where a launch's results are not needed, what the next iterations of a loop do depends on no numbers but these: conditions of
branches, addresses, sizes of copies, and what they are computed from. An iteration of such a slice, translated by itself,
takes a small part of the time of a whole one.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

from drv.simulator.execution.translation.blocks import translate
from drv.simulator.execution.translation.code import polls
from drv.simulator.execution.translation.invariants import is_pure
from drv.simulator.ptx.control_flow import (
    Block,
    End,
    is_warp_synchronous,
    operand_registers,
    read,
    written,
)
from drv.simulator.ptx.products import MULTIPLY
from drv.simulator.ptx.program import Address, Register, Symbol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from drv.simulator.execution.translation.code import Code
    from drv.simulator.execution.translation.plan import FunctionPlan
    from drv.simulator.ptx.program import Instruction

#: Instructions that read and write memory where their addresses say, and do no more.
_PLAIN = {"ld", "ldu", "st", "ldmatrix", "stmatrix"}
#: What may stand in an iteration beside them: nothing that others wait for, or that changes numbers of others.
_ORDER = {
    "fence",
    "membar",
    "bar",
    "barrier",
    "prefetch",
    "prefetchu",
    "discard",
    "applypriority",
    "nanosleep",
}
#: Special registers that are other ones each time.
_TIMES = ("%clock", "%globaltimer")
#: What threads do with ``mbarrier`` objects that follows from how these are, and from operands.
_PHASES = {"arrive", "expect_tx", "try_wait"}
#: What orders a thread's copies.
_GROUPS = ("cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")

#: Slices that were made, for as long as their plans live.
_slices: weakref.WeakKeyDictionary[FunctionPlan, dict[frozenset[int], AddressSlice]] = (
    weakref.WeakKeyDictionary()
)


class Watched(NamedTuple):
    """Registers of a block that decide which memory it accesses: global memory, or other memory and sizes."""

    addresses: tuple[int, ...]
    others: tuple[int, ...]


class AddressSlice:
    """The slice of some of a function's basic blocks.

    Parameters
    ----------
    plan : FunctionPlan
        The function.
    blocks : frozenset of int
        Numbers of the basic blocks.

    Attributes
    ----------
    complete : bool
        Whether what the blocks do follows from the slice: no branch or address depends on what they load, and they do nothing
        else that others see.
    """

    def __init__(self, plan: FunctionPlan, blocks: frozenset[int]) -> None:
        numbers = plan.numbers
        mine = {index: plan.blocks[index] for index in sorted(blocks)}
        self._needed = _needed(mine.values())
        self._translation = translate(plan, [self._sliced(block, numbers) for block in mine.values()])
        self._number = {index: number for number, index in enumerate(mine)}
        self.complete = all(map(self._is_complete, mine.values()))
        self._watched = {index: _watched(block, numbers) for index, block in mine.items()}
        self._states = {
            index: [numbers[name] for name in block.live_in if name in self._needed]
            for index, block in mine.items()
        }

    def code(self, index: int) -> Code:
        """What block ``index`` computes of the slice; its decision where it branches."""
        return self._translation.code(self._number[index])

    def watched(self, index: int) -> Watched:
        """What tells which memory block ``index`` accesses."""
        return self._watched[index]

    def state(self, index: int) -> list[int]:
        """Registers that the slice takes at the beginning of block ``index``."""
        return self._states[index]

    def _sliced(self, block: Block, numbers: dict[str, int]) -> Block:
        instructions = [
            each
            for each in block.instructions
            if _computes(each) and not self._needed.isdisjoint(written(each))
        ]
        results = {name for each in instructions for name in written(each)}
        branches = block.end is End.BRANCH
        return Block(
            block.index,
            instructions,
            End.BRANCH if branches else End.FALL,
            block.last if branches else None,
            block.targets,
            live_out=tuple(name for name in numbers if name in results),
        )

    def _is_complete(self, block: Block) -> bool:
        if block.end not in (End.FALL, End.JUMP, End.BRANCH, End.BARRIER, End.PHASE):
            return False
        if block.end is End.BARRIER and (
            block.last is None or "red" in block.last.fields or read(block.last)
        ):
            return False
        return all(
            _computes(each) or (_is_known(each) and self._needed.isdisjoint(written(each)))
            for each in block.instructions
        )


def _watched(block: Block, numbers: dict[str, int]) -> Watched:
    addresses: dict[int, None] = {}
    others: dict[int, None] = {}
    for each in _all(block):
        for position in range(len(each.operands)):
            if _is_box(each) and position == 1:
                # The tensor stays the same, coordinates go on.
                tensor, coordinates = _tensor(each)
                others.update(dict.fromkeys(numbers[name] for name in tensor if name in numbers))
                addresses.update(dict.fromkeys(numbers[name] for name in coordinates if name in numbers))
                continue
            into = addresses if _is_global(each, position) else others
            names = _deciding(each, position)
            into.update(dict.fromkeys(numbers[name] for name in names if name in numbers))
    return Watched(tuple(addresses), tuple(others))


def _needed(blocks: Iterable[Block]) -> set[str]:
    """Registers that conditions and addresses of the blocks are computed from."""
    pending: list[str] = []
    by_result: dict[str, list[Instruction]] = {}
    for block in blocks:
        for each in _all(block):
            for position in range(len(each.operands)):
                pending += _deciding(each, position)
            for name in written(each):
                by_result.setdefault(name, []).append(each)
        if block.last is not None:
            pending += read(block.last)
    needed: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            for each in by_result.get(name, ()):
                if _computes(each):
                    pending += read(each)
    return needed


def _deciding(instruction: Instruction, position: int) -> list[str]:
    """Registers of an operand that decide which memory an instruction accesses."""
    operand = instruction.operands[position]
    is_copy = instruction.base == "cp" and instruction.opcode not in _GROUPS
    is_phase = instruction.base == "mbarrier" and position > 0
    is_factor = instruction.opcode.startswith(MULTIPLY) and 0 < position < 3 and isinstance(operand, Register)
    if isinstance(operand, Address) or is_factor or is_phase or (is_copy and position > 1):
        return list(operand_registers(operand))
    return []


def _all(block: Block) -> list[Instruction]:
    """Instructions of a block, with a wait at its end."""
    if block.end is End.PHASE and block.last is not None:
        return [*block.instructions, block.last]
    return block.instructions


def _is_box(instruction: Instruction) -> bool:
    """Whether an instruction brings a box of a tensor to the shared memory of its block."""
    fields = instruction.opcode.split(".")
    return fields[:7] == ["cp", "async", "bulk", "tensor", *fields[4:5], "shared::cluster", "global"] and not {
        "im2col", "im2col_no_offs", "multicast::cluster"
    }.intersection(fields)  # fmt: skip


def _tensor(instruction: Instruction) -> tuple[list[str], list[str]]:
    """Registers of a box's tensor map, and of its coordinates."""
    operand = instruction.operands[1]
    assert isinstance(operand, Address)
    base = [operand.base.name] if isinstance(operand.base, Register) else []
    return base, [name for each in operand.coordinates for name in operand_registers(each)]


def _is_global(instruction: Instruction, position: int) -> bool:
    if instruction.base == "cp":
        return position == 1
    return "global" in instruction.fields


def _computes(instruction: Instruction) -> bool:
    """Whether nothing but the operands decides the result, which is all that the instruction does."""
    if is_warp_synchronous(instruction) or any(name.startswith(_TIMES) for name in read(instruction)):
        return False
    return is_pure(instruction)


def _is_known(instruction: Instruction) -> bool:
    """Whether an instruction that does not compute does what its addresses say, or nothing that is counted by them."""
    fields = instruction.fields
    if instruction.base == "cp":
        return (
            instruction.opcode in _GROUPS
            or (fields[1] == "async" and fields[2] in ("ca", "cg"))
            or _is_box(instruction)
        )
    if instruction.base == "mbarrier":
        return fields[1] in _PHASES
    if instruction.base in _PLAIN:
        spaces = {"global", "shared", "local", "const"}
        constant = any(
            isinstance(each, Address) and isinstance(each.base, Symbol) for each in instruction.operands
        )
        return not polls(instruction) and (not spaces.isdisjoint(fields) or constant)
    if instruction.base == "wgmma":
        return fields[1] in ("mma_async", "fence", "commit_group", "wait_group")
    return is_warp_synchronous(instruction) or instruction.base in _ORDER


def slice_of(plan: FunctionPlan, blocks: Iterable[int]) -> AddressSlice:
    """The slice of some of a function's basic blocks, made when it is first asked for."""
    known = _slices.setdefault(plan, {})
    key = frozenset(blocks)
    result = known.get(key)
    if result is None:
        result = known[key] = AddressSlice(plan, key)
    return result


def counters(plan: FunctionPlan, index: int) -> list[int]:
    """Integer registers at the beginning of a block that a condition or address may depend on, there or later."""
    numbers = plan.numbers
    needed = _needed(plan.blocks)
    return [
        numbers[name]
        for name in plan.blocks[index].live_in
        if name in needed and plan.dtypes[name].kind in "ui"
    ]
