"""A block of autocast casts in one launch what the block before it, which began with the same parameter, cast."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from nn import functional
from tensor.core.modes.autocast import settings
from tests.tensor.launched_kernels import launched

pytestmark = pytest.mark.usefixtures("simulated")


@pytest.fixture
def simulated() -> Any:
    drv.simulator.install(check="race", schedule="random")
    yield
    settings.groups.clear()


def _model(sizes: int = 3) -> Any:
    tensor.manual_seed(0)
    return nn.Sequential(*[nn.Linear(16, 16) for _ in range(sizes)]).cuda()


def _step(model: Any, x: Any, dtype: Any = tensor.bfloat16) -> tuple[Any, list[Any]]:
    with tensor.autocast("cuda", dtype=dtype):
        loss = model(x).square().mean()
    loss.backward()
    grads = [each.grad.clone() for each in model.parameters()]
    model.zero_grad()
    return loss.detach(), grads


def test_results_and_gradients_stay() -> None:
    model, x = _model(), tensor.randn(4, 16, device="cuda")
    loss, grads = _step(model, x)
    for _ in range(2):
        again, others = _step(model, x)
        assert tensor.equal(loss, again)
        assert all(map(tensor.equal, grads, others))


def test_the_second_block_casts_all_parameters_at_once() -> None:
    model, x = _model(), tensor.randn(4, 16, device="cuda")
    names: list[list[str]] = []
    for _ in range(3):
        with launched() as kernels, tensor.autocast("cuda", dtype=tensor.bfloat16):
            model(x)
        kernels = [each for each in kernels if "cast_tensors" in each]
        names.append(kernels)
    assert [len(each) for each in names] == [0, 1, 1]
    with tensor.autocast("cuda", dtype=tensor.bfloat16):
        model(x)
        assert len(settings.casts) == 6


def test_a_parameter_written_after_the_cast_is_cast_again() -> None:
    model, x = _model(), tensor.randn(4, 16, device="cuda")
    _step(model, x)
    with tensor.autocast("cuda", dtype=tensor.bfloat16):
        hidden = model[0](x)
        with tensor.no_grad():
            model[1].weight.zero_()
            model[1].bias.fill_(2)
        assert (model[1](hidden) == 2).all()


def test_models_by_turns_do_not_cast_each_others_parameters() -> None:
    first, second, x = _model(), _model(2), tensor.randn(4, 16, device="cuda")
    for _ in range(3):
        for model, count in ((first, 6), (second, 4)):
            with tensor.autocast("cuda", dtype=tensor.float16):
                model(x)
                assert len(settings.casts) == count


def test_parameters_that_are_gone_are_forgotten() -> None:
    model, x = _model(), tensor.randn(4, 16, device="cuda")
    _step(model, x)
    assert len(settings.groups) == 1
    last, model = model[2], model[:2]
    del last
    gc.collect()
    loss, _ = _step(model, x)
    assert loss.isfinite()
    del model
    gc.collect()
    assert not settings.groups


def test_frozen_and_moved_parameters_are_left_out() -> None:
    model, x = _model(), tensor.randn(4, 16, device="cuda")
    _step(model, x)
    model[1].weight.requires_grad_(False)
    model[2].bias.data = model[2].bias.data.double()
    with tensor.autocast("cuda", dtype=tensor.bfloat16):
        result = model[1](model[0](x))
        assert len(settings.casts) == 4
    result.sum().backward()
    assert model[1].weight.grad is None and model[0].weight.grad is not None


def test_each_stream_casts_its_own() -> None:
    model, x = _model(), tensor.randn(4, 16, device="cuda")
    expected, _ = _step(model, x)
    side = tensor.cuda.Stream()
    for _ in range(2):
        with tensor.autocast("cuda", dtype=tensor.bfloat16):
            model(x)
            side.wait_stream(tensor.cuda.current_stream())
            with tensor.cuda.stream(side):
                loss = model(x).square().mean()
            assert len(settings.casts) == 12
        tensor.cuda.current_stream().wait_stream(side)
        assert loss == expected


def test_without_recording_casts_have_no_history() -> None:
    model, x = _model(), tensor.randn(4, 16, device="cuda")
    _step(model, x)
    with tensor.autocast("cuda", dtype=tensor.bfloat16):
        with tensor.no_grad():
            model(x)
        loss = model(x).square().mean()
    loss.backward()
    assert all(each.grad is not None for each in model.parameters())


def test_a_tied_weight_has_one_cast() -> None:
    weight = nn.Parameter(tensor.randn(16, 16, device="cuda"))
    bias = nn.Parameter(tensor.zeros(16, device="cuda"))
    x = tensor.randn(4, 16, device="cuda")

    def run() -> Any:
        with tensor.autocast("cuda", dtype=tensor.bfloat16):
            return functional.linear(functional.linear(x, weight, bias), weight).float().sum()

    run().backward()
    first = weight.grad.cpu().numpy()
    weight.grad = None
    run().backward()
    np.testing.assert_array_equal(weight.grad.cpu().numpy(), first)
