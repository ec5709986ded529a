"""From an init_method to a store: what is missing or contradicts itself is said."""

from __future__ import annotations

import os
import signal
import socket
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import parallel
import tensor
from parallel.groups.errors import DistNetworkError, DistStoreError
from parallel.groups.rendezvous import rendezvous
from tests.parallel.processes import CONTEXT, run

SHORT = timedelta(seconds=0.2)


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "TORCHELASTIC_USE_AGENT_STORE"):
        monkeypatch.delenv(name, raising=False)


def _meets(rank: int, size: int, init_method: str) -> tuple[int, int, bytes]:
    store, own, world_size = rendezvous(init_method, rank, size, timedelta(seconds=20))
    store.set(f"rank {rank}", str(rank))
    other = store.get(f"rank {1 - rank}")
    store.barrier("end", size)
    store.close()
    return own, world_size, other


def test_a_file(tmp_path: Path) -> None:
    # A name with a blank, as a URL writes it.
    assert run(_meets, 2, f"file://{tmp_path}/a%20store") == [(0, 2, b"1"), (1, 2, b"0")]
    assert not list(tmp_path.iterdir())


def test_tcp(free_port: int) -> None:
    url = f"tcp://127.0.0.1:{free_port}"
    assert run(_meets_patiently, 2, url) == [(0, 2, b"1"), (1, 2, b"0")]


def _meets_patiently(rank: int, size: int, init_method: str) -> tuple[int, int, bytes]:
    store, own, world_size = rendezvous(f"{init_method}?rank={rank}&world_size={size}", -1, -1)
    store.set(f"rank {rank}", str(rank))
    other = store.get(f"rank {1 - rank}")
    # The server stays until the last has read.
    if rank == 0:
        store.get("read")
    else:
        store.set("read", "1")
    store.close()
    return own, world_size, other


def test_variables(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(free_port))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    store, rank, size = rendezvous("env://", timeout=SHORT)
    assert (rank, size) == (0, 3)
    # What the caller gives precedes the variables.
    client, rank, size = rendezvous("env://", 1, 2, SHORT)
    assert (rank, size) == (1, 2)
    client.set("key", "1")
    assert store.get("key") == b"1"
    # A launcher that serves the store itself makes rank 0 a client.
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    zero, rank, _ = rendezvous("env://", timeout=SHORT)
    assert rank == 0
    assert zero.get("key") == b"1"
    for one in (zero, client, store):
        one.close()


@pytest.mark.parametrize(
    ("init_method", "rank", "size", "message"),
    [
        ("http://host:1", 0, 1, "one of env://, tcp://, file://, not 'http://host:1'"),
        ("", 0, 1, "one of env://"),
        ("env://", -1, -1, "MASTER_ADDR, MASTER_PORT, RANK .*, WORLD_SIZE"),
        ("env://host:1", 0, 1, "takes its address from MASTER_ADDR"),
        ("tcp://host", 0, 1, "tcp://host:port, not"),
        ("tcp://:80", 0, 1, "tcp://host:port, not"),
        ("tcp://host:99999", 0, 1, "not a number from 0 to 65535"),
        ("tcp://host:port", 0, 1, "not a number from 0 to 65535"),
        ("tcp://host:1/path", 0, 1, "has no path"),
        ("tcp://host:0", 0, 2, "port 0"),
        ("tcp://host:1", -1, -1, "needs rank and world_size"),
        ("tcp://host:1", 0, -1, "needs world_size"),
        ("tcp://host:1?rank=0", 1, 2, "rank=1 was given, and .* says 0"),
        ("tcp://host:1?world_size=4", 1, 2, "world_size=2 was given, and .* says 4"),
        ("tcp://host:1?rank=first", -1, 2, "from 0 on, not 'first'"),
        ("tcp://host:1?rank=0&rank=1", -1, 2, "gives rank 2 times"),
        ("tcp://host:1?size=2", 0, 2, "has 'size'"),
        ("tcp://host:1", 2, 2, "rank 2 is not below the world size 2"),
        ("file://relative/path", 0, 1, "file:///path, not"),
        ("file://", 0, 1, "needs the path of a file"),
        ("file:///", 0, 1, "needs the path of a file"),
        ("file:///x", -1, 1, "needs rank"),
    ],
)
def test_what_is_missing_or_contradicts_itself(init_method: str, rank: int, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rendezvous(init_method, rank, size, SHORT)


def test_variables_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "http")
    monkeypatch.setenv("RANK", "zero")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="RANK is a number from 0 on, not 'zero'"):
        rendezvous("env://")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ValueError, match="MASTER_PORT is a number from 0 on, not 'http'"):
        rendezvous("env://")


def test_nobody_there(free_port: int, tmp_path: Path) -> None:
    with pytest.raises(DistNetworkError, match=rf"rank 1 of 2: no store answers at 127.0.0.1:{free_port}"):
        rendezvous(f"tcp://127.0.0.1:{free_port}", 1, 2, SHORT)
    with pytest.raises(DistStoreError, match="cannot open"):
        rendezvous(f"file://{tmp_path}/none/store", 0, 2, SHORT)
    with pytest.raises(TypeError, match="init_method is a string"):
        rendezvous(None, 0, 1)  # type: ignore[arg-type]


