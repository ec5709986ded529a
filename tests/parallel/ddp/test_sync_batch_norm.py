"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import nn
import tensor
from parallel import DistributedDataParallel, SyncBatchNorm
from tests.parallel.jobs import joined
from tests.parallel.processes import run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulator_only


#: Shape of an input without its samples, dtype, samples of each rank, and arguments of the layer.
CASES: dict[str, tuple[tuple[int, ...], str, tuple[int, ...], dict[str, Any]]] = {
    "even": ((3, 4, 5), "float32", (2, 2), {}),
    "uneven": ((3,), "float32", (3, 5), {"momentum": None}),
    "empty": ((3, 4), "float32", (0, 4), {"momentum": 0.3}),
    "plain": ((3, 4), "float64", (2, 3), {"affine": False}),
    "untracked": ((3, 2, 2, 2), "float32", (1, 2), {"track_running_stats": False}),
    "last": ((3, 2, 4), "float32", (2, 1), {}),
    "unbiased": ((3, 4), "float32", (2, 3), {"bias": False}),
    "half": ((3, 4), "float16", (4, 3), {}),
}


def given(name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], list[slice]]:
    """An input, a gradient of the output, and the ranks' shares of both."""
    shape, kind, counts, _ = CASES[name]
    numbers = np.random.default_rng(len(name))
    x, grad = (numbers.standard_normal((sum(counts), *shape)).astype(kind) for _ in range(2))
    return 3 * x + 1, grad, [slice(0, counts[0]), slice(counts[0], None)]


def layer(cls: Any, name: str) -> Any:
    result = cls(3, **CASES[name][3]).to(getattr(tensor, CASES[name][1].replace("float16", "float32")))
    if result.affine:
        result.weight.data.copy_(tensor.tensor([1.0, -2.0, 0.5]))
        if result.bias is not None:
            result.bias.data.copy_(tensor.tensor([0.5, 0.0, 3.0]))
    return result


def _layers(rank: int, size: int, store: str, device: str) -> dict[str, Any]:
    if device == "cuda":
        drv.simulator.install(check="race", schedule="random")
    with joined(rank, size, store):
        result: dict[str, Any] = {}
        for name in CASES if device == "cpu" else ("even", "empty", "last"):
            x, grad, parts = given(name)
            module = layer(SyncBatchNorm, name).to(device)
            for _ in range(2):
                mine = tensor.tensor(x[parts[rank]]).to(device)
                if name == "last":
                    mine = mine.to(memory_format=tensor.channels_last)
                mine.requires_grad_()
                module.zero_grad()
                out = module(mine)
                out.backward(tensor.tensor(grad[parts[rank]]).to(device))
            assert out.dtype is mine.dtype
            assert repr(out.grad_fn).startswith("<SyncBatchNorm")
            values = [out.detach(), mine.grad, *module.buffers()]
            values += [each.grad for each in module.parameters()]
            result[name] = [each.cpu().numpy() for each in values]
            module.eval()
            result[name].append(module(mine).detach().cpu().numpy())
        if device == "cuda":
            result["findings"] = [str(each) for each in drv.simulator.findings()]
    return result


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_layers_are_those_of_one_process(device: str, tmp_path: Path) -> None:
    results = run(_layers, 2, str(tmp_path / "store"), device)
    for result in results:
        assert result.pop("findings", []) == []
    for name in results[0]:
        x, grad, parts = given(name)
        dims = len(CASES[name][0])
        module = layer(
            {1: nn.BatchNorm1d, 2: nn.BatchNorm1d, 3: nn.BatchNorm2d, 4: nn.BatchNorm3d}[dims], name
        )
        for _ in range(2):
            mine = tensor.tensor(x.astype(np.float32) if x.dtype == np.float16 else x).requires_grad_()
            module.zero_grad()
            out = module(mine)
            out.backward(tensor.tensor(grad).to(mine.dtype))
        buffers = [each.numpy() for each in module.buffers()]
        weights = [each.grad.numpy() for each in module.parameters()]
        module.eval()
        evaluated = module(mine).detach().numpy() if CASES[name][3].get("track_running_stats", True) else None
        tolerance = {"float16": 2e-2, "float32": 1e-4, "float64": 1e-10}[CASES[name][1]]
        for result, part in zip((each[name] for each in results), parts, strict=True):
            expected = [out.detach().numpy()[part], mine.grad.numpy()[part], *buffers]
            for one, other in zip(result, expected, strict=False):
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=name)
            if evaluated is not None:
                np.testing.assert_allclose(result[-1], evaluated[part], rtol=tolerance, atol=tolerance)
        # Gradients of weights are each rank's share of the sum.
        start = 2 + len(buffers)
        for number, other in enumerate(weights):
            total = sum(each[name][start + number] for each in results)
            np.testing.assert_allclose(total, other, rtol=tolerance, atol=tolerance, err_msg=name)


class Net(nn.Module):
    """Normalised twice."""

    def __init__(self) -> None:
        super().__init__()
        tensor.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 2))
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        return self.norm(self.body(x))


