"""Basic blocks of a function, and which registers are live between them."""

from __future__ import annotations

import functools
import heapq
import operator
from dataclasses import dataclass, field
from enum import Enum
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from .products import MULTIPLY, WAIT, ProductRegisters, ProductState
from .program import (
    Address,
    Group,
    Immediate,
    Instruction,
    Negated,
    Pair,
    PTXSyntaxError,
    Register,
    Symbol,
    Vector,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .program import Function, Operand

#: Instructions without a result in their first operand.
_NO_RESULT = {
    "st", "red", "bra", "brx", "bar", "barrier", "membar", "fence", "ret", "exit", "trap", "brkpt", "prefetch",
    "prefetchu", "nanosleep", "call", "pmevent", "cp", "griddepcontrol", "discard", "applypriority", "stackrestore",
    "setmaxnreg", "sust", "sured",
}  # fmt: skip
#: Instructions of whole warps, which have no member mask.
_WHOLE_WARP = {"mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"}
_ALL_LANES = Immediate(0xFFFFFFFF)
#: Digits as truth values.
_FLAGS = bytes.maketrans(b"01", b"\0\1")
#: The same of all four warps of a warpgroup.
WARPGROUP = Immediate(0xFFFFFFFF, "warpgroup")
#: Pseudo-register of the carry flag.
CARRY = "%cc"


class End(Enum):
    """How a block ends."""

    FALL = "falls through"
    JUMP = "jumps"
    BRANCH = "branches"
    SWITCH = "branches by an index"
    CALL = "calls"
    BARRIER = "waits at a barrier"
    PHASE = "waits for a phase of a barrier object"
    RETURN = "returns"
    EXIT = "exits"


@dataclass(slots=True, eq=False)
class Block:
    """Instructions that run one after the other.

    ``targets`` are the blocks that may follow: for a branch the one taken, then the one below. ``last`` is
    the instruction that ends the block where it is more than falling through. ``converges`` tells that the
    first instruction is a warp-level synchronisation.
    """

    index: int
    instructions: list[Instruction]
    end: End = End.FALL
    last: Instruction | None = None
    targets: tuple[int, ...] = ()
    converges: bool = False
    live_in: tuple[str, ...] = ()
    live_out: tuple[str, ...] = ()
    #: What asynchronous products may be about at the beginning, in a function that has such; see :func:`follow_products`.
    products: ProductState | None = None
    labels: list[str] = field(default_factory=list)


def _is_block_barrier(opcode: str) -> bool:
    """Whether threads of a block meet at such an instruction."""
    fields = opcode.split(".")
    return (
        fields[0] in ("bar", "barrier") and fields[1:2] != ["warp"] and fields[1:3] != ["cluster", "arrive"]
    )


def is_warp_synchronous(instruction: Instruction) -> bool:
    """Whether the threads of a member mask meet here."""
    opcode = instruction.opcode
    return _warps_meet(opcode) and (bool(instruction.operands) or opcode.startswith(MULTIPLY))


@functools.cache
def _warps_meet(opcode: str) -> bool:
    fields = opcode.split(".")
    meets = fields[0] in ("shfl", "vote", "match", "redux", "elect") or fields[0] in _WHOLE_WARP
    return opcode.startswith(MULTIPLY) or (meets and "sync" in fields) or fields[:2] == ["bar", "warp"]


def member_mask(instruction: Instruction) -> Operand:
    """Operand that holds the member mask of a warp-level synchronisation, or ``WARPGROUP``."""
    if instruction.opcode.startswith(MULTIPLY):
        return WARPGROUP
    return _ALL_LANES if instruction.base in _WHOLE_WARP else instruction.operands[-1]


def blocks_of(function: Function) -> list[Block]:
    """Basic blocks in the order of the text, with their successors and live registers."""
    blocks, block_of_label = _split(function)
    _connect(function, blocks, block_of_label)
    parameters = [*function.formals, *function.results, *function.call_parameters.values()]
    registers = [*function.register_types, CARRY, *(each.name for each in parameters)]
    _liveness(blocks, {each.name for each in function.results}, registers)
    return blocks


def _split(function: Function) -> tuple[list[Block], dict[str, int]]:
    """Blocks, and the block that each label stands before.

    A guarded instruction that is not a branch becomes a block of its own, behind a branch around it.
    """
    labels_at: dict[int, list[str]] = {}
    for label, position in function.labels.items():
        labels_at.setdefault(position, []).append(label)
    blocks = [Block(0, [])]
    block_of_label: dict[str, int] = {}

    def fresh() -> Block:
        if blocks[-1].instructions or blocks[-1].last is not None:
            blocks.append(Block(len(blocks), []))
        return blocks[-1]

    mask: Operand = None
    for position, instruction in enumerate(function.instructions):
        if position in labels_at:
            block = fresh()
            for label in labels_at[position]:
                block_of_label[label] = block.index
            mask = None
        ends = _end_of(instruction.opcode)
        if instruction.guard is not None and ends not in (End.JUMP,):
            blocks[-1].last, blocks[-1].end = branch_around(position, instruction), End.BRANCH
            fresh()
            labels_at.setdefault(position + 1, []).append(_skip(position))
            mask = None
        if is_warp_synchronous(instruction):
            members = member_mask(instruction)
            # One meeting serves all that follow with the same mask, until lanes may diverge again.
            if members != mask or mask is None:
                fresh().converges = True
                mask = members
        block = blocks[-1]
        if ends is None:
            block.instructions.append(instruction)
            if isinstance(mask, Register) and mask.name in written(instruction):
                mask = None
        else:
            block.last, block.end = instruction, ends
            blocks.append(Block(len(blocks), []))
            mask = None
    for label in labels_at.get(len(function.instructions), ()):
        block_of_label[label] = fresh().index
    end = blocks[-1]
    if (
        len(blocks) > 1
        and end.last is None
        and not end.instructions
        and end.index not in block_of_label.values()
    ):
        blocks.pop()
    return blocks, block_of_label


def branch_around(position: int, instruction: Instruction) -> Instruction:
    """The branch that stands before a guarded instruction, which is the one at ``position`` of its function."""
    assert instruction.guard is not None
    register, negated = instruction.guard
    return Instruction(
        "bra",
        (Symbol(_skip(position)),),
        (register, not negated),
        instruction.ptx_line,
        instruction.source,
        instruction.text,
    )


def _skip(position: int) -> str:
    """Label behind a guarded instruction."""
    return f"skip {position}"


@functools.cache
def _end_of(opcode: str) -> End | None:
    """How a block ends at such an instruction, if it does."""
    base = opcode.partition(".")[0]
    if base == "bra":
        return End.JUMP
    if base == "brx":
        return End.SWITCH
    if base in ("ret", "exit"):
        return End.RETURN if base == "ret" else End.EXIT
    if base == "call":
        return End.CALL
    if opcode.startswith("mbarrier.try_wait."):
        return End.PHASE
    return End.BARRIER if _is_block_barrier(opcode) else None


def _connect(function: Function, blocks: list[Block], block_of_label: dict[str, int]) -> None:
    def target_of(symbol: Operand, line: int) -> int:
        if not isinstance(symbol, Symbol) or symbol.name not in block_of_label:
            name = symbol.name if isinstance(symbol, Symbol) else symbol
            raise PTXSyntaxError(line, f"unknown label {name!r}")
        return block_of_label[symbol.name]

    for block in blocks:
        following = block.index + 1
        last = block.last
        if last is None:
            if following < len(blocks):
                block.targets = (following,)
            else:
                block.end = End.RETURN
        elif block.end in (End.JUMP, End.BRANCH):
            target = target_of(next(iter(last.operands), None), last.ptx_line)
            block.end = End.JUMP if last.guard is None else End.BRANCH
            block.targets = (target,) if last.guard is None else (target, following)
        elif block.end is End.SWITCH:
            block.targets = tuple(
                target_of(Symbol(label), last.ptx_line) for label in switch_targets(function, last)
            )
        elif block.end in (End.CALL, End.BARRIER, End.PHASE):
            block.targets = (following,)
    if any(target >= len(blocks) for block in blocks for target in block.targets):
        blocks.append(Block(len(blocks), [], End.RETURN))


def switch_targets(function: Function, switch: Instruction) -> tuple[str, ...]:
    """Labels that a branch by an index leads to. Raises :class:`PTXSyntaxError` if it has no list of them."""
    table = switch.operands[1] if len(switch.operands) > 1 else None
    if not isinstance(table, Symbol) or table.name not in function.branch_targets:
        raise PTXSyntaxError(switch.ptx_line, "a branch by an index without its list of labels")
    return function.branch_targets[table.name]


def operand_registers(operand: Operand) -> Iterator[str]:
    """Registers, and parameters of call sites, that an operand names."""
    if isinstance(operand, (Register, Symbol)):
        yield operand.name
    elif isinstance(operand, Negated):
        yield operand.register.name
    elif isinstance(operand, Address):
        if isinstance(operand.base, (Register, Symbol)):
            yield operand.base.name
        for item in operand.coordinates:
            yield from operand_registers(item)
    elif isinstance(operand, (Vector, Group)):
        for item in operand.items:
            yield from operand_registers(item)
    elif isinstance(operand, Pair):
        for item in (operand.first, operand.second):
            if item is not None:
                yield item.name


class _Traits(NamedTuple):
    """What an opcode says of the operands of its instructions."""

    #: Whether the first one is a result, unless it is an address: an instruction with one there writes to memory.
    result: bool
    #: Whether it fills a parameter of a call, or a result.
    fills: bool
    call: bool
    #: Whether the first one is written, and was read before: changed now or later.
    changes: bool
    carry_out: bool
    carry_in: bool


@functools.cache
def _traits(opcode: str) -> _Traits:
    fields = opcode.split(".")
    base = fields[0]
    return _Traits(
        "red" in fields if base in ("bar", "barrier") else base not in _NO_RESULT,
        opcode.startswith("st.param"),
        base == "call",
        opcode.startswith((MULTIPLY, WAIT)),
        "cc" in fields,
        base in ("addc", "subc", "madc"),
    )


def _is_result(traits: _Traits, first: Operand) -> bool:
    """Whether the first operand of an instruction is what it computes, or what a function that it calls does."""
    return (traits.result and not isinstance(first, Address)) or (traits.call and isinstance(first, Group))


def has_result(instruction: Instruction) -> bool:
    """Whether the first operand is what the instruction writes."""
    operands = instruction.operands
    return _traits(instruction.opcode).result and not (operands and isinstance(operands[0], Address))


def is_parameter_store(instruction: Instruction) -> bool:
    """Whether an instruction fills a parameter of a call, or a result."""
    return _traits(instruction.opcode).fills


def written(instruction: Instruction) -> set[str]:
    """Names that an instruction writes."""
    traits, operands = _traits(instruction.opcode), instruction.operands
    registers: set[str] = {CARRY} if traits.carry_out else set()
    if operands:
        first = operands[0]
        if type(first) is Register:
            if traits.result or traits.fills:
                registers.add(first.name)
        elif traits.fills or _is_result(traits, first):
            registers.update(operand_registers(first))
    return registers


def read(instruction: Instruction) -> set[str]:
    """Names that an instruction reads."""
    traits, operands = _traits(instruction.opcode), instruction.operands
    registers: set[str] = {CARRY} if traits.carry_in else set()
    if instruction.guard is not None:
        registers.add(instruction.guard[0].name)
    if not operands:
        return registers
    first = operands[0]
    # A store of a parameter may fill only a part.
    if traits.fills or traits.changes or not _is_result(traits, first):
        registers.update(operand_registers(first))
    for operand in operands[1:]:
        if type(operand) is Register:
            registers.add(operand.name)
        elif type(operand) is not Immediate:
            registers.update(operand_registers(operand))
    return registers


def _liveness(blocks: list[Block], results: set[str], registers: list[str]) -> None:
    """Find out which ``registers`` each block takes and hands on. Those that it only uses itself are not of interest."""
    masks = {name: 1 << number for number, name in enumerate(dict.fromkeys(registers))}

    def bits(names: set[str]) -> int:
        # Labels and variables are names too.
        return functools.reduce(operator.or_, (masks.get(name, 0) for name in names), 0)

    uses, kills = [], []
    for block in blocks:
        use: set[str] = set()
        kill: set[str] = set()
        for instruction in [*block.instructions, *([block.last] if block.last else [])]:
            use |= read(instruction) - kill
            kill |= written(instruction)
        if block.end is End.RETURN:
            # The caller reads them.
            use |= results - kill
        uses.append(bits(use))
        kills.append(bits(kill))
    entering = [0] * len(blocks)
    leaving = [0] * len(blocks)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            out = 0
            for target in block.targets:
                out |= entering[target]
            into = uses[block.index] | (out & ~kills[block.index])
            if out != leaving[block.index] or into != entering[block.index]:
                leaving[block.index], entering[block.index] = out, into
                changed = True
    names = list(masks)
    known: dict[int, tuple[str, ...]] = {}

    def named(bits: int) -> tuple[str, ...]:
        result = known.get(bits)
        if result is None:
            chosen = f"{bits:b}"[::-1].encode().translate(_FLAGS)
            result = known[bits] = tuple(compress(names, chosen))
        return result

    for block in blocks:
        block.live_in = named(entering[block.index])
        block.live_out = named(leaving[block.index])


def follow_products(blocks: list[Block]) -> None:
    """Work out what asynchronous products may be about at the beginning of each block of a function."""
    registers = ProductRegisters.of([each for block in blocks for each in block.instructions])
    if registers is None:
        return
    steps = [_concerned(block, registers.concerned) for block in blocks]
    blocks[0].products = ProductState(registers)
    pending = [0]
    while pending:
        index = heapq.heappop(pending)
        before = blocks[index].products
        assert before is not None
        state = before.copy()
        for instruction, reads, writes in steps[index]:
            state.step(instruction, reads, writes)
        for target in blocks[index].targets:
            following = blocks[target]
            if following.products is None:
                following.products = state.copy()
            elif not following.products.merge(state):
                continue
            if target not in pending:
                heapq.heappush(pending, target)


def _concerned(block: Block, concerned: frozenset[str]) -> list[tuple[Instruction, set[str], set[str]]]:
    """Instructions of a block that are products, or touch registers ``concerned``, which they read and which they write."""
    result = []
    for each in [*block.instructions, *([block.last] if block.last else [])]:
        reads, writes = read(each) & concerned, written(each) & concerned
        if reads or writes or each.base == "wgmma":
            result.append((each, reads, writes))
    return result
