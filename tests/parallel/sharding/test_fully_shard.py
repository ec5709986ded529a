"""Sharded modules: the losses of one process, what is gathered and reduced when, memory, state dicts, and what is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import drv
import nn
import parallel
import tensor
from parallel.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from parallel.sharding.sharded_module import state_of
from parallel.tensor import DTensor, Shard, distribute_tensor
from tensor.utils.checkpoint import checkpoint
from tests.parallel.thread_ranks import run_threads

pytestmark = pytest.mark.simulator_only

#: Where ranks compute: the type of device, and how simulated devices run what is queued.
DEVICES: list[Any] = [
    pytest.param("cpu", {}, id="cpu"),
    pytest.param("cuda", {"schedule": "random", "seed": 3}, id="random"),
    pytest.param("cuda", {"schedule": "lazy"}, id="lazy", marks=pytest.mark.nightly),
    pytest.param("cuda", {"schedule": "random", "seed": 4}, id="random-4", marks=pytest.mark.nightly),
]


@pytest.fixture(autouse=True)
def _full_precision() -> Iterator[None]:
    before = tensor.backends.cuda.matmul.allow_tf32
    tensor.backends.cuda.matmul.allow_tf32 = False
    yield
    tensor.backends.cuda.matmul.allow_tf32 = before


class Block(nn.Module):
    """A frozen layer, a parameter with fewer rows than ranks, and arguments and results inside others."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(size, size).requires_grad_(False)
        self.linear = nn.Linear(size, size)
        self.scale = nn.Parameter(tensor.ones(1))
        self.unused = nn.Parameter(tensor.ones(2))
        self.norm = nn.BatchNorm1d(size)

    def forward(self, inputs: dict[str, Any], *, shift: tensor.Tensor) -> dict[str, Any]:
        x = inputs["x"]
        x = x + nn.functional.gelu(self.frozen(x) + self.linear(self.norm(x) * self.scale)) + shift
        return {"x": x, "name": "block"}


class Net(nn.Module):
    """Token embedding whose weight is also the last layer's, and blocks, of which some are checkpointed."""

    def __init__(self, *, checkpointed: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.blocks = nn.ModuleList(Block(5) for _ in range(3))
        self.head = nn.Linear(5, 7)
        self.head.weight = self.embedding.weight
        self.checkpointed = checkpointed
        with tensor.no_grad():
            for number, each in enumerate(self.parameters()):
                each.copy_((tensor.arange(each.numel()).reshape(each.shape) + number).sin() * 0.6)

    def forward(self, tokens: tensor.Tensor) -> tensor.Tensor:
        value: dict[str, Any] = {"x": self.embedding(tokens)}
        for number, block in enumerate(self.blocks):
            shift = value["x"].mean()
            if self.checkpointed and number == 1:
                value = checkpoint(block, value, shift=shift, use_reentrant=False)
            else:
                value = block(value, shift=shift)
        return self.head(value["x"])


def _batch(rank: int, turn: int, device: str = "cpu") -> tuple[tensor.Tensor, tensor.Tensor]:
    numbers = np.random.default_rng(100 * turn + rank)
    return tensor.tensor(numbers.integers(0, 7, 6), device=device), tensor.tensor(
        numbers.integers(0, 7, 6), device=device
    )


def _alone(
    size: int, turns: int = 2, accumulate: int = 1
) -> tuple[list[float], dict[str, Any], dict[str, Any]]:
    """One process with all batches: losses, parameters and states of the optimizer at the end."""
    model = Net().eval()
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.05)
    losses = []
    for turn in range(turns):
        optimizer.zero_grad()
        total = 0.0
        for part in range(accumulate):
            batches = [_batch(rank, turn + 10 * part) for rank in range(size)]
            loss = sum(nn.functional.cross_entropy(model(x), y) for x, y in batches) / size
            loss.backward()
            total += loss.item()
        losses.append((total, nn.utils.clip_grad_norm_(model.parameters(), 0.5).item()))
        optimizer.step()
    state = {
        name: optimizer.state[each]["exp_avg"]
        for name, each in model.named_parameters()
        if each in optimizer.state
    }
    return losses, model.state_dict(), state


