"""An optimizer that is defined as a contributor would, in one piece of code, has everything that the others have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import nn.optim
import tensor
from nn.optim.stepping import SteppingOptimizer, at_least_zero, check_betas, decay, decayed, sign, step
from tests.tensor.driver_calls import counted


@step("""
    const W g = decayed(sign, weight_decay, param_factor, grad, p);
    const W direction = beta1 * exp_avg + (1 - beta1) * g;
    exp_avg = beta2 * exp_avg + (1 - beta2) * g;
    p -= lr * ((direction > 0) - (direction < 0));
""")
def lion_step(
    p: Any,
    grad: Any,
    exp_avg: Any,
    *,
    sign: float,
    weight_decay: float,
    param_factor: float,
    beta1: float,
    beta2: float,
    lr: float,
) -> None:
    g = decayed(sign, weight_decay, param_factor, grad, p)
    direction = beta1 * exp_avg + (1 - beta1) * g
    exp_avg *= beta2
    exp_avg += (1 - beta2) * g
    p -= lr * np.sign(direction)


class Lion(SteppingOptimizer):
    """Evolved sign momentum (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023)."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
    ) -> None:
        at_least_zero(lr, "learning rate")
        check_betas(betas)
        defaults = {"lr": lr, "betas": betas, "weight_decay": weight_decay, "decoupled_weight_decay": True}
        super().__init__(
            params, {**defaults, "maximize": maximize, "foreach": foreach, "differentiable": differentiable}
        )

    def update(self, group: dict[str, Any], params: list[Any], grads: list[Any]) -> None:
        beta1, beta2 = group["betas"]
        operands = [params, grads, *self.counted_together(group, params, ("exp_avg",))]
        lr = float(group["lr"])
        lion_step.update(operands, sign=sign(group), **decay(group), beta1=beta1, beta2=beta2, lr=lr)


def _reference(p: Any, grads: Any, lr: float, weight_decay: float) -> Any:
    average = np.zeros_like(p)
    for g in grads:
        direction = 0.9 * average + 0.1 * g
        average = 0.99 * average + 0.01 * g
        p = p * (1 - lr * weight_decay) - lr * np.sign(direction)
    return p


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_it_steps_on_both_machines(device_name: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    start, grads = random.standard_normal(300), random.standard_normal((4, 300))
    x = tensor.tensor(start, dtype=getattr(tensor, dtype), device=device_name, requires_grad=True)
    optimizer = Lion([x], lr=0.1, weight_decay=0.5)
    for g in grads:
        x.grad = tensor.tensor(g, dtype=x.dtype, device=device_name)
        optimizer.step()
    expected = _reference(start, grads, 0.1, 0.5)
    tolerance = {"float32": 1e-5, "float64": 1e-12, "float16": 5e-3, "bfloat16": 5e-2}[dtype]
    np.testing.assert_allclose(x.detach().cpu().double().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.simulator_only
def test_it_takes_many_parameters_in_one_launch() -> None:
    drv.simulator.install(check="full")
    parameters = [tensor.ones(1 + i % 5, device="cuda", requires_grad=True) for i in range(50)]
    for each in parameters:
        each.grad = tensor.ones_like(each)
    optimizer = Lion(parameters, lr=0.5)
    with counted() as calls:
        optimizer.step()
        calls.clear()
        optimizer.step()
    assert calls["cuLaunchKernel"] == 1
    assert all((each == 0).all() for each in parameters)


def test_it_has_groups_state_dicts_and_schedules() -> None:
    x, y = (tensor.ones(2, requires_grad=True) for _ in range(2))
    optimizer = Lion([{"params": [x]}, {"params": [y], "lr": 0.5}], lr=0.25)
    scheduler = nn.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(2):
        x.grad, y.grad = tensor.ones(2), -tensor.ones(2)
        optimizer.step()
        scheduler.step()
    assert (x.tolist(), y.tolist()) == ([0.625] * 2, [1.75] * 2)
    other = Lion([{"params": [x]}, {"params": [y]}])
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[1]["lr"] == 0.125
    assert other.state[x]["exp_avg"].tolist() == optimizer.state[x]["exp_avg"].tolist()
    assert "weight_decay: 0.0" in repr(other)


def test_a_step_that_does_not_compile_names_the_error() -> None:
    @step("p -= learning_rate * grad;")
    def broken_step(p: Any, grad: Any, *, lr: float) -> None:
        p -= lr * grad

    drv.simulator.install()
    x = tensor.ones(3, device="cuda")
    with pytest.raises(Exception, match="learning_rate"):
        broken_step.update([[x], [x]], lr=0.5)
