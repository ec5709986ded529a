"""A kernel's native code: compiled once, cached on disk beside its translation, and loaded by any later process."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.host.machine_code import LoadedCode, compiled
from drv.simulator.execution.translation.blocks import translate
from drv.simulator.execution.translation.code import polls
from drv.simulator.ptx.control_flow import Block, End, member_mask
from drv.simulator.ptx.program import Immediate, Register

from . import scheduling
from .forms import NotNative, llvm_type
from .instructions import compute, exchange, modify, store
from .layout import Layout
from .pieces import Piece, Sort, cut, decision_registers
from .scheduling import EXCHANGE_FIELDS, RECORD
from .subset import compile_functions
from .writer import METADATA, LaneWriter, stored_type

if TYPE_CHECKING:
    from types import CodeType

    from numpy.typing import NDArray

    from drv.simulator.execution.translation.code import Code, Translation
    from drv.simulator.execution.translation.plan import FunctionPlan
    from drv.simulator.ptx.program import Instruction

    from .pieces import CutBlock

_ENDS = {
    End.FALL: scheduling.JUMP,
    End.JUMP: scheduling.JUMP,
    End.BRANCH: scheduling.BRANCH,
    End.SWITCH: scheduling.SWITCH,
    End.BARRIER: scheduling.BARRIER,
    End.RETURN: scheduling.EXIT,
    End.EXIT: scheduling.EXIT,
}
#: Functions of :mod:`.scheduling` that are called from outside, and all others.
_EXPORTED = ("run", "shuffle", "vote", "active_lanes")
_FUNCTIONS = (
    scheduling.run, scheduling.run_pieces, scheduling.begin, scheduling.choose, scheduling.note_turn,
    scheduling.clear_stalled, scheduling.gather, scheduling.keep_ready, scheduling.mask_of, scheduling.load_u32,
    scheduling.store_u32, scheduling.count_in_warps, scheduling.finish, scheduling.diverge, scheduling.decide,
    scheduling.scatter, scheduling.join, scheduling.leave, scheduling.release, scheduling.operand, scheduling.shuffle,
    scheduling.vote, scheduling.truth, scheduling.active_lanes,
)  # fmt: skip
_serial = itertools.count()


@dataclass(slots=True)
class NativeProgram:
    """Native code of one kernel, and the tables that :mod:`.scheduling` reads.

    Attributes
    ----------
    image
        Object file of the pieces that have native code, functions ``p`` and the piece's number.
    tables
        The kernel's arrays of the record.
    pieces
        All pieces, by number.
    exchanges
        Function of :mod:`.scheduling` that runs a piece, by the piece's number.
    generic, writing
        Memory instructions that may go to any memory by their address, and those that change it.
    computes_shared
        Whether the object file has a function that computes the values which all threads share.
    translated
        Pieces as Python, by number, with their line numbers: those that have no native code, and others when they were needed.
    zeroed
        Registers that may be read before they are written: they are 0 at first.
    independent
        Whether its blocks cannot tell in which order they run: all is native, and nothing is there by which a block hears
        of another (atomic operations, fences, volatile accesses) but for plain stores, which nothing orders.
    """

    image: bytes
    layout: Layout
    tables: dict[str, NDArray[Any]]
    pieces: list[Piece]
    exchanges: dict[int, str]
    sites: int
    generic: frozenset[int]
    writing: frozenset[int]
    computes_shared: bool
    translated: dict[int, tuple[Translation, int]]
    zeroed: tuple[str, ...]
    independent: bool
    _loaded: LoadedCode | None = field(default=None, repr=False)

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        return None, {name: getattr(self, name) for name in self.__slots__} | {"_loaded": None}

    def code(self, name: str, scheduler: LoadedCode) -> NDArray[np.int64]:
        """Address of the function of each piece; 0 for those that Python runs. ``name`` is the kernel's, for debuggers."""
        native = [
            each.number
            for each in self.pieces
            if each.number not in self.exchanges and each.sort is not Sort.PYTHON
        ]
        if self._loaded is None:
            exported = [f"p{number}" for number in native] + ["shared_values"] * self.computes_shared
            self._loaded = LoadedCode(self.image, f"{name} {next(_serial)}", exported)
        result = np.zeros(max(len(self.pieces), 1), np.int64)
        for number in native:
            result[number] = self._loaded.addresses[f"p{number}"]
        for number, function in self.exchanges.items():
            result[number] = scheduler.addresses[function]
        return result

    def shared_values(self) -> int:
        """Address of the function that computes the values which all threads share; 0 if there is none."""
        return 0 if self._loaded is None else self._loaded.addresses.get("shared_values", 0)

    def python(self, plan: FunctionPlan, number: int) -> Code:
        """A piece as Python."""
        translation, index = self.translated.get(number, (None, 0))
        if translation is None:
            translation = translate(plan, [_block(self.pieces[number])])
            self.translated[number] = translation, 0
        return translation.code(index)

    def instruction_at(self, python: CodeType, line: int) -> Instruction | None:
        """The instruction that line ``line`` of a piece which Python runs does."""
        known = (translation.instruction_at(python, line) for translation, _ in self.translated.values())
        return next(filter(None, known), None)


