"""Models trained by several processes: what gradients, parameters and buffers are, and what is refused."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nn
import parallel
import tensor
from parallel import DistributedDataParallel
from tests.parallel.jobs import joined
from tests.parallel.processes import run

if TYPE_CHECKING:
    from pathlib import Path


class Net(nn.Module):
    """Two layers, a buffer that changes, and one layer that may be left out."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        tensor.manual_seed(seed)
        self.first = nn.Linear(6, 5)
        self.norm = nn.BatchNorm1d(5)
        self.extra = nn.Linear(5, 5)
        self.last = nn.Linear(5, 3)
        self.with_extra = True

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        x = tensor.tanh(self.norm(self.first(x)))
        if self.with_extra:
            x = self.extra(x)
        return self.last(x)


class Plain(nn.Module):
    """Without normalisation: the mean of a batch's gradients is that of its parts'."""

    def __init__(self) -> None:
        super().__init__()
        tensor.manual_seed(0)
        self.first = nn.Linear(6, 5)
        self.last = nn.Linear(5, 3)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        return self.last(tensor.tanh(self.first(x)))


def batch(seed: int, count: int = 12) -> tuple[tensor.Tensor, tensor.Tensor]:
    numbers = np.random.default_rng(seed)
    x = numbers.standard_normal((count, 6), dtype=np.float32)
    return tensor.tensor(x), tensor.tensor(numbers.integers(0, 3, count))


def share(x: tensor.Tensor, rank: int, size: int) -> tensor.Tensor:
    part = len(x) // size
    return x[rank * part : (rank + 1) * part]


def state(model: nn.Module) -> dict[str, Any]:
    return {name: each.tolist() for name, each in model.state_dict().items()}


def gradients(model: nn.Module) -> list[Any]:
    return [None if each.grad is None else each.grad.numpy().copy() for each in model.parameters()]


def same_everywhere(results: list[list[Any]]) -> None:
    """Bit for bit."""
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


# Training


def _train(rank: int, size: int, store: str, options: dict[str, Any]) -> list[Any]:
    with joined(rank, size, store):
        model = DistributedDataParallel(Plain(), **options)
        optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
        result = []
        for turn in range(3):
            x, y = batch(turn)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(share(x, rank, size)), share(y, rank, size)).backward()
            result += gradients(model)
            optimizer.step()
        result += [each.detach().numpy() for each in model.parameters()]
    return result


@pytest.mark.parametrize(
    ("size", "options"),
    [
        (2, {}),
        (3, {"bucket_cap_mb": 1e-4}),
        (2, {"gradient_as_bucket_view": True, "bucket_cap_mb": 1e-4}),
        (2, {"find_unused_parameters": True}),
        (2, {"static_graph": True, "gradient_as_bucket_view": True}),
    ],
)
def test_training_is_that_of_one_process_on_the_whole_batch(
    size: int, options: dict[str, Any], tmp_path: Path
) -> None:
    model = Plain()
    optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
    expected = []
    for turn in range(3):
        x, y = batch(turn)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        expected += gradients(model)
        optimizer.step()
    expected += [each.detach().numpy() for each in model.parameters()]
    results = run(_train, size, str(tmp_path / "store"), options)
    same_everywhere(results)
    for result, each in zip(results[0], expected, strict=True):
        np.testing.assert_allclose(result, each, rtol=1e-4, atol=1e-6)


def _states(rank: int, size: int, store: str) -> Any:
    with joined(rank, size, store):
        module = Net(seed=rank)
        module.norm.running_mean.fill_(rank)
        module.register_buffer("turned", tensor.full((2, 3), float(rank)).T)
        module.last.bias.requires_grad_(False).fill_(10.0 + rank)
        model = DistributedDataParallel(module)
        started = state(module)
        names = [list(model.state_dict()), [name for name, _ in model.named_parameters()]]
        seen = []
        for turn in range(3):
            model(share(batch(turn)[0], rank, size)).sum().backward()
            seen.append(module.norm.running_mean.tolist())
        model.eval()
        model(batch(0)[0])
        evaluated = module.norm.running_mean.tolist()
        # A state dict with the prefix is for the wrapped module, one without for the module.
        model.load_state_dict({name: tensor.zeros_like(each) for name, each in model.state_dict().items()})
        zero = state(module)
    return started, names, seen, evaluated, zero


