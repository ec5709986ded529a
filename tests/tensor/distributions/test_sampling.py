"""Samples have the moments of their distribution, and derivatives; on the CPU and on a device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tensor
from tensor.distributions import gammas

from .samples import PARAMETERS, made

D = tensor.distributions
#: Those without a mean or a variance to compare with.
WITHOUT_MOMENTS = {
    "Cauchy",
    "Categorical",
    "HalfCauchy",
    "LKJCholesky",
    "LogisticNormal",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "VonMises",
}


@pytest.mark.parametrize("name", [name for name in PARAMETERS if name not in WITHOUT_MOMENTS])
def test_moments(name: str) -> None:
    tensor.manual_seed(0)
    count = 20000
    distribution, _ = made(tensor, name)
    with tensor.no_grad():
        samples = distribution.sample((count,)).double().numpy()
        mean, variance = distribution.mean.detach().numpy(), distribution.variance.detach().numpy()
    error = np.sqrt(variance / count)
    assert (np.abs(samples.mean(0) - mean) < 5 * error + 1e-12).all()
    # The error of a variance needs the fourth moment, which those with heavy tails have not.
    if name not in ("FisherSnedecor", "InverseGamma", "Pareto", "StudentT", "GeneralizedPareto"):
        fourth = ((samples - samples.mean(0)) ** 4).mean(0)
        spread = np.sqrt(np.maximum(fourth - variance**2, 0) / count)
        assert (np.abs(samples.var(0) - variance) < 6 * spread + 1e-6).all()


@pytest.mark.parametrize("name", ["Cauchy", "HalfCauchy"])
def test_quantiles(name: str) -> None:
    tensor.manual_seed(0)
    distribution, _ = made(tensor, name)
    with tensor.no_grad():
        below = distribution.cdf(distribution.sample((20000,)))
    for level in (0.1, 0.5, 0.9):
        assert abs((below < level).double().mean(0) - level).max().item() < 0.015


def test_frequencies_of_categories() -> None:
    tensor.manual_seed(0)
    distribution, parameters = made(tensor, "Categorical")
    drawn = distribution.sample((20000,))
    for category in range(3):
        frequency = (drawn == category).double().mean(0)
        assert (frequency - parameters["probs"][:, category]).abs().max().item() < 0.02


def test_angles_are_about_their_mean_direction() -> None:
    tensor.manual_seed(0)
    distribution, _ = made(tensor, "VonMises")
    with tensor.no_grad():
        angles = distribution.sample((20000,))
        resultant = (angles - distribution.loc).cos().mean(0)
        assert (1 - resultant - distribution.variance).abs().max().item() < 0.02
        assert (angles - distribution.loc).sin().mean(0).abs().max().item() < 0.03


def test_correlation_factors_have_uniform_correlations() -> None:
    tensor.manual_seed(0)
    factors = D.LKJCholesky(2, 1.0).sample((20000,))
    correlation = (factors @ factors.mT)[:, 0, 1].double()
    assert abs(correlation.mean().item()) < 0.02
    assert abs(correlation.var().item() - 1 / 3) < 0.02


SMALL: dict[str, dict[str, Any]] = {
    name: PARAMETERS[name]
    for name in ("Normal", "Bernoulli", "Categorical", "Gamma", "Beta", "Uniform", "Laplace")
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.sampled(4)
def test_on_either_device(name: str, device_name: str) -> None:
    tensor.manual_seed(1)
    distribution, parameters = made(tensor, name, device=device_name)
    other, other_parameters = made(tensor, name)
    samples = distribution.sample((40,))
    assert samples.device.type == device_name
    assert tuple(samples.shape) == (40, *distribution.batch_shape)
    densities, expected = distribution.log_prob(samples), other.log_prob(samples.cpu())
    np.testing.assert_allclose(
        densities.detach().cpu().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-12
    )
    densities.sum().backward()
    expected.sum().backward()
    for key, parameter in parameters.items():
        gradient = other_parameters[key].grad
        np.testing.assert_allclose(parameter.grad.cpu().numpy(), gradient.numpy(), rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="must lie in the support"):
        distribution.log_prob(samples.double() * math.nan)


@pytest.mark.parametrize("concentration", [0.02, 0.3, 1.0, 4.0, 150.0, 3e4])
def test_gamma_derivative_keeps_the_quantile(concentration: float) -> None:
    """A sample and its derivative move along a curve on which the distribution function is constant."""
    tensor.manual_seed(2)
    a = tensor.full((50,), concentration, dtype=tensor.float64)
    z = gammas.standard_gamma(a)
    step = 1e-5 * concentration
    slope = gammas.standard_gamma_grad(a, z)
    before, after = (tensor.igamma(a + sign * step, z + sign * step * slope) for sign in (-1, 1))
    alone = tensor.igamma(a + step, z) - tensor.igamma(a - step, z)
    assert (after - before).abs().max().item() < 1e-3 * alone.abs().max().item()


def test_gamma_samples_have_derivatives_of_their_mean() -> None:
    tensor.manual_seed(3)
    distribution, parameters = made(tensor, "Gamma")
    distribution.rsample((20000,)).mean(0).sum().backward()
    rate = parameters["rate"].detach()
    expected = {"concentration": 1 / rate, "rate": -parameters["concentration"].detach() / rate**2}
    for key, gradient in expected.items():
        assert (parameters[key].grad / gradient - 1).abs().max().item() < 0.05


def test_divergence_of_wishart_is_the_mean_of_its_log_ratio() -> None:
    tensor.manual_seed(4)
    p, _ = made(tensor, "Wishart")
    q, _ = made(tensor, "Wishart", {"df": [3.0, 7.5], "covariance_matrix": [[1.0, -0.5], [-0.5, 3.0]]})
    with tensor.no_grad():
        samples = p.sample((10000,))
        ratios = p.log_prob(samples) - q.log_prob(samples)
        error = ratios.std(0) / 100
        assert bool(((ratios.mean(0) - D.kl_divergence(p, q)).abs() < 5 * error).all())


def test_mode_of_kumaraswamy_has_the_largest_density() -> None:
    distribution, _ = made(tensor, "Kumaraswamy")
    with tensor.no_grad():
        grid = tensor.linspace(0.001, 0.999, 999, dtype=tensor.float64).unsqueeze(-1)
        densities = distribution.log_prob(grid)
        assert (grid[densities.argmax(0), 0] - distribution.mode).abs().max().item() < 1e-3


def test_expanded_distributions_of_subclasses() -> None:
    class Plain(D.Normal):
        """Without a constructor."""

    class Own(D.Normal):
        """With a constructor, of which expand() knows nothing."""

        def __init__(self, loc: float) -> None:
            super().__init__(loc, 1.0)

    assert isinstance(Plain(0.0, 1.0).expand((2,)), Plain)
    with pytest.raises(NotImplementedError, match="must define expand"):
        Own(0.0).expand((2,))
    with pytest.warns(UserWarning, match=r"use sample\(\(n,\)\)"):
        assert tuple(Plain(0.0, 1.0).sample_n(3).shape) == (3,)
