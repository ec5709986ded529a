"""Scaled losses: like PyTorch's over many iterations with overflows, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import drv
import nn.optim
import tensor
from nn.amp import GradScaler
from tests.tensor.conftest import device_name

__all__ = ["device_name"]


def _trained(library: Any, optim: Any, scaler: Any, device: str, iterations: int = 12) -> list[Any]:
    """Scales and parameters of a training in which some gradients overflow."""
    x = library.ones(3, device=device).requires_grad_()
    y = library.ones((2, 2), device=device).requires_grad_()
    optimizer = optim.SGD([x, y], lr=0.1)
    result = []
    for number in range(iterations):
        optimizer.zero_grad()
        loss = (x * x).sum() + y.sum()
        if number in (2, 3, 9):
            loss = loss * (float("inf") if number == 2 else float("nan"))
        scaler.scale(loss).backward()
        if number % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update(3.0 if number == 10 else None)
        result.append((scaler.get_scale(), x.tolist(), y.tolist()))
    return result


@pytest.mark.parity
def test_like_pytorch(device_name: str) -> None:
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {"init_scale": 1024.0, "growth_interval": 3, "backoff_factor": 0.25}
    ours, theirs = GradScaler(device_name, **options), torch.amp.GradScaler("cpu", **options)
    result = _trained(tensor, nn.optim, ours, device_name)
    expected = _trained(torch, torch.optim, theirs, "cpu")
    for a, b in zip(result, expected, strict=True):
        assert a[0] == b[0]
        assert a[1] == pytest.approx(b[1])
        assert sum(a[2], []) == pytest.approx(sum(b[2], []))  # noqa: RUF017 - four numbers
    assert ours.state_dict() == theirs.state_dict()


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
@pytest.mark.sampled(4)
def test_finds_one_number_among_many(device_name: str, dtype: str, bad: float) -> None:
    element_dtype = getattr(tensor, dtype)
    params = [
        tensor.zeros(size, dtype=element_dtype, device=device_name, requires_grad=True)
        for size in (3, 5000, 1)
    ]
    scaler = GradScaler(device_name, init_scale=4.0)
    optimizer = nn.optim.SGD(params, lr=1.0)
    for device, size in ((4321, 1), (2, 0), (0, 2)):
        for each in params:
            each.grad = tensor.full_like(each, 8)
        params[1 if size == 1 else size].grad[device] = bad
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 0.5
    assert all(not each.detach().abs().sum().item() for each in params)
    for each in params:
        each.grad = tensor.full_like(each, 8)
    scaler.step(optimizer)
    assert all((each.detach() == -16).all().item() for each in params)


def test_several_losses_and_optimizers(device_name: str) -> None:
    x, y = (tensor.ones(2, device=device_name, requires_grad=True) for _ in range(2))
    first, second = nn.optim.SGD([x], lr=1.0), nn.optim.SGD([y], lr=1.0)
    scaler = GradScaler(device_name, init_scale=8.0)
    losses = scaler.scale([x.sum(), (y.sum() * float("inf"),)])
    assert [each.item() for each in (losses[0], losses[1][0])] == [16.0, float("inf")]
    losses[0].backward()
    losses[1][0].backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert (x.tolist(), y.tolist(), scaler.get_scale()) == ([0, 0], [1, 1], 4.0)
    assert next(iter(scaler.scale(iter([tensor.ones((), device=device_name)])))).item() == 4.0


@pytest.mark.simulator_only
def test_one_launch_over_all_gradients() -> None:
    runtime = drv.simulator.install()
    params = [tensor.zeros(3, device="cuda", requires_grad=True) for _ in range(100)]
    for each in params:
        each.grad = tensor.ones_like(each)
    optimizer = nn.optim.SGD(params)
    runtime.recent_launches.clear()
    scaler = GradScaler()
    scaler.unscale_(optimizer)
    names = [function.name for function in runtime.recent_launches]
    assert names.count("unscale") == 1
    assert len(names) <= 2


def test_not_enabled() -> None:
    x = tensor.ones(2, requires_grad=True)
    optimizer = nn.optim.SGD([x], lr=1.0)
    scaler = GradScaler("cpu", enabled=False)
    loss = x.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == [0, 0]
    assert (scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == (1.0, {}, False)


def test_state_dicts_and_pickles() -> None:
    scaler = GradScaler("cpu", init_scale=2.0, growth_interval=7)
    other = GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match="state dict is empty"):
        scaler.load_state_dict({})


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="growth factor"):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(ValueError, match="backoff factor"):
        GradScaler("cpu", backoff_factor=1.0)
    x = tensor.ones(2, requires_grad=True)
    optimizer = nn.optim.SGD([x], lr=1.0)
    scaler = GradScaler("cpu")
    with pytest.raises(RuntimeError, match="prior to update"):
        scaler.update()
    with pytest.raises(RuntimeError, match="for this optimizer"):
        scaler.step(optimizer)
    scaler = GradScaler("cpu")
    scaler.scale(x.sum()).backward()
    with pytest.raises(RuntimeError, match="Closure"):
        scaler.step(optimizer, closure=lambda: 0.0)
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="pickled"):
        pickle.dumps(scaler)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called since"):
        scaler.step(optimizer)
    half = tensor.ones(2, dtype=tensor.float16, requires_grad=True)
    half.grad = tensor.ones(2, dtype=tensor.float16)
    with pytest.raises(ValueError, match="FP16"):
        scaler.unscale_(nn.optim.SGD([half]))
    with pytest.raises(ValueError, match="iterable of Tensors"):
        scaler.scale(3)  # type: ignore[call-overload]
