"""The connections of this process to the other ranks of its job, shared by all groups."""

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
import weakref
from typing import TYPE_CHECKING

from parallel.groups.errors import DistBackendError

from .channels import (
    DATA,
    FAILURE,
    GOODBYE,
    NETWORK,
    OFFER,
    TRANSFER,
    Arrival,
    Channel,
    Header,
    deliver,
    note,
)
from .handshake import connect_all, machine, with_first_failure
from .shared_slots import PIECE_BYTES, SHARED_BYTES, SharedMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from parallel.groups.stores.store import Store

    from .channels import Receipt
    from .shared_slots import Inbox, Outbox

EAGER_BYTES = 1 << 16
"""A message of up to 64 KiB may arrive before anybody waits for it; a longer one is sent when its receiver has said
that it waits, so what a process has to keep for later is bounded."""

_HEADER = struct.Struct("<B7xQqQQQB7x")
# A blocked sender looks this often whether what it sends may still be sent, in seconds.
_PATIENCE = 0.05


class _Peer:
    """One connection, and the memory shared with a rank of the same machine."""

    def __init__(
        self, rank: int, connection: socket.socket, outbox: Outbox | None, inbox: Inbox | None
    ) -> None:
        self.rank = rank
        self.connection = connection
        self.outbox = outbox
        self.inbox = inbox
        self.writing = threading.Lock()
        # The message of which the content is coming now.
        self.receiving: tuple[Channel, Receipt] | None = None
        # Why nothing comes from it any more; and what it said when it left.
        self.gone: str | None = None
        self.goodbye: str | None = None
        self.broken: str | None = None

    def release(self) -> None:
        """Close the connection, and let go of the memory."""
        self.connection.close()
        self.outbox = self.inbox = None


