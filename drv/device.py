"""Devices: attributes, primary context, peers, memory information."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from .current import runtime
from .errors import NotFoundError, PeerAccessError
from .stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from .runtime import Runtime

_ATTRIBUTE_PREFIX = "CU_DEVICE_ATTRIBUTE_"


class MemoryInfo(NamedTuple):
    """Free and total device memory: the result of :meth:`Device.memory_info`.

    Attributes
    ----------
    free, total : int
        Bytes, as the driver counts them.
    """

    free: int
    total: int


class DeviceProperties(NamedTuple):
    """Identity and limits of a device. Sizes are in bytes, clock rates in kHz, the bus width in bits.

    The names are those of ``torch.cuda.get_device_properties`` where it has them, and CUDA's (``cudaDeviceProp``)
    elsewhere.

    >>> properties = drv.Device(0).properties
    >>> properties.warp_size, properties.max_threads_per_block
    (32, 1024)

    Attributes
    ----------
    name : str
        Name of the model.
    major, minor : int
        Compute capability.
    total_memory : int
        Bytes of device memory.
    multi_processor_count : int
        Number of multiprocessors.
    warp_size, max_threads_per_block, max_threads_per_multi_processor : int
        Numbers of threads.
    max_block_dim, max_grid_dim : tuple of int
        The largest block, in threads, and grid, in blocks, along x, y and z.
    regs_per_multiprocessor : int
        Registers of 32 bits.
    shared_memory_per_block, shared_memory_per_block_optin, shared_memory_per_multiprocessor : int
        Bytes: of a block, of one whose kernel asks for more, and of a multiprocessor.
    L2_cache_size : int
        Bytes.
    clock_rate, memory_clock_rate : int
        In kHz.
    memory_bus_width : int
        In bits.
    is_integrated, is_multi_gpu_board : bool
        Whether it shares the host's memory, or its board with other GPUs.
    pci_bus_id, pci_device_id, pci_domain_id : int
        Where it is plugged in.
    uuid : UUID
        Identifier that no other device has.
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    max_block_dim: tuple[int, int, int]
    max_grid_dim: tuple[int, int, int]
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    is_integrated: bool
    is_multi_gpu_board: bool
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int
    uuid: UUID


_PROPERTIES = {
    "multi_processor_count": "MULTIPROCESSOR_COUNT",
    "warp_size": "WARP_SIZE",
    "max_threads_per_block": "MAX_THREADS_PER_BLOCK",
    "max_threads_per_multi_processor": "MAX_THREADS_PER_MULTIPROCESSOR",
    "regs_per_multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "shared_memory_per_block": "MAX_SHARED_MEMORY_PER_BLOCK",
    "shared_memory_per_block_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "shared_memory_per_multiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "L2_cache_size": "L2_CACHE_SIZE",
    "clock_rate": "CLOCK_RATE",
    "memory_clock_rate": "MEMORY_CLOCK_RATE",
    "memory_bus_width": "GLOBAL_MEMORY_BUS_WIDTH",
    "is_integrated": "INTEGRATED",
    "is_multi_gpu_board": "MULTI_GPU_BOARD",
    "pci_bus_id": "PCI_BUS_ID",
    "pci_device_id": "PCI_DEVICE_ID",
    "pci_domain_id": "PCI_DOMAIN_ID",
}


