"""What one run of a basic block costs a warp: instructions by pipe, and the clocks until its results are there.

Instructions are counted in the hardware's code where that could be made: its line information says from which PTX line
each comes. The assembler may unroll a loop; then a load of the PTX stands several times in the code, and counts are
divided by that. The clocks follow from the flow of data through the block: an instruction starts when its operands are
there, loads as early as their addresses are, as the assembler orders them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from drv.simulator.ptx.control_flow import End, read, written

from .instructions import (
    LATENCIES,
    hardware_pipe,
    multiply_adds,
    ptx_expansion,
    ptx_pipe,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from drv.simulator.ptx.control_flow import Block
    from drv.simulator.ptx.program import Instruction

    from .cubin import CompiledKernel

#: What PTX instructions become that stand for themselves: how often they occur tells how far a loop is unrolled.
_ANCHORS = {"ld": (0x180, 0x181, 0x184), "st": (0x185, 0x186, 0x188), "atom": (0x1A8, 0x18A, 0x18C), "red": (0x18E,), "fma": (0x023, 0x02B, 0x031), "mma": (0x03C, 0x037, 0x03F)}  # fmt: skip
_SHARED_LOAD = 0x184
#: Clocks that a barrier of the block takes where nobody has to wait (assumption; *Luo 2024* does not have it).
BARRIER_CLOCKS = 20.0


@dataclass(slots=True)
class BlockCost:
    """Of one run by one warp.

    Attributes
    ----------
    instructions : float
        Instructions that are issued.
    pipes : Counter
        The same by pipe.
    tensor : float
        Multiply-adds of 16-bit factors on tensor cores.
    unroll : float
        How often the assembler has put the block into its loop.
    assembled : bool
        Whether the counts are those of the hardware's code.
    merged : dict
        By PTX line of a load from shared memory: how many loads it became, below 1 where several were merged.
    """

    block: Block
    instructions: float = 0.0
    pipes: Counter[str] = field(default_factory=Counter)
    tensor: float = 0.0
    unroll: float = 1.0
    assembled: bool = False
    merged: dict[int, float] = field(default_factory=dict)

    def clocks(self, latency: Callable[[Instruction], float]) -> float:
        """Clocks from the block's start until all its results are there, for a warp that is alone.

        ``latency`` gives that of a memory instruction.
        """
        whole = self._path(latency)
        if self.unroll > 1 and not self._chases():
            # The loads of all copies are on their way together; what depends on the copy before does not shorten.
            without = self._path(lambda instruction: LATENCIES["memory"])
            whole = max(whole - without, 0.0) / self.unroll + without
        return max(whole, self.instructions)

    def _chases(self) -> bool:
        """Whether a load's address comes of a load of the round before, so that copies of the loop wait for each other."""
        sources: dict[str, set[str]] = {}
        loaded: set[str] = set()
        addresses: set[str] = set()
        for instruction in self.block.instructions:
            needs = read(instruction)
            came = set().union(*(sources.get(name, {name}) for name in needs)) if needs else set()
            is_load = instruction.base in ("ld", "atom", "ldu")
            if is_load:
                addresses |= came
            depends = is_load or any(name in loaded for name in needs)
            for name in written(instruction):
                sources[name] = came
                (loaded.add if depends else loaded.discard)(name)
        return bool(addresses & loaded)

    def _path(self, latency: Callable[[Instruction], float]) -> float:
        ready: dict[str, float] = {}
        end = 0.0
        issued = 0.0
        for instruction in self.block.instructions:
            begin = max((ready.get(name, 0.0) for name in read(instruction)), default=0.0)
            pipe = ptx_pipe(instruction.opcode)
            if instruction.opcode.startswith("cp.async"):
                # Nobody waits for the copy but the instruction that says so.
                done = begin
                if "wait" in instruction.opcode:
                    done = max(begin, issued) + latency(instruction)
                    issued = done
                end = max(end, done)
                continue
            if pipe == "memory":
                takes = latency(instruction) if instruction.base not in ("st", "red") else 0.0
            else:
                takes = LATENCIES[pipe] * max(1, ptx_expansion(instruction.opcode) // 2)
            done = begin + takes
            for name in written(instruction):
                ready[name] = done
            end = max(end, done)
        if self.block.end is End.BARRIER:
            end += BARRIER_CLOCKS
        return end


def block_cost(block: Block, compiled: CompiledKernel | None) -> BlockCost:
    """What ``block`` costs, by the hardware's code where there is some."""
    cost = BlockCost(block)
    instructions = [*block.instructions, *([block.last] if block.last is not None else [])]
    cost.tensor = sum(multiply_adds(each.opcode) for each in instructions)
    if compiled is not None and compiled.by_line:
        _from_code(cost, instructions, compiled.opcodes)
    else:
        for each in instructions:
            count = ptx_expansion(each.opcode)
            cost.pipes[ptx_pipe(each.opcode)] += count
            cost.instructions += count
    return cost


def _from_code(cost: BlockCost, instructions: list[Instruction], opcodes: Mapping[int, Counter[int]]) -> None:
    cost.assembled = True
    copies = []
    seen: set[int] = set()
    for each in instructions:
        anchors = _ANCHORS.get(each.base)
        counts = opcodes.get(each.ptx_line)
        if anchors is not None and counts is not None:
            count = sum(counts[anchor] for anchor in anchors)
            if count:
                copies.append(count)
    cost.unroll = max(float(median(copies)) if copies else 1.0, 1.0)
    shared = [each.ptx_line for each in instructions if each.opcode.startswith("ld.shared")]
    loads = sum(opcodes.get(line, Counter())[_SHARED_LOAD] for line in shared)
    if shared and 0 < loads / cost.unroll < len(shared):
        cost.merged = dict.fromkeys(shared, loads / cost.unroll / len(shared))
    for each in instructions:
        if each.ptx_line in seen:
            continue
        seen.add(each.ptx_line)
        for opcode, count in opcodes.get(each.ptx_line, {}).items():
            cost.pipes[hardware_pipe(opcode)] += count / cost.unroll  # type: ignore[assignment]
            cost.instructions += count / cost.unroll
