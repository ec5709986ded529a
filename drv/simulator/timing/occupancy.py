"""How many thread blocks a multiprocessor holds at once: the rules of CUDA's occupancy calculator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from drv.simulator.device_properties import REGISTERS_PER_MULTIPROCESSOR, WARP_SIZE

if TYPE_CHECKING:
    from drv.simulator.device_properties import Architecture

#: Granularities with which the hardware hands out registers (per warp), warps and shared memory to a block (CUDA
#: occupancy calculator, capabilities from 7.0 on; shared memory from 8.0 on).
REGISTER_UNIT, WARP_UNIT, SHARED_UNIT = 256, 4, 128


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks that fit on a multiprocessor, by what limits them; ``warps`` are those of one block.

    Each limit is the number of blocks that would fit if there were no other.
    """

    warps: int
    most_warps: int
    by_blocks: int
    by_warps: int
    by_registers: int
    by_shared: int

    @property
    def blocks(self) -> int:
        """Blocks that a multiprocessor holds at once."""
        return min(self.by_blocks, self.by_warps, self.by_registers, self.by_shared)

    @property
    def share(self) -> float:
        """Resident warps as a share of those that a multiprocessor can hold, from 0 to 1."""
        return self.blocks * self.warps / self.most_warps

    @property
    def limit(self) -> str:
        """What limits it most: ``registers``, ``shared memory``, ``blocks`` or ``warps``."""
        limits = {
            "warps": self.by_warps,
            "registers": self.by_registers,
            "shared memory": self.by_shared,
            "blocks": self.by_blocks,
        }
        return min(limits, key=lambda name: limits[name])


def occupancy(limits: Architecture, threads: int, registers: int, shared: int) -> Occupancy:
    """The occupancy of blocks of ``threads`` threads.

    Parameters
    ----------
    limits
        Limits of the compute capability.
    threads
        Threads in a block, at least 1.
    registers
        Registers of a thread.
    shared
        Bytes of shared memory of a block, static and dynamic.
    """
    warps = -(-threads // WARP_SIZE)
    most_warps = limits.threads_per_multiprocessor // WARP_SIZE
    per_warp = -(-max(registers, 1) * WARP_SIZE // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS_PER_MULTIPROCESSOR // per_warp // WARP_UNIT * WARP_UNIT // warps
    if shared > limits.shared_per_block_optin:
        by_shared = 0
    else:
        each = -(-(shared + limits.reserved_shared_per_block) // SHARED_UNIT) * SHARED_UNIT
        by_shared = limits.shared_per_multiprocessor // each if each else limits.blocks_per_multiprocessor
    return Occupancy(
        warps, most_warps, limits.blocks_per_multiprocessor, most_warps // warps, by_registers, by_shared
    )
