"""Gradients that travel as products of thin matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
import nn
import parallel
import tensor
from parallel import DistributedDataParallel
from parallel.ddp_comm_hooks import powerSGD_hook as power
from tests.parallel.jobs import joined
from tests.parallel.processes import run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.simulator_only


class Net(nn.Module):
    """Two matrices of one shape, two of others, and biases, which are not compressed."""

    def __init__(self) -> None:
        super().__init__()
        tensor.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 20), nn.Linear(20, 2))

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        return self.layers(x)


def batch(rank: int, turn: int, count: int) -> tensor.Tensor:
    numbers = np.random.default_rng(10 * rank + turn)
    return tensor.tensor(numbers.standard_normal((count, 12), dtype=np.float32))


def gradients(model: nn.Module) -> list[Any]:
    return [each.grad.cpu().numpy().copy() for each in model.parameters()]


def means(turn: int, count: int) -> list[Any]:
    model = Net()
    (sum(model(batch(rank, turn, count)).square().sum() for rank in range(2)) / 2).backward()
    return gradients(model)


TURNS = 5


def _run(rank: int, store: str, device: str, hook: Any, count: int, **options: Any) -> Any:
    """The gradients of several turns, what was lost at the end, and the compression."""
    model = DistributedDataParallel(Net().to(device))
    state = power.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1.5, **options)
    model.register_comm_hook(state, hook)
    result = []
    for turn in range(TURNS):
        model.zero_grad()
        model(batch(rank, turn, count).to(device)).square().sum().backward()
        result.append(gradients(model))
    assert state.iter == TURNS
    lost = None
    if state.use_error_feedback:
        error = state.error_dict[0].clone()
        parallel.all_reduce(error)
        sizes = [each.numel() for each in model.reducer.buckets[0].views]
        parts = dict(zip(model.reducer.buckets[0].numbers, (error / 2).split(sizes), strict=True))
        lost = [parts[number].cpu().numpy() for number in range(len(sizes))]
    return result, lost, state.compression_stats()


def _both(rank: int, size: int, store: str, device: str) -> Any:
    if device == "cuda":
        drv.simulator.install(check="race", schedule="random")
        tensor.set_float32_matmul_precision("highest")
    results = {}
    with joined(rank, size, store):
        if device == "cpu":
            for name, options in {
                "exact": {"use_error_feedback": False},
                "cold": {"use_error_feedback": False, "warm_start": False},
                "stacked": {"batch_tensors_with_same_shape": True, "orthogonalization_epsilon": 1e-12},
            }.items():
                results[name] = _run(
                    rank, store, device, power.powerSGD_hook, 1, matrix_approximation_rank=2, **options
                )
            results["batched"] = _run(rank, store, device, power.batched_powerSGD_hook, 3)
        results["feedback"] = _run(rank, store, device, power.powerSGD_hook, 3)
        results["findings"] = [str(each) for each in drv.simulator.findings()] if device == "cuda" else []
    return results


def test_on_the_cpu(tmp_path: Path) -> None:
    results = run(_both, 2, str(tmp_path / "store"), "cpu")
    for one, other in zip(results[0]["feedback"][0], results[1]["feedback"][0], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    # One sample on each of two ranks: gradients of rank 2, which two columns hold.
    for name in ("exact", "cold", "stacked"):
        result, _, (rate, before, after) = results[0][name]
        assert rate > 1.5
        assert before == (TURNS - 2) * sum(each.size for each in result[0])
        assert after < before / 1.5
        for turn in range(TURNS):
            for one, other in zip(result[turn], means(turn, 1), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    check_feedback(results[0]["feedback"])
    check_feedback(results[0]["batched"])


def check_feedback(result: Any) -> None:
    """What arrived and what was lost are the gradients together, and something was lost."""
    actual, lost, _ = result
    expected = [sum(each) for each in zip(*(means(turn, 3) for turn in range(TURNS)), strict=True)]
    arrived = [sum(each) for each in zip(*actual, strict=True)]
    for got, less, whole in zip(arrived, lost, expected, strict=True):
        np.testing.assert_allclose(got + less.reshape(got.shape), whole, rtol=1e-3, atol=1e-3)
    assert not np.allclose(arrived[0], expected[0], rtol=1e-3, atol=1e-3)


def test_on_a_simulated_device(tmp_path: Path) -> None:
    for result in run(_both, 2, str(tmp_path / "store"), "cuda"):
        assert result["findings"] == []
        check_feedback(result["feedback"])


def test_gradients_of_zero_stay_zero() -> None:
    matrices = tensor.zeros(2, 5, 3)
    matrices[1] = tensor.tensor(np.random.default_rng(0).standard_normal((5, 3), dtype=np.float32))
    # Two columns that are nearly the same.
    matrices[1, :, 1] = matrices[1, :, 0] * (1 + 1e-7)
    power._orthogonalize(matrices, 0)
    assert tensor.equal(matrices[0], tensor.zeros(5, 3))
    product = matrices[1].T @ matrices[1]
    np.testing.assert_allclose(product.numpy()[::2, ::2], np.eye(2), atol=1e-5)
    assert np.isfinite(matrices.numpy()).all()


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="first two iterations in DDP, got 1"):
        power.PowerSGDState(None, start_powerSGD_iter=1)
    with pytest.raises(ValueError, match="positive number, got 0"):
        power.PowerSGDState(None, matrix_approximation_rank=0)
    power.PowerSGDState(None, start_powerSGD_iter=0, use_error_feedback=False, warm_start=False)
