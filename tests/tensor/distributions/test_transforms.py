"""Transforms and the registries of constraints: values, inverses, Jacobians and shapes, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tensor.distributions import constraints, transforms


def _transforms(library: Any) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """By name a transform, and the shape of its argument."""
    d = library.distributions
    positive, vector = (
        d.ExpTransform(),
        d.AffineTransform(1.0, library.tensor([0.25, -0.5, 0.125]).double(), event_dim=1),
    )
    return {
        "exp": (positive, (4, 3)),
        "sigmoid": (d.SigmoidTransform(), (4, 3)),
        "tanh": (d.TanhTransform(), (4, 3)),
        "softplus": (d.SoftplusTransform(), (4, 3)),
        "affine": (d.AffineTransform(1.0, -2.0), (4, 3)),
        "affine of vectors": (vector, (4, 3)),
        "affine by one number": (d.AffineTransform(1.0, -2.0, event_dim=1), (4, 3)),
        "composed": (
            d.ComposeTransform([d.AffineTransform(0.5, 2.0), positive, d.PowerTransform(0.3)]),
            (4, 3),
        ),
        "composed of different events": (
            d.ComposeTransform([positive, vector, d.StickBreakingTransform()]),
            (4, 3),
        ),
        "independent": (d.IndependentTransform(positive, 1), (4, 3)),
        "inverse": (d.ComposeTransform([positive, d.PowerTransform(-2.0).inv]), (4, 3)),
        "reshape": (d.ReshapeTransform((3, 2), (6,)), (4, 3, 2)),
        "stick breaking": (d.StickBreakingTransform(), (4, 3)),
        "correlations": (d.CorrCholeskyTransform(), (4, 6)),
        "cat": (d.CatTransform([positive, d.TanhTransform()], -1, [2, 1]), (4, 3)),
        "stack": (d.StackTransform([positive, d.TanhTransform(), d.AffineTransform(0.0, 2.0)], -1), (4, 3)),
        "cdf": (d.CumulativeDistributionTransform(d.Normal(0.5, 2.0)), (4, 3)),
        "softmax": (d.SoftmaxTransform(), (4, 3)),
        "lower Cholesky": (d.LowerCholeskyTransform(), (4, 3, 3)),
        "positive definite": (d.PositiveDefiniteTransform(), (4, 3, 3)),
    }


NAMES = list(_transforms(tensor))


def _input(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(3).normal(size=shape)


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_like_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    (ours, shape), (theirs, _) = _transforms(tensor)[name], _transforms(torch)[name]
    x, other_x = tensor.tensor(_input(shape)), torch.tensor(_input(shape))
    y, other_y = ours(x), theirs(other_x)
    np.testing.assert_allclose(y.numpy(), other_y.numpy(), rtol=1e-7)
    assert ours.bijective == theirs.bijective
    assert tuple(ours.forward_shape(shape)) == tuple(theirs.forward_shape(shape)) == tuple(y.shape)
    assert tuple(ours.inverse_shape(y.shape)) == tuple(theirs.inverse_shape(other_y.shape))
    np.testing.assert_allclose(ours.inv(y).numpy(), theirs.inv(other_y).numpy(), rtol=1e-6, atol=1e-9)
    assert ours.domain.event_dim == theirs.domain.event_dim
    assert ours.codomain.event_dim == theirs.codomain.event_dim
    try:
        expected = theirs.log_abs_det_jacobian(other_x, other_y)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            ours.log_abs_det_jacobian(x, y)
        return
    found = ours.log_abs_det_jacobian(x, y)
    # PyTorch's exponent of a power is a float32 tensor.
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_inverse_and_codomain(name: str) -> None:
    transform, shape = _transforms(tensor)[name]
    x = tensor.tensor(_input(shape))
    y = transform(x)
    assert bool(transform.codomain.check(y).all())
    if transform.bijective:
        np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-6, atol=1e-8)
    assert transform.inv.inv is transform


CONSTRAINTS = {
    "real": (constraints.real, (4, 3)),
    "positive": (constraints.positive, (4, 3)),
    "nonnegative": (constraints.nonnegative, (4, 3)),
    "greater than": (constraints.greater_than(2.0), (4, 3)),
    "less than": (constraints.less_than(-1.0), (4, 3)),
    "interval": (constraints.interval(-1.0, 3.0), (4, 3)),
    "half-open interval": (constraints.half_open_interval(-1.0, 3.0), (4, 3)),
    "unit interval": (constraints.unit_interval, (4, 3)),
    "vectors": (constraints.real_vector, (4, 3)),
    "simplex": (constraints.simplex, (4, 3)),
    "lower Cholesky": (constraints.lower_cholesky, (4, 3, 3)),
    "correlations": (constraints.corr_cholesky, (4, 6)),
    "positive definite": (constraints.positive_definite, (4, 3, 3)),
    "cat": (constraints.cat([constraints.positive, constraints.real], 1, [2, 1]), (4, 3)),
    "stack": (constraints.stack([constraints.positive, constraints.real], 1), (4, 2)),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_registries_map_real_numbers_into_the_constraint(name: str) -> None:
    constraint, shape = CONSTRAINTS[name]
    for registry in (tensor.distributions.biject_to, tensor.distributions.transform_to):
        values = registry(constraint)(tensor.tensor(_input(shape)))
        assert bool(constraint.check(values).all())


def test_registry_takes_new_constraints() -> None:
    class Even(constraints.Constraint):
        """Nothing but a class of its own."""

    registry = type(tensor.distributions.biject_to)()
    with pytest.raises(NotImplementedError, match="Even"):
        registry(Even())
    registry.register(Even, lambda constraint: transforms.ExpTransform())
    assert registry(Even()) == transforms.ExpTransform()
    with pytest.raises(TypeError, match="a class of constraints"):
        registry.register(int, lambda constraint: transforms.ExpTransform())


def test_cache_returns_the_same_objects() -> None:
    transform = transforms.TanhTransform(cache_size=1)
    x = tensor.tensor([20.0])
    y = transform(x)
    assert transform.inv(y) is x
    assert transform(x) is y
    assert transforms.TanhTransform().inv(y).isinf().item()
    with pytest.raises(ValueError, match="cache_size must be 0 or 1, got 2"):
        transforms.TanhTransform(cache_size=2)
