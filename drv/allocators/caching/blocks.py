"""Blocks: the pieces that segments are cut into."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drv.allocators.history import Frames

    from .pool import BlockPool


class CachedBlock:
    """A piece of a segment, in a list with its neighbours in order of address.

    When two neighbours merge, the left one absorbs the right, so a segment's first block is the same
    object as long as the segment lives. Allocators construct it.

    Parameters
    ----------
    address, size, pool, prev
        The attributes of these names.
    following : CachedBlock or None
        The attribute ``next``.

    Attributes
    ----------
    address, size, requested : int
        See :class:`~drv.allocators.protocol.Block`.
    pool : BlockPool
        Where it goes when it is free.
    prev, next : CachedBlock or None
        Neighbours in the segment.
    key : int
        Position in the pool's order while it is free there, else 0.
    live : bool
        Whether it is handed out. A block that is neither live nor in the pool waits for streams to
        finish with it, or is address space without memory.
    uses : dict or None
        Other streams that used it: ``(device, stream)`` to ``None``.
    frames : tuple or None
        Python stack of its allocation, when history is recorded.
    since : int
        Value of the pool's clock when it became free as a whole segment.
    """

    __slots__ = (
        "address",
        "frames",
        "key",
        "live",
        "next",
        "pool",
        "prev",
        "requested",
        "since",
        "size",
        "uses",
    )

    def __init__(
        self,
        address: int,
        size: int,
        pool: BlockPool,
        prev: CachedBlock | None = None,
        following: CachedBlock | None = None,
    ) -> None:
        self.address = address
        self.size = size
        self.pool = pool
        self.prev = prev
        self.next = following
        self.key = 0
        self.live = False
        self.requested = 0
        self.uses: dict[tuple[int, int], None] | None = None
        self.frames: Frames | None = None
        self.since = 0

    @property
    def stream(self) -> int:
        """Handle, as an int, of the stream that the block is allocated for."""
        return self.pool.stream

    @property
    def split(self) -> bool:
        """Whether the block does not fill its segment."""
        return self.prev is not None or self.next is not None

    def __repr__(self) -> str:
        state = "live" if self.live else "free" if self.key else "waiting"
        return f"<block of {self.size} bytes at {self.address:#x}, {state}>"
