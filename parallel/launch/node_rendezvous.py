"""A rendezvous of nodes that may come and go: each launcher's connection to the one that serves it.

The launcher on the machine of the endpoint serves it there (:mod:`.serving`).
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import signal
import socket
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from parallel.groups.errors import DistError, DistNetworkError, DistStoreError
from parallel.groups.stores.tcp_store import TCPStore

from .coordinator import Coordinator
from .exit_codes import signal_name
from .local_ranks import ENDING_SIGNALS, say
from .rounds import Round, reserve_port
from .serving import JOB, MESSAGES, orders_of, start_deciding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from parallel.groups.stores.store import Store

    from .coordinator import Rules
    from .local_ranks import Outcome


class NodeRendezvous:
    """One launcher's side of a rendezvous, to be entered by ``with``.

    Parameters
    ----------
    address, port
        The endpoint. Port 0 is a free one, for a job of a single node.
    job_id
        The job's name; launchers that meet have the same.
    rules
        How many nodes there may be, and how long they are waited for; those of the launcher that serves count.
    processes
        How many ranks this node starts.
    node_rank
        The number of this node, where nodes are numbered by hand; None where they are as they come.
    serves
        Whether this launcher serves the rendezvous; None: if the address is this machine's, and no other launcher
        does already.

    Raises
    ------
    DistNetworkError
        From ``with``: if the rendezvous cannot be served, or nobody serves it within the join timeout.
    DistStoreError
        From ``with``: if it is that of another job.
    """

    alone = False
    restarting = True

    def __init__(
        self,
        address: str,
        port: int,
        job_id: str,
        rules: Rules,
        processes: int,
        node_rank: int | None = None,
        serves: bool | None = None,
    ) -> None:
        self._address, self._port, self._rules = address, port, rules
        self._processes, self._node_rank, self._serves = processes, node_rank, serves
        self.job_id = job_id
        self.status = 0
        self._over = False
        self._key = secrets.token_hex(8)
        self._orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.stop, self._wake = socket.socketpair()
        self.stop.setblocking(False)
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as ends:
            ends.callback(self.stop.close)
            ends.callback(self._wake.close)
            self._store = self._meet()
            ends.callback(self._store.close)
            if self._store.is_master:
                ends.callback(self._start_coordinating().join)
            self._check_job()
            ends.callback(self._start_listening().join)
            name = f"{socket.gethostname()} (process {os.getpid()})"
            self._tell("join", name=name, processes=self._processes, rank=self._node_rank)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._over:
            self._leave("has stopped because of an error")
        self._ends.close()

    def next_round(self) -> Round | None:
        """What this node runs next; None when the job is over."""
        while not self._over:
            try:
                with _raised_signals():
                    order = self._orders.get()
            except _SignalError as received:
                say(f"received {signal_name(received.number)} while waiting for other nodes")
                self.status = 128 + received.number
                self._leave(f"has received {signal_name(received.number)}")
                break
            match order["order"]:
                case "start":
                    return self._begin(order)
                case "end":
                    self.status = self.status or order["status"]
                    if order["reason"]:
                        say(f"{order['reason']}; the job has failed")
                    self._leave("has ended")
                case _:  # "stop", which came when the ranks had ended by themselves
                    pass
        return None

    def conclude(self, finished: Round, outcome: Outcome) -> None:
        """Tell how this node's ranks have ended."""
        self.status = outcome.status
        if outcome.signal is not None:
            self._leave(f"has received {signal_name(outcome.signal)}")
        elif outcome.failure:
            self._tell("failed", reason=outcome.failure, status=outcome.status)
        else:
            self._tell("stopped" if outcome.stopped else "succeeded")

    def _begin(self, order: dict[str, Any]) -> Round:
        result = Round(**order["round"])
        self.status = 0
        with contextlib.suppress(BlockingIOError):
            while self.stop.recv(64):
                pass
        # What has asked to stop this round already stands in the queue.
        if not self._orders.empty():
            self._wake.send(b"\0")
        if order["reason"]:
            nodes = "1 node" if result.nodes == 1 else f"{result.nodes} nodes"
            say(f"{order['reason']}; {nodes} with {result.world_size} ranks in all")
        return result

    def _meet(self) -> TCPStore:
        """The store of the rendezvous, which this launcher serves or connects to."""
        timeout = timedelta(seconds=self._rules.join_timeout)
        serves = _is_local(self._address) if self._serves is None else self._serves
        if serves:
            try:
                return TCPStore(self._address, self._port, is_master=True, timeout=timeout)
            except DistNetworkError:
                # Another launcher of this machine may serve it.
                if self._serves or self._port == 0:
                    raise
        return TCPStore(self._address, self._port, timeout=timeout)

    def _check_job(self) -> None:
        if self._store.is_master:
            self._store.set(JOB, self.job_id)
            return
        served = self._store.get(JOB).decode()
        if served != self.job_id:
            raise DistStoreError(
                f"the rendezvous at {self._address}:{self._port} is that of job {served!r}, and this launcher's "
                f"--rdzv-id is {self.job_id!r}: give the same to all launchers of a job, and another endpoint to another job"
            )

    def _tell(self, event: str, **details: object) -> None:
        message = {"node": self._key, "event": event, **details}
        # Who serves it may be gone; the thread that listens notices that too, and ends this node.
        with contextlib.suppress(DistError):
            self._store.queue_push(MESSAGES, json.dumps(message))

    def _leave(self, reason: str) -> None:
        self._over = True
        self._tell("leave", reason=reason)
        # The thread that listens need not wait for its time to be over.
        with contextlib.suppress(DistError):
            self._store.queue_push(orders_of(self._key), json.dumps(_end("")))

    # What threads do

    def _start_listening(self) -> threading.Thread:
        # Its own object for its own timeout: messages wait for nothing.
        store = self._store.clone()
        store.set_timeout(timedelta(seconds=self._rules.keep_alive_interval))
        thread = threading.Thread(target=self._listen, args=(store,), name="rendezvous orders", daemon=True)
        thread.start()
        return thread

    def _listen(self, store: Store) -> None:
        """Take this node's orders, and say that it lives."""
        ended = False
        while not ended:
            try:
                order = json.loads(store.queue_pop(orders_of(self._key)))
            except DistStoreError:
                self._tell("alive")
                continue
            except DistNetworkError:
                gone = f"the launcher that serves the rendezvous at {self._address}:{self._port} is gone"
                order = _end(gone)
            ended = order["order"] == "end"
            self._orders.put(order)
            if order["order"] != "start":
                with contextlib.suppress(OSError):
                    self._wake.send(b"\0")
        store.close()

    def _start_coordinating(self) -> threading.Thread:
        """Decide for all nodes until they have left."""
        reserved = contextlib.ExitStack()

        def reserve() -> int:
            reserved.close()
            return reserve_port(reserved)

        coordinator = Coordinator(self._rules, self._address, self._key, reserve, say, time.monotonic())
        return start_deciding(self._store, coordinator, reserved.close)


def _end(reason: str) -> dict[str, Any]:
    return {"order": "end", "status": 1, "reason": reason}


def _is_local(host: str) -> bool:
    """Whether ``host`` is a name or an address of this machine."""
    try:
        candidates = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in candidates:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as trial:
            trial.bind(address)
            return True
    return False


class _SignalError(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def _raised_signals() -> Iterator[None]:
    """Let the signals that end a launcher raise :class:`_SignalError` in the main thread."""

    def received(number: int, _: object) -> None:
        raise _SignalError(number)

    former = {
        number: signal.signal(number, received)
        for number in ENDING_SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN  # nohup
    }
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
