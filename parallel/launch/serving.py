"""Serving a rendezvous: a store at its endpoint, and a thread that decides for all nodes (:mod:`.coordinator`).

Messages and orders are queues of that store, so whoever takes part has to know the job's secret. A launcher serves it
beside its own ranks (:mod:`.node_rendezvous`), or a process that has none (:class:`Served`).
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from parallel.groups.errors import DistError, DistStoreError
from parallel.groups.stores.tcp_store import TCPStore
from parallel.groups.waiting import seconds_until

from .coordinator import Coordinator
from .local_ranks import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from parallel.groups.stores.store import Store

    from .coordinator import Rules

MESSAGES, JOB = "messages", "job"


def orders_of(node: str) -> str:
    """The queue in which the node with this key finds its orders."""
    return f"orders/{node}"


def start_deciding(
    store: TCPStore, coordinator: Coordinator, release: Callable[[], None]
) -> threading.Thread:
    """Start the thread in which ``coordinator`` decides until all nodes have left; in the end it calls ``release``."""

    def decide() -> None:
        own = store.clone()
        try:
            while not coordinator.over:
                _act(own, coordinator, coordinator.due())
            closing = time.monotonic() + coordinator.rules.close_timeout
            while coordinator.nodes and time.monotonic() < closing:
                _act(own, coordinator, min(coordinator.due(), closing))
        except BaseException:
            # Nobody would decide any more: all nodes see that, and end.
            store.close()
            raise
        finally:
            own.close()
            release()

    thread = threading.Thread(target=decide, name="rendezvous coordinator", daemon=True)
    thread.start()
    return thread


def _act(store: Store, coordinator: Coordinator, due: float) -> None:
    """Take the next message, if there is one until ``due``, and send the orders that follow."""
    store.set_timeout(timedelta(seconds=seconds_until(due)))
    with contextlib.suppress(DistStoreError):
        coordinator.take(json.loads(store.queue_pop(MESSAGES)), time.monotonic())
    coordinator.pass_time(time.monotonic())
    for key, order in coordinator.orders:
        store.queue_push(orders_of(key), json.dumps(order))
    coordinator.orders.clear()


class Served:
    """A rendezvous that this process serves without being a node of it, to be entered by ``with``.

    It serves the store of each round's ranks too, so that any node may be lost.

    Parameters
    ----------
    address
        The name or address of this machine by which nodes reach it. The port is a free one.
    job_id
        The job's name.
    rules
        How many nodes there may be, and how long they are waited for.
    """

    def __init__(self, address: str, job_id: str, rules: Rules) -> None:
        self.address, self.job_id, self._rules = address, job_id, rules
        self._ranks_store: TCPStore | None = None

    def __enter__(self) -> Self:
        self._store = TCPStore(self.address, 0, is_master=True)
        self._store.set(JOB, self.job_id)
        self._coordinator = Coordinator(
            self._rules, self.address, "", self._serve_ranks, say, time.monotonic(), serves_ranks=True
        )
        self._thread = start_deciding(self._store, self._coordinator, self._close_ranks_store)
        return self

    def __exit__(self, *_: object) -> None:
        self.end(1, "the process that serves the rendezvous ends")
        self._thread.join()
        self._store.close()

    @property
    def port(self) -> int:
        """Where nodes find it at its address."""
        return self._store.port

    @property
    def over(self) -> bool:
        """Whether the job is over."""
        return self._coordinator.over

    @property
    def status(self) -> int:
        """The exit status of the job, once it is over."""
        return self._coordinator.status

    def end(self, status: int, reason: str) -> None:
        """End the job, unless it is over already."""
        # The thread that decides takes it in its turn, as what nodes say; the store may have closed after an error.
        with contextlib.suppress(DistError):
            self._store.queue_push(
                MESSAGES, json.dumps({"node": "", "event": "end", "status": status, "reason": reason})
            )

    def _serve_ranks(self) -> int:
        self._close_ranks_store()
        self._ranks_store = TCPStore(self.address, 0, is_master=True)
        return self._ranks_store.port

    def _close_ranks_store(self) -> None:
        if self._ranks_store is not None:
            self._ranks_store.close()
            self._ranks_store = None
