"""The connections of this process to the other ranks of its job, and the messages that groups exchange over them."""

from __future__ import annotations

import atexit
import hashlib
import multiprocessing.util
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from .errors import DistBackendError
from .handshake import connect_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .stores import Store

EAGER_BYTES = 1 << 16
"""A message of up to 64 KiB may arrive before anybody waits for it; a longer one is sent when its receiver has said
that it waits, so what a process has to keep for later is bounded."""

# A message: kind, group, stream, sequence and signature of the call, bytes that follow.
_HEADER = struct.Struct("<B7xQqQQQ")
_DATA, _OFFER, _FAILURE, _GOODBYE = 1, 2, 3, 4
_PATIENCE = 0.05
_Key = TypeVar("_Key")


class Receipt:
    """A message that somebody waits for: :meth:`wait`, then look at what came."""

    __slots__ = ("_lock", "_view", "error", "length", "offer", "peer", "sequence", "signature")

    def __init__(self, view: memoryview | None) -> None:
        self._view = view
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
        if self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            self._lock.release()
            return True
        return False

    def finish(self) -> None:
        """Wake who waits. Called once, by who removed the receipt from where it was posted."""
        self._lock.release()


class _Arrival:
    """A message that came before anybody waited for it."""

    __slots__ = ("body", "header", "peer")

    def __init__(self, peer: int, header: tuple[int, int, int, int, int, int], body: bytearray) -> None:
        self.peer = peer
        self.header = header
        self.body = body


class _Peer:
    """One connection."""

    def __init__(self, rank: int, connection: socket.socket) -> None:
        self.rank = rank
        self.connection = connection
        self.writing = threading.Lock()
        self.gone: str | None = None
        self.said_goodbye = False


