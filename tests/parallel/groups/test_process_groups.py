"""Groups: how they come and go, who is in them, and what happens when a rank does not come."""

from __future__ import annotations

import copy
import os
import socket
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import parallel
import tensor
from parallel import DistBackendError, GroupMember, HashStore
from tests.parallel.jobs import joined, use
from tests.parallel.processes import run
from tests.parallel.threads import together

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def alone() -> Iterator[None]:
    """A job of one rank."""
    parallel.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    if parallel.is_initialized():
        parallel.destroy_process_group()


def test_before_and_after() -> None:
    assert parallel.is_available()
    assert not parallel.is_initialized()
    assert parallel.group.WORLD is None
    assert parallel.get_pg_count() == 0
    for function in (
        parallel.get_rank,
        parallel.get_world_size,
        parallel.get_backend,
        parallel.new_group,
        parallel.barrier,
        parallel.destroy_process_group,
    ):
        with pytest.raises(ValueError, match="please make sure to call init_process_group"):
            function()
    threads = set(threading.enumerate())
    store = HashStore()
    # A store serves one job after another.
    for _ in range(2):
        parallel.init_process_group("gloo", store=store, rank=0, world_size=1)
        world = parallel.group.WORLD
        assert world is not None
        assert GroupMember.WORLD is world
        x = tensor.ones(3)
        parallel.all_reduce(x)
        assert x.tolist() == [1, 1, 1]
        with pytest.raises(ValueError, match="twice"):
            parallel.init_process_group("gloo", store=store, rank=0, world_size=1)
        parallel.destroy_process_group()
        assert set(threading.enumerate()) == threads
        with pytest.raises(ValueError, match="not been initialized"):
            parallel.all_reduce(x, group=world)


def test_what_a_group_says(alone: None) -> None:
    world = parallel.group.WORLD
    assert world is not None
    assert (world.rank(), world.size(), world.name(), world.ranks) == (0, 1, "gloo", (0,))
    assert parallel.get_backend() == parallel.Backend("GLOO") == parallel.Backend.GLOO == "gloo"
    with pytest.raises(ValueError, match="string-ish"):
        parallel.Backend(3)  # type: ignore[arg-type]
    assert parallel.get_backend_config() == "cpu:gloo,cuda:gloo"
    assert parallel.get_process_group_ranks(None) == [0]
    assert "gloo, rank 0 of 1" in repr(world)
    for function in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            function(world)


def test_a_group_that_is_gone(alone: None) -> None:
    result: Any = parallel.new_group([0])
    assert parallel.get_pg_count() == 2
    parallel.destroy_process_group(result)
    assert parallel.get_pg_count() == 1
    for call in (
        lambda: parallel.all_reduce(tensor.ones(1), group=result),
        lambda: parallel.destroy_process_group(result),
        lambda: parallel.get_rank(result),
    ):
        with pytest.raises(ValueError, match="has been destroyed"):
            call()
    parallel.destroy_process_group(GroupMember.NON_GROUP_MEMBER)
    parallel.barrier()


@pytest.mark.parametrize(
    ("error", "match", "options"),
    [
        (ValueError, "Unknown backend type 'goo'", {"backend": "goo"}),
        (ValueError, "Invalid device:backend", {"backend": "tpu:gloo"}),
        (ValueError, "Invalid device:backend", {"backend": "cpu:gloo,cpu:mpi"}),
        (ValueError, "nccl does not carry", {"backend": "cpu:nccl"}),
        (TypeError, "backend is a string", {"backend": 3}),
        (TypeError, "timedelta", {"timeout": 3}),
        (ValueError, "has to be positive", {"timeout": timedelta(0)}),
        (ValueError, "both init_method and store", {"init_method": "env://"}),
        (ValueError, "rank and world_size are needed", {"rank": -1}),
        (ValueError, "rank and world_size are needed", {"rank": 2}),
    ],
)
def test_arguments_that_do_not_fit(error: type[Exception], match: str, options: dict[str, Any]) -> None:
    argument: dict[str, Any] = {"backend": "gloo", "store": HashStore(), "rank": 0, "world_size": 1} | options
    with pytest.raises(error, match=match):
        parallel.init_process_group(**argument)
    assert not parallel.is_initialized()


