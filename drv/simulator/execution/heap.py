"""``malloc`` and ``free`` in kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drv.simulator.memory.address_space import DEVICE_BASE, DEVICE_STRIDE, PADDING, Allocation, MemoryKind

if TYPE_CHECKING:
    from drv.simulator.memory.address_space import AddressSpace

#: Size of the heap in bytes, CUDA's default (``CU_LIMIT_MALLOC_HEAP_SIZE``).
HEAP_BYTES = 8 << 20
_ALIGNMENT = 16


class DeviceHeap:
    """Heap of one device, in the upper half of its addresses.

    Every block is an allocation of its own and no address is used twice, so an access past the end of a
    block or to a freed one is found.
    """

    def __init__(self, memory: AddressSpace, device: int) -> None:
        self._memory = memory
        self._device = device
        self._next = DEVICE_BASE + device * DEVICE_STRIDE + DEVICE_STRIDE // 2
        self._used = 0

    @classmethod
    def of(cls, memory: AddressSpace, device: int) -> DeviceHeap:
        """The heap of a device."""
        heap: DeviceHeap | None = memory.heaps.get(device)
        if heap is None:
            heap = memory.heaps[device] = cls(memory, device)
        return heap

    def allocate(self, size: int) -> int:
        """Address of ``size`` bytes, 0 when the heap is exhausted."""
        size = max(size, 1)
        if self._used + size > HEAP_BYTES:
            return 0
        data = np.zeros(-(-size // PADDING) * PADDING, np.uint8)
        self._memory.insert(Allocation(self._next, size, MemoryKind.HEAP, data, self._device))
        self._used += size
        address = self._next
        self._next += -(-size // _ALIGNMENT) * _ALIGNMENT + _ALIGNMENT
        return address

    def free(self, address: int) -> bool:
        """Give a block back; whether there is one at ``address``. Address 0 does nothing."""
        if address == 0:
            return True
        allocation = self._memory.find(address)
        if (
            allocation is None
            or allocation.base != address
            or allocation.kind is not MemoryKind.HEAP
            or allocation.device != self._device
        ):
            return False
        self._memory.remove(allocation)
        self._used -= allocation.size
        return True