class Channel:
    """One group's messages over a mesh. Ranks are the world's. Made by :meth:`Mesh.open`."""

    def __init__(self, mesh: Mesh, name: str, identity: int, ranks: tuple[int, ...]) -> None:
        self._mesh = mesh
        self.name = name
        self.identity = identity
        self.ranks = ranks
        self.broken: str | None = None
        self.on_failure: Callable[[int, bytes], None] | None = None
        self._posted: dict[tuple[int, int], deque[Receipt]] = {}
        self._posted_anywhere: dict[int, deque[Receipt]] = {}
        self._arrived: dict[int, dict[int, deque[_Arrival]]] = {}
        self._failures: deque[tuple[int, bytes]] = deque()

    def post(self, peer: int | None, stream: int, view: memoryview | None) -> Receipt:
        """Say where the next message of ``stream`` from ``peer`` (None: from any rank) goes."""
        receipt = Receipt(view)
        with self._mesh.lock:
            arrival = self._take_arrival(peer, stream)
            if arrival is not None:
                _deliver(receipt, arrival)
                return receipt
            receipt.error = self._hopeless(peer, stream)
            if receipt.error is not None:
                receipt.finish()
            elif peer is None:
                self._posted_anywhere.setdefault(stream, deque()).append(receipt)
            else:
                receipt.peer = peer
                self._posted.setdefault((peer, stream), deque()).append(receipt)
        return receipt

    def send(
        self,
        peer: int,
        stream: int,
        body: memoryview | bytes,
        sequence: int,
        signature: int,
        deadline: float,
        offer: bool = False,
    ) -> None:
        """Send one message; back when the network has taken it."""
        if self.broken is not None:
            raise DistBackendError(self.broken)
        header = _HEADER.pack(
            _OFFER if offer else _DATA, self.identity, stream, sequence, signature, len(body)
        )
        self._mesh.send(peer, header, body, deadline, self)

    def tell_failure(self, text: bytes, seconds: float = 1.0) -> None:
        """Tell the other ranks of the group, as far as they can be reached in time, that a call of this one failed."""
        deadline = time.monotonic() + seconds
        header = _HEADER.pack(_FAILURE, self.identity, 0, 0, 0, len(text))
        for peer in self.ranks:
            if peer != self._mesh.rank:
                try:
                    self._mesh.send(peer, header, text, deadline, None)
                except DistBackendError:
                    continue

    def fail(self, reason: str) -> None:
        """All that waits and all that follows fails with ``reason``."""
        with self._mesh.lock:
            self.fail_locked(reason)

    def fail_locked(self, reason: str) -> None:
        if self.broken is None:
            self.broken = reason
        for queue in [*self._posted.values(), *self._posted_anywhere.values()]:
            for receipt in queue:
                receipt.error = reason
                receipt.finish()
        self._posted.clear()
        self._posted_anywhere.clear()

    def close(self) -> None:
        """Forget the group."""
        self.fail(f"the group {self.name!r} is closed on rank {self._mesh.rank}")
        self._mesh.forget(self)

    def listen(self, on_failure: Callable[[int, bytes], None]) -> None:
        """Call ``on_failure(peer, text)`` for what other ranks tell, in a reader thread."""
        with self._mesh.lock:
            self.on_failure = on_failure
            failures, self._failures = self._failures, deque()
        for peer, text in failures:
            on_failure(peer, text)

    def _take_arrival(self, peer: int | None, stream: int) -> _Arrival | None:
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

    def _hopeless(self, peer: int | None, stream: int) -> str | None:
        if self.broken is not None:
            return self.broken
        peers = self._mesh.peers
        if peer is not None:
            return peers[peer].gone
        others = [peers[rank].gone for rank in self.ranks if rank in peers]
        return None if None in others or not others else others[0]

    def take_posted(self, peer: int, stream: int) -> Receipt | None:
        """The receipt that a message goes to, under the mesh's lock."""
        receipt = _first(self._posted, (peer, stream))
        return receipt if receipt is not None else _first(self._posted_anywhere, stream)

    def withdraw(self, receipt: Receipt) -> None:
        """Wait for ``receipt`` no more, so that the message goes to who posts next."""
        with self._mesh.lock:
            for queue in [*self._posted.values(), *self._posted_anywhere.values()]:
                if receipt in queue:
                    queue.remove(receipt)

    def keep(self, arrival: _Arrival) -> None:
        """Keep a message for who posts later, under the mesh's lock."""
        queues = self._arrived.setdefault(arrival.header[2], {})
        queues.setdefault(arrival.peer, deque()).append(arrival)

    def heard(self, peer: int, text: bytes) -> None:
        with self._mesh.lock:
            listener = self.on_failure
            if listener is None:
                self._failures.append((peer, text))
                return
        listener(peer, text)

    def peer_gone(self, peer: int, reason: str, died: bool) -> None:
        """``peer`` sends nothing any more, under the mesh's lock."""
        if died:
            self.fail_locked(reason)
            return
        for key in [key for key in self._posted if key[0] == peer]:
            for receipt in self._posted.pop(key):
                receipt.error = reason
                receipt.finish()
        if self._hopeless(None, 0) is not None:
            for queue in self._posted_anywhere.values():
                for receipt in queue:
                    receipt.error = reason
                    receipt.finish()
            self._posted_anywhere.clear()


