"""Plans: the losses of one process, alone and with ``fully_shard`` on one mesh, what is exchanged, checkpoints, and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nn
import parallel
import tensor
from parallel import checkpoint, fully_shard
from parallel.fsdp import MixedPrecisionPolicy
from parallel.sharding import redistribution
from parallel.tensor import DTensor, Replicate, Shard, distribute_tensor
from parallel.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from tests.parallel.thread_ranks import run_threads

pytestmark = pytest.mark.simulator_only


@pytest.fixture(autouse=True)
def _full_precision() -> Iterator[None]:
    before = tensor.backends.cuda.matmul.allow_tf32
    tensor.backends.cuda.matmul.allow_tf32 = False
    yield
    tensor.backends.cuda.matmul.allow_tf32 = before


#: Eight ranks have a head each; ten tokens divide unevenly among four.
HEADS, WIDTH, TOKENS, LENGTH = 8, 16, 10, 8


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        q, k, v = (each(x) for each in (self.query, self.key, self.value))
        # As many heads as this rank has.
        q, k, v = (each.unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for each in (q, k, v))
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(attended.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 12), nn.GELU(), nn.Linear(12, WIDTH))

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH, padding_idx=7)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, TOKENS)
        with tensor.no_grad():
            for number, each in enumerate(self.parameters()):
                each.copy_((tensor.arange(each.numel()).reshape(each.shape) * 1.7 + number).sin() * 0.4)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


#: Weights are divided, activations whole.
WEIGHTS: dict[str, Any] = {
    "embedding": ColwiseParallel(output_layouts=Replicate()),
    "blocks.*.attention.[qkv]*": ColwiseParallel(),
    "blocks.*.attention.out": RowwiseParallel(),
    "blocks.*.mlp.0": ColwiseParallel(),
    "blocks.*.mlp.2": RowwiseParallel(),
    "head": ColwiseParallel(output_layouts=Replicate()),
}
#: The norms, and what is added up, are divided along the sequence, too.
SEQUENCE: dict[str, Any] = {
    **WEIGHTS,
    "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "blocks.*.norm?": SequenceParallel(),
    "norm": SequenceParallel(),
    "blocks.*.attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "blocks.*.attention.out": RowwiseParallel(output_layouts=Shard(1)),
    "blocks.*.mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "blocks.*.mlp.2": RowwiseParallel(output_layouts=Shard(1)),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}
PLANS = {"weights": WEIGHTS, "sequence": SEQUENCE}


def _batch(number: int, device: str) -> tuple[Any, Any]:
    numbers = np.random.default_rng(number)
    x, y = (numbers.integers(0, TOKENS, (1, LENGTH)) for _ in range(2))
    return tensor.tensor(x, device=device), tensor.tensor(y, device=device)


def _train(model: Any, device: str, part: int, parts: int, turns: int = 2) -> tuple[list[Any], Any]:
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.02, eps=1e-3)
    losses = []
    for turn in range(turns):
        optimizer.zero_grad(set_to_none=turn != 1)
        total = tensor.zeros((), device=device)
        for number in range(part, 2, parts):
            x, y = _batch(2 * turn + number, device)
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten()) / (2 // parts)
            loss.backward()
            total += loss.detach()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append((total.item(), norm.item()))
    return losses, optimizer


def _whole(state: Any) -> dict[str, Any]:
    return {
        name: (each.full_tensor() if isinstance(each, DTensor) else each).cpu().numpy()
        for name, each in state.items()
    }


def _alone(turns: int = 2) -> tuple[list[Any], dict[str, Any]]:
    model = GPT()
    losses, _ = _train(model, "cpu", 0, 1, turns)
    return losses, _whole(model.state_dict())


def _compare(results: list[Any], expected: Any) -> None:
    for losses, state in results:
        np.testing.assert_allclose(losses, expected[0], rtol=1e-4)
        assert state.keys() == expected[1].keys()
        for name, value in expected[1].items():
            np.testing.assert_allclose(state[name], value, rtol=2e-4, atol=2e-5, err_msg=name)


def _divided(rank: int, size: int, device: str, plan: str) -> Any:
    mesh = parallel.init_device_mesh(device, (size,))
    model = GPT().to(device)
    assert parallelize_module(model, mesh, PLANS[plan]) is model
    assert type(model.head).__name__ == "Linear" and isinstance(model.head, nn.Linear)
    assert model.blocks[0].mlp[0].weight.to_local().numel() < model.blocks[0].mlp[0].weight.numel()
    losses, _ = _train(model, device, 0, 1)
    return losses, _whole(model.state_dict())


@pytest.mark.parametrize("plan", PLANS)
def test_training_is_that_of_one_process(plan: str) -> None:
    """A transformer, divided with uneven vocabularies and widths."""
    _compare(run_threads(_divided, 4, "cpu", plan), _alone())


def _step(rank: int, size: int, plan: str) -> Any:
    mesh = parallel.init_device_mesh("cuda", (size,))
    model = GPT(1).to("cuda")
    parallelize_module(model, mesh, PLANS[plan])
    losses, _ = _train(model, "cuda", 0, 2, turns=1)
    return losses, _whole(model.state_dict())


@pytest.mark.parametrize(
    ("plan", "size", "seed"),
    [
        ("sequence", 2, 5),
        pytest.param("sequence", 4, 6, marks=pytest.mark.nightly),
        pytest.param("weights", 2, 7, marks=pytest.mark.nightly),
        pytest.param("weights", 8, 8, marks=pytest.mark.nightly),
    ],
)
def test_a_step_without_races(plan: str, size: int, seed: int) -> None:
    model = GPT(1)
    losses, _ = _train(model, "cpu", 0, 2, turns=1)
    results = run_threads(_step, size, plan, device="cuda", schedule="random", seed=seed)
    _compare(results, (losses, _whole(model.state_dict())))


def _on_one_mesh(rank: int, size: int, device: str, plan: str, shape: Any, names: Any) -> Any:
    mesh = parallel.init_device_mesh(device, shape, mesh_dim_names=names)
    model = GPT().to(device)
    parallelize_module(model, mesh["tp"], PLANS[plan])
    data = mesh[names[:-1]]
    for block in model.blocks:
        fully_shard(block, mesh=data)
    fully_shard(model, mesh=data)
    weight = model.blocks[0].mlp[0].weight
    assert weight.device_mesh == mesh and weight.shape == (12, WIDTH)
    assert repr(weight.placements[-2:]) == "(_StridedShard(dim=0, split_factor=2), Shard(dim=0))"
    assert model.blocks[0].mlp[2].weight.placements[-2:] == (Shard(0), Shard(1))
    losses, _ = _train(model, device, rank // 2 % 2, 2)
    losses = np.array(losses)
    means = tensor.tensor(losses[:, 0], device=device)
    parallel.all_reduce(means, parallel.ReduceOp.AVG)
    losses[:, 0] = means.cpu().numpy()
    return losses, _whole(model.state_dict())


@pytest.mark.parametrize(
    ("device", "options"),
    [
        pytest.param("cpu", {}, id="cpu"),
        pytest.param("cuda", {"schedule": "random", "seed": 7}, id="random", marks=pytest.mark.nightly),
    ],
)
def test_with_fully_shard_on_one_mesh(device: str, options: dict[str, Any]) -> None:
    results = run_threads(_on_one_mesh, 4, device, "sequence", (2, 2), ("dp", "tp"), device=device, **options)
    _compare(results, _alone())


@pytest.mark.nightly
def test_replicas_of_shards_of_parts_on_eight_ranks() -> None:
    shape, names = (2, 2, 2), ("replicate", "shard", "tp")
    _compare(run_threads(_on_one_mesh, 8, "cpu", "weights", shape, names), _alone())


def _with_placed_inputs(rank: int, size: int, dtype: Any) -> list[Any]:
    mesh = parallel.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model, x = _pair()
    style = {"use_local_output": False}
    plan = {"0": ColwiseParallel(**style), "1": RowwiseParallel(**style)}
    parallelize_module(model, mesh["tp"], plan)
    policy = MixedPrecisionPolicy(param_dtype=dtype)
    placements: list[Any] = []
    for layer in model:
        fully_shard(layer, mesh=mesh["dp"], mp_policy=policy)
        layer.register_forward_pre_hook(lambda _, args: placements.append(args[0].placements))
    fully_shard(model, mesh=mesh["dp"], mp_policy=policy)
    x = distribute_tensor(x.detach(), mesh["tp"]).requires_grad_()
    output = model(x)
    assert isinstance(output, DTensor) and output.dtype is (dtype or tensor.float32)
    assert placements == [(Replicate(),), (Shard(1),)]
    output.full_tensor().square().sum().backward()
    assert x.grad is not None and x.grad.placements == (Replicate(),)
    gradients = [each.grad for each in model.parameters()]
    return [each.full_tensor().numpy() for each in (x.grad, *gradients)]


def _pair() -> tuple[Any, Any]:
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3))
    with tensor.no_grad():
        for number, each in enumerate(model.parameters()):
            each.copy_((tensor.arange(each.numel()).reshape(each.shape) * 1.7 + number).sin())
    return model, tensor.arange(8.0).reshape(2, 4).requires_grad_()


@pytest.mark.parametrize("dtype", [None, tensor.float64], ids=str)
def test_inputs_of_sharded_modules_stay_on_their_mesh(dtype: Any) -> None:
    model, x = _pair()
    model(x).square().sum().backward()
    expected = [each.grad.numpy() for each in (x, *model.parameters())]
    for gradients in run_threads(_with_placed_inputs, 4, dtype):
        for one, other in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def _exchanges(rank: int, size: int, plan: str) -> list[Any]:
    mesh = parallel.init_device_mesh("cpu", (size,))
    block = Block()
    prefix = "blocks.*."
    parallelize_module(
        block,
        mesh,
        {name[len(prefix) :]: style for name, style in PLANS[plan].items() if name.startswith(prefix)},
    )
    calls: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        if rank == 0:
            for name in ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"):
                function = getattr(redistribution, name)

                def counted(*args: Any, name: str = name, function: Any = function, **kwargs: Any) -> Any:
                    if parallel.get_rank() == 0:
                        calls.append(name)
                    return function(*args, **kwargs)

                patch.setattr(redistribution, name, counted)
        parallel.barrier()
        length = LENGTH // size if plan == "sequence" else LENGTH
        output = block(tensor.ones(1, length, WIDTH, requires_grad=True))
        forward = len(calls)
        output.sum().backward()
        parallel.barrier()
    return [calls[:forward], sorted(calls[forward:])]


def test_what_ranks_exchange() -> None:
    """Two reductions for a block in the forward pass, which gathers and scatters replace along the sequence."""
    weights, sequence = (run_threads(_exchanges, 2, plan)[0] for plan in PLANS)
    # Without a DTensor that they share, query, key and value each add up the gradient of their input.
    assert weights == [["all_reduce"] * 2, ["all_reduce"] * 4]
    gather, scatter = "all_gather_into_tensor", "reduce_scatter_tensor"
    # The gradients of two norms and two biases are sums over the ranks: six tensors.
    assert sequence == [[gather, scatter] * 2, [gather] * 2 + ["all_reduce"] * 6 + [scatter] * 2]


def _saved(rank: int, size: int, folder: str) -> Any:
    mesh = parallel.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
    model = GPT()
    parallelize_module(model, mesh["tp"], SEQUENCE)
    fully_shard(model, mesh=mesh["dp"])
    _, optimizer = _train(model, "cpu", rank // 2, 2)
    states = checkpoint.get_state_dict(model, optimizer)
    checkpoint.save({"model": states[0], "optimizer": states[1]}, checkpoint_id=folder)


def _resumed(rank: int, size: int, folder: str, plan: str | None) -> Any:
    model = GPT()
    if plan is not None:
        parallelize_module(model, parallel.init_device_mesh("cpu", (size,)), PLANS[plan])
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.02, eps=1e-3)
    states = checkpoint.get_state_dict(model, optimizer)
    state = {"model": states[0], "optimizer": states[1]}
    checkpoint.load(state, checkpoint_id=folder)
    checkpoint.set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    weight = model.blocks[1].mlp[2].weight
    average = optimizer.state[weight]["exp_avg"]
    if plan is not None:
        average = DTensor.from_local(
            average, weight.device_mesh, weight.placements, shape=weight.shape
        ).full_tensor()
    return _whole(model.state_dict()), average.numpy()


def test_checkpoints_are_read_by_other_plans_and_numbers_of_ranks(tmp_path: Any) -> None:
    folder = str(tmp_path / "checkpoint")
    run_threads(_saved, 4, folder)
    _, expected = _alone()
    reference = run_threads(_resumed, 1, folder, None)[0]
    for results in (run_threads(_resumed, 3, folder, "weights"), [reference]):
        for state, average in results:
            for name, value in expected.items():
                np.testing.assert_allclose(state[name], value, rtol=2e-4, atol=2e-5, err_msg=name)
            np.testing.assert_array_equal(average, reference[1])


class Pair(nn.Module):
    def forward(self, x: Any, other: Any, *, scale: Any) -> Any:
        return x, other * scale.full_tensor().sum() if isinstance(scale, DTensor) else other


def _prepared(rank: int, size: int) -> None:
    mesh = parallel.init_device_mesh("cpu", (size,))
    style = PrepareModuleInputOutput(
        input_layouts=(Shard(0), None),
        desired_input_layouts=(Replicate(), None),
        input_kwarg_layouts={"scale": Shard(0)},
        desired_input_kwarg_layouts={"scale": Replicate()},
        output_layouts=(Replicate(), None),
        desired_output_layouts=(Shard(1), None),
    )
    module = parallelize_module(Pair(), mesh, style)
    x, other = module(tensor.full((1, 4), float(rank)), 3, scale=tensor.ones(2))
    assert x.tolist() == [[0.0, 0.0], [1.0, 1.0]] and other.item() == 12
    with pytest.raises(ValueError, match="Pair got 1 positional"):
        module(x, scale=x)
    output = parallelize_module(
        nn.Identity(),
        mesh,
        PrepareModuleOutput(
            output_layouts=Shard(0), desired_output_layouts=Replicate(), use_local_output=False
        ),
    )(tensor.ones(2, 2))
    assert isinstance(output, DTensor) and output.shape == (4, 2)


def test_inputs_and_outputs() -> None:
    run_threads(_prepared, 2)


def _refused(rank: int, size: int) -> None:
    mesh = parallel.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    linear = nn.Linear(2, 2)
    style = ColwiseParallel()
    for error, words, call in [
        (ValueError, "pass device_mesh=", lambda: parallelize_module(linear, None, style)),
        (ValueError, "mesh\\['tp'\\]", lambda: parallelize_module(linear, mesh, style)),
        (TypeError, "takes a module, got int", lambda: parallelize_module(3, mesh["tp"], style)),
        (TypeError, "parallelize_plan", lambda: parallelize_module(linear, mesh["tp"], 3)),  # type: ignore[arg-type]
        (
            NotImplementedError,
            "only support nn.Linear",
            lambda: parallelize_module(Pair(), mesh["tp"], style),
        ),
        (
            NotImplementedError,
            "max_norm=1.0",
            lambda: parallelize_module(nn.Embedding(2, 2, max_norm=1.0), mesh["tp"], style),
        ),
        (TypeError, "output_layouts=...", lambda: ColwiseParallel(output_layouts=1)),  # type: ignore[arg-type]
        (AssertionError, "same length", lambda: PrepareModuleInput(input_layouts=Shard(0))),
    ]:
        with pytest.raises(error, match=words):
            call()
    with pytest.warns(UserWarning, match="could not be resolved"):
        parallelize_module(linear, mesh["tp"], {"nothing": style})
    with pytest.warns(UserWarning, match="will do nothing"):
        parallelize_module(linear, mesh["tp"])
    assert type(linear.weight) is nn.Parameter
    parallelize_module(linear, mesh["tp"], style)
    with pytest.raises(ValueError, match="'weight' of Linear is placed already"):
        parallelize_module(linear, mesh["tp"], style)
    with pytest.raises(ValueError, match="mesh\\['dp'\\] and mesh\\['tp'\\]"):
        fully_shard(linear, mesh=mesh["tp"])


def test_refusals() -> None:
    run_threads(_refused, 1)
