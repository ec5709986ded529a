"""Muon by its formula, and as PyTorch's."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest

import nn
import nn.optim
import tensor
from tests.nn.optim.twins import Twins

SHAPES = ((3, 5), (20, 8), (16, 16), (1, 4), (6, 1))
OPTIONS: list[dict[str, Any]] = [
    {"lr": 0.1},
    {"lr": 0.1, "momentum": 0.5, "nesterov": False, "weight_decay": 0.0, "adjust_lr_fn": "match_rms_adamw"},
    {"lr": 0.05, "ns_steps": 3, "ns_coefficients": (2.0, -1.5, 0.5), "eps": 1e-3, "adjust_lr_fn": "original"},
]


@pytest.mark.parametrize("shape", [(4, 6), (9, 4)], ids=str)
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.sampled(4)
def test_by_the_formula(device_name: str, shape: tuple[int, int], nesterov: bool) -> None:
    """With coefficients that converge, the update is what the singular value decomposition gives."""
    random = np.random.default_rng(0)
    start, grads = random.standard_normal(shape), random.standard_normal((3, *shape))
    x = tensor.tensor(start, dtype=tensor.float32, device=device_name, requires_grad=True)
    optimizer = nn.optim.Muon(
        [x],
        lr=0.25,
        weight_decay=0.5,
        momentum=0.75,
        nesterov=nesterov,
        ns_coefficients=(1.875, -1.25, 0.375),
        ns_steps=20,
    )
    expected, average = start, np.zeros(shape)
    for g in grads:
        x.grad = tensor.tensor(g, dtype=x.dtype, device=device_name)
        optimizer.step()
        average = average + 0.25 * (g - average)
        u, _, v = np.linalg.svd(g + 0.75 * (average - g) if nesterov else average, full_matrices=False)
        expected = expected * (1 - 0.25 * 0.5) - 0.25 * sqrt(max(1, shape[0] / shape[1])) * u @ v
    np.testing.assert_allclose(x.detach().cpu().numpy(), expected, atol=0.02)
    np.testing.assert_allclose(optimizer.state[x]["momentum_buffer"].cpu().numpy(), average, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_dtypes(device_name: str, dtype: str) -> None:
    """The momentum is an average of gradients, in the parameter's dtype, however updates are computed."""
    x = tensor.zeros(2, 4, dtype=getattr(tensor, dtype), device=device_name, requires_grad=True)
    optimizer = nn.optim.Muon(
        [x], lr=1.0, momentum=0.5, nesterov=False, ns_coefficients=(1.875, -1.25, 0.375), ns_steps=10
    )
    for _ in range(2):
        x.grad = tensor.tensor([[8.0, 0, 0, 0], [0, 0, 8.0, 0]], dtype=x.dtype, device=device_name)
        optimizer.step()
    assert optimizer.state[x]["momentum_buffer"].dtype is x.dtype
    assert optimizer.state[x]["momentum_buffer"].tolist() == [[6, 0, 0, 0], [0, 0, 6, 0]]
    expected = np.zeros((2, 4))
    expected[0, 0] = expected[1, 2] = -1.9
    np.testing.assert_allclose(x.detach().cpu().double().numpy(), expected, atol=0.03)


@pytest.mark.parity
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.sampled(3)
def test_as_pytorch(device_name: str, options: dict[str, Any]) -> None:
    twins = Twins(device_name, SHAPES)

    def make(optim: Any, params: Any) -> Any:
        groups = [{"params": params[:2], "weight_decay": 0.2}, {"params": params[2:], "adjust_lr_fn": "none"}]
        return optim.Muon(groups, **options)

    ours, theirs = twins.run(make, 4)
    # Updates are computed in bfloat16, and products of matrices are summed in another order.
    twins.assert_same(rtol=0, atol=0.01 * options["lr"])
    for a, b in zip(twins.ours, twins.theirs, strict=True):
        assert list(ours.state[a]) == list(theirs.state[b])
        np.testing.assert_allclose(
            ours.state[a]["momentum_buffer"].tolist(), theirs.state[b]["momentum_buffer"].tolist(), atol=1e-6
        )


def test_mistakes() -> None:
    x = tensor.zeros(2, 2, requires_grad=True)
    for options, message in (
        ({"lr": -1}, "Learning rate should be >= 0 but is: -1"),
        ({"lr": tensor.ones(2)}, "Tensor lr must be 1-element"),
        ({"momentum": -1}, "momentum should be >= 0 but is: -1"),
        ({"weight_decay": -1}, "weight decay should be >= 0 but is: -1"),
        ({"adjust_lr_fn": "none"}, "Adjust learning rate function none is not supported"),
    ):
        with pytest.raises(ValueError, match=message):
            nn.optim.Muon([x], **options)
    vector = tensor.zeros(3, requires_grad=True)
    with pytest.raises(ValueError, match=r"Muon only supports 2D parameters .* size: .*\[3\]"):
        nn.optim.Muon([x, vector])
    optimizer = nn.optim.Muon([x])
    x.grad = tensor.ones(2, 2)
    group = optimizer.param_groups[0]
    for change, message in (
        ({"ns_steps": 100}, "Number of steps must be less than 100"),
        ({"ns_coefficients": (1.0, 2.0)}, "exactly 3 values"),
    ):
        before = dict(group)
        group.update(change)
        with pytest.raises(ValueError, match=message):
            optimizer.step()
        group.update(before)
    optimizer = nn.optim.Muon([x])
    optimizer.param_groups[0]["params"].append(vector)
    vector.grad = tensor.ones(3)
    with pytest.raises(ValueError, match="Param gradient must be a 2D matrix"):
        optimizer.step()
    z = tensor.zeros(2, 2, dtype=tensor.complex64, requires_grad=True)
    z.grad = tensor.ones_like(z)
    with pytest.raises(RuntimeError, match="Muon does not support complex parameters"):
        nn.optim.Muon([x, z]).step()
    assert x.tolist() == [[0, 0], [0, 0]]


def test_empty_matrices(device_name: str) -> None:
    params = [tensor.zeros(shape, device=device_name, requires_grad=True) for shape in ((0, 3), (3, 0))]
    for each in params:
        each.grad = tensor.ones_like(each)
    optimizer = nn.optim.Muon(params)
    optimizer.step()
    assert [list(optimizer.state[each]["momentum_buffer"].shape) for each in params] == [[0, 3], [3, 0]]


def test_a_layer_learns(device_name: str) -> None:
    random = np.random.default_rng(0)
    x = tensor.tensor(random.standard_normal((64, 6)), dtype=tensor.float32, device=device_name)
    y = x @ tensor.tensor(random.standard_normal((6, 4)), dtype=tensor.float32, device=device_name)
    tensor.manual_seed(0)
    layer = nn.Linear(6, 4, bias=False).to(device_name)
    optimizer = nn.optim.Muon(layer.parameters(), lr=0.4, weight_decay=0.0)
    scheduler = nn.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((layer(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 20
