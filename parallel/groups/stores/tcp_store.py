"""A store that one process serves over TCP."""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING

from parallel.groups.errors import DistNetworkError, DistStoreError
from parallel.groups.job_secret import job_secret
from parallel.groups.waiting import seconds_until

from .introduction import HELLO_BYTES, VERDICT_BYTES, Introduction, SecretError
from .server import ANSWERED, REFUSED, Server
from .store import DEFAULT_TIMEOUT, Store, checked_timeout, timeout_error
from .table import MAXIMUM_BYTES, MAXIMUM_FIELDS, Request, unpack_fields

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

_LENGTH = struct.Struct("<I")
_HEAD = struct.Struct("<Id")
# The server keeps the time of requests that wait. One that has not answered this much later has gone.
_GRACE = 5.0
# Every process counts itself here, as PyTorch's does; so the store has one key more than its users have set.
_WORKERS = "init/"


class TCPStore(Store):
    """A store that one process serves over TCP to all of a job. See :class:`parallel.Store` for the operations.

    The process with ``is_master=True`` serves it at ``host_name:port`` for as long as its object lives; the others
    connect. Where the environment variable GRAPHROOT_JOB_SECRET is set, as it is in processes that
    ``graphroot launch`` and :func:`parallel.spawn` start, only processes with the same value can meet there.
    Without it, whoever reaches the port can read and change every key, and so decide what the job's ranks connect to
    and unpickle: serve it in a network that you trust (docs/distributed.md).

    >>> store = parallel.TCPStore("10.0.0.1", 29500, world_size=2, is_master=True)  # on rank 0  # doctest: +SKIP
    >>> store = parallel.TCPStore("10.0.0.1", 29500, world_size=2)  # on rank 1  # doctest: +SKIP
    >>> store.set("key", "value")  # on either  # doctest: +SKIP
    >>> store.get("key")  # doctest: +SKIP
    b'value'

    Parameters
    ----------
    host_name : str
        Name or address of the machine that serves. For ``localhost`` and loopback addresses the server listens there
        only, and else on all interfaces.
    port : int
        Where the server listens. A master with port 0 takes a free one, which :attr:`port` says.
    world_size : int, optional
        How many processes use the store, the master included; None leaves that open.
    is_master : bool
        Whether this process serves the store.
    timeout : timedelta
        How long to wait for the server now, and for keys later; 300 seconds by default.
    wait_for_workers : bool
        Whether the master's constructor waits until ``world_size`` processes have connected.
    multi_tenant : bool
        Whether several masters in one process share one server at a port.
    master_listen_fd : int, optional
        Descriptor of a listening socket for the server to take over.
    use_libuv : bool
        Accepted for compatibility: there is one server, which needs no libuv.

    Raises
    ------
    TypeError
        If ``timeout`` is not a timedelta.
    ValueError
        If ``timeout`` is negative, or ``port`` is not from 0 to 65535, or 0 without ``is_master``; if
        GRAPHROOT_JOB_SECRET is set and empty.
    DistNetworkError
        If the port is taken, the host has no address, or no server answers within ``timeout``; if server and client
        do not have the same job secret.
    DistStoreError
        If not all workers connect within ``timeout``.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self._timeout = checked_timeout(timeout)
        job_secret()
        if not 0 <= port < 1 << 16:
            raise ValueError(f"a port is a number from 0 to 65535, not {port}")
        if world_size is not None and world_size < 1:
            world_size = None
        if port == 0 and not is_master:
            raise ValueError(
                "port 0 is for the master, which takes a free one; others connect to a known port"
            )
        self.host = host_name
        self._world_size = world_size
        self._server: Server | None = None
        #: Who serves it, for messages.
        self.served_by = "the process that serves it"
        self._connections = _Connections(host_name, port)
        try:
            if is_master:
                self._server = Server.at(host_name, port, shared=multi_tenant, descriptor=master_listen_fd)
                self._connections.port = self._server.port
            deadline = time.monotonic() + timeout.total_seconds()
            self._connections.first(deadline)
            if world_size is not None:
                self._count_workers(world_size, is_master and wait_for_workers)
        except BaseException:
            self.close()
            raise

    @property
    def port(self) -> int:
        """The port at which the store is served: the one that was found, if the master was given port 0."""
        return self._connections.port

    @property
    def is_master(self) -> bool:
        """Whether this object serves the store; False after :meth:`close`."""
        return self._server is not None

    @property
    def world_size(self) -> int | None:
        """How many processes use the store, the master included; None if that was left open."""
        return self._world_size

    @property
    def libuvBackend(self) -> bool:  # noqa: N802
        """False: PyTorch's event loop is not here."""
        return False

    def clone(self) -> Store:
        """Another client of the same server, with the same timeout.

        Raises
        ------
        DistNetworkError
            If the server does not answer within the timeout.
        """
        twin = TCPStore(self.host, self.port, timeout=self._timeout)
        twin._world_size = self._world_size
        return twin

    def local_address(self) -> str | None:
        """The IP address, as text, of this machine on the network that reaches the server.

        Raises
        ------
        DistNetworkError
            If the server cannot be reached.
        DistStoreError
            If the store is closed.
        """
        return self._connections.local_address(time.monotonic() + self._timeout.total_seconds())

    def close(self) -> None:
        """Close the connections, and end the server in the process that serves it. Idempotent.

        Operations of this object raise DistStoreError from then on; those of clients of the server that is gone raise
        DistNetworkError.
        """
        self._connections.close()
        server, self._server = self._server, None
        if server is not None:
            server.release()

    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the interpreter's end the system closes what is open, and modules may be empty already.
        if hasattr(self, "_connections") and not _is_finalizing():
            self.close()

    def __repr__(self) -> str:
        return f"TCPStore({self.host!r}, {self.port})"

    def _count_workers(self, world_size: int, wait: bool) -> None:
        ready = "init/ready"
        # The counter is one key, as PyTorch's; that all are there is told through a queue, which is none.
        if self.add(_WORKERS, 1) == world_size:
            self.queue_push(ready, "1")
        if not wait:
            return
        try:
            self.queue_pop(ready)
        except DistStoreError:
            raise DistStoreError(
                f"{self!r}: {self.add(_WORKERS, 0)} of {world_size} processes have connected within "
                f"{self._timeout.total_seconds():g} s; start the others, or give the world size that there is"
            ) from None

    def _call(self, request: Request, timeout: float) -> tuple[bytes, ...]:
        body = request.pack()
        if len(body) > MAXIMUM_BYTES:
            raise DistStoreError(f"a request of {len(body)} bytes; a store takes {MAXIMUM_BYTES} at most")
        count = len(request.keys) + len(request.values)
        if count > MAXIMUM_FIELDS:
            raise DistStoreError(
                f"a request with {count} keys and values; a store takes {MAXIMUM_FIELDS} at most"
            )
        begun = time.monotonic()
        connection = self._connections.acquire(begun + timeout + _GRACE)
        try:
            data = _HEAD.pack(len(body), timeout) + body
            status, fields = _exchange(connection, data, begun + timeout + _GRACE)
        except BaseException as error:
            # What the server still sends would be taken for the next answer.
            connection.close()
            if isinstance(error, TimeoutError):
                message = f"the server of {self!r} has not answered for {timeout + _GRACE:g} s: {self.served_by} hangs or is gone"
                raise DistNetworkError(message) from None
            if isinstance(error, OSError):
                message = f"the server of {self!r} has gone ({error}): {self.served_by} ended or closed it"
                raise DistNetworkError(message) from None
            raise
        self._connections.release(connection)
        if status == ANSWERED:
            return fields
        if status == REFUSED:
            raise ValueError(b" ".join(fields).decode(errors="replace"))
        late = timeout_error(self, fields, timeout)
        refused = self._server.refused if self._server is not None else ""
        raise DistStoreError(f"{late}; {refused}") if refused else late


