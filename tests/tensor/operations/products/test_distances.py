"""Distances, frequent values and membership."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tensor

# PyTorch has no TF32 on the CPU.
pytestmark = pytest.mark.usefixtures("full_precision")
_RNG = np.random.default_rng(0)


def _on(array: np.ndarray[Any, Any], device: str) -> Any:
    return tensor.from_numpy(array.copy()).to(device)


SHAPES = [
    ((3, 4), (5, 4)),
    ((2, 3, 4), (5, 4)),
    ((30, 4), (31, 4)),
    ((2, 1, 30, 3), (4, 28, 3)),
    ((0, 3), (4, 3)),
]


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.sampled(4)
def test_cdist(shapes: Any, p: float, device_name: str) -> None:
    a, b = (_RNG.standard_normal(shape) for shape in shapes)
    result = tensor.cdist(_on(a, device_name), _on(b, device_name), p)
    difference = np.abs(a[..., :, None, :] - b[..., None, :, :])
    if p == 0:
        expected = (difference != 0).sum(-1).astype(float)
    elif p == float("inf"):
        expected = difference.max(-1)
    else:
        expected = (difference**p).sum(-1) ** (1 / p)
    assert result.dtype is tensor.float64
    np.testing.assert_allclose(result.cpu().numpy(), expected, rtol=1e-9)


def test_equal_points_have_no_derivative(device_name: str) -> None:
    for rows in (3, 30):
        x = _on(_RNG.integers(0, 9, (rows, 2)).astype(float), device_name).requires_grad_()
        y = x.detach().clone()
        tensor.cdist(x, y).diagonal().sum().backward()
        assert x.grad.abs().max().item() == 0


def test_derivatives_of_cdist(device_name: str) -> None:
    for rows in (3, 27):
        x = _on(_RNG.standard_normal((rows, 2)), device_name).requires_grad_()
        y = _on(_RNG.standard_normal((2, 2)), device_name).requires_grad_()
        assert tensor.autograd.gradcheck(tensor.cdist, (x, y))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tensor.cdist(tensor.ones(3), tensor.ones(3, 3)), RuntimeError, "at least 2D"),
        (lambda: tensor.cdist(tensor.ones(3, 2), tensor.ones(3, 3)), RuntimeError, "same number of columns"),
        (lambda: tensor.cdist(tensor.ones(3, 3).int(), tensor.ones(3, 3)), RuntimeError, "floating-point"),
        (lambda: tensor.cdist(tensor.ones(3, 3), tensor.ones(3, 3), -1.0), RuntimeError, "non-negative p"),
        (lambda: tensor.cdist(tensor.ones(3, 3), tensor.ones(3, 3), 2.0, "fast"), ValueError, "compute_mode"),
        (lambda: tensor.isin(1, 2), TypeError, "cannot both be numbers"),
    ],
)
def test_wrong_arguments(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_dist(device_name: str) -> None:
    a, b = _RNG.standard_normal((3, 4)), _RNG.standard_normal(4)
    assert tensor.dist(_on(a, device_name), _on(b, device_name)).item() == pytest.approx(
        np.linalg.norm(a - b)
    )


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.sampled(4)
def test_mode(dim: int, device_name: str) -> None:
    values = _RNG.integers(0, 4, (5, 7, 3))
    result = tensor.mode(_on(values, device_name), dim)
    kept = tensor.mode(_on(values, device_name), dim, keepdim=True)
    for at in np.ndindex(*result.values.shape):
        line = np.moveaxis(values, dim, -1)[at]
        counts = np.bincount(line)
        assert result.values[at].item() == counts.argmax()
        assert result.indices[at].item() == np.flatnonzero(line == counts.argmax())[-1]
    assert tensor.equal(kept.values.squeeze(dim), result.values)


def test_mode_passes_gradients_to_one_element(device_name: str) -> None:
    x = tensor.tensor([1.0, 2.0, 2.0, 1.0, 2.0], device=device_name, requires_grad=True)
    (x.mode().values * 3).backward()
    assert x.grad.tolist() == [0, 0, 0, 0, 3]


def test_mode_of_numbers_and_of_nothing() -> None:
    assert [part.item() for part in tensor.tensor(3.0).mode()] == [3, 0]
    with pytest.raises(IndexError, match="non-zero size"):
        tensor.empty(0).mode()


@pytest.mark.parametrize("count", [0, 3, 40])
@pytest.mark.parametrize("invert", [False, True])
def test_isin(count: int, invert: bool, device_name: str) -> None:
    elements, expected = _RNG.integers(0, 50, (4, 6)), _RNG.integers(0, 50, count)
    result = tensor.isin(_on(elements, device_name), _on(expected, device_name), invert=invert)
    np.testing.assert_array_equal(result.cpu().numpy(), np.isin(elements, expected, invert=invert))


@pytest.mark.parametrize("count", [4, 40])
def test_isin_of_numbers_among_nan(count: int, device_name: str) -> None:
    """What several comparisons or one search of sorted values finds: NaN equals nothing, and hides nothing."""
    expected = tensor.tensor([1.0, math.inf, *[math.nan] * count], device=device_name)
    x = tensor.tensor([1.0, 2.0, math.inf, -math.inf, math.nan], device=device_name)
    assert tensor.isin(x, expected).tolist() == [True, False, True, False, False]
    assert tensor.isin(x, expected[1:].nan_to_num(nan=2.0)).tolist() == [False, True, False, False, False]
    assert tensor.isin(x, expected[2:]).tolist() == [False] * 5


def test_isin_of_a_number_that_is_not_cut_off(device_name: str) -> None:
    x = tensor.tensor([1, 2, 3], device=device_name)
    assert [tensor.isin(number, x).item() for number in (2, 2.0, 2.5, True, math.inf)] == [
        True,
        True,
        False,
        True,
        False,
    ]


def test_isin_with_numbers(device_name: str) -> None:
    x = tensor.arange(3, device=device_name)
    assert tensor.isin(x, 1).tolist() == [False, True, False]
    assert tensor.isin(2, x).tolist() is True


ADDED = {
    "addmm": ((3, 5), (3, 4), (4, 5)),
    "addmv": ((3,), (3, 4), (4,)),
    "addr": ((3, 4), (3,), (4,)),
    "addbmm": ((3, 5), (2, 3, 4), (2, 4, 5)),
    "baddbmm": ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
}


@pytest.mark.parametrize("name", ADDED)
def test_added_products_in_place(name: str, device_name: str) -> None:
    arrays = [_RNG.standard_normal(shape) for shape in ADDED[name]]
    results = []
    for ending in ("", "_"):
        first, *rest = (_on(array, device_name).requires_grad_() for array in arrays)
        result = getattr(first * 1, name + ending)(*rest, beta=0.5, alpha=2)
        (result**2).sum().backward()
        results.append([result.detach(), first.grad, *[x.grad for x in rest]])
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one.cpu().numpy(), two.cpu().numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ADDED)
def test_added_products_need_a_tensor_that_fits(name: str, device_name: str) -> None:
    rest = [_on(_RNG.standard_normal(shape), device_name) for shape in ADDED[name][1:]]
    target = tensor.ones(7, 7, device=device_name, dtype=tensor.float64)
    with pytest.raises(RuntimeError, match="does not fit the tensor to be written"):
        getattr(target, name + "_")(*rest)
    leaf = tensor.zeros(ADDED[name][0], device=device_name, dtype=tensor.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        getattr(leaf, name + "_")(*rest)
    assert (target == 1).all()