def scheduler_image() -> bytes:
    """Object file of :mod:`.scheduling`."""
    return compiled(compile_functions(_FUNCTIONS, RECORD, set(_EXPORTED)))


def load_scheduler(image: bytes) -> LoadedCode:
    """The functions of :mod:`.scheduling` from their object file."""
    return LoadedCode(image, f"scheduling {next(_serial)}", _EXPORTED)


def build(plan: FunctionPlan) -> NativeProgram | None:
    """Native code of a kernel; ``None`` if nothing of it would be native."""
    blocks = cut(plan)
    pieces = [piece for each in blocks for piece in each.pieces]
    if blocks[0].foreign or not any(piece.sort is not Sort.PYTHON for piece in pieces):
        return None
    crossing = {name for piece in pieces for name in (*piece.inputs, *piece.outputs)}
    for each in blocks:
        crossing |= decision_registers(each.block) if not each.foreign else set()
        if each.block.converges:
            mask = member_mask(each.block.instructions[0])
            crossing |= {mask.name} if isinstance(mask, Register) else set()
    layout = Layout.of(plan, (name for name in crossing if name in plan.dtypes))
    exchanges: dict[int, str] = {}
    descriptions = np.zeros((max(len(pieces), 1), EXCHANGE_FIELDS), np.int32)
    texts: list[str] = []
    declarations: dict[str, None] = {"declare i64 @llvm.umin.i64(i64, i64)": None}
    sites = 0
    generic: set[int] = set()
    writing: set[int] = set()
    for piece in pieces:
        if piece.sort is Sort.EXCHANGE:
            function, description = exchange(LaneWriter(plan, layout), piece.instructions[0])
            exchanges[piece.number] = function
            descriptions[piece.number, : len(description)] = description
        elif piece.sort is not Sort.PYTHON:
            piece.first_site = sites
            text, writers = _function(plan, layout, piece)
            sites += piece.sites
            generic |= writers[0].generic
            if piece.sort is not Sort.COMPUTE:
                writing.add(piece.first_site)
            texts.append(text)
            for writer in writers:
                declarations |= writer.declarations
    invariants = _invariants(plan, layout)
    if invariants is not None:
        texts.append(invariants[0])
        declarations |= invariants[1]
    tables = _tables(plan, layout, blocks)
    tables["operands"] = descriptions.reshape(-1)
    tables["piece_whole"] = np.array([piece.number in exchanges for piece in pieces] or [False], np.uint8)
    return NativeProgram(
        compiled("\n".join([*declarations, *texts, METADATA])),
        layout,
        tables,
        pieces,
        exchanges,
        sites,
        frozenset(generic),
        frozenset(writing),
        invariants is not None,
        _translated(plan, [piece for piece in pieces if piece.sort is Sort.PYTHON]),
        tuple(name for name in plan.blocks[0].live_in if name in layout.rows),
        all(map(_is_independent, blocks)),
    )


def _is_independent(block: CutBlock) -> bool:
    if block.foreign or any(piece.sort is Sort.PYTHON for piece in block.pieces):
        return False
    for instruction in block.block.instructions:
        fields = instruction.fields
        if instruction.base in ("atom", "red") and "shared" not in fields:
            return False
        if instruction.base in ("membar", "fence") and "cta" not in fields:
            return False
        if polls(instruction) and "shared" not in fields:
            return False
    return True


def _block(piece: Piece) -> Block:
    return Block(-1, piece.instructions, live_out=piece.outputs)


def _translated(plan: FunctionPlan, pieces: list[Piece]) -> dict[int, tuple[Translation, int]]:
    translation = translate(plan, list(map(_block, pieces)))
    return {piece.number: (translation, index) for index, piece in enumerate(pieces)}


