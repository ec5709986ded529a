"""Softmax and its logarithm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor

_RNG = np.random.default_rng(0)
#: Shapes that take each of the kernels: short rows, several loads, several warps, very long rows, columns.
SHAPES = [
    ((), 0), ((1,), 0), ((5, 3), 1), ((3, 40), -1), ((2, 100), 1), ((3, 1000), 1), ((2, 1500), 1),
    ((1, 5000), 1), ((2, 17000), 1), ((4, 5, 6), 1), ((3, 4), 0), ((0, 3), 1), ((3, 0), 1),
]  # fmt: skip


def _reference(x: np.ndarray[Any, Any], dim: int, *, log: bool) -> np.ndarray[Any, Any]:
    x = x.astype(np.float64)
    if not x.size:
        return x
    with np.errstate(all="ignore"):
        moved = x - x.max(dim, keepdims=True) if x.ndim else x - x
        total = np.exp(moved).sum(dim, keepdims=True) if x.ndim else np.exp(moved)
        return moved - np.log(total) if log else np.exp(moved) / total


def _of(name: str, x: Any, dim: int, **named: Any) -> Any:
    return getattr(tensor, name)(x, dim, **named)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("case", SHAPES, ids=str)
@pytest.mark.sampled(4)
def test_values_and_gradients(name: str, case: Any, device_name: str) -> None:
    shape, dim = case
    array = (_RNG.standard_normal(shape) * 4).astype(np.float32)
    x = tensor.from_numpy(np.array(array)).to(device_name).requires_grad_()
    result = _of(name, x, dim)
    expected = _reference(array, dim, log=name == "log_softmax")
    np.testing.assert_allclose(result.detach().cpu().numpy(), expected, rtol=3e-6, atol=2e-6)
    weight = _RNG.standard_normal(shape).astype(np.float32)
    (result * tensor.from_numpy(np.array(weight)).to(device_name)).sum().backward()
    y = _reference(array, dim, log=False)
    total = (weight if name == "log_softmax" else weight * y).sum(dim, keepdims=True) if array.ndim else 0.0
    if not array.ndim:
        total = weight if name == "log_softmax" else weight * y
    gradient = weight - y * total if name == "log_softmax" else (weight - total) * y
    np.testing.assert_allclose(x.grad.cpu().numpy(), gradient, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float64"])
@pytest.mark.sampled(4)
def test_other_types(name: str, kind: str, device_name: str) -> None:
    array = _RNG.standard_normal((3, 33)).astype(np.float32)
    x = tensor.from_numpy(array).to(device_name, getattr(tensor, kind))
    expected = _reference(x.double().cpu().numpy(), 1, log=name == "log_softmax")
    result = _of(name, x, 1)
    assert result.dtype is x.dtype
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-12}[kind]
    np.testing.assert_allclose(result.double().cpu().numpy(), expected, rtol=tolerance, atol=tolerance)
    wide = _of(name, x, 1, dtype=tensor.float32)
    assert wide.dtype is tensor.float32
    np.testing.assert_allclose(wide.cpu().numpy(), expected, rtol=2e-6, atol=1e-6)


def test_infinities_and_nan(device_name: str) -> None:
    inf, nan = float("inf"), float("nan")
    rows = [[-inf, 0.0, 0.0], [-inf, -inf, -inf], [inf, 0.0, 1.0], [nan, 0.0, 1.0]]
    for x in (rows, [list(column) for column in zip(*rows, strict=True)]):
        dim = 1 if x is rows else 0
        result = tensor.tensor(x, device=device_name).softmax(dim).cpu().numpy()
        lines = result if dim else result.T
        np.testing.assert_array_equal(lines[0], [0, 0.5, 0.5])
        assert np.isnan(lines[1:]).all()


def test_any_strides_and_addresses(device_name: str) -> None:
    array = _RNG.standard_normal((6, 9)).astype(np.float32)
    x = tensor.from_numpy(array.copy()).to(device_name)
    np.testing.assert_allclose(
        x.t().softmax(-1).cpu().numpy(), _reference(array.T, -1, log=False), rtol=2e-6, atol=1e-7
    )
    # A start that is not a multiple of 16 bytes, with rows whose length is.
    odd = x.view(-1)[1:49].view(3, 16)
    expected = _reference(array.reshape(-1)[1:49].reshape(3, 16), 1, log=False)
    np.testing.assert_allclose(odd.softmax(1).cpu().numpy(), expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.sampled(4)
def test_derivatives(name: str, device_name: str) -> None:
    for shape, dim in (((2, 5), 1), ((2, 3, 2), 1)):
        x = tensor.from_numpy(_RNG.standard_normal(shape)).to(device_name).requires_grad_()

        def function(x: Any, dim: int = dim) -> Any:
            return _of(name, x, dim)

        assert tensor.autograd.gradcheck(function, (x,))
        assert tensor.autograd.gradgradcheck(function, (x,))


def test_gradients_of_converted_input(device_name: str) -> None:
    x = tensor.ones(2, 3, device=device_name, dtype=tensor.float16, requires_grad=True)
    (x.softmax(1, dtype=tensor.float32) ** 2).sum().backward()
    assert x.grad.dtype is tensor.float16
    assert x.softmax(1).grad_fn.name() == "SoftmaxBackward0"
    assert x.log_softmax(1).grad_fn.name() == "LogSoftmaxBackward0"


def test_wrong_arguments() -> None:
    with pytest.raises(IndexError, match="Dimension out of range"):
        tensor.zeros(2, 3).softmax(2)
    with pytest.raises(NotImplementedError, match=r"dtype=tensor\.float32"):
        tensor.arange(3).softmax(0)
    with pytest.raises(TypeError, match="dim"):
        tensor.softmax(tensor.zeros(3))
    assert tensor.arange(3).softmax(0, dtype=tensor.float64).sum().item() == pytest.approx(1)