def leave(store: TCPStore) -> socket.socket | None:
    """Close a store but for one connection, on which it is seen when the server ends; None in the process that serves it."""
    connection = None if store.is_master else store._connections.take_idle()
    store.close()
    return connection


class _Connections:
    """A client's connections: one for each thread that waits for an answer at the same time."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._idle: list[socket.socket] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._closed = False

    def first(self, deadline: float) -> None:
        """Wait until the server is there."""
        self.release(self._connect(deadline, patient=True))

    def acquire(self, deadline: float) -> socket.socket:
        with self._lock:
            if self._closed:
                raise DistStoreError(f"the store at {self.host}:{self.port} is closed")
            if self._process != os.getpid():
                # The connections of a process that forked are not its child's.
                self._idle.clear()
                self._process = os.getpid()
            if self._idle:
                return self._idle.pop()
        return self._connect(deadline, patient=False)

    def release(self, connection: socket.socket) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def local_address(self, deadline: float) -> str:
        connection = self.acquire(deadline)
        try:
            return str(connection.getsockname()[0])
        finally:
            self.release(connection)

    def take_idle(self) -> socket.socket | None:
        with self._lock:
            return self._idle.pop() if self._idle and self._process == os.getpid() else None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connect(self, deadline: float, patient: bool) -> socket.socket:
        pause = 0.01
        while True:
            try:
                connection = self._open(deadline)
            except OSError as error:
                left = deadline - time.monotonic()
                # A name that does not resolve is a mistake as often as a network that is not up yet.
                if left <= 0 or not patient:
                    raise DistNetworkError(
                        f"no store answers at {self.host}:{self.port} ({error}): is the process that serves it "
                        f"(is_master=True, rank 0) running, and can it be reached there?"
                    ) from None
                time.sleep(min(pause, left))
                pause = min(2 * pause, 0.5)
                continue
            return connection

    def _open(self, deadline: float) -> socket.socket:
        """A connection whose other side has the same secret, where one is required."""
        connection = socket.create_connection((self.host, self.port), timeout=seconds_until(deadline, 0.1))
        try:
            if connection.getsockname() == connection.getpeername():
                raise ConnectionRefusedError("on loopback a client that finds nobody can meet itself")
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            whom = f"the store at {self.host}:{self.port}"
            introduction = Introduction(job_secret())
            connection.sendall(introduction.hello())
            introduction.take_hello(_receive(connection, HELLO_BYTES, deadline), whom)
            if introduction.proof_required:
                connection.sendall(introduction.client_proof())
                introduction.check_verdict(_receive(connection, VERDICT_BYTES, deadline), whom)
        except BaseException as error:
            connection.close()
            if isinstance(error, SecretError):
                raise DistNetworkError(str(error)) from None
            if isinstance(error, ValueError):
                raise DistNetworkError(
                    f"{self.host}:{self.port} answers with {error}: another service has the port"
                ) from None
            raise
        return connection


def _exchange(connection: socket.socket, data: bytes, deadline: float) -> tuple[int, tuple[bytes, ...]]:
    """The status and the fields of the answer to a request."""
    connection.settimeout(seconds_until(deadline, 0.001))
    connection.sendall(data)
    (length,) = _LENGTH.unpack(_receive(connection, _LENGTH.size, deadline))
    # Each of the fields has its length before it.
    if not 1 <= length <= 2 * MAXIMUM_BYTES:
        raise OSError(f"it sent an answer of {length} bytes, which no store sends")
    answer = _receive(connection, length, deadline)
    try:
        return answer[0], unpack_fields(answer[1:])
    except ValueError as error:
        raise OSError(f"it sent {error}, which no store sends") from None


def _receive(connection: socket.socket, length: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < length:
        connection.settimeout(seconds_until(deadline, 0.001))
        try:
            piece = connection.recv(min(1 << 20, length - len(data)))
        except TimeoutError:
            if time.monotonic() < deadline:
                continue
            raise
        if not piece:
            raise OSError("it closed the connection")
        data += piece
    return bytes(data)
