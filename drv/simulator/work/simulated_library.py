"""Work of the simulated libraries, and how much it is, for the model of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuda.bindings.driver import CUgraphNodeType

from drv.simulator.memory.library_memory import LibraryMemory

from .work import Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from drv.simulator.driver_state import Context, DriverState


@dataclass(frozen=True, slots=True)
class ProductCost:
    """``batch`` products of ``(m, k)`` by ``(k, n)``.

    Attributes
    ----------
    unit : str
        In what it is computed: ``f16``, ``bf16``, ``tf32``, ``f32``, ``f64``, ``s8``; ``c`` before it for complex.
    bytes_moved : int
        Bytes of the factors and the result, and of what the result is added to.
    """

    m: int
    n: int
    k: int
    batch: int
    unit: str
    bytes_moved: int

    @property
    def flops(self) -> int:
        """Floating point operations: two for each multiply-add, four times that for complex numbers."""
        return 2 * self.m * self.n * self.k * self.batch * (4 if self.unit.startswith("c") else 1)


@dataclass(frozen=True, slots=True)
class TransformCost:
    """``batch`` Fourier transforms of ``sizes``, ``bytes_moved`` of input and output together."""

    sizes: tuple[int, ...]
    batch: int
    element_bytes: int
    bytes_moved: int


@dataclass(frozen=True, slots=True)
class CommunicationCost:
    """A collective with devices that are not there: how long it takes is worked out by whoever describes the network.

    Attributes
    ----------
    seconds : float
        How long it takes.
    bytes_moved : int
        Bytes of the tensor that it is about.
    link : str
        What it is sent over: what shares that waits, and the multiprocessors are free.
    """

    seconds: float
    bytes_moved: int
    link: str


LibraryCost = ProductCost | TransformCost | CommunicationCost


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
