"""ASGD by its formula, and its factors, which are numbers of each parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn.optim
import tensor

from .twins import Twins


def _reference(p: Any, grads: Any, lr: float, lambd: float, alpha: float, t0: float) -> tuple[Any, Any]:
    eta, mu, average = lr, 1.0, np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        p = (1 - lambd * eta) * p - eta * g
        average = average + mu * (p - average)
        eta, mu = lr / (1 + lambd * lr * t) ** alpha, 1 / max(1, t - t0)
    return p, average


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_by_the_formula(device_name: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    start, grads = random.standard_normal((40,)), random.standard_normal((6, 40))
    x = tensor.tensor(start, dtype=getattr(tensor, dtype), device=device_name, requires_grad=True)
    optimizer = nn.optim.ASGD([x], lr=0.25, lambd=0.5, alpha=0.5, t0=2)
    for g in grads:
        x.grad = tensor.tensor(g, dtype=x.dtype, device=device_name)
        optimizer.step()
    expected, average = _reference(start, grads, 0.25, 0.5, 0.5, 2)
    # The factors are kept in single precision, as in PyTorch.
    tolerance = {"float32": 1e-5, "float64": 1e-6, "float16": 5e-3, "bfloat16": 5e-2}[dtype]
    for result, reference in ((x.detach(), expected), (optimizer.state[x]["ax"], average)):
        np.testing.assert_allclose(result.cpu().double().numpy(), reference, rtol=tolerance, atol=tolerance)


def test_the_average_of_the_last_steps(device_name: str) -> None:
    x = tensor.zeros(1, device=device_name, requires_grad=True)
    optimizer = nn.optim.ASGD([x], lr=1.0, lambd=0.0, t0=1)
    for _ in range(4):
        x.grad = -tensor.ones(1, device=device_name)
        optimizer.step()
    # Steps 1 to 3 are followed; from then on each has the same weight as the ones before.
    assert x.tolist() == [4.0]
    assert optimizer.state[x]["ax"].tolist() == [3.5]
    assert optimizer.state[x]["mu"].item() == pytest.approx(1 / 3)


@pytest.mark.parity
def test_parameters_that_missed_a_change_of_the_learning_rate(device_name: str) -> None:
    twins = Twins(device_name, ((3,), (2, 2), (4,)))
    options: dict[str, Any] = {"lr": 0.1, "lambd": 0.1, "t0": 1}
    ours, theirs = nn.optim.ASGD(twins.ours, **options), twins.torch.optim.ASGD(twins.theirs, **options)
    for number, left_out in enumerate([(), (1,), (0,), (), ()]):
        twins.set_gradients(left_out)
        for each in (ours, theirs):
            each.param_groups[0]["lr"] = 0.1 / (1 + number)
            each.step()
        if number == 2:
            first, second, _ = (ours.state[x] for x in twins.ours)
            assert first["step"] == second["step"]
            assert first["eta"] != second["eta"]
    twins.assert_same(ours, theirs)


def test_state_dicts_whose_factors_are_numbers() -> None:
    x = tensor.ones(2, requires_grad=True)
    x.grad = tensor.ones(2)
    optimizer = nn.optim.ASGD([x], lambd=0.0)
    state = {"step": 3, "eta": 0.5, "mu": 1, "ax": tensor.zeros(2)}
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": {0: state}, "param_groups": groups})
    optimizer.step()
    assert x.tolist() == [0.5, 0.5]
    assert optimizer.state[x]["eta"].item() == pytest.approx(0.01)
    assert optimizer.state[x]["step"].item() == 4


def test_the_factors_of_a_state_dict_go_to_the_host(device_name: str) -> None:
    """Those that PyTorch saved lie where its parameters did."""
    x = tensor.ones(2, dtype=tensor.float16, device=device_name, requires_grad=True)
    x.grad = tensor.ones_like(x)
    optimizer = nn.optim.ASGD([x], lambd=0.0)
    numbers = {"step": 3.0, "eta": 0.5, "mu": 0.25}
    state = {name: tensor.tensor(value, device=device_name) for name, value in numbers.items()}
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": {0: state | {"ax": tensor.zeros(2)}}, "param_groups": groups})
    loaded = optimizer.state[x]
    assert {(loaded[name].device.type, loaded[name].dtype) for name in numbers} == {("cpu", tensor.float32)}
    assert (loaded["ax"].device, loaded["ax"].dtype) == (x.device, x.dtype)
    optimizer.step()
    assert (x.tolist(), loaded["ax"].tolist()) == ([0.5, 0.5], [0.125, 0.125])
