"""What is worked out once per kernel: translated functions, code addresses, what symbols mean."""

from __future__ import annotations

import functools
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drv.simulator.arithmetic import UnknownInstruction
from drv.simulator.ptx.control_flow import CARRY, End, blocks_of, follow_products
from drv.simulator.ptx.program import align_up
from drv.simulator.ptx.shared_memory import shared_layout

from .block_writer import WIDE
from .blocks import translate
from .invariants import Invariants, invariants_of
from .register_types import register_types

if TYPE_CHECKING:
    from types import CodeType

    from numpy.typing import NDArray

    from drv.simulator.execution.native import NativeKernel
    from drv.simulator.memory.address_space import AddressSpace
    from drv.simulator.ptx.control_flow import Block
    from drv.simulator.ptx.program import Function, Instruction, Module
    from drv.simulator.ptx.shared_memory import SharedLayout

    from .code import Code, Site, Translation

#: Generic addresses of the entry's parameters, below those of functions.
PARAMETER_WINDOW = 1 << 42


class FunctionParts(NamedTuple):
    """What takes long to work out of a function."""

    blocks: list[Block]
    #: NumPy types of the registers.
    dtypes: dict[str, np.dtype[Any]]
    #: Blocks that have been translated.
    translations: dict[int, Translation]
    #: Of an entry function.
    invariants: Invariants | None


class KernelPlan:
    """A kernel ready to run. ``shared`` is the layout of its shared memory, if that is known."""

    def __init__(self, module: Module, entry: Function, shared: SharedLayout | None = None) -> None:
        self.module = module
        self.entry = entry
        self.shared = shared_layout(module, entry) if shared is None else shared
        self.code = module.code_addresses
        self.by_address = {address: name for name, address in self.code.items()}
        #: Names that have an address of their own, in all threads.
        self.symbols = {*self.shared.offsets, *module.variables, *self.code}
        #: Those that have been asked for.
        self.functions: dict[str, FunctionPlan] = {}
        #: Whether there is something that the cache on disk does not have.
        self.is_news = True
        self._memory: Any = None
        #: Every translated memory instruction; each remembers the allocation that it accessed last.
        self.sites: list[Site] = []
        #: Its native code, if it may have any; made when it is first asked for.
        self.native: NativeKernel | None = None
        #: Values of the entry's invariants by what they are computed from.
        self.invariant_values: dict[Any, Any] = {}
        #: Constants of threads by the shape of a block and the number of blocks; see :class:`~drv.simulator.execution.batch.Batch`.
        self.geometry: dict[Any, Any] = {}

    def enter(self, memory: AddressSpace) -> None:
        """Forget the allocations of another address space than ``memory``."""
        if memory is not self._memory:
            self._memory = memory
            for site in self.sites:
                site.allocation = None

    def leave(self) -> None:
        """Forget what it ran on, which nobody else may need any more."""
        self._memory = None
        for site in self.sites:
            site.allocation = None
        self.geometry.clear()
        self.invariant_values.clear()
        if self.native is not None:
            self.native.leave()

    def native_kernel(self) -> NativeKernel:
        """Native code of the kernel, or what decides whether there is any."""
        if self.native is None:
            # Above this package, whose plans it reads; and most processes with simulated kernels need none of it.
            from drv.simulator.execution.native import NativeKernel

            self.native = NativeKernel(self)
        return self.native

    def function(self, name: str) -> FunctionPlan:
        """Function ``name``, whose blocks are translated when they are reached."""
        plan = self.functions.get(name)
        if plan is None:
            plan = self.functions[name] = FunctionPlan(self, self.module.functions[name])
            self.is_news = True
        return plan

    def add_function(self, name: str, parts: FunctionParts) -> None:
        """Have what has been worked out of function ``name``."""
        self.functions[name] = FunctionPlan(self, self.module.functions[name], parts)
        for translation in parts.translations.values():
            self.sites += translation.names.sites

    def failed_instruction(self, error: Exception) -> tuple[Instruction, str] | None:
        """The instruction, and the name of its function, whose translation raised ``error``; ``None`` if none did."""
        frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        for code, line in reversed(frames):
            for plan in self.functions.values():
                instruction = plan.instruction_at(code, line)
                if instruction is not None:
                    return instruction, plan.function.name
        return None

    def symbol(self, plan: FunctionPlan, name: str) -> tuple[str, int]:
        """What a name means as a value: ``("frame", offset)``, ``("global", 0)`` or ``("constant", value)``."""
        if name in plan.frame_offsets:
            return "frame", plan.frame_offsets[name]
        if name in self.shared.offsets:
            return "constant", self.shared.offsets[name]
        if name in self.module.variables:
            return "global", 0
        if name in self.code:
            return "constant", self.code[name]
        if plan.function is self.entry:
            for formal in self.entry.formals:
                if formal.name == name:
                    return "constant", PARAMETER_WINDOW + formal.offset
        raise UnknownInstruction(f"address of {name}")


