"""What holding freed blocks back comes to, for :class:`~.pool.BlockPool`: whether they would be handed out next, and as what.

A block that is held is recorded as freed and not in the pool's order yet. That is right as long as giving it, and taking as
many bytes, hands it out again; so it is asked of the order, once, what the two would do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drv.allocators.statistics import SPLITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from .blocks import CachedBlock

#: A key is the size, whether the block is a whole segment, and the address, most significant first.
SIZE_SHIFT = 64
WHOLE = 1 << 63


#: Most holdings never get company.
_NOTHING: dict[CachedBlock, Holding] = {}


class Holding:
    """One or two blocks that are held back.

    Parameters
    ----------
    freed, freed_unsplit : int
        How the block that came last is recorded as freed: its code with the size, and the change in bytes of split blocks.
    taken, taken_unsplit : int
        How ``first`` will be recorded as handed out.
    first : CachedBlock
        What is handed out next.
    second : CachedBlock or None
        What is handed out after it.

    Attributes
    ----------
    beside : dict
        What becomes of it when another block is freed, by that block.
    """

    # No tuple: each allocation and each free looks at several of them.
    __slots__ = ("beside", "first", "freed", "freed_unsplit", "second", "size", "taken", "taken_unsplit")

    def __init__(
        self,
        freed: int,
        freed_unsplit: int,
        taken: int,
        taken_unsplit: int,
        first: CachedBlock,
        second: CachedBlock | None,
    ) -> None:
        self.freed = freed
        self.freed_unsplit = freed_unsplit
        self.taken = taken
        self.taken_unsplit = taken_unsplit
        self.first = first
        self.second = second
        self.size = first.size
        self.beside = _NOTHING


def alone(block: CachedBlock, best_fits: Callable[[int], list[int]], code: int) -> Holding | None:
    """``block``, which is being freed, as the only one that is held.

    Parameters
    ----------
    block : CachedBlock
        The block, not in the order.
    best_fits : callable
        ``best_fits(size)`` gives the first two keys in the order of at least ``size`` bytes, or as many as there are.
    code : int
        What records of the pool have beside sizes.

    Returns
    -------
    Holding or None
        ``None`` if giving it and taking as many bytes would not hand it out again.
    """
    following, prev = block.next, block.prev
    if prev is not None and prev.key:
        return None
    size = block.size
    fits = best_fits(size)
    if following is None:
        whole, rest = prev is None, 0
    elif following.key:
        # They would merge, and be split again.
        if not fits or fits[0] != following.key:
            return None
        del fits[0]
        whole, rest = prev is None and following.next is None, following.size
    else:
        whole, rest = False, 0
    key = ((size + rest) << SIZE_SHIFT) | block.address | (WHOLE if whole else 0)
    if fits and fits[0] < key:
        return None
    # Parts of segments, while it is handed out and while it is not.
    splits, unsplit = (0 if whole else 1) - (1 if rest else 0), (0 if whole else size + rest) - rest
    change = SPLITS * splits
    return Holding(code - size + change, unsplit, code + size - change, -unsplit, block, None)


def together(
    held: Holding, other: Holding, best_fits: Callable[[int], list[int]], code: int
) -> Holding | None:
    """The block of ``other``, which is being freed, beside the one that is held; both are of the same size.

    Parameters
    ----------
    held, other : Holding
        What either is :func:`alone`, while the other one is handed out.
    best_fits, code
        As there.

    Returns
    -------
    Holding or None
        ``None`` if giving both, and taking as many bytes twice, would not hand them out again.
    """
    a, b = held.first, other.first
    size = a.size
    if a.next is not b and b.next is not a:
        # Neither matters to what the other one comes to. What merges with nothing is the better fit.
        first, second = (held, other) if _order(a) < _order(b) else (other, held)
        return Holding(
            other.freed, other.freed_unsplit, first.taken, first.taken_unsplit, first.first, second.first
        )
    # They would merge, with what follows if that is free, and be split twice.
    lower, upper = (a, b) if a.next is b else (b, a)
    fits = best_fits(size)
    beyond: CachedBlock | None = upper.next
    rest = parts = 0
    if beyond is not None and beyond.key:
        rest, parts = beyond.size, 1
        beyond = beyond.next
        del fits[0]
    whole = lower.prev is None and beyond is None
    merged = 2 * size + rest
    key = (merged << SIZE_SHIFT) | lower.address | (WHOLE if whole else 0)
    if fits and fits[0] < key:
        return None
    # Parts of segments: of both, and of the upper or the lower one alone.
    splits, unsplit = (0, 0) if whole else (1, merged)
    before = 1 + parts if b is upper else 1
    return Holding(
        code - size + SPLITS * (splits - before),
        unsplit - (size + rest),
        code + size + SPLITS * (1 - splits),
        size + rest - unsplit,
        lower,
        upper,
    )


def _order(block: CachedBlock) -> tuple[bool, bool, int]:
    """What blocks of one size are handed out by."""
    following = block.next
    merges = following is not None and following.key != 0
    return merges, block.prev is None and following is None, block.address
