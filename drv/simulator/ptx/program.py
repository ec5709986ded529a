"""What a PTX text says, as records: a module, its variables, its functions and their instructions."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, TypeAlias

#: Where addresses of functions begin, below any memory.
CODE_WINDOW = 1 << 43
CODE_STRIDE = 16
#: Bytes of the fundamental types.
TYPE_BYTES = {
    "b8": 1,
    "u8": 1,
    "s8": 1,
    "b16": 2,
    "u16": 2,
    "s16": 2,
    "f16": 2,
    "bf16": 2,
    "b32": 4,
    "u32": 4,
    "s32": 4,
    "f32": 4,
    "f16x2": 4,
    "bf16x2": 4,
    "b64": 8,
    "u64": 8,
    "s64": 8,
    "f64": 8,
    "b128": 16,
}


class PTXSyntaxError(Exception):
    """A PTX text that cannot be read; the message names the line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True, slots=True)
class Register:
    """A register, or ``%tid.x`` and other special registers. ``name`` is unique in its function."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant: an integer, or the bits of a floating point constant (``kind`` ``"f32"`` or ``"f64"``)."""

    value: int
    kind: str = "int"


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, function, parameter or label."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``; of a texture, a surface or a tensor ``[base, {coordinates}]``.

    ``coordinates`` are the operands behind the base: a vector of coordinates, in front of it the sampler where the
    texture has none of its own.
    """

    base: Register | Symbol | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``; ``None`` stands for the sink ``_``."""

    items: tuple[Operand | None, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``a|b``: two results, either may be the sink ``_``."""

    first: Register | None
    second: Register | None


@dataclass(frozen=True, slots=True)
class Negated:
    """``!p``."""

    register: Register


@dataclass(frozen=True, slots=True)
class Group:
    """``(a, b, ...)``: the parameters of a call."""

    items: tuple[Operand, ...]


Operand: TypeAlias = Register | Immediate | Symbol | Address | Vector | Pair | Negated | Group | None


@dataclass(slots=True, eq=False)
class Instruction:
    """One instruction. ``guard`` is the predicate that enables it, with whether it is negated."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: tuple[Register, bool] | None
    ptx_line: int
    source: tuple[str, int] | None
    text: str

    @property
    def base(self) -> str:
        """The opcode without its qualifiers: ``ld`` of ``ld.global.f32``."""
        return _fields(self.opcode)[0]

    @property
    def fields(self) -> list[str]:
        """Parts of the opcode between dots."""
        return _fields(self.opcode)


@functools.cache
def _fields(opcode: str) -> list[str]:
    return opcode.split(".")


@dataclass(slots=True, eq=False)
class Variable:
    """A variable of any space but parameters."""

    name: str
    space: str
    size: int
    align: int
    initial: bytes = b""
    relocations: tuple[tuple[int, str, int], ...] = ()
    visible: bool = False
    external: bool = False
    #: Whether the host has it, too (``__managed__``).
    managed: bool = False
    #: ``"texref"`` or ``"surfref"``, of which it holds the handle of what is bound; empty for other variables.
    reference: str = ""


@dataclass(slots=True)
class Parameter:
    """A formal parameter or result, or a parameter of a call site."""

    name: str
    size: int
    align: int
    offset: int = 0


@dataclass(slots=True, eq=False)
class Function:
    """An entry or device function."""

    name: str
    entry: bool
    formals: list[Parameter] = field(default_factory=list)
    results: list[Parameter] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    #: Index of the instruction that follows each label.
    labels: dict[str, int] = field(default_factory=dict)
    #: PTX type of each declared register.
    register_types: dict[str, str] = field(default_factory=dict)
    #: Shared and local variables declared inside.
    variables: dict[str, Variable] = field(default_factory=dict)
    #: Parameter variables of call sites.
    call_parameters: dict[str, Parameter] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    max_threads: int | None = None
    #: Blocks of a cluster along ``(x, y, z)``, where they are declared.
    cluster: tuple[int, int, int] | None = None
    #: Whether it has to be launched with clusters, and blocks that a cluster has at most, if that is declared.
    explicit_cluster: bool = False
    max_cluster_blocks: int | None = None
    defined: bool = False
    #: Shared memory that an entry function, and what it calls, declares.
    static_shared_bytes: int = 0
    #: Bytes before it that the system keeps for itself.
    reserved_shared_bytes: int = 0
    #: What the executor keeps with the function once it has been translated.
    plan: Any = None

    @property
    def parameters(self) -> list[tuple[str, int, int, int]]:
        """``(name, offset, size, alignment)`` of each parameter, in bytes."""
        return [(each.name, each.offset, each.size, each.align) for each in self.formals]

    @property
    def parameter_bytes(self) -> int:
        """Size of the parameter buffer."""
        return max((each.offset + each.size for each in self.formals), default=0)

    @property
    def local_bytes(self) -> int:
        """Local memory of one activation."""
        return space_bytes(self.variables.values(), "local")

    @property
    def registers(self) -> int:
        """Registers per thread, estimated: PTX has as many as it likes."""
        return min(max(16, len(self.register_types) // 2 + 8), 255)


@dataclass(slots=True, eq=False)
class Module:
    """A parsed PTX text."""

    version: tuple[int, int] = (0, 0)
    target: str = ""
    address_size: int = 64
    functions: dict[str, Function] = field(default_factory=dict)
    #: Variables of global and constant space, which the driver allocates.
    variables: dict[str, Variable] = field(default_factory=dict)
    #: Module-scope variables of shared space.
    shared: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    #: What the executor keeps of it on disk, if it does.
    translation_cache: Any = None

    @property
    def code_addresses(self) -> dict[str, int]:
        """Address of every function, as function pointers and tables of virtual functions hold it."""
        return {name: CODE_WINDOW + CODE_STRIDE * (index + 1) for index, name in enumerate(self.functions)}

    @property
    def entries(self) -> dict[str, Function]:
        """Kernels by name."""
        return {
            name: function for name, function in self.functions.items() if function.entry and function.defined
        }


def align_up(offset: int, alignment: int) -> int:
    """Smallest multiple of ``alignment`` that is at least ``offset``."""
    return -(-offset // alignment) * alignment


def space_bytes(variables: Any, space: str) -> int:
    """Bytes that the variables of ``space`` take when laid out one after the other."""
    end = 0
    for variable in variables:
        if variable.space == space and not variable.external:
            end = align_up(end, variable.align) + variable.size
    return end
