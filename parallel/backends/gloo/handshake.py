"""How the ranks of a job connect to each other, and nobody else to them."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import selectors
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from parallel.groups.errors import DistBackendError, DistNetworkError, DistStoreError
from parallel.groups.waiting import seconds_until, time_until

if TYPE_CHECKING:
    from parallel.groups.stores.store import Store

_MAGIC = b"graphroot mesh 1"
_TOKEN_BYTES = 32
_HELLO = struct.Struct(f"<{len(_MAGIC)}s{_TOKEN_BYTES}sII")
_WELCOME_BYTES = 32
_INTERFACE = "GLOO_SOCKET_IFNAME"
_SIOCGIFADDR = 0x8915


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """Where a rank listens, and the secret that it lets in."""

    host: str
    port: int
    token: str
    machine: str


@dataclass(slots=True)
class _Stranger:
    received: bytearray = field(default_factory=bytearray)


def connect_all(store: Store, rank: int, size: int, deadline: float) -> dict[int, socket.socket]:
    """A connection to every other rank, by rank. Ranks connect to those below them and accept those above.

    Each rank listens on the interface that reaches the store, or on that which GLOO_SOCKET_IFNAME names, and publishes
    in the store where, with a random token; connections that do not present it are dropped.
    """
    host = _own_address(store)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    connections: dict[int, socket.socket] = {}
    try:
        with socket.create_server((host, 0), family=family, backlog=max(16, size)) as listener:
            token = secrets.token_bytes(_TOKEN_BYTES)
            own = _Endpoint(host, listener.getsockname()[1], token.hex(), machine().hex())
            endpoints = _exchange_endpoints(store, rank, size, own, deadline)
            welcomes = {}
            for other in range(rank):
                connections[other] = _connect(endpoints[other], own, rank, other, deadline)
                welcomes[other] = _welcome(bytes.fromhex(endpoints[other].token))
            connections |= _accept(listener, token, rank, range(rank + 1, size), deadline)
            for other, expected in welcomes.items():
                _expect_welcome(connections[other], expected, other, deadline)
    except BaseException:
        for connection in connections.values():
            connection.close()
        raise
    for connection in connections.values():
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connections


def _exchange_endpoints(
    store: Store, rank: int, size: int, own: _Endpoint, deadline: float
) -> list[_Endpoint]:
    keys = [f"mesh/{other}" for other in range(size)]
    store.set(keys[rank], json.dumps([own.host, own.port, own.token, own.machine]))
    try:
        store.wait(keys, time_until(deadline))
    except DistStoreError as error:
        missing = [str(other) for other in range(size) if not store.check([keys[other]])]
        if not missing:
            raise
        verb = "rank has" if len(missing) == 1 else "ranks have"
        raise DistStoreError(
            f"rank {rank} waited for all {size} ranks, and {len(missing)} {verb} not joined: {', '.join(missing)} ({error})"
        ) from None
    return [_Endpoint(*json.loads(value)) for value in store.multi_get(keys)]


def _own_address(store: Store) -> str:
    interface = os.environ.get(_INTERFACE)
    if not interface:
        return store.local_address() or "127.0.0.1"
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
    except OSError:
        names = ", ".join(name for _, name in socket.if_nameindex())
        raise DistNetworkError(
            f"the environment variable {_INTERFACE} names {interface!r}, which is no network interface with an IPv4 "
            f"address; there are {names}"
        ) from None
    return socket.inet_ntoa(answer[20:24])


def machine() -> bytes:
    """Sixteen bytes that only the processes of this machine have."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        boot = ""
    return hashlib.blake2b(f"{socket.gethostname()} {boot}".encode(), digest_size=16).digest()


