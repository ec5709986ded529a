"""How long a launch takes: the time of each limit, and the largest of them.

The limits are independent of each other, as if everything else were free: the bytes that DRAM and the level-2 cache move,
the clocks of each multiprocessor's pipes, schedulers and shared memory, atomics on one address, and latency. Latency is
Little's law taken per warp: a multiprocessor holds as many warps as occupancy allows, each of which takes the clocks of
its blocks of instructions one after the other, waiting for memory in each as long as the caches' hits say; the grid
takes as many rounds of that as its blocks make waves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from drv.simulator.checks.observation import Access

from .figures import BANKS, LINE, SCHEDULERS, SECTOR, WARP
from .machine_code.block_costs import block_cost
from .machine_code.instructions import PIPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.ptx.program import Instruction

    from .figures import Figures, PipeRates
    from .machine_code.cubin import CompiledKernel
    from .metering.counts import Counts, SiteCounts
    from .occupancy import Occupancy

#: Bytes per clock of level 1 and shared memory of a multiprocessor (guide: 32 banks of 4 bytes).
_SHARED_BYTES = 128
#: Lines that level 1 looks up per clock: one, as the naive product of S. Boehm's worklog bears out (A6000, 4096 square: 309
#: GFLOP/s are 31 clocks of a multiprocessor for each warp's load of 32 lines).
_TAGS = 1
#: Atomics that level 2 does per clock on one address, and sectors with atomics per clock and slice of 64 bytes
#: (one per clock: Maxwell's whitepaper on native atomics and later measurements; shared memory the same).
_SAME_ADDRESS = 1.0
_ATOMIC_SECTORS = 1.0


@dataclass(frozen=True, slots=True)
class Shape:
    """What a launch is: grid, block, and what it has to run on."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    multiprocessors: int
    occupancy: Occupancy
    registers: int
    shared: int
    spills: int
    assembled: bool

    @property
    def blocks(self) -> int:
        """Thread blocks."""
        return math.prod(self.grid)

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.occupancy.warps


@dataclass(slots=True)
class KernelTime:
    """The modelled time of a launch.

    Attributes
    ----------
    seconds : float
        The largest limit, and what every kernel takes.
    limits : dict
        Seconds of each limit by name, the largest first.
    bound : str
        Name of the largest.
    counts : Counts
        What the launch did.
    shape : Shape
        What it was.
    """

    seconds: float
    limits: dict[str, float]
    bound: str
    counts: Counts
    shape: Shape
    figures: Figures
    sampled: bool
    dram_bytes: float = 0.0
    dram_read: float = 0.0
    dram_written: float = 0.0
    l2_bytes: float = 0.0
    instructions: float = 0.0
    pipes: dict[str, float] = field(default_factory=dict)
    tensor: float = 0.0
    waves: float = 0.0
    warp_clocks: float = 0.0
    flops: float = 0.0
    level2_hits: float = 0.0
    level1_hits: float = 0.0
    metrics: dict[str, Any] = field(default_factory=dict)


def kernel_time(
    counts: Counts,
    shape: Shape,
    figures: Figures,
    rates: PipeRates,
    compiled: Mapping[str, CompiledKernel],
    *,
    sampled: bool = False,
) -> KernelTime:
    """The time of a launch.

    Parameters
    ----------
    counts
        What it did.
    shape
        Its grid, and what of it fits on a multiprocessor.
    figures, rates
        The device.
    compiled
        Kernels and functions as the hardware runs them, where that is known.
    sampled : bool
        Whether only a part of the grid was metered.
    """
    work = _Work(counts, shape, figures, rates, compiled)
    limits = work.limits()
    bound = max(limits, key=lambda name: limits[name])
    ordered = dict(sorted(limits.items(), key=lambda item: -item[1]))
    return KernelTime(
        seconds=limits[bound] + figures.kernel_overhead,
        limits=ordered,
        bound=bound if limits[bound] > figures.kernel_overhead / 2 else "launch",
        counts=counts,
        shape=shape,
        figures=figures,
        sampled=sampled,
        dram_bytes=work.dram_read + work.dram_written,
        dram_read=work.dram_read,
        dram_written=work.dram_written,
        l2_bytes=work.l2_bytes,
        instructions=work.instructions,
        pipes=work.pipes,
        tensor=work.tensor,
        waves=shape.blocks / max(shape.occupancy.blocks * shape.multiprocessors, 1),
        warp_clocks=work.warp_clocks,
        flops=work.flops,
        level1_hits=work.level1_hits,
        level2_hits=work.level2_hits,
    )