def test_parameters_and_buffers_are_those_of_rank_0(tmp_path: Path) -> None:
    one, other = run(_states, 2, str(tmp_path / "store"))
    assert one[0] == other[0]
    assert one[0]["norm.running_mean"] == [0] * 5
    assert other[0]["last.bias"] == [10] * 3
    expected = state(Net(seed=0))
    assert one[0]["first.weight"] == expected["first.weight"]
    assert one[1][0] == [f"module.{name}" for name in one[0]]
    assert one[1][1][0] == "module.first.weight"
    # Averages run with each rank's samples, from those of rank 0.
    assert one[2][0] != other[2][0]
    assert one[3] == other[3] == one[2][-1]
    assert all(np.all(np.asarray(each) == 0) for each in one[4].values())


def _not_broadcast(rank: int, size: int, store: str) -> Any:
    with joined(rank, size, store):
        module = Net()
        module.norm.running_mean.fill_(rank)
        model = DistributedDataParallel(module, broadcast_buffers=False)
        model.eval()
        model(batch(0)[0])
        result = module.norm.running_mean.tolist()
        # Left out by name.
        module = Net()
        module.norm.running_mean.fill_(rank)
        module.extra.bias.data.fill_(rank)
        module._ddp_params_and_buffers_to_ignore = ["norm.running_mean", "extra.bias"]
        model = DistributedDataParallel(module)
        model(share(batch(0)[0], rank, size)).sum().backward()
        assert len(model.reducer.parameters) == 7
    return result, module.extra.bias.tolist(), module.extra.weight.grad.numpy()


def test_buffers_and_parameters_may_be_left_out(tmp_path: Path) -> None:
    one, other = run(_not_broadcast, 2, str(tmp_path / "store"))
    assert (one[0], other[0]) == ([0] * 5, [1] * 5)
    assert (one[1], other[1]) == ([0] * 5, [1] * 5)
    np.testing.assert_array_equal(one[2], other[2])


def _subgroup(rank: int, size: int, store: str) -> Any:
    result = None
    with joined(rank, size, store):
        group = parallel.new_group([1, 2])
        if rank:
            module = Net(seed=rank)
            model = DistributedDataParallel(module, process_group=group, find_unused_parameters=True)
            weight = module.first.weight.tolist()
            with model.join():
                for _ in range(rank):
                    model(batch(rank)[0]).sum().backward()
            result = weight, gradients(model), state(module)
        parallel.barrier()
    return result


def test_some_of_the_ranks(tmp_path: Path) -> None:
    nothing, one, other = run(_subgroup, 3, str(tmp_path / "store"))
    assert nothing is None
    assert one[0] == other[0] == Net(seed=1).first.weight.tolist()
    assert one[2] == other[2]
    assert one[2]["norm.num_batches_tracked"] == 2


# Accumulation, unused parameters, several passes


