"""Translated blocks, and the instructions in them as reports and memory accesses know them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FunctionType

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
        "arrives",
        "block",
        "body",
        "call",
        "inputs",
        "lines",
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


def _polls(instruction: Instruction) -> bool:
    parts = instruction.parts
    if parts[0] == "ld" and "local" not in parts:
        return "volatile" in parts or "relaxed" in parts or "acquire" in parts
    return parts[0] in ("atom", "nanosleep")
