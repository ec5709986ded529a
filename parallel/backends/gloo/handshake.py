"""How the ranks of a job connect to each other, and nobody else to them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import selectors
import socket
import struct
import time
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parallel.groups.errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from parallel.groups.job_secret import (
    CHALLENGE_BYTES,
    NONE,
    PROOF_BYTES,
    REQUIRED,
    JobSecret,
    challenge,
    job_secret,
    mismatch,
    required_between,
    wrong_secret,
)
from parallel.groups.stores.table import Operation
from parallel.groups.waiting import seconds_until, time_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parallel.groups.stores.store import Store

_MAGIC = b"graphroot connections 2"
_TOKEN_BYTES = 32
# Who connects, to whom, a random challenge, and the proof that it may.
_HELLO = struct.Struct(f"<{len(_MAGIC)}sII{CHALLENGE_BYTES}s{PROOF_BYTES}s")
_PAUSE = 0.01
# Where the ranks read whether all have come, and what it says then; else who gave up first, when, and who was missing.
_OUTCOME = "connections/outcome"
_ALL = "all"
# Seconds that a rank stays for the others, when it has given up or failed.
_HEARING = 5.0
_INTERFACE = "GLOO_SOCKET_IFNAME"
_SIOCGIFADDR = 0x8915


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """Where a rank listens, and the token of those that it lets in; where the job has a secret, with a proof of it."""

    host: str
    port: int
    token: str
    machine: str
    stance: int = NONE
    proof: str = ""

    def text(self, rank: int) -> bytes:
        """What the proof is of."""
        return json.dumps([rank, self.host, self.port, self.token, self.machine, self.stance]).encode()


@dataclass(slots=True)
class _Stranger:
    received: bytearray = field(default_factory=bytearray)


def connect_all(store: Store, rank: int, size: int, deadline: float) -> dict[int, socket.socket]:
    """A connection to every other rank, by rank. Ranks connect to those below them and accept those above.

    Each rank listens on the interface that reaches the store, or on that which GLOO_SOCKET_IFNAME names, and publishes
    in the store where, with a random token; connections that do not prove that they know it, and the job's secret where
    there is one, are dropped.
    """
    secret = job_secret()
    host = _own_address(store)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    connections: dict[int, socket.socket] = {}
    try:
        with socket.create_server((host, 0), family=family, backlog=max(16, size)) as listener:
            token = secrets.token_hex(_TOKEN_BYTES)
            own = _Endpoint(host, listener.getsockname()[1], token, machine().hex(), secret.stance)
            if secret.stance != NONE:
                own = replace(own, proof=secret.proof(b"endpoint", own.text(rank)).hex())
            endpoints = _exchange_endpoints(store, rank, size, own, deadline)
            for other, endpoint in enumerate(endpoints):
                _check_secret(secret, endpoint, rank, other)
            welcomes = {}
            for other in range(rank):
                key = _key(secret, endpoints[other], own)
                connections[other], welcomes[other] = _connect(
                    endpoints[other], own, key, rank, other, deadline
                )
            guests = {other: _key(secret, own, endpoints[other]) for other in range(rank + 1, size)}
            connections |= _accept(listener, rank, guests, deadline)
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
    keys = [f"connections/{other}" for other in range(size)]
    told: list[Any] = [own.host, own.port, own.token, own.machine]
    if own.stance != NONE:
        told += [own.stance, own.proof]
    store.set(keys[rank], json.dumps(told))
    _meet(store, rank, keys, deadline)
    return [_endpoint(other, value) for other, value in enumerate(store.multi_get(keys))]


def _meet(store: Store, rank: int, keys: list[str], deadline: float) -> None:
    """Wait until all ``keys`` are set. The rank that gives up first names those that are missing for all others.

    Raises
    ------
    DistStoreError
        Some are missing; the text names them.
    """
    size = len(keys)
    started = time.monotonic()
    if store.check(keys):
        store.compare_set(_OUTCOME, "", _ALL)
    why = ""
    try:
        store.wait([_OUTCOME], time_until(deadline))
        outcome = store.get(_OUTCOME).decode()
    except DistStoreError as error:
        absent = [other for other in range(size) if not store.check([keys[other]])]
        waited = json.dumps([rank, time.monotonic() - started, absent])
        outcome = store.compare_set(_OUTCOME, "", waited if absent else _ALL).decode()
        why = str(error)
    if outcome == _ALL:
        return
    first, seconds, missing = json.loads(outcome)
    if first != rank:
        why = f"rank {first} gave up after {seconds:.1f} s"
    _let_others_hear(store, size - len(missing))
    verb = "rank has" if len(missing) == 1 else "ranks have"
    raise DistStoreError(
        f"rank {rank} waited for all {size} ranks, and {len(missing)} {verb} not joined: "
        f"{', '.join(map(str, missing))} ({why})"
    )


def _let_others_hear(store: Store, count: int) -> None:
    """Return once ``count`` ranks have read the outcome: the store may end with this rank."""
    until = time.monotonic() + _HEARING
    with contextlib.suppress(DistError):
        heard = store.add("connections/heard", 1)
        while heard < count and time.monotonic() < until:
            time.sleep(_PAUSE)
            heard = store.add("connections/heard", 0)


def with_first_failure(store: Store, rank: int, error: DistBackendError) -> DistBackendError:
    """``error`` of a rank that could not connect, with that of the rank which failed first: it may be the reason."""
    text = f"rank {rank}: {error}"
    try:
        first = store._ask(
            Operation.COMPARE_SET, ["connections/failure"], ["", text], timedelta(seconds=_HEARING)
        )[0].decode(errors="replace")
    except DistError as gone:
        return DistBackendError(f"{error}; and {gone}")
    return error if first == text else DistBackendError(f"{error}; before it failed {first}")


def _endpoint(rank: int, value: bytes) -> _Endpoint:
    try:
        endpoint = _Endpoint(*json.loads(value))
        types = [type(getattr(endpoint, each.name)) for each in fields(endpoint)]
        bytes.fromhex(endpoint.proof)
        if (
            types == [str, int, str, str, int, str]
            and len(bytes.fromhex(endpoint.token)) == _TOKEN_BYTES
            and NONE <= endpoint.stance <= REQUIRED
        ):
            return endpoint
    except (TypeError, ValueError, RecursionError):
        pass
    raise DistBackendError(
        f"what the store says of rank {rank}, {value[:100]!r}, is not where a rank listens: does another program, or "
        "another version, use the store?"
    )


def _check_secret(secret: JobSecret, endpoint: _Endpoint, rank: int, other: int) -> None:
    """Check that rank ``other`` has this rank's secret, if one of the two requires it; both find the same."""
    if other == rank or not required_between(secret.stance, endpoint.stance):
        return
    reason = mismatch(secret.stance, endpoint.stance, f"rank {other}")
    if reason is None and not secret.proves(bytes.fromhex(endpoint.proof), b"endpoint", endpoint.text(other)):
        reason = wrong_secret(f"rank {other}")
    if reason is not None:
        raise DistBackendError(f"rank {rank} does not connect to rank {other}: {reason}")


