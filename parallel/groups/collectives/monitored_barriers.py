"""``monitored_barrier``: a barrier that says who did not come."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from parallel.groups.errors import DistBackendError, DistError

from .arguments import member_of

if TYPE_CHECKING:
    from parallel.groups.process_groups import Group, ProcessGroup
    from parallel.groups.stores.store import Store

#: Seconds between two looks at who has come, at first and at most.
_PAUSES = (0.001, 0.05)
#: Seconds that the other ranks wait for rank 0's word after it has given up.
_GRACE = timedelta(seconds=10)


def monitored_barrier(
    group: Group = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all ranks of the group have called this, or fail with the numbers of the ranks that did not.

    It goes through the group's store and not through its backend, so that it works even where the backend hangs.

    >>> parallel.monitored_barrier(timeout=timedelta(seconds=30), wait_all_ranks=True)

    Parameters
    ----------
    group : ProcessGroup, optional
        All ranks by default. On a rank that is not in it, nothing is done but to warn.
    timeout : timedelta, optional
        How long to wait; the group's timeout by default.
    wait_all_ranks : bool
        Whether to wait for the whole time to name all missing ranks; else the first one is named.

    Raises
    ------
    DistBackendError
        On every rank that came, if others did not come in time.
    RuntimeError
        If the group has no store, as with ``mpi`` alone.
    """
    process_group = member_of("monitored_barrier", group)
    if process_group is None:
        return
    if process_group.store is None:
        raise RuntimeError(
            f"monitored_barrier() needs a store, and {process_group!r} has none: pass init_method= or store= to "
            "init_process_group(), or use barrier()"
        )
    process_group.monitored_barriers += 1
    number = process_group.monitored_barriers
    limit = process_group.timeout if timeout is None else timeout
    store = process_group.store
    if process_group.rank() == 0:
        _lead(process_group, store, number, limit, wait_all_ranks)
    else:
        _follow(process_group, store, number, limit)


def _lead(group: ProcessGroup, store: Store, number: int, limit: timedelta, wait_all_ranks: bool) -> None:
    """Wait for the others, and tell them what came of it."""
    deadline = time.monotonic() + limit.total_seconds()
    missing = list(range(1, group.size()))
    pause = _PAUSES[0]
    while missing:
        missing = [rank for rank in missing if not store.check([_key(number, rank)])]
        if not missing or time.monotonic() >= deadline:
            break
        time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        pause = min(2 * pause, _PAUSES[1])
    # All have come to this barrier, so nobody reads the last one's word any more.
    if not missing and number > 1:
        store.delete_key(_key(number - 1, 0))
    named = [group.global_rank(rank) for rank in (missing if wait_all_ranks else missing[:1])]
    verdict = ""
    if missing:
        who = f"Ranks {', '.join(map(str, named))}" if wait_all_ranks else f"Rank {named[0]}"
        verdict = f"{who} failed to pass monitoredBarrier in {limit}"
    store.set(_key(number, 0), verdict)
    for rank in range(1, group.size()):
        if rank not in missing:
            store.delete_key(_key(number, rank))
    if missing:
        raise DistBackendError(f"monitored_barrier: {verdict}")


def _follow(group: ProcessGroup, store: Store, number: int, limit: timedelta) -> None:
    """Tell rank 0 that this rank has come, and wait for its word."""
    store.set(_key(number, group.rank()), "")
    try:
        store.wait([_key(number, 0)], min(limit, timedelta.max - _GRACE) + _GRACE)
        verdict = store.get(_key(number, 0)).decode()
    except DistError as error:
        raise DistBackendError(
            f"monitored_barrier: Rank {group.global_rank(0)} failed to pass monitoredBarrier in {limit}: it has not said "
            f"who came ({error})"
        ) from error
    if verdict:
        raise DistBackendError(f"monitored_barrier: {verdict}")


def _key(number: int, rank: int) -> str:
    """What a rank sets when it comes; of rank 0, its word."""
    return f"monitored_barrier {number}/{rank}"