class _Work:
    """Totals of the grid, and the limits that follow."""

    def __init__(
        self,
        counts: Counts,
        shape: Shape,
        figures: Figures,
        rates: PipeRates,
        compiled: Mapping[str, CompiledKernel],
    ) -> None:
        self.counts, self.shape, self.figures, self.rates = counts, shape, figures, rates
        scale = counts.scale
        self._memory()
        self._latencies()
        self.instructions = self.tensor = self.flops = self.warp_clocks = 0.0
        self.pipes: dict[str, float] = dict.fromkeys(PIPES, 0.0)
        self._merged: dict[int, float] = {}
        warps = max(shape.warps * counts.metered, 1)
        for runs in counts.runs:
            cost = block_cost(runs.block, compiled.get(runs.function))
            times = runs.warps * scale
            self._merged |= cost.merged
            self.instructions += cost.instructions * times
            self.tensor += cost.tensor * times
            self.flops += runs.lanes * scale * _flops(runs.block) + 2 * cost.tensor * times
            for pipe, count in cost.pipes.items():
                self.pipes[pipe] += count * times
            self.warp_clocks += cost.clocks(self._latency) * runs.warps / warps

    def _memory(self) -> None:
        counts, figures = self.counts, self.figures
        read, written, atomic = counts.read_sectors, counts.written_sectors, counts.atomic_sectors
        self.l2_bytes = (read + written + 2 * atomic) * SECTOR
        self.dram_read = min(counts.read_misses, read) * SECTOR if read else 0.0
        footprint = counts.distinct_read + counts.distinct_written
        # What was written stays in the cache while it fits there beside the rest.
        share = min(max((footprint - figures.l2_bytes / 2) / (figures.l2_bytes / 2), 0.0), 1.0)
        sectors = (written + atomic) * SECTOR
        self.dram_written = share * min(counts.sectors_written * SECTOR, sectors)
        self.level2_hits = 1 - self.dram_read / (read * SECTOR) if read else 1.0
        loads = [each for each in counts.sites if each.space == "global" and each.kind is Access.READ]
        asked = sum(each.sectors for each in loads)
        self.level1_hits = 1 - sum(each.missed for each in loads) / asked if asked else 0.0

    def _latencies(self) -> None:
        """Clocks from each memory instruction to its value, by its line in the PTX."""
        figures = self.figures
        miss = 1 - self.level2_hits
        beyond = figures.l2_latency + miss * (figures.dram_latency - figures.l2_latency)
        self._by_line: dict[int, float] = {}
        for each in self.counts.sites:
            if each.space == "shared":
                conflicts = each.wavefronts / max(each.requests, 1)
                clocks = figures.shared_latency + max(conflicts - 1, 0.0)
            else:
                missed = each.missed / max(each.sectors, 1)
                clocks = figures.l1_latency + missed * (beyond - figures.l1_latency)
                if each.kind is Access.ATOMIC:
                    clocks = figures.l2_latency + each.worst_same
                # The lines of a request follow each other.
                clocks += each.lines / max(each.requests, 1) / _TAGS
            line = each.site.ptx_line
            self._by_line[line] = max(self._by_line.get(line, 0.0), clocks)
        copies = [
            self._by_line[each.site.ptx_line]
            for each in self.counts.sites
            if each.site.text.startswith("cp.async.c") and each.space == "global"
        ]
        self._copies = max(copies, default=0.0)

    def _latency(self, instruction: Instruction) -> float:
        if instruction.opcode.startswith("cp.async"):
            # Groups that may still be on their way have had the time of as many rounds.
            ahead = 0
            if "wait_group" in instruction.opcode and instruction.operands:
                ahead = int(getattr(instruction.operands[0], "value", 0))
            return self._copies / (ahead + 1)
        return self._by_line.get(instruction.ptx_line, self.figures.l1_latency)

    def limits(self) -> dict[str, float]:
        """Seconds of each limit."""
        figures, shape, rates, counts = self.figures, self.shape, self.rates, self.counts
        scale, clock = counts.scale, figures.clock
        busiest = -(-shape.blocks // shape.multiprocessors) / shape.blocks
        per_multiprocessor = busiest / clock
        limits = {
            "DRAM": (self.dram_read + self.dram_written) / (figures.dram_bandwidth * figures.dram_reach),
            "L2": max(
                self.l2_bytes / figures.l2_bandwidth,
                self.l2_bytes * per_multiprocessor / figures.fill_bytes,
            ),
            "issue": self.instructions / SCHEDULERS * per_multiprocessor,
        }
        lanes = {
            "fma": rates.fma,
            "alu": rates.alu,
            "int_mul": rates.int_mul,
            "half": rates.half,
            "double": rates.double,
            "special": rates.special,
            "conversion": rates.conversion,
            "wide_conversion": rates.wide_conversion,
            "shuffle": rates.shuffle,
        }
        for pipe, rate in lanes.items():
            if self.pipes[pipe]:
                limits[f"{pipe} pipe"] = self.pipes[pipe] * WARP / rate * per_multiprocessor
        if self.tensor:
            limits["tensor pipe"] = self.tensor / rates.tensor * per_multiprocessor
        shared = sum(self._shared_clocks(each) for each in counts.sites if each.space == "shared") * scale
        level1 = sum(self._level1_clocks(each) for each in counts.sites if each.space == "global") * scale
        # Both use the same data path.
        limits["shared memory" if shared > level1 else "L1"] = (level1 + shared) * per_multiprocessor
        if counts.atomic_sectors:
            slices = figures.l2_bandwidth / clock / 64
            limits["atomics"] = max(
                counts.hottest / _SAME_ADDRESS / clock,
                counts.atomic_sectors / _ATOMIC_SECTORS / slices / clock,
            )
        limits["latency"] = self.warp_clocks * self._rounds() / clock
        return limits

    def _level1_clocks(self, each: SiteCounts) -> float:
        """Clocks that level 1 is busy with an instruction's requests."""
        moved = each.lanes * each.width / _SHARED_BYTES
        addresses = each.lanes / self.rates.load_store
        return max(each.requests, addresses, moved, each.lines / _TAGS, each.sectors * SECTOR / LINE / 2)

    def _shared_clocks(self, each: SiteCounts) -> float:
        """The same for shared memory; the assembler may have merged loads of neighbouring words."""
        merged = self._merged.get(each.site.ptx_line, 1.0)
        return max(each.wavefronts * merged, each.words / BANKS)

    def _rounds(self) -> float:
        """Waves of blocks on the multiprocessor that has most."""
        shape = self.shape
        mine = -(-shape.blocks // shape.multiprocessors)
        return float(-(-mine // max(shape.occupancy.blocks, 1)))


def _flops(block: Any) -> float:
    """Floating point operations of a lane that runs a block once, without matrix instructions."""
    total = 0.0
    for each in block.instructions:
        qualifiers = each.opcode.split(".")
        if not any(
            qualifier in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2") for qualifier in qualifiers[1:]
        ):
            continue
        packed = 2.0 if any(qualifier in ("f16x2", "bf16x2") for qualifier in qualifiers) else 1.0
        if qualifiers[0] in ("fma", "mad"):
            total += 2 * packed
        elif qualifiers[0] in (
            "add",
            "sub",
            "mul",
            "div",
            "rcp",
            "sqrt",
            "rsqrt",
            "ex2",
            "lg2",
            "sin",
            "cos",
            "tanh",
            "min",
            "max",
        ):
            total += packed
    return total
