"""What native code does for an instruction: arithmetic, loads, stores, atomic operations, exchanges between lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drv.simulator.arithmetic import DTYPES, UnknownInstruction, resolve
from drv.simulator.execution.translation.memory_instructions import MemoryInstructions
from drv.simulator.execution.translation.plan import PARAMETER_WINDOW
from drv.simulator.memory.address_space import LOCAL_WINDOW, SHARED_WINDOW
from drv.simulator.ptx.program import Address, Immediate, Pair, Register, Symbol, Vector

from .forms import NotNative, Value, llvm_type, native_form
from .scheduling import CONSTANT, ROW, SHARED_VALUE
from .writer import LaneWriter, stored_type

if TYPE_CHECKING:
    from drv.simulator.ptx.program import Instruction, Operand

_U32, _U64, _I64 = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.int64)
#: Numbers of a site: first address, bytes, address on the host, and whether a lane's shared or local memory is added.
SITE_FIELDS = 5
SHUFFLES = ("up", "down", "bfly", "idx")
VOTES = ("ballot", "any", "all", "uni")
_SPACES = ("global", "const", "shared", "local", "generic")
_LOAD_QUALIFIERS = {
    "ld",
    "ldu",
    "nc",
    "volatile",
    "relaxed",
    "weak",
    "acquire",
    "gpu",
    "sys",
    "cta",
    "cluster",
    "mmio",
}
_STORE_QUALIFIERS = {"st", "volatile", "relaxed", "weak", "release", "gpu", "sys", "cta", "cluster", "mmio"}
_ATOMIC_QUALIFIERS = {
    "atom",
    "red",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "gpu",
    "sys",
    "cta",
    "cluster",
    "noftz",
}
_CACHE_HINTS = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "no_allocate", "evict_first", "evict_last", "evict_normal",
                "evict_unchanged", "L1::no_allocate", "L1::evict_last", "L1::evict_first", "L1::evict_normal",
                "L1::evict_unchanged", "L2::64B", "L2::128B", "L2::256B"}  # fmt: skip


def compute(w: LaneWriter, instruction: Instruction) -> None:
    """Write what an instruction that reads and computes does. Raises :class:`NotNative`."""
    base = instruction.base
    try:
        if base == "mov":
            _move(w, instruction)
        elif base == "cvta":
            _convert_address(w, instruction)
        elif base in ("ld", "ldu"):
            _load(w, instruction)
        else:
            _arithmetic(w, instruction)
    except (UnknownInstruction, LookupError, ValueError, TypeError, AttributeError) as error:
        # What does not make sense is reported by Python, if it is ever reached.
        raise NotNative(str(error)) from error


def _arithmetic(w: LaneWriter, instruction: Instruction) -> None:
    results = instruction.operands[0]
    targets = [results.first, results.second] if isinstance(results, Pair) else [results]
    sources = instruction.operands[1:]
    operation = resolve(instruction.opcode, len(sources), len(targets))
    if "cc" in operation.operands or "cc" in operation.results:
        raise NotNative("the carry flag")
    operands = [w.use(source, t) for source, t in zip(sources, operation.operands, strict=True)]
    if operation.expression is not None:
        values = [w.expression(operation.expression, operands)]
    else:
        values = native_form(w, instruction.opcode, operands)
    for target, ptx_type, value in zip(targets, operation.results, values, strict=False):
        w.define(target, w.bits(value, DTYPES[ptx_type]))


def _move(w: LaneWriter, instruction: Instruction) -> None:
    target, source = instruction.operands
    ptx_type = instruction.fields[-1]
    if isinstance(target, Vector):
        whole_type = f"u{8 * DTYPES[ptx_type].itemsize}"
        bits = 8 * DTYPES[ptx_type].itemsize // len(target.items)
        whole = w.use(source, whole_type)
        for position, item in enumerate(target.items):
            if item is not None:
                shifted = w.shift("RShift", whole, Value(str(bits * position), whole.dtype))
                w.define(item, w.converted(shifted, DTYPES[f"u{bits}"]))
        return
    w.define(target, w.use(source, ptx_type))


def _convert_address(w: LaneWriter, instruction: Instruction) -> None:
    target, source = instruction.operands
    fields = instruction.fields
    value = w.use(source, "u64")
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(fields[-2].partition("::")[0])
    if window is not None:
        operation = "sub" if "to" in fields else "add"
        value = Value(w.emit(f"{operation} i64 {value.text}, {window}"), _U64)
    w.define(target, value)


# Memory


def _access(instruction: Instruction, known: set[str]) -> tuple[str, int, str]:
    space, lanes, ptx_type = MemoryInstructions.access(instruction)
    rest = {
        qualifier
        for qualifier in instruction.fields[:-1]
        if qualifier.partition("::")[0] not in (*_SPACES, "v2", "v4", "v8")
    }
    elsewhere = any(
        qualifier.startswith("shared::") and qualifier != "shared::cta" for qualifier in instruction.fields
    )
    if rest - known - _CACHE_HINTS or space not in (*_SPACES, "param") or elsewhere:
        raise NotNative(instruction.opcode)
    return space, lanes, ptx_type


def _load(w: LaneWriter, instruction: Instruction) -> None:
    target, address = instruction.operands[:2]
    if instruction.fields[1] == "param" and isinstance(address, Address) and isinstance(address.base, Symbol):
        _load_argument(w, instruction)
        return
    space, lanes, ptx_type = _access(instruction, _LOAD_QUALIFIERS | {"param"})
    if instruction.fields[1] == "param":
        space = "param"
    dtype = DTYPES[ptx_type]
    targets = target.items if isinstance(target, Vector) else (target,)
    if len(targets) != lanes or len(instruction.operands) > 2 or dtype.kind == "b":
        raise NotNative(instruction.opcode)
    access = LaneAccess(w, space, address, dtype.itemsize * lanes)
    ir_type = llvm_type(dtype)
    for index, each in enumerate(targets):
        pointer = access.pointer
        if index:
            pointer = w.emit(f"getelementptr inbounds i8, ptr {pointer}, i64 {index * dtype.itemsize}")
        text = w.emit(f"load {ir_type}, ptr {pointer}, align 1, !llvm.access.group !0")
        w.define(each, Value(text, dtype))


def _load_argument(w: LaneWriter, instruction: Instruction) -> None:
    """Load a kernel's parameter, or an element of one."""
    target, address = instruction.operands[:2]
    assert isinstance(address, Address) and isinstance(address.base, Symbol)
    first = w.plan.argument_offsets[address.base.name] + address.offset
    dtype = DTYPES[instruction.fields[-1]]
    ir_type = stored_type(dtype)
    for index, each in enumerate(target.items if isinstance(target, Vector) else (target,)):
        at = first + index * dtype.itemsize
        pointer = w.at_head(
            f"at argument {at}", f"getelementptr inbounds i8, ptr {w.field('arguments')}, i64 {at}"
        )
        w.define(
            each,
            Value(w.at_head(f"argument {at} {ir_type}", f"load {ir_type}, ptr {pointer}, align 1"), dtype),
        )


