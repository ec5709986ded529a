"""The devices that arguments name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.core.devices.current import index_of
from tensor.core.devices.state import cpu, cuda_place
from tensor.cuda import current_device

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor.core.devices.state import CudaPlace, Place


def ordinal_of(device: Any) -> int:
    """Index of the CUDA device that an argument means; the current one where it names none.

    Raises
    ------
    ValueError
        For the CPU.
    """
    found = index_of(device)
    return current_device() if found is None else found


def place_named(device: Any) -> CudaPlace:
    """Memory of the CUDA device that an argument means."""
    return cuda_place(ordinal_of(device))


def places_named(devices: Iterable[Any], function: str) -> list[CudaPlace]:
    """Memory of each of several CUDA devices.

    Raises
    ------
    ValueError
        If there are none.
    """
    found = [place_named(each) for each in devices]
    if not found:
        raise ValueError(f"{function}() expects at least one device, got an empty list")
    return found


def destination_named(device: Any) -> Place:
    """Memory of a CUDA device, the current one for ``None``; the host's for -1 and ``"cpu"``."""
    if device == -1 or str(device) == "cpu":
        return cpu
    return place_named(device)
