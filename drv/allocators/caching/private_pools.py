"""Private pools: memory that is kept apart, for what a CUDA graph uses at each launch or a program asks for.

A private pool has segments of its own. While it is in use none of them goes back to the driver, so that an address
that was handed out stays valid; what is freed is handed out again to allocations of the same pool only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from drv.allocators.protocol import PoolIdentifier

    from .pool import BlockPool

#: What segments of no private pool have.
ORDINARY: PoolIdentifier = (0, 0)


class PrivatePool:
    """Blocks of one private pool, by stream.

    Parameters
    ----------
    identifier : tuple of two ints
        What it goes by.

    Attributes
    ----------
    users : int
        How many graphs and other objects keep it in use. Without one, its free segments may go back to the driver.
    splits : bool
        Whether segments are cut into blocks; if not, each block is a whole segment.
    lends : bool
        Whether an allocation outside may have memory from it before it fails.
    """

    __slots__ = ("identifier", "large", "lends", "small", "splits", "users")

    def __init__(self, identifier: PoolIdentifier) -> None:
        self.identifier = identifier
        self.users = 0
        self.splits = True
        self.lends = False
        self.small: dict[int, BlockPool] = {}
        self.large: dict[int, BlockPool] = {}

    def __repr__(self) -> str:
        return f"<private pool {self.identifier}, {self.users} user(s)>"

    def __iter__(self) -> Iterator[BlockPool]:
        yield from self.large.values()
        yield from self.small.values()

    def of_size(self, *, small: bool) -> dict[int, BlockPool]:
        """Its blocks of one size class."""
        return self.small if small else self.large

    def adopt(self, pool: BlockPool) -> None:
        """Make a new, empty pool of a stream a part of this one."""
        pool.owner = self
        if not self.splits:
            pool.least_remainder = 1 << 62


class PoolsOfStreams(Protocol):
    """What an allocation looks for the pool of its stream in: a dictionary, or :class:`RoutedPools`."""

    def get(self, stream: int, /) -> BlockPool | None:
        """The pool, or ``None``."""

    def setdefault(self, stream: int, pool: BlockPool, /) -> BlockPool:
        """The pool, which is ``pool`` if there was none."""


class Route:
    """Sends some allocations into a private pool.

    Parameters
    ----------
    pool : PrivatePool
        The pool.
    claims : callable
        Whether an allocation that the calling thread makes for a stream, which it gets as a number, belongs there.
    """

    __slots__ = ("claims", "pool")

    def __init__(self, pool: PrivatePool, claims: Callable[[int], bool]) -> None:
        self.pool = pool
        self.claims = claims


class RoutedPools:
    """Stands for the ordinary pools of one size class, by stream, while some allocations go elsewhere.

    Parameters
    ----------
    ordinary : dict
        The ordinary ones.
    routes : sequence of Route
        The first one that claims an allocation has it.
    small : bool
        Which size class this is.
    """

    __slots__ = ("ordinary", "routes", "small")

    def __init__(self, ordinary: dict[int, BlockPool], routes: Sequence[Route], *, small: bool) -> None:
        self.ordinary = ordinary
        self.routes = routes
        self.small = small

    def get(self, stream: int) -> BlockPool | None:
        """The pool that an allocation of the calling thread for ``stream`` comes from; ``None`` if it is not there yet."""
        owner = self._owner(stream)
        pools = self.ordinary if owner is None else owner.of_size(small=self.small)
        return pools.get(stream)

    def setdefault(self, stream: int, pool: BlockPool) -> BlockPool:
        """The same, which is ``pool`` if it is not there yet."""
        owner = self._owner(stream)
        if owner is None:
            return self.ordinary.setdefault(stream, pool)
        owner.adopt(pool)
        return owner.of_size(small=self.small).setdefault(stream, pool)

    def _owner(self, stream: int) -> PrivatePool | None:
        for route in self.routes:
            if route.claims(stream):
                return route.pool
        return None
