"""What models of several processes leave behind, and what happens when a rank fails."""

from __future__ import annotations

import gc
import os
import tracemalloc
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import nn
import parallel
import tensor
from parallel import DistributedDataParallel
from tensor import cuda
from tests.parallel.jobs import joined
from tests.parallel.processes import RankError, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulator_only


def net() -> nn.Sequential:
    tensor.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))


def _memory(rank: int, size: int, store: str) -> None:
    drv.simulator.install()
    with joined(rank, size, store):
        for options in ({}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
            module = net().cuda()
            model = DistributedDataParallel(module, device_ids=[0], **options)
            x = tensor.ones(3, 4, device="cuda")
            seen = []
            gc.disable()
            try:
                for _ in range(5):
                    model(x).square().sum().backward()
                    model.zero_grad()
                    seen.append(cuda.memory_allocated())
                # Buckets are arranged anew once, before the second pass; nothing more is allocated.
                assert len(set(seen[1:])) == 1, seen
                gone = (
                    weakref.ref(model),
                    weakref.ref(model.reducer),
                    weakref.ref(model.reducer.buckets[0].flat),
                )
                before = cuda.memory_allocated()
                flat = sum(each.flat.nbytes for each in model.reducer.buckets)
                del model
                assert [each() for each in gone] == [None] * 3
                assert cuda.memory_allocated() <= before - flat
                # The module goes on alone.
                module(x).square().sum().backward()
                assert module[0].weight.grad is not None
            finally:
                gc.enable()
            del module


def test_memory_goes_with_the_model(tmp_path: Path) -> None:
    run(_memory, 1, str(tmp_path / "store"))


def _host_memory(rank: int, size: int, store: str) -> int:
    with joined(rank, size, store):
        model = DistributedDataParallel(net())
        x = tensor.ones(3, 4)

        def steps(count: int) -> None:
            for _ in range(count):
                model(x).square().sum().backward()
                model.zero_grad()

        steps(10)
        gc.collect()
        tracemalloc.start()
        steps(2)
        start = tracemalloc.get_traced_memory()[0]
        steps(30)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - start


def test_many_steps_take_no_memory(tmp_path: Path) -> None:
    for grown in run(_host_memory, 2, str(tmp_path / "store")):
        assert grown < 30_000


class Fails(nn.Module):
    """Raises in the backward pass, behind the last layer, if told to."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.fails = False

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        hidden = self.first(x)
        if self.fails:

            def hook(gradient: tensor.Tensor) -> None:
                raise ZeroDivisionError("in a hook")

            hidden.register_hook(hook)
        return self.last(hidden)


def _raises(rank: int, size: int, store: str) -> str:
    text = ""
    with joined(rank, size, store):
        group = parallel.new_group(timeout=timedelta(seconds=2))
        model = DistributedDataParallel(Fails(), bucket_cap_mb=1e-6, process_group=group)
        model(tensor.ones(1, 4)).sum().backward()
        model.module.fails = rank == 1
        if rank == 1:
            with pytest.raises(ZeroDivisionError):
                model(tensor.ones(1, 4)).sum().backward()
            # It does not go on as if nothing had happened.
            with pytest.raises(
                RuntimeError, match="or that the backward pass raised an exception.*first.weight"
            ):
                model(tensor.ones(1, 4))
        else:
            with pytest.raises(parallel.DistBackendError) as caught:
                model(tensor.ones(1, 4)).sum().backward()
            text = str(caught.value)
        parallel.barrier()
    return text


def test_a_rank_whose_backward_pass_raises(tmp_path: Path) -> None:
    texts = run(_raises, 2, str(tmp_path / "store"))
    assert "rank 1" in texts[0]


def _dies(rank: int, size: int, store: str) -> None:
    with joined(rank, size, store):
        model = DistributedDataParallel(net())
        model(tensor.ones(2, 4)).sum().backward()
        if rank == 1:
            os._exit(3)
        with pytest.raises(parallel.DistError, match="rank 1"):
            for _ in range(3):
                model(tensor.ones(2, 4)).sum().backward()


def test_a_rank_that_dies(tmp_path: Path) -> None:
    with pytest.raises(RankError, match="rank 1: died with exit code 3") as caught:
        run(_dies, 2, str(tmp_path / "store"))
    assert "rank 0" not in str(caught.value)


def _half(rank: int, size: int, store: str) -> Any:
    drv.simulator.install(check="race", schedule="random")
    with joined(rank, size, store):
        model = DistributedDataParallel(nn.Linear(4, 4).cuda(), device_ids=[0])
        optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
        scaler = tensor.amp.GradScaler("cuda", init_scale=4.0)
        numbers = np.random.default_rng(rank)
        for turn in range(3):
            optimizer.zero_grad()
            with tensor.autocast("cuda"):
                loss = model(tensor.tensor(numbers.standard_normal((3, 4), dtype=np.float32))).square().mean()
            if turn == 1 and rank == 1:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        result = [each.detach().cpu().numpy() for each in model.parameters()]
        return result, scaler.get_scale(), [str(each) for each in drv.simulator.findings()]


def test_mixed_precision(tmp_path: Path) -> None:
    """An overflow on one rank is one on all: the same steps are left out."""
    one, other = run(_half, 2, str(tmp_path / "store"))
    assert one[2] == other[2] == []
    assert one[1] == other[1] == 2.0
    for a, b in zip(one[0], other[0], strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_array_equal(a, b)


def _late_static(rank: int, size: int, store: str) -> Any:
    with joined(rank, size, store):
        module = Fails()
        module.unused = nn.Linear(2, 2)
        model = DistributedDataParallel(module, find_unused_parameters=True)
        model._set_static_graph()
        for _ in range(3):
            model.zero_grad()
            model(tensor.full((1, 4), float(rank))).sum().backward()
        assert module.unused.weight.grad is None
        # Derivatives of any order of this rank's own, of gradients that are averaged.
        model.zero_grad()
        model(tensor.full((1, 4), float(rank))).square().sum().backward(create_graph=True)
        return module.first.weight.grad.detach().numpy().copy()


def test_a_static_graph_that_is_set_later(tmp_path: Path) -> None:
    one, other = run(_late_static, 2, str(tmp_path / "store"))
    np.testing.assert_array_equal(one, other)
