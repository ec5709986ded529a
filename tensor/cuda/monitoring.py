"""What the driver and NVIDIA's management library say of a device, and modes that programs ask for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import drv
from tensor.core.modes.sync_debug import DEFAULT, ERROR, OBSERVED, WARN, sync_debug

from .devices import existing_device, mem_get_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.devices.current import DeviceArgument

_SYNC_MODES = {"default": DEFAULT, "warn": WARN, "error": ERROR}


def utilization(device: DeviceArgument = None) -> int:
    """Percent of the last sample period in which a kernel ran on ``device``, by default the current one.

    Raises
    ------
    RuntimeError
        For a simulated device, and where NVIDIA's management library does not answer.
    ValueError
        For the CPU, or a device that does not exist.
    """
    return int(_rates(device, "utilization").gpu)


def memory_usage(device: DeviceArgument = None) -> int:
    """Percent of the last sample period in which memory of ``device``, by default the current one, was read or written.

    Raises
    ------
    RuntimeError
        For a simulated device, and where NVIDIA's management library does not answer.
    ValueError
        For the CPU, or a device that does not exist.
    """
    return int(_rates(device, "memory_usage").memory)


def temperature(device: DeviceArgument = None) -> int:
    """Temperature of the GPU in degrees Celsius, of ``device``, by default the current one.

    Raises
    ------
    RuntimeError
        For a simulated device, and where NVIDIA's management library does not answer.
    ValueError
        For the CPU, or a device that does not exist.
    """
    return int(
        _asked(
            device,
            "temperature",
            lambda nvml, handle: nvml.device_get_temperature_v(
                handle, nvml.TemperatureSensors.TEMPERATURE_GPU
            ),
        )
    )


def power_draw(device: DeviceArgument = None) -> int:
    """Power in milliwatts that ``device``, by default the current one, draws.

    Raises
    ------
    RuntimeError
        For a simulated device, and where NVIDIA's management library does not answer.
    ValueError
        For the CPU, or a device that does not exist.
    """
    return int(_asked(device, "power_draw", lambda nvml, handle: nvml.device_get_power_usage(handle)))


def clock_rate(device: DeviceArgument = None) -> int:
    """Clock in MHz of the multiprocessors of ``device``, by default the current one.

    Raises
    ------
    RuntimeError
        For a simulated device, and where NVIDIA's management library does not answer.
    ValueError
        For the CPU, or a device that does not exist.
    """
    return int(
        _asked(
            device,
            "clock_rate",
            lambda nvml, handle: nvml.device_get_clock_info(handle, nvml.ClockType.CLOCK_SM),
        )
    )


def device_memory_used(device: DeviceArgument = None) -> int:
    """Bytes of memory in use on ``device``, by default the current one, by all processes.

    Raises
    ------
    ValueError
        For the CPU, or a device that does not exist.
    """
    free, total = mem_get_info(device)
    return total - free


def _rates(device: DeviceArgument, function: str) -> Any:
    return _asked(device, function, lambda nvml, handle: nvml.device_get_utilization_rates(handle))


def _asked(device: DeviceArgument, function: str, ask: Callable[[Any, Any], Any]) -> Any:
    """What NVIDIA's management library, which ``ask`` gets with the device's handle, says of a device."""
    native = existing_device(device)
    if native.runtime.simulated:
        raise RuntimeError(
            f"cuda.{function}(): a simulated device has no load to measure; cuda.memory_allocated() tells its memory"
        )
    properties = native.properties
    bus_id = f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
    try:
        nvml = importlib.import_module("cuda.bindings.nvml")
        nvml.init_v2()
        return ask(nvml, nvml.device_get_handle_by_pci_bus_id_v2(bus_id))
    except Exception as error:
        raise RuntimeError(
            f"cuda.{function}(): NVIDIA's management library (NVML) does not answer for {native.name}: {error}"
        ) from error


def get_arch_list() -> list[str]:
    """Architectures that kernels are compiled for, as ``["sm_90"]``: those of the visible devices; empty without any.

    Each architecture is named once, sorted by compute capability.
    """
    if not drv.is_available():
        return []
    devices = drv.runtime().devices
    return [f"sm_{major}{minor}" for major, minor in sorted({each.compute_capability for each in devices})]


def get_allocator_backend() -> str:
    """``"native"``: memory comes from the caching allocator of this package, which works as PyTorch's own."""
    return "native"


def ipc_collect() -> None:
    """Release memory that other processes have shared and let go of, of which there is none: tensors travel as copies."""


def get_sync_debug_mode() -> int:
    """What happens where the host waits for a device: 0 nothing, 1 a warning, 2 an error."""
    level: int = sync_debug.level & ~OBSERVED
    return level


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Have operations warn, or fail, that make the host wait for a device.

    These are copies between the host and a device, unless they are ``non_blocking`` from or to pinned memory, with what
    is made of them (``item``, ``tolist``, ``cpu``, ``nonzero``, ``if x:``), and ``Stream.synchronize``.
    ``cuda.synchronize`` and ``Event.synchronize``, which say that they wait, and collectives are not among them.

    Parameters
    ----------
    debug_mode : int or str
        ``"default"`` or 0, ``"warn"`` or 1, ``"error"`` or 2.

    Raises
    ------
    RuntimeError
        For anything else.

    Examples
    --------
    >>> tensor.cuda.set_sync_debug_mode("warn")
    >>> tensor.cuda.get_sync_debug_mode()
    1
    >>> tensor.cuda.set_sync_debug_mode("default")
    """
    mode = _SYNC_MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode is None or mode not in _SYNC_MODES.values():
        raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
    sync_debug.level = mode | (sync_debug.level & OBSERVED)
