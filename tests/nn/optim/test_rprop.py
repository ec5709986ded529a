"""Rprop by its formula, element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import nn.optim
import tensor


def _reference(
    p: float, grads: Any, lr: float, etas: tuple[float, float], limits: tuple[float, float]
) -> float:
    size, previous = lr, 0.0
    for g in grads:
        if g * previous > 0:
            size = min(size * etas[1], limits[1])
        elif g * previous < 0:
            size, g = max(size * etas[0], limits[0]), 0.0
        p -= math.copysign(size, g) if g else 0.0
        previous = g
    return p


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("maximize", [False, True])
def test_by_the_formula(device_name: str, dtype: str, maximize: bool) -> None:
    random = np.random.default_rng(0)
    start, grads = random.standard_normal(40), random.standard_normal((6, 40))
    x = tensor.tensor(start, dtype=getattr(tensor, dtype), device=device_name, requires_grad=True)
    options: Any = {"etas": (0.25, 1.5), "step_sizes": (0.125, 0.5)}
    optimizer = nn.optim.Rprop([x], lr=0.25, maximize=maximize, **options)
    for g in grads:
        x.grad = tensor.tensor(g, dtype=x.dtype, device=device_name)
        optimizer.step()
    signed = -grads if maximize else grads
    expected = [
        _reference(p, signed[:, i], 0.25, options["etas"], options["step_sizes"]) for i, p in enumerate(start)
    ]
    tolerance = {"float32": 1e-5, "float64": 1e-12, "float16": 5e-3, "bfloat16": 5e-2}[dtype]
    np.testing.assert_allclose(x.detach().cpu().double().numpy(), expected, rtol=tolerance, atol=tolerance)


def test_an_element_rests_where_the_sign_changes(device_name: str) -> None:
    x = tensor.zeros(3, device=device_name, requires_grad=True)
    optimizer = nn.optim.Rprop([x], lr=0.5, step_sizes=(1e-6, 0.5))
    for gradient in ([1.0, 1.0, 0.0], [-1.0, 2.0, 1.0], [-1.0, 3.0, 1.0]):
        x.grad = tensor.tensor(gradient, device=device_name)
        optimizer.step()
    assert x.tolist() == [-0.25, -1.5, -1.0]
    assert optimizer.state[x]["step_size"].tolist() == [0.25, 0.5, 0.5]
    assert optimizer.state[x]["step"].item() == 3


def test_a_gradient_that_is_nan_moves_nothing(device_name: str) -> None:
    x = tensor.ones(2, device=device_name, requires_grad=True)
    optimizer = nn.optim.Rprop([x], lr=0.5)
    x.grad = tensor.tensor([float("nan"), 1.0], device=device_name)
    optimizer.step()
    assert x.tolist() == [1.0, 0.5]
    x.grad = tensor.tensor([1.0, 1.0], device=device_name)
    optimizer.step()
    assert x.tolist() == [0.5, pytest.approx(-0.1)]


@pytest.mark.parity
def test_nan_and_infinity_as_in_pytorch(device_name: str) -> None:
    torch = pytest.importorskip("torch")
    ours = tensor.ones(4, device=device_name, requires_grad=True)
    theirs = torch.ones(4, requires_grad=True)
    optimizers = nn.optim.Rprop([ours]), torch.optim.Rprop([theirs])
    nan, inf = float("nan"), float("inf")
    for gradient in ([nan, inf, -inf, 0.0], [1.0, inf, inf, nan], [1.0, -inf, 1.0, -1.0]):
        ours.grad = tensor.tensor(gradient, device=device_name)
        theirs.grad = torch.tensor(gradient)
        for each in optimizers:
            each.step()
        np.testing.assert_allclose(ours.tolist(), theirs.tolist(), rtol=1e-6)
        for name in ("prev", "step_size"):
            a, b = optimizers[0].state[ours][name], optimizers[1].state[theirs][name]
            np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-6)
