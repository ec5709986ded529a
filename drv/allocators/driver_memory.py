"""The driver's own allocations: the bottom of the stack, and all of it when caching is off."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING

from drv.capture_mode import unseen_by_captures
from drv.device import pushed
from drv.errors import CudaError

from .direct import DirectAllocator, DirectBlock
from .events import StreamEvents

if TYPE_CHECKING:
    from drv.device import Device


class DriverBlock(DirectBlock):
    """One allocation of the driver, which :class:`DriverMemory` constructs.

    Parameters
    ----------
    address, size, stream : int
        See :class:`~drv.allocators.protocol.Block`.

    Attributes
    ----------
    users : set of int
        Ordinals of other devices that use the block.
    """

    __slots__ = ("users",)

    def __init__(self, address: int, size: int, stream: int) -> None:
        super().__init__(address, size, stream)
        self.users: set[int] = set()


class DriverMemory(DirectAllocator[DriverBlock]):
    """Each block is an allocation of the driver, so that a memory checker sees its true bounds.

    Freeing gives the block back at once, which waits for the device as ``cuMemFree`` does; so uses on
    the device's other streams need not be remembered. Other devices that use the block are waited for before.

    Parameters
    ----------
    device : Device
        Whose memory.
    """

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._events = StreamEvents(device.runtime)
        #: Freed where no device could be waited for, such as in a finalizer inside the driver.
        self._deferred: deque[DriverBlock] = deque()

    def record_stream(self, block: DriverBlock, stream: int, device: int | None = None) -> None:
        """Note another ``device`` that uses ``block``.

        Giving memory back waits for all of its work, whatever ``stream``; for the block's own device there is nothing to note.
        """
        if device is not None and device != self.ordinal:
            block.users.add(device)

    def _obtain(self, size: int, stream: int) -> DriverBlock:
        device, runtime = self.device, self.device.runtime
        device.use()
        runtime.collect()
        while self._deferred:
            self._give_back(self._deferred.popleft())
        with unseen_by_captures(runtime):
            status, address = runtime.driver.cuMemAlloc(size)
        if status:
            runtime.fail(status, "cuMemAlloc", f"{size} bytes on device {device.ordinal}")
        return DriverBlock(int(address), size, stream)

    def _nothing(self, stream: int) -> DriverBlock:
        return DriverBlock(0, 0, stream)

    def _give_back(self, block: DriverBlock) -> None:
        if block.users and not self._events.ready():
            self._deferred.append(block)
            return
        runtime = self.device.runtime
        if runtime.alive:
            for ordinal in block.users:
                # Freeing raises nothing: where a context is lost, what its device did is over.
                with contextlib.suppress(CudaError), pushed(runtime.device(ordinal)):
                    runtime.driver.cuCtxSynchronize()
        runtime.release(self.device, "cuMemFree", block.address)
