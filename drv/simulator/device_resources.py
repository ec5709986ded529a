"""Parts of a device that green contexts have to themselves: multiprocessors, in groups that run clusters together.

A ``CUdevResource`` says itself which multiprocessors it is: programs may copy it about, so that nothing else knows it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda
from cuda.bindings.driver import CUresult

from .driver_call import CallError, contents, filled, invalid_value, structure

if TYPE_CHECKING:
    from .device_properties import SimulatedDevice

_TYPES = cuda.CUdevResourceType
SM = int(_TYPES.CU_DEV_RESOURCE_TYPE_SM)
WORKQUEUE_CONFIG = int(_TYPES.CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG)
WORKQUEUE = int(_TYPES.CU_DEV_RESOURCE_TYPE_WORKQUEUE)
_BACKFILL = int(cuda.CUdevSmResourceGroup_flags.CU_DEV_SM_RESOURCE_GROUP_BACKFILL)
_IGNORE_COSCHEDULING = int(
    cuda.CUdevSmResourceSplitByCount_flags.CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING
)
_LARGEST_CLUSTERS = int(
    cuda.CUdevSmResourceSplitByCount_flags.CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE
)
#: Type; then bytes of the driver's own: magic, ordinal of the device, number of the split, first multiprocessor; what is told.
_LAYOUT = struct.Struct("<i4x16sQQQ48x5I20x")
_UNION = 96
_MAGIC = b"graphroot part"
#: Multiprocessors that a group is of at most, where it is to be scheduled together.
_MOST_COSCHEDULED = 32


@dataclass(frozen=True, slots=True)
class Multiprocessors:
    """``count`` multiprocessors of a device from number ``first`` on. ``split`` is the split that they come from, 0 for none."""

    device: int
    first: int
    count: int
    least: int
    coscheduled: int
    split: int = 0
    flags: int = 0

    def resource(self) -> Any:
        """As a ``CUdevResource``; one of type ``INVALID`` where there are none."""
        result = cuda.CUdevResource()
        if not self.count:
            return result
        told = (self.count, self.least, self.coscheduled, self.flags, 0)
        return filled(result, _LAYOUT.pack(SM, _MAGIC, self.device, self.split, self.first, *told))

    def partition(
        self, first: int, count: int, split: int, coscheduled: int, flags: int = 0
    ) -> Multiprocessors:
        """``count`` of them, from the one that is ``first`` among them."""
        return Multiprocessors(self.device, self.first + first, count, self.least, coscheduled, split, flags)


def all_of(device: SimulatedDevice) -> Multiprocessors:
    """All multiprocessors of a device."""
    return Multiprocessors(device.ordinal, 0, device.multiprocessors, *_granularity(device))


def _granularity(device: SimulatedDevice) -> tuple[int, int]:
    """The least multiprocessors of a partition, and how many of them run a cluster (``smCoscheduledAlignment``)."""
    major = device.capability[0]
    if major >= 9:
        return 8, 8
    return {6: 1, 7: 2}.get(major, 4), 2


def resource_of(resource: Any) -> Multiprocessors:
    """The multiprocessors that a ``CUdevResource`` is."""
    data = contents(structure(resource, cuda.CUdevResource), _LAYOUT.size)
    resource_type, magic, device, split, first, count, least, coscheduled, flags, _ = _LAYOUT.unpack(data)
    if resource_type != SM:
        raise CallError(CUresult.CUDA_ERROR_INVALID_RESOURCE_TYPE)
    if magic.rstrip(b"\0") != _MAGIC:
        raise invalid_value()
    return Multiprocessors(device, first, count, least, coscheduled, split, flags)


def workqueue_resource(device: SimulatedDevice) -> Any:
    """The workqueues of a device as a ``CUdevResource``."""
    result = cuda.CUdevResource()
    result.type = _TYPES.CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG
    result.wqConfig.device = cuda.CUdevice(device.ordinal)
    result.wqConfig.wqConcurrencyLimit = 8
    return result


def split_by_count(
    whole: Multiprocessors, device: SimulatedDevice, groups: int, least: int, flags: int, split: int
) -> tuple[list[Multiprocessors], Multiprocessors]:
    """Equal partitions of at least ``least`` multiprocessors each: ``groups`` at most, as many as there can be for 0; and the rest."""
    if flags & ~(_IGNORE_COSCHEDULING | _LARGEST_CLUSTERS) or least > whole.count:
        raise invalid_value()
    if whole.split:
        raise CallError(CUresult.CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)
    smallest, coscheduled = _granularity(device)
    if flags & _IGNORE_COSCHEDULING:
        smallest = coscheduled = 2
    elif flags & _LARGEST_CLUSTERS and device.capability >= (9, 0):
        smallest = coscheduled = 16
    size = max(-(-least // coscheduled) * coscheduled, smallest)
    most = whole.count // size
    count = min(groups, most) if groups else most
    if not count:
        raise CallError(CUresult.CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)
    partitions = [whole.partition(size * number, size, split, coscheduled) for number in range(count)]
    used = size * count
    return partitions, whole.partition(used, whole.count - used, split, coscheduled)


def split_by_groups(
    whole: Multiprocessors, device: SimulatedDevice, groups: list[Any], split: int
) -> tuple[list[Multiprocessors], Multiprocessors]:
    """Parts as ``CU_DEV_SM_RESOURCE_GROUP_PARAMS`` describe them, and the rest.

    Where one does not say how many multiprocessors it is to have, it gets, and is told, what is left.
    """
    modern = device.capability >= (9, 0)
    result, used = [], 0
    for group in groups:
        asked = structure(group, cuda.CU_DEV_SM_RESOURCE_GROUP_PARAMS)
        coscheduled = int(asked.coscheduledSmCount) or (8 if modern else 2)
        flags, count = int(asked.flags), int(asked.smCount)
        if flags & ~_BACKFILL or coscheduled % 2 or coscheduled > (_MOST_COSCHEDULED if modern else 2):
            raise invalid_value()
        backfilled = bool(flags & _BACKFILL)
        left = whole.count - used
        if count == 0:
            count = left // 2 * 2 if backfilled else left // coscheduled * coscheduled
        elif not 2 <= count <= whole.count or count % 2 or (count % coscheduled and not backfilled):
            raise invalid_value()
        if count > left or count < coscheduled:
            raise CallError(CUresult.CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)
        result.append((asked, whole.partition(used, count, split, coscheduled, flags)))
        used += count
    for asked, partition in result:
        asked.smCount = partition.count
    return [partition for _, partition in result], whole.partition(
        used, whole.count - used, split, whole.coscheduled
    )