def test_members_that_do_not_fit(alone: None) -> None:
    for ranks, match in (([5], "out of range"), ([0, 0], "duplicate"), ([], "is empty")):
        with pytest.raises(ValueError, match=match):
            parallel.new_group(ranks)
    with pytest.raises(ValueError, match="divisible by group_size=2"):
        parallel.new_subgroups(2)
    with pytest.raises(ValueError, match="must be positive"):
        parallel.new_subgroups(0)
    with pytest.raises(ValueError, match="both subgroups"):
        parallel.new_subgroups_by_enumeration([[0], [0]])


@pytest.mark.simulator_only
def test_nccl_needs_real_gpus() -> None:
    use("eager")
    for backend in ("nccl", "cpu:gloo,cuda:nccl"):
        with pytest.raises(RuntimeError, match="between real GPUs.*use the backend 'gloo'"):
            parallel.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
        assert not parallel.is_initialized()
    parallel.init_process_group(store=HashStore(), rank=0, world_size=1)
    assert parallel.get_backend() == "gloo"
    parallel.destroy_process_group()


def test_a_device_that_no_backend_carries() -> None:
    use("eager")
    parallel.init_process_group("cpu:gloo", store=HashStore(), rank=0, world_size=1)
    parallel.all_reduce(tensor.ones(1))
    with pytest.raises(RuntimeError, match="No backend type associated with device type cuda"):
        parallel.all_reduce(tensor.ones(1, device="cuda"))
    parallel.destroy_process_group()


def test_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": "0", "WORLD_SIZE": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    parallel.init_process_group("gloo")
    assert (parallel.get_rank(), parallel.get_world_size()) == (0, 1)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    with pytest.raises(RuntimeError, match="LOCAL_RANK"):
        parallel.get_node_local_rank()
    assert parallel.get_node_local_rank(3) == 3
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert parallel.get_node_local_rank() == 2
    parallel.destroy_process_group()


