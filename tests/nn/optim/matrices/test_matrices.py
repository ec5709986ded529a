"""Optimizers of matrices: state dicts, also PyTorch's, and copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import drv
import nn.optim
import tensor
from tests.nn.optim.test_optimizer import MATRICES, converted
from tests.nn.optim.twins import Twins
from tests.tensor.driver_calls import counted

SHAPES = ((3, 4), (8, 2))
_OPTIONS: dict[str, dict[str, Any]] = {
    "Adafactor": {"lr": 0.5, "beta2_decay": -0.5, "weight_decay": 0.1, "maximize": True},
    "Muon": {"lr": 0.1, "momentum": 0.5, "nesterov": False},
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.sampled(4)
def test_goes_on_from_a_state_dict(device_name: str, name: str) -> None:
    def start() -> Any:
        tensor.manual_seed(0)
        params = [tensor.randn(shape).to(device_name).requires_grad_() for shape in SHAPES]
        return params, getattr(nn.optim, name)(params, **_OPTIONS[name])

    def steps(params: Any, optimizer: Any, several: range) -> None:
        for number in several:
            tensor.manual_seed(number)
            for each in params:
                each.grad = tensor.randn(each.shape).to(device_name)
            optimizer.step()

    whole, optimizer = start()
    steps(whole, optimizer, range(5))
    parted, first = start()
    steps(parted, first, range(3))
    second = getattr(nn.optim, name)(parted)
    state = first.state_dict()
    second.load_state_dict(state)
    assert second.state_dict()["param_groups"] == state["param_groups"]
    for value in state["state"].values():
        for kept in value.values():
            kept.fill_(99)
    steps(parted, second, range(3, 5))
    for a, b in zip(whole, parted, strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.parity
@pytest.mark.parametrize("name", MATRICES)
def test_state_dicts_carry_over(device_name: str, name: str) -> None:
    """PyTorch goes on from this library's state dict, and the other way round."""
    twins = Twins(device_name, SHAPES)
    ours, theirs = twins.run(lambda optim, params: getattr(optim, name)(params, **_OPTIONS[name]), 4)
    a, b = ours.state_dict(), theirs.state_dict()
    assert a["param_groups"] == b["param_groups"]
    assert {key: list(value) for key, value in a["state"].items()} == {
        key: list(value) for key, value in b["state"].items()
    }
    ours = getattr(nn.optim, name)(twins.ours)
    theirs = getattr(twins.torch.optim, name)(twins.theirs)
    ours.load_state_dict(converted(b, tensor))
    theirs.load_state_dict(converted(a, twins.torch))
    for _ in range(3):
        twins.set_gradients()
        ours.step()
        theirs.step()
    tolerance = 1e-5 if name == "Adafactor" else 1e-3
    twins.assert_same(rtol=tolerance, atol=tolerance)
    twins.assert_same(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", MATRICES)
def test_copies(name: str) -> None:
    x = tensor.ones(3, 2, requires_grad=True)
    x.grad = tensor.ones(3, 2)
    optimizer = getattr(nn.optim, name)([x], lr=0.1)
    optimizer.step()
    for copied in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert repr(copied) == repr(optimizer)
        y = copied.param_groups[0]["params"][0]
        assert y is not x
        y.grad = tensor.ones(3, 2)
        copied.step()
        assert copied.state_dict()["state"].keys() == optimizer.state_dict()["state"].keys()
        assert y.tolist() != x.tolist()


@pytest.mark.simulator_only
@pytest.mark.parametrize("name", MATRICES)
def test_a_step_waits_for_nothing(name: str) -> None:
    drv.simulator.install(check="full")
    params = [tensor.ones(shape, device="cuda", requires_grad=True) for shape in SHAPES]
    optimizer = getattr(nn.optim, name)(params, weight_decay=0.1)
    for each in params:
        each.grad = tensor.ones_like(each)
    # Kernels and copies that are planned in the block are counted; the first step also makes room for its results.
    with counted() as calls:
        optimizer.step()
    assert calls["cuLaunchKernel"] > 10
    assert calls.blocking().keys() <= {"cuMemAlloc"}
    with counted() as calls:
        optimizer.step()
    assert not calls.blocking()
    tensor.cuda.synchronize()
    assert not drv.simulator.findings()
