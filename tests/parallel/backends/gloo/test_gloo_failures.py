"""Ranks that die, leave, disagree, come late or are strangers: every other rank hears of it, at once and by name."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from parallel.backends.gloo.channels import DATA, Header
from parallel.backends.gloo.connections import PeerConnections
from parallel.backends.gloo.shared_slots import PIECE_BYTES
from parallel.backends.gloo.transport import GlooTransport
from parallel.groups.errors import DistBackendError, DistNetworkError, DistStoreError
from parallel.groups.reduce_op import ReduceOp
from parallel.groups.stores.file_store import FileStore
from parallel.groups.stores.store import HashStore
from tests.parallel.processes import run

from .test_gloo import _Group, soon

if TYPE_CHECKING:
    from collections.abc import Callable


def _error(call: Callable[[], Any], within: float = 10.0) -> str:
    """What ``call`` raises, which it does long before its deadline."""
    begun = time.monotonic()
    with pytest.raises(DistBackendError) as raised:
        call()
    assert time.monotonic() - begun < within, raised.value
    return str(raised.value)


def _victim(path: str, size: int) -> None:
    with _Group(size - 1, size, path):
        # A process that it forked, as a loader of data does, outlives it.
        orphan = os.fork()
        if orphan:
            partial = Path(path + ".partial")
            partial.write_text(str(orphan))
            partial.rename(path + ".ready")
        time.sleep(60)


def _survivors(rank: int, size: int, path: str) -> list[str]:
    # The last rank is killed in the middle of what the others wait for, each in another way.
    if rank == size - 1:
        child = os.fork()
        if child == 0:
            try:
                _victim(path, size)
            finally:
                os._exit(0)
        while not Path(path + ".ready").exists():
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        deadline = time.monotonic() + 30
        while len(list(Path(path).parent.glob("*.heard"))) < size - 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(int(Path(path + ".ready").read_text()), signal.SIGKILL)
        return []
    with _Group(rank, size, path) as group:
        array = np.ones(1 << 20, np.float32)
        if rank == 0:
            texts = [_error(lambda: group.all_reduce(array, ReduceOp.SUM, soon()))]
        else:
            texts = [_error(lambda: group.recv(array, None, 0, soon()))]
        Path(f"{path}.{rank}.heard").touch()
        texts.append(_error(lambda: group.barrier(soon())))
        texts.append(_error(lambda: group.send(array, size - 1, 0, soon())))
    return texts


def test_a_killed_rank_is_named_by_all_others(tmp_path: Path) -> None:
    results = run(_survivors, 3, str(tmp_path / "store"))
    assert all("rank 2 has died" in text for texts in results for text in texts), results


def _leaves(rank: int, size: int, path: str) -> list[str]:
    with _Group(rank, size, path) as group:
        array = np.ones(1 << 20, np.float32)
        if rank == 2:
            # What it sent before is still received.
            group.send(array, 0, 5, soon())
            return []
        if rank == 0:
            group.recv(array, 2, 5, soon())
            texts = [_error(lambda: group.recv(array, 2, 6, soon()))]
        else:
            texts = [_error(lambda: group.broadcast(array, 2, soon()))]
        return texts


def test_a_rank_that_left_is_named_by_who_waits_for_it(tmp_path: Path) -> None:
    results = run(_leaves, 3, str(tmp_path / "store"))
    assert "rank 2 has left" in results[0][0]
    assert "rank 2 has left" in results[1][0]


_F = np.float32
_CALLS: dict[str, list[tuple[str, Callable[[GlooTransport], None]]]] = {
    "operations": [
        ("called barrier", lambda g: g.barrier(soon())),
        ("called all_reduce(SUM) of 4 float32", lambda g: g.all_reduce(np.ones(4, _F), ReduceOp.SUM, soon())),
        ("called broadcast(src=0) of 4 float32", lambda g: g.broadcast(np.ones(4, _F), 0, soon())),
    ],
    "sizes": [
        ("all_reduce(SUM) of 4 float32", lambda g: g.all_reduce(np.ones(4, _F), ReduceOp.SUM, soon())),
        (
            "all_reduce(SUM) of 900000 float32",
            lambda g: g.all_reduce(np.ones(900000, _F), ReduceOp.SUM, soon()),
        ),
        (
            "all_reduce(SUM) of 900001 float32",
            lambda g: g.all_reduce(np.ones(900001, _F), ReduceOp.SUM, soon()),
        ),
    ],
    "types": [
        ("of 4 float32", lambda g: g.all_gather(np.ones(4 * g.size, _F), np.ones(4, _F), soon())),
        ("of 4 int32", lambda g: g.all_gather(np.ones(4 * g.size, np.int32), np.ones(4, np.int32), soon())),
        ("of 4 float32", lambda g: g.all_gather(np.ones(4 * g.size, _F), np.ones(4, _F), soon())),
    ],
    "ops": [
        ("all_reduce(MAX)", lambda g: g.all_reduce(np.ones(90000, _F), ReduceOp.MAX, soon())),
        ("all_reduce(MIN)", lambda g: g.all_reduce(np.ones(90000, _F), ReduceOp.MIN, soon())),
        ("all_reduce(MAX)", lambda g: g.all_reduce(np.ones(90000, _F), ReduceOp.MAX, soon())),
    ],
    "roots": [
        ("broadcast(src=0)", lambda g: g.broadcast(np.ones(4, _F), 0, soon())),
        ("broadcast(src=1)", lambda g: g.broadcast(np.ones(4, _F), 1, soon())),
        ("broadcast(src=2)", lambda g: g.broadcast(np.ones(4, _F), 2, soon())),
    ],
    "large roots": [
        ("broadcast(src=0)", lambda g: g.broadcast(np.ones(90000, _F), 0, soon())),
        ("broadcast(src=1)", lambda g: g.broadcast(np.ones(90000, _F), 1, soon())),
        ("broadcast(src=0)", lambda g: g.broadcast(np.ones(90000, _F), 0, soon())),
    ],
}


def _disagree(rank: int, size: int, path: str) -> dict[str, str]:
    texts = {}
    store = FileStore(path, size)
    connections = PeerConnections(store, rank, size, 20)
    for name, calls in _CALLS.items():
        group = GlooTransport(connections, name, range(size))
        group.barrier(soon())
        texts[name] = _error(lambda call=calls[rank][1], group=group: call(group))  # type: ignore[misc]
        # The group is of no use any more, and says why.
        assert "disagree" in _error(lambda group=group: group.barrier(soon()))  # type: ignore[misc]
    # Others are.
    group = GlooTransport(connections, "afterwards", range(size))
    group.barrier(soon())
    group.close()
    connections.close()
    store.close()
    return texts


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_that_disagree_hear_what_each_called(size: int, tmp_path: Path) -> None:
    results = run(_disagree, size, str(tmp_path / "store"))
    for name, calls in _CALLS.items():
        for texts in results:
            assert "the ranks disagree" in texts[name]
            for rank in range(size):
                assert f"rank {rank} called" in texts[name], texts[name]
                assert calls[rank][0] in texts[name], texts[name]


def _late(rank: int, size: int, path: str) -> list[str]:
    with _Group(rank, size, path) as group:
        group.barrier(soon())
        array = np.ones(1 << 20, np.float32)
        texts = []
        if rank == 2:
            while len(list(Path(path).parent.glob("*.late"))) < 2:
                time.sleep(0.01)
            texts.append(_error(lambda: group.all_reduce(array, ReduceOp.SUM, soon())))
        else:
            texts.append(_error(lambda: group.recv(array, 2, 0, soon(0.1))))
            texts.append(_error(lambda: group.recv(array, None, 0, soon(0.1))))
            texts.append(_error(lambda: group.send(array, 2, 0, soon(0.1))))
            # The two wait for the third, and not for each other.
            token = np.zeros(1, np.int8)
            for turn in (0, 1):
                if rank == turn:
                    group.send(token, 1 - rank, 1, soon())
                else:
                    group.recv(token, 1 - rank, 1, soon())
            texts.append(_error(lambda: group.all_reduce(array, ReduceOp.SUM, soon(1))))
            Path(f"{path}.{rank}.late").touch()
        return texts


def test_a_deadline_names_who_was_waited_for(tmp_path: Path) -> None:
    results = run(_late, 3, str(tmp_path / "store"))
    for rank in (0, 1):
        one, anybody, sent, reduced = results[rank]
        assert "recv of 1048576 float32 from rank 2 with tag 0 failed: rank 2 has not sent it in time" in one
        assert "any rank has not sent it in time" in anybody
        assert "rank 2 has not received it in time" in sent
        assert "all_reduce(SUM) of 1048576 float32" in reduced
        assert "rank 2" in reduced
    assert "ran out of time waiting for rank" in results[2][0]


def _stops(rank: int, size: int, path: str, share_memory: bool) -> list[str]:
    with _Group(rank, size, path, share_memory) as group:
        group.barrier(soon())
        if rank == 1:
            Path(path + ".1").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
            return []
        while not Path(path + ".1").exists() or not Path(path + ".1").read_text():
            time.sleep(0.01)
        stopped = int(Path(path + ".1").read_text())
        time.sleep(0.2)
        # What the network takes without the other's help, it takes; then the deadline holds.
        small = np.ones(1 << 14, np.float32)

        def send_much() -> None:
            deadline = soon(1)
            for _ in range(10_000):
                group.send(small, 1, 0, deadline)

        texts = [_error(send_much), _error(lambda: group.barrier(soon(0.3)))]
        os.kill(stopped, signal.SIGCONT)
        return texts


@pytest.mark.parametrize("share_memory", [True, False])
def test_a_rank_that_hangs_holds_nobody_longer_than_the_deadline(share_memory: bool, tmp_path: Path) -> None:
    sent, waited = run(_stops, 2, str(tmp_path / "store"), share_memory)[0]
    assert "rank 1 has not taken what rank 0 sends it in time" in sent
    assert "rank 1" in waited


def _sizes_of_messages(rank: int, size: int, path: str) -> list[str]:
    with _Group(rank, size, path) as group:
        texts = []
        for count in (10, 100_000):
            if rank == 0:
                if count == 10:
                    group.send(np.ones(count), 1, 0, soon())
                else:
                    texts.append(_error(lambda count=count: group.send(np.ones(count), 1, 0, soon())))  # type: ignore[misc]
            else:
                texts.append(_error(lambda count=count: group.recv(np.ones(count + 1), 0, 0, soon())))  # type: ignore[misc]
        # The next messages are in order again.
        array = np.full(100_000, rank)
        if rank == 0:
            group.send(array, 1, 0, soon())
        else:
            group.recv(array, 0, 0, soon())
            assert (array == 0).all()
        counts = [3, 3]
        output = np.empty(6)
        texts.append(
            _error(lambda: group.all_to_all(output[: 6 - rank], np.ones(6), [3, 3 - rank], counts, soon()))
        )
        return texts


def test_messages_of_another_size_are_refused(tmp_path: Path) -> None:
    sender, receiver = run(_sizes_of_messages, 2, str(tmp_path / "store"))
    assert "rank 1 receives something of another size or type" in sender[0]
    assert "rank 0 sent 10 float64" in receiver[0]
    assert "rank 0 sent 100000 float64" in receiver[1]
    for text in (sender[-1], receiver[-1]):
        assert "rank 1 sends 3 elements to rank 1, whose output has room for 2" in text


def _aborts(rank: int, size: int, path: str) -> str:
    with _Group(rank, size, path) as group:
        array = np.ones(1 << 20, np.float32)
        if rank == 0:
            timer = threading.Timer(0.3, group.abort)
            timer.start()
        else:
            timer = None
        text = _error(lambda: group.recv(array, 1 - rank, 0, soon()))
        if timer is not None:
            timer.join()
        return text


def test_abort_ends_what_waits_on_all_ranks(tmp_path: Path) -> None:
    own, other = run(_aborts, 2, str(tmp_path / "store"))
    assert "aborted" in own
    assert "rank 0 aborted the group" in other


def _threads_as_ranks(
    size: int,
    body: Callable[[int, PeerConnections], None],
    intrude: Callable[[Any], None] | None,
    share_memory: bool = True,
) -> None:
    store = HashStore()
    failures = []

    def rank_body(rank: int) -> None:
        try:
            if intrude is not None and rank == 1:
                intrude(store)
            connections = PeerConnections(store, rank, size, 10, share_memory)
            try:
                body(rank, connections)
            finally:
                connections.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=rank_body, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not failures, failures


@pytest.mark.parametrize("share_memory", [True, False])
def test_what_was_asked_for_before_a_call_failed_is_let_go(share_memory: bool) -> None:
    def body(rank: int, connections: PeerConnections) -> None:
        failed, closed = connections.open("failed", range(2)), connections.open("closed", range(2))
        group = GlooTransport(connections, "good", range(2))
        if rank == 0:
            failed.fail("a call failed", 1)
            closed.close()
        group.barrier(soon())
        if rank == 1:
            for channel in (failed, closed):
                for length in (100, 120_000, PIECE_BYTES):
                    header = Header(DATA, channel.identity, -1, 1, 5, length)
                    channel.send(0, header, bytes(length), soon(), 1)
        group.barrier(soon())
        if rank == 0:
            assert not failed._arrived
            assert not closed._arrived

    _threads_as_ranks(2, body, None, share_memory)


def test_strangers_are_turned_away_and_delay_nobody() -> None:
    guests = []

    def intrude(store: HashStore) -> None:
        host, port, token, _ = json.loads(store.get("connections/0"))
        for greeting in (b"", b"GET / HTTP/1.1\r\n\r\n" * 10, b"graphroot mesh 1" + bytes(32) + bytes(8)):
            guest = socket.create_connection((host, port))
            guest.sendall(greeting)
            guests.append(guest)
        assert len(bytes.fromhex(token)) == 32

    def body(rank: int, connections: PeerConnections) -> None:
        group = GlooTransport(connections, "world", range(3))
        array = np.full(3, rank, np.int64)
        group.all_reduce(array, ReduceOp.SUM, soon())
        assert (array == 3).all()

    begun = time.monotonic()
    _threads_as_ranks(3, body, intrude)
    assert time.monotonic() - begun < 5
    for guest in guests:
        guest.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert guest.recv(100) == b""
        guest.close()


def test_a_rank_that_does_not_come_is_named() -> None:
    store = HashStore()
    before = threading.active_count()
    with pytest.raises(DistStoreError, match="2 ranks have not joined: 1, 2"):
        PeerConnections(store, 0, 3, 0.2)
    assert threading.active_count() == before


def test_the_interface_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "none0")
    with pytest.raises(
        DistNetworkError, match="names 'none0', which is no network interface .*; there are .*lo"
    ):
        PeerConnections(HashStore(), 0, 2, 1)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")

    def body(rank: int, connections: PeerConnections) -> None:
        GlooTransport(connections, "world", range(2)).barrier(soon())

    _threads_as_ranks(2, body, None)


def test_ranks_on_loopback_are_not_found_from_other_machines() -> None:
    store = HashStore()
    elsewhere = json.dumps(["127.0.0.1", 1, "00" * 32, "00" * 16])
    store.set("connections/0", elsewhere)
    with pytest.raises(
        DistNetworkError, match="ranks 0 and 1 run on different machines, but rank 0 listens on loop"
    ):
        PeerConnections(store, 1, 2, 1)


def test_wrong_arguments_are_errors_before_anything_is_sent() -> None:
    def body(rank: int, connections: PeerConnections) -> None:
        group = GlooTransport(connections, "world", range(2))
        floats, complexes = np.ones(3, np.float32), np.ones(3, np.complex64)
        for op, array in (
            (ReduceOp.MIN, complexes),
            (ReduceOp.AVG, np.ones(3, np.int64)),
            (ReduceOp.BAND, floats),
            (ReduceOp.SUM, np.ones(3, np.uint16)),
        ):
            with pytest.raises(TypeError, match=f"ReduceOp.{op.name} is not for {array.dtype}"):
                group.all_reduce(array, op, soon())
        with pytest.raises(TypeError, match="op is a ReduceOp"):
            group.all_reduce(floats, "sum", soon())  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="rank 2 is not in the group, which has ranks 0 to 1"):
            group.broadcast(floats, 2, soon())
        with pytest.raises(ValueError, match="a rank does not send to itself"):
            group.send(floats, rank, 0, soon())
        with pytest.raises(ValueError, match="a tag is not negative"):
            group.recv(floats, 1 - rank, -1, soon())
        with pytest.raises(ValueError, match="output has 5 elements; it needs 2 times the 3 of input"):
            group.all_gather(np.ones(5, np.float32), floats, soon())
        with pytest.raises(TypeError, match="of one type"):
            group.all_gather(np.ones(6), floats, soon())
        with pytest.raises(ValueError, match="an output on rank 0 and nowhere else"):
            group.gather(None if rank == 0 else floats, floats, 0, soon())
        with pytest.raises(ValueError, match="an input on rank 0 and nowhere else"):
            group.scatter(floats, None if rank == 0 else floats, 0, soon())
        with pytest.raises(ValueError, match="2 counts that add up to it"):
            group.all_to_all(floats, floats, [1, 1], [1, 2], soon())
        with pytest.raises(ValueError, match="there is, or was, a group 'world' already"):
            GlooTransport(connections, "world", range(2))
        with pytest.raises(ValueError, match="is not one of the group"):
            GlooTransport(connections, "other", [1 - rank])
        group.barrier(soon())

    _threads_as_ranks(2, body, None)
