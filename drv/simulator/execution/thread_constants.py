"""Values that never change while a thread runs, for all threads of a batch at once.

Each function returns an array with an entry per thread, or ``(1,)`` where all have the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from .batch import Batch

    Array = NDArray[Any]


def _thread(batch: Batch, axis: int | None) -> Array:
    return np.tile(np.arange(batch.launch.threads), batch.count)


def _thread_index(batch: Batch, axis: int | None) -> Array:
    x, y, _ = batch.launch.block
    assert axis is not None
    if batch.launch.block[axis] == 1:
        return np.zeros(1, np.uint32)
    linear = np.arange(batch.launch.threads)
    index = (linear % x, linear // x % y, linear // (x * y))[axis]
    return np.tile(index.astype(np.uint32), batch.count)


def _lane(batch: Batch, axis: int | None) -> Array:
    return (_thread(batch, None) & 31).astype(np.uint32)


def _warp(batch: Batch, axis: int | None) -> Array:
    return (_thread(batch, None) >> 5).astype(np.uint32)


def _block_in_batch(batch: Batch, axis: int | None) -> Array:
    if batch.count == 1:
        return np.zeros(1, np.int64)
    return np.repeat(np.arange(batch.count), batch.launch.threads)


def _warp_slot(batch: Batch, axis: int | None) -> Array:
    result: NDArray[Any] = _block_in_batch(batch, None) * (batch.launch.warps * 32) + _thread(batch, None)
    return result


def _lane_mask(relation: str) -> Callable[[Batch, int | None], Array]:
    def mask(batch: Batch, axis: int | None) -> Array:
        one = np.uint64(1) << _lane(batch, None).astype(np.uint64)
        below = one - np.uint64(1)
        masks = {
            "eq": one,
            "lt": below,
            "le": below | one,
            "gt": ~(below | one),
            "ge": ~below,
        }[relation]
        return masks.astype(np.uint32)

    return mask


def _of_blocks(batch: Batch, values: Array) -> Array:
    """``values`` of the batch's blocks, or ``(1,)``, as those of the threads."""
    return values if values.shape[0] == 1 else np.repeat(values, batch.launch.threads)


def _block(batch: Batch, axis: int | None) -> Array:
    return _of_blocks(batch, batch.blocks)


def _index_in_grid(batch: Batch, axis: int | None) -> Array:
    """Where each block is along ``axis``, or ``(1,)`` where that has one block."""
    assert axis is not None
    x, y, z = batch.launch.grid
    if batch.launch.grid[axis] == 1:
        return np.zeros(1, np.uint32)
    if axis == 0:
        index = batch.blocks if y == z == 1 else batch.blocks % x
    else:
        index = batch.blocks // x % y if axis == 1 else batch.blocks // (x * y)
    return index.astype(np.uint32)


def _block_index(batch: Batch, axis: int | None) -> Array:
    return _of_blocks(batch, _index_in_grid(batch, axis))


def _cluster_index(batch: Batch, axis: int | None) -> Array:
    assert axis is not None
    return _of_blocks(batch, _index_in_grid(batch, axis) // np.uint32(batch.launch.cluster[axis]))


def _block_in_cluster(batch: Batch, axis: int | None) -> Array:
    assert axis is not None
    return _of_blocks(batch, _index_in_grid(batch, axis) % np.uint32(batch.launch.cluster[axis]))


def _cluster_rank(batch: Batch, axis: int | None) -> Array:
    size = batch.launch.cluster_blocks
    if size == 1:
        return np.zeros(1, np.uint32)
    return _of_blocks(batch, (np.arange(batch.count) % size).astype(np.uint32))


def _multiprocessor(batch: Batch, axis: int | None) -> Array:
    return _of_blocks(batch, (batch.blocks % batch.launch.multiprocessors).astype(np.uint32))


def _shared_base(batch: Batch, axis: int | None) -> Array:
    return _of_blocks(batch, np.arange(batch.count) * batch.shared_stride)


#: What depends only on the shape of a block and the number of blocks in the batch.
THREAD_CONSTANTS: dict[str, Callable[[Batch, int | None], Array]] = {
    "thread": _thread,
    "thread_index": _thread_index,
    "lane": _lane,
    "warp": _warp,
    "block_in_batch": _block_in_batch,
    "warp_slot": _warp_slot,
    **{f"lanes_{relation}": _lane_mask(relation) for relation in ("eq", "lt", "le", "gt", "ge")},
}
#: What depends on which blocks they are too.
BLOCK_CONSTANTS: dict[str, Callable[[Batch, int | None], Array]] = {
    "block": _block,
    "block_index": _block_index,
    "block_in_cluster": _block_in_cluster,
    "cluster_index": _cluster_index,
    "cluster_rank": _cluster_rank,
    "multiprocessor": _multiprocessor,
    "shared_base": _shared_base,
}
