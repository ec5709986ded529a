"""What users call, on NCCL's stand-in: the ranks of a job are threads, each with a simulated device."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import drv
import nn
import parallel
import tensor
from parallel.groups.process_groups import Job, World, job
from parallel.groups.stores.store import HashStore
from tests.parallel.threads import together

from .fake_nccl import FakeNccl
from .test_nccl_on_devices import process_group

pytestmark = pytest.mark.simulator_only


class _World(threading.local):
    """A job is a process's; here it is a thread's."""

    found: World | None = None


@pytest.fixture(autouse=True)
def _jobs_of_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    worlds = _World()

    def found(_: Job) -> World | None:
        return worlds.found

    def become(_: Job, world: World | None) -> None:
        worlds.found = world

    monkeypatch.setattr(Job, "world", property(found, become), raising=False)
    monkeypatch.setattr(job, "lock", contextlib.nullcontext())
    yield


def _run(function: Callable[[int, int], Any], size: int, **options: Any) -> list[Any]:
    """``function(rank, size)`` as each rank of a job on NCCL."""

    def joined(rank: int, size: int, store: HashStore) -> Any:
        parallel.init_process_group(
            "nccl", store=store, rank=rank, world_size=size, device_id=rank, timeout=timedelta(seconds=20)
        )
        result = function(rank, size)
        parallel.destroy_process_group()
        return result

    return _run_ranks(joined, size, **options)


def _run_ranks(function: Callable[[int, int, HashStore], Any], size: int, **options: Any) -> list[Any]:
    drv.simulator.install(devices=size, **{"check": "race", **options})
    runtime = drv.runtime()
    library = runtime.cache(("library", "nccl"), lambda: FakeNccl(runtime))
    store = HashStore()

    def call(rank: int) -> Any:
        tensor.cuda.set_device(rank)
        return function(rank, size, store)

    results = together(call, size)
    for index in range(size):
        tensor.cuda.synchronize(index)
    assert library.violations == []
    assert not drv.simulator.findings()
    return results


def _collectives(rank: int, size: int) -> None:
    argument = tensor.arange(6.0, device="cuda").reshape(2, 3).t() + rank
    parallel.all_reduce(argument)
    base = tensor.arange(6.0).reshape(2, 3).t()
    assert argument.tolist() == (size * base + sum(range(size))).tolist()
    parts = [tensor.empty(3, device="cuda") for _ in range(size)]
    work = parallel.all_gather(parts, tensor.full((3,), float(rank), device="cuda"), async_op=True)
    assert work is not None
    work.wait()
    assert [part[0].item() for part in parts] == list(range(size))
    received = tensor.empty(size, device="cuda")
    parallel.all_to_all_single(received, tensor.arange(size, device="cuda") + 10.0 * rank)
    assert received.tolist() == [10.0 * other + rank for other in range(size)]
    if rank == 0:
        whole = [tensor.full((2,), float(other), device="cuda") for other in range(size)]
    part = tensor.empty(2, device="cuda")
    parallel.scatter(part, whole if rank == 0 else None, src=0)
    assert part.tolist() == [rank] * 2
    objects: list[Any] = [None] * size
    parallel.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": other} for other in range(size)]
    right, left = (rank + 1) % size, (rank - 1) % size
    arrived = tensor.empty(4, device="cuda")
    sent = tensor.full((4,), float(rank), device="cuda")
    for each in parallel.batch_isend_irecv(
        [parallel.P2POp(parallel.isend, sent, right), parallel.P2POp(parallel.irecv, arrived, left)]
    ):
        each.wait()
    assert arrived.tolist() == [left] * 4
    pair = parallel.new_group([0, size - 1])
    if rank in (0, size - 1):
        total = tensor.ones(2, device="cuda")
        parallel.all_reduce(total, group=pair)
        assert total.tolist() == [2, 2]
    parallel.barrier()


@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_collectives(schedule: str) -> None:
    _run(_collectives, 3, schedule=schedule)


def test_what_gpus_are_tested_with() -> None:
    _run_ranks(process_group, 2, schedule="random")


# The generator of random numbers is the process's.
_seeded = threading.Lock()


def _model() -> nn.Module:
    with _seeded:
        tensor.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).double()


def _data(number: int) -> tuple[tensor.Tensor, tensor.Tensor]:
    generator = tensor.Generator().manual_seed(number)
    return tensor.randn(4, 5, generator=generator), tensor.randn(4, 3, generator=generator)


def _gradients(model: nn.Module, module: nn.Module, number: int, device: str) -> list[tensor.Tensor]:
    values, target = (each.double().to(device) for each in _data(number))
    module.zero_grad()
    nn.functional.mse_loss(model(values), target).backward()
    result = [parameter.grad for parameter in module.parameters()]
    return [gradient.clone() for gradient in result if gradient is not None]


def _step(module: nn.Module, gradients: list[tensor.Tensor]) -> None:
    with tensor.no_grad():
        for parameter, gradient in zip(module.parameters(), gradients, strict=True):
            parameter -= 0.1 * gradient


def _train(rank: int, size: int) -> list[Any]:
    module = _model().cuda()
    # Small buckets, which are exchanged while the backward pass goes on.
    model = parallel.DistributedDataParallel(module, device_ids=[rank], bucket_cap_mb=0.0001)
    for step in range(3):
        _step(module, _gradients(model, module, 10 * step + rank, "cuda"))
    return [parameter.tolist() for parameter in module.parameters()]


@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_training(schedule: str) -> None:
    first, second = _run(_train, 2, schedule=schedule)
    assert first == second
    calls = drv.runtime().library("nccl").calls
    assert calls.count((1, "ncclAllReduce")) >= 6
    # The same steps in one process.
    module = _model()
    for step in range(3):
        each = [_gradients(module, module, 10 * step + rank, "cpu") for rank in range(2)]
        _step(module, [(one + other) / 2 for one, other in zip(*each, strict=True)])
    for result, expected in zip(first, module.parameters(), strict=True):
        np.testing.assert_allclose(result, expected.tolist(), rtol=1e-9, atol=1e-12)
