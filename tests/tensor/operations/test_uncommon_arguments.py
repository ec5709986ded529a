"""Calls that are rare and right: of nothing, without dimensions, with duplicates, with defaults that are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from nn import functional
from tests.tensor.comparison import array_of


def _assert_is(result: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert tuple(result.shape) == expected.shape
    np.testing.assert_allclose(array_of(result), expected)


def test_products_over_nothing(device_name: str) -> None:
    on = {"device": device_name}
    _assert_is(tensor.zeros(4, 5, 0, **on) @ tensor.zeros(0, 3, **on), np.zeros((4, 5, 3)))


def test_a_gradient_of_samples_with_no_spacing() -> None:
    (result,) = tensor.gradient(tensor.tensor([1.0, 4.0, 9.0]), spacing=None, dim=None)
    _assert_is(result, [3, 4, 5])


def test_a_quantile_along_the_dimension_of_a_number() -> None:
    for keepdim in (False, True):
        _assert_is(tensor.quantile(tensor.tensor(2.0), 0.5, dim=0, keepdim=keepdim), 2)
        _assert_is(tensor.nanquantile(tensor.tensor(2.0), 0.5, dim=-1, keepdim=keepdim), 2)
    _assert_is(tensor.quantile(tensor.tensor(2.0), tensor.tensor([0.1, 0.5]), dim=0), [2, 2])


def test_numbers_as_samples_of_one_class() -> None:
    for reduction in ("none", "mean", "sum"):
        _assert_is(
            functional.multi_margin_loss(tensor.tensor(1.5), tensor.tensor(0), reduction=reduction),
            0,
        )
        _assert_is(
            functional.multilabel_margin_loss(tensor.tensor(1.5), tensor.tensor(0), reduction=reduction),
            0,
        )


def test_powers_of_a_number() -> None:
    _assert_is(tensor.linalg.vander(tensor.tensor(3.0), N=3), [[1, 3, 9]])
    with pytest.raises(RuntimeError, match="N must be greater than 1"):
        tensor.linalg.vander(tensor.tensor(3.0))


def test_products_as_bools(device_name: str) -> None:
    x = tensor.tensor([[2.0, 3.0], [0.0, 5.0]], device=device_name)
    result = x.prod(1, dtype=tensor.bool)
    assert result.dtype is tensor.bool
    assert result.tolist() == [True, False]
    assert x.prod(dtype=tensor.bool).dtype is tensor.bool
    assert x.bool().prod(1).dtype is tensor.int64


def test_sums_of_bools_are_ors(device_name: str) -> None:
    on = {"device": device_name}
    x = tensor.tensor([[True, False, True], [False, True, False]], **on)
    v, w = tensor.tensor([True, False], **on), tensor.tensor([False, True, True], **on)
    product = [[False, True, True], [False, False, False]]
    either = [[True, True, True], [False, True, False]]
    assert tensor.addr(x, v, w).tolist() == either
    assert tensor.addr(x, v, w, beta=False).tolist() == product
    assert tensor.addr(x, v, w, alpha=False).tolist() == x.tolist()
    assert tensor.addr(x[:, :1], v, w, beta=True, alpha=True).tolist() == [[True] * 3, [False] * 3]
    assert x.addr_(v, w).tolist() == either


@pytest.mark.parametrize("form", ["addmm", "addmv", "addbmm", "baddbmm"])
def test_products_of_bools_are_added_by_or(form: str, device_name: str) -> None:
    on = {"device": device_name}
    x = tensor.tensor([[False, False], [True, False]], **on)
    a = tensor.tensor([[True, False], [False, False]], **on)
    b = tensor.tensor([[True, True], [True, False]], **on)
    product, either = [[True, True], [False, False]], [[True, True], [True, False]]
    if form == "addmv":
        x, b, product, either = x[:, 0], b[:, 0], [True, False], [True, True]
    elif form == "addbmm":
        a, b = a[None], b[None]
    elif form == "baddbmm":
        x, a, b, product, either = x[None], a[None], b[None], [product], [either]
    add = getattr(tensor, form)
    assert add(x, a, b).tolist() == either
    assert add(x, a, b, beta=0).tolist() == product
    assert add(x, a, b, alpha=0).tolist() == x.tolist()
    # No factor makes an or an exclusive one.
    assert add(x | True, a, b, beta=-1).tolist() == (x | True).tolist()
    assert getattr(x, f"{form}_")(a, b).tolist() == either


def test_gathering_nothing(device_name: str) -> None:
    x = tensor.arange(5.0, device=device_name)
    for dtype in (tensor.uint8, tensor.float32, tensor.int64):
        _assert_is(x.gather(0, tensor.zeros(0, dtype=dtype, device=device_name)), np.zeros(0))
    with pytest.raises(RuntimeError, match="Expected dtype"):
        x.gather(0, tensor.zeros(1, dtype=tensor.uint8, device=device_name))


def test_taking_along_a_dimension_from_its_end(device_name: str) -> None:
    x = tensor.arange(6.0, device=device_name).reshape(2, 3)
    index = tensor.tensor([[-1, 0, -3], [1, -2, 2]], device=device_name)
    _assert_is(tensor.take_along_dim(x, index, 1), [[2, 0, 0], [4, 4, 5]])
    with pytest.raises(RuntimeError, match="out of bounds"):
        tensor.take_along_dim(x.cpu(), tensor.tensor([[-4], [0]]), 1)


def test_a_value_that_fills_a_slice_twice(device_name: str) -> None:
    value = tensor.tensor(2.0, device=device_name, requires_grad=True)
    index = tensor.tensor([0, 0, 2], device=device_name)
    result = tensor.zeros(3, device=device_name).index_fill(0, index, value)
    _assert_is(result, [2, 0, 2])
    result.backward(tensor.tensor([1.0, 10.0, 100.0], device=device_name))
    _assert_is(value.grad, 101)


def test_features_of_a_vector_that_are_not_dropped() -> None:
    x = tensor.ones(5)
    _assert_is(functional.feature_alpha_dropout(x, 0.5, training=False), np.ones(5))
    _assert_is(functional.feature_alpha_dropout(x, 0.0, training=True), np.ones(5))
    with pytest.raises(RuntimeError, match="2 dimensions"):
        functional.feature_alpha_dropout(x, 0.5, training=True)


def test_integer_powers_between_numbers_with_fractions(device_name: str) -> None:
    result = tensor.logspace(0, 1.9, 2, dtype=tensor.int64, device=device_name)
    assert result.tolist() == [1, 10]


def test_reflections_of_no_items() -> None:
    assert functional.pad(tensor.zeros(0, 3, 3), (1, 2), mode="reflect").shape == (0, 3, 6)
    with pytest.raises(RuntimeError, match="less than"):
        functional.pad(tensor.zeros(1, 3, 0), (1, 2), mode="reflect")


def test_what_is_cropped_does_not_come_round_again(device_name: str) -> None:
    x = tensor.arange(4.0, device=device_name).reshape(1, 1, 4)
    _assert_is(functional.pad(x, (-1, 2), mode="circular"), [[[1, 2, 3, 1, 2]]])
    _assert_is(functional.pad(x, (1, -2), mode="circular"), [[[1, 0, 1]]])


def test_similarities_along_a_dimension_that_broadcasts() -> None:
    x, y = tensor.tensor([[[3.0], [4.0]]]), tensor.tensor([[[1.0]], [[2.0]]])
    _assert_is(functional.cosine_similarity(x, y, dim=-2), np.full((2, 1), 7 / 50**0.5, np.float32))


def test_output_padding_of_whole_windows(device_name: str) -> None:
    """Strides of 2, and 3 elements more, which a dilation of 4 allows."""
    on = {"device": device_name, "dtype": tensor.float64}
    x = tensor.tensor([[[1.0, 2.0]]], requires_grad=True, **on)
    w = tensor.tensor([[[10.0, 100.0]]], requires_grad=True, **on)
    result = functional.conv_transpose1d(x, w, stride=2, dilation=4, output_padding=3, padding=1)
    expected = np.zeros(10)
    for position, each in enumerate((1, 2)):
        for tap, weight in enumerate((10, 100)):
            expected[position * 2 + tap * 4] += each * weight
    _assert_is(result, expected[None, None, 1:9])
    result.sum().backward()
    _assert_is(x.grad, [[[100, 110]]])
    _assert_is(w.grad, [[[2, 3]]])
