"""Translated blocks, and the instructions in them as reports and memory accesses know them."""

from __future__ import annotations

import marshal
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.simulator.arithmetic import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.simulator.ptx.control_flow import Block
    from drv.simulator.ptx.program import Instruction


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
        "operations",
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
        self.body: FunctionType
        self.whole: Callable[..., Any]
        #: The instruction that ends the block, or that makes its lanes meet first.
        self.site: Site
        self.call: Call | None = None
        #: Line of ``body`` at which each instruction begins, ascending.
        self.lines: tuple[tuple[int, Instruction], ...] = ()
        #: Register or constant of the member mask, where the block starts with a warp-level meeting.
        self.mask: Any = None
        #: Whether the block ends by arriving at a barrier without waiting.
        self.arrives = False
        #: Whether the barrier at the end is that of a cluster.
        self.of_cluster = False
        #: Register that tells whether the phase is complete that the block waits for at its end.
        self.result: int | None = None
        #: Whether what was done before that phase was complete is seen after it.
        self.acquires = False
        #: Register and operation of a barrier that reduces.
        self.reduction: tuple[int, str] = (0, "")
        #: Names in ``body`` of the functions that compute instructions, with what finds them: arguments of ``resolve``.
        self.operations: dict[str, tuple[str, int, int]] = {}
        #: Whether the block reads memory as a loop does that waits for another thread.
        self.polls = any(map(polls, block.instructions))

    def __reduce__(self) -> tuple[Any, ...]:
        values = {**self.body.__globals__}
        for name in ("np", "body", "whole", "__builtins__", *self.operations):
            del values[name]
        # Read in large numbers: a constant is its bytes, which are quicker to read than arrays.
        constants = {
            name: (value.dtype.str, value.tobytes())
            for name, value in values.items()
            if isinstance(value, np.ndarray)
        }
        sites = {name: value for name, value in values.items() if name not in constants}
        others = [name for name in self.__slots__ if name not in ("body", "whole") and hasattr(self, name)]
        state = {name: getattr(self, name) for name in others}
        functions = marshal.dumps((self.body.__code__, self.whole.__code__))
        return _restored, (functions, constants, sites, state)


def _restored(
    functions: bytes, constants: dict[str, tuple[str, bytes]], sites: dict[str, Site], state: dict[str, Any]
) -> Code:
    code = Code.__new__(Code)
    for name, value in state.items():
        setattr(code, name, value)
    names: dict[str, Any] = {"np": np, **sites}
    for name, (dtype, data) in constants.items():
        names[name] = np.frombuffer(data, dtype)
    for name, which in code.operations.items():
        names[name] = resolve(*which).function
    body, whole = marshal.loads(functions)
    names["body"] = code.body = FunctionType(body, names)
    code.whole = FunctionType(whole, names)
    return code


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
    parts = instruction.parts
    if parts[0] == "ld" and "local" not in parts:
        return "volatile" in parts or "relaxed" in parts or "acquire" in parts
    return parts[0] in ("atom", "nanosleep") or parts[:2] == ["mbarrier", "test_wait"]