class Device:
    """A CUDA device. ``Device(i)`` is the same object each time.

    Parameters
    ----------
    ordinal : int
        Which of the visible devices, from 0.

    Raises
    ------
    InvalidValueError
        If there is no such device.
    NoDriverError, NoDeviceError
        If no driver, or no device, can be had.
    """

    runtime: Runtime
    ordinal: int
    #: What lost the device's context, once an error has.
    lost: str | None
    _context: Any
    _handle: Any
    _lock: threading.Lock
    _peers: set[int]
    _properties: DeviceProperties | None
    _capability: tuple[int, int] | None
    _default_stream: Stream | None

    def __new__(cls, ordinal: int = 0) -> Device:  # noqa: PYI034 - the runtime's own object
        return runtime().device(ordinal)

    @classmethod
    def create(cls, runtime: Runtime, ordinal: int) -> Device:
        """The object for the device ``ordinal`` of ``runtime``, which calls this once for each device.

        Raises
        ------
        CudaError
            If the driver has no such device.
        """
        self = object.__new__(cls)
        self.runtime = runtime
        self.ordinal = ordinal
        self.lost = None
        self._context = None
        self._lock = threading.Lock()
        self._peers = set()
        self._properties = None
        self._capability = None
        self._default_stream = None
        self._handle = runtime.check(runtime.driver.cuDeviceGet(ordinal), "cuDeviceGet", ordinal)
        return self

    def __repr__(self) -> str:
        return f"<drv.Device {self.ordinal} of {self.runtime.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.ordinal,)

    @property
    def handle(self) -> Any:
        """``CUdevice`` of this device, as the driver's functions take it."""
        return self._handle

    @property
    def context(self) -> Any:
        """Primary context (``CUcontext``), or ``None`` before anything needed one. Reading it creates none."""
        return self._context

    @property
    def name(self) -> str:
        """Name of the model, such as ``"NVIDIA H100 80GB HBM3"``.

        Raises
        ------
        DroppedRuntimeError
            If the runtime of this device was dropped by :func:`drv.reset`.
        """
        driver = self.runtime.driver
        name: bytes = self.runtime.check(driver.cuDeviceGetName(256, self._handle), "cuDeviceGetName")
        return name.split(b"\0", 1)[0].decode()

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor compute capability: ``(9, 0)``. The driver is asked once.

        Raises
        ------
        DroppedRuntimeError
            If the runtime of this device was dropped by :func:`drv.reset`.
        """
        if self._capability is None:
            major = self.attribute("COMPUTE_CAPABILITY_MAJOR")
            self._capability = major, self.attribute("COMPUTE_CAPABILITY_MINOR")
        return self._capability

    @property
    def total_memory(self) -> int:
        """Device memory in bytes, whatever is in use; :meth:`memory_info` tells what is free.

        Raises
        ------
        DroppedRuntimeError
            If the runtime of this device was dropped by :func:`drv.reset`.
        """
        driver = self.runtime.driver
        return int(self.runtime.check(driver.cuDeviceTotalMem(self._handle), "cuDeviceTotalMem"))

    @property
    def uuid(self) -> UUID:
        """Identifier that no other device has, also on other machines: a ``uuid.UUID``.

        Raises
        ------
        DroppedRuntimeError
            If the runtime of this device was dropped by :func:`drv.reset`.
        """
        from uuid import UUID  # brings platform, which few programs need

        uuid = self.runtime.check(self.runtime.driver.cuDeviceGetUuid(self._handle), "cuDeviceGetUuid")
        return UUID(bytes=bytes(uuid.bytes))

    @property
    def properties(self) -> DeviceProperties:
        """Identity and limits of the device: a :class:`DeviceProperties`. The driver is asked once.

        Raises
        ------
        DroppedRuntimeError
            If the runtime of this device was dropped by :func:`drv.reset`.

        Examples
        --------
        >>> drv.Device(0).properties.max_block_dim
        (1024, 1024, 64)
        """
        if self._properties is None:
            values: dict[str, Any] = {name: self.attribute(key) for name, key in _PROPERTIES.items()}
            for flag in ("is_integrated", "is_multi_gpu_board"):
                values[flag] = bool(values[flag])
            major, minor = self.compute_capability
            self._properties = DeviceProperties(
                name=self.name,
                major=major,
                minor=minor,
                total_memory=self.total_memory,
                max_block_dim=self._extent("MAX_BLOCK_DIM"),
                max_grid_dim=self._extent("MAX_GRID_DIM"),
                uuid=self.uuid,
                **values,
            )
        return self._properties

    @property
    def default_stream(self) -> Stream:
        """The legacy default stream of the device.

        It waits for work on all blocking streams of the device, and they wait for it; streams with ``non_blocking=True`` do not.
        """
        if self._default_stream is None:
            self._default_stream = Stream.from_handle(self, Stream.LEGACY)
        return self._default_stream

    def attribute(self, name: str) -> int:
        """Value of a device attribute, by its name in CUDA.

        Parameters
        ----------
        name : str
            Such as ``"MULTIPROCESSOR_COUNT"``; the prefix ``CU_DEVICE_ATTRIBUTE_`` may be left out,
            and case does not matter.

        Returns
        -------
        int
            In CUDA's unit for the attribute: bytes, kHz, or 0 and 1 for no and yes.

        Raises
        ------
        NotFoundError
            If CUDA has no attribute of that name.

        Examples
        --------
        >>> drv.Device(0).attribute("warp_size")
        32
        """
        from cuda.bindings.driver import CUdevice_attribute

        key = name.upper()
        if not key.startswith(_ATTRIBUTE_PREFIX):
            key = _ATTRIBUTE_PREFIX + key
        attribute = getattr(CUdevice_attribute, key, None)
        if attribute is None:
            raise NotFoundError(f"CUDA has no device attribute {name!r}")
        driver = self.runtime.driver
        value = self.runtime.check(
            driver.cuDeviceGetAttribute(attribute, self._handle), "cuDeviceGetAttribute", key
        )
        return int(value)

    def make_current(self) -> None:
        """Make this device's primary context current in this thread, whatever is current now.

        The first call on a device creates its context.

        Raises
        ------
        DeviceFaultError
            If the context is lost to an earlier error.
        DroppedRuntimeError
            If the runtime of this device was dropped by :func:`drv.reset`.
        """
        runtime = self.runtime
        context = self._context or self._retain()
        runtime.check(runtime.driver.cuCtxSetCurrent(context), "cuCtxSetCurrent", f"device {self.ordinal}")
        runtime.current.device = self

    def use(self) -> None:
        """Make this device's context current in this thread, unless this runtime already did so.

        For hot paths. It does not notice another library changing the context; :meth:`make_current` does.

        Raises
        ------
        DeviceFaultError, DroppedRuntimeError
            As :meth:`make_current`.
        """
        if self.runtime.current.device is not self:
            self.make_current()

    def set_current(self) -> None:
        """Select this device in this thread, for :func:`drv.current_device` and for everything that takes no device.

        Raises
        ------
        DeviceFaultError
            If the context is lost to an earlier error.
        """
        self.make_current()
        self.runtime.current.selected = self

    def synchronize(self) -> None:
        """Wait for all work queued on this device.

        Raises
        ------
        CudaError
            If that work, or earlier work, failed.
        FindingError
            If a checker of the simulated driver, or a guarding allocator, has found a mistake.
        """
        self.make_current()
        runtime = self.runtime
        runtime.check(runtime.driver.cuCtxSynchronize(), "cuCtxSynchronize")
        runtime.collect()
        runtime.raise_pending()

    def memory_info(self) -> MemoryInfo:
        """Free and total device memory in bytes, as the driver counts it: memory that an allocator caches is not free.

        Raises
        ------
        CudaError
            If the context is lost to an earlier error.
        """
        self.make_current()
        free, total = self.runtime.check(self.runtime.driver.cuMemGetInfo(), "cuMemGetInfo")
        return MemoryInfo(int(free), int(total))

    def stream_priority_range(self) -> tuple[int, int]:
        """Least and greatest priority of streams, such as ``(0, -5)``; a lower number is a greater priority.

        Raises
        ------
        CudaError
            If the context is lost to an earlier error.
        """
        self.make_current()
        driver = self.runtime.driver
        least, greatest = self.runtime.check(
            driver.cuCtxGetStreamPriorityRange(), "cuCtxGetStreamPriorityRange"
        )
        return int(least), int(greatest)

    def can_access_peer(self, peer: Device) -> bool:
        """Whether kernels on this device could access memory of ``peer`` directly.

        Parameters
        ----------
        peer : Device
            Another device of the same runtime.

        Returns
        -------
        bool
            False for the device itself. Access still has to be enabled: :meth:`enable_peer_access`.

        Raises
        ------
        DroppedRuntimeError
            If the runtime of this device was dropped by :func:`drv.reset`.
        """
        if peer is self:
            return False
        accessible = self.runtime.check(
            self.runtime.driver.cuDeviceCanAccessPeer(self._handle, peer._handle),
            "cuDeviceCanAccessPeer",
            self.ordinal,
            peer.ordinal,
        )
        return bool(accessible)

    def enable_peer_access(self, peer: Device) -> None:
        """Let kernels on this device access memory of ``peer``. The other direction is enabled apart; a second call changes nothing.

        Raises
        ------
        PeerAccessError
            If the hardware cannot, or ``peer`` is this device.
        """
        if peer is self:
            raise PeerAccessError(f"device {self.ordinal} is not its own peer")
        if not self.can_access_peer(peer):
            raise PeerAccessError(f"device {self.ordinal} cannot access memory of device {peer.ordinal}")
        peer.make_current()
        self.make_current()
        status = self.runtime.driver.cuCtxEnablePeerAccess(peer._context, 0)[0]
        if status and int(status) != 704:
            self.runtime.fail(status, "cuCtxEnablePeerAccess", f"from {self.ordinal} to {peer.ordinal}")
        self._peers.add(peer.ordinal)

    def disable_peer_access(self, peer: Device) -> None:
        """Undo :meth:`enable_peer_access`: kernels on this device no longer access memory of ``peer``.

        Raises
        ------
        PeerAccessError
            If access was not enabled.
        """
        if peer._context is None:
            raise PeerAccessError(f"device {self.ordinal} has no access to device {peer.ordinal} to disable")
        self.make_current()
        self.runtime.check(
            self.runtime.driver.cuCtxDisablePeerAccess(peer._context),
            "cuCtxDisablePeerAccess",
            f"from {self.ordinal} to {peer.ordinal}",
        )
        self._peers.discard(peer.ordinal)

    def peer_access_enabled(self, peer: Device) -> bool:
        """Whether :meth:`enable_peer_access` has let this device access memory of ``peer``.

        It asks no driver and raises nothing. Access has a direction: that of ``peer`` to this device is another question.
        """
        return peer.ordinal in self._peers

    def release_context(self) -> None:
        """Release the primary context and with it everything that was allocated and loaded there.

        The runtime calls it when it is closed. Raises nothing.
        """
        if self._context is not None:
            self._context = None
            self.runtime.driver.cuDevicePrimaryCtxRelease(self._handle)

    def _retain(self) -> Any:
        with self._lock:
            if self._context is None:
                driver = self.runtime.driver
                self._context = self.runtime.check(
                    driver.cuDevicePrimaryCtxRetain(self._handle),
                    "cuDevicePrimaryCtxRetain",
                    f"device {self.ordinal}",
                )
            return self._context

    def _extent(self, name: str) -> tuple[int, int, int]:
        return self.attribute(f"{name}_X"), self.attribute(f"{name}_Y"), self.attribute(f"{name}_Z")


@contextmanager
def pushed(device: Device) -> Iterator[None]:
    """Make the device's context current for a block, without a change to the runtime's own record of it.

    For finalizers and checkers, which may run in the middle of anything. Raises :class:`CudaError` if the
    driver refuses.
    """
    driver, check = device.runtime.driver, device.runtime.check
    check(driver.cuCtxPushCurrent(device.context), "cuCtxPushCurrent")
    try:
        yield
    finally:
        driver.cuCtxPopCurrent()
