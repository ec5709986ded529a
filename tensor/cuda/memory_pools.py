"""Pools of device memory that a program keeps apart, or that graphs share."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeAlias

from tensor.core.devices.current import index_or_current
from tensor.core.devices.state import cuda_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drv.allocators.protocol import PoolIdentifier
    from tensor.core.devices.current import DeviceArgument
    from tensor.core.devices.state import CudaState

_handles = itertools.count(1)


class MemPool:
    """Memory that is kept apart from all other: :func:`use_mem_pool` has tensors of a block lie in it.

    Its segments stay as long as the pool lives, and go back to the driver with it, those that tensors still occupy later.

    Parameters
    ----------
    allocator
        Must be ``None``: there are no allocators written in other languages.
    use_on_oom : bool
        Whether tensors that find no other memory may take some of it.
    no_split : bool
        Whether each tensor has a segment of its own.

    Raises
    ------
    NotImplementedError
        For an ``allocator``.

    Examples
    --------
    >>> _ = drv.simulator.install()
    >>> pool = tensor.cuda.MemPool()
    >>> with tensor.cuda.use_mem_pool(pool):
    ...     x = tensor.zeros(1000, device="cuda")
    >>> [segment["total_size"] for segment in pool.snapshot()]
    [2097152]
    """

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        self._states: list[CudaState] = []
        if allocator is not None:
            raise NotImplementedError(
                "MemPool(allocator=...): allocators written in other languages are left out; GRAPHROOT_CUDA_ALLOC_CONF "
                "chooses among those that there are"
            )
        self._identifier = graph_pool_handle()
        self.use_on_oom = use_on_oom
        self.no_split = no_split

    @property
    def id(self) -> PoolIdentifier:
        """What snapshots call it, as ``segment_pool_id``: two ints."""
        return self._identifier

    @property
    def allocator(self) -> None:
        """``None``: there are no allocators written in other languages."""
        return

    def use_count(self) -> int:
        """How many use the pool: this object, blocks of :func:`use_mem_pool` that last, and graphs; on the current device."""
        state = cuda_state()
        users = state.allocator.pool_users(self.id)
        return users if state in self._states else users + 1

    def snapshot(self) -> list[dict[str, Any]]:
        """Segments of the pool, as :func:`memory_snapshot` tells them.

        Returns
        -------
        list of dict
            One for each segment, on whatever device.
        """
        return [
            segment
            for state in self._states
            for segment in state.allocator.snapshot()
            if segment["segment_pool_id"] == self.id
        ]

    def _join(self, state: CudaState) -> None:
        if state not in self._states:
            state.allocator.retain_pool(self.id)
            self._states.append(state)

    def __del__(self) -> None:
        for state in self._states:
            if state.runtime.alive:
                state.allocator.release_pool(self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


Pool: TypeAlias = "tuple[int, int] | MemPool"


def graph_pool_handle() -> PoolIdentifier:
    """A name for memory that several graphs share: an argument ``pool`` of their captures.

    Returns
    -------
    tuple of two ints
        Never the same twice.
    """
    return 0, next(_handles)


def pool_identifier(pool: Pool) -> PoolIdentifier:
    """What an argument ``pool`` goes by.

    Raises
    ------
    TypeError
        If it is none.
    """
    if isinstance(pool, MemPool):
        return pool.id
    if isinstance(pool, tuple) and len(pool) == 2 and all(type(each) is int for each in pool):
        return pool
    raise TypeError(
        f"pool must be what graph_pool_handle() or CUDAGraph.pool() returned, or a MemPool, got {pool!r}"
    )


@contextmanager
def use_mem_pool(pool: MemPool, device: DeviceArgument = None) -> Iterator[None]:
    """Context manager in which tensors of this thread on ``device`` lie in ``pool``.

    Parameters
    ----------
    pool : MemPool
        The pool.
    device : device, int or str, optional
        By default the current one.

    Raises
    ------
    TypeError
        If ``pool`` is not a :class:`MemPool`.
    NotSupportedError
        While memory is guarded on a GPU, where there are no pools.
    """
    if not isinstance(pool, MemPool):
        raise TypeError(f"use_mem_pool() expects a MemPool, got {type(pool).__name__}")
    state = cuda_state(index_or_current(device))
    thread = get_ident()

    def claims(_: int) -> bool:
        return get_ident() == thread

    pool._join(state)
    state.allocator.begin_pool(pool.id, claims, splits=not pool.no_split, lends=pool.use_on_oom)
    try:
        yield
    finally:
        state.allocator.end_pool(pool.id, claims)
