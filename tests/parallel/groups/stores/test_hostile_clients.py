"""What strangers, slow clients and dying ones send to the server of a TCPStore: it goes on serving the others."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallel.groups.errors import DistStoreError
from parallel.groups.job_secret import NONE, JobSecret
from parallel.groups.stores.introduction import HELLO_BYTES, Introduction
from parallel.groups.stores.server import Server
from parallel.groups.stores.store import HashStore
from parallel.groups.stores.table import MAXIMUM_BYTES, Operation, Request, Table, unpack_request
from parallel.groups.stores.tcp_store import TCPStore
from tests.parallel.processes import run

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIMIT = timedelta(seconds=20)


@pytest.fixture(scope="module")
def server() -> Iterator[TCPStore]:
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=_LIMIT)
    yield store
    store.close()


def _frame(
    code: int, keys: int, fields: list[bytes], timeout: float = 1.0, length: int | None = None
) -> bytes:
    body = struct.pack("<BHI", code, 0, keys)
    body += b"".join(struct.pack("<I", len(field)) + field for field in fields)
    return struct.pack("<Id", len(body) if length is None else length, timeout) + body


def _stranger(store: TCPStore, introduced: bool = True) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", store.port), timeout=20)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if introduced:
        _introduce(connection)
    return connection


def _introduce(connection: socket.socket) -> None:
    connection.sendall(Introduction(JobSecret(b"", NONE)).hello())
    received = b""
    while len(received) < HELLO_BYTES:
        received += connection.recv(HELLO_BYTES - len(received))


def _serves(store: TCPStore) -> None:
    """The server answers clients that were there before, and new ones."""
    store.set("key", "value")
    other = TCPStore("127.0.0.1", store.port, timeout=_LIMIT)
    assert other.get("key") == b"value"
    other.close()


def _is_dropped(connection: socket.socket) -> bool:
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(1 << 16):
            del data
    return True


_TIMEOUTS = st.one_of(st.floats(), st.sampled_from([0.0, 1e-9, 1e9, 1e300, float("inf"), float("nan")]))
_FIELDS = st.lists(st.one_of(st.binary(max_size=6), st.just(b"key")), max_size=4)
_FRAMES = st.builds(
    _frame,
    st.one_of(st.sampled_from(list(map(int, Operation))), st.integers(0, 255)),
    st.one_of(st.integers(0, 4), st.integers(0, (1 << 32) - 1)),
    _FIELDS,
    _TIMEOUTS,
    st.one_of(st.none(), st.none(), st.integers(0, (1 << 32) - 1)),
)
_SENT = st.one_of(st.binary(max_size=40), _FRAMES, st.lists(_FRAMES, min_size=2, max_size=3).map(b"".join))


@settings(max_examples=150)
@given(
    data=_SENT,
    cut=st.one_of(st.none(), st.integers(0, 60)),
    slowly=st.booleans(),
    introduced=st.sampled_from([True, True, False]),
    begun=st.booleans(),
)
def test_nothing_that_is_sent_ends_the_server(
    server: TCPStore, data: bytes, cut: int | None, slowly: bool, introduced: bool, begun: bool
) -> None:
    thread = server._server._thread  # type: ignore[union-attr]
    if not introduced and begun:
        data = b"graphroot store2" + data
    with _stranger(server, introduced) as connection, contextlib.suppress(ConnectionError):
        data = data[:cut]
        for piece in [data[at : at + 7] for at in range(0, len(data), 7)] if slowly else [data]:
            connection.sendall(piece)
    server.set("key", "1")
    assert server.get("key") == b"1"
    assert thread.is_alive()


_FORMS = {
    Operation.SET: lambda keys, values: keys == values,
    Operation.GET: lambda keys, values: not values,
    Operation.WAIT: lambda keys, values: not values,
    Operation.CHECK: lambda keys, values: not values,
    Operation.ADD: lambda keys, values: (keys, values) == (1, 1),
    Operation.APPEND: lambda keys, values: (keys, values) == (1, 1),
    Operation.COMPARE_SET: lambda keys, values: (keys, values) == (1, 2),
    Operation.DELETE: lambda keys, values: (keys, values) == (1, 0),
    Operation.COUNT: lambda keys, values: (keys, values) == (0, 0),
    Operation.LIST: lambda keys, values: (keys, values) == (0, 0),
    Operation.PUSH: lambda keys, values: (keys, values) == (1, 1),
    Operation.POP: lambda keys, values: (keys, values) == (1, 0),
    Operation.LENGTH: lambda keys, values: (keys, values) == (1, 0),
}


@pytest.mark.parametrize("operation", Operation)
def test_a_request_has_the_keys_and_values_of_its_operation(operation: Operation) -> None:
    for keys in range(4):
        for values in range(4):
            request = Request(operation, tuple(b"key%d" % one for one in range(keys)), (b"1",) * values)
            if not _FORMS[operation](keys, values):
                with pytest.raises(
                    ValueError, match=f"{operation.name} with {keys} keys and {values} values"
                ):
                    unpack_request(request.pack())
                continue
            assert unpack_request(request.pack()) == request
            table = Table()
            if table.has_all(request):
                table.answer(request)
            else:
                assert table.missing(request)


@pytest.mark.parametrize("operation", Operation)
def test_wrong_numbers_of_parts_drop_the_client_alone(server: TCPStore, operation: Operation) -> None:
    for keys, fields in ((1, [b"key"] * 5), (3, [b"key"] * 2), (0, [b"a", b"b"])):
        with _stranger(server) as connection:
            connection.sendall(_frame(operation, keys, fields))
            assert _is_dropped(connection)
    _serves(server)


@pytest.mark.parametrize("timeout", [float("inf"), 1e300, 30 * 86400.0])
def test_a_wait_without_end_holds_nobody_up(server: TCPStore, timeout: float) -> None:
    with _stranger(server) as connection:
        connection.sendall(_frame(Operation.GET, 1, [b"never"], timeout))
        _serves(server)
        server.set("never", "came")
        assert connection.recv(100).endswith(b"came")
        server.delete_key("never")


@pytest.mark.parametrize("timeout", [timedelta(days=30), timedelta.max])
def test_a_long_timeout_of_a_client(timeout: timedelta) -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=timeout)
    client = TCPStore("127.0.0.1", store.port, timeout=timeout)
    for one in (client, HashStore()):
        one.set_timeout(timeout)
        waiting = threading.Thread(target=one.wait, args=(["late"], timeout))
        waiting.start()
        time.sleep(0.05)
        (store if one is client else one).set("late", "1")
        waiting.join(10)
        assert not waiting.is_alive()
    client.close()
    store.close()


def test_one_that_does_not_wait_for_its_answer_is_dropped(server: TCPStore) -> None:
    get = _frame(Operation.GET, 1, [b"never"], 100)
    with _stranger(server) as connection:
        connection.sendall(get)
        time.sleep(0.05)
        connection.sendall(get)
        assert _is_dropped(connection)
    with _stranger(server) as connection:
        connection.sendall(get + get)
        assert _is_dropped(connection)
    _serves(server)


def test_clients_that_vanish(server: TCPStore) -> None:
    whole = _frame(Operation.POP, 1, [b"queue"], 100)
    for data in (whole[:3], whole[:14], whole[:-1], whole):
        connection = _stranger(server)
        connection.sendall(data)
        # With unread data, or by a reset, and not with a polite end.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    time.sleep(0.05)
    # What those who waited would have taken is still there.
    server.queue_push("queue", "1")
    assert server.queue_pop("queue") == b"1"
    _serves(server)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_memory_is_bounded_by_what_was_sent(server: TCPStore) -> None:
    before = _resident()
    claims = [_stranger(server) for _ in range(20)]
    for connection in claims:
        # Of 256 MiB that it promises, a client sends a few bytes.
        connection.sendall(_frame(Operation.SET, 1, [b"key"], length=MAXIMUM_BYTES))
    _serves(server)
    assert _resident() - before < 64 << 20
    for connection in claims:
        connection.close()
    # More than 256 MiB are not even waited for.
    with _stranger(server) as connection:
        connection.sendall(_frame(Operation.SET, 1, [b"key"], length=MAXIMUM_BYTES + 1))
        assert _is_dropped(connection)


def test_answers_are_bounded(server: TCPStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parallel.groups.stores.server.MAXIMUM_BYTES", 1000)
    server.set("large", bytes(500))
    assert len(server.multi_get(["large"] * 2)) == 2
    with pytest.raises(ValueError, match="an answer of 1500 bytes; a store gives 1000 at most"):
        server.multi_get(["large"] * 3)
    monkeypatch.setattr("parallel.groups.stores.tcp_store.MAXIMUM_FIELDS", 3)
    with pytest.raises(DistStoreError, match="a request with 4 keys and values; a store takes 3 at most"):
        server.multi_get(["large"] * 4)
    server.delete_key("large")
    # The limit of keys and values is the server's too.
    monkeypatch.setattr("parallel.groups.stores.table.MAXIMUM_FIELDS", 3)
    with _stranger(server) as connection:
        connection.sendall(_frame(Operation.WAIT, 4, [b"key"] * 4))
        assert _is_dropped(connection)
    _serves(server)


def _without_descriptors(rank: int, size: int) -> int:
    tries = []
    accept = Server._accept

    def counted(server: Server) -> None:
        tries.append(server)
        accept(server)

    Server._accept = counted  # type: ignore[method-assign,assignment]
    store = TCPStore("127.0.0.1", 0, is_master=True, timeout=_LIMIT)
    store.set("key", "0")
    tries.clear()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as newcomer:
        # What is open stays so; another descriptor is refused.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        newcomer.connect(("127.0.0.1", store.port))
        time.sleep(0.5)
        store.set("key", "1")
        count = len(tries)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        newcomer.settimeout(20)
        _introduce(newcomer)
        newcomer.sendall(_frame(Operation.GET, 1, [b"key"]))
        assert newcomer.recv(100).endswith(b"1")
    store.close()
    return count


def test_without_descriptors_the_server_waits_for_some() -> None:
    # One that does not wait tries many thousand times.
    (count,) = run(_without_descriptors, 1)
    assert 1 <= count < 20


def test_the_failure_of_an_answer_is_not_the_writers(
    server: TCPStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another client waits for what the writer sets, and answering it fails.
    answer = Table.answer

    def failing(table: Table, request: Request) -> tuple[bytes, ...]:
        if request.operation is Operation.GET and request.keys == (b"awaited",):
            raise MemoryError
        return answer(table, request)

    monkeypatch.setattr(Table, "answer", failing)
    with _stranger(server) as connection:
        connection.sendall(_frame(Operation.GET, 1, [b"awaited"], 100))
        time.sleep(0.05)
        server.set("awaited", "1")
        assert _is_dropped(connection)
    server.delete_key("awaited")
    _serves(server)
