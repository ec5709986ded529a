"""Messages of one group: streams of them, sorted by sender, and the receives that wait for them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from parallel.groups.errors import DistBackendError
from parallel.groups.waiting import acquired_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from .connections import PeerConnections

TRANSFER = 1 << 62
"""The call number of what is no collective: it goes on when a collective fails, and ends with the group itself."""

# How many calls back, and ahead, a group compares what ranks call.
_REMEMBERED = 256
_Key = TypeVar("_Key")


NETWORK = 255
"""The slot of messages whose content follows over the connection, and is not in shared memory."""


class Header(NamedTuple):
    """What stands before every message: its group, its stream in it, the call it belongs to, and its size in bytes."""

    kind: int
    group: int
    stream: int
    sequence: int
    signature: int
    length: int
    slot: int = NETWORK


DATA, OFFER, FAILURE, GOODBYE = 1, 2, 3, 4
"""Message types: content, the announcement of a long message, that a call failed, that a rank leaves in good order."""


class Receipt:
    """A posted receive: :meth:`wait`, then read its fields."""

    __slots__ = ("_lock", "call", "error", "length", "offer", "peer", "sequence", "signature", "view")

    def __init__(self, view: memoryview | None, call: int) -> None:
        self.view = view
        self.call = call
        self._lock = threading.Lock()
        self._lock.acquire()
        self.error: str | None = None
        self.peer = -1
        self.length = 0
        self.sequence = 0
        self.signature = 0
        self.offer = False

    def wait(self, deadline: float) -> bool:
        """Whether the message has come, or failed, by ``deadline``."""
        if acquired_by(self._lock, deadline):
            self._lock.release()
            return True
        return False

    def finish(self) -> None:
        """Wake the waiting thread. A receipt that has failed stays failed."""
        if self._lock.locked():
            with contextlib.suppress(RuntimeError):
                self._lock.release()


class Arrival:
    """A message that arrived before its receive was posted."""

    __slots__ = ("body", "header", "peer")

    def __init__(self, peer: int, header: Header, body: bytearray) -> None:
        self.peer = peer
        self.header = header
        self.body = body


class Channel:
    """One group's messages over the connections. Ranks are the world's. Returned by :meth:`PeerConnections.open`."""

    def __init__(
        self, connections: PeerConnections, name: str, identity: int, ranks: tuple[int, ...]
    ) -> None:
        self._connections = connections
        self.name = name
        self.identity = identity
        self.ranks = ranks
        self.broken: str | None = None
        self._broken_from = 0
        self.on_failure: Callable[[int, bytes], None] | None = None
        self.on_disagreement: Callable[[int], None] | None = None
        self._calls: dict[int, int] = {}
        self._foreseen: dict[int, int] = {}
        self._posted: dict[tuple[int, int], deque[Receipt]] = {}
        self._posted_anywhere: dict[int, deque[Receipt]] = {}
        self._arrived: dict[int, dict[int, deque[Arrival]]] = {}
        self._failures: deque[tuple[int, bytes]] = deque()

    def post(self, peer: int | None, stream: int, view: memoryview | None, call: int) -> Receipt:
        """Post a receive for the next message of ``stream`` from ``peer`` (None: from any rank)."""
        receipt = Receipt(view, call)
        with self._connections.lock:
            arrival = self._take_arrival(peer, stream)
            if arrival is not None:
                deliver(receipt, arrival)
                return receipt
            receipt.error = self.failure_of(call) or self._absence(peer)
            if receipt.error is not None:
                receipt.finish()
            elif peer is None:
                self._posted_anywhere.setdefault(stream, deque()).append(receipt)
            else:
                receipt.peer = peer
                self._posted.setdefault((peer, stream), deque()).append(receipt)
        return receipt

    def send(
        self, peer: int, header: Header, body: memoryview | bytes, deadline: float, call: int = TRANSFER
    ) -> None:
        """Send one message for ``call``; returns when the network has taken it."""
        failure = self.failure_of(call)
        if failure is not None:
            raise DistBackendError(failure)
        self._connections.send(peer, header, body, deadline, lambda: self.failure_of(call))

    def failure_of(self, call: int) -> str | None:
        """Why ``call`` cannot succeed any more; None if it can."""
        return self.broken if _concerns(self._broken_from, call) else None

    def tell_failure(self, text: bytes, seconds: float = 1.0) -> None:
        """Tell the other ranks of the group, as far as they can be reached in time, that a call of this one failed."""
        deadline = time.monotonic() + seconds
        header = Header(FAILURE, self.identity, 0, 0, 0, len(text))
        for peer in self.ranks:
            if peer != self._connections.rank:
                try:
                    self._connections.send(peer, header, text, deadline, None)
                except DistBackendError:
                    continue

    def fail(self, reason: str, first_call: int = 0) -> None:
        """Fail pending and later operations with ``reason``: all of them, or collectives from ``first_call`` on."""
        with self._connections.lock:
            self.fail_locked(reason, first_call)

    def fail_locked(self, reason: str, first_call: int = 0) -> None:
        """As :meth:`fail`, under the connections' lock."""
        if self.broken is None or first_call < self._broken_from:
            self.broken = reason
            self._broken_from = first_call
        for queue in [*self._posted.values(), *self._posted_anywhere.values()]:
            _fail_all(queue, reason, first_call)
        for peer in self._connections.peers.values():
            if peer.receiving is not None:
                channel, receipt = peer.receiving
                if channel is self and _concerns(first_call, receipt.call):
                    receipt.error = reason
                    receipt.finish()

    def close(self) -> None:
        """Forget the group."""
        self.fail(f"the group {self.name!r} is closed on rank {self._connections.rank}")
        self._connections.forget(self)

    def announce(self, sequence: int, signature: int) -> bool:
        """Say what this rank's call number ``sequence`` is; whether what others sent for it agrees so far.

        From now on ``on_disagreement(sequence)`` is called when a message says otherwise.
        """
        with self._connections.lock:
            self._calls[sequence] = signature
            self._calls.pop(sequence - _REMEMBERED, None)
            return self._foreseen.pop(sequence, signature) == signature

    def agrees(self, sequence: int, signature: int) -> bool:
        """Whether a message of call ``sequence`` fits this rank's, under the connections' lock."""
        if not sequence:
            return True
        own = self._calls.get(sequence)
        if own is not None:
            return own == signature
        # The next call is either ahead of this rank or so long ago that nobody waits for it.
        if self._foreseen.setdefault(sequence, signature) != signature:
            self._foreseen[sequence] = -1
        if len(self._foreseen) > _REMEMBERED:
            del self._foreseen[min(self._foreseen)]
        return True

    def listen(
        self, on_failure: Callable[[int, bytes], None], on_disagreement: Callable[[int], None]
    ) -> None:
        """Call ``on_failure(peer, text)`` for what other ranks tell, in a reader thread."""
        with self._connections.lock:
            self.on_failure = on_failure
            self.on_disagreement = on_disagreement
            failures, self._failures = self._failures, deque()
        for peer, text in failures:
            on_failure(peer, text)

    def _take_arrival(self, peer: int | None, stream: int) -> Arrival | None:
        queues = self._arrived.get(stream)
        if not queues:
            return None
        if peer is None:
            peer = next(iter(queues))
        queue = queues.get(peer)
        if queue is None:
            return None
        arrival = queue.popleft()
        if not queue:
            del queues[peer]
        return arrival

    def _absence(self, peer: int | None) -> str | None:
        """Why no message can arrive from ``peer``, or from any; None if one can."""
        peers = self._connections.peers
        if peer is not None:
            return peers[peer].gone
        others = [peers[rank].gone for rank in self.ranks if rank in peers]
        return None if None in others or not others else others[0]

    def take_posted(self, peer: int, stream: int) -> Receipt | None:
        """The receipt that a message goes to, under the connections' lock."""
        receipt = _first(self._posted, (peer, stream))
        return receipt if receipt is not None else _first(self._posted_anywhere, stream)

    def withdraw(self, receipt: Receipt) -> bool:
        """Withdraw ``receipt``, so that its message goes to the next one posted; False if it is arriving already."""
        with self._connections.lock:
            for queue in [*self._posted.values(), *self._posted_anywhere.values()]:
                if receipt in queue:
                    queue.remove(receipt)
                    return True
        return False

    def keep(self, arrival: Arrival) -> None:
        """Store a message for a receive that is posted later, under the connections' lock."""
        queues = self._arrived.setdefault(arrival.header.stream, {})
        queues.setdefault(arrival.peer, deque()).append(arrival)

    def heard(self, peer: int, text: bytes) -> None:
        with self._connections.lock:
            listener = self.on_failure
            if listener is None:
                self._failures.append((peer, text))
                return
        listener(peer, text)

    def peer_gone(self, peer: int, reason: str, died: bool) -> None:
        """Note that ``peer`` has gone, under the connections' lock."""
        if died:
            self.fail_locked(reason)
            return
        for key in [key for key in self._posted if key[0] == peer]:
            _fail_all(self._posted.pop(key), reason)
        if self._absence(None) is not None:
            for queue in self._posted_anywhere.values():
                _fail_all(queue, reason)
            self._posted_anywhere.clear()