def _key(secret: JobSecret, listening: _Endpoint, other: _Endpoint) -> bytes:
    """What both ends of a connection know: the token of the one that listens, and the secret if one requires it."""
    token = bytes.fromhex(listening.token)
    return secret.proof(b"peers", token) if required_between(listening.stance, other.stance) else token


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


def _connect(
    endpoint: _Endpoint, own: _Endpoint, key: bytes, rank: int, other: int, deadline: float
) -> tuple[socket.socket, bytes]:
    """A connection to rank ``other``, and what it answers once it has accepted it."""
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
    nonce = challenge()
    try:
        connection.sendall(_HELLO.pack(_MAGIC, rank, other, nonce, _hello_proof(key, rank, other, nonce)))
    except OSError as error:
        connection.close()
        raise DistBackendError(f"rank {other} has closed its connection to rank {rank} ({error})") from None
    return connection, _welcome(key, nonce)


def _accept(
    listener: socket.socket, rank: int, expected: Mapping[int, bytes], deadline: float
) -> dict[int, socket.socket]:
    """Accept until all ``expected``, with their keys, have come; who says nothing, or something else, delays nobody."""
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
                    hello = _read_hello(guest, key.data)
                    if hello is None:
                        continue
                    selector.unregister(guest)
                    other = _expected_guest(hello, rank, expected)
                    if other is not None and other not in accepted:
                        accepted[other] = guest
                        _greet(guest, expected[other], hello, rank, other)
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
        # One that went again, or no descriptor is left; who waits in the backlog would be reported at once again.
        time.sleep(_PAUSE)
        return
    guest.setblocking(False)
    selector.register(guest, selectors.EVENT_READ, _Stranger())


def _read_hello(guest: socket.socket, stranger: _Stranger) -> bytes | None:
    """A whole hello; None while it is incomplete, and nothing when the guest has gone."""
    try:
        data = guest.recv(_HELLO.size - len(stranger.received))
    except BlockingIOError:
        return None
    except OSError:
        return b""
    stranger.received += data
    if not data:
        return b""
    return bytes(stranger.received) if len(stranger.received) == _HELLO.size else None


def _expected_guest(hello: bytes, rank: int, expected: Mapping[int, bytes]) -> int | None:
    """The rank that a hello proves to be; None if it is not one that ``rank`` expects."""
    if not hello:
        return None
    magic, sender, receiver, nonce, proof = _HELLO.unpack(hello)
    key = expected.get(sender)
    if magic != _MAGIC or receiver != rank or key is None:
        return None
    return int(sender) if hmac.compare_digest(proof, _hello_proof(key, sender, receiver, nonce)) else None


def _hello_proof(key: bytes, sender: int, receiver: int, nonce: bytes) -> bytes:
    return hmac.digest(key, struct.pack("<II", sender, receiver) + nonce, "sha256")


def _greet(guest: socket.socket, key: bytes, hello: bytes, rank: int, other: int) -> None:
    nonce = _HELLO.unpack(hello)[3]
    guest.settimeout(5)
    try:
        guest.sendall(_welcome(key, nonce))
    except OSError as error:
        raise DistBackendError(f"rank {other} has closed its connection to rank {rank} ({error})") from None


def _welcome(key: bytes, nonce: bytes) -> bytes:
    return hmac.digest(key, _MAGIC + nonce, "sha256")


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
