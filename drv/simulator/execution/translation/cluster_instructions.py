"""Translation of instructions about clusters: ``mapa``, ``getctarank``, ``barrier.cluster.arrive``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.simulator.arithmetic import UnknownInstruction
from drv.simulator.memory.address_space import SHARED_WINDOW

from .block_writer import BlockWriter

if TYPE_CHECKING:
    from drv.simulator.ptx.program import Instruction, Operand


class ClusterInstructions(BlockWriter):
    """Instructions become calls of :class:`~drv.simulator.execution.clusters.ClusterAccess`."""

    def do_mapa(self, instruction: Instruction) -> None:
        target, source, rank = instruction.operands
        address, window = self._in_window(instruction, source)
        mapped = self.emit(f"X.map_to_rank({address}, {self.use(rank, 'u32')})")
        self.define(target, instruction.fields[-1], f"{mapped} + {window}" if window else mapped)

    def do_getctarank(self, instruction: Instruction) -> None:
        target, source = instruction.operands
        address, _ = self._in_window(instruction, source)
        self.define(target, "u32", f"X.rank_of({address})")

    def _in_window(self, instruction: Instruction, source: Operand) -> tuple[str, str]:
        """An address relative to the window of shared memory, and what to add for a generic one."""
        *middle, ptx_type = instruction.fields[1:]
        if ptx_type not in ("u32", "u64") or middle not in ([], ["shared::cluster"]):
            raise UnknownInstruction(instruction.opcode)
        address = self.use(source, ptx_type)
        if middle:
            return address, ""
        window = self.constant(ptx_type, SHARED_WINDOW)
        return self.emit(f"{address} - {window}"), window

    def do_barrier(self, instruction: Instruction) -> None:
        """Arrive at the barrier of the cluster; waiting there ends a block."""
        qualifiers = set(instruction.fields[3:])
        if instruction.fields[:3] != ["barrier", "cluster", "arrive"] or qualifiers - {
            "release",
            "relaxed",
            "aligned",
        }:
            raise UnknownInstruction(instruction.opcode)
        self.lines.append(f"X.cluster_arrive({self.site(instruction)}, {'relaxed' not in qualifiers})")