def _concerns(first_call: int, call: int) -> bool:
    """Whether a failure from ``first_call`` on, 0 for all, is one of ``call`` too."""
    return not first_call or first_call <= call < TRANSFER


def _fail_all(queue: deque[Receipt], reason: str, first_call: int = 0) -> None:
    for receipt in [receipt for receipt in queue if _concerns(first_call, receipt.call)]:
        queue.remove(receipt)
        receipt.error = reason
        receipt.finish()


def _first(queues: dict[_Key, deque[Receipt]], key: _Key) -> Receipt | None:
    queue = queues.get(key)
    if not queue:
        return None
    receipt = queue.popleft()
    if not queue:
        # Streams of single transfers are many, and never used again.
        del queues[key]
    return receipt


def note(receipt: Receipt, peer: int, header: Header) -> None:
    receipt.sequence, receipt.signature, receipt.length = header.sequence, header.signature, header.length
    receipt.peer = peer
    receipt.offer = header.kind == OFFER


def deliver(receipt: Receipt, arrival: Arrival) -> None:
    note(receipt, arrival.peer, arrival.header)
    view = receipt.view
    # A message of another length is not what was waited for; who waits finds the length, and says so.
    if view is not None and len(view) == len(arrival.body) and not receipt.offer:
        view[:] = arrival.body
    receipt.finish()