def batch() -> tensor.Tensor:
    return tensor.tensor(np.random.default_rng(0).standard_normal((8, 4), dtype=np.float32))


def _train(rank: int, size: int, store: str) -> list[Any]:
    with joined(rank, size, store):
        module = SyncBatchNorm.convert_sync_batchnorm(Net())
        model = DistributedDataParallel(module)
        optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (model(batch()[rank * 4 : rank * 4 + 4]) ** 3).mean().backward()
            optimizer.step()
    return [each.detach().numpy() for each in module.state_dict().values()]


def test_training_a_converted_model(tmp_path: Path) -> None:
    results = run(_train, 2, str(tmp_path / "store"))
    model = Net()
    optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (model(batch()) ** 3).mean().backward()
        optimizer.step()
    for result in results:
        for one, other in zip(result, model.state_dict().values(), strict=True):
            np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_layers_are_converted_with_their_state() -> None:
    module = nn.Sequential(
        nn.BatchNorm2d(3, eps=0.1, momentum=None, affine=False), nn.Sequential(nn.BatchNorm1d(2))
    )
    module[1][0].running_mean.fill_(3)
    module.eval()
    before = module.state_dict()
    converted: Any = SyncBatchNorm.convert_sync_batchnorm(module)
    assert converted is module
    assert type(converted[0]) is type(converted[1][0]) is SyncBatchNorm
    assert (converted[0].eps, converted[0].momentum, converted[0].weight) == (0.1, None, None)
    assert not converted[1][0].training
    after = converted.state_dict()
    assert list(before) == list(after)
    assert all(before[name].data_ptr() == after[name].data_ptr() for name in before)
    alone = SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm3d(2))
    assert type(alone) is SyncBatchNorm
    assert SyncBatchNorm.convert_sync_batchnorm(alone) is alone
    assert "momentum=0.1" in repr(alone)


def test_without_a_process_group_it_is_a_plain_layer() -> None:
    one, other = SyncBatchNorm(3), nn.BatchNorm1d(3)
    x = tensor.tensor(np.random.default_rng(0).standard_normal((5, 3), dtype=np.float32))
    assert tensor.equal(one(x), other(x))
    assert tensor.equal(one.running_var, other.running_var)


def test_inputs_are_checked() -> None:
    with pytest.raises(ValueError, match=r"at least 2D input \(got 1D input\)"):
        SyncBatchNorm(3)(tensor.zeros(3))
    with pytest.raises(ValueError, match=r"3 channels, got shape \[2, 4\]"):
        SyncBatchNorm(3)(tensor.zeros(2, 4))


def _few(rank: int, size: int, store: str, device: str, values: int) -> list[Any]:
    """A pass over that many values on all ranks together, and one over values on rank 1 alone."""
    if device == "cuda":
        drv.simulator.install(check="race", schedule="random")
    with joined(rank, size, store):
        module = SyncBatchNorm(3).to(device)
        module.running_mean.fill_(2.0)
        module.running_var.fill_(5.0)
        results = []
        # Twice on this rank: nothing, then what there is.
        for count in (values if rank == 0 else 0, 4 * rank):
            x = tensor.tensor(given("last")[0][:count, :, 0, 0]).to(device) if count < 4 else tensor.tensor(
                np.arange(12, dtype=np.float32).reshape(4, 3)
            ).to(device)  # fmt: skip
            x.requires_grad_()
            out = module(x)
            out.sum().backward()
            assert x.grad.shape == x.shape
            results.append(
                [
                    each.detach().cpu().numpy().copy()
                    for each in (out, module.running_mean, module.running_var)
                ]
            )
        assert int(module.num_batches_tracked) == 2
    return results


@pytest.mark.parametrize("values", [0, 1])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_too_few_values_leave_the_running_averages(device: str, values: int, tmp_path: Path) -> None:
    for rank, (few, some) in enumerate(run(_few, 2, str(tmp_path / "store"), device, values)):
        out, mean, var = few
        assert out.shape == (values if rank == 0 else 0, 3)
        assert np.isfinite(out).all()
        if values == 0:
            np.testing.assert_array_equal(mean, [2.0] * 3)
        else:
            # One value has a mean, and no variance.
            np.testing.assert_allclose(mean, 1.8 + 0.1 * given("last")[0][0, :, 0, 0], rtol=1e-6)
        np.testing.assert_array_equal(var, [5.0] * 3)
        # Afterwards all is as it would have been.
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        np.testing.assert_allclose(some[1], 0.9 * mean + 0.1 * x.mean(0), rtol=1e-6)
        np.testing.assert_allclose(some[2], 4.5 + 0.1 * x.var(0, ddof=1), rtol=1e-6)


def _second(rank: int, size: int, store: str) -> None:
    with joined(rank, size, store):
        x = tensor.ones(2, 3, requires_grad=True)
        out = SyncBatchNorm(3)(x).sum()
        with pytest.raises(RuntimeError, match="no second derivatives"):
            tensor.autograd.grad(out, x, create_graph=True)


def test_there_are_no_second_derivatives(tmp_path: Path) -> None:
    run(_second, 2, str(tmp_path / "store"))