def _misses(
    rank: int, size: int, init_method: str, world_size: int, seconds: float, late: float, started: Any
) -> str:
    started.wait(30)
    # The server's rank gives up first, and its program ends at once.
    time.sleep(late * rank)
    with pytest.raises((DistStoreError, DistNetworkError)) as caught:
        parallel.init_process_group(
            "gloo",
            init_method=init_method,
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=seconds + rank * 30),
        )
    assert not parallel.is_initialized()
    return str(caught.value)


@pytest.mark.parametrize("way", ["tcp", "file"])
@pytest.mark.parametrize(("size", "world_size"), [(3, 5), (2, 3), (1, 2)])
def test_every_rank_names_those_that_do_not_come(
    way: str, size: int, world_size: int, free_port: int, tmp_path: Path
) -> None:
    url = f"tcp://127.0.0.1:{free_port}" if way == "tcp" else f"file://{tmp_path}/store"
    missing = list(range(size, world_size))
    named = ", ".join(map(str, missing))
    begun = time.monotonic()
    for rank, text in enumerate(run(_misses, size, url, world_size, 1.5, 0.2, CONTEXT.Barrier(size))):
        assert f"rank {rank} waited for all {world_size} ranks" in text
        assert f"{len(missing)} rank{'s have' if len(missing) > 1 else ' has'} not joined: {named} (" in text
        assert ("waited" if rank == 0 else "rank 0 gave up after") in text.partition("(")[2]
    # Far from the others' own timeouts.
    assert time.monotonic() - begun < 25


def test_the_rank_that_serves_the_store_is_named_when_it_does_not_come(free_port: int) -> None:
    with pytest.raises(DistNetworkError, match=r"rank 1 of 2: no store answers .*rank 0\) running"):
        parallel.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{free_port}", rank=1, world_size=2, timeout=SHORT
        )


def _is_killed(rank: int, size: int, init_method: str) -> str:
    """Rank 0 serves the store, and dies while the others wait for one that does not come."""
    if rank == 0:
        child = os.fork()
        if child == 0:
            try:
                parallel.init_process_group("gloo", init_method=init_method, rank=0, world_size=4)
            finally:
                os._exit(0)
        time.sleep(1.5)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return ""
    with pytest.raises(DistNetworkError) as caught:
        parallel.init_process_group("gloo", init_method=init_method, rank=rank, world_size=4)
    return str(caught.value)


def test_the_rank_that_serves_the_store_is_named_when_it_dies(free_port: int) -> None:
    for text in run(_is_killed, 3, f"tcp://127.0.0.1:{free_port}")[1:]:
        assert "has gone" in text
        assert "rank 0, which serves it, ended or closed it" in text


def _patient(rank: int, size: int, init_method: str, timeout: timedelta) -> list[float]:
    parallel.init_process_group("gloo", init_method=init_method, rank=rank, world_size=size, timeout=timeout)
    x = tensor.full((3,), float(rank))
    work = parallel.all_reduce(x, async_op=True)
    assert work is not None
    work.wait(timeout)
    parallel.monitored_barrier()
    if rank == 0:
        time.sleep(0.2)
        parallel.send(x, 1)
    else:
        parallel.recv(x, 0)
    parallel.barrier()
    parallel.destroy_process_group()
    return x.tolist()


@pytest.mark.parametrize("way", ["tcp", "file"])
@pytest.mark.parametrize("timeout", [timedelta(days=30), timedelta.max])
def test_a_timeout_may_be_as_long_as_can_be(
    way: str, timeout: timedelta, free_port: int, tmp_path: Path
) -> None:
    url = f"tcp://127.0.0.1:{free_port}" if way == "tcp" else f"file://{tmp_path}/store"
    assert run(_patient, 2, url, timeout) == [[1.0] * 3] * 2


def _comes_again(rank: int, size: int, port: int) -> list[float]:
    url = f"tcp://127.0.0.1:{port}"
    sums = []
    for turn in range(4):
        parallel.init_process_group("gloo", init_method=url, rank=rank, world_size=size)
        total = tensor.tensor(float(rank + turn))
        parallel.all_reduce(total)
        sums.append(total.item())
        # Now one, now the other leaves first, and is back while the group of before is still there.
        if turn % size == rank:
            time.sleep(0.1)
        parallel.destroy_process_group()
    return sums


def test_a_group_after_another_at_the_same_port(free_port: int) -> None:
    sums = [2.0 * turn + 1 for turn in range(4)]
    assert run(_comes_again, 2, free_port) == [sums, sums]


def _comes_too_early(rank: int, size: int, port: int) -> str:
    url = f"tcp://127.0.0.1:{port}"
    parallel.init_process_group("gloo", init_method=url, rank=rank, world_size=size)
    parallel.barrier()
    told = ""
    if rank:
        parallel.destroy_process_group()
        try:
            parallel.init_process_group("gloo", init_method=url, rank=rank, world_size=size, timeout=SHORT)
        except DistNetworkError as error:
            told = str(error)
    else:
        time.sleep(1)
        parallel.destroy_process_group()
    return told


def test_a_group_after_one_that_rank_0_does_not_leave(free_port: int) -> None:
    assert "rank 0 has not destroyed that yet" in run(_comes_too_early, 2, free_port)[1]
