"""Adafactor by its formula, and as PyTorch's, whose empty parameters divide by zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import nn.optim
import tensor
from tests.nn.optim.twins import Twins

OPTIONS: list[dict[str, Any]] = [
    {},
    {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-4, 0.01), "d": 2.0, "weight_decay": 0.1},
    {"lr": 0.1, "weight_decay": 0.2, "maximize": True, "foreach": True},
]
SHAPES = ((3, 5), (), (7,), (2, 3, 4), (1, 6), (40, 30))


def _reference(p: Any, grads: Any, lr: float, eps: tuple[float, float], d: float, weight_decay: float) -> Any:
    rows, columns, every = 0.0, 0.0, 0.0

    def rms(x: Any) -> Any:
        return np.sqrt(np.mean(x * x))

    for t, g in enumerate(grads, 1):
        w = t**-0.8
        size = max(eps[1], rms(p)) * min(lr, t**-0.5)
        p = p - lr * weight_decay * p
        if p.ndim > 1:
            rows = (1 - w) * rows + w * (g * g).mean(-1, keepdims=True)
            columns = (1 - w) * columns + w * (g * g).mean(-2, keepdims=True)
            every = rows @ columns / np.maximum(rows.mean(-2, keepdims=True), eps[0])
        else:
            every = (1 - w) * every + w * g * g
        update = g / np.maximum(np.sqrt(every), eps[0])
        p = p - size * update / max(1, rms(update) / d)
    return p


@pytest.mark.parametrize("shape", [(6,), (4, 5), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.sampled(4)
def test_by_the_formula(device_name: str, dtype: str, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    start, grads = random.standard_normal(shape), random.standard_normal((4, *shape))
    x = tensor.tensor(start, dtype=getattr(tensor, dtype), device=device_name, requires_grad=True)
    optimizer = nn.optim.Adafactor([x], lr=0.25, eps=(1e-3, 1e-2), d=1.5, weight_decay=0.5)
    for g in grads:
        x.grad = tensor.tensor(g, dtype=x.dtype, device=device_name)
        optimizer.step()
    expected = _reference(start, grads, 0.25, (1e-3, 1e-2), 1.5, 0.5)
    tolerance = {"float32": 1e-5, "float64": 1e-12, "float16": 1e-2, "bfloat16": 1e-1}[dtype]
    np.testing.assert_allclose(x.detach().cpu().double().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.sampled(3)
def test_as_pytorch(device_name: str, options: dict[str, Any], dtype: str) -> None:
    twins = Twins(device_name, SHAPES, dtype)

    def make(optim: Any, params: Any) -> Any:
        groups = [{"params": params[:2], "lr": 0.05}, {"params": params[2:], "d": 1.25}]
        return optim.Adafactor(groups, **options)

    result = twins.run(make, 6)
    twins.assert_same(*result, **({} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-12}))


@pytest.mark.parity
def test_the_first_dtype_of_a_group_decides_the_smallest_root() -> None:
    torch = pytest.importorskip("torch")
    results = []
    for library, optim in ((tensor, nn.optim), (torch, torch.optim)):
        params = [
            library.ones(2, 2, dtype=dtype, requires_grad=True)
            for dtype in (library.float64, library.float32)
        ]
        optimizer = optim.Adafactor(params)
        for each in params:
            each.grad = library.full((2, 2), 1e-9, dtype=each.dtype)
        optimizer.step()
        results.append([each.tolist() for each in params])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


def test_nan_and_empty_parameters(device_name: str) -> None:
    x = tensor.tensor([float("nan"), 1.0], device=device_name, requires_grad=True)
    y = tensor.zeros(0, 3, device=device_name, requires_grad=True)
    optimizer = nn.optim.Adafactor([x, y], lr=0.5, eps=(None, 0.25))
    for each in (x, y):
        each.grad = tensor.ones_like(each)
    optimizer.step()
    assert x.tolist() == [pytest.approx(float("nan"), nan_ok=True), pytest.approx(1 - 0.5 * 0.25)]
    assert optimizer.state[y]["step"].item() == 1


def test_mistakes() -> None:
    x = tensor.zeros(2, requires_grad=True)
    for options, message in (
        ({"lr": -1}, "Learning rate should be >= 0 but is: -1"),
        ({"lr": tensor.ones(2)}, "Tensor lr must be 1-element"),
        ({"beta2_decay": 0.5}, "beta2_decay should be <= 0 but is: 0.5"),
        ({"eps": (-1, 1e-3)}, "epsilon1 should be >= 0 but is: -1"),
        ({"eps": (None, -1)}, "epsilon2 should be >= 0 but is: -1"),
        ({"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
        ({"weight_decay": -1}, "weight_decay should be >= 0 but is: -1"),
    ):
        with pytest.raises(ValueError, match=message):
            nn.optim.Adafactor([x], **options)
    z = tensor.zeros(2, dtype=tensor.complex64, requires_grad=True)
    optimizer = nn.optim.Adafactor([x, z])
    for each in (x, z):
        each.grad = tensor.ones_like(each)
    with pytest.raises(RuntimeError, match="Adafactor does not support complex parameters"):
        optimizer.step()
    assert x.tolist() == [0, 0]
