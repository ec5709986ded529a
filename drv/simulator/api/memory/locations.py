"""Locations of memory and rights to it, as the structures of the bindings give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from drv.simulator.driver_call import invalid_value, listed, structure, unsigned

if TYPE_CHECKING:
    from drv.simulator.device_properties import SimulatedDevice
    from drv.simulator.driver_state import DriverState

_TYPES = cuda.CUmemLocationType
NONE = int(_TYPES.CU_MEM_LOCATION_TYPE_NONE)
DEVICE = int(_TYPES.CU_MEM_LOCATION_TYPE_DEVICE)
HOST = int(_TYPES.CU_MEM_LOCATION_TYPE_HOST)
HOST_NUMA = int(_TYPES.CU_MEM_LOCATION_TYPE_HOST_NUMA)
HOST_NUMA_CURRENT = int(_TYPES.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
_ACCESS = cuda.CUmemAccess_flags
_RIGHTS = {
    _ACCESS.CU_MEM_ACCESS_FLAGS_PROT_NONE: None,
    _ACCESS.CU_MEM_ACCESS_FLAGS_PROT_READ: False,
    _ACCESS.CU_MEM_ACCESS_FLAGS_PROT_READWRITE: True,
}


def location_of(state: DriverState, location: Any) -> tuple[int, int]:
    """Type and number of a ``CUmemLocation``: a visible device, the host (number 0) or its one NUMA node."""
    try:
        location_type = int(location.type)
    except ValueError:
        raise invalid_value() from None
    number = int(location.id)
    if location_type == DEVICE:
        return location_type, state.device(number).ordinal
    if location_type == HOST_NUMA:
        if number != 0:
            raise invalid_value()
        return location_type, 0
    if location_type == HOST_NUMA_CURRENT:
        return HOST_NUMA, 0
    if location_type in (NONE, HOST):
        return location_type, 0
    raise invalid_value()


def granted_access(
    state: DriverState, descriptions: Any, count: Any
) -> list[tuple[SimulatedDevice, bool | None]]:
    """Devices, and whether they may write; None where they may not even read."""
    result = []
    for grant in listed(descriptions, unsigned(count)):
        if int(structure(grant, cuda.CUmemAccessDesc).location.type) != DEVICE:
            raise invalid_value()
        try:
            result.append((state.device(grant.location.id), _RIGHTS[grant.flags]))
        except (KeyError, ValueError):
            raise invalid_value() from None
    return result