class LaneAccess:
    """Where this lane's access goes: ``pointer``, on the host, to something harmless if the lane may not go there.

    ``allowed`` tells (an ``i1``). The lowest address that is not allowed is gathered for ``site``, and asked about when all
    lanes have been through.
    """

    def __init__(self, w: LaneWriter, space: str, address: Operand, width: int) -> None:
        if not isinstance(address, Address) or width > 16 or width & (width - 1):
            raise NotNative("an access that is no power of two")
        self.site = w.next_site()
        base, offset = _base(w, address)
        if space in ("shared", "local") and base.dtype == _U32 and offset:
            # 32-bit addresses wrap around.
            base = Value(w.emit(f"add i32 {base.text}, {offset & 0xFFFFFFFF}"), _U32)
            offset = 0
        text = w.converted(base, _U64).text
        if offset:
            text = w.emit(f"add i64 {text}, {offset}")
        self.address = text
        relative_extra = None
        if space == "param":
            size, host = w.field("argument_bytes"), w.field("arguments")
            relative = w.emit(f"sub i64 {text}, {PARAMETER_WINDOW}")
        elif space in ("shared", "local"):
            size = w.field("shared_bytes" if space == "shared" else "local_bytes")
            relative, host = text, w.field(space)
            relative_extra = _lane_memory(w, space)
        else:
            first, size, host, shared, local = (
                w.at_head(f"site {self.site} {name}", f"load {'ptr' if name == 'host' else 'i64'}, ptr {at}")
                for name, at in (
                    (name, _site_field(w, self.site, index))
                    for index, name in enumerate(("first", "size", "host", "shared", "local"))
                )
            )
            relative = w.emit(f"sub i64 {text}, {first}")
            if space == "generic":
                w.generic.add(self.site)
                extra = [
                    w.emit(f"and i64 {factor}, {_lane_memory(w, name)}")
                    for name, factor in (("shared", shared), ("local", local))
                ]
                relative_extra = w.emit(f"or i64 {extra[0]}, {extra[1]}")
        last = w.at_head(f"last {size} {width}", f"sub i64 {size}, {width}")
        enough = w.at_head(f"enough {size} {width}", f"icmp uge i64 {size}, {width}")
        inside = w.emit(f"icmp ule i64 {relative}, {last}")
        inside = w.emit(f"and i1 {inside}, {enough}")
        if width > 1:
            low = w.emit(f"and i64 {relative}, {width - 1}")
            inside = w.emit(f"and i1 {inside}, {w.emit(f'icmp eq i64 {low}, 0')}")
        self.allowed = inside
        offset_text = relative if relative_extra is None else w.emit(f"add i64 {relative}, {relative_extra}")
        offset_text = w.emit(f"select i1 {inside}, i64 {offset_text}, i64 0")
        self.pointer = w.emit(f"getelementptr inbounds i8, ptr {host}, i64 {offset_text}")
        wrong = w.emit(f"select i1 {inside}, i64 -1, i64 {text}")
        w.wrong.append((self.site, wrong))


