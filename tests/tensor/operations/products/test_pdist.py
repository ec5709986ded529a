"""Distances between the rows of a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tests.tensor.operations.neural_comparison import assert_like_torch


@pytest.mark.parity
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("shape", [(5, 3), (2, 4)])
@pytest.mark.sampled(3)
def test_against_pytorch(power: float, shape: tuple[int, int], device_name: str) -> None:
    torch = pytest.importorskip("torch")
    array = np.random.default_rng(0).standard_normal(shape)
    assert_like_torch(
        device_name,
        lambda x: tensor.pdist(x, power),
        lambda x: torch.pdist(x, power),
        [array],
        tolerance=1e-12,
    )


def test_it_is_the_upper_triangle(device_name: str) -> None:
    x = tensor.from_numpy(np.random.default_rng(0).standard_normal((30, 4))).to(device_name)
    whole = tensor.cdist(x, x).cpu().numpy()
    np.testing.assert_allclose(tensor.pdist(x).cpu().numpy(), whole[np.triu_indices(30, 1)], atol=1e-6)


@pytest.mark.parametrize(("shape", "pairs"), [((1, 3), 0), ((0, 3), 0), ((4, 0), 6)])
def test_rows_without_pairs_or_elements(shape: tuple[int, int], pairs: int, device_name: str) -> None:
    x = tensor.ones(shape, device=device_name, requires_grad=True)
    result = tensor.pdist(x)
    assert result.tolist() == [0.0] * pairs
    result.sum().backward()
    assert x.grad.shape == shape


def test_derivatives() -> None:
    x = tensor.from_numpy(np.random.default_rng(0).standard_normal((4, 3))).requires_grad_()
    for power in (1.0, 2.0, 3.0):
        assert tensor.autograd.gradcheck(lambda x, power=power: tensor.pdist(x, power), (x,))
    assert tensor.autograd.gradgradcheck(tensor.pdist, (x,))
    same = tensor.zeros(2, 3, requires_grad=True)
    tensor.pdist(same).sum().backward()
    assert not same.grad.any().item()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda: tensor.pdist(tensor.ones(3)), RuntimeError, "2D tensors, got: 1D"),
        (lambda: tensor.pdist(tensor.ones(2, 2).int()), RuntimeError, "int32"),
        (lambda: tensor.pdist(tensor.ones(2, 2), -1.0), RuntimeError, "non-negative p values, got -1"),
        (lambda: tensor.pdist([1.0]), TypeError, "must be Tensor"),
    ],
)
def test_wrong_arguments(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        given()
