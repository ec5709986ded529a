"""Clusters of thread blocks: which a launch has, and how many fit on a device."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from cuda.bindings.driver import CUresult

from drv.simulator.driver_call import CallError, invalid_value

if TYPE_CHECKING:
    from drv.simulator.api.modules.module import LoadedFunction

#: Blocks that a cluster has at most: on every device that has clusters, and where a kernel asks for more.
PORTABLE_BLOCKS, MOST_BLOCKS = 8, 16
#: Oldest compute capability that has clusters.
FIRST_CAPABILITY = (9, 0)
#: Multiprocessors that a cluster can spread over: a processing cluster of the graphics processor (GPC) has at least so many.
_GPC_MULTIPROCESSORS = 16

Dimensions = tuple[int, int, int]


def cluster_of(function: LoadedFunction, grid: Dimensions, asked: Dimensions | None) -> Dimensions | None:
    """The clusters that a launch has: those it asks for, or those that the kernel declares. ``None`` for none.

    Answers with CUDA's error where they do not fit the kernel, the device or the grid.
    """
    kernel = function.kernel
    if asked is None and kernel.cluster is None:
        if kernel.explicit_cluster:
            raise CallError(CUresult.CUDA_ERROR_INVALID_CLUSTER_SIZE)
        return None
    if asked is not None and kernel.cluster is not None and asked != kernel.cluster:
        raise CallError(CUresult.CUDA_ERROR_INVALID_CLUSTER_SIZE)
    cluster = asked or kernel.cluster
    assert cluster is not None
    blocks = prod(cluster)
    if min(cluster) < 1:
        raise invalid_value()
    if blocks > 1 and function.context.device.capability < FIRST_CAPABILITY:
        raise CallError(CUresult.CUDA_ERROR_NOT_SUPPORTED)
    if blocks > largest_cluster(function):
        raise CallError(CUresult.CUDA_ERROR_INVALID_CLUSTER_SIZE)
    if any(size % each for size, each in zip(grid, cluster, strict=True)):
        raise invalid_value()
    return cluster


def largest_cluster(function: LoadedFunction) -> int:
    """Blocks that a cluster of the kernel has at most."""
    most = MOST_BLOCKS if function.non_portable_cluster else PORTABLE_BLOCKS
    return min(most, function.kernel.max_cluster_blocks or most)


def clusters_at_once(blocks: int, multiprocessors: int, cluster_blocks: int) -> int:
    """Clusters that run at the same time where ``blocks`` fit on each multiprocessor.

    A cluster stays within a group of multiprocessors, which come in pairs: 132 are 6 groups of 16 and 2 of 18.
    """
    groups = max(multiprocessors // _GPC_MULTIPROCESSORS, 1)
    pairs, single = divmod(multiprocessors, 2)
    sizes = [2 * (pairs // groups + (index < pairs % groups)) for index in range(groups)]
    sizes[0] += single
    return sum(size * blocks // cluster_blocks for size in sizes)
