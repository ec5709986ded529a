"""``func.jacrev``, ``jacfwd`` and ``hessian``: values against ``autograd.functional``, and structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tensor.autograd import functional
from tensor.func import hessian, jacfwd, jacrev

X = np.random.default_rng(1).standard_normal((2, 3))


def real(array: Any, device: str) -> Any:
    return tensor.tensor(array, dtype=tensor.float64, device=device)


def function(x: Any) -> Any:
    return (x.sin() @ x.T.exp()).cumsum(0)


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobians(device_name: str, transform: Any) -> None:
    x = real(X, device_name)
    expected = functional.jacobian(function, x)
    found = transform(function)(x)
    assert found.shape == (2, 2, 2, 3)
    assert found.allclose(expected)
    assert not found.requires_grad


def test_hessians(device_name: str) -> None:
    x = real(X, device_name)

    def scalar(x: Any) -> Any:
        return (x.sin().prod() + (x**3).sum()).exp()

    expected = functional.hessian(scalar, x)
    for found in (
        hessian(scalar)(x),
        jacfwd(jacrev(scalar))(x),
        jacrev(jacfwd(scalar))(x),
        jacfwd(jacfwd(scalar))(x),
    ):
        assert found.shape == (2, 3, 2, 3)
        assert found.allclose(expected)


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_structure_of_outputs_holds_that_of_inputs(transform: Any) -> None:
    x, y = real(X[0], "cpu"), real(X[1, :2], "cpu")

    def outputs(inputs: Any, y: Any) -> Any:
        return {"a": inputs["x"].outer(y), "b": (y.sum(),)}

    found = transform(outputs, argnums=(0, 1))({"x": x}, y)
    assert found["a"][0]["x"].shape == (3, 2, 3)
    assert found["a"][0]["x"].allclose(tensor.einsum("ik,j->ijk", tensor.eye(3, dtype=x.dtype), y))
    assert found["a"][1].shape == (3, 2, 2)
    assert found["b"][0][0]["x"].tolist() == [0.0] * 3
    assert found["b"][0][1].tolist() == [1.0] * 2
    only = transform(outputs, argnums=1)({"x": x}, y)
    assert only["a"].equal(found["a"][1])


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_auxiliary_results_and_empty_ones(transform: Any) -> None:
    x = real(X[0], "cpu")
    found, aux = transform(lambda x: (x * 3, x), has_aux=True)(x)
    assert found.equal(3 * tensor.eye(3, dtype=x.dtype))
    assert aux.equal(x)
    assert transform(lambda x: x[:0])(x).shape == (0, 3)
    assert transform(lambda x: x.sum())(x[:0]).shape == (0,)
    assert transform(lambda x: tensor.ones(2))(x).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_errors(transform: Any) -> None:
    with pytest.raises(ValueError, match="`chunk_size` should be greater than 0"):
        transform(function, chunk_size=0)
    with pytest.raises(RuntimeError, match="only tensors, got unsupported type <class 'int'>"):
        transform(lambda x: 3)(real(X, "cpu"))
    with pytest.raises(ValueError, match="must be Tensor"):
        transform(lambda x: x)(3)
