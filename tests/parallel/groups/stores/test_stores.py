"""Stores: every kind does what a dict would, between threads and processes, within its timeout."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from parallel.groups.errors import DistNetworkError, DistStoreError
from parallel.groups.stores.file_store import FileStore
from parallel.groups.stores.store import HashStore, PrefixStore, QueueEmptyError, Store
from parallel.groups.stores.tcp_store import TCPStore
from tests.parallel.processes import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHORT = timedelta(seconds=0.1)


def _hash_stores() -> list[Store]:
    store = HashStore()
    return [store, store.clone()]


def _prefix_stores() -> list[Store]:
    store = HashStore()
    return [PrefixStore("a", store), PrefixStore("a", store)]


def _file_stores() -> list[Store]:
    path = str(Path(tempfile.mkdtemp()) / "store")
    return [FileStore(path, 2), FileStore(path, 2)]


def _tcp_stores() -> list[Store]:
    server = TCPStore("127.0.0.1", 0, is_master=True)
    return [server, TCPStore("127.0.0.1", server.port)]


KINDS = {"hash": _hash_stores, "prefix": _prefix_stores, "file": _file_stores, "tcp": _tcp_stores}


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest) -> Iterator[list[Store]]:
    result = KINDS[request.param]()
    yield result
    for store in reversed(result):
        store.close()


_KEYS = st.sampled_from(["a", "b", "c d", "é/1", ""])
_TEXTS = st.one_of(st.binary(max_size=5), st.text(max_size=3), st.integers(-99, 99).map(str))
_WHICH = st.integers(0, 1)


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


class _AsADict(RuleBasedStateMachine):
    """Two objects of one store do what one dict does."""

    make: Callable[[], list[Store]]

    def __init__(self) -> None:
        super().__init__()
        self.stores = type(self).make()
        self.model: dict[str, bytes] = {}
        self.queue: list[bytes] = []

    def teardown(self) -> None:
        for store in reversed(self.stores):
            store.close()

    @rule(which=_WHICH, key=_KEYS, value=_TEXTS)
    def set(self, which: int, key: str, value: str | bytes) -> None:
        self.stores[which].set(key, value)
        self.model[key] = _bytes(value)

    @rule(which=_WHICH, key=_KEYS)
    def get(self, which: int, key: str) -> None:
        store = self.stores[which]
        assert store.check([key]) == (key in self.model)
        if key in self.model:
            assert store.get(key) == self.model[key]
            store.wait([key])
        else:
            with pytest.raises(DistStoreError):
                store.wait([key], timedelta(0))

    @rule(which=_WHICH, key=_KEYS, amount=st.integers(-(10**12), 10**12))
    def add(self, which: int, key: str, amount: int) -> None:
        try:
            expected = int(self.model.get(key, b"0")) + amount
        except ValueError:
            with pytest.raises(ValueError, match="counts with integers"):
                self.stores[which].add(key, amount)
            return
        assert self.stores[which].add(key, amount) == expected
        self.model[key] = str(expected).encode()

    @rule(which=_WHICH, key=_KEYS, value=_TEXTS)
    def append(self, which: int, key: str, value: str | bytes) -> None:
        self.stores[which].append(key, value)
        self.model[key] = self.model.get(key, b"") + _bytes(value)

    @rule(which=_WHICH, key=_KEYS, expected=_TEXTS, desired=_TEXTS)
    def compare_set(self, which: int, key: str, expected: str | bytes, desired: str | bytes) -> None:
        result = self.stores[which].compare_set(key, expected, desired)
        if key in self.model:
            if self.model[key] == _bytes(expected):
                self.model[key] = _bytes(desired)
            assert result == self.model[key]
        elif expected:
            assert result == _bytes(expected)
        else:
            self.model[key] = _bytes(desired)
            assert result == _bytes(desired)

    @rule(which=_WHICH, key=_KEYS)
    def delete(self, which: int, key: str) -> None:
        assert self.stores[which].delete_key(key) == (self.model.pop(key, None) is not None)

    @rule(which=_WHICH, several=st.dictionaries(_KEYS, _TEXTS, max_size=3))
    def several(self, which: int, several: dict[str, str | bytes]) -> None:
        self.stores[which].multi_set(list(several), list(several.values()))
        self.model.update({key: _bytes(value) for key, value in several.items()})
        keys = sorted(self.model)
        assert self.stores[1 - which].multi_get(keys) == [self.model[key] for key in keys]

    @rule(which=_WHICH, value=_TEXTS)
    def push(self, which: int, value: str | bytes) -> None:
        self.stores[which].queue_push("a", value)
        self.queue.append(_bytes(value))

    @rule(which=_WHICH)
    def pop(self, which: int) -> None:
        if self.queue:
            assert self.stores[which].queue_pop("a") == self.queue.pop(0)
        else:
            with pytest.raises(QueueEmptyError, match="the queue 'a' is empty"):
                self.stores[which].queue_pop("a", block=False)

    @invariant()
    def same_keys(self) -> None:
        for store in self.stores:
            assert sorted(store.list_keys()) == sorted(self.model)
            assert store.num_keys() == len(self.model)
            assert store.queue_len("a") == len(self.queue)


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_is_a_dict(kind: str) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    machine = type("_" + kind, (_AsADict,), {"make": staticmethod(KINDS[kind])})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=15, stateful_step_count=20, deadline=None)
    )


def test_what_waits_is_woken(stores: list[Store]) -> None:
    first, second = stores
    result: list[Any] = []
    threads = [
        threading.Thread(target=lambda: result.append(second.get("late"))),
        threading.Thread(target=lambda: result.append(first.queue_pop("queue"))),
        threading.Thread(target=lambda: second.barrier("here", 2)),
    ]
    for thread in threads:
        thread.start()
    # One object serves several threads: the others do not hold it up.
    second.set("early", "1")
    assert first.get("early") == b"1"
    first.set("late", b"value")
    second.queue_push("queue", "pushed")
    first.barrier("here", 2)
    for thread in threads:
        thread.join(10)
    assert sorted(result) == [b"pushed", b"value"]


def test_timeouts_name_the_keys(stores: list[Store]) -> None:
    store = stores[1]
    store.set("there", "1")
    assert store.timeout == timedelta(seconds=300)
    with pytest.raises(DistStoreError, match=r"waited 0.1 s for '(a/)?x', '(a/)?y' in \w+Store\("):
        store.wait(["x", "there", "y"], SHORT)
    store.set_timeout(SHORT)
    assert store.timeout == SHORT
    with pytest.raises(DistStoreError, match=r"'(a/)?absent'"):
        store.get("absent")
    with pytest.raises(DistStoreError, match=r"barrier 'b': 1 of 2 callers have come"):
        store.barrier("b", 2)
    # It is in order afterwards.
    assert store.get("there") == b"1"


def test_wrong_arguments(stores: list[Store]) -> None:
    store = stores[0]
    with pytest.raises(TypeError, match="keys are strings, not int"):
        store.set(1, "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="values are strings or bytes, not int"):
        store.set("x", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a sequence of keys"):
        store.wait("x")
    with pytest.raises(TypeError, match=r"datetime\.timedelta, not float"):
        store.set_timeout(3.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not negative"):
        store.wait(["x"], timedelta(seconds=-1))
    with pytest.raises(ValueError, match="a value for each key, not 1 for 2"):
        store.multi_set(["x", "y"], ["1"])
    assert store.num_keys() == 0


def test_a_prefix_keeps_users_apart() -> None:
    store = HashStore()
    first, second = PrefixStore("one", store), PrefixStore("two", store)
    first.set("key", "1")
    assert not second.check(["key"])
    assert store.get("one/key") == b"1"
    assert second.num_keys() == 1
    assert first.list_keys() == ["key"]
    assert second.list_keys() == []
    assert first.underlying_store is store
    nested = PrefixStore("three", first)
    nested.set("key", "2")
    assert store.get("one/three/key") == b"2"
    nested.set_timeout(SHORT)
    assert store.timeout == SHORT


def _counts(rank: int, size: int, path: str, port: int) -> int:
    store: Store = TCPStore("127.0.0.1", port) if port else FileStore(path, size)
    for _ in range(200):
        store.add("count", 1)
        store.append("log", str(rank))
    store.barrier("end", size)
    total, log = store.add("count", 0), store.get("log")
    store.barrier("read", size)
    store.close()
    assert all(log.count(str(one).encode()) == 200 for one in range(size))
    return total


def test_processes_share_a_file(tmp_path: Path) -> None:
    assert run(_counts, 3, str(tmp_path / "store"), 0) == [600] * 3
    # The last one has removed it.
    assert not list(tmp_path.iterdir())


def test_processes_share_a_server() -> None:
    server = TCPStore("127.0.0.1", 0, is_master=True)
    assert run(_counts, 3, "", server.port) == [600] * 3
    server.close()


def _in_child(body: Callable[[], None]) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            body()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.timeout(60)
def test_a_server_ends_while_a_forked_child_lives() -> None:
    server = TCPStore("127.0.0.1", 0, is_master=True)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    try:
        server.close()
    finally:
        os.close(reader)
        os.close(writer)
        os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_a_forked_child_has_a_connection_of_its_own(kind: str) -> None:
    server, client = KINDS[kind]()
    client.set("key", "1")

    def body() -> None:
        assert client.add("key", 1) == 2
        client.close()

    _in_child(body)
    assert client.add("key", 1) == 3
    # The child's end is not this process's.
    assert server.get("key") == b"3"
    client.close()
    server.close()


class TestFileStore:
    def test_a_file_of_an_earlier_job_is_an_error(self, tmp_path: Path) -> None:
        path = tmp_path / "store"
        first, second = FileStore(str(path), 2), FileStore(str(path), 2)
        with pytest.raises(DistStoreError, match="opened 3 times for a world size of 2: .*remove it"):
            FileStore(str(path), 2)
        first.close()
        assert path.exists()
        first.close()
        second.close()
        assert not path.exists()

    def test_without_a_world_size_the_file_stays(self, tmp_path: Path) -> None:
        path = tmp_path / "store"
        store = FileStore(str(path))
        store.set("key", "value")
        store.close()
        again = FileStore(str(path))
        assert again.get("key") == b"value"
        with pytest.raises(DistStoreError, match="is closed"):
            store.get("key")
        again.close()

    def test_half_a_record_of_a_dead_writer_is_overwritten(self, tmp_path: Path) -> None:
        path = tmp_path / "store"
        store = FileStore(str(path))
        store.set("key", "1")
        whole = path.stat().st_size
        store.set("key", "2")
        with path.open("r+b") as file:
            file.truncate(whole + 9)
        other = FileStore(str(path))
        assert other.get("key") == b"1"
        other.set("key", "3")
        third = FileStore(str(path))
        assert third.get("key") == b"3"
        for one in (store, other, third):
            one.close()

    def test_another_file_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_bytes(b"\x08\x00\x00\x00Dear diary, today I found a store")
        store = FileStore(str(path))
        with pytest.raises(DistStoreError, match="is not the log of a FileStore"):
            store.get("key")
        store.close()
        with pytest.raises(DistStoreError, match="cannot open"):
            FileStore(str(tmp_path / "no" / "directory"))


class TestTCPStore:
    def test_the_server_counts_its_workers(self) -> None:
        with pytest.raises(DistStoreError, match="1 of 2 processes have connected within 0.1 s"):
            TCPStore("127.0.0.1", 0, 2, True, timeout=SHORT)
        server = TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
        client = TCPStore("127.0.0.1", server.port, 2)
        # As PyTorch: one key coordinates the workers.
        assert client.num_keys() == 1
        assert (server.world_size, server.is_master, client.is_master) == (2, True, False)
        client.close()
        server.close()

    def test_one_master_of_a_port(self) -> None:
        server = TCPStore("127.0.0.1", 0, is_master=True)
        with pytest.raises(DistNetworkError, match="is another process the master of this port"):
            TCPStore("127.0.0.1", server.port, is_master=True)
        server.close()
        # The port is free again at once.
        TCPStore("127.0.0.1", server.port, is_master=True).close()

    def test_tenants_share_a_server(self) -> None:
        first = TCPStore("127.0.0.1", 0, is_master=True, multi_tenant=True)
        second = TCPStore("127.0.0.1", first.port, is_master=True, multi_tenant=True)
        first.set("key", "1")
        first.close()
        assert second.get("key") == b"1"
        second.close()

    def test_a_listening_socket_is_taken_over(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        server = TCPStore("127.0.0.1", port, is_master=True, master_listen_fd=listener.detach())
        client = TCPStore("127.0.0.1", port)
        client.set("key", "1")
        assert server.get("key") == b"1"
        client.close()
        server.close()

    def test_a_client_waits_for_the_server(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.close()
        with pytest.raises(DistNetworkError, match=rf"no store answers at 127.0.0.1:{port}"):
            TCPStore("127.0.0.1", port, timeout=SHORT)
        servers: list[TCPStore] = []
        timer = threading.Timer(0.2, lambda: servers.append(TCPStore("127.0.0.1", port, is_master=True)))
        timer.start()
        client = TCPStore("127.0.0.1", port, timeout=timedelta(seconds=10))
        client.set("key", "1")
        timer.join()
        servers[0].close()
        with pytest.raises(DistNetworkError, match="has gone|no store answers"):
            client.get("key")
        client.close()
        with pytest.raises(DistStoreError, match="closed"):
            client.get("key")

    def test_what_strangers_send_disturbs_nobody(self) -> None:
        server = TCPStore("127.0.0.1", 0, is_master=True)
        strangers = []
        for data in (
            b"GET / HTTP/1.1\r\n\r\n",
            bytes(12),
            b"\x04\x00\x00\x00" + bytes(8) + b"\xff" * 4,
            b"\x10",
        ):
            stranger = socket.create_connection(("127.0.0.1", server.port))
            stranger.sendall(data)
            strangers.append(stranger)
        server.set("key", "1")
        assert server.get("key") == b"1"
        for stranger in strangers:
            stranger.close()
        server.close()

    def test_nothing_stays_behind(self) -> None:
        before = threading.active_count()
        server = TCPStore("localhost", 0, is_master=True)

        def wait() -> None:
            with pytest.raises(DistNetworkError, match="has gone"):
                server.get("never")

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.05)
        server.close()
        waiting.join(10)
        assert threading.active_count() == before
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port))

    def test_wrong_arguments(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ValueError, match="port 0 is for the master"):
            TCPStore("127.0.0.1", 0)
        with pytest.raises(ValueError, match="from 0 to 65535, not 70000"):
            TCPStore("127.0.0.1", 70000)
        with pytest.raises(DistNetworkError, match="has no address"):
            TCPStore("no.such.host.invalid", 0, is_master=True)
        server = TCPStore("127.0.0.1", 0, is_master=True)
        monkeypatch.setattr("parallel.groups.stores.tcp_store.MAXIMUM_BYTES", 100)
        with pytest.raises(DistStoreError, match="a store takes 100 at most"):
            server.set("key", bytes(101))
        server.close()


_JOIN_AND_END = """
import sys, parallel

def rank(number, path):
    parallel.init_process_group("gloo", f"file://{path}", rank=number, world_size=1)

if __name__ == "__main__":
    parallel.spawn(rank, (sys.argv[1],), nprocs=1)
"""


def test_a_process_that_ends_leaves_its_file(tmp_path: Path) -> None:
    """Also one that has closed nothing; the last to go removes the file, and nobody reads of errors."""
    path, script = tmp_path / "store", tmp_path / "script.py"
    script.write_text(_JOIN_AND_END)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[4])}
    command = [sys.executable, str(script), str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not path.exists()