def _connect(endpoint: _Endpoint, own: _Endpoint, rank: int, other: int, deadline: float) -> socket.socket:
    if endpoint.machine != own.machine and endpoint.host.startswith("127."):
        raise DistNetworkError(
            f"ranks {other} and {rank} run on different machines, but rank {other} listens on loopback alone, because "
            f"that is where it reaches the store: use tcp:// or env:// with an address that all machines reach, or name "
            f"the network interface in the environment variable {_INTERFACE}"
        )
    try:
        connection = socket.create_connection(
            (endpoint.host, endpoint.port),
            timeout=seconds_until(deadline, 0.001),
            source_address=(own.host, 0),
        )
    except OSError as error:
        raise DistBackendError(
            f"rank {rank} cannot connect to rank {other} at {endpoint.host}:{endpoint.port} ({error}): it has died, or a "
            f"firewall is between them"
        ) from None
    try:
        connection.sendall(_HELLO.pack(_MAGIC, bytes.fromhex(endpoint.token), rank, other))
    except OSError as error:
        connection.close()
        raise DistBackendError(f"rank {other} has closed its connection to rank {rank} ({error})") from None
    return connection


def _accept(
    listener: socket.socket, token: bytes, rank: int, expected: range, deadline: float
) -> dict[int, socket.socket]:
    """Accept until all ``expected`` have come; who says nothing, or something else, delays nobody."""
    accepted: dict[int, socket.socket] = {}
    listener.setblocking(False)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        try:
            while len(accepted) < len(expected):
                left = seconds_until(deadline)
                if not left:
                    missing = ", ".join(str(other) for other in expected if other not in accepted)
                    raise DistBackendError(f"rank {rank} waited for connections from ranks {missing} in vain")
                for key, _ in selector.select(left):
                    if key.fileobj is listener:
                        _admit(listener, selector)
                        continue
                    guest = key.fileobj
                    assert isinstance(guest, socket.socket)
                    other = _read_hello(guest, key.data, token, rank)
                    if other is None:
                        continue
                    selector.unregister(guest)
                    if other in expected and other not in accepted:
                        guest.settimeout(5)
                        accepted[other] = guest
                        guest.sendall(_welcome(token))
                    else:
                        guest.close()
        except BaseException:
            for connection in accepted.values():
                connection.close()
            raise
        finally:
            for key in list(selector.get_map().values()):
                if key.fileobj is not listener:
                    assert isinstance(key.fileobj, socket.socket)
                    key.fileobj.close()
    return accepted


def _admit(listener: socket.socket, selector: selectors.BaseSelector) -> None:
    try:
        guest, _ = listener.accept()
    except OSError:
        return
    guest.setblocking(False)
    selector.register(guest, selectors.EVENT_READ, _Stranger())


def _read_hello(guest: socket.socket, stranger: _Stranger, token: bytes, rank: int) -> int | None:
    """The rank that a whole hello names; None while it is incomplete, -1 when it is not one of ours."""
    try:
        data = guest.recv(_HELLO.size - len(stranger.received))
    except BlockingIOError:
        return None
    except OSError:
        return -1
    stranger.received += data
    if not data:
        return -1
    if len(stranger.received) < _HELLO.size:
        return None
    magic, presented, sender, receiver = _HELLO.unpack(stranger.received)
    if magic == _MAGIC and hmac.compare_digest(presented, token) and receiver == rank:
        return int(sender)
    return -1


def _welcome(token: bytes) -> bytes:
    return hashlib.blake2b(_MAGIC, key=token, digest_size=_WELCOME_BYTES).digest()


def _expect_welcome(connection: socket.socket, expected: bytes, other: int, deadline: float) -> None:
    received = b""
    try:
        while len(received) < len(expected):
            connection.settimeout(seconds_until(deadline, 0.001))
            data = connection.recv(len(expected) - len(received))
            if not data:
                raise OSError("it closed the connection")
            received += data
    except OSError as error:
        raise DistBackendError(f"rank {other} has not accepted the connection to it ({error})") from None
    if not hmac.compare_digest(received, expected):
        raise DistBackendError(
            f"what answers for rank {other} does not know its token: the port has changed hands"
        )