class FunctionPlan:
    """A function's register file, frame and translated blocks. ``parts`` are those that have been worked out before."""

    def __init__(self, kernel: KernelPlan, function: Function, parts: FunctionParts | None = None) -> None:
        self.kernel = kernel
        self.function = function
        self.blocks = blocks_of(function) if parts is None else parts.blocks
        parameters = [*function.formals, *function.results, *function.call_parameters.values()]
        self.parameter_sizes = {each.name: each.size for each in parameters}
        names = [*function.register_types, CARRY, *self.parameter_sizes]
        self.numbers = {name: index for index, name in enumerate(names)}
        if parts is None:
            self.dtypes = {
                name: WIDE if function.register_types[name] == "b128" else dtype
                for name, dtype in register_types(function).items()
            }
            self.dtypes[CARRY] = np.dtype(np.bool_)
            self.dtypes |= {name: np.dtype(np.uint8) for name in self.parameter_sizes}
        else:
            self.dtypes = parts.dtypes
        self.template: list[Any] = [_zero(self.dtypes[name]) for name in [*function.register_types, CARRY]]
        self.template += [np.zeros((1, size), np.uint8) for size in self.parameter_sizes.values()]
        self.formals = [self.numbers[each.name] for each in function.formals]
        self.results = [self.numbers[each.name] for each in function.results]
        self.frame_offsets: dict[str, int] = {}
        end = 0
        for variable in function.variables.values():
            if variable.space == "local":
                self.frame_offsets[variable.name] = end = align_up(end, max(variable.align, 1))
                end += variable.size
        self.frame_bytes = align_up(end, 16)
        self._codes: list[Code | None] = [None] * len(self.blocks)
        self._translations: dict[int, Translation] = {} if parts is None else parts.translations
        self._knows_products = False
        #: Where the parameters of a kernel are in the launch's.
        self.argument_offsets = (
            {each.name: each.offset for each in function.formals} if function.entry else {}
        )
        self.invariants: Invariants | None = None
        if parts is not None:
            self.invariants = parts.invariants
        elif function is kernel.entry:
            self.invariants = invariants_of(self)

    @property
    def parts(self) -> FunctionParts:
        """What took long to work out."""
        return FunctionParts(self.blocks, self.dtypes, self._translations, self.invariants)

    def code(self, index: int) -> Code:
        """Block ``index``, which is translated when it is first asked for."""
        code = self._codes[index]
        if code is None:
            translation = self._translations.get(index)
            if translation is None:
                translation = self._translated(index)
            code = self._codes[index] = translation.code(0)
        return code

    def _translated(self, index: int) -> Translation:
        if not self._knows_products:
            follow_products(self.blocks)
            self._knows_products = True
        translation = translate(self, [self.blocks[index]])
        if translation.complete:
            self._translations[index] = translation
            self.kernel.is_news = True
        return translation

    def instruction_at(self, python: CodeType, line: int) -> Instruction | None:
        """The instruction that line ``line`` of translated code does."""
        native = self.kernel.native
        code_tables: list[Any] = [*self._translations.values(), self.invariants]
        if native is not None and self.function is self.kernel.entry:
            code_tables.append(native)
        known = (each.instruction_at(python, line) for each in code_tables if each is not None)
        return next(filter(None, known), None)

    @property
    def has_barriers(self) -> bool:
        """Whether the function itself waits at a block-wide barrier."""
        return any(block.end is End.BARRIER for block in self.blocks)


@functools.cache
def _zero(dtype: np.dtype[Any]) -> NDArray[Any]:
    """What a register holds at first; nobody changes it."""
    result = np.zeros(1, dtype)
    result.flags.writeable = False
    return result
