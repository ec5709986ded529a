"""Python source under construction: the values of registers in a block, by NumPy type."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic import DTYPES, UnknownInstruction
from drv.simulator.ptx.control_flow import operand_registers
from drv.simulator.ptx.program import Address, Immediate, Negated, Register, Symbol, Vector

from .code import Names, Site
from .special_registers import SPECIAL_REGISTERS

if TYPE_CHECKING:
    from drv.simulator.ptx.control_flow import Block
    from drv.simulator.ptx.program import Instruction, Operand

    from .plan import FunctionPlan

#: NumPy type that carries the 16 bytes of a ``.b128`` register; nothing is computed with it.
WIDE = np.dtype(np.complex128)


@functools.cache
def name_of(dtype: np.dtype[Any]) -> str:
    """Its name, which a NumPy type makes anew each time."""
    return dtype.name


class BlockWriter:
    """Writes the statements of one block. Values are names of Python variables, or expressions."""

    def __init__(self, plan: FunctionPlan, block: Block, names: Names) -> None:
        self.plan = plan
        self.block = block
        self.names = names
        self.lines: list[str] = []
        #: Whether what was done before the phase is complete that the block waits for at its end is seen after it.
        self.acquires = False
        #: What asynchronous products are about where the next instruction stands.
        self.products = None if block.products is None else block.products.copy()
        #: How many lines stand before each instruction's.
        self.first_lines: list[tuple[int, Instruction]] = []
        self.inputs: dict[str, str] = {}
        #: Values of registers by NumPy type: register -> {dtype name: Python name}.
        self.values: dict[str, dict[str, str]] = {}
        self.count = 0

    # Values

    def emit(self, expression: str) -> str:
        self.count += 1
        name = f"v{self.count}"
        self.lines.append(f"{name} = {expression}")
        return name

    def constant(self, ptx_type: str, value: int) -> str:
        """Name of a ``(1,)`` array that holds the low bits of ``value`` as PTX type ``ptx_type``."""
        dtype = DTYPES[ptx_type]
        if ptx_type in ("pred", "cc"):
            data = bytes([bool(value)])
        else:
            data = (value & ((1 << 8 * dtype.itemsize) - 1)).to_bytes(dtype.itemsize, "little")
        return self.names.constant(np.frombuffer(data, dtype))

    def immediate(self, operand: Immediate, ptx_type: str) -> str:
        value, dtype = operand.value, DTYPES[ptx_type]
        if operand.kind == "f64" and dtype == np.float32:
            bits = np.array([value], np.uint64).view(np.float64).astype(np.float32).view(np.uint32)
            value = int(bits[0])
        elif operand.kind == "f32" and dtype == np.float64:
            bits = (
                np.array([value & 0xFFFFFFFF], np.uint32).view(np.float32).astype(np.float64).view(np.uint64)
            )
            value = int(bits[0])
        elif operand.kind == "int" and dtype.kind == "f" and dtype.itemsize > 2:
            value = int.from_bytes(np.array(value, dtype).tobytes(), "little")
        return self.constant(ptx_type, value)

    def use(self, operand: Operand, ptx_type: str) -> str:
        """Python name of an operand as PTX type ``ptx_type``."""
        if isinstance(operand, Register):
            if operand.name in self.plan.numbers:
                return self.register(operand.name, ptx_type)
            return self.special(operand.name, ptx_type)
        if isinstance(operand, Immediate):
            return self.immediate(operand, ptx_type)
        if isinstance(operand, Negated):
            return self.emit(f"~{self.use(operand.register, ptx_type)}")
        if isinstance(operand, Symbol):
            return self.as_dtype({"uint64": self.symbol(operand.name)}, DTYPES[ptx_type])
        if isinstance(operand, Address) and isinstance(operand.base, Symbol):
            whole = self.emit(f"{self.symbol(operand.base.name)} + {self.constant('u64', operand.offset)}")
            return self.as_dtype({"uint64": whole}, DTYPES[ptx_type])
        if isinstance(operand, Vector):
            return self.packed(operand, ptx_type)
        raise UnknownInstruction(str(operand))

    @staticmethod
    def number_of(operand: Operand) -> int:
        """The value of an operand that has to be a constant."""
        if not isinstance(operand, Immediate):
            raise UnknownInstruction(str(operand))
        return operand.value

    def register(self, name: str, ptx_type: str) -> str:
        return self.as_dtype(self.known(name), WIDE if ptx_type == "b128" else DTYPES[ptx_type])

    def known(self, name: str) -> dict[str, str]:
        forms = self.values.get(name)
        if forms is None:
            value = f"r{self.plan.numbers[name]}"
            self.inputs[name] = value
            forms = self.values[name] = {name_of(self.plan.dtypes[name]): value}
        return forms

    def as_dtype(self, known: dict[str, str], target: np.dtype[Any]) -> str:
        name = name_of(target)
        if name in known:
            return known[name]
        dtype, value = next((np.dtype(form), value) for form, value in known.items())
        if dtype.itemsize == target.itemsize:
            known[name] = self.emit(f"{value}.view(np.{name})")
        else:
            unsigned = f"uint{8 * target.itemsize}"
            bits = f"uint{8 * dtype.itemsize}"
            if bits not in known:
                known[bits] = self.emit(f"{value}.view(np.{bits})")
            narrow = self.emit(f"{known[bits]}.astype(np.{unsigned})")
            known[name] = narrow if unsigned == name else self.emit(f"{narrow}.view(np.{name})")
        return known[name]

    def canonical(self, name: str) -> str:
        return self.as_dtype(self.values[name], self.plan.dtypes[name])

    def symbol(self, name: str) -> str:
        ptx_type, value = self.plan.kernel.symbol(self.plan, name)
        if ptx_type == "frame":
            return self.emit(f"X.frame + {self.constant('u64', value)}")
        if ptx_type == "global":
            return self.emit(f"X.launch.symbol({name!r})")
        return self.constant("u64", value)

    def special(self, name: str, ptx_type: str) -> str:
        method = SPECIAL_REGISTERS.get(name)
        if method is None:
            raise UnknownInstruction(name)
        value, dtype = method
        key = f"special {name}"
        known = self.values.setdefault(key, {})
        if not known or not value.startswith("X.constant"):
            known.clear()
            known[dtype] = self.emit(value)
        return self.as_dtype(known, DTYPES[ptx_type])

    def define(self, operand: Operand, ptx_type: str, expression: str) -> None:
        """Let a register have the value of ``expression``, which has PTX type ``ptx_type``."""
        if not isinstance(operand, Register):
            if operand is not None:
                raise UnknownInstruction(f"result {operand}")
            self.lines.append(expression)
            return
        declared = self.plan.dtypes[operand.name]
        dtype = WIDE if ptx_type == "b128" else DTYPES[ptx_type]
        value = expression if expression.isidentifier() else self.emit(expression)
        if dtype.itemsize < declared.itemsize and ptx_type != "pred":
            sign = "" if dtype.kind == "i" else "u"
            if dtype.kind == "f":
                value = self.emit(f"{value}.view(np.uint{8 * dtype.itemsize})")
            dtype = np.dtype(f"{sign}int{8 * declared.itemsize}")
            value = self.emit(f"{value}.astype(np.{name_of(dtype)})")
        self.values[operand.name] = {name_of(dtype): value}

    def packed(self, operand: Vector, ptx_type: str) -> str:
        if not ptx_type.startswith("b") or len(operand.items) not in (2, 4, 8):
            raise UnknownInstruction(str(operand))
        if ptx_type == "b128":
            low, high = (self.use(item, "b64") for item in operand.items)
            return self.emit(f"X.joined({low}, {high})")
        size = DTYPES[ptx_type].itemsize
        each = size // len(operand.items)
        unsigned = f"np.uint{8 * size}"
        terms = []
        for position, item in enumerate(operand.items):
            wide = self.emit(f"{self.use(item, f'u{8 * each}')}.astype({unsigned})")
            terms.append(
                wide if not position else f"({wide} << {self.constant(f'u{8 * size}', 8 * each * position)})"
            )
        return self.emit(" | ".join(terms))

    # Sites and registers without a value

    def undefined(self, instruction: Instruction) -> None:
        for name in list(operand_registers(instruction.operands[0])) if instruction.operands else []:
            if name in self.plan.numbers and name not in self.values:
                self.values[name] = {name_of(self.plan.dtypes[name]): self.zero(name)}

    def zero(self, name: str) -> str:
        return self.names.constant(np.zeros(1, self.plan.dtypes[name]))

    def site(self, instruction: Instruction) -> str:
        site = Site(instruction, self.plan.function.name)
        self.plan.kernel.sites.append(site)
        return self.names.site(site)
