"""Training of ``DistributedDataParallel`` that CUDA graphs replay, with NCCL; what other backends say."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import drv
import nn
import parallel
import tensor
from tensor import cuda
from tests.parallel.backends.nccl.fake_nccl import FakeNccl

pytestmark = pytest.mark.simulator_only


@pytest.fixture(params=[("eager", 0), ("lazy", 0), ("random", 1)], ids=str)
def job(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[FakeNccl]:
    """A job of one rank, on a stand-in for NCCL."""
    schedule, seed = request.param
    drv.simulator.install(schedule=schedule, seed=seed, check="race")
    runtime = drv.runtime()
    library: FakeNccl = runtime.cache(("library", "nccl"), lambda: FakeNccl(runtime))
    parallel.init_process_group(
        "nccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1, timeout=timedelta(seconds=20)
    )
    yield library
    parallel.destroy_process_group()
    assert not library.violations


def network() -> Any:
    tensor.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4)).cuda()


def trained(library: FakeNccl, *, replays: bool, **options: Any) -> tuple[list[float], list[Any]]:
    """Losses and parameters of some steps; the later ones are replays, or as the first ones."""
    module = network()
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        model = parallel.DistributedDataParallel(module, device_ids=[0], bucket_cap_mb=0.0001, **options)
    optimizer = nn.optim.AdamW(module.parameters(), capturable=True)
    x = tensor.zeros(6, 8, device="cuda")

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    tensor.manual_seed(2)
    x.copy_(tensor.linspace(-1, 1, 48).view(6, 8))
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(3):
            step()
    cuda.current_stream().wait_stream(side)
    g = cuda.CUDAGraph()
    if replays:
        before = len(library.calls)
        with cuda.graph(g, capture_error_mode="thread_local"):
            loss = step()
        assert [name for _, name in library.calls[before:]].count("ncclAllReduce") >= 2
    losses = []
    for number in range(3):
        x.copy_(tensor.linspace(-1, 2 + number, 48).view(6, 8))
        if replays:
            g.replay()
        else:
            with cuda.stream(side):
                side.wait_stream(cuda.default_stream())
                loss = step()
            cuda.current_stream().wait_stream(side)
        losses.append(loss.item())
    return losses, [each.detach().cpu() for each in module.parameters()]


@pytest.mark.parametrize(
    "options", [{}, {"gradient_as_bucket_view": True}, {"static_graph": True}], ids=lambda o: str(list(o))
)
@pytest.mark.sampled(4)
def test_replayed_training_equals_eager_training(job: FakeNccl, options: dict[str, Any]) -> None:
    # A graph keeps what it was captured of, so memory of NCCL's stand-in is there at each replay.
    expected = trained(job, replays=False, **options)
    result = trained(job, replays=True, **options)
    assert result[0] == expected[0]
    assert all(tensor.equal(a, b) for a, b in zip(result[1], expected[1], strict=True))


def test_collectives_in_a_capture(job: FakeNccl) -> None:
    x = tensor.ones(5, device="cuda")
    with (
        pytest.raises(drv.CaptureError, match="created by its first operation"),
        cuda.graph(cuda.CUDAGraph()),
    ):
        parallel.all_reduce(x)
    parallel.all_reduce(x)
    g = cuda.CUDAGraph()
    with cuda.graph(g, capture_error_mode="thread_local"):
        x += 1
        parallel.all_reduce(x)
        x *= 2
    g.replay()
    g.replay()
    assert x.tolist() == [((1 + 1) * 2 + 1) * 2] * 5
    with pytest.raises(drv.CaptureError), cuda.graph(cuda.CUDAGraph(), capture_error_mode="thread_local"):
        parallel.barrier()
    parallel.barrier()
    parallel.all_reduce(x)
    assert x.tolist() == [10] * 5


def test_asking_which_parameters_were_used_is_refused(job: FakeNccl) -> None:
    with pytest.raises(drv.CaptureError, match="use static_graph=True"):
        trained(job, replays=True, find_unused_parameters=True)


def test_other_backends_refuse(tmp_path: Any) -> None:
    drv.simulator.install(schedule="lazy", check="race")
    parallel.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        x = tensor.ones(5, device="cuda")
        parallel.all_reduce(x)
        for call in (lambda: parallel.all_reduce(x), lambda: parallel.broadcast(x, 0)):
            with (
                pytest.raises(drv.CaptureError, match="Use the backend 'nccl'"),
                cuda.graph(cuda.CUDAGraph()),
            ):
                call()
        parallel.all_reduce(x)
        assert x.tolist() == [1] * 5
    finally:
        parallel.destroy_process_group()
