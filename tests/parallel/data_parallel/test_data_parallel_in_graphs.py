"""Training of ``DataParallel`` on two devices that one CUDA graph replays."""

from __future__ import annotations

from typing import Any

import pytest

import drv
import nn
import parallel
import tensor
from tensor import cuda

pytestmark = pytest.mark.simulator_only


def network() -> Any:
    tensor.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).cuda()


@pytest.mark.parametrize(
    ("schedule", "seed"),
    [("eager", 0), ("lazy", 0), ("random", 1), pytest.param("random", 2, marks=pytest.mark.nightly)],
)
def test_a_step_on_two_devices(schedule: str, seed: int) -> None:
    drv.simulator.install(devices=2, check="race", schedule=schedule, seed=seed)
    x = tensor.linspace(-1, 1, 48, device="cuda").view(6, 8)
    first, second = cuda.Stream(0), cuda.Stream(1)
    models = [parallel.DataParallel(network()) for _ in range(2)]
    optimizers = [nn.optim.AdamW(each.parameters(), capturable=True) for each in models]

    def step(number: int) -> Any:
        # The other device's stream takes part, and is waited for.
        second.wait_stream(first)
        optimizers[number].zero_grad()
        loss = models[number](x).square().mean()
        loss.backward()
        optimizers[number].step()
        first.wait_stream(second)
        return loss.detach()

    def synchronize() -> None:
        cuda.synchronize(0)
        cuda.synchronize(1)

    synchronize()
    with cuda.stream(second), cuda.stream(first):
        for number in (0, 1):
            step(number)
        synchronize()
        g = cuda.CUDAGraph()
        with cuda.graph(g, stream=first):
            loss = step(0)
        for _ in range(3):
            g.replay()
            assert loss.item() == step(1).item()
    synchronize()
    for a, b in zip(*(each.parameters() for each in models), strict=True):
        assert tensor.equal(a, b)


def test_a_device_whose_stream_takes_no_part_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    drv.simulator.install(devices=2, check="race", schedule="lazy")
    x = tensor.ones(6, 8, device="cuda")
    model = parallel.DataParallel(network())
    model(x)
    cuda.synchronize(0)
    cuda.synchronize(1)
    with pytest.raises(drv.CaptureError, match="Called by"), cuda.graph(cuda.CUDAGraph()):
        model(x)
    assert model(x).shape == (6, 4)
