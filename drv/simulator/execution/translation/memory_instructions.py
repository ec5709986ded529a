"""Translation of loads, stores, atomics, fences and asynchronous copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.arithmetic import DTYPES, UnknownInstruction
from drv.simulator.ptx.program import Address, Immediate, Register, Symbol, Vector

from .block_writer import WIDE, BlockWriter, name_of

if TYPE_CHECKING:
    from drv.simulator.ptx.program import Instruction, Operand

_SPACES = ("global", "shared", "local", "const", "param")
_ATOMIC_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")


class MemoryInstructions(BlockWriter):
    """Instructions become calls of :class:`~drv.simulator.execution.memory.MemoryAccess`."""

    def address(self, operand: Operand, space: str) -> tuple[str, int]:
        """Name of the base addresses, and the constant offset."""
        if not isinstance(operand, Address):
            raise UnknownInstruction(str(operand))
        if isinstance(operand.base, Immediate):
            return self.constant("u64", operand.base.value), operand.offset
        register = operand.base.name if isinstance(operand.base, Register) else ""
        if register in self.plan.numbers and self.plan.dtypes[register].itemsize == 4:
            return self.use(operand.base, "u32"), operand.offset
        return self.use(operand.base, "u64"), operand.offset

    @staticmethod
    def access(instruction: Instruction) -> tuple[str, int, str]:
        """Space (``"generic"`` where none is named), number of elements and PTX type of a load or store."""
        fields = [qualifier.partition("::")[0] for qualifier in instruction.fields]
        space = next((qualifier for qualifier in fields[1:] if qualifier in _SPACES), "generic")
        lanes = next((int(qualifier[1:]) for qualifier in fields if qualifier in ("v2", "v4", "v8")), 1)
        ptx_type = fields[-1]
        if ptx_type not in DTYPES:
            raise UnknownInstruction(instruction.opcode)
        return space, lanes, ptx_type

    def do_ld(self, instruction: Instruction) -> None:
        target, address = instruction.operands[:2]
        space, lanes, ptx_type = self.access(instruction)
        dtype = DTYPES[ptx_type]
        targets = target.items if isinstance(target, Vector) else (target,)
        if len(targets) != lanes:
            raise UnknownInstruction(instruction.opcode)
        if space == "param" and isinstance(address, Address) and isinstance(address.base, Symbol):
            first = self.plan.argument_offsets.get(address.base.name)
            for index, each in enumerate(targets):
                at = address.offset + index * dtype.itemsize
                if first is not None:
                    field = f"X.launch.argument({first + at}, np.{name_of(dtype)})"
                else:
                    field = f"X.field({self.parameter(address.base.name)}, {at}, np.{name_of(dtype)})"
                self.define(each, ptx_type, field)
            return
        base, offset = self.address(address, space)
        site = self.site(instruction)
        call = f"X.load_{space}({site}, {base}, {offset}, np.{name_of(dtype)}, {dtype.itemsize}, {lanes})"
        if lanes == 1:
            self.define(targets[0], ptx_type, call)
            return
        values = self.emit(call)
        for index, each in enumerate(targets):
            if each is not None:
                self.define(each, ptx_type, f"{values}[{index}]")

    do_ldu = do_ld

    def parameter(self, name: str) -> str:
        known = self.known(name)
        return known["parameter"] if "parameter" in known else next(iter(known.values()))

    def do_st(self, instruction: Instruction) -> None:
        if instruction.fields[1] == "async":
            self.store_async(instruction)
            return
        address, value = instruction.operands[:2]
        space, lanes, ptx_type = self.access(instruction)
        dtype = DTYPES[ptx_type]
        sources = value.items if isinstance(value, Vector) else (value,)
        if len(sources) != lanes:
            raise UnknownInstruction(instruction.opcode)
        values = [self.use(each, ptx_type) for each in sources]
        if space == "param" and isinstance(address, Address) and isinstance(address.base, Symbol):
            name = address.base.name
            size = self.plan.parameter_sizes[name]
            for index, each in enumerate(values):
                at = address.offset + index * dtype.itemsize
                old = "None" if size == dtype.itemsize else self.parameter(name)
                self.values[name] = {"uint8": self.emit(f"X.with_field({old}, {size}, {at}, {each})")}
            return
        base, offset = self.address(address, space)
        site = self.site(instruction)
        stored = values[0] if lanes == 1 else f"({', '.join(values)},)"
        self.lines.append(
            f"X.store_{space}({site}, {base}, {offset}, np.{name_of(dtype)}, {dtype.itemsize}, {lanes}, {stored})"
        )

    def store_async(self, instruction: Instruction) -> None:
        """``st.async`` and ``red.async``."""
        raise UnknownInstruction(instruction.opcode)

    def do_red(self, instruction: Instruction) -> None:
        if instruction.fields[1] == "async":
            self.store_async(instruction)
        else:
            self.do_atom(instruction)

    def do_atom(self, instruction: Instruction) -> None:
        operands = list(instruction.operands)
        target = operands.pop(0) if instruction.base == "atom" else None
        fields = [qualifier.partition("::")[0] for qualifier in instruction.fields]
        space = next((qualifier for qualifier in fields[1:] if qualifier in ("global", "shared")), "generic")
        operation = next((qualifier for qualifier in fields[1:] if qualifier in _ATOMIC_OPERATIONS), None)
        ptx_type = fields[-1]
        if operation is None or not (ptx_type in DTYPES or ptx_type == "b128") or "async" in fields:
            raise UnknownInstruction(instruction.opcode)
        dtype = WIDE if ptx_type == "b128" else DTYPES[ptx_type]
        base, offset = self.address(operands[0], space)
        site = self.site(instruction)
        vectors = [each.items if isinstance(each, Vector) else (each,) for each in operands[1:]]
        targets = target.items if isinstance(target, Vector) else (target,)
        for index in range(len(vectors[0])):
            values = [self.use(each[index], ptx_type) for each in vectors]
            if operation == "cas":
                values.reverse()
            into = targets[index] if target is not None else None
            call = (
                f"X.atomic_{space}({site}, {base}, {offset + index * dtype.itemsize}, np.{name_of(dtype)}, "
                f"{dtype.itemsize}, {operation!r}, {ptx_type!r}, {into is not None}, {', '.join(values)})"
            )
            if into is None:
                self.lines.append(call)
            else:
                self.define(into, ptx_type, call)
