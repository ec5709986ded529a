"""Basic blocks to Python source over NumPy arrays.

A block becomes two functions. ``body(X, *inputs)`` takes the lanes that run it and the values of its input
registers, and returns what decides where the lanes go next, followed by the values of the registers
that are live after it. ``whole(R, X)`` does the same on a register file, for lanes that all run
together. Values are arrays of shape ``(lanes,)``, or ``(1,)`` where all lanes have the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..address_space import LOCAL_WINDOW, SHARED_WINDOW
from ..arithmetic import DTYPES, UnknownInstruction, resolve
from ..ptx.control_flow import CARRY, End, operand_registers
from ..ptx.program import (
    TYPE_BYTES,
    Address,
    Group,
    Immediate,
    Instruction,
    Negated,
    Pair,
    Register,
    Symbol,
    Vector,
)
from .special_registers import SPECIAL_REGISTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..ptx.control_flow import Block
    from ..ptx.program import Operand
    from .plan import FunctionPlan

_SPACES = ("global", "shared", "local", "const", "param")
_IGNORED = {
    "prefetch",
    "prefetchu",
    "pmevent",
    "griddepcontrol",
    "discard",
    "applypriority",
    "setmaxnreg",
    "nanosleep",
}
_ATOMIC_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")


#: NumPy type that carries the 16 bytes of a ``.b128`` register; nothing is computed with it.
WIDE = np.dtype(np.complex128)
#: Number of the barrier of a cluster, which is a single block; the block's own are 0 to 15.
CLUSTER_BARRIER = 16


def _polls(instruction: Instruction) -> bool:
    parts = instruction.parts
    if parts[0] == "ld" and "local" not in parts:
        return "volatile" in parts or "relaxed" in parts or "acquire" in parts
    return parts[0] in ("atom", "nanosleep")


class Site:
    """An instruction as reports and memory accesses know it. ``allocation`` is the one last accessed."""

    __slots__ = ("allocation", "function", "ptx_line", "source", "text")

    def __init__(self, instruction: Instruction, function: str) -> None:
        self.function = function
        self.ptx_line = instruction.ptx_line
        self.source = instruction.source
        self.text = instruction.text
        self.allocation: Any = None


class Code:
    """A translated block: see the module's docstring. Registers are numbers in the function's register file."""

    __slots__ = (
        "arrives",
        "block",
        "body",
        "call",
        "inputs",
        "mask",
        "outputs",
        "polls",
        "reduction",
        "site",
        "source",
        "whole",
    )

    def __init__(self, block: Block, source: str, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
        self.block = block
        self.source = source
        self.inputs = inputs
        self.outputs = outputs
        self.body: Callable[..., Any]
        self.whole: Callable[..., Any]
        #: The instruction that ends the block, or that makes its lanes meet first.
        self.site: Site
        self.call: Call | None = None
        #: Register or constant of the member mask, where the block starts with a warp-level meeting.
        self.mask: Any = None
        #: Whether the block ends by arriving at a barrier without waiting.
        self.arrives = False
        #: Register and operation of a barrier that reduces.
        self.reduction: tuple[int, str] = (0, "")
        #: Whether the block reads memory as a loop does that waits for another thread.
        self.polls = any(map(_polls, block.instructions))


class Call:
    """What a call names: a function or a register that holds its address, and parameter registers."""

    __slots__ = ("arguments", "indirect", "results", "target")

    def __init__(
        self, target: str, indirect: bool, arguments: tuple[int, ...], results: tuple[int, ...]
    ) -> None:
        self.target = target
        self.indirect = indirect
        self.arguments = arguments
        self.results = results


def translate(plan: FunctionPlan, block: Block) -> Code:
    """Translate one block of a function."""
    return _Writer(plan, block).code()


class _Writer:
    def __init__(self, plan: FunctionPlan, block: Block) -> None:
        self.plan = plan
        self.block = block
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"np": np}
        self.inputs: dict[str, str] = {}
        #: Values of registers by NumPy type: register -> {dtype name: Python name}.
        self.values: dict[str, dict[str, str]] = {}
        self.constants: dict[tuple[str, bytes], str] = {}
        self.count = 0

    # Results of the translation

    def code(self) -> Code:
        for instruction in self.block.instructions:
            self.instruction(instruction)
        decision = self.decision()
        after = dict.fromkeys([*self.block.live_out, *self.handed_over()])
        outputs = [name for name in after if name in self.values and self.is_written(name)]
        returned = [decision, *(self.canonical(name) for name in outputs)]
        arguments = "".join(f", {value}" for value in self.inputs.values())
        body = [
            f"def body(X{arguments}):",
            *(f"    {line}" for line in self.lines),
            f"    return {', '.join(returned)},",
        ]
        numbers = self.plan.numbers
        into = "".join(f", R[{numbers[name]}]" for name in outputs)
        given = "".join(f", R[{numbers[name]}]" for name in self.inputs)
        whole = ["def whole(R, X):", f"    decision{into}, = body(X{given})", "    return decision"]
        source = "\n".join([*body, *whole])
        code = Code(
            self.block,
            source,
            tuple(numbers[name] for name in self.inputs),
            tuple(numbers[name] for name in outputs),
        )
        exec(compile(source, f"<{self.plan.function.name}, block {self.block.index}>", "exec"), self.names)
        code.body, code.whole = self.names["body"], self.names["whole"]
        if self.block.last is not None:
            code.site = Site(self.block.last, self.plan.function.name)
            if self.block.end is End.CALL:
                code.call = self.call(self.block.last)
            elif self.block.end is End.BARRIER:
                parts = self.block.last.parts
                code.arrives = "arrive" in parts
                if "red" in parts:
                    result = self.block.last.operands[0]
                    assert isinstance(result, Register)
                    operation = next(each for each in ("popc", "and", "or") if each in parts)
                    code.reduction = self.plan.numbers[result.name], operation
        if self.block.converges:
            first = self.block.instructions[0]
            code.mask = self.mask_source(first.operands[-1])
            if self.block.last is None:
                code.site = Site(first, self.plan.function.name)
        return code

    def handed_over(self) -> Iterable[str]:
        """Parameters that the end of the block passes on: arguments of a call, results of a function."""
        if self.block.end is End.CALL and self.block.last is not None:
            return (name for operand in self.block.last.operands for name in operand_registers(operand))
        return (each.name for each in self.plan.function.results)

    def is_written(self, name: str) -> bool:
        return next(iter(self.values[name].values())) != self.inputs.get(name)

    def mask_source(self, operand: Operand) -> Any:
        if isinstance(operand, Register):
            return self.plan.numbers[operand.name]
        assert isinstance(operand, Immediate)
        return np.array([operand.value & 0xFFFFFFFF], np.uint32)

    def call(self, instruction: Instruction) -> Call:
        groups = [operand.items for operand in instruction.operands if isinstance(operand, Group)]
        results = groups.pop(0) if isinstance(instruction.operands[0], Group) else ()
        arguments = groups[0] if groups else ()
        target = next(operand for operand in instruction.operands if not isinstance(operand, Group))
        number = self.plan.numbers
        indirect = isinstance(target, Register)
        name = target.name if isinstance(target, Symbol) else ""
        return Call(
            name,
            indirect,
            tuple(number[each.name] for each in arguments if isinstance(each, Symbol)),
            tuple(number[each.name] for each in results if isinstance(each, Symbol)),
        )

    def decision(self) -> str:
        """What the driver of the block needs to know: a condition, an index, a barrier, an address."""
        last, end = self.block.last, self.block.end
        if last is None or end in (End.FALL, End.JUMP, End.RETURN, End.EXIT):
            return "None"
        if end is End.BRANCH:
            assert last.guard is not None
            register, negated = last.guard
            value = self.use(register, "pred")
            return self.emit(f"~{value}") if negated else value
        if end is End.SWITCH:
            return self.use(last.operands[0], "u32")
        if end is End.CALL:
            target = next(each for each in last.operands if not isinstance(each, Group))
            return self.use(target, "u64") if isinstance(target, Register) else "None"
        operands = list(last.operands)
        if "red" in last.parts:
            operands.pop(0)
            predicate = self.use(operands.pop(), "pred")
        else:
            predicate = "None"
        values = [self.use(each, "u32") for each in operands] + ["None", "None"]
        if not operands:
            values = [self.constant("u32", CLUSTER_BARRIER), "None"]
        return f"({values[0]}, {values[1]}, {predicate})"

    # Values

    def emit(self, expression: str) -> str:
        self.count += 1
        name = f"v{self.count}"
        self.lines.append(f"{name} = {expression}")
        return name

    def bind(self, value: Any, lead: str) -> str:
        name = f"{lead}{len(self.names)}"
        self.names[name] = value
        return name

    def constant(self, kind: str, value: int) -> str:
        """Name of a ``(1,)`` array that holds the low bits of ``value`` as PTX type ``kind``."""
        dtype = DTYPES[kind]
        if kind in ("pred", "cc"):
            data = bytes([bool(value)])
        else:
            data = (value & ((1 << 8 * dtype.itemsize) - 1)).to_bytes(dtype.itemsize, "little")
        key = dtype.name, data
        if key not in self.constants:
            array = np.frombuffer(data, dtype).copy()
            array.flags.writeable = False
            self.constants[key] = self.bind(array, "K")
        return self.constants[key]

    def immediate(self, operand: Immediate, kind: str) -> str:
        value, dtype = operand.value, DTYPES[kind]
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
        return self.constant(kind, value)

    def use(self, operand: Operand, kind: str) -> str:
        """Python name of an operand as PTX type ``kind``."""
        if isinstance(operand, Immediate):
            return self.immediate(operand, kind)
        if isinstance(operand, Negated):
            return self.emit(f"~{self.use(operand.register, kind)}")
        if isinstance(operand, Symbol):
            return self.as_dtype({"uint64": self.symbol(operand.name)}, DTYPES[kind])
        if isinstance(operand, Address) and isinstance(operand.base, Symbol):
            whole = self.emit(f"{self.symbol(operand.base.name)} + {self.constant('u64', operand.offset)}")
            return self.as_dtype({"uint64": whole}, DTYPES[kind])
        if isinstance(operand, Register):
            if operand.name in self.plan.numbers:
                return self.register(operand.name, kind)
            return self.special(operand.name, kind)
        if isinstance(operand, Vector):
            return self.packed(operand, kind)
        raise UnknownInstruction(str(operand))

    def register(self, name: str, kind: str) -> str:
        return self.as_dtype(self.known(name), WIDE if kind == "b128" else DTYPES[kind])

    def known(self, name: str) -> dict[str, str]:
        found = self.values.get(name)
        if found is None:
            value = f"r{self.plan.numbers[name]}"
            self.inputs[name] = value
            found = self.values[name] = {self.plan.dtypes[name].name: value}
        return found

    def as_dtype(self, known: dict[str, str], wanted: np.dtype[Any]) -> str:
        if wanted.name in known:
            return known[wanted.name]
        dtype, value = next((np.dtype(name), value) for name, value in known.items())
        if dtype.itemsize == wanted.itemsize:
            known[wanted.name] = self.emit(f"{value}.view(np.{wanted.name})")
        else:
            unsigned = f"uint{8 * wanted.itemsize}"
            bits = f"uint{8 * dtype.itemsize}"
            if bits not in known:
                known[bits] = self.emit(f"{value}.view(np.{bits})")
            narrow = self.emit(f"{known[bits]}.astype(np.{unsigned})")
            known[wanted.name] = (
                narrow if unsigned == wanted.name else self.emit(f"{narrow}.view(np.{wanted.name})")
            )
        return known[wanted.name]

    def canonical(self, name: str) -> str:
        return self.as_dtype(self.values[name], self.plan.dtypes[name])

    def symbol(self, name: str) -> str:
        kind, value = self.plan.kernel.symbol(self.plan, name)
        if kind == "frame":
            return self.emit(f"X.frame + {self.constant('u64', value)}")
        if kind == "global":
            return self.emit(f"X.launch.symbol({name!r})")
        return self.constant("u64", value)

    def special(self, name: str, kind: str) -> str:
        method = SPECIAL_REGISTERS.get(name)
        if method is None:
            raise UnknownInstruction(name)
        value, dtype = method
        key = f"special {name}"
        known = self.values.setdefault(key, {})
        if not known or not value.startswith("X.constant"):
            known.clear()
            known[dtype] = self.emit(value)
        return self.as_dtype(known, DTYPES[kind])

    def define(self, operand: Operand, kind: str, expression: str) -> None:
        """Let a register have the value of ``expression``, which has PTX type ``kind``."""
        if not isinstance(operand, Register):
            if operand is not None:
                raise UnknownInstruction(f"result {operand}")
            self.lines.append(expression)
            return
        declared = self.plan.dtypes[operand.name]
        dtype = WIDE if kind == "b128" else DTYPES[kind]
        value = self.emit(expression)
        if dtype.itemsize < declared.itemsize and kind != "pred":
            sign = "" if dtype.kind == "i" else "u"
            if dtype.kind == "f":
                value = self.emit(f"{value}.view(np.uint{8 * dtype.itemsize})")
            dtype = np.dtype(f"{sign}int{8 * declared.itemsize}")
            value = self.emit(f"{value}.astype(np.{dtype.name})")
        self.values[operand.name] = {dtype.name: value}

    # Instructions

    def instruction(self, instruction: Instruction) -> None:
        mark = len(self.lines)
        try:
            method = getattr(self, f"do_{instruction.base}", None)
            if method is not None:
                method(instruction)
            elif instruction.base not in _IGNORED:
                self.arithmetic(instruction)
        except UnknownInstruction:
            # Refused when it is reached, and not before.
            del self.lines[mark:]
            self.lines.append(f"X.unknown({self.site(instruction)})")
            self.undefined(instruction)

    def undefined(self, instruction: Instruction) -> None:
        for name in list(operand_registers(instruction.operands[0])) if instruction.operands else []:
            if name in self.plan.numbers and name not in self.values:
                self.values[name] = {self.plan.dtypes[name].name: self.zero(name)}

    def zero(self, name: str) -> str:
        return self.bind(np.zeros(1, self.plan.dtypes[name]), "K")

    def site(self, instruction: Instruction) -> str:
        made = Site(instruction, self.plan.function.name)
        self.plan.kernel.sites.append(made)
        return self.bind(made, "S")

    def arithmetic(self, instruction: Instruction) -> None:
        results = instruction.operands[0]
        targets = [results.first, results.second] if isinstance(results, Pair) else [results]
        sources = instruction.operands[1:]
        operation = resolve(instruction.opcode, len(sources), len(targets))
        arguments = [
            self.use(source, kind) for source, kind in zip(sources, operation.operands, strict=False)
        ]
        if "cc" in operation.operands:
            arguments.append(self.register(CARRY, "pred"))
        if operation.expression is not None:
            expression = operation.expression.format(*arguments)
        else:
            expression = f"{self.bind(operation.function, 'F')}({', '.join(arguments)})"
        if "cc" in operation.results:
            targets.append(Register(CARRY))
        if len(operation.results) == 1:
            self.define(targets[0], operation.results[0], expression)
            return
        values = [self.emit("None") for _ in operation.results]
        del self.lines[-len(values) :]
        self.lines.append(f"{', '.join(values)} = {expression}")
        for target, kind, value in zip(targets, operation.results, values, strict=True):
            if target is not None:
                self.define(target, kind, value)

    def do_mov(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        kind = instruction.parts[-1]
        if isinstance(target, Vector):
            self.unpacked(target, source, kind)
        elif (
            isinstance(source, Register) and isinstance(target, Register) and source.name in self.plan.numbers
        ):
            if self.plan.dtypes[source.name].itemsize == self.plan.dtypes[target.name].itemsize:
                self.values[target.name] = dict(self.known(source.name))
            else:
                self.define(target, kind, self.use(source, kind))
        else:
            self.define(target, kind, self.use(source, kind))

    def packed(self, operand: Vector, kind: str) -> str:
        if kind == "b128":
            low, high = (self.use(item, "b64") for item in operand.items)
            return self.emit(f"X.joined({low}, {high})")
        size = DTYPES[kind].itemsize
        each = size // len(operand.items)
        unsigned = f"np.uint{8 * size}"
        parts = []
        for place, item in enumerate(operand.items):
            wide = self.emit(f"{self.use(item, f'u{8 * each}')}.astype({unsigned})")
            parts.append(
                wide if not place else f"({wide} << {self.constant(f'u{8 * size}', 8 * each * place)})"
            )
        value = self.emit(" | ".join(parts))
        return value if kind[0] in "ub" else self.emit(f"{value}.view(np.{DTYPES[kind].name})")

    def unpacked(self, target: Vector, source: Operand, kind: str) -> None:
        if kind == "b128":
            values = self.emit(
                f"X.halves({self.register(source.name, kind)})" if isinstance(source, Register) else ""
            )
            for place, item in enumerate(target.items):
                self.define(item, "b64", f"{values}[{place}]")
            return
        size = TYPE_BYTES[kind]
        each = size // len(target.items)
        whole = self.use(source, f"u{8 * size}")
        for place, item in enumerate(target.items):
            if item is not None:
                shifted = (
                    whole if not place else f"({whole} >> {self.constant(f'u{8 * size}', 8 * each * place)})"
                )
                self.define(item, f"u{8 * each}", f"{shifted}.astype(np.uint{8 * each})")

    def do_cvta(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        parts = instruction.parts
        value = self.use(source, "u64")
        window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(parts[-2].partition("::")[0])
        if window is not None:
            value = f"{value} {'-' if 'to' in parts else '+'} {self.constant('u64', window)}"
        self.define(target, "u64", value)

    def do_isspacep(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        space = instruction.parts[1].partition("::")[0]
        self.define(target, "pred", f"X.is_space({space!r}, {self.use(source, 'u64')})")

    # Memory

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
        parts = [part.partition("::")[0] for part in instruction.parts]
        space = next((part for part in parts[1:] if part in _SPACES), "generic")
        lanes = next((int(part[1:]) for part in parts if part in ("v2", "v4", "v8")), 1)
        kind = parts[-1]
        if kind not in DTYPES:
            raise UnknownInstruction(instruction.opcode)
        return space, lanes, kind

    def do_ld(self, instruction: Instruction) -> None:
        target, place = instruction.operands[:2]
        space, lanes, kind = self.access(instruction)
        dtype = DTYPES[kind]
        targets = target.items if isinstance(target, Vector) else (target,)
        if space == "param" and isinstance(place, Address) and isinstance(place.base, Symbol):
            matrix = self.parameter(place.base.name)
            for index, each in enumerate(targets):
                at = place.offset + index * dtype.itemsize
                self.define(each, kind, f"X.field({matrix}, {at}, np.{dtype.name})")
            return
        base, offset = self.address(place, space)
        site = self.site(instruction)
        call = f"X.load_{space}({site}, {base}, {offset}, np.{dtype.name}, {dtype.itemsize}, {lanes})"
        if lanes == 1:
            self.define(targets[0], kind, call)
            return
        values = self.emit(call)
        for index, each in enumerate(targets):
            if each is not None:
                self.define(each, kind, f"{values}[{index}]")

    do_ldu = do_ld

    def parameter(self, name: str) -> str:
        known = self.known(name)
        return known["parameter"] if "parameter" in known else next(iter(known.values()))

    def do_st(self, instruction: Instruction) -> None:
        place, value = instruction.operands[:2]
        space, lanes, kind = self.access(instruction)
        dtype = DTYPES[kind]
        sources = value.items if isinstance(value, Vector) else (value,)
        values = [self.use(each, kind) for each in sources]
        if space == "param" and isinstance(place, Address) and isinstance(place.base, Symbol):
            name = place.base.name
            size = self.plan.parameter_sizes[name]
            for index, each in enumerate(values):
                at = place.offset + index * dtype.itemsize
                old = "None" if size == dtype.itemsize else self.parameter(name)
                self.values[name] = {"uint8": self.emit(f"X.with_field({old}, {size}, {at}, {each})")}
            return
        base, offset = self.address(place, space)
        site = self.site(instruction)
        given = values[0] if lanes == 1 else f"({', '.join(values)},)"
        self.lines.append(
            f"X.store_{space}({site}, {base}, {offset}, np.{dtype.name}, {dtype.itemsize}, {lanes}, {given})"
        )

    def do_atom(self, instruction: Instruction) -> None:
        operands = list(instruction.operands)
        target = operands.pop(0) if instruction.base == "atom" else None
        parts = [part.partition("::")[0] for part in instruction.parts]
        space = next((part for part in parts[1:] if part in ("global", "shared")), "generic")
        operation = next((part for part in parts[1:] if part in _ATOMIC_OPERATIONS), None)
        kind = parts[-1]
        if operation is None or not (kind in DTYPES or kind == "b128") or "async" in parts:
            raise UnknownInstruction(instruction.opcode)
        dtype = WIDE if kind == "b128" else DTYPES[kind]
        base, offset = self.address(operands[0], space)
        site = self.site(instruction)
        vectors = [each.items if isinstance(each, Vector) else (each,) for each in operands[1:]]
        targets = target.items if isinstance(target, Vector) else (target,)
        for index in range(len(vectors[0])):
            values = [self.use(each[index], kind) for each in vectors]
            if operation == "cas":
                values.reverse()
            into = targets[index] if target is not None else None
            call = (
                f"X.atomic_{space}({site}, {base}, {offset + index * dtype.itemsize}, np.{dtype.name}, "
                f"{dtype.itemsize}, {operation!r}, {kind!r}, {into is not None}, {', '.join(values)})"
            )
            if into is None:
                self.lines.append(call)
            else:
                self.define(into, kind, call)

    do_red = do_atom

    def do_membar(self, instruction: Instruction) -> None:
        if "proxy" not in instruction.parts:
            self.lines.append("X.fence()")

    do_fence = do_membar

    def do_cp(self, instruction: Instruction) -> None:
        parts = instruction.parts
        if parts[1:3] in (["async", "commit_group"], ["async", "wait_group"], ["async", "wait_all"]):
            return
        if parts[1] != "async" or "bulk" in parts or "mbarrier" in parts:
            raise UnknownInstruction(instruction.opcode)
        target, source, size = instruction.operands[:3]
        if not isinstance(size, Immediate):
            raise UnknownInstruction(instruction.opcode)
        into, into_offset = self.address(target, "shared")
        origin, offset = self.address(source, "global")
        kept = "None"
        if len(instruction.operands) > 3:
            kept = self.use(instruction.operands[3], "u32")
        self.lines.append(
            f"X.copy_async({self.site(instruction)}, {into}, {into_offset}, {origin}, {offset}, {size.value}, {kept})"
        )

    # Warps

    def do_shfl(self, instruction: Instruction) -> None:
        target, value, lane, clamp = instruction.operands[:4]
        mode = instruction.parts[2] if instruction.parts[1] == "sync" else instruction.parts[1]
        first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
        result, valid = self.emit("None"), self.emit("None")
        del self.lines[-2:]
        arguments = ", ".join(self.use(each, "b32") for each in (value, lane, clamp))
        self.lines.append(f"{result}, {valid} = X.shuffle({mode!r}, {arguments})")
        if first is not None:
            self.define(first, "b32", result)
        if second is not None:
            self.define(second, "pred", valid)

    def do_vote(self, instruction: Instruction) -> None:
        target, predicate, mask = instruction.operands
        mode = instruction.parts[2]
        call = f"X.vote({mode!r}, {self.use(predicate, 'pred')}, {self.use(mask, 'b32')})"
        self.define(target, "b32" if mode == "ballot" else "pred", call)

    def do_match(self, instruction: Instruction) -> None:
        target, value, mask = instruction.operands
        mode, kind = instruction.parts[1], instruction.parts[-1]
        arguments = f"{self.use(value, kind)}, {self.use(mask, 'b32')}"
        if mode == "any":
            self.define(target, "b32", f"X.match_any({arguments})")
            return
        first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
        result, same = self.emit("None"), self.emit("None")
        del self.lines[-2:]
        self.lines.append(f"{result}, {same} = X.match_all({arguments})")
        for each, each_kind, found in ((first, "b32", result), (second, "pred", same)):
            if each is not None:
                self.define(each, each_kind, found)

    def do_redux(self, instruction: Instruction) -> None:
        target, value, mask = instruction.operands
        operation, kind = instruction.parts[2], instruction.parts[-1]
        if operation not in ("add", "min", "max", "and", "or", "xor") or len(instruction.parts) > 4:
            raise UnknownInstruction(instruction.opcode)
        self.define(
            target, kind, f"X.reduce({operation!r}, {self.use(value, kind)}, {self.use(mask, 'b32')})"
        )

    def do_elect(self, instruction: Instruction) -> None:
        target, mask = instruction.operands
        first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
        leader, elected = self.emit("None"), self.emit("None")
        del self.lines[-2:]
        self.lines.append(f"{leader}, {elected} = X.elect({self.use(mask, 'b32')})")
        for each, kind, value in ((first, "b32", leader), (second, "pred", elected)):
            if each is not None:
                self.define(each, kind, value)

    def do_activemask(self, instruction: Instruction) -> None:
        self.define(instruction.operands[0], "b32", "X.active_mask()")

    def do_bar(self, instruction: Instruction) -> None:
        self.lines.append("X.warp_barrier()")

    def do_barrier(self, instruction: Instruction) -> None:
        """Arriving at the barrier of a cluster, which is the block itself: nobody else can wait for it."""

    def do_trap(self, instruction: Instruction) -> None:
        self.lines.append(f"X.trap({self.site(instruction)})")

    do_brkpt = do_trap


def register_numbers(names: Sequence[str]) -> dict[str, int]:
    """Place of each register in a register file."""
    return {name: index for index, name in enumerate(names)}
