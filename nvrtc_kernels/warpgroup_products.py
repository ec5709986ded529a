"""What kernels by products of warpgroups have in common: see ``cuda/warpgroup_products.cuh``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drv import Device

#: The only compute capability that has these products.
_CAPABILITY = (9, 0)
#: Bytes of a line of a tile, and tiles under way: as in CUDA C++.
LINE_BYTES, STAGES = 128, 4


def has_products(device: Device) -> bool:
    """Whether the device has these products."""
    return device.compute_capability == _CAPABILITY
