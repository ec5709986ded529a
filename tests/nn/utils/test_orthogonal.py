"""Weights that stay orthogonal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
import nn
import tensor
from nn.utils.parametrizations import orthogonal
from tests.nn.parity import assert_like_pytorch
from tests.tensor.comparison import array_of

pytestmark = pytest.mark.usefixtures("full_precision")
MAPS = ("matrix_exp", "cayley", "householder")


def gram(weight: Any) -> Any:
    weight = weight.detach()
    tall = weight if weight.shape[-2] >= weight.shape[-1] else weight.mT
    return (tall.mH @ tall).cpu().numpy()


@pytest.mark.parametrize("orthogonal_map", MAPS)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (1, 4)])
@pytest.mark.parametrize("based", [True, False])
def test_it_stays_orthogonal(orthogonal_map: str, shape: tuple[int, int], based: bool) -> None:
    layer = nn.Linear(*reversed(shape)).double()
    before = layer.weight.detach().clone()
    orthogonal(layer, "weight", orthogonal_map, use_trivialization=based)
    unit = np.eye(min(shape))
    np.testing.assert_allclose(gram(layer.weight), unit, atol=1e-12)
    x = tensor.from_numpy(np.random.default_rng(0).standard_normal((6, shape[1])))
    for _ in range(3):
        layer.zero_grad()
        (layer(x) ** 2).sum().backward()
        with tensor.no_grad():
            for each in layer.parameters():
                each -= 0.1 * each.grad
    np.testing.assert_allclose(gram(layer.weight), unit, atol=1e-11)
    assert not np.allclose(layer.weight.detach().numpy(), before.numpy())


@pytest.mark.parity
@pytest.mark.parametrize("orthogonal_map", MAPS)
@pytest.mark.parametrize("shape", [(4, 4), (2, 4, 3), (3, 5)])
def test_maps_are_pytorchs(orthogonal_map: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal(shape)

    def program(library: Any, layers: Any) -> Any:
        module = layers.Module()
        module.weight = layers.Parameter(library.from_numpy(values.copy()))
        layers.utils.parametrizations.orthogonal(module, "weight", orthogonal_map, use_trivialization=False)
        weight = module.weight
        (weight * library.arange(float(values.size)).reshape(shape)).sum().backward()
        grad = module.parametrizations.weight.original.grad
        return np.round(array_of(weight), 9).tolist(), np.round(array_of(grad), 7).tolist()

    assert_like_pytorch(program)


@pytest.mark.parametrize("based", [True, False])
def test_values_can_be_assigned(based: bool) -> None:
    layer = orthogonal(nn.Linear(3, 5).double(), orthogonal_map="householder", use_trivialization=based)
    expected = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 3)))[0]
    layer.weight = tensor.from_numpy(expected)
    np.testing.assert_allclose(layer.weight.detach().numpy(), expected, atol=1e-12)
    square = orthogonal(nn.Linear(3, 3).double())
    square.weight = tensor.eye(3, dtype=tensor.float64)
    np.testing.assert_allclose(square.weight.detach().numpy(), np.eye(3), atol=1e-14)
    with pytest.raises(NotImplementedError, match="not possible to assign"):
        orthogonal(nn.Linear(3, 3), orthogonal_map="cayley", use_trivialization=False).weight = tensor.eye(3)


def test_complex_ones_are_unitary() -> None:
    module = nn.Module()
    module.weight = nn.Parameter(tensor.randn(4, 3, dtype=tensor.complex128))
    orthogonal(module)
    np.testing.assert_allclose(gram(module.weight), np.eye(3), atol=1e-12)


@pytest.mark.parity
def test_states_can_be_loaded() -> None:
    one, other = (orthogonal(nn.Linear(3, 5)) for _ in range(2))
    other.load_state_dict(one.state_dict())
    np.testing.assert_array_equal(one.weight.detach().numpy(), other.weight.detach().numpy())
    assert_like_pytorch(
        lambda _, layers: list(layers.utils.parametrizations.orthogonal(layers.Linear(3, 5)).state_dict())
    )


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="no parameter or buffer with name 'other'"):
        orthogonal(nn.Linear(2, 2), "other")
    with pytest.raises(ValueError, match="1 dimensions"):
        orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="Got: some"):
        orthogonal(nn.Linear(2, 2), "weight", "some")
    module = nn.Module()
    module.weight = nn.Parameter(tensor.zeros(2, 2, dtype=tensor.complex64))
    with pytest.raises(ValueError, match="complex"):
        orthogonal(module, orthogonal_map="householder")
    with pytest.raises(ValueError, match=r"shape .*\[2, 2\].*\[3, 2\]"):
        orthogonal(nn.Linear(2, 2)).weight = tensor.ones(3, 2)


@pytest.mark.parametrize("orthogonal_map", MAPS)
def test_on_a_device(orthogonal_map: str, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--gpu"):
        drv.simulator.install(check="race")
    layer = orthogonal(nn.Linear(3, 4, device="cuda").double(), orthogonal_map=orthogonal_map)
    np.testing.assert_allclose(gram(layer.weight), np.eye(3), atol=1e-12)
    layer(tensor.ones(2, 3, dtype=tensor.float64, device="cuda")).sum().backward()
    assert layer.parametrizations.weight.original.grad.device.type == "cuda"
