"""DataLoader with worker processes: their batches, their errors, their end, and that nothing is left behind."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import tensor
from tensor.utils import data

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED = Path("/dev/shm")


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    deadline = time.monotonic() + 5
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not multiprocessing.active_children()
    if SHARED.is_dir():
        assert not list(SHARED.glob(f"graphroot-{os.getpid()}-*"))


class Rows(data.Dataset[Any]):
    """Large enough for shared memory, in batches of one too."""

    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: int) -> Any:
        return {"x": tensor.full((5000,), float(index)), "name": f"row {index}", "pid": os.getpid()}


class Misbehaving(data.Dataset[int]):
    def __init__(self, what: str) -> None:
        self.what = what

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        if index == 3:
            if self.what == "raise":
                raise KeyError("sample 3 is missing")
            if self.what == "odd":
                raise UnicodeDecodeError("utf-8", b"x", 0, 1, "bad")
            if self.what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.what == "exit":
                os._exit(7)
            if self.what == "sleep":
                time.sleep(60)
        return index


class Parts(data.IterableDataset[int]):
    """Each worker has its part of the numbers below 10; or with ``short`` the second one only one."""

    def __init__(self, short: bool = False) -> None:
        self.short = short

    def __iter__(self) -> Iterator[int]:
        info = data.get_worker_info()
        assert info is not None
        numbers = range(info.id, 10, info.num_workers)
        return iter(numbers[:1] if self.short and info.id else numbers)


class Drawn(data.Dataset[Any]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        info = data.get_worker_info()
        assert info is not None
        return info.id, info.seed, tensor.rand(()).item(), random.random(), np.random.rand()


class Slices(data.Dataset[Any]):
    def __init__(self) -> None:
        self.whole = tensor.arange(1_000_000)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return self.whole[index * 10 : index * 10 + 4]


def refuse(worker: int) -> None:
    raise OSError(f"worker {worker} cannot start")


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_batches_in_order(context: str) -> None:
    loader = data.DataLoader(Rows(), 2, num_workers=2, multiprocessing_context=context)
    batches = list(loader)
    assert [batch["x"][:, 4999].tolist() for batch in batches] == [[0, 1], [2, 3], [4, 5], [6]]
    assert batches[3]["name"] == ["row 6"]
    assert len({batch["pid"][0].item() for batch in batches} - {os.getpid()}) == 2
    batches[0]["x"].add_(1)
    assert batches[0]["x"][1, 0].item() == 2


def test_out_of_order_all_come() -> None:
    loader = data.DataLoader(Rows(), 1, num_workers=2, in_order=False)
    assert sorted(batch["x"][0, 0].item() for batch in loader) == list(range(7))


@pytest.mark.parametrize("prefetch", [1, 3])
def test_iterable_datasets(prefetch: int) -> None:
    loader = data.DataLoader(Parts(), 2, num_workers=2, prefetch_factor=prefetch)
    assert [batch.tolist() for batch in loader] == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]
    loader = data.DataLoader(Parts(short=True), 2, num_workers=2, prefetch_factor=prefetch)
    assert [batch.tolist() for batch in loader] == [[0, 2], [1], [4, 6], [8]]


def test_unbatched_views_travel_without_the_storage() -> None:
    result = list(data.DataLoader(Slices(), None, num_workers=1))
    assert [each.tolist() for each in result] == [list(range(i, i + 4)) for i in (0, 10, 20)]
    assert all(each.untyped_storage().nbytes() == 32 for each in result)


def test_random_numbers_differ_by_worker_and_repeat_by_seed() -> None:
    def drawn(seed: int) -> list[Any]:
        generator = tensor.Generator().manual_seed(seed)
        loader = data.DataLoader(Drawn(), None, num_workers=2, generator=generator)
        return list(loader)

    first = drawn(1)
    assert [each[0] for each in first] == [0, 1]
    assert first[1][1] == first[0][1] + 1
    assert all(a != b for a, b in zip(first[0], first[1], strict=True))
    assert first == drawn(1)
    assert first[0][2:] != drawn(2)[0][2:]
    assert data.get_worker_info() is None


def test_errors_come_with_their_class_and_traceback() -> None:
    batches = iter(data.DataLoader(Misbehaving("raise"), 1, num_workers=2))
    assert [next(batches).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="in DataLoader worker process 1") as caught:
        next(batches)
    assert "in __getitem__\n" in str(caught.value)
    assert "sample 3 is missing" in str(caught.value)
    with pytest.raises(StopIteration):
        next(batches)


def test_errors_that_take_no_message() -> None:
    with pytest.raises(RuntimeError, match="Caught UnicodeDecodeError in DataLoader worker"):
        list(data.DataLoader(Misbehaving("odd"), 6, num_workers=1))


def test_errors_of_the_start() -> None:
    with pytest.raises(OSError, match="worker 0 cannot start"):
        list(data.DataLoader(Rows(), num_workers=2, worker_init_fn=refuse))


@pytest.mark.parametrize(("what", "how"), [("kill", "killed by signal SIGKILL"), ("exit", "exit code 7")])
def test_a_dead_worker_is_noticed(what: str, how: str) -> None:
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=rf"worker \(pid\(s\) \d+\) exited unexpectedly.*{how}"):
        list(data.DataLoader(Misbehaving(what), 1, num_workers=2))
    assert time.monotonic() - began < 30


def test_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensor.utils.data.worker_pool._PATIENCE", 0.2)
    loader = data.DataLoader(Misbehaving("sleep"), 1, num_workers=2, timeout=1)
    with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
        list(loader)


def test_leaving_early() -> None:
    for batch in data.DataLoader(Rows(), 1, num_workers=2):
        assert batch["x"][0, 0].item() == 0
        break


def test_persistent_workers() -> None:
    loader = data.DataLoader(Rows(), 1, num_workers=2, persistent_workers=True)
    first = [batch["pid"].item() for batch in loader]
    batches = iter(loader)
    next(batches)
    again = iter(loader)
    assert [batch["x"][0, 0].item() for batch in again] == list(range(7))
    with pytest.raises(RuntimeError, match="another one of the same DataLoader"):
        next(batches)
    assert {batch["pid"].item() for batch in loader} == set(first)
    assert len(multiprocessing.active_children()) == 2
    del loader, again, batches


def test_persistent_workers_go_on_after_an_error() -> None:
    loader = data.DataLoader(Misbehaving("raise"), 1, num_workers=2, persistent_workers=True)
    for _ in range(2):
        batches = iter(loader)
        assert next(batches).item() == 0
        with pytest.raises(KeyError):
            list(batches)
    del loader, batches


def test_pinned(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--gpu"):
        drv.simulator.install(check="race")
    tensor.zeros(1, device="cuda")
    loader = data.DataLoader(Rows(), 2, num_workers=2, pin_memory=True, multiprocessing_context="spawn")
    batches = list(loader)
    assert all(batch["x"].is_pinned() and batch["pid"].is_pinned() for batch in batches)
    assert [batch["x"][0, 4999].item() for batch in batches] == [0, 2, 4, 6]


class OnDevice(data.Dataset[Any]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return tensor.zeros(1, device="cuda")


def test_forked_workers_cannot_use_a_device_of_their_parent(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--gpu"):
        drv.simulator.install(check="race")
    tensor.zeros(1, device="cuda")
    with pytest.raises(drv.ForkError, match="no CUDA context survives a fork"):
        list(data.DataLoader(OnDevice(), num_workers=1, multiprocessing_context="fork"))
