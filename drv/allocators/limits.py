"""How much memory this process may hold, and does hold."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from drv.errors import InvalidValueError

if TYPE_CHECKING:
    from drv.device import Device


def memory_limit(fraction: float, total: int) -> int:
    """``fraction`` of ``total`` bytes.

    Raises
    ------
    InvalidValueError
        If ``fraction`` is not between 0 and 1.
    """
    if not 0 <= fraction <= 1:
        raise InvalidValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    return int(fraction * total)


def process_use(device: Device) -> int | None:
    """Bytes of ``device`` that this process holds, contexts and modules included.

    The simulated driver serves one process; on a GPU the management library tells, where it is there.
    """
    if device.runtime.simulated:
        free, total = device.memory_info()
        return total - free
    try:
        from cuda.bindings import nvml

        properties = device.properties
        place = f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
        nvml.init_v2()
        handle = nvml.device_get_handle_by_pci_bus_id_v2(place)
        processes = nvml.device_get_compute_running_processes_v3(handle)
        own = [int(p.used_gpu_memory) for p in processes if int(p.pid) == os.getpid()]
    except Exception:
        # The figure is a part of an error message: without the library, or in a container that hides
        # process numbers, the message does without.
        return None
    return sum(own) or None
