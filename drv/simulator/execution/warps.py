"""Warp-level instructions over lanes of many warps at once.

``slots`` gives each lane its index in a table of warps times 32: ``32 * warp + lane``. Lanes that do not run
the instruction have no entry. Where the lanes are whole warps in order the table is a reshape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WARP = 32
_BITS = np.uint32(1) << np.arange(WARP, dtype=np.uint32)


class WarpTable:
    """Where the lanes that run an instruction stand in their warps."""

    __slots__ = ("active", "lane", "rows", "slots", "warps")

    def __init__(self, slots: NDArray[np.int64], warps: int) -> None:
        self.slots = slots
        self.warps = warps
        self.lane = (slots & 31).astype(np.uint32)
        self.rows = slots >> 5
        self.active = self.ballot(np.ones(len(slots), np.bool_))

    def scatter(self, values: NDArray[Any], fill: Any = 0) -> NDArray[Any]:
        """Table ``(warps, 32)`` of ``values`` ``(lanes,)`` or ``(1,)``; ``fill`` where no lane runs."""
        table = np.full(self.warps * WARP, fill, values.dtype)
        table[self.slots] = values
        return table.reshape(self.warps, WARP)

    def ballot(self, predicate: NDArray[np.bool_]) -> NDArray[np.uint32]:
        """Mask per lane ``(lanes,)`` of the lanes in its warp for which ``predicate`` holds."""
        packed = np.packbits(self.scatter(predicate), axis=1, bitorder="little")
        result: NDArray[Any] = packed.view(np.uint32).ravel()[self.rows]
        return result


def shuffle(
    table: WarpTable, mode: str, value: NDArray[Any], lane: NDArray[Any], clamp: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Value of another lane, and whether that lane is in range, as ``shfl.sync`` defines it.

    A source lane that does not run the instruction gives the lane its own value (CUDA leaves it undefined).
    """
    own = table.lane.view(np.int32)
    by = (lane & np.uint32(31)).view(np.int32)
    limit = (clamp & np.uint32(31)).view(np.int32)
    segment = ((clamp >> np.uint32(8)) & np.uint32(31)).view(np.int32)
    highest = (own & segment) | (limit & ~segment)
    if mode == "up":
        source = own - by
        valid = source >= highest
    elif mode == "down":
        source = own + by
        valid = source <= highest
    elif mode == "bfly":
        source = own ^ by
        valid = source <= highest
    else:
        source = (own & segment) | (by & ~segment)
        valid = source <= highest
    source = np.where(valid, source, own)
    positions = np.full(table.warps * WARP, -1)
    positions[table.slots] = np.arange(len(table.slots))
    index = positions[(table.slots & ~31) + source]
    index = np.where(index < 0, np.arange(len(index)), index)
    taken = value if value.shape[0] == 1 else value[index]
    return taken, valid


def vote(table: WarpTable, mode: str, predicate: NDArray[np.bool_], mask: NDArray[np.uint32]) -> NDArray[Any]:
    """``vote.sync``: ``ballot`` gives a mask, ``any``, ``all`` and ``uni`` a truth value."""
    ballot = table.ballot(predicate) & mask
    if mode == "ballot":
        return ballot
    members = table.active & mask
    result: NDArray[Any] = {
        "any": ballot != 0,
        "all": ballot == members,
        "uni": (ballot == members) | (ballot == 0),
    }[mode]
    return result


def match_any(table: WarpTable, value: NDArray[Any], mask: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mask of the member lanes that have the lane's own value."""
    values = table.scatter(value)[table.rows]
    same = values == (value if value.shape[0] > 1 else np.broadcast_to(value, table.lane.shape))[:, None]
    packed: NDArray[np.uint32] = np.packbits(same, axis=1, bitorder="little").view(np.uint32).ravel()
    return packed & mask & table.active


def match_all(
    table: WarpTable, value: NDArray[Any], mask: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """The members where all of them have one value, else 0; and whether they have."""
    members = mask & table.active
    same = match_any(table, value, mask) == members
    return np.where(same, members, np.uint32(0)), same


_REDUCTIONS: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def reduce(table: WarpTable, operation: str, value: NDArray[Any], mask: NDArray[np.uint32]) -> NDArray[Any]:
    """``redux.sync``: ``value`` combined over the member lanes."""
    members = np.broadcast_to(mask, table.lane.shape) & table.active
    result = np.empty(table.lane.shape, value.dtype)
    combine = _REDUCTIONS[operation]
    values = np.broadcast_to(value, table.lane.shape)
    for each in np.unique(members):
        chosen = np.flatnonzero(members == each)
        inside = (_BITS & each) != 0
        rows, back = np.unique(table.rows[chosen], return_inverse=True)
        held = table.scatter(values)[rows][:, inside]
        result[chosen] = combine.reduce(held, axis=1, dtype=value.dtype)[back]
    return result


def elect(table: WarpTable, mask: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Lane number of the first member of each warp, and whether the lane is that one."""
    members = mask & table.active
    lowest = members & (~members + np.uint32(1))
    leader = np.bitwise_count(lowest - np.uint32(1)).astype(np.uint32)
    return leader, leader == table.lane
