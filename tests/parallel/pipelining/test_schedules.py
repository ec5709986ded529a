"""Pipelines: the losses and parameters of one process, alone and with data parallelism, what is saved at once, and refusals."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nn
import parallel
import tensor
from parallel import fully_shard
from parallel.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from parallel.tensor import DTensor
from tests.parallel.thread_ranks import run_threads

pytestmark = pytest.mark.simulator_only

SCHEDULES: dict[str, Any] = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}
WIDTH, TOKENS, LAYERS = 6, 9, 8


@pytest.fixture(autouse=True)
def _full_precision() -> Iterator[None]:
    before = tensor.backends.cuda.matmul.allow_tf32
    tensor.backends.cuda.matmul.allow_tf32 = False
    yield
    tensor.backends.cuda.matmul.allow_tf32 = before


class Layer(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        with tensor.no_grad():
            for each in self.parameters():
                each.copy_((tensor.arange(each.numel()).reshape(each.shape) * 1.7 + number).sin() * 0.6)

    def forward(self, x: Any) -> Any:
        return x + self.linear(x).tanh()


class Part(nn.Module):
    """Consecutive layers of a model, which passes the numbers of tokens on beside what it computes of them."""

    def __init__(self, part: int, parts: int) -> None:
        super().__init__()
        per_part = LAYERS // parts
        numbers = range(part * per_part, (part + 1) * per_part)
        self.embedding = self.head = None
        if part == 0:
            self.embedding = nn.Embedding(TOKENS, WIDTH)
            with tensor.no_grad():
                self.embedding.weight.copy_(tensor.arange(TOKENS * WIDTH).reshape(TOKENS, WIDTH).cos())
        self.layers = nn.ModuleDict({str(number): Layer(number) for number in numbers})
        if part == parts - 1:
            self.head = Layer(LAYERS)

    def forward(self, x: Any, tokens: Any = None, *, scale: float = 1.0) -> Any:
        if self.embedding is not None:
            x, tokens = self.embedding(x), x
        for layer in self.layers.values():
            x = layer(x)
        if self.head is None:
            return x, tokens
        return self.head(x) * scale + tokens.unsqueeze(-1) / TOKENS


def _batch(number: int, device: str) -> tuple[Any, Any]:
    numbers = np.random.default_rng(number)
    tokens, target = numbers.integers(0, TOKENS, (16, 3)), numbers.standard_normal((16, 3, WIDTH))
    return tensor.tensor(tokens, device=device), tensor.tensor(target, dtype=tensor.float32, device=device)


def _whole(module: Any) -> dict[str, Any]:
    return {
        name: (each.full_tensor() if isinstance(each, DTensor) else each).detach().cpu().numpy()
        for name, each in module.named_parameters()
    }


def _alone(steps: int) -> tuple[list[float], dict[str, Any]]:
    model = Part(0, 1)
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.02, eps=1e-3)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        x, target = _batch(step, "cpu")
        loss = nn.functional.mse_loss(model(x, scale=0.5), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, _whole(model)


def _train(
    rank: int, size: int, device: str, schedule: str, microbatches: int, data: str | None, steps: int
) -> Any:
    """Losses by step, in the last stage, and the stage's parameters."""
    stages = size if data is None else size // 2
    mesh = parallel.init_device_mesh(device, (size // stages, stages), mesh_dim_names=("dp", "pp"))
    replica, number = mesh.get_coordinate() or ()
    model: Any = Part(number, stages).to(device)
    module = model
    if data == "ddp":
        module = parallel.DistributedDataParallel(model, process_group=mesh.get_group("dp"))
    elif data == "fully_shard":
        for layer in model.layers.values():
            fully_shard(layer, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
    stage = PipelineStage(module, number, stages, tensor.device(device), group=mesh.get_group("pp"))
    runs = SCHEDULES[schedule](stage, microbatches, nn.functional.mse_loss)
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.02, eps=1e-3)
    means = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=step != 1)
        x, target = (each.chunk(size // stages)[replica] for each in _batch(step, device))
        losses: list[Any] = []
        kwargs = {"scale": 0.5} if stage.is_last else {}
        inputs = (x,) if stage.is_first else ()
        outputs = runs.step(*inputs, target=target, losses=losses, **kwargs)
        optimizer.step()
        assert len(losses) == (microbatches if stage.is_last else 0)
        assert stage.is_last == (outputs is not None)
        if stage.is_last:
            assert outputs.shape == target.shape and not outputs.requires_grad
            mean = sum(losses) / microbatches
            parallel.all_reduce(mean, parallel.ReduceOp.AVG, group=mesh.get_group("dp"))
            means.append(mean.item())
    return means, _whole(model)


def _compare(results: list[Any], expected: Any) -> None:
    names = set()
    for losses, state in results:
        if losses:
            np.testing.assert_allclose(losses, expected[0], rtol=1e-4)
        for name, value in state.items():
            np.testing.assert_allclose(value, expected[1][name], rtol=2e-4, atol=2e-5, err_msg=name)
        names |= state.keys()
    assert names == expected[1].keys()
    assert any(losses for losses, _ in results)


@pytest.mark.parametrize(
    ("schedule", "size", "microbatches"), [("1f1b", 4, 8), ("gpipe", 4, 2), ("1f1b", 2, 2)]
)
def test_training_is_that_of_one_process(schedule: str, size: int, microbatches: int) -> None:
    _compare(run_threads(_train, size, "cpu", schedule, microbatches, None, 3), _alone(3))


@pytest.mark.parametrize("data", ["ddp", "fully_shard"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_with_data_parallelism_on_one_mesh(schedule: str, data: str) -> None:
    _compare(run_threads(_train, 4, "cpu", schedule, 4, data, 3), _alone(3))


@pytest.mark.parametrize(
    ("schedule", "size", "data", "seed"),
    [
        ("1f1b", 2, None, 3),
        ("1f1b", 4, "fully_shard", 4),
        pytest.param("gpipe", 4, None, 5, marks=pytest.mark.nightly),
        pytest.param("1f1b", 8, None, 6, marks=pytest.mark.nightly),
        pytest.param("gpipe", 8, "fully_shard", 7, marks=pytest.mark.nightly),
        pytest.param("1f1b", 8, "ddp", 8, marks=pytest.mark.nightly),
    ],
)
def test_steps_without_races(schedule: str, size: int, data: str | None, seed: int) -> None:
    microbatches = max(2, size if data is None else size // 2)
    results = run_threads(
        _train, size, "cuda", schedule, microbatches, data, 2, device="cuda", schedule="random", seed=seed
    )
    _compare(results, _alone(2))


class _Saved:
    """A tensor that the graph has saved, while it has."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _most_saved(rank: int, size: int, schedule: str, microbatches: int) -> int:
    """How many micro-batches' tensors this stage's graph has saved at most, at the end of each forward pass."""
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
    alive: Any = weakref.WeakSet()
    each_time: list[int] = []
    counts: list[int] = []

    def pack(value: Any) -> _Saved:
        saved = _Saved(value)
        alive.add(saved)
        return saved

    def noted(*_: Any) -> None:
        counts.append(len(alive))

    module.register_forward_hook(noted)
    stage = PipelineStage(module, rank, size, "cpu")
    runs = SCHEDULES[schedule](stage, microbatches, nn.functional.mse_loss)
    batch = tensor.ones(2 * microbatches, WIDTH)
    with tensor.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.value):
        # What is received requires gradients.
        module(batch.detach().requires_grad_(rank > 0)).sum().backward()
        each_time.append(counts.pop())
        assert not alive
        runs.step(batch, target=batch)
    assert not alive and not stage.fwd_cache
    # The loss of the micro-batches before has saved something, too, in the last stage.
    return max(counts) // each_time[0]


def test_1f1b_saves_no_more_micro_batches_than_stages_follow() -> None:
    assert run_threads(_most_saved, 4, "1f1b", 8) == [4, 3, 2, 1]
    saved = run_threads(_most_saved, 4, "gpipe", 8)
    assert saved[:3] == [8, 8, 8] and saved[3] >= 8


def _evaluated(rank: int, size: int) -> Any:
    stage = PipelineStage(Part(rank, size), rank, size, "cpu")
    runs = Schedule1F1B(stage, 2, nn.functional.mse_loss)
    x, target = _batch(0, "cpu")
    losses: list[Any] = []
    with pytest.raises(RuntimeError, match="Call eval"), tensor.no_grad():
        runs.step(x, target=target)
    with tensor.no_grad():
        output = runs.eval(x, target=target, losses=losses)
        # Of another size than batches for training.
        assert (runs.eval(x) is None) == (rank != 1)
    runs.step(x[:4], target=target[:4], return_outputs=False)
    gradients = [each.grad.numpy().copy() for each in stage.submod.parameters() if each.grad is not None]
    runs.step(x[:4], target=target[:4])
    # Gradients of steps add up.
    for each, once in zip(stage.submod.parameters(), gradients, strict=True):
        np.testing.assert_allclose(each.grad.numpy(), 2 * once, rtol=1e-5)  # type: ignore[union-attr]
    return None if output is None else (output.numpy(), [each.item() for each in losses])


def test_evaluation_and_accumulation() -> None:
    none, (output, losses) = run_threads(_evaluated, 2)
    x, target = _batch(0, "cpu")
    with tensor.no_grad():
        expected = Part(0, 1)(x)
    assert none is None
    np.testing.assert_allclose(output, expected.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.mean(losses), nn.functional.mse_loss(expected, target).item(), rtol=1e-4)


def _stepped(library: Any, layers: Any, pipelining: Any, *, scale: bool) -> list[Any]:
    """Of a step of one stage: outputs, losses and gradients."""
    module = layers.Linear(4, 2)
    with library.no_grad():
        for number, each in enumerate(module.parameters()):
            each.copy_((library.arange(each.numel()).reshape(each.shape) * 1.7 + number).sin())
    stage = pipelining.PipelineStage(module, 0, 1, library.device("cpu"))
    spec = pipelining.microbatch.TensorChunkSpec
    runs = pipelining.Schedule1F1B(
        stage, 3, layers.functional.l1_loss, args_chunk_spec=(spec(1),), scale_grads=scale
    )
    x = library.arange(24.0).reshape(4, 6).cos()
    module.register_forward_pre_hook(lambda _, args: (args[0].T,))
    losses: list[Any] = []
    output = runs.step(x, target=library.ones(6, 2), losses=losses, loss_kwargs={"reduction": "sum"})
    return [
        output.detach().numpy(),
        [each.item() for each in losses],
        *(each.grad.numpy() for each in module.parameters()),
    ]


@pytest.mark.parity
@pytest.mark.parametrize("scale", [True, False])
def test_a_step_is_that_of_pytorch(scale: bool) -> None:
    import torch.distributed.pipelining

    ours = run_threads(lambda rank, size: _stepped(tensor, nn, parallel.pipelining, scale=scale), 1)[0]
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        theirs = _stepped(torch, torch.nn, torch.distributed.pipelining, scale=scale)
    finally:
        torch.distributed.destroy_process_group()
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


class Frozen(nn.Module):
    """The last of two results has no part in the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any, *others: Any) -> Any:
        return self.linear(x), x * 2 + self.linear.bias


def _unused(rank: int, size: int) -> Any:
    module: Any = Frozen()
    with tensor.no_grad():
        module.linear.weight.fill_(0.5)
        module.linear.bias.fill_(rank)
    if rank == 0:
        module.linear.weight.requires_grad_(False)
    stage = PipelineStage(module, rank, size, "cpu")
    runs = ScheduleGPipe(
        stage, 2, lambda output, target: (output[0] - target).square().sum(), scale_grads=False
    )
    output = runs.step(tensor.ones(4, 4), target=tensor.zeros(4, 4))
    assert rank != 1 or [tuple(each.shape) for each in output] == [(4, 4), (4, 4)]
    return [None if each.grad is None else each.grad.numpy() for each in module.parameters()]


def test_outputs_without_gradients() -> None:
    first, second = run_threads(_unused, 2)
    # One after the other, by hand: h = 2 + 0 for all; y = 4 + 1; dy = 2 * 5 each of 4 rows.
    assert first[0] is None
    np.testing.assert_allclose(first[1], np.full(4, 4 * 10 * 4 * 0.5))
    np.testing.assert_allclose(second[0], np.full((4, 4), 4 * 10 * 2.0))
    np.testing.assert_allclose(second[1], np.full(4, 40.0))


def _refused(rank: int, size: int) -> None:
    linear = nn.Linear(4, 4)
    for error, words, arguments in [
        (TypeError, "takes a module, got int", (3, rank, size, "cpu")),
        (ValueError, "Stage index 2 is out of range of 2", (linear, 2, 2, "cpu")),
        (ValueError, f"stage {1 - rank} of 2 on rank {rank} of a group of 2", (linear, 1 - rank, 2, "cpu")),
        (ValueError, "stage 0 of 3", (linear, 0, 3, "cpu")),
    ]:
        with pytest.raises(error, match=words):
            PipelineStage(*arguments)
    stage = PipelineStage(linear, rank, size, "cpu")
    with pytest.raises(ValueError, match="greater than or equal to the number of stages"):
        Schedule1F1B(stage, 1)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        ScheduleGPipe(stage, 0)
    runs = Schedule1F1B(stage, 2, nn.functional.mse_loss)
    x = tensor.ones(4, 4)
    if rank == 0:
        with pytest.raises(ValueError, match="into 2 micro-batches of one size"):
            runs.step(tensor.ones(3, 4))
    else:
        with pytest.raises(ValueError, match="needs target="):
            runs.step()
    parallel.barrier()
    runs.step(x, target=x)
    if rank == 0:
        with pytest.raises(ValueError, match=r"shape \[1, 4\].*shape \[2, 4\].* in the first micro-batch"):
            runs.step(tensor.ones(2, 4))
    parallel.barrier()
    named = PipelineStage(nn.Identity(), rank, size, "cpu", output_args=tensor.ones(3, 4))
    if rank == 0:
        with pytest.raises(ValueError, match="output_args says"):
            ScheduleGPipe(named, 2).eval(x)
        dictionary = PipelineStage(Dictionary(), rank, size, "cpu")
        with pytest.raises(TypeError, match="returned dict for the next stage"):
            ScheduleGPipe(dictionary, 2).eval(x)


class Dictionary(nn.Module):
    def forward(self, x: Any) -> Any:
        return {"x": x}


def test_refusals() -> None:
    run_threads(_refused, 2)
