"""What one launch shares among its batches: the arguments, values that all threads have, clocks."""

from __future__ import annotations

import functools
import random
import time
from itertools import count
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from drv.host import collector
from drv.simulator.memory.address_space import DEVICE_BASE, DEVICE_STRIDE, PADDING, Allocation, MemoryKind

from .reports import Reports
from .translation.plan import KernelPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from drv.simulator.checks.observation import AccessObserver
    from drv.simulator.memory.address_space import AddressSpace

    from .batch import Batch
    from .native import NativeKernel

    Array = NDArray[Any]

_launches = count(1)
#: Lanes of a batch: enough that the cost of a call is spread, few enough that registers stay in the cache.
BATCH_LANES = 4096
#: Bytes of local memory that one thread may use, as ``cuCtxSetLimit`` allows at most on current GPUs.
STACK_LIMIT = 512 * 1024
#: Launches of a kernel whose invariants are cached.
_MOST_INVARIANTS = 64
#: Looks at memory that nothing changes, one after the other, after which a kernel counts as hanging.
MOST_IDLE_POLLS = 500_000


class InvariantValues:
    """Values of a kernel's invariants in a launch, in their order; ``packed`` in 8 bytes each."""

    __slots__ = ("_packed", "values")

    def __init__(self, values: list[Array]) -> None:
        self.values = values
        self._packed: Array | None = None

    @property
    def packed(self) -> NDArray[np.int64]:
        """Each value's bytes, and zeros behind them."""
        if self._packed is None:
            self._packed = np.zeros((len(self.values), 8), np.uint8)
            for row, value in zip(self._packed, self.values, strict=True):
                row[: value.itemsize] = value.view(np.uint8)
        return self._packed.view(np.int64).reshape(-1)


