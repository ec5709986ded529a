"""The kernels of optimizer steps: how many launches, and any type, size and address."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest

import drv
import nn.optim
import tensor
from nn.optim import adadelta, adagrad, adam, adamax, asgd, nadam, radam, rmsprop, rprop, sgd, swa_utils
from tests.tensor.driver_calls import counted

STEPS = [
    sgd.sgd_step,
    sgd.momentum_sgd_step,
    adam.adam_step,
    adam.amsgrad_step,
    adamax.adamax_step,
    nadam.nadam_step,
    radam.radam_step,
    adagrad.adagrad_step,
    adadelta.adadelta_step,
    rmsprop.rmsprop_step,
    rmsprop.centered_rmsprop_step,
    rmsprop.momentum_rmsprop_step,
    rmsprop.centered_momentum_rmsprop_step,
    rprop.rprop_step,
    asgd.asgd_step,
    swa_utils.weight_average_step,
]
_NUMBERS = {
    "sign": 1.0,
    "param_factor": 1.0,
    "weight_decay": 0.25,
    "one_minus_beta1": 0.25,
    "one_minus_beta2": 0.25,
    "one_minus_rho": 0.25,
    "one_minus_alpha": 0.25,
}


@pytest.fixture
def checked(request: pytest.FixtureRequest) -> None:
    """A simulated device that finds every bad access; or a GPU."""
    if not request.config.getoption("--gpu"):
        drv.simulator.install(check="full")


def _operands(step: Any, arrays: Any, kind: str, device: str) -> list[list[Any]]:
    return [
        [tensor.tensor(array, dtype=getattr(tensor, kind), device=device) for array in row]
        for row in arrays[: step.kernel.operands]
    ]


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.kernel.name)
@pytest.mark.sampled(4)
def test_the_same_on_a_device_as_on_the_host(step: Any, kind: str) -> None:
    random = np.random.default_rng(0)
    # Full chunks, one that is not, and sizes that are no multiples of a pack; squares stay above those of means.
    shapes = ((3,), (4096,), (8193,), (0,), (17, 3), ())
    arrays = [[random.uniform(0.1, 1.0, shape) + (k == 2) for shape in shapes] for k in range(5)]
    host, device = (_operands(step, arrays, kind, device) for device in ("cpu", "cuda"))
    numbers = {name: _NUMBERS.get(name, 0.5) for name in step.numbers}
    step.update(host, **numbers)
    step.update(device, **numbers)
    rtol = {"float32": 1e-5, "float64": 1e-13, "float16": 2e-3, "bfloat16": 2e-2}[kind]
    for a, b in zip(chain(*host), chain(*device), strict=True):
        np.testing.assert_allclose(b.cpu().double().numpy(), a.double().numpy(), rtol=rtol, atol=rtol)


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_unaligned_addresses(kind: str) -> None:
    """Parameters that are parts of one vector, as flattened ones are, leave their neighbours alone."""
    dtype = getattr(tensor, kind)
    size = 8192
    whole = tensor.ones(size + 16, dtype=dtype, device="cuda")
    for start in (1, 4, 8):
        whole.fill_(1)
        part = whole[start : start + size]
        grad = tensor.full((size,), 2, dtype=dtype, device="cuda")
        sgd.sgd_step.update([[part], [grad]], sign=1.0, lr=0.25, weight_decay=0.0)
        result = whole.cpu().float().numpy()
        assert (result[start : start + size] == 0.5).all()
        assert (result[:start] == 1).all()
        assert (result[start + size :] == 1).all()


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        ("SGD", {}, 1),
        ("SGD", {"momentum": 0.9}, 1),
        ("Adam", {}, 2),
        ("AdamW", {"amsgrad": True}, 2),
        ("NAdam", {}, 2),
        ("RMSprop", {"centered": True, "momentum": 0.9}, 2),
    ],
)
def test_one_launch_for_many_parameters(name: str, options: dict[str, Any], most: int) -> None:
    drv.simulator.install()
    parameters = [tensor.ones(1 + i % 5, device="cuda", requires_grad=True) for i in range(100)]
    for each in parameters:
        each.grad = tensor.ones_like(each)
    optimizer = getattr(nn.optim, name)(parameters, **options)
    with counted() as calls:
        optimizer.step()
        calls.clear()
        optimizer.step()
    assert calls["cuLaunchKernel"] == most


@pytest.mark.simulator_only
def test_more_parameters_than_a_launch_takes() -> None:
    drv.simulator.install(check="full")
    parameters = [tensor.full((3,), float(i), device="cuda", requires_grad=True) for i in range(200)]
    for each in parameters:
        each.grad = tensor.ones_like(each)
    nn.optim.AdamW(parameters, lr=0.5, weight_decay=0.0).step()
    result = [each.tolist() for each in parameters]
    np.testing.assert_allclose(result, [[i - 0.5] * 3 for i in range(200)], rtol=1e-6)


def test_steps_are_queued_on_the_current_stream(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--gpu"):
        drv.simulator.install(check="race")
    stream = tensor.cuda.Stream()
    with tensor.cuda.stream(stream):
        x = tensor.ones(1000, device="cuda", requires_grad=True)
        optimizer = nn.optim.SGD([x], lr=0.5, momentum=0.5)
        for _ in range(3):
            x.grad = tensor.ones_like(x)
            optimizer.step()
        assert x[:2].tolist() == [1 - 0.5 * (1 + 1.5 + 1.75)] * 2


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_single(device_name: str, kind: str) -> None:
    """1e-3 squared, times 0.001, is no half precision number, and yet the step is right."""
    x = tensor.zeros(4, dtype=getattr(tensor, kind), device=device_name, requires_grad=True)
    x.grad = tensor.full_like(x, 1e-3)
    optimizer = nn.optim.Adam([x], lr=0.5)
    optimizer.step()
    assert x.tolist() == pytest.approx([-0.5] * 4, rel=1e-2)
    assert optimizer.state[x]["exp_avg"].dtype is x.dtype
