"""Free blocks of one stream: best fit, splitting, merging."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from drv.allocators.statistics import EXPANDABLE, LARGE, RECORD, SPLITS, UNCHANGED

from .blocks import CachedBlock
from .holding import SIZE_SHIFT, WHOLE, Holding, alone, together
from .rounding import BLOCK_UNIT, LARGE_SEGMENT, NO_LIMIT, SMALL_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .private_pools import PrivatePool

#: Chunks of the sorted order are cut in two above this length.
CHUNK = 256

_last = itemgetter(-1)
_new: Callable[[type[CachedBlock]], CachedBlock] = object.__new__


class Clock:
    """Counts the searches for a large block, by which the age of free blocks is measured."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


class BlockPool:
    """Free blocks of one stream and one size class, small or large.

    The order is PyTorch's: by size, then split blocks before whole segments, then by address; the
    first block that is large enough is taken. It is kept as a sorted list of integer keys with a list
    of the blocks beside it, which one bisection in C searches; above ``CHUNK`` free blocks as a list of
    such lists, so that an insertion moves little however many there are. Splitting and merging mostly
    leave a block between the same neighbours of the order, and then only replace its entry.

    Parameters
    ----------
    stream : int
        Handle of the stream.
    small : bool
        Whether this is the pool for blocks up to 1 MiB.
    journal : list of int
        Where allocations and frees are recorded; see :mod:`drv.allocators.statistics`.
    clock : Clock
        Gives the time at which a block became free.

    Attributes
    ----------
    may_hold, holds : bool
        Whether a block that is freed may be held back, because it is likely to be asked for next: in this pool, and now. That
        is so where the last allocation asked for as many bytes as were freed right before it; of several blocks that are
        freed in a row two at most are held, of one size.
    freed : int
        Bytes that were given last, since the last allocation.
    held : Holding or None
        These blocks: they are recorded as freed, and not in the order yet, because giving them and taking as many bytes would
        come to handing them out. For an allocation of their size the owner does so with the first of them; before anything
        else it calls :meth:`put_held`.
    singles : dict
        What holding a block alone comes to, by the block. True as long as the order stays as it is.
    owner : PrivatePool or None
        The private pool that this is a part of.
    """

    __slots__ = (
        "_blocks",
        "_code",
        "_journal",
        "_keys",
        "_lost",
        "_passes",
        "_skips",
        "_spare",
        "_unfit",
        "clock",
        "freed",
        "held",
        "holds",
        "least_remainder",
        "max_split_size",
        "may_hold",
        "owner",
        "singles",
        "small",
        "stream",
    )

    expandable = False

    def __init__(self, stream: int, small: bool, journal: list[int], clock: Clock) -> None:
        self.stream = stream
        self.small = small
        self.clock = clock
        self.may_hold = small and type(self) is BlockPool
        self.holds = False
        self.freed = 0
        self.held: Holding | None = None
        self.singles: dict[CachedBlock, Holding] = {}
        #: How many pairs in a row were put back, and how many chances to form one are left to pass because of that.
        self._lost = self._skips = 0
        #: How many blocks in a row could not be held, and how many are left to pass because of that.
        self._unfit = self._passes = 0
        self.owner: PrivatePool | None = None
        self.max_split_size = NO_LIMIT
        self.least_remainder = BLOCK_UNIT if small else SMALL_LIMIT + BLOCK_UNIT
        self._journal = journal
        self._code = UNCHANGED | (0 if small else LARGE) | (EXPANDABLE if self.expandable else 0)
        #: A block that was merged away and never handed out, to be reused as the next remainder.
        self._spare: CachedBlock | None = None
        self._keys: list[list[int]] = [[]]
        self._blocks: list[list[CachedBlock]] = [[]]

    def __iter__(self) -> Iterator[CachedBlock]:
        """Free blocks in order. The pool may change while the iteration goes on."""
        return iter([block for blocks in self._blocks for block in blocks])

    def take(self, size: int, requested: int) -> CachedBlock | None:
        """Hand out the best fit for ``size`` bytes (already rounded); the rest of it stays."""
        least_key = size << SIZE_SHIFT
        chunks = self._keys
        if len(chunks) == 1:
            chunk = 0
        else:
            chunk = bisect_left(chunks, least_key, key=_last)
            if chunk == len(chunks):
                return None
        keys = chunks[chunk]
        index = bisect_left(keys, least_key)
        if index == len(keys):
            return None
        if self.singles:
            self.singles.clear()
        block = self._blocks[chunk][index]
        whole = block.size
        limit = self.max_split_size
        if whole >= limit and (size < limit or whole >= size + LARGE_SEGMENT):
            return None
        following = block.next
        rest = whole - size
        if rest < self.least_remainder or size >= limit:
            self._delete(chunk, index)
            block.key = 0
            block.live = True
            block.requested = requested
            if following is None and block.prev is None:
                self._journal += (whole + self._code, requested, 0)
            else:
                self._journal += (whole + self._code - SPLITS, requested, -whole)
            return block
        address = block.address + size
        remainder = self._spare
        if remainder is None:
            # As CachedBlock() would, without the call.
            remainder = _new(CachedBlock)
            remainder.pool = self
            remainder.live = False
            remainder.requested = remainder.since = 0
            remainder.uses = remainder.frames = None
        else:
            self._spare = None
        remainder.address = address
        remainder.size = rest
        remainder.prev = block
        remainder.next = following
        # An exception that a signal handler raises can come with any call, so until here nothing has changed,
        # and from here on there is none before the block is out of the order.
        if following is not None:
            following.prev = remainder
            self._journal += (size + self._code, requested, -size)
        elif block.prev is not None:
            self._journal += (size + self._code, requested, -size)
        else:
            self._journal += (size + self._code + SPLITS, requested, rest)
        block.next = remainder
        block.size = size
        block.key = 0
        block.live = True
        block.requested = requested
        remainder.key = key = (rest << SIZE_SHIFT) | address
        if keys[index - 1] < key if index else chunk == 0:
            keys[index] = key
            self._blocks[chunk][index] = remainder
        else:
            self._delete(chunk, index)
            self._insert(key, remainder)
        return block

    def put_held(self) -> None:
        """Put what is held back into the order, if there is anything; it is recorded as freed already."""
        held, self.held = self.held, None
        if held is None:
            return
        self._put(held.first)
        if held.second is not None:
            self._put(held.second)
            # Where more is freed before anything is asked for, looking for pairs is work for nothing.
            self._lost = min(self._lost + 1, 8)
            self._skips = (1 << self._lost) - 1

    def _put(self, block: CachedBlock) -> None:
        self.give(block, 0, 0)
        # What that changes is recorded already, with what was freed.
        del self._journal[-RECORD:]

    def hold(self, block: CachedBlock) -> Holding | None:
        """What :attr:`singles` has from now on for ``block``, which is being freed; ``None`` if it cannot be held."""
        if self._passes:
            self._passes -= 1
            return None
        result = alone(block, self._best_fits, self._code)
        if result is None:
            # Among blocks of many sizes hardly any can be held, and finding that out takes longer than it would save.
            self._unfit = min(self._unfit + 1, 4)
            self._passes = (1 << self._unfit) - 1
        else:
            self.singles[block] = result
            self._unfit = 0
        return result

    def hold_both(self, held: Holding, block: CachedBlock) -> Holding | None:
        """What ``held`` has from now on :attr:`~.holding.Holding.beside` it for ``block``, which is being freed."""
        if held.size != block.size:
            return None
        if self._skips:
            self._skips -= 1
            return None
        other = self.singles.get(block) or self.hold(block)
        result = None if other is None else together(held, other, self._best_fits, self._code)
        if result is not None:
            held.beside = {**held.beside, block: result}
        return result

    def hold_second(self, block: CachedBlock) -> None:
        """Go on to hold ``block``, the second of a pair whose first one is handed out."""
        self.held = self.singles[block]
        self.holds = True
        self._lost = 0

    def carve(self, block: CachedBlock, size: int, requested: int) -> CachedBlock:
        """Hand out the first ``size`` bytes of ``block``, which is not in the pool; the rest goes there."""
        self.singles.clear()
        block.live = True
        block.requested = requested
        rest = block.size - size
        if rest < self.least_remainder or size >= self.max_split_size:
            self._journal += (block.size + self._code, requested, 0)
            return block
        self._journal += (size + self._code + SPLITS, requested, rest)
        following = block.next
        block.size = size
        block.next = remainder = CachedBlock(block.address + size, rest, self, block, following)
        if following is not None:
            following.prev = remainder
        remainder.key = (rest << SIZE_SHIFT) | remainder.address
        self._insert(remainder.key, remainder)
        return block

    def give(self, block: CachedBlock, counted: int, requested: int) -> CachedBlock:
        """Put ``block`` into the pool, merged with free neighbours; the block that it became.

        ``counted`` of its bytes, ``requested`` of them asked for, are recorded as freed by this.
        """
        if self.held is not None:
            self.put_held()
        if self.singles:
            self.singles.clear()
        prev = block.prev
        following = block.next
        size = block.size
        # A free neighbour, of two the left one, leaves its position in the order to what they become together.
        if prev is not None and prev.key:
            if following is not None and following.key:
                merged = prev.size + following.size
                self.remove(following)
                size += following.size
                following = following.next
                count = -2
            else:
                merged = prev.size
                count = -1
            order = self._keys
            chunk = 0 if len(order) == 1 else bisect_left(order, prev.key, key=_last)
            index = bisect_left(order[chunk], prev.key)
            prev.size = size = prev.size + size
            prev.next = following
            if following is not None:
                following.prev = prev
            block.prev = block.next = None
            block = prev
        elif following is not None and following.key:
            order = self._keys
            chunk = 0 if len(order) == 1 else bisect_left(order, following.key, key=_last)
            index = bisect_left(order[chunk], following.key)
            merged = following.size
            count = -1
            following.key = 0
            if not following.requested:
                self._spare = following
            block.size = size = size + merged
            block.next = following = following.next
            if following is not None:
                following.prev = block
        elif prev is None and following is None:
            block.key = key = (size << SIZE_SHIFT) | block.address | WHOLE
            block.since = self.clock.now
            self._journal += (self._code - counted, -requested, 0)
            self._insert(key, block)
            return block
        else:
            block.key = key = (size << SIZE_SHIFT) | block.address
            self._journal += (self._code + SPLITS - counted, -requested, size)
            self._insert(key, block)
            return block
        if following is None and block.prev is None:
            block.key = key = (size << SIZE_SHIFT) | block.address | WHOLE
            block.since = self.clock.now
            self._journal += (self._code + SPLITS * count - counted, -requested, -merged)
        else:
            block.key = key = (size << SIZE_SHIFT) | block.address
            code = self._code + SPLITS * (count + 1)
            self._journal += (code - counted, -requested, size - merged)
        keys = order[chunk]
        after = index + 1
        if keys[after] > key if after < len(keys) else chunk + 1 == len(order):
            keys[index] = key
            self._blocks[chunk][index] = block
        else:
            self._delete(chunk, index)
            self._insert(key, block)
        return block

    def remove(self, block: CachedBlock) -> None:
        """Take a free block out of the order."""
        self.singles.clear()
        self._delete(*self._find(block.key))
        block.key = 0

    def insert(self, block: CachedBlock) -> None:
        """Put a free block into the order as it is."""
        self.singles.clear()
        flag = 0 if block.split else WHOLE
        block.key = (block.size << SIZE_SHIFT) | flag | block.address
        block.since = self.clock.now
        self._insert(block.key, block)

    def from_size(self, size: int) -> Iterator[CachedBlock]:
        """Free blocks of at least ``size`` bytes, in order. The pool must not change meanwhile."""
        least_key = size << SIZE_SHIFT
        for keys, blocks in zip(self._keys, self._blocks, strict=True):
            if keys and keys[-1] >= least_key:
                yield from islice(blocks, bisect_left(keys, least_key), None)

    def _find(self, key: int) -> tuple[int, int]:
        """Where the first key from ``key`` on is; past the end if there is none."""
        chunks = self._keys
        if len(chunks) == 1:
            return 0, bisect_left(chunks[0], key)
        chunk = bisect_left(chunks, key, key=_last)
        return (chunk, bisect_left(chunks[chunk], key)) if chunk < len(chunks) else (chunk, 0)

    def _best_fits(self, size: int) -> list[int]:
        """The first two keys of at least ``size`` bytes, or as many as there are."""
        chunks = self._keys
        if len(chunks) == 1:
            index = bisect_left(chunks[0], size << SIZE_SHIFT)
            return chunks[0][index : index + 2]
        chunk, index = self._find(size << SIZE_SHIFT)
        if chunk == len(chunks):
            return []
        keys = chunks[chunk][index : index + 2]
        if len(keys) == 1 and chunk + 1 < len(chunks):
            keys.append(chunks[chunk + 1][0])
        return keys

    def _delete(self, chunk: int, index: int) -> None:
        keys = self._keys[chunk]
        del keys[index]
        del self._blocks[chunk][index]
        if not keys and len(self._keys) > 1:
            del self._keys[chunk]
            del self._blocks[chunk]

    def _insert(self, key: int, block: CachedBlock) -> None:
        chunks = self._keys
        if len(chunks) == 1:
            chunk = 0
        else:
            chunk = min(bisect_left(chunks, key, key=_last), len(chunks) - 1)
        keys = chunks[chunk]
        index = bisect_left(keys, key)
        keys.insert(index, key)
        self._blocks[chunk].insert(index, block)
        if len(keys) > CHUNK:
            half = len(keys) // 2
            blocks = self._blocks[chunk]
            chunks.insert(chunk + 1, keys[half:])
            self._blocks.insert(chunk + 1, blocks[half:])
            del keys[half:]
            del blocks[half:]


class EmptyPool(BlockPool):
    """Where blocks of no bytes come from and return to."""

    __slots__ = ()

    def give(self, block: CachedBlock, counted: int, requested: int) -> CachedBlock:
        """Forget ``block``."""
        return block