def _base(w: LaneWriter, address: Address) -> tuple[Value, int]:
    if isinstance(address.base, Immediate):
        return Value(str(address.base.value & 0xFFFFFFFFFFFFFFFF), _U64), address.offset
    register = address.base.name if isinstance(address.base, Register) else ""
    if register in w.plan.numbers and w.plan.dtypes[register].itemsize == 4:
        return w.use(address.base, "u32"), address.offset
    return w.use(address.base, "u64"), address.offset


def _site_field(w: LaneWriter, site: int, index: int) -> str:
    number = SITE_FIELDS * site + index
    return w.at_head(
        f"site field {number}", f"getelementptr inbounds i64, ptr {w.field('sites')}, i64 {number}"
    )


def _lane_memory(w: LaneWriter, space: str) -> str:
    """Byte at which this lane's shared or local memory begins in that of all."""
    if space == "local":
        return w.emit(f"mul i64 {w.lane}, {w.field('local_stride')}")
    return w.load_row(w.field("shared_base"), _I64).text


def store(w: LaneWriter, instruction: Instruction) -> list[Value]:
    """Write where a store goes, for this lane; returns what it stores there, side by side."""
    space, lanes, ptx_type = _access(instruction, _STORE_QUALIFIERS)
    address, value = instruction.operands[:2]
    sources = value.items if isinstance(value, Vector) else (value,)
    dtype = DTYPES[ptx_type]
    if len(sources) != lanes or len(instruction.operands) > 2 or dtype.kind == "b" or None in sources:
        raise NotNative(instruction.opcode)
    w.access = LaneAccess(w, space, address, dtype.itemsize * lanes)
    return [w.use(each, ptx_type) for each in sources]


_ATOMICS = {"add": "add", "and": "and", "or": "or", "xor": "xor"}


