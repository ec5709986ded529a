"""Memory of the devices that compute: the names of ``torch.accelerator.memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor import cuda
from tensor.core.names.absent import hints as _hints

from .devices import check_available

if TYPE_CHECKING:
    from tensor.core.devices.current import DeviceArgument

__all__ = [
    "empty_cache",
    "empty_host_cache",
    "get_memory_info",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]


def empty_cache() -> None:
    """Give memory that is cached and not in use back to the driver.

    Raises
    ------
    RuntimeError
        If there is no device.
    """
    check_available()
    cuda.empty_cache()


def get_memory_info(device_index: DeviceArgument = None, /) -> tuple[int, int]:
    """Free and total memory of ``device_index``, by default the current device, in bytes.

    Raises
    ------
    RuntimeError
        If there is no device at all.
    ValueError
        For the CPU, or a device that does not exist.
    """
    check_available()
    return cuda.mem_get_info(device_index)


def memory_allocated(device_index: DeviceArgument = None, /) -> int:
    """Bytes that tensors occupy on the device.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    check_available()
    return cuda.memory_allocated(device_index)


def max_memory_allocated(device_index: DeviceArgument = None, /) -> int:
    """Most bytes that tensors occupied on the device since the last reset.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    check_available()
    return cuda.max_memory_allocated(device_index)


def memory_reserved(device_index: DeviceArgument = None, /) -> int:
    """Bytes that the allocator holds on the device, in use or free.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    check_available()
    return cuda.memory_reserved(device_index)


def max_memory_reserved(device_index: DeviceArgument = None, /) -> int:
    """Most bytes that the allocator held on the device since the last reset.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    check_available()
    return cuda.max_memory_reserved(device_index)


def memory_stats(device_index: DeviceArgument = None, /) -> dict[str, Any]:
    """The allocator's counters of the device by name, as :func:`tensor.cuda.memory_stats` has them.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    check_available()
    return cuda.memory_stats(device_index)


def reset_peak_memory_stats(device_index: DeviceArgument = None, /) -> None:
    """Let the peaks of the device start again from what is in use.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    check_available()
    cuda.reset_peak_memory_stats(device_index)


def reset_accumulated_memory_stats(device_index: DeviceArgument = None, /) -> None:
    """Let what the counters of the device add up start again from 0.

    ``device_index`` is an index, a device or its name; None is the current device. Raises as :func:`get_memory_info`.
    """
    check_available()
    cuda.reset_accumulated_memory_stats(device_index)


def empty_host_cache() -> None:
    """Give cached pinned memory of the host back to the driver.

    Raises
    ------
    RuntimeError
        If there is no device.
    """
    check_available()
    cuda.memory.empty_host_cache()


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
