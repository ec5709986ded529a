"""Translation of bulk copies: ``cp.async.bulk``, ``cp.reduce.async.bulk``, of tensors too, ``st.async``, ``red.async``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.arithmetic import DTYPES, UnknownInstruction
from drv.simulator.execution.asynchronous.bulk_copies import REDUCTIONS
from drv.simulator.memory.address_space import SHARED_WINDOW
from drv.simulator.memory.tensor_map import BYTES as MAP_BYTES
from drv.simulator.ptx.program import Address, Vector

from .memory_instructions import MemoryInstructions

if TYPE_CHECKING:
    from drv.simulator.ptx.program import Instruction, Operand

_SHARED = ("shared", "shared::cta", "shared::cluster")
_MBARRIER, _GROUP = "mbarrier::complete_tx::bytes", "bulk_group"
_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_BITWISE = ("and", "or", "xor")
_DIMENSIONS = {f"{rank}d": rank for rank in range(1, 6)}
_HINT, _MULTICAST = "L2::cache_hint", "multicast::cluster"
#: Types that reductions combine; those of 16-bit floats never flush subnormal numbers.
_REDUCED = ("u32", "s32", "u64", "s64", "b32", "b64", "f16", "bf16", "f32", "f64")
_STORED = ("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64")
#: Fields of tensor maps that ``tensormap.replace`` changes, and those of them that every dimension has.
_MAP_ORDINALS = {"box_dim", "global_dim", "global_stride", "element_stride"}
_MAP_FIELDS = {
    "global_address",
    "rank",
    "elemtype",
    "interleave_layout",
    "swizzle_mode",
    "swizzle_atomicity",
    "fill_mode",
}
_MAP_FIELDS |= _MAP_ORDINALS
_KNOWN = (
    "forms that are known: from global memory to .shared::cta or .shared::cluster with an mbarrier; from shared memory "
    "to .shared::cluster with an mbarrier, or to global memory with a bulk_group; of tensors .tile and .im2col, .1d to .5d"
)


class BulkInstructions(MemoryInstructions):
    """Instructions become calls of the classes of :mod:`drv.simulator.execution.asynchronous`."""

    def bulk_address(self, operand: Operand, space: str) -> str:
        """An address as the text of a pair: base and offset."""
        base, offset = self.address(operand, space)
        return f"({base}, {offset})"

    def bulk(self, instruction: Instruction) -> None:
        """``cp.async.bulk``, ``cp.reduce.async.bulk``."""
        fields = instruction.fields[1:]
        reduces = fields[0] == "reduce"
        rest = fields[3:] if reduces else fields[2:]
        if rest[:1] == ["commit_group"]:
            self.lines.append("X.commit_bulk_copies()")
        elif rest[:1] == ["wait_group"] and rest[1:] in ([], ["read"]):
            count = self.number_of(instruction.operands[0])
            self.lines.append(f"X.wait_for_bulk_copies({count}, {rest[1:] == ['read']})")
        elif rest[:1] == ["prefetch"]:
            self._prefetch(instruction)
        elif rest[:1] == ["tensor"]:
            self._tensor(instruction, rest[1:], reduces)
        else:
            self._range(instruction, rest, reduces)

    def _prefetch(self, instruction: Instruction) -> None:
        """A hint, whose operands are evaluated and not used."""
        target = instruction.operands[0]
        if not isinstance(target, Address):
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        self.address(target, "global")

    def _reduction(self, instruction: Instruction, fields: list[str]) -> str:
        """Operation and type of a reduction, as the text of a pair."""
        operation, ptx_type = (
            next((qualifier for qualifier in fields if qualifier in _OPERATIONS), ""),
            fields[-1],
        )
        if operation in _BITWISE:
            ptx_type = f"b{ptx_type[1:]}"
        if (operation, ptx_type) not in REDUCTIONS:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        return repr((operation, ptx_type))

    def _range(self, instruction: Instruction, fields: list[str], reduces: bool) -> None:
        operands = list(instruction.operands)
        known = {*_SHARED, "global", _MBARRIER, _GROUP, _HINT, _MULTICAST}
        if reduces:
            known |= {*_OPERATIONS, *_REDUCED, "noftz"}
        if set(fields) - known or len(fields) < 3 or (_GROUP in fields) is (_MBARRIER in fields):
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        reduction = self._reduction(instruction, fields) if reduces else "None"
        if _HINT in fields:
            operands.pop()
        site, size = self.site(instruction), self.use(operands[2], "u32")
        spaces = ["shared" if qualifier in _SHARED else qualifier for qualifier in fields[:2]]
        into, origin = (self.bulk_address(each, space) for each, space in zip(operands, spaces, strict=False))
        if spaces == ["shared", "global"] and _MBARRIER in fields and not reduces:
            mask = self.use(operands[4], "u16") if _MULTICAST in fields else "None"
            mbarrier = self.bulk_address(operands[3], "shared")
            call = f"X.bulk_to_shared({site}, {into}, {origin}, {size}, {mbarrier}, {mask})"
        elif spaces == ["shared", "shared"] and _MBARRIER in fields and fields[0] == "shared::cluster":
            mbarrier = self.bulk_address(operands[3], "shared")
            call = f"X.bulk_within_cluster({site}, {into}, {origin}, {size}, {mbarrier}, {reduction})"
        elif spaces == ["global", "shared"] and _GROUP in fields:
            call = f"X.bulk_to_global({site}, {into}, {origin}, {size}, {reduction})"
        else:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        self.lines.append(call)

    # Tensors

    def _tensor(self, instruction: Instruction, fields: list[str], reduces: bool) -> None:
        operands = list(instruction.operands)
        rank = _DIMENSIONS.get(fields[0], 0)
        spaces = ["shared" if qualifier in _SHARED else qualifier for qualifier in fields[1:3]]
        known = {*_SHARED, "global", _MBARRIER, _GROUP, _HINT, _MULTICAST, "tile", "im2col", "im2col_no_offs"}
        operation = "None"
        if reduces:
            known |= set(_OPERATIONS)
            operation = repr(next((qualifier for qualifier in fields if qualifier in _OPERATIONS), None))
        if not rank or set(fields[1:]) - known or (reduces and operation == "None"):
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        if _HINT in fields:
            operands.pop()
        site = self.site(instruction)
        if spaces == ["shared", "global"] and _MBARRIER in fields and not reduces:
            into = self.bulk_address(operands[0], "shared")
            tensor = self._tensor_operand(instruction, operands[1], rank)
            mbarrier = self.bulk_address(operands[2], "shared")
            rest = operands[3:]
            offsets = "None"
            if "im2col" in fields:
                offsets = self._all_numbers(instruction, rest.pop(0), rank - 2, "u16")
            mask = self.use(rest.pop(0), "u16") if _MULTICAST in fields else "None"
            call = f"X.tensor_to_shared({site}, {tensor}, {offsets}, {into}, {mbarrier}, {mask})"
        elif spaces == ["global", "shared"] and _GROUP in fields and "im2col" not in fields:
            tensor = self._tensor_operand(instruction, operands[0], rank)
            origin = self.bulk_address(operands[1], "shared")
            offsets = "()" if "im2col_no_offs" in fields else "None"
            call = f"X.tensor_to_global({site}, {tensor}, {offsets}, {origin}, {operation})"
        else:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        self.lines.append(call)

    def _tensor_operand(self, instruction: Instruction, operand: Operand, rank: int) -> str:
        """A tensor map and coordinates, as the text of two arguments."""
        if not isinstance(operand, Address) or len(operand.coordinates) != 1:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        coordinates = self._all_numbers(instruction, operand.coordinates[0], rank, "s32")
        return f"{self.bulk_address(operand, 'generic')}, {coordinates}"

    def _all_numbers(self, instruction: Instruction, operand: Operand, count: int, ptx_type: str) -> str:
        if not isinstance(operand, Vector) or len(operand.items) != count:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        return f"({''.join(f'{self.use(item, ptx_type)}, ' for item in operand.items)})"

    # Tensor maps

    def do_tensormap(self, instruction: Instruction) -> None:
        fields, operands = instruction.fields, list(instruction.operands)
        space = "shared" if any(qualifier in _SHARED for qualifier in fields) else "generic"
        if fields[1] == "cp_fenceproxy":
            if self.number_of(operands[2]) != MAP_BYTES:
                raise UnknownInstruction(instruction.opcode)
            into, origin = self.bulk_address(operands[0], "global"), self._generic(operands[1], "shared")
            self.lines.append(f"X.copy_tensor_map({self.site(instruction)}, {into}, {origin})")
            return
        field = fields[3] if len(fields) > 3 else ""
        if fields[1:3] != ["replace", "tile"] or field not in _MAP_FIELDS or "b1024" not in fields:
            raise UnknownInstruction(instruction.opcode)
        target = self._generic(operands[0], space)
        ordinal = self.number_of(operands[1]) if field in _MAP_ORDINALS else 0
        value = self.use(operands[-1], "u64" if fields[-1] == "b64" else "u32")
        where = f"{self.site(instruction)}, {target}, {field!r}, {ordinal}, {value}"
        self.lines.append(f"X.replace_tensor_map({where})")

    def _generic(self, operand: Operand, space: str) -> str:
        """A generic address, as the text of a pair, of an operand that is an address in ``space``."""
        base, offset = self.address(operand, space)
        if space == "shared":
            wide = f"{base}.astype(np.uint64)"
            base = self.emit(f"{wide} + {self.constant('u64', SHARED_WINDOW)}")
        return f"({base}, {offset})"

    # Single values

    def store_async(self, instruction: Instruction) -> None:
        """``st.async`` and ``red.async``."""
        fields, operands = instruction.fields, instruction.operands
        reduces = fields[0] == "red"
        known = {"async", "weak", "relaxed", "cluster", "shared::cluster", _MBARRIER, "v2", "v4"}
        ptx_type = fields[-1]
        known |= set(_OPERATIONS) if reduces else set()
        if set(fields[1:-1]) - known or ptx_type not in _STORED or _MBARRIER not in fields:
            raise UnknownInstruction(instruction.opcode, _KNOWN)
        reduction = self._reduction(instruction, fields) if reduces else "None"
        items = operands[1].items if isinstance(operands[1], Vector) else (operands[1],)
        values = "".join(f"{self.use(item, ptx_type)}, " for item in items)
        into, mbarrier = self.bulk_address(operands[0], "shared"), self.bulk_address(operands[2], "shared")
        assert ptx_type in DTYPES
        self.lines.append(
            f"X.store_asynchronously({self.site(instruction)}, {into}, ({values}), {mbarrier}, {reduction})"
        )
