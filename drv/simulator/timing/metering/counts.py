"""What a launch did, as numbers: by memory instruction, by basic block, and in all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drv.simulator.checks.observation import Access, Site
    from drv.simulator.ptx.control_flow import Block


@dataclass(slots=True)
class SiteCounts:
    """What one memory instruction did, over all warps that ran it while they were metered."""

    site: Site
    kind: Access
    space: str
    width: int
    requests: int = 0
    lanes: int = 0
    sectors: int = 0
    lines: int = 0
    needed: int = 0
    #: Sectors that level 1 did not have.
    missed: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    #: Distinct words of shared memory.
    words: int = 0
    worst_wavefronts: int = 0
    #: Bytes from one lane's address to the next one's, where that is the same in the first warp.
    stride: int | None = None
    #: Of atomics: lanes of one warp that name one address, at most.
    worst_same: int = 0


@dataclass(slots=True)
class BlockRuns:
    """How often warps ran a basic block, and lanes."""

    block: Block
    function: str
    warps: int = 0
    lanes: int = 0


@dataclass(slots=True)
class Counts:
    """What a launch did: what its metered blocks did, and how to take it for the whole grid.

    Attributes
    ----------
    blocks, metered : int
        Thread blocks of the grid, and those that were metered.
    sites, runs
        By memory instruction, and by basic block.
    barriers : int
        Warps that passed a barrier of their block.
    read_sectors, read_misses
        Sectors that level 2 was asked for by loads of the whole grid, and those that came from DRAM.
    written_sectors, atomic_sectors
        Sectors that stores, and atomics, of the whole grid sent to level 2.
    distinct_read, distinct_written
        Distinct bytes of global memory that the whole grid read and wrote.
    sectors_written : float
        Distinct sectors that it wrote something of.
    hottest : int
        Atomics of the whole grid on the address that has most of them.
    error : float
        Two standard errors of instructions per block, as a share; 0 where all blocks were metered.
    regular : float
        Share of the accesses whose address follows from the block's index.
    repeated : float
        Share of the instructions of metered blocks that were counted as those of the loop's iteration before.
    """

    blocks: int
    metered: int
    threads: int
    sites: list[SiteCounts]
    runs: list[BlockRuns]
    barriers: int
    read_sectors: float = 0.0
    read_misses: float = 0.0
    written_sectors: float = 0.0
    atomic_sectors: float = 0.0
    distinct_read: float = 0.0
    distinct_written: float = 0.0
    sectors_written: float = 0.0
    hottest: float = 0.0
    error: float = 0.0
    regular: float = 1.0
    repeated: float = 0.0

    @property
    def scale(self) -> float:
        """What turns counts of metered blocks into those of the grid."""
        return self.blocks / self.metered if self.metered else 0.0
