"""The server of a :class:`parallel.TCPStore`: one thread that answers all clients."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import selectors
import socket
import struct
import threading
import time
import warnings
import weakref
from dataclasses import dataclass, field
from typing import Any, Final

from parallel.groups.errors import DistNetworkError
from parallel.groups.job_secret import PROOF_BYTES, job_secret, wrong_secret
from parallel.groups.waiting import seconds_until

from .introduction import HELLO_BYTES, Introduction, SecretError
from .table import MAXIMUM_BYTES, WRITES, Request, Table, pack_fields, unpack_request

# The first byte of an answer: it is there, the request made no sense, keys did not come in time.
ANSWERED: Final = 0
REFUSED: Final = 1
LATE: Final = 2

_HEAD = struct.Struct("<Id")
_LENGTH = struct.Struct("<I")

# No descriptor or memory is left for another connection.
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
# So long newcomers wait in the backlog then, in seconds.
_PAUSE = 0.1
# And so long a client may take to say who it is.
_INTRODUCTION = 30.0


@dataclass(eq=False, slots=True)
class _Client:
    connection: socket.socket
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    waiting: tuple[Request, float] | None = None
    introduction: Introduction | None = None
    introduced_by: float = 0.0


class Server:
    """Listens on a port and serves one table. Made by :meth:`at`; ends with the last :meth:`release`.

    A client that does not know the job's secret, where there is one, is turned away before it can ask for anything.
    Whatever a client sends ends its own connection at worst. A client asks for one thing at a time, so what the server
    keeps for it is bounded by one request and one answer.
    """

    _shared: dict[tuple[str, int], Server] = {}  # noqa: RUF012 (servers of this process that masters share)
    # Reentrant, as the collector may close a store that nobody has closed at any moment.
    _shared_lock = threading.RLock()

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._table = Table()
        self._clients: set[_Client] = set()
        self._users = 1
        #: Where other masters of this process find it, if they may share it.
        self._address: tuple[str, int] | None = None
        self._accept_at: float | None = None
        #: Why the last client without the job's secret was turned away.
        self.refused = ""
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()
        for one in (self._listener, self._woken):
            one.setblocking(False)
            self._selector.register(one, selectors.EVENT_READ)
        _servers.add(self)
        self.port: int = listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name=f"TCPStore server {self.port}", daemon=True)
        self._thread.start()

    @classmethod
    def at(cls, host: str, port: int, *, shared: bool, descriptor: int | None) -> Server:
        """A server at ``host:port``; with ``shared`` the one that this process has there already."""
        if descriptor is not None:
            listener = socket.socket(fileno=descriptor)
            if port not in (0, listener.getsockname()[1]):
                taken = listener.getsockname()[1]
                raise DistNetworkError(
                    f"master_listen_fd {descriptor} listens on port {taken}, not on {port}"
                )
            return cls(listener)
        if not shared:
            return cls(_listen(host, port))
        with cls._shared_lock:
            server = cls._shared.get((host, port))
            if server is None:
                server = cls(_listen(host, port))
                server._address = host, server.port
                cls._shared[server._address] = server
            else:
                server._users += 1
            return server

    def release(self) -> None:
        """One user less; after the last the thread ends and all connections close."""
        with self._shared_lock:
            self._users -= 1
            if self._users:
                return
            if self._address is not None:
                del self._shared[self._address]
        # Closing would not do: a forked child has the socket too.
        with contextlib.suppress(OSError):
            self._wake.shutdown(socket.SHUT_RDWR)
        self._wake.close()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def close_in_child(self) -> None:
        """Close what a forked child has inherited, so that the port is free when the server has ended."""
        self._listener.close()
        for client in self._clients:
            client.connection.close()

    def _serve(self) -> None:
        try:
            while True:
                for key, events in self._selector.select(self._patience()):
                    if key.fileobj is self._woken:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.data in self._clients:
                        self._attend(key.data, events)
                self._expire()
                self._accept_again()
        finally:
            for client in list(self._clients):
                self._drop(client)
            self._selector.close()
            self._listener.close()
            self._woken.close()

    def _patience(self) -> float | None:
        deadlines = [client.waiting[1] for client in self._clients if client.waiting]
        deadlines += [client.introduced_by for client in self._clients if client.introduction]
        if self._accept_at is not None:
            deadlines.append(self._accept_at)
        return seconds_until(min(deadlines)) if deadlines else None

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                # Who is in the backlog would make the selector return at once, again and again.
                self._selector.unregister(self._listener)
                self._accept_at = time.monotonic() + _PAUSE
            return
        client = _Client(connection)
        self._clients.add(client)
        client.introduced_by = time.monotonic() + _INTRODUCTION
        try:
            # Of now: a server may be older than the processes that this one spawned.
            client.introduction = Introduction(job_secret())
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(connection, selectors.EVENT_READ, client)
        except Exception:
            self._drop(client)

    def _accept_again(self) -> None:
        if self._accept_at is not None and self._accept_at <= time.monotonic():
            self._accept_at = None
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _drop(self, client: _Client) -> None:
        self._clients.discard(client)
        client.waiting = None
        # It may have been closed, or never registered.
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(client.connection)
        client.connection.close()

    def _attend(self, client: _Client, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(client)
            if events & selectors.EVENT_READ:
                data = client.connection.recv(1 << 18)
                if not data:
                    self._drop(client)
                    return
                client.received += data
                if client.introduction is not None:
                    self._introduce(client, client.introduction)
                else:
                    self._take_request(client)
        except BlockingIOError:
            pass
        except SecretError as error:
            self._refuse(client, str(error))
        except Exception:
            # A stranger, or a client that died: nothing it sends can be answered. The others never hear of it.
            self._drop(client)

    def _introduce(self, client: _Client, introduction: Introduction) -> None:
        expected = PROOF_BYTES if introduction.proof_required else HELLO_BYTES
        if len(client.received) > expected:
            raise ValueError("a request before the introduction is over")
        if len(client.received) < expected:
            return
        data, client.received = bytes(client.received), bytearray()
        if introduction.proof_required:
            verdict = introduction.verdict(data)
            client.unsent += verdict
            self._flush(client)
            if verdict[0] != 1:
                raise SecretError(wrong_secret("it"))
            client.introduction = None
            return
        # Also where the two cannot meet: the client finds the same.
        client.unsent += introduction.hello()
        self._flush(client)
        introduction.take_hello(data, "it")
        if not introduction.proof_required:
            client.introduction = None

    def _refuse(self, client: _Client, reason: str) -> None:
        """Turn away who does not know the secret; the first is told to whoever looks at this process."""
        with contextlib.suppress(OSError):
            host, port = client.connection.getpeername()[:2]
            reason = f"{host}:{port} was turned away: {reason}"
        self._drop(client)
        first, self.refused = not self.refused, reason
        if first:
            with contextlib.suppress(Exception):
                warnings.warn(f"the TCPStore at port {self.port}: {reason}", RuntimeWarning, stacklevel=1)

    def _take_request(self, client: _Client) -> None:
        if client.waiting or client.unsent:
            raise ValueError("a request before the last one was answered")
        if len(client.received) < _HEAD.size:
            return
        length, timeout = _HEAD.unpack_from(client.received)
        if length > MAXIMUM_BYTES or not timeout >= 0:
            raise ValueError("no request of a store")
        end = _HEAD.size + length
        if len(client.received) < end:
            return
        if len(client.received) > end:
            raise ValueError("a request before the last one was answered")
        body, client.received = bytes(client.received[_HEAD.size :]), bytearray()
        request = unpack_request(body)
        if self._table.has_all(request):
            self._answer(client, request)
        else:
            client.waiting = (request, time.monotonic() + timeout)

    def _answer(self, client: _Client, request: Request) -> None:
        client.waiting = None
        try:
            status, fields = ANSWERED, self._table.answer(request)
            size = sum(map(len, fields))
            if size > MAXIMUM_BYTES:
                raise ValueError(f"an answer of {size} bytes; a store gives {MAXIMUM_BYTES} at most")
        except ValueError as error:
            status, fields = REFUSED, (str(error).encode(),)
        except Exception:
            self._drop(client)
            return
        self._send(client, status, fields)
        if status == ANSWERED and request.operation in WRITES:
            for other in list(self._clients):
                if other.waiting and self._table.has_all(other.waiting[0]):
                    self._answer(other, other.waiting[0])

    def _expire(self) -> None:
        now = time.monotonic()
        for client in list(self._clients):
            if client.introduction and client.introduced_by <= now:
                self._drop(client)
            elif client.waiting and client.waiting[1] <= now:
                missing = self._table.missing(client.waiting[0])
                client.waiting = None
                self._send(client, LATE, missing)

    def _send(self, client: _Client, status: int, fields: tuple[bytes, ...]) -> None:
        try:
            body = pack_fields(fields)
            client.unsent += _LENGTH.pack(len(body) + 1) + bytes([status]) + body
            self._flush(client)
        except Exception:
            self._drop(client)

    def _flush(self, client: _Client) -> None:
        try:
            while client.unsent:
                del client.unsent[: client.connection.send(client.unsent)]
        except BlockingIOError:
            pass
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
        if self._selector.get_key(client.connection).events != events:
            self._selector.modify(client.connection, events, client)


_servers: weakref.WeakSet[Server] = weakref.WeakSet()


def _close_in_child() -> None:
    for server in list(_servers):
        server.close_in_child()


os.register_at_fork(after_in_child=_close_in_child)


def _listen(host: str, port: int) -> socket.socket:
    try:
        candidates = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise DistNetworkError(f"the host {host!r} of a store has no address ({error})") from None
    try:
        # The name of a machine is often its own loopback address there, and another one for others.
        if host == "localhost" or _is_loopback(host):
            return _listen_on_loopback(candidates)
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
        return socket.create_server(("", port), backlog=1024)
    except OSError as error:
        raise DistNetworkError(
            f"cannot serve a store at {host}:{port} ({error}): is another process the master of this port? Only rank 0 "
            f"is, and port 0 takes a free one"
        ) from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _listen_on_loopback(candidates: list[tuple[Any, ...]]) -> socket.socket:
    for index, (family, _, _, _, address) in enumerate(candidates):
        try:
            # On the first family that the machine has; create_server() lets a port be taken again that was closed a
            # moment ago, and never by two processes.
            return socket.create_server(address[:2], family=family, backlog=1024)
        except OSError as error:
            if error.errno == errno.EADDRINUSE or index == len(candidates) - 1:
                raise
    raise OSError("no address")
