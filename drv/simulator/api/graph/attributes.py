"""Attributes of kernel nodes."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from drv.simulator.api.clusters import cluster_of
from drv.simulator.api.launch import check_cooperative
from drv.simulator.driver_call import integer, invalid_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from drv.simulator.work.kernel import KernelWork

_BYTES = 64
_ATTRIBUTES = cuda.CUlaunchAttributeID
_COOPERATIVE = int(_ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
_CLUSTER = int(_ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
#: The attributes that a kernel node can have.
_OF_NODES = tuple(
    int(each)
    for each in (
        _ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
        _ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        _ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        _ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
        _ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_PRIORITY,
        _ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
        _ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
        _ATTRIBUTES.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    )
)


def node_attribute(attr: Any) -> int:
    """Number of an attribute that a kernel node can have."""
    attribute = integer(attr)
    if attribute not in _OF_NODES:
        raise invalid_value()
    return attribute


def attribute_bytes(value: Any) -> bytes:
    """The bytes of a ``CUlaunchAttributeValue``."""
    return ctypes.string_at(value.getPtr(), _BYTES)


def attribute_value(work: KernelWork, attribute: int) -> cuda.CUkernelNodeAttrValue:
    """What a launch has for an attribute; zeros where it has nothing."""
    result = cuda.CUkernelNodeAttrValue()
    if attribute in work.attributes:
        ctypes.memmove(result.getPtr(), work.attributes[attribute], _BYTES)
    elif attribute == _COOPERATIVE:
        result.cooperative = int(work.cooperative)
    elif attribute == _CLUSTER and work.cluster is not None:
        result.clusterDim.x, result.clusterDim.y, result.clusterDim.z = work.cluster
    return result


def with_attributes(work: KernelWork, attributes: Mapping[int, bytes]) -> KernelWork:
    """The launch with ``attributes``. Refused are clusters, and cooperation, that the kernel or the device cannot do."""
    cooperative, cluster = work.cooperative, None
    if _COOPERATIVE in attributes:
        cooperative = bool(_value(attributes[_COOPERATIVE]).cooperative)
    if cooperative:
        check_cooperative(work.function, work.grid, work.block, work.shared)
    if _CLUSTER in attributes:
        dimensions = _value(attributes[_CLUSTER]).clusterDim
        cluster = cluster_of(work.function, work.grid, (dimensions.x, dimensions.y, dimensions.z))
    elif work.function.kernel.cluster is not None:
        cluster = cluster_of(work.function, work.grid, None)
    return work.with_attributes(attributes, cooperative=cooperative, cluster=cluster)


def like(before: KernelWork, work: KernelWork) -> KernelWork:
    """``work`` in the place of ``before``, whose attributes stay."""
    copy = work.with_attributes(work.attributes, cooperative=before.cooperative, cluster=None)
    result = with_attributes(copy, before.attributes)
    if before.cluster is None or result.cluster is not None:
        return result
    cluster = cluster_of(work.function, work.grid, before.cluster)
    return result.with_attributes(before.attributes, cooperative=result.cooperative, cluster=cluster)


def _value(data: bytes) -> cuda.CUlaunchAttributeValue:
    result = cuda.CUlaunchAttributeValue()
    ctypes.memmove(result.getPtr(), data, _BYTES)
    return result