class PeerConnections:
    """Connections between the ranks ``0..size-1`` of a job, established at once and shared by all groups.

    All of them exist from the beginning, because a rank that dies is noticed by its connections ending.

    Parameters
    ----------
    store
        Where the ranks find each other; with a prefix of its own for each object.
    timeout
        Seconds to wait for the other ranks.
    share_memory
        Whether long messages between ranks of one machine go through memory that they share.

    Raises
    ------
    DistStoreError
        A rank did not come; the text names it.
    DistBackendError
        A rank could not be reached.
    """

    def __init__(
        self, store: Store, rank: int, size: int, timeout: float = 300.0, share_memory: bool = True
    ) -> None:
        if not 0 <= rank < size:
            raise ValueError(f"rank {rank} is not one of {size} ranks")
        self.rank = rank
        self.size = size
        self.lock = threading.Lock()
        self._channels: dict[int, Channel] = {}
        self._names: set[str] = set()
        self._forgotten: set[int] = set()
        self._closed = False
        self._process = os.getpid()
        deadline = time.monotonic() + timeout
        connections: dict[int, socket.socket] = {}
        try:
            connections = connect_all(store, rank, size, deadline)
            shared = SharedMemory(connections, rank, size, machine() if share_memory else b"", deadline)
        except BaseException as error:
            # First, so that others who fail because this rank does can say why.
            if isinstance(error, DistBackendError):
                error = with_first_failure(store, rank, error)
            for connection in connections.values():
                connection.close()
            raise error from None
        self.peers = {}
        for other, connection in connections.items():
            connection.settimeout(None)
            self.peers[other] = _Peer(
                other, connection, shared.outboxes.get(other), shared.inboxes.get(other)
            )
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
        _instances.add(self)
        atexit.register(self.close)
        self._finalizer = multiprocessing.util.Finalize(self, self.close, exitpriority=0)

    def open(self, name: str, ranks: Sequence[int]) -> Channel:
        """The channel of the group ``name``, which all its ``ranks`` open."""
        identity = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
        with self.lock:
            if self._closed:
                raise DistBackendError(f"the connections of rank {self.rank} are closed")
            if identity in self._forgotten or name in self._names:
                raise ValueError(f"there is, or was, a group {name!r} already: give another name")
            self._names.add(name)
            channel = self._channels.get(identity)
            if channel is None:
                channel = self._channels[identity] = Channel(self, name, identity, ())
            channel.name, channel.ranks = name, tuple(ranks)
            for peer in self.peers.values():
                if peer.gone is not None and peer.goodbye is None and peer.rank in channel.ranks:
                    channel.fail_locked(peer.gone)
        return channel

    def forget(self, channel: Channel) -> None:
        with self.lock:
            self._channels.pop(channel.identity, None)
            self._forgotten.add(channel.identity)

    def send(
        self,
        peer: int,
        header: Header,
        body: memoryview | bytes,
        deadline: float,
        failure: Callable[[], str | None] | None,
    ) -> None:
        """Send a message from any thread; ``failure()`` returns why it must not be sent any more, or None."""
        there = self.peers[peer]
        while not there.writing.acquire(timeout=_PATIENCE):
            self._check_wanted(there, deadline, failure)
        pieces: list[memoryview] = []
        whole = 0
        outbox = there.outbox
        try:
            if outbox is not None and SHARED_BYTES <= len(body) <= PIECE_BYTES:
                slot = outbox.fill(body, lambda: self._check_wanted(there, deadline, failure))
                header = header._replace(slot=slot)
            pieces.append(memoryview(_HEADER.pack(*header)))
            if len(body) and header.slot == NETWORK:
                pieces.append(memoryview(body))
            whole = sum(map(len, pieces))
            self._write(there, pieces, deadline, failure)
        except BaseException:
            unsent = sum(map(len, pieces))
            if outbox is not None and header.slot != NETWORK and unsent == whole:
                outbox.take_back(header.slot)
            # Nothing can follow half a message.
            if unsent not in (0, whole):
                there.broken = f"rank {self.rank} could not send rank {peer} the whole of a message"
                _shut(there)
            raise
        finally:
            there.writing.release()

    def _check_wanted(self, peer: _Peer, deadline: float, failure: Callable[[], str | None] | None) -> None:
        reason = peer.gone or (failure() if failure is not None else None)
        if reason is None and time.monotonic() >= deadline:
            reason = f"rank {peer.rank} has not taken what rank {self.rank} sends it in time"
        if reason is not None:
            raise DistBackendError(reason) from None

    def _write(
        self,
        peer: _Peer,
        pieces: list[memoryview],
        deadline: float,
        failure: Callable[[], str | None] | None,
    ) -> None:
        """Send ``pieces``, and leave in it what has not been sent."""
        connection = peer.connection
        while pieces:
            if peer.gone is not None:
                raise DistBackendError(peer.gone)
            try:
                sent = connection.sendmsg(pieces, [], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self._check_wanted(peer, deadline, failure)
                _wait_writable(connection, deadline)
                continue
            except OSError as error:
                raise DistBackendError(self._why_gone(peer, error)) from None
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

    def close(self) -> None:
        """Take leave of the others, and end connections and threads. Idempotent."""
        self._end(goodbye=True)
        for reader in self._readers:
            if reader is not threading.current_thread():
                reader.join(5)
        for peer in self.peers.values():
            peer.release()

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
            # Whoever waits for this rank hears why it goes, if it goes because another has died.
            died = [
                peer.gone for peer in self.peers.values() if peer.gone is not None and peer.goodbye is None
            ]
            text = "; ".join(died[:4]).encode()[:EAGER_BYTES]
            deadline = time.monotonic() + 1
            for peer in self.peers.values():
                try:
                    self.send(peer.rank, Header(GOODBYE, 0, 0, 0, 0, len(text)), text, deadline, None)
                except DistBackendError:
                    continue
        for peer in self.peers.values():
            _shut(peer)

    def _read(self, peer: _Peer) -> None:
        reason = f"rank {peer.rank} has died: its connection to rank {self.rank} ended"
        try:
            self._read_messages(peer)
        except _ProtocolError as error:
            reason = f"rank {peer.rank} sent what no rank sends ({error}); the connection is closed"
        except OSError as error:
            reason += f" ({error})"
        except Exception as error:
            # A thread that ends without a word would leave others waiting.
            reason = f"rank {peer.rank} sent what rank {self.rank} cannot read ({error!r}); the connection is closed"
        peer.receiving = None
        _shut(peer)
        with self.lock:
            if self._closed:
                reason = f"the connections of rank {self.rank} are closed"
            elif peer.broken is not None:
                reason = peer.broken
            elif peer.goodbye is not None:
                because = f", after {peer.goodbye}" if peer.goodbye else ""
                reason = f"rank {peer.rank} has left: it closed its process group or ended{because}"
            peer.gone = reason
            for channel in list(self._channels.values()):
                if peer.rank in channel.ranks:
                    channel.peer_gone(peer.rank, reason, died=peer.goodbye is None)

    def _read_messages(self, peer: _Peer) -> None:
        connection = peer.connection
        head = bytearray(_HEADER.size)
        head_view = memoryview(head)
        while _fill(connection, head_view):
            header = Header(*_HEADER.unpack(head))
            if header.kind not in (DATA, OFFER, FAILURE, GOODBYE):
                raise _ProtocolError(f"a message of the kind {header.kind}")
            if header.kind == GOODBYE:
                peer.goodbye = self._body(peer, header).decode()
                continue
            with self.lock:
                channel = self._channel(header.group)
                if header.kind == FAILURE:
                    receipt, agrees = None, True
                else:
                    receipt = channel.take_posted(peer.rank, header.stream)
                    peer.receiving = None if receipt is None else (channel, receipt)
                    agrees = header.kind == OFFER or channel.agrees(header.sequence, header.signature)
                complain = channel.on_disagreement
                call = header.sequence if header.kind == DATA and header.sequence else TRANSFER
                unwanted = header.group in self._forgotten or channel.failure_of(call)
            if not agrees and complain is not None:
                complain(header.sequence)
            if receipt is not None:
                self._receive(peer, receipt, header)
                continue
            if unwanted and header.kind != FAILURE:
                # It was asked for before the call failed.
                self._discard(peer, header)
                continue
            body = self._body(peer, header)
            if header.kind == FAILURE:
                channel.heard(peer.rank, bytes(body))
                continue
            arrival = Arrival(peer.rank, header, body)
            with self.lock:
                # Somebody may have begun to wait while the rest of the message came.
                receipt = channel.take_posted(peer.rank, header.stream)
                if receipt is None and header.group not in self._forgotten:
                    channel.keep(arrival)
            if receipt is not None:
                deliver(receipt, arrival)

    def _channel(self, group: int) -> Channel:
        channel = self._channels.get(group)
        if channel is None:
            channel = Channel(self, "", group, ())
            if group not in self._forgotten:
                # Another rank has opened the group already.
                self._channels[group] = channel
        return channel

    def _body(self, peer: _Peer, header: Header) -> bytearray:
        """The bytes behind ``header``, for which no receive has been posted."""
        if header.length > EAGER_BYTES:
            raise _ProtocolError(f"{header.length} bytes that nobody has asked for")
        body = bytearray(header.length)
        self._fill(peer, header, memoryview(body))
        return body

    def _discard(self, peer: _Peer, header: Header) -> None:
        left = header.length
        scratch = memoryview(bytearray(min(left, PIECE_BYTES)))
        while left:
            piece = scratch[: min(left, PIECE_BYTES)]
            self._fill(peer, header, piece)
            left -= len(piece)

    def _fill(self, peer: _Peer, header: Header, view: memoryview) -> None:
        if header.slot == NETWORK:
            _fill_all(peer.connection, view)
            return
        try:
            inbox = peer.inbox
            if inbox is None:
                raise ValueError("memory that is not shared")
            inbox.empty(header.slot, view)
        except ValueError as error:
            raise _ProtocolError(str(error)) from None

    def _receive(self, peer: _Peer, receipt: Receipt, header: Header) -> None:
        view = receipt.view
        try:
            if view is not None and len(view) == header.length:
                note(receipt, peer.rank, header)
                self._fill(peer, header, view)
            else:
                body = self._body(peer, header)
                peer.receiving = None
                deliver(receipt, Arrival(peer.rank, header, body))
                return
        except (OSError, _ProtocolError) as error:
            receipt.error = f"rank {peer.rank} has died in the middle of a message ({error})"
            receipt.finish()
            raise
        # What has come whole stays so, whatever happens to its sender.
        peer.receiving = None
        receipt.finish()


class _ProtocolError(Exception):
    """What a peer sent makes no sense."""


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


def _shut(peer: _Peer) -> None:
    try:
        peer.connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _wait_writable(connection: socket.socket, deadline: float) -> None:
    # In short steps: a group that fails, or a connection that is shut, ends the wait.
    poll = select.poll()
    poll.register(connection, select.POLLOUT)
    poll.poll(1000 * max(0.001, min(_PATIENCE, deadline - time.monotonic())))


# A child that a rank forks (a loader of data) must not keep the connections of a rank that dies open.
_instances: weakref.WeakSet[PeerConnections] = weakref.WeakSet()


def _close_in_child() -> None:
    for connections in list(_instances):
        for peer in connections.peers.values():
            peer.release()


os.register_at_fork(after_in_child=_close_in_child)
