"""The devices, and which one is current."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import drv
from tensor.core.devices.current import index_of, index_or_current, restore, select
from tensor.core.devices.state import cuda_state

if TYPE_CHECKING:
    from types import TracebackType

    from tensor.core.devices.current import DeviceArgument


class device:  # noqa: N801 - PyTorch's name
    """Context manager that makes a device current in this thread. Restores the one before, also on errors.

    Parameters
    ----------
    device : device, int or str, optional
        Which; ``None`` and negative numbers change nothing.

    Raises
    ------
    ValueError
        For the CPU and, on entering, for a device that does not exist.
    """

    __slots__ = ("_entered", "idx")

    def __init__(self, device: DeviceArgument) -> None:
        index = index_of(device)
        self.idx = -1 if index is None else index
        self._entered: list[tuple[drv.Runtime, drv.Device | None]] = []

    def __enter__(self) -> None:
        if self.idx >= 0:
            runtime = drv.runtime()
            self._entered.append((runtime, select(runtime.device(self.idx))))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._entered:
            restore(*self._entered.pop())


class device_of(device):  # noqa: N801 - PyTorch's name
    """Context manager that makes the device of a tensor or storage current; on the CPU it changes nothing.

    Parameters
    ----------
    obj
        Anything with a ``device``.
    """

    __slots__ = ()

    def __init__(self, obj: Any) -> None:
        where = obj.device
        super().__init__(where.index if where.type == "cuda" else -1)


def is_available() -> bool:
    """Whether there is a CUDA driver and at least one device. Creates no context, and never raises."""
    return drv.is_available()


def device_count() -> int:
    """Number of visible CUDA devices, 0 without a driver. Creates no context, and never raises."""
    return drv.device_count()


def is_initialized() -> bool:
    """Whether this process has a context on a device."""
    return drv.is_initialized() and any(result.context is not None for result in drv.runtime().devices)


def init() -> None:
    """Create the context of the current device, which its first use does otherwise.

    Raises
    ------
    RuntimeError
        If there is no driver or no device.
    """
    drv.current_device().use()


def current_device() -> int:
    """Index of the current device of this thread.

    Raises
    ------
    RuntimeError
        If there is no driver or no device.
    """
    return drv.current_device().ordinal


def set_device(device: DeviceArgument) -> None:
    """Make ``device`` current in this thread; a negative index changes nothing.

    Raises
    ------
    ValueError
        For the CPU, for a device that does not exist, and where no index is given.
    """
    index = index_of(device)
    if index is None:
        raise ValueError(f"Expected a device with a specified index or an integer, but got: {device}")
    if index >= 0:
        drv.runtime().device(index).set_current()


def synchronize(device: DeviceArgument = None) -> None:
    """Wait until all work on all streams of ``device``, by default the current one, is done.

    Raises
    ------
    RuntimeError
        If that work, or earlier work, failed: this is where a device assert, as of an index out of range, shows.
    ValueError
        For the CPU, or a device that does not exist.
    """
    native_device(device).synchronize()


def get_device_name(device: DeviceArgument = None) -> str:
    """Name of the model of ``device``, by default the current one.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    return existing_device(device).name


def get_device_capability(device: DeviceArgument = None) -> tuple[int, int]:
    """Major and minor compute capability of ``device``, by default the current one.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    return existing_device(device).compute_capability


def get_device_properties(device: DeviceArgument = None) -> drv.DeviceProperties:
    """Properties of ``device``, by default the current one: its name, memory, multiprocessors and limits.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    return existing_device(device).properties


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes with bfloat16.

    Parameters
    ----------
    including_emulation : bool
        Whether emulation, as before compute capability 8.0, counts.
    """
    return is_available() and (including_emulation or drv.current_device().compute_capability >= (8, 0))


def is_tf32_supported() -> bool:
    """Whether matrix products of the current device can round to TF32: from compute capability 8.0 on."""
    return is_bf16_supported(including_emulation=False)


def mem_get_info(device: DeviceArgument = None) -> tuple[int, int]:
    """Free and total bytes of the memory of ``device``, by default the current one, as the driver counts them.

    Memory that the caching allocator holds for reuse is not free; see :func:`memory_reserved`.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    free, total = existing_device(device).memory_info()
    return free, total


def can_device_access_peer(device: DeviceArgument, peer_device: DeviceArgument) -> bool:
    """Whether kernels on ``device`` can be let use memory of ``peer_device``; see :func:`enable_peer_access`.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    return existing_device(device).can_access_peer(existing_device(peer_device))


def enable_peer_access(peer: DeviceArgument, device: DeviceArgument = None) -> None:
    """Let kernels on ``device`` use memory of ``peer``, also what is allocated later. Twice is as once.

    It is for kernels of a program's own (:class:`RawKernel`) and makes copies between the devices direct. Operations take operands of
    one device still, and raise RuntimeError for others, as PyTorch's do: a sum of tensors on two devices would not say on which its result
    is and which streams have to wait for each other, and a forgotten ``.to(device)`` would be slow instead of an error.

    Parameters
    ----------
    peer : device, int or str
        Whose memory.
    device : device, int or str, optional
        Whose kernels; the current device by default.

    Raises
    ------
    RuntimeError
        If the hardware cannot, or both are the same device.
    ValueError
        For the CPU, or a device that does not exist.
    """
    user, owner = existing_device(device), existing_device(peer)
    user.enable_peer_access(owner)
    cuda_state(owner.ordinal).allocator.grant_access(user.ordinal)


def disable_peer_access(peer: DeviceArgument, device: DeviceArgument = None) -> None:
    """Undo :func:`enable_peer_access`: kernels on ``device`` no longer use memory of ``peer``.

    Raises
    ------
    RuntimeError
        If access was not enabled.
    ValueError
        For the CPU, or a device that does not exist.
    """
    existing_device(device).disable_peer_access(existing_device(peer))


def native_device(device: DeviceArgument) -> drv.Device:
    """The device that an argument means; the current one for ``None`` and negative numbers."""
    index = index_or_current(device)
    return drv.current_device() if index is None else drv.runtime().device(index)


def existing_device(device: DeviceArgument) -> drv.Device:
    """The device that an argument means, the current one for ``None``; there is none of a negative number."""
    index = index_of(device)
    return drv.current_device() if index is None else drv.runtime().device(index)
