"""How much memory this process may hold, and does hold; what is said when that is not enough."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from drv.errors import InvalidValueError

if TYPE_CHECKING:
    from drv.device import Device

_HINT = (
    " If reserved but unallocated memory is large try setting GRAPHROOT_CUDA_ALLOC_CONF=expandable_segments:True"
    " to avoid fragmentation."
)
#: Reserved but unallocated memory is large when it is this share of the device's.
_LARGE = 1 / 8


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
        bus_id = (
            f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
        )
        nvml.init_v2()
        handle = nvml.device_get_handle_by_pci_bus_id_v2(bus_id)
        processes = nvml.device_get_compute_running_processes_v3(handle)
        own = [int(p.used_gpu_memory) for p in processes if int(p.pid) == os.getpid()]
    except Exception:
        # The figure is a part of an error message: without the library, or in a container that hides
        # process numbers, the message does without.
        return None
    return sum(own) or None


def format_size(size: int) -> str:
    """``size`` in bytes, or in KiB, MiB or GiB with two decimals, as PyTorch writes it."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size > 1 << power:
            return f"{size / (1 << power):.2f} {unit}"
    return f"{size} bytes"


def explain(
    size: int,
    device: int,
    *,
    free: int,
    total: int,
    process_use: int | None,
    allowed: int | None,
    allocated: int,
    reserved: int,
    expandable: bool,
) -> str:
    """Message for a request of ``size`` bytes that could not be had. All sizes are in bytes.

    The option against fragmentation is named when it may help: when what is reserved but unallocated
    would have held the request, together with what is free, or is a large part of the device's memory.
    """
    idle = reserved - allocated
    sentences = [
        f"CUDA out of memory. Tried to allocate {format_size(size)}.",
        f"GPU {device} has a total capacity of {format_size(total)} of which {format_size(free)} is free.",
    ]
    if process_use is not None:
        sentences.append(
            f"Including memory outside the allocator, this process has {format_size(process_use)} memory in use."
        )
    limit = "" if allowed is None else f"{format_size(allowed)} allowed; "
    sentences.append(
        f"{limit}Of the allocated memory {format_size(allocated)} is allocated by graphroot, and "
        f"{format_size(idle)} is reserved by graphroot but unallocated."
    )
    available = free if allowed is None else min(free, max(allowed - reserved, 0))
    fragmented = idle > 0 and (idle + available >= size or idle >= total * _LARGE)
    return " ".join(sentences) + (_HINT if fragmented and not expandable else "")
