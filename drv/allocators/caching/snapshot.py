"""Snapshots: every segment and block, as ``torch.cuda.memory_snapshot`` describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drv.allocators.history import describe

from .private_pools import ORDINARY
from .segments import chain

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from drv.allocators.history import Frames

    from .blocks import CachedBlock


def snapshot(
    device: int, heads: Iterable[tuple[CachedBlock, Frames | None]], pending: Container[CachedBlock]
) -> list[dict[str, Any]]:
    """Segments in order of address.

    Parameters
    ----------
    device : int
        Ordinal of the device.
    heads : iterable
        First block of each segment, and the Python stack that made the segment.
    pending : container
        Freed blocks that other streams still use.

    Notes
    -----
    An expandable segment is described as one segment for each range that has memory.
    """
    segments = []
    for head, frames in heads:
        segment: dict[str, Any] | None = None
        for block in chain(head):
            state = _state(block, pending)
            if state is None:
                segment = None
                continue
            if segment is None:
                segment = _segment(device, block, frames)
                segments.append(segment)
            segment["total_size"] += block.size
            segment["allocated_size"] += block.size if block.live else 0
            if state != "inactive":
                segment["active_size"] += block.size
                segment["requested_size"] += block.requested
            segment["blocks"].append(
                {
                    "address": block.address,
                    "size": block.size,
                    "requested_size": block.requested,
                    "state": state,
                    "frames": describe(block.frames),
                }
            )
    return sorted(segments, key=lambda segment: int(segment["address"]))


def _state(block: CachedBlock, pending: Container[CachedBlock]) -> str | None:
    if block.live:
        return "active_allocated"
    if block.key:
        return "inactive"
    return "active_pending_free" if block in pending else None


def _segment(device: int, block: CachedBlock, frames: Frames | None) -> dict[str, Any]:
    owner = block.pool.owner
    return {
        "device": device,
        "address": block.address,
        "total_size": 0,
        "allocated_size": 0,
        "active_size": 0,
        "requested_size": 0,
        "stream": block.stream,
        "segment_type": "small" if block.pool.small else "large",
        "segment_pool_id": ORDINARY if owner is None else owner.identifier,
        "is_expandable": block.pool.expandable,
        "frames": describe(frames),
        "blocks": [],
    }