def _passes(rank: int, size: int, store: str) -> list[Any]:
    with joined(rank, size, store):
        result: list[Any] = []
        x = share(batch(0)[0], rank, size)

        # Gradients of three passes are averaged once.
        model = DistributedDataParallel(Plain())
        with model.no_sync():
            model(x[:2]).sum().backward()
            model(x[2:4]).sum().backward()
            local = gradients(model)
        model(x[4:]).sum().backward()
        result.append((local, gradients(model)))

        # A forward pass outside decides, not where backward() is.
        model = DistributedDataParallel(Plain())
        with model.no_sync():
            out = model(x).sum()
        out.backward()
        result.append((gradients(model), None))

        # Two forward passes, one backward; outputs in dicts and tuples.
        class Nested(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net, self.unused = Net(), nn.Linear(2, 2)
                self.net.norm.eval()

            def forward(self, x: tensor.Tensor, *, extra: bool) -> dict[str, Any]:
                self.net.with_extra = extra
                return {"out": (self.net(x), "text"), "none": None}

            def train(self, mode: bool = True) -> Nested:
                return self

        model = DistributedDataParallel(Nested(), find_unused_parameters=True, broadcast_buffers=False)
        (model(x, extra=True)["out"][0] + model(x, extra=True)["out"][0]).sum().backward()
        assert model.module.unused.weight.grad is None
        both = gradients(model.module.net)
        model.zero_grad()
        # One rank does not use a layer.
        model(x, extra=rank == 0)["out"][0].sum().backward()
        assert model.module.unused.weight.grad is None
        result.append((both, gradients(model.module.net)))

        # Parameters without gradients, that nobody looked for.
        model = DistributedDataParallel(Net(), bucket_cap_mb=1)
        model.module.with_extra = False
        model(x).sum().backward()
        with pytest.raises(
            RuntimeError, match=f"reduction in the prior iteration.*for rank {rank}: extra.weight"
        ):
            model(x)
    return result


def test_accumulation_and_unused_parameters(tmp_path: Path) -> None:
    one, other = run(_passes, 2, str(tmp_path / "store"))
    x = batch(0)[0]
    model = Plain()
    (model(x).sum() / 2).backward()
    assert not np.array_equal(one[0][0][0], other[0][0][0])
    same_everywhere([one[0][1], other[0][1]])
    for result, expected in zip(one[0][1], gradients(model), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    assert not np.array_equal(one[1][0][0], other[1][0][0])
    for number in (0, 1):
        same_everywhere([one[2][number], other[2][number]])
    net = Net()
    net.norm.eval()
    (net(x).sum()).backward()
    for result, expected in zip(one[2][0], gradients(net), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    net.zero_grad()
    total = net(x[:6]).sum()
    net.with_extra = False
    ((total + net(x[6:]).sum()) / 2).backward()
    for result, expected in zip(one[2][1], gradients(net), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def _checkpointed(rank: int, size: int, store: str) -> list[Any]:
    with joined(rank, size, store):
        from tensor.utils.checkpoint import checkpoint

        class Saves(nn.Module):
            def __init__(self, reentrant: bool) -> None:
                super().__init__()
                self.net, self.reentrant = Plain(), reentrant

            def forward(self, x: tensor.Tensor) -> tensor.Tensor:
                hidden = checkpoint(self.net.first, x, use_reentrant=self.reentrant)
                return checkpoint(self.net.last, tensor.tanh(hidden), use_reentrant=self.reentrant)

        result = []
        x = share(batch(0)[0], rank, size)
        for reentrant in (False, True):
            model = DistributedDataParallel(Saves(reentrant))
            for _ in range(2):
                model.zero_grad()
                model(x.clone().requires_grad_()).sum().backward()
            result += gradients(model)
    return result


def test_checkpoints(tmp_path: Path) -> None:
    results = run(_checkpointed, 2, str(tmp_path / "store"))
    same_everywhere(results)
    model = Plain()
    (model(batch(0)[0]).sum() / 2).backward()
    for result, expected in zip(results[0], gradients(model) * 2, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


# What is refused


def _mismatched(rank: int, size: int, store: str) -> list[str]:
    with joined(rank, size, store):
        texts = []
        for pair in (
            (nn.Linear(2, 3), nn.Linear(2, 4)),
            (nn.Linear(2, 3), nn.Linear(2, 3, bias=False)),
            (nn.Linear(2, 3), nn.Linear(2, 3).double()),
        ):
            with pytest.raises(RuntimeError) as caught:
                DistributedDataParallel(pair[rank])
            texts.append(str(caught.value))
        # The group goes on, without gradients too.
        model = DistributedDataParallel(Net())
        with tensor.inference_mode():
            model(batch(0)[0])
        with tensor.no_grad():
            model(batch(0)[0])
        model(batch(rank)[0]).sum().backward()
    return texts


def test_parameters_that_differ_are_named(tmp_path: Path) -> None:
    one, other = run(_mismatched, 2, str(tmp_path / "store"))
    assert one == other
    assert "'weight', has shape [4, 2] on rank 1, and 'weight' has [3, 2] on rank 0" in one[0]
    assert "same number of parameters" in one[1]
    assert "rank 1 has 1 and rank 0 has 2; 'bias' is the first that only rank 0 has" in one[1]
    assert "dtype tensor.float64 on rank 1" in one[2] or "dtype torch.float64 on rank 1" in one[2]


def _absent(rank: int, size: int, store: str) -> str:
    text = ""
    with joined(rank, size, store):
        group = parallel.new_group(timeout=timedelta(seconds=2))
        if rank != 1:
            with pytest.raises(parallel.DistBackendError) as caught:
                DistributedDataParallel(nn.Linear(2, 3), process_group=group)
            text = str(caught.value)
        parallel.barrier()
    return text


def test_a_rank_that_does_not_take_part_is_named(tmp_path: Path) -> None:
    texts = run(_absent, 3, str(tmp_path / "store"))
    assert "all of them have to construct it" in texts[0]
    assert "waiting for rank 1" in texts[0]


def _arguments(rank: int, size: int, store: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match="Default process group has not been initialized"):
        DistributedDataParallel(nn.Linear(2, 3))
    with joined(rank, size, store):
        with pytest.raises(RuntimeError, match="not needed when a module doesn't have any parameters"):
            DistributedDataParallel(nn.ReLU())
        with pytest.raises(
            ValueError, match="only work with single-device/multiple-device GPU modules or CPU"
        ):
            DistributedDataParallel(nn.Linear(2, 3), device_ids=[0])
        with pytest.raises(RuntimeError, match="uninitialized parameters .*'weight' is one"):
            DistributedDataParallel(nn.LazyLinear(3))
        with pytest.raises(ValueError, match="single element"):
            DistributedDataParallel(nn.Linear(2, 3), device_ids=[0, 1])
        with pytest.raises(ValueError, match="bucket_cap_mb expects a positive number of MiB, got 0"):
            DistributedDataParallel(nn.Linear(2, 3), bucket_cap_mb=0)
        model = DistributedDataParallel(nn.Linear(2, 3))
        with pytest.raises(TypeError, match="must be callable"):
            model.register_comm_hook(None, 3)  # type: ignore[arg-type]
        model.register_comm_hook(None, parallel.ddp_comm_hooks.default_hooks.allreduce_hook)
        with pytest.raises(RuntimeError, match="can only be called once"):
            model.register_comm_hook(None, parallel.ddp_comm_hooks.default_hooks.allreduce_hook)
        # A group of one.
        model(tensor.ones(1, 2)).sum().backward()
        assert model.module.weight.grad.tolist() == [[1, 1]] * 3


def test_arguments_are_checked(tmp_path: Path) -> None:
    run(_arguments, 1, str(tmp_path / "store"))


def _copied(rank: int, size: int, store: str, way: str) -> list[Any]:
    with joined(rank, size, store):
        tensor.manual_seed(rank)
        model = DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), bucket_cap_mb=1)
        model.register_comm_hook(None, parallel.ddp_comm_hooks.default_hooks.allreduce_hook)
        x = tensor.ones(2, 3) * (rank + 1) * tensor.arange(2.0).reshape(2, 1)
        model(x).sum().backward()
        twin = copy.deepcopy(model) if way == "copy" else pickle.loads(pickle.dumps(model))
        assert twin.process_group is model.process_group
        assert twin.reducer is not model.reducer
        assert twin.reducer.hook is None
        assert twin.reducer.limits == model.reducer.limits
        for one, other in zip(model.parameters(), twin.parameters(), strict=True):
            assert one is not other
            assert tensor.equal(one, other)
        for each in (model, twin):
            each.zero_grad()
            for _ in range(2):
                (each(x * 3) ** 2).sum().backward()
        with twin.no_sync():
            twin(x).sum()
        return [each.grad.numpy() for one in (model, twin) for each in one.parameters()]


@pytest.mark.parametrize("way", ["copy", "pickle"])
def test_a_copy_averages_in_the_default_group(way: str, tmp_path: Path) -> None:
    for gradients in zip(*run(_copied, 2, str(tmp_path / "store"), way), strict=True):
        np.testing.assert_array_equal(gradients[0], gradients[1])
    results = run(_copied, 2, str(tmp_path / "another"), way)
    for one, other in zip(results[0][:4], results[0][4:], strict=True):
        np.testing.assert_array_equal(one, other)


def _of_another_group(rank: int, size: int, store: str) -> bytes:
    with joined(rank, size, store):
        group = parallel.new_group([0, 1])
        model = DistributedDataParallel(nn.Linear(2, 2), process_group=group)
        for copied in (copy.deepcopy, pickle.dumps):
            with pytest.raises(
                RuntimeError, match="only supported when using DDP with the default process group"
            ):
                copied(model)
        data = pickle.dumps(DistributedDataParallel(nn.Linear(2, 2)))
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        pickle.loads(data)
    return data


def test_other_groups_and_none_are_said(tmp_path: Path) -> None:
    data = run(_of_another_group, 2, str(tmp_path / "store"))[0]
    # In a job of another size.
    run(_unpickled, 1, str(tmp_path / "another"), data)


def _unpickled(rank: int, size: int, store: str, data: bytes) -> None:
    with joined(rank, size, store):
        model = pickle.loads(data)
        assert model.reducer.collectives.size == 1
        model(tensor.ones(1, 2)).sum().backward()
        assert model.module.weight.grad.tolist() == [[1, 1]] * 2
