"""Work of the simulated libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuda.bindings.driver import CUgraphNodeType

from drv.simulator.memory.library_memory import LibraryMemory

from .work import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.simulator.driver_state import Context, DriverState

    from .library_cost import LibraryCost


class LibraryWork(Work):
    """What a library computes with NumPy, in the place of its kernels: ``compute`` gets the memory as a device sees it.

    ``cost`` says how much that is, where the library says so.
    """

    __slots__ = ("compute", "cost", "device")
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL

    def __init__(
        self,
        context: Context,
        label: str,
        device: int | None,
        compute: Callable[[LibraryMemory], None],
        cost: LibraryCost | None = None,
    ) -> None:
        super().__init__(context, label)
        self.device = device
        self.compute = compute
        self.cost = cost

    def run(self, driver: DriverState) -> None:
        """Compute."""
        memory = LibraryMemory(driver.memory, self.device, driver.observer)
        self.compute(memory)
        memory.flush()