def _tables(plan: FunctionPlan, layout: Layout, blocks: list[CutBlock]) -> dict[str, NDArray[Any]]:
    count = len(blocks)
    first_piece, first_target = np.zeros(count + 1, np.int32), np.zeros(count + 1, np.int32)
    targets: list[int] = []
    end, negated, polls_at = (np.zeros(count, np.uint8) for _ in range(3))
    decision, meets_at = np.zeros(count, np.int32), np.zeros(count, np.int32)
    member_masks = np.zeros(count, np.int64)

    def row_of(name: str) -> int:
        return layout.rows[name] if name in layout.rows else -1 - layout.shared[name]

    for index, each in enumerate(blocks):
        block = each.block
        first_piece[index + 1] = first_piece[index] + len(each.pieces)
        targets += block.targets
        first_target[index + 1] = len(targets)
        end[index] = scheduling.FOREIGN if each.foreign else _ENDS[block.end]
        polls_at[index] = any(map(polls, block.instructions))
        if each.foreign:
            continue
        names = decision_registers(block)
        if names:
            decision[index] = row_of(names.pop())
        if block.end is End.BRANCH:
            assert block.last is not None and block.last.guard is not None
            negated[index] = block.last.guard[1]
        if block.converges:
            mask = member_mask(block.instructions[0])
            if isinstance(mask, Register):
                mask_row = row_of(mask.name)
                meets_at[index], member_masks[index] = (3, mask_row) if mask_row >= 0 else (2, -1 - mask_row)
            else:
                assert isinstance(mask, Immediate)
                meets_at[index], member_masks[index] = 1, mask.value & 0xFFFFFFFF
    return {
        "first_piece": first_piece,
        "end": end,
        "first_target": first_target,
        "targets": np.array([*targets, 0], np.int32),
        "decision": decision,
        "negated": negated,
        "polls_at": polls_at,
        "meets_at": meets_at,
        "member_mask": member_masks,
    }


def _invariants(plan: FunctionPlan, layout: Layout) -> tuple[str, dict[str, None]] | None:
    """The function that computes the shared values of registers, and what it calls; ``None`` if NumPy must."""
    assert plan.invariants is not None
    w = LaneWriter(plan, layout)
    try:
        for instruction in plan.function.instructions:
            if instruction in plan.invariants.instructions:
                compute(w, instruction)
        for name, number in layout.shared.items():
            value = w.canonical(name)
            assert value.dtype is not None
            bits = w.bits(value, np.dtype(f"u{value.dtype.itemsize}")) if value.dtype.kind != "b" else value
            word = w.converted(bits, np.dtype(np.uint64)).text
            at = w.emit(f"getelementptr inbounds i64, ptr {w.field('shared_values')}, i64 {number}")
            w.lines.append(f"store i64 {word}, ptr {at}")
    except NotNative:
        return None
    body = "\n  ".join(["entry:", *w.head, *w.lines, "ret i64 0"])
    return f"define i64 @shared_values(ptr noalias %s) nounwind {{\n{body}\n}}\n", w.declarations


# Functions of pieces


def _function(plan: FunctionPlan, layout: Layout, piece: Piece) -> tuple[str, list[LaneWriter]]:
    """The text of a piece's function."""
    first = LaneWriter(plan, layout)
    first.first_site = piece.first_site
    writers = [first]
    if piece.sort is Sort.COMPUTE:
        body = _computing(first, piece)
    else:
        second = LaneWriter(plan, layout, first)
        second.first_site = piece.first_site
        writers.append(second)
        body = (_storing if piece.sort is Sort.STORE else _modifying)(first, second, piece.instructions[0])
    piece.sites = first.sites
    head = "\n  ".join(["entry:", *first.head, "br label %loop0"])
    return (
        f"define i64 @p{piece.number}(ptr noalias %s, i64 %first, i64 %end) nounwind {{\n{head}\n{body}}}\n",
        writers,
    )


def _computing(w: LaneWriter, piece: Piece) -> str:
    for instruction in piece.instructions:
        compute(w, instruction)
    outputs = [name for name in piece.outputs if name in w.written and name in w.layout.rows]
    # What was read must still be there if an access turns out wrong and all is done again.
    retained = set(piece.inputs) if w.wrong else set()
    later = [name for name in outputs if name in retained]
    scratch = {name: w.at_head(f"scratch {name}", _scratch(w, name, later)) for name in later}
    for name in outputs:
        w.store_row(scratch[name] if name in scratch else w.row(name), w.canonical(name))
    body = _loop(0, w, parallel=True) + _checks(w, "loop1" if later else "return")
    if later:
        copies = LaneWriter(w.plan, w.layout, w)
        for name in later:
            copies.store_row(w.row(name), copies.load_row(scratch[name], w.plan.dtypes[name]))
        body += _loop(1, copies, parallel=True) + "done1:\n  br label %return\n"
    return body + "return:\n  ret i64 0\n"


