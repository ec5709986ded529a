"""Counts of Poisson's and the binomial distribution."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import tensor
from tensor.operations.random import counts


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.7, 3.0, 40.0, 1e4])
def test_poisson_inverts_the_distribution_function(rate: float, device_name: str) -> None:
    u = np.random.default_rng(0).random(200)
    rates = tensor.full((200,), rate, dtype=tensor.float64, device=device_name)
    result = counts.POISSON(rates, tensor.from_numpy(u).to(device_name)).cpu().numpy()
    np.testing.assert_array_equal(result, scipy.stats.poisson.ppf(u, rate) if rate else np.zeros(200))


@pytest.mark.parametrize(
    ("count", "chance"), [(1, 0.3), (12, 0.5), (1000, 0.01), (1e5, 0.7), (7, 0.0), (7, 1.0), (0, 0.5)]
)
def test_binomial_counts_have_their_distribution(count: float, chance: float, device_name: str) -> None:
    """Each number stands for as large a part of the uniform numbers as its probability."""
    n = 2000 if device_name == "cpu" else 300
    u = (np.arange(n) + 0.5) / n
    result = counts.BINOMIAL(
        tensor.full((n,), count, dtype=tensor.float64, device=device_name),
        tensor.tensor(chance, dtype=tensor.float64, device=device_name),
        tensor.from_numpy(u).to(device_name),
    )
    values, number = np.unique(result.cpu().numpy(), return_counts=True)
    expected = scipy.stats.binom.pmf(values, count, chance)
    assert np.abs(number / n - expected).max() <= 2 / n
    assert result.cpu().numpy().mean() == pytest.approx(count * chance, rel=0.01, abs=0.01)


def test_moments_and_seeds() -> None:
    tensor.manual_seed(3)
    rates = tensor.full((20000,), 4.5)
    first = tensor.poisson(rates)
    assert first.dtype is tensor.float32
    assert first.mean().item() == pytest.approx(4.5, rel=0.02)
    assert first.var().item() == pytest.approx(4.5, rel=0.04)
    tensor.manual_seed(3)
    assert first.equal(tensor.poisson(rates))
    result = tensor.binomial(tensor.full((3, 1), 10.0), tensor.rand(4))
    assert result.shape == (3, 4)
    generator = tensor.Generator().manual_seed(5)
    again = tensor.Generator().manual_seed(5)
    assert tensor.poisson(rates, generator).equal(tensor.poisson(rates, again))


def test_gradients_are_zero() -> None:
    rates = tensor.tensor([1.0, 2.0], requires_grad=True)
    drawn = tensor.poisson(rates)
    assert drawn.grad_fn.name() == "PoissonBackward0"
    drawn.sum().backward()
    assert rates.grad.tolist() == [0.0, 0.0]


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="non-negative"):
        tensor.poisson(tensor.tensor([1.0, -1.0]))
    with pytest.raises(NotImplementedError):
        tensor.poisson(tensor.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="floating-point dtypes for count"):
        tensor.binomial(tensor.tensor([1, 2]), tensor.rand(2))
    assert tensor.poisson(tensor.empty(0, 3)).shape == (0, 3)