def _shard(model: Net, **options: Any) -> Net:
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def _train(model: Net, rank: int, device: str, turns: int = 2, accumulate: int = 1) -> tuple[Any, Any]:
    optimizer = nn.optim.AdamW(model.parameters(), lr=0.05)
    losses = []
    for turn in range(turns):
        optimizer.zero_grad(set_to_none=turn != 1)
        total = tensor.zeros((), device=device)
        for part in range(accumulate):
            model.set_requires_gradient_sync(part == accumulate - 1)
            x, y = _batch(rank, turn + 10 * part, device)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            total += loss.detach()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        # The next pass takes what was set outside of an optimizer, too.
        with tensor.no_grad():
            model(x)
        parallel.all_reduce(total)
        losses.append((total.item() / parallel.get_world_size(), norm.item()))
    return losses, optimizer


def _compare(results: list[Any], expected: Any) -> None:
    for losses, parameters, state in results:
        np.testing.assert_allclose(losses, expected[0], rtol=1e-4)
        for one, other in ((parameters, expected[1]), (state, expected[2])):
            assert one.keys() == other.keys()
            for name, value in other.items():
                np.testing.assert_allclose(one[name], value.numpy(), rtol=2e-4, atol=2e-5, err_msg=name)


def _outcome(model: Net, optimizer: Any, losses: Any) -> Any:
    state = {}
    for name, each in model.named_parameters():
        if each in optimizer.state:
            local = optimizer.state[each]["exp_avg"]
            state[name] = (
                DTensor.from_local(local, each.device_mesh, each.placements, shape=each.shape)
                .full_tensor()
                .cpu()
                .numpy()
            )
    full = {
        name: (each.full_tensor() if isinstance(each, DTensor) else each).cpu().numpy()
        for name, each in model.state_dict().items()
    }
    return losses, full, state


def _as_one_process(rank: int, size: int, device: str) -> Any:
    mesh = parallel.init_device_mesh(device, (size,))
    model = _shard(Net(checkpointed=True).eval(), mesh=mesh)
    losses, optimizer = _train(model, rank, device)
    return _outcome(model, optimizer, losses)


@pytest.mark.parametrize(("device", "options"), DEVICES)
@pytest.mark.sampled(4)
def test_training_is_that_of_one_process(device: str, options: dict[str, Any]) -> None:
    """Uneven parts, tied, frozen and unused parameters, a checkpoint, and clipping over the ranks."""
    size = 3 if device == "cpu" else 2
    _compare(run_threads(_as_one_process, size, device, device=device, **options), _alone(size))