def _groups(rank: int, size: int, path: str, place: str) -> None:
    device = use(place)
    with joined(rank, size, path):
        halves, both = parallel.new_subgroups(2)
        assert isinstance(halves, parallel.ProcessGroup)
        assert both[rank // 2] is halves
        assert both[1 - rank // 2] == GroupMember.NON_GROUP_MEMBER
        odd = parallel.new_group(range(1, size, 2), group_desc="odd ranks")
        backwards: Any = parallel.new_group([2, 0], sort_ranks=False)
        assert parallel.get_rank(odd) == (rank // 2 if rank % 2 else -1)
        # Operations of several groups are under way at once, in any order.
        x = [tensor.full((100,), float(rank + 1), device=device) for _ in range(3)]
        works = [
            parallel.all_reduce(x[0], async_op=True),
            parallel.all_reduce(x[1], group=halves, async_op=True),
        ]
        if rank % 2:
            works.append(parallel.all_reduce(x[2], group=odd, async_op=True))
        for each in reversed(works):
            assert each is not None
            each.wait()
        assert x[0][0].item() == 10
        assert x[1][0].item() == (3 if rank < 2 else 7)
        assert x[2][0].item() == (6 if rank % 2 else rank + 1)
        if rank in (0, 2):
            assert parallel.get_rank(backwards) == (1 if rank == 0 else 0)
            y = tensor.full((2,), float(rank), device=device)
            parallel.broadcast(y, group_src=0, group=backwards)
            assert y.tolist() == [2.0, 2.0]
            assert parallel.get_global_rank(backwards, 1) == 0
            assert parallel.get_group_rank(backwards, 0) == 1
            with pytest.raises(ValueError, match="Global rank 1 is not part"):
                parallel.broadcast(y, 1, group=backwards)
        # The members alone.
        if rank > 1:
            own = parallel.new_group([2, 3], use_local_synchronization=True)
            y = tensor.ones(2, device=device)
            parallel.all_reduce(y, group=own)
            assert y.tolist() == [2.0, 2.0]
        parallel.destroy_process_group(halves)
        parallel.barrier()


@pytest.mark.parametrize("place", ["cpu", "random"])
def test_groups(tmp_path: Path, place: str) -> None:
    run(_groups, 4, str(tmp_path / "store"), place)


def _disagreement(rank: int, size: int, path: str) -> str:
    parallel.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    parallel.barrier()
    try:
        parallel.new_group([0, 1] if rank == 0 else [1])
    except DistBackendError as error:
        return str(error)
    finally:
        parallel.abort_process_group()
    return ""


def test_ranks_that_ask_for_different_groups(tmp_path: Path) -> None:
    texts = run(_disagreement, 2, str(tmp_path / "store"))
    assert sorted(map(bool, texts)) == [False, True]
    assert "ranks [0, 1]" in max(texts)
    assert "ranks [1]" in max(texts)


def _sizes(rank: int, size: int, path: str, place: str) -> list[str]:
    device = use(place)
    parallel.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    result = []
    try:
        parallel.all_reduce(tensor.ones(3 + rank, device=device))
    except DistBackendError as error:
        result.append(str(error))
    parallel.destroy_process_group()
    return result


@pytest.mark.parametrize("place", ["cpu", "lazy"])
def test_sizes_that_differ(tmp_path: Path, place: str) -> None:
    for result in run(_sizes, 2, str(tmp_path / "store"), place):
        assert "rank 1" in result[0]
        assert "all_reduce" in result[0]


def _death(rank: int, size: int, path: str) -> tuple[str, float]:
    parallel.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    parallel.barrier()
    if rank == 1:
        # As a crash ends a process.
        threading.Timer(0.2, os._exit, (0,)).start()
        time.sleep(5)
    start = time.monotonic()
    waiting = parallel.irecv(tensor.ones(1), 1)
    assert waiting is not None
    with pytest.raises(DistBackendError, match="rank 1"):
        parallel.all_reduce(tensor.ones(3))
    with pytest.raises(DistBackendError, match="rank 1"):
        waiting.wait()
    seconds = time.monotonic() - start
    # Who aborts ends connections too: not before the other has seen whose end was the first.
    Path(f"{path}-{rank}").touch()
    deadline = time.monotonic() + 20
    while not Path(f"{path}-{2 - rank}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    parallel.abort_process_group()
    assert not parallel.is_initialized()
    return "failed", seconds


def test_a_rank_that_dies(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="rank 1: died with exit code 0") as caught:
        run(_death, 3, str(tmp_path / "store"))
    assert "rank 0" not in str(caught.value)
    assert "rank 2" not in str(caught.value)


def _lateness(rank: int, size: int, path: str) -> list[str]:
    parallel.init_process_group(
        "gloo", init_method=f"file://{path}", rank=rank, world_size=size, timeout=timedelta(seconds=20)
    )
    result = []
    short = timedelta(seconds=0.3)
    parallel.monitored_barrier(timeout=timedelta(seconds=10))
    # Ranks 1 and 2 come to none of these.
    if rank in (0, 3):
        for everyone in (False, True):
            with pytest.raises(DistBackendError) as caught:
                parallel.monitored_barrier(timeout=short, wait_all_ranks=everyone)
            result.append(str(caught.value))
    quick = parallel.new_group(timeout=short)
    if rank == 0:
        with pytest.raises(DistBackendError) as caught:
            parallel.barrier(group=quick)
        result.append(str(caught.value))
    # Another group is not affected.
    parallel.barrier()
    parallel.destroy_process_group()
    return result


def test_ranks_that_come_late(tmp_path: Path) -> None:
    result = run(_lateness, 4, str(tmp_path / "store"))
    for texts in (result[0], result[3]):
        assert "Rank 1 failed to pass monitoredBarrier" in texts[0]
        assert "Ranks 1, 2 failed to pass monitoredBarrier" in texts[1]
    assert "barrier" in result[0][2]
    assert result[1] == result[2] == []


def _threads(rank: int, size: int, path: str) -> None:
    """Each thread has a group of its own."""
    with joined(rank, size, path):
        groups = [parallel.new_group() for _ in range(3)]

        def work(index: int) -> None:
            for count in range(20):
                x = tensor.full((50,), float(rank + count + index))
                parallel.all_reduce(x, group=groups[index])
                assert x[0].item() == 2 * (count + index) + 1

        together(work, 3)


def test_from_several_threads(tmp_path: Path) -> None:
    run(_threads, 2, str(tmp_path / "store"))
