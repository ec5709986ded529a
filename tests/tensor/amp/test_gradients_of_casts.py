"""Gradients of parameters that autocast casts are float32 from where they are computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from tests.tensor.launched_kernels import launched


def _half(device_name: str) -> Any:
    return tensor.bfloat16 if device_name == "cpu" else tensor.float16


def _numbers(*shape: int, device: str) -> Any:
    generator = tensor.Generator().manual_seed(sum(shape))
    return tensor.randn(*shape, generator=generator).to(device)


def test_linear_maps_do_not_round_the_gradients_of_their_parameters(device_name: str) -> None:
    half = _half(device_name)
    layer = nn.Linear(8, 4).to(device_name)
    x, grad = _numbers(40, 8, device=device_name), _numbers(40, 4, device=device_name).to(half)
    for _ in range(2):
        layer.zero_grad()
        with tensor.autocast(device_name, dtype=half):
            layer(x).backward(grad)
        rows, given = x.to(half).double().cpu(), grad.double().cpu()
        for parameter, expected in ((layer.weight, given.t() @ rows), (layer.bias, given.sum(0))):
            assert parameter.grad.dtype is tensor.float32
            np.testing.assert_allclose(parameter.grad.cpu().numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


def test_gradients_of_several_uses_are_summed_in_float32(device_name: str) -> None:
    """1 and 2**-12 of half precision: their sum is none."""
    half = _half(device_name)
    weight = nn.Parameter(tensor.ones(1, 1, device=device_name))
    one, small = tensor.ones(2, 1, device=device_name), tensor.full((2, 1), 2.0**-13, device=device_name)
    with tensor.autocast(device_name, dtype=half):
        loss = nn.functional.linear(one, weight).float().sum()
        loss = loss + nn.functional.linear(small, weight).float().sum()
    loss.backward()
    assert weight.grad.item() == 2 + 2.0**-12


def test_other_operations_convert_their_gradients(device_name: str) -> None:
    half = _half(device_name)
    layer = nn.Conv2d(2, 3, 3).to(device_name)
    with tensor.autocast(device_name, dtype=half):
        layer(_numbers(2, 2, 5, 5, device=device_name)).float().square().sum().backward()
    assert layer.weight.grad.dtype is layer.bias.grad.dtype is tensor.float32


def test_second_derivatives(device_name: str) -> None:
    half = _half(device_name)
    layer = nn.Linear(4, 3).to(device_name)
    x = _numbers(5, 4, device=device_name)
    with tensor.autocast(device_name, dtype=half):
        loss = layer(x).float().pow(3).sum()
    (first,) = tensor.autograd.grad(loss, layer.weight, create_graph=True)
    (second,) = tensor.autograd.grad(first.sum(), layer.weight)
    assert first.dtype is second.dtype is tensor.float32
    values = nn.functional.linear(x, layer.weight, layer.bias).detach()
    expected = (6 * values * x.sum(1, keepdim=True)).t() @ x
    np.testing.assert_allclose(second.cpu().numpy(), expected.cpu().numpy(), rtol=0.05, atol=0.5)


@pytest.mark.parametrize("bias", [False, True])
def test_a_device_needs_no_casts_of_these_gradients(bias: bool) -> None:

    drv.simulator.install(check="race")
    layers = nn.Sequential(*[nn.Linear(16, 16, bias=bias) for _ in range(4)]).cuda()
    x = tensor.randn(3, 16, device="cuda", dtype=tensor.bfloat16)

    def loss() -> Any:
        with tensor.autocast("cuda", dtype=tensor.bfloat16):
            return layers(x).sum(dtype=tensor.float32)

    loss().backward()
    layers.zero_grad()
    total = loss()
    with launched() as names:
        total.backward()
    casts = [each for each in names if each.startswith("copy_")]
    # Of the sum's gradient, which is float32.
    assert len(casts) <= 2