class Mesh:
    """Connections between the ranks ``0..size-1`` of a job, made at once and shared by all groups.

    All of them exist from the beginning, because a rank that dies is noticed by its connections ending.

    Parameters
    ----------
    store
        Where the ranks find each other; a prefix of its own for each mesh.
    timeout
        Seconds to wait for the other ranks.

    Raises
    ------
    DistStoreError
        A rank did not come; the text names it.
    DistBackendError
        A rank could not be reached.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: float = 300.0) -> None:
        if not 0 <= rank < size:
            raise ValueError(f"rank {rank} is not one of {size} ranks")
        self.rank = rank
        self.size = size
        self.lock = threading.Lock()
        self._channels: dict[int, Channel] = {}
        self._names: set[str] = set()
        self._closed = False
        self._process = os.getpid()
        connections = connect_all(store, rank, size, time.monotonic() + timeout)
        self.peers = {other: _Peer(other, connection) for other, connection in connections.items()}
        self._readers = [
            threading.Thread(
                target=self._read, args=(peer,), name=f"messages from rank {peer.rank}", daemon=True
            )
            for peer in self.peers.values()
        ]
        for reader in self._readers:
            reader.start()
        # A process that ends in good order takes its leave; one that does not has died. Children of multiprocessing
        # do not run what atexit knows.
        atexit.register(self.close)
        self._finalizer = multiprocessing.util.Finalize(self, self.close, exitpriority=0)

    def open(self, name: str, ranks: Sequence[int]) -> Channel:
        """The channel of the group ``name``, which all its ``ranks`` open."""
        identity = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
        with self.lock:
            if self._closed:
                raise DistBackendError(f"the connections of rank {self.rank} are closed")
            if name in self._names:
                raise ValueError(f"there is, or was, a group {name!r} already: give another name")
            self._names.add(name)
            channel = self._channels.get(identity)
            if channel is None:
                channel = self._channels[identity] = Channel(self, name, identity, ())
            channel.name, channel.ranks = name, tuple(ranks)
            for peer in self.peers.values():
                if peer.gone is not None and not peer.said_goodbye and peer.rank in channel.ranks:
                    channel.fail_locked(peer.gone)
        return channel

    def forget(self, channel: Channel) -> None:
        with self.lock:
            self._channels.pop(channel.identity, None)

    def send(
        self, peer: int, header: bytes, body: memoryview | bytes, deadline: float, channel: Channel | None
    ) -> None:
        """Send a header and what follows it, from any thread."""
        there = self.peers[peer]
        if not there.writing.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise DistBackendError(f"rank {peer} has taken nothing of what rank {self.rank} sends")
        try:
            self._write(there, header, body, deadline, channel)
        finally:
            there.writing.release()

    def _write(
        self, peer: _Peer, header: bytes, body: memoryview | bytes, deadline: float, channel: Channel | None
    ) -> None:
        pieces: list[memoryview] = [memoryview(header)]
        if len(body):
            pieces.append(memoryview(body))
        begun = False
        connection = peer.connection
        while pieces:
            if peer.gone is not None:
                raise DistBackendError(peer.gone)
            try:
                sent = connection.sendmsg(pieces, [], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                late = time.monotonic() >= deadline
                if late or (channel is not None and channel.broken is not None):
                    if begun:
                        # Half a message is on its way: nothing can follow it.
                        self._shut(peer)
                    if late:
                        text = f"rank {peer.rank} has not taken what rank {self.rank} sends it in time"
                        raise DistBackendError(text) from None
                    assert channel is not None
                    raise DistBackendError(channel.broken) from None
                _wait_writable(connection, deadline)
                continue
            except OSError as error:
                raise DistBackendError(self._why_gone(peer, error)) from None
            begun = True
            while sent:
                if sent >= len(pieces[0]):
                    sent -= len(pieces.pop(0))
                else:
                    pieces[0] = pieces[0][sent:]
                    sent = 0

    def _why_gone(self, peer: _Peer, error: OSError) -> str:
        # The reader learns from what arrived before the end whether the rank left or died.
        for _ in range(20):
            if peer.gone is not None:
                return peer.gone
            time.sleep(0.01)
        return f"the connection of rank {self.rank} to rank {peer.rank} has broken ({error})"

    def _shut(self, peer: _Peer) -> None:
        try:
            peer.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def close(self) -> None:
        """Take leave of the others, and end connections and threads. Idempotent."""
        self._end(goodbye=True)
        for reader in self._readers:
            if reader is not threading.current_thread():
                reader.join(5)
        for peer in self.peers.values():
            peer.connection.close()

    def abort(self) -> None:
        """End all connections at once; whoever waits fails, here and on the other ranks. Never blocks."""
        self._end(goodbye=False)

    def _end(self, goodbye: bool) -> None:
        with self.lock:
            closed, self._closed = self._closed, True
            for channel in self._channels.values():
                channel.fail_locked(f"the connections of rank {self.rank} are closed")
        atexit.unregister(self.close)
        self._finalizer.cancel()
        if closed:
            return
        if self._process != os.getpid():
            # A forked child has copies of the connections, which are not its own to end.
            return
        if goodbye:
            header = _HEADER.pack(_GOODBYE, 0, 0, 0, 0, 0)
            deadline = time.monotonic() + 1
            for peer in self.peers.values():
                try:
                    self.send(peer.rank, header, b"", deadline, None)
                except DistBackendError:
                    continue
        for peer in self.peers.values():
            self._shut(peer)

    def _read(self, peer: _Peer) -> None:
        reason = f"rank {peer.rank} has died: its connection to rank {self.rank} ended"
        try:
            self._read_messages(peer)
        except _ProtocolError as error:
            reason = f"rank {peer.rank} sent what no rank sends ({error}); the connection is closed"
        except OSError as error:
            reason += f" ({error})"
        self._shut(peer)
        with self.lock:
            if self._closed:
                reason = f"the connections of rank {self.rank} are closed"
            elif peer.said_goodbye:
                reason = f"rank {peer.rank} has left: it closed its process group or ended"
            peer.gone = reason
            channels = list(self._channels.values())
            for channel in channels:
                if peer.rank in channel.ranks:
                    channel.peer_gone(peer.rank, reason, died=not peer.said_goodbye)

    def _read_messages(self, peer: _Peer) -> None:
        connection = peer.connection
        head = bytearray(_HEADER.size)
        head_view = memoryview(head)
        while _fill(connection, head_view):
            header = _HEADER.unpack(head)
            kind, identity, stream, _, _, length = header
            if kind == _GOODBYE:
                peer.said_goodbye = True
                continue
            with self.lock:
                channel = self._channels.get(identity)
                if channel is None:
                    # Another rank has opened the group already.
                    channel = self._channels[identity] = Channel(self, "", identity, ())
                receipt = None if kind == _FAILURE else channel.take_posted(peer.rank, stream)
            if receipt is not None:
                self._receive(peer, channel, receipt, header)
                continue
            if kind not in (_DATA, _OFFER, _FAILURE):
                raise _ProtocolError(f"a message of the kind {kind}")
            if length > EAGER_BYTES:
                raise _ProtocolError(f"{length} bytes that nobody has asked for")
            body = bytearray(length)
            _fill_all(connection, memoryview(body))
            if kind == _FAILURE:
                channel.heard(peer.rank, bytes(body))
                continue
            arrival = _Arrival(peer.rank, header, body)
            with self.lock:
                # Somebody may have begun to wait while the rest of the message came.
                receipt = channel.take_posted(peer.rank, stream)
                if receipt is None:
                    channel.keep(arrival)
            if receipt is not None:
                _deliver(receipt, arrival)

    def _receive(
        self, peer: _Peer, channel: Channel, receipt: Receipt, header: tuple[int, int, int, int, int, int]
    ) -> None:
        length = header[5]
        view = receipt._view
        try:
            if view is not None and len(view) == length:
                _note(receipt, peer.rank, header)
                _fill_all(peer.connection, view)
            elif length <= EAGER_BYTES:
                body = bytearray(length)
                _fill_all(peer.connection, memoryview(body))
                _deliver(receipt, _Arrival(peer.rank, header, body))
                return
            else:
                raise _ProtocolError(
                    f"{length} bytes where {0 if view is None else len(view)} were asked for"
                )
        except OSError:
            receipt.error = f"rank {peer.rank} has died: its connection ended in the middle of a message"
            receipt.finish()
            raise
        except _ProtocolError as error:
            receipt.error = f"rank {peer.rank} sent {error}"
            receipt.finish()
            raise
        receipt.finish()


def _first(queues: dict[_Key, deque[Receipt]], key: _Key) -> Receipt | None:
    queue = queues.get(key)
    return queue.popleft() if queue else None


class _ProtocolError(Exception):
    """What a peer sent makes no sense."""


def _note(receipt: Receipt, peer: int, header: tuple[int, int, int, int, int, int]) -> None:
    kind, _, _, receipt.sequence, receipt.signature, receipt.length = header
    receipt.peer = peer
    receipt.offer = kind == _OFFER


def _deliver(receipt: Receipt, arrival: _Arrival) -> None:
    _note(receipt, arrival.peer, arrival.header)
    view = receipt._view
    # A message of another length is not what was waited for; who waits finds the length, and says so.
    if view is not None and len(view) == len(arrival.body) and not receipt.offer:
        view[:] = arrival.body
    receipt.finish()


def _fill(connection: socket.socket, view: memoryview) -> bool:
    """Fill ``view`` from the connection; False when it ended before the first byte."""
    filled = 0
    while filled < len(view):
        count = connection.recv_into(view[filled:], 0, socket.MSG_WAITALL)
        if count == 0:
            if filled == 0:
                return False
            raise OSError("it ended in the middle of a message")
        filled += count
    return True


def _fill_all(connection: socket.socket, view: memoryview) -> None:
    if len(view) and not _fill(connection, view):
        raise OSError("it ended in the middle of a message")


def _wait_writable(connection: socket.socket, deadline: float) -> None:
    # In short steps: a group that fails, or a connection that is shut, ends the wait.
    poll = select.poll()
    poll.register(connection, select.POLLOUT)
    poll.poll(1000 * max(0.001, min(_PATIENCE, deadline - time.monotonic())))
