"""Densities, moments, entropies, divergences and their gradients, shapes and errors: those of PyTorch."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor

from .samples import PARAMETERS, made

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.parity

#: Where PyTorch computes a part in single precision: Bessel functions, a constant, all of it.
_RTOL = {"VonMises": 2e-6, "Multinomial": 1e-7, "GeneralizedPareto": 2e-5}


def _array(given: Any) -> Any:
    return given.detach().numpy()


def _close(found: Any, expected: Any, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    assert tuple(found.shape) == tuple(expected.shape)
    if str(expected.dtype) == "torch.float32":
        rtol, atol = max(rtol, 2e-5), max(atol, 2e-5)
    np.testing.assert_allclose(_array(found), _array(expected), rtol=rtol, atol=atol)


def _both(name: str, **changes: Any) -> tuple[Any, Any, Any, Any]:
    torch = pytest.importorskip("torch")
    ours, our_parameters = made(tensor, name, changes)
    theirs, their_parameters = made(torch, name, changes)
    return ours, theirs, our_parameters, their_parameters


def _same_with_gradients(name: str, compute: Callable[[Any, Any], Any]) -> None:
    """Both compute the same, with the same gradients of all parameters, or neither defines it."""
    torch = pytest.importorskip("torch")
    ours, theirs, our_parameters, their_parameters = _both(name)
    try:
        expected = compute(theirs, torch)
    except NotImplementedError:
        return
    found = compute(ours, tensor)
    _close(found, expected, rtol=_RTOL.get(name, 1e-9))
    if not expected.requires_grad or not bool(expected.isfinite().all()):
        return
    assert found.requires_grad
    for values in (found, expected):
        values.sum().backward()
    for key, parameter in our_parameters.items():
        other = their_parameters[key].grad
        if other is not None:
            # PyTorch's of a function of clamped or expanded parameters may be None where ours is 0.
            _close(parameter.grad, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", PARAMETERS)
def test_shapes_and_static_properties(name: str) -> None:
    ours, theirs, _, _ = _both(name)
    for attribute in ("batch_shape", "event_shape"):
        assert tuple(getattr(ours, attribute)) == tuple(getattr(theirs, attribute))
    assert ours.has_enumerate_support == theirs.has_enumerate_support
    assert ours.has_rsample == theirs.has_rsample
    assert ours.support.event_dim == theirs.support.event_dim
    assert ours.support.is_discrete == theirs.support.is_discrete
    samples = ours.sample((2, 4))
    assert tuple(samples.shape) == tuple(theirs.sample((2, 4)).shape)
    assert str(samples.dtype).split(".")[1] == str(theirs.sample().dtype).split(".")[1]
    assert bool(ours.support.check(samples).all())


@pytest.mark.parametrize("attribute", ["mean", "variance", "mode", "stddev"])
@pytest.mark.parametrize("name", PARAMETERS)
def test_moments(name: str, attribute: str) -> None:
    if (name, attribute) == ("Kumaraswamy", "mode"):
        pytest.skip("PyTorch's is NaN for all parameters greater than 1: see test_sampling")
    _same_with_gradients(name, lambda distribution, library: getattr(distribution, attribute).double())


@pytest.mark.parametrize("name", PARAMETERS)
def test_entropy(name: str) -> None:
    _same_with_gradients(name, lambda distribution, library: distribution.entropy())


@pytest.mark.parametrize("name", PARAMETERS)
def test_log_prob(name: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    values = made(torch, name)[0].sample((5,)).numpy()
    _same_with_gradients(name, lambda d, library: d.log_prob(library.tensor(values)))


@pytest.mark.parametrize("name", PARAMETERS)
def test_cdf(name: str) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    values = made(torch, name)[0].sample((5,)).numpy()
    if name in ("Gamma", "Chi2", "InverseGamma"):
        # Neither library differentiates the incomplete gamma function by its first argument.
        ours, theirs, _, _ = _both(name)
        with torch.no_grad(), tensor.no_grad():
            _close(ours.cdf(tensor.tensor(values)), theirs.cdf(torch.tensor(values)))
        return
    _same_with_gradients(name, lambda d, library: d.cdf(library.tensor(values)))


@pytest.mark.parametrize("name", PARAMETERS)
def test_icdf(name: str) -> None:
    dtype = "float32" if name == "GeneralizedPareto" else "float64"
    _same_with_gradients(
        name, lambda d, library: d.icdf(library.tensor([[0.1], [0.7]], dtype=getattr(library, dtype)))
    )


@pytest.mark.parametrize("name", PARAMETERS)
def test_expanded_and_enumerated(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs, _, _ = _both(name)
    batch = (2, *theirs.batch_shape)
    ours, theirs = ours.expand(batch), theirs.expand(batch)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    values = theirs.sample().numpy()
    rtol = _RTOL.get(name, 1e-9)
    _close(ours.log_prob(tensor.tensor(values)), theirs.log_prob(torch.tensor(values)), rtol)
    if theirs.has_enumerate_support:
        for expand in (True, False):
            _close(ours.enumerate_support(expand), theirs.enumerate_support(expand))


def _divergence(library: Any, p: Any, q: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return library.distributions.kl_divergence(p, q)
    except (NotImplementedError, ValueError):
        # Not defined for these classes, or not for these event shapes.
        return None


@pytest.mark.parametrize("name", PARAMETERS)
def test_divergences(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs, _, _ = _both(name)
    for other in PARAMETERS:
        our_q, their_q, _, _ = _both(other)
        try:
            expected = _divergence(torch, theirs, their_q)
        except RuntimeError:
            continue
        found = _divergence(tensor, ours, our_q)
        if expected is None:
            assert found is None, other
        else:
            assert found is not None, other
            _close(found, expected, rtol=1e-7)


OTHERS: dict[str, dict[str, Any]] = {
    "Bernoulli": {"probs": [0.3, 0.4, 0.9]},
    "Beta": {"concentration1": [1.5, 1.0, 2.0], "concentration0": [0.9, 2.5, 3.0]},
    "Binomial": {"probs": [0.3, 0.4, 0.9]},
    "Categorical": {"probs": [[0.3, 0.1, 0.6], [0.2, 0.3, 0.5]]},
    "Cauchy": {"loc": [0.1, 1.0, 2.5], "scale": [1.5, 2.0, 1.0]},
    "ContinuousBernoulli": {"probs": [0.3, 0.4, 0.9]},
    "Dirichlet": {"concentration": [[1.5, 1.0, 2.0], [2.2, 0.5, 3.0]]},
    "Exponential": {"rate": [1.5, 1.0, 4.0]},
    "Gamma": {"concentration": [1.5, 1.0, 6.0], "rate": [0.9, 2.5, 4.0]},
    "Geometric": {"probs": [0.3, 0.4, 0.9]},
    "Gumbel": {"loc": [0.1, 1.0, 2.5], "scale": [1.5, 2.0, 1.0]},
    "HalfNormal": {"scale": [1.5, 2.0, 1.0]},
    "Laplace": {"loc": [0.1, 1.0, 2.5], "scale": [1.5, 2.0, 1.0]},
    "LogNormal": {"loc": [0.1, 1.0, 2.5], "scale": [1.5, 2.0, 1.0]},
    "LowRankMultivariateNormal": {"loc": [0.1, 1.0, 2.5], "cov_diag": [1.5, 2.0, 1.0]},
    "MultivariateNormal": {"loc": [0.1, 1.0], "covariance_matrix": [[1.0, -0.5], [-0.5, 3.0]]},
    "Normal": {"loc": [0.1, 1.0, 2.5], "scale": [1.5, 2.0, 1.0]},
    "OneHotCategorical": {"logits": [[0.3, 0.1, 0.6], [0.2, 0.3, 0.5]]},
    "Pareto": {"scale": [0.3, 0.5, 1.0], "alpha": [2.0, 3.0, 4.0]},
    "Poisson": {"rate": [1.5, 1.0, 6.0]},
    "Uniform": {"low": [0.1, -2.0, 1.5], "high": [2.5, 1.5, 3.5]},
}


@pytest.mark.parametrize("name", OTHERS)
def test_divergence_from_another_of_the_class(name: str) -> None:
    torch = pytest.importorskip("torch")
    q = {library: made(library, name, OTHERS[name])[0] for library in (tensor, torch)}
    _same_with_gradients(name, lambda p, library: library.distributions.kl_divergence(p, q[library]))


@pytest.mark.parametrize("name", PARAMETERS)
def test_bad_parameters_are_refused(name: str) -> None:
    torch = pytest.importorskip("torch")
    for key, value in PARAMETERS[name].items():
        if not isinstance(value, list) or key == "temperature":
            continue
        for bad in (float("nan"), -1.0):
            filled = np.full_like(np.array(value, dtype=float), bad).tolist()
            outcomes = []
            for library in (torch, tensor):
                try:
                    made(library, name, {key: filled})
                    outcomes.append(None)
                except Exception as error:
                    outcomes.append(type(error))
            if outcomes[0] is not None:
                assert outcomes[1] is ValueError, (key, bad)


@pytest.mark.parametrize("name", PARAMETERS)
def test_values_outside_of_the_support_are_refused(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs, _, _ = _both(name)
    value = np.full(theirs.sample().shape, np.nan)
    try:
        theirs.log_prob(torch.tensor(value))
    except ValueError:
        with pytest.raises(ValueError, match="must lie in the support"):
            ours.log_prob(tensor.tensor(value))
    if theirs.batch_shape[-1:] == (3,):
        with pytest.raises(ValueError, match="broadcast|event_shape"):
            ours.log_prob(ours.sample()[..., :2])


def test_texts() -> None:
    torch = pytest.importorskip("torch")
    for name in ("Normal", "MultivariateNormal", "Gamma", "Binomial", "StudentT", "Uniform"):
        ours, theirs, _, _ = _both(name)
        assert repr(ours) == repr(theirs).replace("torch.", "tensor.")
    for compute in (
        lambda d: d.constraints.interval(0, 1),
        lambda d: d.constraints.positive,
        lambda d: d.Independent(d.Normal(0.0, 1.0).expand((2,)), 1),
    ):
        assert repr(compute(tensor.distributions)) == repr(compute(torch.distributions)).replace(
            "torch.", "tensor."
        )
