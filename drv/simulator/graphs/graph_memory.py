"""Memory that nodes of graphs allocate and free.

An allocation's address is fixed when its node is made; its bytes are there from each launch of the node until it is
freed, by a node of the same graph or of another one, or by a call. What a graph has needed at once stays mapped at its
addresses, for the next launch, as long as there is an executable of it; and a device keeps what its graphs have needed
at once until it is told to let go of what none of them uses (``cuDeviceGraphMemTrim``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cuda.bindings.driver import CUgraphNodeType

from drv.simulator.driver_call import invalid_value
from drv.simulator.memory.address_space import Allocation, MemoryKind
from drv.simulator.work.work import Work

if TYPE_CHECKING:
    from drv.simulator.device_properties import SimulatedDevice
    from drv.simulator.driver_state import Context
    from drv.simulator.memory.records import MemoryBook, MemoryRecord
    from drv.simulator.scheduler import Operation, Stream

    from .graph import Graph


@dataclass(slots=True, eq=False)
class GraphMemory:
    """What the graphs of a device have allocated, and what is reserved for them, in bytes."""

    device: SimulatedDevice
    used: int = 0
    mapped_high: int = 0
    reserved: int = 0
    reserved_high: int = 0
    #: How far into the reserved memory the allocations of each graph reach. Those that do not live at once share it.
    reach: dict[Graph, int] = field(default_factory=dict)

    @property
    def mapped(self) -> int:
        """Bytes that at least one graph has mapped."""
        return max([self.used, *self.reach.values()])

    def take(self, book: MemoryBook, graph: Graph, nbytes: int) -> None:
        """Count ``nbytes`` as used, of the device where no more are kept."""
        missing = self.used + nbytes - self.reserved
        if missing > 0:
            book.charge(self.device, missing)
            self.reserved += missing
            self.reserved_high = max(self.reserved_high, self.reserved)
        self.used += nbytes
        self.reach[graph] = max(self.reach.get(graph, 0), self.used)
        self.mapped_high = max(self.mapped_high, self.mapped)

    def unmap(self, graph: Graph) -> None:
        """There is no executable of ``graph`` any more: what it has allocated stays, and nothing else."""
        self.reach.pop(graph, None)

    def trim(self) -> None:
        """Give the device back what is not used."""
        self.reach.clear()
        self.device.used -= self.reserved - self.used
        self.reserved = self.used


@dataclass(slots=True, eq=False)
class GraphAllocation:
    """An allocation of a node. ``allocation`` says what it is; its bytes are those of the latest launch."""

    allocation: Allocation
    context: Context
    charged: int
    memory: GraphMemory
    graph: Graph
    #: The graph with a node that frees it.
    freed_in: Graph | None = None
    #: Whether it is allocated, for what is queued now.
    live: bool = False
    #: How often it was allocated: what frees it frees this one and no later one.
    generation: int = 0
    record: MemoryRecord | None = None

    def begin(self, book: MemoryBook) -> None:
        """It is allocated, for whatever is queued from now on."""
        self.memory.take(book, self.graph, self.charged)
        self.live = True
        self.generation += 1
        known = self.record
        if known is not None and book.records.get(self.allocation.base) is known:
            known.freeing = False
            return
        before = self.allocation
        data = book.new_bytes(before.size)
        self.allocation = Allocation(
            before.base, before.size, MemoryKind.DEVICE, data, before.device, before.name, before.stack
        )
        self.record = book.book(self.allocation, self.context, 0, "cuMemAllocAsync")
        self.record.graph_allocation = self

    def end(self) -> None:
        """It is free, for whatever is queued from now on."""
        self.live = False
        self.memory.used -= self.charged


class AllocationWork(Work):
    """A node that allocates."""

    __slots__ = ("access", "graph_allocation", "pool_properties", "structures")
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEM_ALLOC

    def __init__(
        self, context: Context, graph_allocation: GraphAllocation, pool_properties: Any, access: list[Any]
    ) -> None:
        super().__init__(context, f"allocation of {graph_allocation.allocation.size} bytes")
        self.graph_allocation = graph_allocation
        self.pool_properties = pool_properties
        self.access = access
        #: What a program that asks for the node's parameters is given, which lives as long as the node.
        self.structures: Any = None

    def queue(
        self, driver: Any, stream: Stream, after: list[Operation] | None = None, note: str = ""
    ) -> Operation:
        """See :meth:`Work.queue`."""
        graph_allocation = self.graph_allocation
        graph_allocation.begin(driver)
        allocation, observer = graph_allocation.allocation, driver.observer
        run = None if observer is None else lambda: observer.allocated(allocation)
        operation: Operation = driver.operation(stream, self.label + note, run, after)
        operation.work = self
        driver.scheduler.enqueue(operation)
        return operation


class FreeWork(Work):
    """A node that frees what a node has allocated."""

    __slots__ = ("graph_allocation",)
    node_type = CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEM_FREE

    def __init__(self, context: Context, graph_allocation: GraphAllocation) -> None:
        super().__init__(context, f"free of {graph_allocation.allocation.size} bytes")
        self.graph_allocation = graph_allocation

    def check(self, driver: Any) -> None:
        """A launch frees what is allocated, by the graph itself or before."""
        graph_allocation = self.graph_allocation
        if not graph_allocation.live and graph_allocation.freed_in is not graph_allocation.graph:
            raise invalid_value()

    def queue(
        self, driver: Any, stream: Stream, after: list[Operation] | None = None, note: str = ""
    ) -> Operation:
        """See :meth:`Work.queue`."""
        graph_allocation = self.graph_allocation
        graph_allocation.end()
        generation, record = graph_allocation.generation, graph_allocation.record
        stack = driver.recorder.take()

        def run() -> None:
            if record is None or driver.records.get(record.allocation.base) is not record:
                return
            if graph_allocation.generation == generation:
                driver.release(record, stack)
            elif driver.observer is not None:
                # It is allocated again by what is queued behind this.
                driver.observer.freed(record.allocation, stack)

        operation: Operation = driver.operation(stream, self.label + note, run, after)
        operation.work = self
        driver.scheduler.enqueue(operation)
        return operation
