"""Translated blocks, and the instructions in them as reports and memory accesses know them."""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType, FunctionType

    from numpy.typing import NDArray

    from drv.simulator.ptx.control_flow import Block
    from drv.simulator.ptx.program import Instruction

    Array = NDArray[Any]


class Site:
    """An instruction as reports and memory accesses know it. ``allocation`` is the one last accessed."""

    __slots__ = ("allocation", "function", "instruction", "ptx_line", "source", "text")

    def __init__(self, instruction: Instruction, function: str) -> None:
        self.instruction = instruction
        self.function = function
        self.ptx_line = instruction.ptx_line
        self.source = instruction.source
        self.text = instruction.text
        self.allocation: Any = None


class Code:
    """A translated block: see :mod:`.blocks`. Registers are numbers in the function's register file."""

    __slots__ = (
        "acquires",
        "arrives",
        "block",
        "body",
        "call",
        "inputs",
        "lines",
        "mask",
        "of_cluster",
        "of_warpgroup",
        "outputs",
        "polls",
        "reduction",
        "result",
        "site",
        "whole",
    )

    def __init__(self, block: Block, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
        self.block = block
        self.inputs = inputs
        self.outputs = outputs
        #: What runs the block for some lanes, and for all that have the register file. A meter tells one from the other.
        self.body: FunctionType
        self.whole: Callable[..., Any]
        #: The instruction that ends the block, or that makes its lanes meet first.
        self.site: Site
        self.call: Call | None = None
        #: Line of the module at which each instruction begins, ascending.
        self.lines: tuple[tuple[int, Instruction], ...] = ()
        #: Register or constant of the member mask, where the block starts with a warp-level meeting.
        self.mask: Any = None
        #: Whether the block ends by arriving at a barrier without waiting.
        self.arrives = False
        #: Whether all warps of a warpgroup meet there.
        self.of_warpgroup = False
        #: Whether the barrier at the end is that of a cluster.
        self.of_cluster = False
        #: Register that tells whether the phase is complete that the block waits for at its end.
        self.result: int | None = None
        #: Whether what was done before that phase was complete is seen after it.
        self.acquires = False
        #: Register and operation of a barrier that reduces.
        self.reduction: tuple[int, str] = (0, "")
        #: Whether the block reads memory as a loop does that waits for another thread.
        self.polls = any(map(polls, block.instructions))

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        names = (name for name in self.__slots__ if name not in ("body", "whole"))
        return None, {name: getattr(self, name) for name in names if hasattr(self, name)}


class Names:
    """What the source of translated blocks refers to by name: constants, instructions, functions of arithmetic."""

    def __init__(self) -> None:
        self._constants: dict[str, Array] = {}
        self._known: dict[tuple[str, bytes], str] = {}
        self._sites: dict[str, Site] = {}
        #: With what finds each: arguments of ``resolve``.
        self._operations: dict[str, tuple[str, int, int]] = {}
        self._named: dict[tuple[str, int, int], str] = {}

    def _fresh(self, lead: str) -> str:
        return f"{lead}{len(self._constants) + len(self._sites) + len(self._operations)}"

    def constant(self, value: Array) -> str:
        """Name of an array that nobody changes; the same for one that is equal."""
        key = value.dtype.str, value.tobytes()
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = self._fresh("K")
            self._constants[name] = value
        return name

    def site(self, site: Site) -> str:
        """Name of an instruction as memory accesses know it."""
        name = self._fresh("S")
        self._sites[name] = site
        return name

    @property
    def sites(self) -> Iterable[Site]:
        """All such instructions."""
        return self._sites.values()

    def operation(self, opcode: str, sources: int, targets: int) -> str:
        """Name of the function that computes an instruction."""
        which = opcode, sources, targets
        name = self._named.get(which)
        if name is None:
            name = self._named[which] = self._fresh("F")
            self._operations[name] = which
        return name

    def bound(self) -> dict[str, Any]:
        """The objects by their names."""
        functions = {name: resolve(*which).function for name, which in self._operations.items()}
        return {"np": np, **self._constants, **self._sites, **functions}

    def stored(self) -> tuple[dict[str, tuple[str, bytes]], dict[str, Site], dict[str, tuple[str, int, int]]]:
        """What the names stand for, in a form to be stored; for :meth:`restored`."""
        # Read in large numbers: a constant is its bytes, which are quicker to read than arrays.
        constants = {name: (each.dtype.str, each.tobytes()) for name, each in self._constants.items()}
        return constants, self._sites, self._operations

    @classmethod
    def restored(
        cls,
        constants: dict[str, tuple[str, bytes]],
        sites: dict[str, Site],
        operations: dict[str, tuple[str, int, int]],
    ) -> Names:
        """The names that have been stored."""
        names = cls()
        names._constants = {name: np.frombuffer(data, dtype) for name, (dtype, data) in constants.items()}
        names._sites, names._operations = sites, operations
        return names

    def __reduce__(self) -> tuple[Any, ...]:
        return Names.restored, self.stored()


class Translation:
    """Translated blocks, in one Python module, which is compiled once and loaded when one of them is first asked for.

    Parameters
    ----------
    codes : list of Code or Exception
        The blocks; an exception where one could not be translated, which is raised when it is asked for.
    module : CodeType
        For each block a function ``block``, with its index in ``codes`` behind.
    names : Names
        What the module refers to.
    """

    def __init__(self, codes: list[Code | Exception], module: CodeType, names: Names) -> None:
        self.codes = codes
        self.module = module
        self.names = names
        self._loaded = False

    @classmethod
    def compiled(
        cls, name: str, codes: list[Code | Exception], lines: Iterable[str], names: Names
    ) -> Translation:
        """The translation whose module has these lines; tracebacks call it ``name``."""
        return cls(codes, compile("\n".join(lines), f"<{name}>", "exec"), names)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "module": marshal.dumps(self.module), "_loaded": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = {**state, "module": marshal.loads(state["module"])}

    @property
    def complete(self) -> bool:
        """Whether all blocks were translated."""
        return all(isinstance(code, Code) for code in self.codes)

    def code(self, index: int) -> Code:
        """A block, ready to run."""
        if not self._loaded:
            self._load()
        code = self.codes[index]
        if isinstance(code, Exception):
            raise code
        return code

    def _load(self) -> None:
        names = self.names.bound()
        exec(self.module, names)
        for index, code in enumerate(self.codes):
            if isinstance(code, Code):
                code.body = code.whole = names[f"block{index}"]
        self._loaded = True

    def instruction_at(self, python: CodeType, line: int) -> Instruction | None:
        """The instruction that line ``line`` of translated code does."""
        if not self._loaded:
            return None
        for code in self.codes:
            if isinstance(code, Code) and code.body.__code__ is python:
                begun = [instruction for first, instruction in code.lines if first <= line]
                return begun[-1] if begun else None
        return None


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


def polls(instruction: Instruction) -> bool:
    """Whether an instruction reads memory as a loop does that waits for another thread."""
    fields = instruction.fields
    if fields[0] == "ld" and "local" not in fields:
        return "volatile" in fields or "relaxed" in fields or "acquire" in fields
    return fields[0] in ("atom", "nanosleep") or fields[:2] == ["mbarrier", "test_wait"]
