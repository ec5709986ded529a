"""Modules as functions: ``func.functional_call``, ``stack_module_state``, ``replace_all_batch_norm_modules_``."""

from __future__ import annotations

from typing import Any

import pytest

import nn
import tensor
from tensor import func


def test_functional_call_takes_several_dicts_and_is_differentiated(device_name: str) -> None:
    model = (
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 1)).to(device_name).eval()
    )
    parameters = {path: each.detach() for path, each in model.named_parameters()}
    buffers = dict(model.named_buffers())
    x = tensor.randn(5, 3, device=device_name)

    def loss(parameters: Any) -> Any:
        return func.functional_call(model, (parameters, buffers), (x,)).square().mean()

    found = func.grad(loss)(parameters)
    model(x).square().mean().backward()
    for path, each in model.named_parameters():
        assert each.grad is not None
        assert found[path].allclose(each.grad)
    assert model[0].weight.is_leaf


def test_functional_call_refuses_what_is_ambiguous() -> None:
    model, weight = nn.Linear(2, 1), tensor.ones(1, 2)
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        func.functional_call(model, ({"weight": weight}, {"weight": weight}), (tensor.ones(2),))
    with pytest.raises(ValueError, match="Expected all elements .* dictionaries, got int"):
        func.functional_call(model, ({"weight": weight}, 3), (tensor.ones(2),))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="to be a dict, or a list/tuple of dicts"):
        func.functional_call(model, 3, (tensor.ones(2),))  # type: ignore[arg-type]


def test_stack_module_state() -> None:
    models = [nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(4)]
    parameters, buffers = func.stack_module_state(models)
    assert parameters["0.weight"].shape == (4, 3, 2)
    assert parameters["0.weight"].requires_grad
    assert parameters["0.weight"].is_leaf
    assert parameters["0.weight"][2].equal(models[2][0].weight)
    assert not buffers["1.running_mean"].requires_grad
    assert buffers["1.num_batches_tracked"].shape == (4,)


def test_stack_module_state_refuses_models_that_differ() -> None:
    with pytest.raises(RuntimeError, match="at least one model"):
        func.stack_module_state([])
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        func.stack_module_state([nn.Linear(1, 1), nn.Linear(1, 1).eval()])
    with pytest.raises(RuntimeError, match="same class"):
        func.stack_module_state([nn.Linear(1, 1), nn.Bilinear(1, 1, 1)])
    frozen = nn.Linear(1, 1)
    frozen.weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match=r"weight from each model to have the same \.requires_grad"):
        func.stack_module_state([nn.Linear(1, 1), frozen])


def test_batch_norms_lose_their_running_statistics() -> None:
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm1d(2)))
    assert func.replace_all_batch_norm_modules_(model) is model
    assert not list(model.buffers())
    assert not model[1][0].track_running_stats