def modify(w: LaneWriter, instruction: Instruction) -> tuple[Value, Value]:
    """Write an atomic operation of this lane: returns the old value and the new one, which it has not stored."""
    operands = list(instruction.operands)
    target = operands.pop(0) if instruction.base == "atom" else None
    fields = [qualifier.partition("::")[0] for qualifier in instruction.fields]
    operation = next(
        (
            qualifier
            for qualifier in fields[1:]
            if qualifier in (*_ATOMICS, "min", "max", "exch", "cas", "inc", "dec")
        ),
        "",
    )
    space = next((qualifier for qualifier in fields[1:] if qualifier in ("global", "shared")), "generic")
    ptx_type = fields[-1]
    if any(
        qualifier.startswith("shared::") and qualifier != "shared::cta" for qualifier in instruction.fields
    ):
        raise NotNative(instruction.opcode)
    rest = set(fields[:-1]) - _ATOMIC_QUALIFIERS - {"global", "shared", operation}
    integer = ptx_type in ("u32", "s32", "u64", "s64", "b32", "b64")
    floating = ptx_type in ("f32", "f64") and operation == "add"
    if (
        not operation
        or rest
        or not (integer or floating)
        or any(isinstance(each, Vector) for each in operands)
    ):
        raise NotNative(instruction.opcode)
    if len(operands) != (3 if operation == "cas" else 2) or not isinstance(target, (Register, type(None))):
        raise NotNative(instruction.opcode)
    dtype = DTYPES[ptx_type]
    ir_type = llvm_type(dtype)
    w.access = LaneAccess(w, space, operands[0], dtype.itemsize)
    values = [w.use(each, ptx_type) for each in operands[1:]]
    old = Value(w.emit(f"load {ir_type}, ptr {w.access.pointer}, align 1"), dtype)
    value = values[0]
    if operation in _ATOMICS:
        name = f"f{operation}" if floating else _ATOMICS[operation]
        new = Value(w.emit(f"{name} {ir_type} {old.text}, {value.text}"), dtype)
    elif operation == "exch":
        new = value
    elif operation == "cas":
        same = w.emit(f"icmp eq {ir_type} {old.text}, {value.text}")
        new = Value(w.emit(f"select i1 {same}, {ir_type} {values[1].text}, {ir_type} {old.text}"), dtype)
    elif operation in ("min", "max") and dtype.kind in "iu" and ptx_type[0] != "b":
        new = w.expression(f"np.{operation}imum({{0}}, {{1}})", [old, value])
    elif operation == "inc" and ptx_type == "u32":
        new = w.expression("np.where({0} >= {1}, np.uint32(0), {0} + np.uint32(1))", [old, value])
    elif operation == "dec" and ptx_type == "u32":
        new = w.expression("np.where(({0} == 0) | ({0} > {1}), {1}, {0} - np.uint32(1))", [old, value])
    else:
        raise NotNative(instruction.opcode)
    if target is not None:
        w.define(target, old)
    return old, new


# Exchanges


def exchange(w: LaneWriter, instruction: Instruction) -> tuple[str, list[int]]:
    """The function that does an exchange between lanes, and its description."""
    fields = instruction.fields
    operands = instruction.operands
    if instruction.base == "activemask":
        return "active_lanes", [_row_of(w, operands[0])]
    if instruction.base == "vote":
        mode = fields[2]
        if fields[1] != "sync" or mode not in VOTES or len(operands) != 3:
            raise NotNative(instruction.opcode)
        if isinstance(operands[1], Immediate):
            predicate = [CONSTANT, int(bool(operands[1].value))]
        elif isinstance(operands[1], Register):
            predicate = _source(w, operands[1], 1)
        else:
            raise NotNative(instruction.opcode)
        return "vote", [VOTES.index(mode), *predicate, *_source(w, operands[2], 4), _row_of(w, operands[0])]
    mode = fields[2] if fields[1] == "sync" else fields[1]
    if mode not in SHUFFLES or fields[-1] != "b32":
        raise NotNative(instruction.opcode)
    target, value, lane, clamp = operands[:4]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    described = [_source(w, each, 4) for each in (value, lane, clamp)]
    rows = [-1 if each is None else _row_of(w, each) for each in (first, second)]
    return "shuffle", [SHUFFLES.index(mode), *(number for each in described for number in each), *rows]


def _source(w: LaneWriter, operand: Operand, size: int) -> list[int]:
    if isinstance(operand, Immediate) and operand.kind == "int":
        value = operand.value & 0xFFFFFFFF
        return [CONSTANT, value - (1 << 32) if value >> 31 else value]
    if isinstance(operand, Register) and operand.name in w.plan.dtypes:
        if w.plan.dtypes[operand.name].itemsize != size:
            raise NotNative(operand.name)
        if operand.name in w.layout.shared:
            return [SHARED_VALUE, w.layout.shared[operand.name]]
        return [ROW, w.layout.rows[operand.name]]
    raise NotNative(str(operand))


def _row_of(w: LaneWriter, operand: Operand) -> int:
    """Row of a register that an exchange writes; -1 where nothing reads it."""
    if not isinstance(operand, Register) or operand.name not in w.plan.dtypes:
        raise NotNative(str(operand))
    return w.layout.rows.get(operand.name, -1)
