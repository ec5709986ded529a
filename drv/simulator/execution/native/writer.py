"""A native function under construction: a loop over lanes, or several, one after the other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic import DTYPES
from drv.simulator.execution.translation.special_registers import SPECIAL_REGISTERS
from drv.simulator.ptx.program import Address, Immediate, Negated, Register, Symbol, Vector

from .forms import NotNative, OperandEmitter, Value, llvm_type
from .scheduling import RECORD

if TYPE_CHECKING:
    from drv.simulator.execution.translation.plan import FunctionPlan
    from drv.simulator.ptx.program import Operand

    from .layout import Layout

_CONSTANT = re.compile(r"X\.constant\('(\w+)'(?:, (\d))?\)")
_U32, _U64 = np.dtype(np.uint32), np.dtype(np.uint64)
#: Special registers of the launch's shape, in the order of the record's array ``shape``.
SHAPE = (
    *(f"%{name}.{axis}" for name in ("ntid", "nctaid") for axis in "xyz"),
    "%nwarpid",
    "%dynamic_smem_size",
    "%total_smem_size",
)
#: Metadata of all functions: accesses of a loop that no other iteration's meet, and how loops are compiled.
METADATA = """
!0 = distinct !{}
!1 = distinct !{!1, !2, !3, !4}
!2 = !{!"llvm.loop.parallel_accesses", !0}
!3 = !{!"llvm.loop.unroll.disable"}
!4 = !{!"llvm.loop.interleave.count", i32 1}
!5 = distinct !{!5, !3, !4}
"""


def stored_type(dtype: np.dtype[Any]) -> str:
    """LLVM's type of a row's values: truth values are bytes."""
    return "i8" if dtype.kind == "b" else llvm_type(dtype)


class LaneWriter(OperandEmitter):
    """The statements of one lane, and what is computed once before the loop (``head``)."""

    def __init__(self, plan: FunctionPlan, layout: Layout, before: LaneWriter | None = None) -> None:
        super().__init__("v" if before is None else f"{before.prefix}v")
        #: Number of the lane.
        self.lane = f"%i{len(self.prefix) - 1}"
        self.plan = plan
        self.layout = layout
        #: Lines before all loops, and the values that they compute; shared with the loop ``before``.
        self.head: list[str] = [] if before is None else before.head
        self.known_at_head: dict[str, str] = {} if before is None else before.known_at_head
        #: Values of registers in this lane by NumPy type.
        self.values: dict[str, dict[str, Value]] = {}
        self.written: dict[str, None] = {}
        #: Number of the first memory instruction, and how many there have been.
        self.first_site = 0
        self.sites = 0
        #: Those whose address says which memory is meant.
        self.generic: set[int] = set()
        #: Memory instructions, and this lane's address where it is not allowed (all ones where it is).
        self.wrong: list[tuple[int, str]] = []
        #: Where a store or an atomic operation goes.
        self.access: Any = None

    def next_site(self) -> int:
        """Number of a further instruction that accesses memory."""
        self.sites += 1
        return self.first_site + self.sites - 1

    # Before the loops

    def at_head(self, key: str, text: str) -> str:
        """Name of what ``text`` computes before the loops; the same for one ``key``."""
        if key not in self.known_at_head:
            name = f"%h{len(self.known_at_head)}"
            self.known_at_head[key] = name
            self.head.append(f"{name} = {text}")
        return self.known_at_head[key]

    def field(self, name: str) -> str:
        """A field of the record: an address, or a number."""
        ir_type = "i64" if RECORD.fields[name] is None else "ptr"
        at = self.at_head(f"at {name}", f"getelementptr inbounds i8, ptr %s, i64 {RECORD.offset(name)}")
        return self.at_head(f"field {name}", f"load {ir_type}, ptr {at}")

    def row(self, name: str) -> str:
        """Address of a register's row."""
        try:
            offset = self.layout.rows[name]
        except KeyError:
            raise NotNative(f"{name} has no row") from None
        at = self.at_head(f"row offset {offset}", f"mul i64 {self.field('capacity')}, {offset}")
        return self.at_head(
            f"row {offset}", f"getelementptr inbounds i8, ptr {self.field('registers')}, i64 {at}"
        )

    def shared_value(self, number: int, dtype: np.dtype[Any]) -> Value:
        """A value that all threads have."""
        pointer = self.at_head(
            f"at shared {number}",
            f"getelementptr inbounds i64, ptr {self.field('shared_values')}, i64 {number}",
        )
        ir_type = stored_type(dtype)
        text = self.at_head(f"shared {number} {ir_type}", f"load {ir_type}, ptr {pointer}")
        if dtype.kind == "b":
            text = self.at_head(f"shared {number} i1", f"trunc i8 {text} to i1")
        return Value(text, dtype)

    # In the loop

    def lane_pointer(self, base: str, ir_type: str) -> str:
        return self.emit(f"getelementptr inbounds {ir_type}, ptr {base}, i64 {self.lane}")

    def load_row(self, base: str, dtype: np.dtype[Any]) -> Value:
        """The lane's value of a row."""
        ir_type = stored_type(dtype)
        text = self.emit(f"load {ir_type}, ptr {self.lane_pointer(base, ir_type)}, !llvm.access.group !0")
        return Value(self.emit(f"trunc i8 {text} to i1") if dtype.kind == "b" else text, dtype)

    def store_row(self, base: str, value: Value) -> None:
        """Set this lane's value of a row."""
        assert value.dtype is not None
        ir_type = stored_type(value.dtype)
        text = self.emit(f"zext i1 {value.text} to i8") if value.dtype.kind == "b" else value.text
        self.lines.append(
            f"store {ir_type} {text}, ptr {self.lane_pointer(base, ir_type)}, !llvm.access.group !0"
        )

    # Operands

    def use(self, operand: Operand, ptx_type: str) -> Value:
        """An operand as PTX type ``ptx_type``."""
        dtype = DTYPES.get(ptx_type)
        if dtype is None:
            raise NotNative(ptx_type)
        if isinstance(operand, Immediate):
            return self.immediate(operand, ptx_type)
        if isinstance(operand, Negated):
            return Value(self.emit(f"xor i1 {self.use(operand.register, ptx_type).text}, true"), dtype)
        if isinstance(operand, Symbol):
            return self.resized(self.symbol(operand.name), dtype)
        if isinstance(operand, Address) and isinstance(operand.base, Symbol):
            base = self.symbol(operand.base.name)
            return self.resized(Value(self.emit(f"add i64 {base.text}, {operand.offset}"), _U64), dtype)
        if isinstance(operand, Register):
            if operand.name in self.plan.numbers:
                return self.register(operand.name, dtype)
            return self.resized(self.special(operand.name), dtype)
        if isinstance(operand, Vector):
            return self.packed(operand, dtype)
        raise NotNative(str(operand))

    def register(self, name: str, dtype: np.dtype[Any]) -> Value:
        """A register's value as another type."""
        if name not in self.plan.dtypes or self.plan.dtypes[name].kind == "c":
            raise NotNative(name)
        forms = self.values.get(name)
        if forms is None:
            own = self.plan.dtypes[name]
            if name in self.layout.shared:
                value = self.shared_value(self.layout.shared[name], own)
            else:
                value = self.load_row(self.row(name), own)
            forms = self.values[name] = {own.name: value}
        if dtype.name not in forms:
            forms[dtype.name] = self.resized(next(iter(forms.values())), dtype)
        return forms[dtype.name]

    def symbol(self, name: str) -> Value:
        """An address that a name stands for."""
        ptx_type, value = self.plan.kernel.symbol(self.plan, name)
        if ptx_type == "global":
            return self.shared_value(self.layout.symbol(name), _U64)
        # The frame of a kernel is the first.
        return Value(str(value), _U64)

    def special(self, name: str) -> Value:
        """A special register."""
        if name in SHAPE:
            number = SHAPE.index(name)
            pointer = self.at_head(
                f"at shape {number}", f"getelementptr inbounds i64, ptr {self.field('shape')}, i64 {number}"
            )
            return Value(self.at_head(f"shape {number}", f"load i32, ptr {pointer}"), _U32)
        text, dtype = SPECIAL_REGISTERS.get(name, ("", ""))
        match = _CONSTANT.fullmatch(text)
        if match is None or dtype != "uint32":
            raise NotNative(name)
        number = self.layout.constant(match[1], None if match[2] is None else int(match[2]))
        pointer = self.at_head(
            f"at constant {number}",
            f"getelementptr inbounds ptr, ptr {self.field('constants')}, i64 {number}",
        )
        return self.load_row(self.at_head(f"constant {number}", f"load ptr, ptr {pointer}"), _U32)

    def define(self, operand: Operand, value: Value) -> None:
        """Let a register have a value; one of fewer bits is extended as its type says."""
        if operand is None:
            return
        if not isinstance(operand, Register) or value.dtype is None:
            raise NotNative(f"result {operand}")
        declared = self.plan.dtypes[operand.name]
        dtype = value.dtype
        if dtype.itemsize < declared.itemsize and dtype.kind != "b":
            sign = "i" if dtype.kind == "i" else "u"
            value = self.bits(value, np.dtype(f"{sign}{dtype.itemsize}"))
            value = self.converted(value, np.dtype(f"{sign}{declared.itemsize}"))
        assert value.dtype is not None
        self.values[operand.name] = {value.dtype.name: value}
        self.written[operand.name] = None

    def canonical(self, name: str) -> Value:
        """A register's value as its row holds it."""
        return self.register(name, self.plan.dtypes[name])
