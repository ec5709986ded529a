"""Address ranges, and physical memory mapped into them: the driver's virtual memory management."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from drv.device import Device

_OUT_OF_MEMORY = 2


class AddressSpaceSource(Protocol):
    """What expandable segments stand on. Sizes and addresses are multiples of 2 MiB."""

    def reserve(self, size: int) -> int:
        """Reserve ``size`` bytes of address space; the first address."""

    def release(self, address: int, size: int) -> None:
        """Give a reserved range back; nothing in it is mapped."""

    def map(self, address: int, size: int) -> Any:
        """Put new physical memory at ``address``. A handle, or ``None`` when memory is exhausted."""

    def unmap(self, address: int, size: int, handle: Any) -> None:
        """Take the memory of ``handle`` away from ``address`` and give it back."""

    def grant(self, address: int, size: int, device: int) -> None:
        """Let another device use a mapped range."""

    def wait(self) -> None:
        """Wait until no work can use a range that is about to be unmapped."""

    def total_memory(self) -> int:
        """Bytes of memory of the device."""


class VirtualMemory:
    """Virtual memory of one device.

    Parameters
    ----------
    device : Device
        Whose physical memory is mapped, for itself and for the peers that may access it.
    """

    def __init__(self, device: Device) -> None:
        self.device = device

    def reserve(self, size: int) -> int:
        """See :meth:`AddressSpaceSource.reserve`."""
        runtime = self.device.runtime
        self.device.use()
        address = runtime.check(
            runtime.driver.cuMemAddressReserve(size, 0, 0, 0), "cuMemAddressReserve", f"{size} bytes"
        )
        return int(address)

    def release(self, address: int, size: int) -> None:
        """See :meth:`AddressSpaceSource.release`."""
        runtime = self.device.runtime
        self.device.use()
        runtime.check(runtime.driver.cuMemAddressFree(address, size), "cuMemAddressFree", hex(address))

    def map(self, address: int, size: int) -> Any:
        """See :meth:`AddressSpaceSource.map`."""
        from cuda.bindings import driver as cuda

        device, runtime = self.device, self.device.runtime
        device.use()
        properties = cuda.CUmemAllocationProp()
        properties.type = cuda.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = device.ordinal
        status, handle = runtime.driver.cuMemCreate(size, properties, 0)
        if status:
            if int(status) == _OUT_OF_MEMORY:
                return None
            runtime.fail(status, "cuMemCreate", f"{size} bytes on device {device.ordinal}")
        try:
            runtime.check(runtime.driver.cuMemMap(address, size, 0, handle, 0), "cuMemMap", hex(address))
            self.grant(address, size, device.ordinal)
            for peer in runtime.devices:
                if peer is not device and peer.peer_access_enabled(device):
                    self.grant(address, size, peer.ordinal)
        except BaseException:
            runtime.driver.cuMemUnmap(address, size)
            runtime.driver.cuMemRelease(handle)
            raise
        return handle

    def unmap(self, address: int, size: int, handle: Any) -> None:
        """See :meth:`AddressSpaceSource.unmap`."""
        runtime = self.device.runtime
        self.device.use()
        runtime.check(runtime.driver.cuMemUnmap(address, size), "cuMemUnmap", hex(address))
        runtime.check(runtime.driver.cuMemRelease(handle), "cuMemRelease")

    def grant(self, address: int, size: int, device: int) -> None:
        """See :meth:`AddressSpaceSource.grant`."""
        from cuda.bindings import driver as cuda

        access = cuda.CUmemAccessDesc()
        access.location.type = cuda.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = device
        access.flags = cuda.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        runtime = self.device.runtime
        self.device.use()
        runtime.check(
            runtime.driver.cuMemSetAccess(address, size, [access], 1),
            "cuMemSetAccess",
            f"{size} bytes at {address:#x} for device {device}",
        )

    def wait(self) -> None:
        """See :meth:`AddressSpaceSource.wait`."""
        runtime = self.device.runtime
        self.device.use()
        runtime.check(runtime.driver.cuCtxSynchronize(), "cuCtxSynchronize")

    def total_memory(self) -> int:
        """See :meth:`AddressSpaceSource.total_memory`."""
        return self.device.total_memory