def _scratch(w: LaneWriter, name: str, all_of_them: list[str]) -> str:
    """Address of a row behind those of all registers."""
    dtypes = w.plan.dtypes
    ordered = sorted(all_of_them, key=lambda each: -dtypes[each].itemsize)
    before = sum(dtypes[each].itemsize for each in ordered[: ordered.index(name)])
    start = w.layout.row_bytes + before
    w.layout.scratch_bytes = max(w.layout.scratch_bytes, before + dtypes[name].itemsize)
    at = w.at_head(f"row offset {start}", f"mul i64 {w.field('capacity')}, {start}")
    return f"getelementptr inbounds i8, ptr {w.field('registers')}, i64 {at}"


def _storing(check: LaneWriter, w: LaneWriter, instruction: Instruction) -> str:
    store(check, instruction)
    at = 0
    for value in store(w, instruction):
        assert value.dtype is not None
        pointer = w.access.pointer
        if at:
            pointer = w.emit(f"getelementptr inbounds i8, ptr {pointer}, i64 {at}")
        w.lines.append(f"store {stored_type(value.dtype)} {value.text}, ptr {pointer}, align 1")
        at += value.dtype.itemsize
    w.wrong.clear()
    return (
        _loop(0, check, parallel=True)
        + _checks(check, "loop1")
        + _loop(1, w, parallel=False)
        + "done1:\n"
        + _count_writes("1")
        + "  ret i64 0\n"
    )


def _modifying(check: LaneWriter, w: LaneWriter, instruction: Instruction) -> str:
    modify(check, instruction)
    check.written.clear()
    old, new = modify(w, instruction)
    assert new.dtype is not None
    w.lines.append(f"store {llvm_type(new.dtype)} {new.text}, ptr {w.access.pointer}, align 1")
    for name in w.written:
        if name in w.layout.rows:
            w.store_row(w.row(name), w.canonical(name))
    unsigned = np.dtype(f"u{new.dtype.itemsize}")
    before, after = w.bits(old, unsigned), w.bits(new, unsigned)
    different = w.emit(
        f"zext i1 {w.emit(f'icmp ne {llvm_type(unsigned)} {before.text}, {after.text}')} to i64"
    )
    w.lines.append(f"%changed = or i64 %changes, {different}")
    w.wrong.clear()
    return (
        _loop(0, check, parallel=True)
        + _checks(check, "loop1")
        + _loop(1, w, parallel=False, carried="%changes = phi i64 [ 0, %ready ], [ %changed, %loop1 ]")
        + "done1:\n"
        + _count_writes("%changed")
        + "  ret i64 0\n"
    )


def _loop(number: int, w: LaneWriter, *, parallel: bool, carried: str = "") -> str:
    """A loop over the lanes; the lowest address that each instruction may not access comes out of it as ``%worstN``."""
    before = "entry" if number == 0 else "ready"
    lines = [
        f"{w.lane} = phi i64 [ %first, %{before} ], [ %next{number}, %loop{number} ]",
        *filter(None, [carried]),
    ]
    for index, (_, wrong) in enumerate(w.wrong):
        lines.append(f"%bad{index} = phi i64 [ -1, %{before} ], [ %worst{index}, %loop{number} ]")
        w.lines.append(f"%worst{index} = call i64 @llvm.umin.i64(i64 %bad{index}, i64 {wrong})")
    lines += [
        *w.lines,
        f"%next{number} = add nuw nsw i64 {w.lane}, 1",
        f"%more{number} = icmp ult i64 %next{number}, %end",
        f"br i1 %more{number}, label %loop{number}, label %done{number}, !llvm.loop {'!1' if parallel else '!5'}",
    ]
    return "\n  ".join([f"loop{number}:", *lines]) + "\n"


def _checks(w: LaneWriter, following: str) -> str:
    """What comes after the first loop: the function returns if a lane may not access what it asked for."""
    lines = ["done0:"]
    if w.wrong:
        address = f"getelementptr inbounds i8, ptr %s, i64 {RECORD.offset('address')}"
        for index, (site, _) in enumerate(w.wrong):
            after = f"right{index}" if index + 1 < len(w.wrong) else "allowed"
            lines += [
                f"  %is_bad{index} = icmp ne i64 %worst{index}, -1",
                f"  br i1 %is_bad{index}, label %wrong{index}, label %{after}",
                f"wrong{index}:",
                f"  %where{index} = {address}",
                f"  store i64 %worst{index}, ptr %where{index}",
                f"  ret i64 {site + 1}",
                f"{after}:",
            ]
    lines += ["  br label %ready", "ready:", f"  br label %{following}"]
    return "\n".join([*lines, ""])


def _count_writes(number: str) -> str:
    at = f"getelementptr inbounds i8, ptr %s, i64 {RECORD.offset('writes')}"
    return (
        f"  %writes_at = {at}\n  %writes = load i64, ptr %writes_at\n"
        f"  %writes_now = add i64 %writes, {number}\n  store i64 %writes_now, ptr %writes_at\n"
    )