class LaunchState:
    """A running launch. See :class:`drv.simulator.execution.Launch` for its arguments."""

    def __init__(self, launch: Any, memory: AddressSpace) -> None:
        entry = launch.kernel
        if entry.plan is None:
            translation_cache = launch.module.translation_cache
            with collector.paused():
                entry.plan = (
                    KernelPlan(launch.module, entry)
                    if translation_cache is None
                    else translation_cache.plan(launch.module, entry)
                )
        self.plan: KernelPlan = entry.plan
        self.plan.enter(memory)
        self.memory = memory
        self.device: int = launch.device
        self.checked: bool = launch.checked
        self.observer: AccessObserver | None = launch.observer
        self.printf: Callable[[str], object] = launch.printf
        self.set_condition: Callable[[int, int], bool] = launch.set_condition
        self.symbols: Mapping[str, int] = launch.symbols
        self.grid: tuple[int, int, int] = launch.grid
        self.block: tuple[int, int, int] = launch.block
        self.threads = prod(launch.block)
        self.blocks = prod(launch.grid)
        self.warps = -(-self.threads // 32)
        self.dynamic_shared: int = launch.dynamic_shared
        shared = self.plan.shared
        self.shared_bytes = (
            shared.dynamic + launch.dynamic_shared if launch.dynamic_shared else shared.static_end
        )
        self.parameter_size = len(launch.params)
        self.parameter_bytes: Array = np.frombuffer(
            bytes(launch.params) + bytes(-len(launch.params) % 16), np.uint8
        )
        self.multiprocessors: int = getattr(launch.properties, "multiprocessors", 1)
        self.grid_id = next(_launches)
        self.block_size = [np.array([size], np.uint32) for size in launch.block]
        self.grid_size = [np.array([size], np.uint32) for size in launch.grid]
        #: How often threads changed memory, or read a clock: what a loop that waits may wait for.
        self.writes = 0
        self._idle_polls = self._writes_seen = 0
        self._arguments: dict[tuple[int, Any], Array] = {}
        self.cluster: tuple[int, int, int] = launch.cluster or (1, 1, 1)
        self.cluster_blocks = prod(self.cluster)
        self.explicit_cluster = np.array([launch.cluster is not None])
        #: Linear indices of the blocks, cluster by cluster; ``None`` where that is their order anyway.
        self.block_order = _by_clusters(self.grid, self.cluster) if self.cluster_blocks > 1 else None
        self.cooperative: bool = launch.cooperative
        self.schedule: str = launch.schedule
        self._seed = f"{launch.seed} {entry.name}"
        self._workspace: Allocation | None = None
        self._symbols: dict[str, Array] = {}
        self._constant_names = {
            name for name, variable in launch.module.variables.items() if variable.space == "const"
        }
        #: Blocks of a batch, of clusters all of them; its lanes and warps.
        whole = self.cluster_blocks
        self.batch_blocks = (
            self.blocks if launch.cooperative else max(1, BATCH_LANES // (self.threads * whole)) * whole
        )
        self.batch_lanes = min(self.batch_blocks, self.blocks) * self.threads
        self.batch_warps = min(self.batch_blocks, self.blocks) * self.warps
        self.native: NativeKernel | None = None if launch.native == "off" else self.plan.native_kernel()
        self._native_at_once = launch.native == "on"
        self._native_ready = False
        #: Cores that run its batches, where native code does.
        self.cores: int = launch.cores if launch.meter is None else 1
        self._template: list[Any] | None = None
        self._invariants: InvariantValues | None = None

    def native_ready(self) -> bool:
        """Whether native code runs the launch; asked for before each batch, as a long one may come to be worth it."""
        native = self.native
        if native is None or native.refused:
            return False
        self._native_ready = self._native_ready or native.begin_launch(self, at_once=self._native_at_once)
        return self._native_ready

    @property
    def template(self) -> list[Any]:
        """What the entry's registers hold at first."""
        if self._template is None:
            plan = self.plan.function(self.plan.entry.name)
            registers = self._template = plan.template.copy()
            for number, formal in zip(plan.formals, self.plan.entry.formals, strict=True):
                value_bytes = self.parameter_bytes[formal.offset : formal.offset + formal.size]
                registers[number] = value_bytes.reshape(1, -1)
            assert plan.invariants is not None
            for number, value in zip(plan.invariants.code.outputs, self.invariants.values, strict=True):
                registers[number] = value
        return self._template

    @property
    def invariants(self) -> InvariantValues:
        """Values of the registers that all threads share."""
        if self._invariants is None:
            invariants = self.plan.function(self.plan.entry.name).invariants
            assert invariants is not None
            key = self.parameter_bytes.tobytes(), self.block, self.grid, self.dynamic_shared
            known: InvariantValues | None = self.plan.invariant_values.get(key)
            if known is not None:
                self._invariants = known
            else:
                with np.errstate(all="ignore"):
                    registers: dict[int, Array] = {}
                    invariants.code.body(SimpleNamespace(launch=self), registers)
                self._invariants = InvariantValues([registers[each] for each in invariants.code.outputs])
                if not invariants.uses_symbols:
                    if len(self.plan.invariant_values) >= _MOST_INVARIANTS:
                        self.plan.invariant_values.clear()
                    self.plan.invariant_values[key] = self._invariants
        return self._invariants

    def argument(self, offset: int, dtype: Any) -> Array:
        """A parameter, or an element of one, ``(1,)``."""
        value = self._arguments.get((offset, dtype))
        if value is None:
            value_bytes = self.parameter_bytes[offset : offset + np.dtype(dtype).itemsize]
            value = self._arguments[offset, dtype] = value_bytes.copy().view(dtype)
        return value

    @property
    def reports(self) -> Reports:
        """Makes the faults of this launch. Not kept: the two would keep each other."""
        return Reports(self)

    def symbol(self, name: str) -> Array:
        """Address of a module variable, ``(1,)``."""
        address = self._symbols.get(name)
        if address is None:
            address = self._symbols[name] = np.array([self.symbols[name]], np.uint64)
        return address

    def reference(self, name: str) -> Array:
        """Handle of what is bound to the texture or surface reference ``name``, ``(1,)``."""
        allocation = self.memory.find(self.symbols[name])
        assert allocation is not None
        return allocation.data[:8].view(np.uint64).copy()

    def read_only(self, allocation: Allocation) -> bool:
        """Whether an allocation is a variable in constant memory."""
        return allocation.kind is MemoryKind.VARIABLE and allocation.name in self._constant_names

    def is_constant(self, address: int) -> bool:
        """Whether an address is in constant memory."""
        allocation = self.memory.find(address)
        return allocation is not None and self.read_only(allocation)

    def grid_workspace(self) -> int:
        """Address of the memory in which the blocks of a cooperative launch meet; 0 for other launches."""
        if not self.cooperative:
            return 0
        if self._workspace is None:
            # Beyond the device's heap, where no allocation goes.
            base = DEVICE_BASE + self.device * DEVICE_STRIDE + DEVICE_STRIDE // 4 * 3
            data = np.zeros(PADDING, np.uint8)
            data.view(np.uint32)[0] = data.size
            name = "barrier of the grid"
            self._workspace = Allocation(base, data.size, MemoryKind.VARIABLE, data, self.device, name)
            self.memory.insert(self._workspace)
        return self._workspace.base

    def end(self) -> None:
        """Give back what the launch needed, and store what was translated for it."""
        if self._workspace is not None:
            self.memory.remove(self._workspace)
        translation_cache = self.plan.module.translation_cache
        if self.plan.is_news and translation_cache is not None:
            with collector.paused():
                translation_cache.update(self.plan)

    @staticmethod
    def number(value: int) -> Array:
        """``(1,)`` of 32 bits."""
        return np.array([value], np.uint32)

    @staticmethod
    def wide_number(value: int) -> Array:
        """``(1,)`` of 64 bits."""
        return np.array([value], np.uint64)

    def watch(self, polls: int, batch: Batch) -> None:
        """Stop a kernel that has polled memory for very long while nothing wrote to any.

        Raises
        ------
        DeviceFault
            When it has.
        """
        if self.writes != self._writes_seen:
            self._writes_seen, self._idle_polls = self.writes, 0
        self._idle_polls += polls
        if self._idle_polls > MOST_IDLE_POLLS:
            raise self.reports.timeout(batch.standing())

    def blocks_from(self, start: int, count: int) -> Array:
        """Linear indices in the grid of ``count`` blocks that run together."""
        if self.block_order is None:
            return np.arange(start, start + count)
        return self.block_order[start : start + count]

    @functools.cached_property
    def random(self) -> random.Random:
        """Draws when asynchronous operations are carried out. Every launch of a kernel draws the same."""
        return random.Random(self._seed)

    def clock64(self) -> Array:
        """A counter that grows by the nanosecond."""
        self.writes += 1
        return np.array([time.perf_counter_ns()], np.uint64)

    def clock(self) -> Array:
        """Low 32 bits of :meth:`clock64`."""
        return self.clock64().astype(np.uint32)

    def clock_high(self) -> Array:
        """High 32 bits of :meth:`clock64`."""
        return (self.clock64() >> np.uint64(32)).astype(np.uint32)

    def timer(self) -> Array:
        """Nanoseconds since the epoch."""
        self.writes += 1
        return np.array([time.time_ns()], np.uint64)

    def timer_low(self) -> Array:
        """Low 32 bits of :meth:`timer`."""
        return self.timer().astype(np.uint32)

    def timer_high(self) -> Array:
        """High 32 bits of :meth:`timer`."""
        return (self.timer() >> np.uint64(32)).astype(np.uint32)


def _by_clusters(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> Array:
    """Linear indices of the blocks of a grid in the order of their clusters, and within one by rank."""
    split = [
        extent
        for size, each in zip(grid[::-1], cluster[::-1], strict=True)
        for extent in (size // each, each)
    ]
    order: Array = np.arange(prod(grid)).reshape(split).transpose(0, 2, 4, 1, 3, 5).reshape(-1)
    return order
