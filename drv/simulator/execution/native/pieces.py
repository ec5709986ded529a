"""Blocks of a kernel cut into pieces: what native code runs, what Python runs, and where an order must be kept.

Lanes run an instruction together, so all have read memory before any of them stores what stands behind. In one function a
lane runs all of it before the next lane: a piece therefore reads and computes, or it is a single store or atomic operation, or
an instruction by which the lanes of a warp exchange values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from drv.simulator.ptx.control_flow import End, operand_registers, read, written
from drv.simulator.ptx.program import Register

from .forms import NotNative
from .instructions import compute, exchange, modify, store
from .layout import Layout
from .writer import LaneWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drv.simulator.execution.translation.plan import FunctionPlan
    from drv.simulator.ptx.control_flow import Block
    from drv.simulator.ptx.program import Instruction


class Sort(Enum):
    """How a piece is run."""

    COMPUTE = "reads memory and computes"
    STORE = "stores"
    ATOMIC = "changes memory"
    EXCHANGE = "exchanges values in warps"
    PYTHON = "is run by NumPy"


@dataclass(slots=True, eq=False)
class Piece:
    """Instructions of a block that run one after the other.

    ``inputs`` and ``outputs`` are the registers that it takes from pieces before it, and gives to those after it. ``number``
    is its own among all of the kernel; its memory instructions are numbered from ``first_site`` on.
    """

    sort: Sort
    instructions: list[Instruction]
    number: int = -1
    first_site: int = 0
    sites: int = 0
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class CutBlock:
    """A block and its pieces; of a ``foreign`` one Python runs all, and all that comes after it."""

    block: Block
    pieces: list[Piece] = field(default_factory=list)
    foreign: bool = False


def cut(plan: FunctionPlan) -> list[CutBlock]:
    """The blocks of a kernel in pieces."""
    barriers = {
        str(block.last.operands) + block.last.opcode
        for block in plan.blocks
        if block.end is End.BARRIER and block.last is not None
    }
    result = []
    for block in plan.blocks:
        each = CutBlock(block, foreign=_is_foreign(plan, block, barriers))
        if not each.foreign:
            each.pieces = _pieces(plan, block)
        result.append(each)
    for number, piece in enumerate(piece for each in result for piece in each.pieces):
        piece.number = number
    return result


def _is_foreign(plan: FunctionPlan, block: Block, barriers: set[str]) -> bool:
    """Whether a block ends as only Python knows, or has to do with the parameters of calls."""
    last = block.last
    if block.end is End.CALL:
        return True
    if block.end is End.BARRIER:
        assert last is not None
        plain = last.fields in (["bar", "sync"], ["barrier", "sync"], ["barrier", "sync", "aligned"])
        if (
            not plain
            or len(last.operands) != 1
            or isinstance(last.operands[0], Register)
            or len(barriers) > 1
        ):
            return True
    formals = {each.name for each in plan.function.formals}
    names: set[str] = set()
    for instruction in block.instructions:
        names |= read(instruction) | written(instruction)
    return any(name in plan.parameter_sizes and name not in formals for name in names)


def _pieces(plan: FunctionPlan, block: Block) -> list[Piece]:
    assert plan.invariants is not None
    pieces: list[Piece] = []
    for instruction in block.instructions:
        if instruction in plan.invariants.instructions:
            continue
        sort = _sort(plan, instruction)
        if sort is None:
            continue
        joins = sort in (Sort.COMPUTE, Sort.PYTHON) and pieces and pieces[-1].sort is sort
        if joins:
            pieces[-1].instructions.append(instruction)
        else:
            pieces.append(Piece(sort, [instruction]))
    _connect(plan, block, pieces)
    return pieces


#: Without a checker that watches, lanes that have met need nothing more, and there is one order of memory.
_NOTHING = {
    "membar",
    "fence",
    "prefetch",
    "prefetchu",
    "nanosleep",
    "pmevent",
    "griddepcontrol",
    "discard",
    "applypriority",
}


def _sort(plan: FunctionPlan, instruction: Instruction) -> Sort | None:
    """How an instruction is run; ``None`` if there is nothing to do."""
    fields = instruction.fields
    base = instruction.base
    if (base in _NOTHING and "proxy" not in fields) or fields[:3] == ["bar", "warp", "sync"]:
        return None
    attempts: dict[str, tuple[Sort, Callable[..., object]]] = {
        "st": (Sort.STORE, store),
        "atom": (Sort.ATOMIC, modify),
        "red": (Sort.ATOMIC, modify),
        "shfl": (Sort.EXCHANGE, exchange),
        "vote": (Sort.EXCHANGE, exchange),
        "activemask": (Sort.EXCHANGE, exchange),
    }
    sort, attempt = attempts.get(base, (Sort.COMPUTE, compute))
    everything = [*read(instruction), *written(instruction)]
    writer = LaneWriter(plan, Layout.of(plan, (name for name in everything if name in plan.dtypes)))
    try:
        attempt(writer, instruction)
    except NotNative:
        return Sort.PYTHON
    return sort


def decision_registers(block: Block) -> set[str]:
    """Registers by which a block's end decides."""
    last = block.last
    if last is None or block.end not in (End.BRANCH, End.SWITCH):
        return set()
    if block.end is End.BRANCH:
        assert last.guard is not None
        return {last.guard[0].name}
    return set(operand_registers(last.operands[0]))


def _connect(plan: FunctionPlan, block: Block, pieces: Sequence[Piece]) -> None:
    """Find out what each piece takes and gives."""
    known = plan.dtypes.keys()
    needed = {*block.live_out, *decision_registers(block)} & known
    for piece in reversed(pieces):
        outputs: set[str] = set()
        for instruction in piece.instructions:
            outputs |= written(instruction)
        piece.outputs = tuple(sorted(outputs & needed))
        needed -= outputs
        taken: set[str] = set()
        inside: set[str] = set()
        for instruction in piece.instructions:
            taken |= (read(instruction) & known) - inside
            inside |= written(instruction)
        piece.inputs = tuple(sorted(taken))
        needed |= taken
