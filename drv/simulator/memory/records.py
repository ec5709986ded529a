"""Book-keeping of simulated memory: which call made an allocation, whose it is, what it counts for."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda.bindings.driver import CUresult

from drv.simulator.device_properties import ALLOCATION_ALIGNMENT, SimulatedDevice
from drv.simulator.driver_call import CallError, invalid_value
from drv.simulator.driver_state import Context, DriverState

from .address_space import (
    DEVICE_BASE,
    DEVICE_STRIDE,
    PADDING,
    Allocation,
    MemoryKind,
    touched_here_and_there,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from drv.python_stack import Frame
    from drv.simulator.options import Options
    from drv.simulator.scheduler import Operation, Stream

    from .managed_pages import ManagedPages
    from .shared_bytes import SharedBytes

_PAGE = 4096
_USER_SPACE = 1 << 47
_MS_ASYNC = 1
_msync = ctypes.CDLL(None).msync
_msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@dataclass(slots=True, eq=False)
class MemoryRecord:
    """What the driver knows of an allocation beside its bytes."""

    allocation: Allocation
    context: Context | None
    #: Bytes of the device's memory that it takes.
    charged: int
    #: Call that made it.
    origin: str
    identifier: int
    flags: int = 0
    #: Stream-ordered memory whose free is queued.
    freeing: bool = False
    sync_memops: bool = False
    pool: Any = None
    #: What was said of the pages of managed memory.
    pages: ManagedPages | None = None
    #: What may use it, as ``CUmemAttach_flags``, and the stream where that is a single one.
    attached: int = 0
    attached_stream: Stream | None = None
    #: The bytes, where other processes may have them, too.
    shared: SharedBytes | None = None
    #: For memory that a node of a graph allocates.
    graph_allocation: Any = None


class MemoryBook(DriverState):
    """Finds, makes and releases allocations."""

    def __init__(self, options: Options, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(options, environment)
        self.records: dict[int, MemoryRecord] = {}
        #: Bytes of address space, a multiple of the alignment, that are nobody's behind each allocation.
        self.gap = ALLOCATION_ALIGNMENT
        self._next_address: dict[int, int] = {}
        self.nothing = np.empty(0, np.uint8)

    def record_at(self, address: int) -> MemoryRecord | None:
        """Record of the live allocation that holds ``address``."""
        allocation = self.memory.find(address)
        return None if allocation is None else self.records.get(allocation.base)

    @staticmethod
    def charged(size: int) -> int:
        """Bytes of a device's memory that an allocation of ``size`` bytes takes."""
        return -(-size // ALLOCATION_ALIGNMENT) * ALLOCATION_ALIGNMENT

    def charge(self, device: SimulatedDevice, nbytes: int) -> None:
        """Count ``nbytes`` of ``device`` as used by an allocation, or answer that there is not enough memory."""
        self.reserve(device, nbytes)
        if self.inject.refuses(nbytes):
            device.used -= nbytes
            raise self.no_memory()

    def reserve(self, device: SimulatedDevice, nbytes: int) -> None:
        """Count ``nbytes`` of ``device`` as used, or answer that there is not enough memory."""
        while self.postponed:
            self.postponed.popleft()()
        if device.used + nbytes > device.total:
            self.let_go_of_reserves(device)
        if device.used + nbytes > device.total:
            raise self.no_memory()
        device.used += nbytes

    def let_go_of_reserves(self, device: SimulatedDevice) -> None:
        """Give ``device`` back what is held of its memory and not used."""

    def alone_with(self, record: MemoryRecord) -> list[Operation]:
        """The operations that have to be done before the host touches ``record``, whether they use it or not."""
        return []

    @staticmethod
    def no_memory() -> CallError:
        """The error of a request for which there is not enough memory."""
        return CallError(CUresult.CUDA_ERROR_OUT_OF_MEMORY)

    def new_bytes(self, size: int) -> NDArray[np.uint8]:
        """Zeroed bytes, padded; committed by the operating system only when touched."""
        if not self.execute:
            return self.nothing
        padded = (size + PADDING - 1) // PADDING * PADDING
        try:
            return touched_here_and_there(padded) if self.sampled else np.zeros(padded, np.uint8)
        except MemoryError:
            raise CallError(CUresult.CUDA_ERROR_OUT_OF_MEMORY) from None

    def new_address(self, device: SimulatedDevice, size: int) -> int:
        """A free address on ``device``. Freed ones come back only after all others were used once."""
        # The upper half is where kernels allocate (``malloc``).
        start, stop = device.base, device.base + DEVICE_STRIDE // 2
        step = (size + self.gap + ALLOCATION_ALIGNMENT - 1) // ALLOCATION_ALIGNMENT * ALLOCATION_ALIGNMENT
        address = self._next_address.get(device.index, start)
        if address + step > stop:
            address = start
            while blocking := self.memory.overlapping(address, step):
                address = -(-blocking[-1].end // ALLOCATION_ALIGNMENT) * ALLOCATION_ALIGNMENT
            if address + step > stop:
                raise CallError(CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        self._next_address[device.index] = address + step
        return address

    def allocate(
        self, context: Context, size: int, origin: str, kind: MemoryKind = MemoryKind.DEVICE, name: str = ""
    ) -> MemoryRecord:
        """Make ``size`` bytes of memory on the device of ``context``."""
        if size <= 0:
            raise invalid_value()
        device = context.device
        charged = self.charged(size)
        self.charge(device, charged)
        try:
            data = self.new_bytes(size)
            base = self.new_address(device, size)
        except CallError:
            device.used -= charged
            raise
        allocation = Allocation(base, size, kind, data, device.ordinal, name, self.recorder.take())
        return self.book(allocation, context, charged, origin)

    def book_host_memory(
        self,
        size: int,
        kind: MemoryKind,
        context: Context | None,
        origin: str,
        stack: tuple[Frame, ...],
        flags: int = 0,
    ) -> MemoryRecord:
        """Make ``size`` bytes of memory of the host, which devices reach at the same address."""
        try:
            # Page-aligned as CUDA's; a page before and the rest of the last one keep neighbours out of it.
            whole = np.zeros(size + 3 * _PAGE, np.uint8)
        except MemoryError:
            raise self.no_memory() from None
        start = _PAGE + -whole.ctypes.data % _PAGE
        data = whole[start : start + -(-size // PADDING) * PADDING]
        allocation = Allocation(int(data.ctypes.data), size, kind, data, stack=stack)
        return self.book(allocation, context, 0, origin, flags)

    def book(
        self, allocation: Allocation, context: Context | None, charged: int, origin: str, flags: int = 0
    ) -> MemoryRecord:
        """Make ``allocation`` live and keep its record."""
        record = MemoryRecord(allocation, context, charged, origin, self.new_identifier(), flags)
        self.remember(allocation)
        self.records[allocation.base] = record
        return record

    def release(self, record: MemoryRecord, stack: tuple[Frame, ...] | None = None) -> None:
        """Free an allocation, at ``stack``. Work that still uses it meets a fault."""
        self.forget(record.allocation, stack)
        record.allocation.drop_bytes()
        del self.records[record.allocation.base]
        if record.shared is not None:
            record.shared.close()
        if record.charged and record.context is not None:
            record.context.device.used -= record.charged

    def release_modules(self, context: Context) -> None:
        """Unload what was loaded into ``context``: here nothing, and modules are what a class above has."""

    def release_context_memory(self, context: Context) -> None:
        """Free everything that was allocated in ``context``."""
        for record in [r for r in self.records.values() if r.context is context]:
            self.release(record)
        device = context.device.ordinal
        if self.memory.heaps.pop(device, None) is not None:
            for allocation in self.memory.live():
                if allocation.kind is MemoryKind.HEAP and allocation.device == device:
                    self.forget(allocation)

    def promised(self, address: int, nbytes: int) -> Allocation | None:
        """Memory that is not there yet, and may be named: what a node of a graph will allocate."""
        return None

    # Ranges that calls name

    def host_range(self, address: int, nbytes: int) -> None:
        """Check that ``[address, address + nbytes)`` is memory of this process."""
        start = address // _PAGE * _PAGE
        if not _PAGE <= address <= _USER_SPACE - nbytes:
            raise invalid_value()
        if _msync(start, address + nbytes - start, _MS_ASYNC) != 0:
            raise invalid_value()

    def simulated_range(self, address: int, nbytes: int) -> Allocation | None:
        """The allocation where a range begins; ``None`` for pageable host memory.

        Answers ``CUDA_ERROR_INVALID_VALUE`` when the range is not inside live memory, or is mapped and no
        device has access to it.
        """
        first = self.memory.find(address)
        if first is None:
            first = self.promised(address, nbytes)
            if first is not None:
                return first
            if address >= DEVICE_BASE:
                raise invalid_value()
            self.host_range(address, nbytes)
            return None
        here, end = first, address + nbytes
        while True:
            if here.access is not None and not here.access:
                raise invalid_value()
            if end <= here.end:
                return first
            following = self.memory.find(here.end)
            if following is None or following.kind is not MemoryKind.MAPPED:
                raise invalid_value()
            here = following
