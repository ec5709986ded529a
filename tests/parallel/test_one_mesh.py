"""Pipeline, data and tensor parallelism on one mesh of simulated devices: the losses of one process, and no races."""

from __future__ import annotations

import numpy as np
import pytest

import nn
import parallel
import tensor
from parallel.pipelining import PipelineStage, Schedule1F1B
from parallel.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from tests.parallel.thread_ranks import run_threads

pytestmark = pytest.mark.simulator_only

BLOCKS, WIDTH, BATCH, STEPS = 4, 6, 16, 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def _model() -> nn.Sequential:
    model = nn.Sequential(*(Block() for _ in range(BLOCKS)))
    with tensor.no_grad():
        for number, each in enumerate(model.parameters()):
            each.copy_((tensor.arange(each.numel()).reshape(each.shape) + number).sin() * 0.4)
    return model


def _batch(step: int) -> tuple[tensor.Tensor, tensor.Tensor]:
    numbers = np.random.default_rng(step)
    x, target = numbers.standard_normal((2, BATCH, WIDTH), dtype=np.float32)
    return tensor.tensor(x), tensor.tensor(target)


def _alone() -> list[float]:
    model, losses = _model(), []
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.02)
    for step in range(STEPS):
        x, target = _batch(step)
        loss = nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _train(rank: int, size: int, shape: tuple[int, int, int]) -> list[float]:
    """The losses as the last stage knows them; nothing elsewhere."""
    mesh = parallel.init_device_mesh("cuda", shape, mesh_dim_names=("pp", "dp", "tp"))
    stages, replicas, _ = shape
    number, replica = mesh.get_local_rank("pp"), mesh.get_local_rank("dp")
    module = nn.Sequential(
        *list(_model())[number * BLOCKS // stages : (number + 1) * BLOCKS // stages]
    ).cuda()
    plan = {"*.up": ColwiseParallel(), "*.down": RowwiseParallel()}
    parallelize_module(module, mesh["tp"], plan)
    for block in module:
        parallel.fully_shard(block, mesh=mesh["dp"])
    parallel.fully_shard(module, mesh=mesh["dp"])
    stage = PipelineStage(module, number, stages, tensor.device("cuda", rank), group=mesh.get_group("pp"))
    schedule = Schedule1F1B(stage, n_microbatches=max(2, stages), loss_fn=nn.functional.mse_loss)
    optimizer = nn.optim.AdamW(module.parameters(), lr=0.02)
    losses = []
    for step in range(STEPS):
        x, target = (each.chunk(replicas)[replica].cuda() for each in _batch(step))
        optimizer.zero_grad()
        parts: list[tensor.Tensor] = []
        schedule.step(x, target=target, losses=parts)
        optimizer.step()
        if stage.is_last:
            loss = tensor.stack(parts).mean()
            parallel.all_reduce(loss, parallel.ReduceOp.AVG, group=mesh.get_group("dp"))
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    ("shape", "seed"),
    [
        ((1, 2, 1), 1),
        ((2, 1, 2), 2),
        ((2, 2, 2), 3),
        pytest.param((2, 1, 1), 4, marks=pytest.mark.nightly),
        pytest.param((1, 1, 2), 5, marks=pytest.mark.nightly),
        pytest.param((1, 2, 2), 6, marks=pytest.mark.nightly),
        pytest.param((2, 2, 1), 7, marks=pytest.mark.nightly),
        pytest.param((1, 4, 2), 8, marks=pytest.mark.nightly),
        pytest.param((1, 8, 1), 9, marks=pytest.mark.nightly),
        pytest.param((4, 2, 1), 10, marks=pytest.mark.nightly),
    ],
)
def test_losses_are_those_of_one_process(
    shape: tuple[int, int, int], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor.backends.cuda.matmul, "allow_tf32", False)
    size, expected = int(np.prod(shape)), _alone()
    results = [
        each for each in run_threads(_train, size, shape, device="cuda", schedule="random", seed=seed) if each
    ]
    assert len(results) == size // shape[0]
    for losses in results:
        assert losses == pytest.approx(expected, rel=1e-4)
