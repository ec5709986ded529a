"""The driver's own allocations: the bottom of the stack, and all of it when caching is off."""

from __future__ import annotations

from .direct import DirectAllocator, DirectBlock

#: One allocation of the driver.
DriverBlock = DirectBlock


class DriverMemory(DirectAllocator[DriverBlock]):
    """Each block is an allocation of the driver, so that a memory checker sees its true bounds.

    Freeing gives the block back at once, which waits for the device as ``cuMemFree`` does; so uses on
    other streams need not be remembered.

    Parameters
    ----------
    device : Device
        Whose memory.
    """

    def record_stream(self, block: DriverBlock, stream: int, device: int | None = None) -> None:
        """Nothing to do: giving memory back waits for all work of the device."""

    def _obtain(self, size: int, stream: int) -> DriverBlock:
        device, runtime = self.device, self.device.runtime
        device.use()
        runtime.collect()
        status, address = runtime.driver.cuMemAlloc(size)
        if status:
            runtime.fail(status, "cuMemAlloc", f"{size} bytes on device {device.ordinal}")
        return DriverBlock(int(address), size, stream)

    def _nothing(self, stream: int) -> DriverBlock:
        return DriverBlock(0, 0, stream)

    def _give_back(self, block: DriverBlock) -> None:
        self.device.runtime.release(self.device, "cuMemFree", block.address)