def _variants(rank: int, size: int, device: str) -> list[Any]:
    results = []
    replicated = parallel.init_device_mesh(device, (2, size // 2), mesh_dim_names=("replicate", "shard"))
    for mesh, accumulate, options in [
        (replicated, 2, {}),
        (
            parallel.init_device_mesh(device, (size,)),
            2,
            {"reshard_after_forward": False},
        ),
        (parallel.init_device_mesh(device, (size,)), 2, {"reshard_after_forward": True}),
    ]:
        model = _shard(Net().eval(), mesh=mesh, **options)
        if options.get("reshard_after_forward") is False:
            model.set_reshard_after_backward(False)
            model.set_separate_reduce_scatter_group()
        losses, optimizer = _train(model, rank, device, accumulate=accumulate)
        results.append(_outcome(model, optimizer, losses))
    return results


@pytest.mark.parametrize(("device", "options"), [DEVICES[0], *DEVICES[2:]])
def test_meshes_of_two_dimensions_accumulation_and_resharding(device: str, options: dict[str, Any]) -> None:
    expected = _alone(4, accumulate=2)
    for results in zip(*run_threads(_variants, 4, device, device=device, **options), strict=True):
        _compare(list(results), expected)


def _offloaded(rank: int, size: int, device: str, accumulate: int, pinned: bool) -> Any:
    mesh = parallel.init_device_mesh(device, (size,))
    model = _shard(
        Net(checkpointed=True).eval(), mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=pinned)
    )
    # With the memory that products keep.
    tensor.eye(2, device=device).mm(tensor.eye(2, device=device))
    before = tensor.cuda.memory_allocated()
    losses, optimizer = _train(model, rank, device, accumulate=accumulate)
    model.zero_grad()
    for each in model.parameters():
        assert each.device.type == "cpu"
        assert each.is_pinned() == pinned
        assert all(state.device.type == "cpu" for state in optimizer.state.get(each, {}).values())
    # Nothing of parameters, gradients and states is left on the device.
    tensor.cuda.synchronize()
    assert tensor.cuda.memory_allocated() <= before
    return _outcome(model, optimizer, losses)


@pytest.mark.parametrize(
    ("accumulate", "pinned", "schedule"), [(1, True, "random"), (2, True, "lazy"), (2, False, "random")]
)
def test_shards_on_the_cpu(accumulate: int, pinned: bool, schedule: str) -> None:
    results = run_threads(
        _offloaded,
        2,
        "cuda",
        accumulate,
        pinned,
        device="cuda",
        schedule=schedule,
        backend="cpu:gloo,cuda:nccl",
    )
    _compare(results, _alone(2, accumulate=accumulate))


def _moments(rank: int, size: int) -> list[bool]:
    """Whether a hook behind each gradient of a shard finds it computed."""
    model = fully_shard(
        Layers(2, 6), mesh=parallel.init_device_mesh("cuda", (size,)), offload_policy=CPUOffloadPolicy()
    )
    seen: list[bool] = []
    for each in model.parameters():
        each.register_post_accumulate_grad_hook(lambda p: seen.append(bool(p.grad.to_local().ne(0).all())))
    model(tensor.ones(2, 6, device="cuda")).sum().backward()
    return seen


def test_hooks_behind_gradients_on_the_cpu() -> None:
    for seen in run_threads(_moments, 2, device="cuda", schedule="lazy", backend="cpu:gloo,cuda:nccl"):
        assert seen == [True] * 4


class Layers(nn.Module):
    """Layers of one size, that note which others are being gathered when they run."""

    def __init__(self, count: int, size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(size, size) for _ in range(count))

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x


def _overlap(rank: int, size: int) -> list[Any]:
    model = Layers(4, 6)
    mesh = parallel.init_device_mesh("cuda", (size,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    states = [state_of(layer) for layer in model.layers]
    events: list[Any] = []

    def note(what: str, number: int) -> Any:
        def hook(*_: Any) -> None:
            groups = [state.groups[0] for state in states]
            ahead = [other for other, group in enumerate(groups) if group.is_under_way]
            present = [other for other, group in enumerate(groups) if group.is_gathered]
            events.append((what, number, ahead, present, states[0].schedule._reduction is not None))

        return hook

    def watch(number: int) -> Any:
        return lambda layer, x, y: y.register_hook(note("backward", number)) and None

    for number, layer in enumerate(model.layers):
        layer.register_forward_pre_hook(note("forward", number))
        layer.register_forward_hook(watch(number))
    for _ in range(2):
        events.clear()
        model(tensor.ones(2, 6, device="cuda")).sum().backward()
    return events


def test_gathering_and_reducing_while_layers_compute() -> None:
    """Each layer computes while the next one's parameters, and the last one's gradients, are under way."""
    for events in run_threads(_overlap, 2, device="cuda", schedule="random"):
        forward = [
            ("forward", number, [number + 1] if number < 3 else [], [number], False) for number in range(4)
        ]
        backward = [
            ("backward", number, [number - 1] if number else [], [number], number < 3)
            for number in (3, 2, 1, 0)
        ]
        assert events == forward + backward


def _memory(rank: int, size: int) -> list[Any]:
    layers, width, rows = 6, 48, 4
    device = tensor.device("cuda", rank)
    mesh = parallel.init_device_mesh("cuda", (size,))
    x = tensor.ones(rows, width, device=device)

    def allocated() -> int:
        tensor.cuda.synchronize()
        return tensor.cuda.memory_allocated(device)

    def peak() -> int:
        tensor.cuda.synchronize()
        return tensor.cuda.max_memory_allocated(device)

    # Workspaces, and what is set up at the first use.
    nn.Linear(width, width).to(device)(x).sum().backward()
    start = allocated()
    model = Layers(layers, width)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    layer = 4 * (width * width + width)
    # Nothing but the parts of the parameters.
    part = layer // size
    slack = 2 * 512 * layers  # allocations are multiples of 512 bytes
    assert layers * part <= allocated() - start <= layers * part + slack
    optimizer = nn.optim.Adam(model.parameters(), lr=0.01)
    results = []
    for _ in range(2):
        tensor.cuda.reset_peak_memory_stats(device)
        model(x).sum().backward()
        optimizer.step()
        results.append(peak() - start)
        optimizer.zero_grad()
    states = allocated() - start
    # Parameters and two states; gradients were given back.
    assert 3 * layers * part <= states <= 3 * layers * part + 3 * slack
    activations = 2 * layers * 4 * rows * width
    # In addition to parameters, gradients and two states: the layer that computes, the one that is being gathered, and the
    # gradients of one on their way.
    assert max(results) <= 4 * layers * part + 3 * layer + activations + slack, (results, layer, part)
    return results


def test_memory_is_a_part_and_two_layers() -> None:
    small = run_threads(_memory, 2, device="cuda", schedule="eager")[0]
    drv.reset()
    large = run_threads(_memory, 4, device="cuda", schedule="eager")[0]
    assert large[-1] < small[-1]


def _details(rank: int, size: int) -> None:
    mesh = parallel.init_device_mesh("cpu", (size,))
    model = _shard(Net(), mesh=mesh)
    assert type(model).__name__ == "FSDPNet" and isinstance(model, FSDPModule) and isinstance(model, Net)
    weight = model.head.weight
    assert (
        weight is model.embedding.weight and isinstance(weight, nn.Parameter) and isinstance(weight, DTensor)
    )
    assert (tuple(weight.shape), weight.numel(), weight.dim(), len(weight)) == ((7, 5), 35, 2, 7)
    assert weight.placements == (Shard(0),) and weight.device_mesh is mesh and weight.size(0) == 7
    assert weight.stride() == (5, 1) and weight.to_local().shape == ((4, 5) if rank == 0 else (3, 5))
    whole = Net().head.weight.detach()
    assert weight.full_tensor().tolist() == whole.tolist() and "DTensor(local_tensor=" in repr(weight)
    # Element by element, with others that are divided alike; the rest is refused.
    assert isinstance(weight * 2, DTensor) and (weight.detach() * 2 + weight.detach()).full_tensor().allclose(
        whole * 3
    )
    for name in ("sum", "norm", "t", "tolist", "argmax"):
        with pytest.raises(NotImplementedError, match="use full_tensor"):
            getattr(weight, name)()
    with pytest.raises(NotImplementedError, match="full_tensor"):
        weight @ weight
    with pytest.raises(TypeError, match="is not divided"):
        weight + tensor.ones(5)
    with pytest.raises(ValueError, match="not divided alike"):
        weight + model.head.bias
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.copy(weight)
    assert copy.deepcopy(weight).full_tensor().tolist() == whole.tolist()
    # A whole state dict, and one of parts; assigned, too.
    state = {name: value + 1 for name, value in Net().state_dict().items()}
    model.load_state_dict(state)
    assert weight.full_tensor().tolist() == (whole + 1).tolist()
    parts = {
        name: nn.Parameter(distribute_tensor(value, mesh, [Shard(0)]), value.is_floating_point())
        if name in dict(model.named_parameters(remove_duplicate=False))
        else value
        for name, value in Net().state_dict().items()
    }
    parts["head.weight"] = parts["embedding.weight"]
    model.load_state_dict(parts, assign=True)
    assert model.head.weight is not weight and model.head.weight.full_tensor().tolist() == whole.tolist()
    x, y = _batch(rank, 0)
    with tensor.no_grad():
        expected = Net()(x)
        assert model(x).allclose(expected, atol=1e-5)
    handle = model.unshard(async_op=True)
    handle.wait()
    assert not isinstance(model.head.weight, DTensor) and model.unshard() is None
    model.reshard()
    model.reshard()
    assert isinstance(model.head.weight, DTensor)
    # A pass that raises leaves nothing behind.
    model(x).sum().backward()
    model.zero_grad()
    handle = model.blocks[0].linear.register_full_backward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model(x).sum().backward()
    handle.remove()
    nn.functional.cross_entropy(model(x), y).backward()
    gradient = model.head.weight.grad
    assert isinstance(gradient, DTensor) and gradient.full_tensor().isfinite().all()
    assert model.blocks[0].unused.grad is None
    model.set_reduce_scatter_unused_params(True)
    nn.functional.cross_entropy(model(x), y).backward()
    assert model.blocks[0].unused.grad.full_tensor().tolist() == [0, 0]
    assert model.head.weight.grad.full_tensor().allclose(2 * gradient.full_tensor() / 2)
    model.set_gradient_divide_factor(4.0)
    model.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    model.double()
    assert model(x).dtype is tensor.float64


def test_parameters_and_state_dicts() -> None:
    run_threads(_details, 2)


def _mixed(rank: int, size: int, device: str) -> list[Any]:
    mesh = parallel.init_device_mesh(device, (size,))
    policy = MixedPrecisionPolicy(tensor.bfloat16, tensor.float32, output_dtype=tensor.float32)
    model = Layers(2, 6)
    with tensor.no_grad():
        for each in model.parameters():
            each.fill_(1 / 3)
    seen = []
    model.layers[0].register_forward_hook(
        lambda layer, x, y: seen.append((layer.weight.dtype, x[0].dtype, y.dtype))
    )
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=MixedPrecisionPolicy(tensor.bfloat16, tensor.float32))
    fully_shard(model, mesh=mesh, mp_policy=policy)
    output = model(tensor.ones(2, 6, device=device))
    assert output.dtype is tensor.float32 and seen[0] == (tensor.bfloat16,) * 3
    scaler = tensor.amp.GradScaler(device, init_scale=8.0)
    optimizer = nn.optim.SGD(model.parameters(), lr=1.0)
    before = [each.full_tensor().clone() for each in model.parameters()]
    # Infinite on one rank, so that no rank steps.
    scaler.scale(output.sum()).backward()
    weight = model.layers[0].weight
    assert weight.grad.dtype is tensor.float32 and weight.dtype is tensor.float32
    if rank == 1:
        weight.grad.to_local().fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4.0
    for each, value in zip(model.parameters(), before, strict=True):
        assert each.full_tensor().tolist() == value.tolist()
    return [output.tolist()]


def test_mixed_precision() -> None:
    first, second = run_threads(_mixed, 2, "cuda", device="cuda", schedule="random")
    assert first == second


def _refusals(rank: int, size: int) -> None:
    mesh = parallel.init_device_mesh("cpu", (size,))
    cube = parallel.init_device_mesh("cpu", (size, 1, 1))
    scalar = nn.Module()
    scalar.value = nn.Parameter(tensor.ones(()))
    strided = nn.Linear(2, 3)
    strided.weight = nn.Parameter(tensor.ones(2, 3).t())
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    fully_shard(tied[0], mesh=mesh)
    for error, words, call in [
        (TypeError, "takes a module, got list", lambda: fully_shard([nn.Linear(2, 2)], mesh=mesh)),
        (ValueError, "already", lambda: fully_shard(tied[0], mesh=mesh)),
        (ValueError, "is divided already", lambda: fully_shard(tied, mesh=mesh)),
        (
            ValueError,
            "do not implement forward",
            lambda: fully_shard(nn.ModuleList([nn.Linear(2, 2)]), mesh=mesh),
        ),
        (ValueError, "scalar parameters. Change value", lambda: fully_shard(scalar, mesh=mesh)),
        (ValueError, "is lazy", lambda: fully_shard(nn.LazyLinear(2), mesh=mesh)),
        (NotImplementedError, "non-contiguous", lambda: fully_shard(strided, mesh=mesh)),
        (
            NotImplementedError,
            "reshard_after_forward=2",
            lambda: fully_shard(nn.Linear(2, 2), mesh=mesh, reshard_after_forward=2),
        ),
        (NotImplementedError, "one dimension, or two", lambda: fully_shard(nn.Linear(2, 2), mesh=cube)),
        (
            NotImplementedError,
            "returned Shard\\(dim=1\\)",
            lambda: fully_shard(nn.Linear(2, 2), mesh=mesh, shard_placement_fn=lambda _: Shard(1)),
        ),
        (ValueError, "Linear is none", lambda: tied[0].set_modules_to_forward_prefetch([nn.Linear(2, 2)])),
        (ValueError, "this rank's part", lambda: DTensor.from_local(tensor.ones(3), mesh, shape=(2,))),
        (ValueError, "or from a whole tensor", lambda: tied[0].weight.detach().copy_(tensor.ones(3))),
        (ValueError, "data of the DTensor", lambda: setattr(tied[0].weight, "data", tensor.ones(3))),
    ]:
        with pytest.raises(error, match=words):
            call()
    tied[0].weight = nn.Parameter(tensor.ones(2, 2))
    with pytest.raises(RuntimeError, match="'weight' of Linear was replaced by a Parameter of shape"):
        tied[0](tensor.ones(1, 2))
    ignored = nn.Linear(2, 2)
    fully_shard(ignored, mesh=mesh, ignored_params={ignored.bias})
    assert not isinstance(ignored.bias, DTensor) and isinstance(ignored.weight, DTensor)


def test_what_is_refused() -> None:
    run_threads(_refusals, 2)
