"""Numbers that a dtype cannot hold, outputs of other dtypes, and what empty tensors and empty dimensions give."""

from __future__ import annotations

import enum
import math
import warnings
from typing import Any

import numpy as np
import pytest

import tensor
from nn import functional
from tests.tensor import expressions
from tests.tensor.comparison import array_of


def _is_nan(x: Any) -> bool:
    return math.isnan(x.item())


class _Size(enum.IntEnum):
    TWO = 2


class _Share(float):
    pass


def test_numbers_of_a_class_of_the_programs_own(device_name: str) -> None:
    x = tensor.arange(3, device=device_name)
    assert (x * _Size.TWO).tolist() == [0, 2, 4]
    assert (x + _Size.TWO).dtype is tensor.int64
    assert (x * _Share(0.5)).tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(TypeError, match="must be a Tensor or a number, not object"):
        tensor.mul(x, object())


def test_an_imaginary_part_is_not_dropped(device_name: str) -> None:
    on: Any = {"device": device_name}
    x, first = tensor.arange(4, **on), tensor.tensor([0], **on)
    mask = x < 2
    for value in (1 + 2j, tensor.tensor(1 + 2j), tensor.tensor(1 + 2j, **on)):
        for write in (x.masked_fill, x.masked_fill_):
            with pytest.raises(RuntimeError, match="overflow"):
                write(mask, value)
        with pytest.raises(RuntimeError, match="Converting complex"):
            x.index_fill(0, first, value)
    with pytest.raises(RuntimeError, match="overflow"):
        x.scatter(0, first, 1 + 2j)
    ones = tensor.ones(1, **on)
    for add in (tensor.zeros(3, **on).index_add, tensor.zeros(3, **on).index_add_):
        with pytest.raises(RuntimeError, match="overflow"):
            add(0, first, ones, alpha=1j)
    assert x.masked_fill(mask, 7 + 0j).tolist() == [7, 7, 2, 3]
    assert x.masked_fill(mask, tensor.tensor(7 + 0j, **on)).tolist() == [7, 7, 2, 3]
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("value", [300, -300.0, math.nan, math.inf])
def test_what_fills_must_fit(value: float, device_name: str) -> None:
    x = tensor.arange(4, dtype=tensor.uint8, device=device_name)
    for fill in (value, tensor.tensor(value), tensor.tensor(value, device=device_name)):
        with pytest.raises(RuntimeError, match="overflow"):
            x.masked_fill(x < 2, fill)
        with pytest.raises(RuntimeError, match="overflow"):
            x[x < 2] = fill
    assert x.tolist() == [0, 1, 2, 3]


def test_a_factor_of_added_slices_has_their_dtype(device_name: str) -> None:
    x = tensor.zeros(2, 2, dtype=tensor.int64, device=device_name)
    index, rows = (
        tensor.tensor([1], device=device_name),
        tensor.ones(1, 2, dtype=tensor.int64, device=device_name),
    )
    assert x.index_add(0, index, rows, alpha=2.5).tolist() == [[0, 0], [2, 2]]


def test_one_element_of_any_dtype_where_a_mask_is_true(device_name: str) -> None:
    on: Any = {"device": device_name}
    for value in (tensor.tensor([1], **on), tensor.tensor([[1]], **on), tensor.tensor([1])):
        x = tensor.arange(6.0, **on)
        x[x > 3] = value
        assert x.tolist() == [0, 1, 2, 3, 1, 1]
        y = tensor.arange(6.0, **on)
        assert y.index_put((y > 3,), value).tolist() == x.tolist()
        assert y.index_put_((y > 3,), value) is y
        assert y.tolist() == x.tolist()
    x = tensor.arange(6.0, **on).reshape(3, 2)
    x[:, x[0] > 0] = tensor.tensor([9], **on)
    assert x.tolist() == [[0, 9], [2, 9], [4, 9]]
    for wrong in (tensor.tensor([1, 2], **on), tensor.tensor([1j], **on)):
        with pytest.raises(RuntimeError):
            x[x < 2] = wrong
    with pytest.raises(RuntimeError, match="dtypes match"):
        x.index_put((x < 2,), tensor.tensor([1], **on), accumulate=True)
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[tensor.tensor([0], **on)] = tensor.tensor([1], **on)


def test_the_gradient_of_one_element_of_another_dtype() -> None:
    value = tensor.tensor([1.0], dtype=tensor.float64, requires_grad=True)
    x = tensor.zeros(4).index_put((tensor.tensor([True, False, True, False]),), value)
    x.sum().backward()
    assert value.grad.dtype is tensor.float64
    assert value.grad.tolist() == [2]


def test_outputs_say_what_sums_are_computed_in(device_name: str) -> None:
    on: Any = {"device": device_name}
    x = tensor.tensor([[1.5, 2.75], [3.5, 300.5]], **on)
    for function, expected in (
        (tensor.sum, [4, 302]),
        (tensor.prod, [3, 600]),
        (tensor.cumsum, [[1, 2], [4, 302]]),
        (tensor.cumprod, [[1, 2], [3, 600]]),
    ):
        out = tensor.empty(0, dtype=tensor.int32, **on)
        assert function(x, 0, out=out) is out
        assert out.tolist() == expected
        with pytest.raises(RuntimeError, match="dtype"):
            function(x, 0, dtype=tensor.float64, out=out)
    out = tensor.empty(0, dtype=tensor.float64, **on)
    for function in (tensor.mean, tensor.nanmean, tensor.nansum, tensor.var, tensor.std, tensor.logsumexp):
        function(x, 0, out=out)
        np.testing.assert_allclose(array_of(out), array_of(function(x, 0)), rtol=1e-6)
    assert tensor.max(x, out=out).tolist() == 300.5
    assert tensor.diff(x, out=out).tolist() == [[1.25], [297.0]]
    for function in (tensor.mean, tensor.var, tensor.max, tensor.nansum):
        with pytest.raises(RuntimeError, match="dtype"):
            function(x, out=tensor.empty(0, dtype=tensor.int64, **on))
    for function in (tensor.amax, tensor.logcumsumexp):
        with pytest.raises(RuntimeError, match="dtype"):
            function(x, 0, out=out)


def test_outputs_of_transforms_take_their_shape(device_name: str) -> None:
    x = tensor.tensor([complex(math.nan, 1), 2], device=device_name)
    out = tensor.empty(3, 1, dtype=tensor.complex64, device=device_name)
    assert tensor.nan_to_num(x, out=out) is out
    assert out.tolist() == [1j, 2]
    with pytest.raises(RuntimeError, match="complex64"):
        tensor.nan_to_num(x, out=tensor.empty(2, device=device_name))


def test_any_and_all_over_no_dimensions(device_name: str) -> None:
    for dtype in (tensor.int64, tensor.uint8, tensor.float32, tensor.complex64):
        x = tensor.tensor([[2, 0]], dtype=dtype, device=device_name)
        expected = x.any(0).dtype
        for function in (tensor.any, tensor.all):
            for dim in ((), []):
                result = function(x, dim=dim)
                assert result.tolist() == [[1, 0]]
                assert result.dtype is expected
        assert x.any().item()
        assert not x.all(dim=(0, 1)).item()


def test_unique_elements_of_nothing(device_name: str) -> None:
    for function in (tensor.unique, tensor.unique_consecutive):
        for shape in ((0,), (2, 0)):
            x = tensor.zeros(shape, dtype=tensor.int32, device=device_name)
            assert function(x).shape == (0,)
            values, inverse, counts = function(x, return_inverse=True, return_counts=True)
            assert (values.shape, inverse.shape, counts.shape) == ((0,), shape, (0,))
            assert (values.dtype, inverse.dtype, counts.dtype) == (tensor.int32, tensor.int64, tensor.int64)
            assert values.device == inverse.device == counts.device == x.device
        with pytest.raises(RuntimeError, match="0 sized"):
            function(tensor.zeros(0, 3, device=device_name), dim=1)
        with pytest.raises(IndexError, match="no dimensions"):
            function(tensor.zeros((), device=device_name), dim=0)


def test_powers_of_a_complex_zero(device_name: str) -> None:
    zero = tensor.zeros(2, dtype=tensor.complex64, device=device_name)
    for exponent in (1 + 1j, 1 - 1j, 2, 2.5):
        assert (zero**exponent).tolist() == [0, 0]
        assert (zero ** tensor.full_like(zero, exponent)).tolist() == [0, 0]
    for exponent in (-1 + 1j, -1, -2, -0.5, -2.5):
        for result in (zero**exponent, zero ** tensor.full_like(zero, exponent)):
            assert result.real.tolist() == [math.inf] * 2
            assert tensor.isnan(result.imag).all()
    assert (zero**0).tolist() == [1, 1]


def test_an_error_leaves_the_rows_and_the_device_as_they_were(device_name: str) -> None:
    weight = tensor.full((3, 2), 5.0, device=device_name)
    for indices in ([0.0, 1.0], [0.0, 99.0]):
        with pytest.raises(RuntimeError, match="scalar types"):
            functional.embedding(tensor.tensor(indices, device=device_name), weight, max_norm=1.0)
    assert weight.tolist() == [[5, 5]] * 3


def test_transforms_take_numpys_name_of_a_dimension(device_name: str) -> None:
    x = tensor.arange(6.0, device=device_name).reshape(2, 3)
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftshift", "ifftshift"):
        function = getattr(tensor.fft, name)
        assert function(x, axis=0).tolist() == function(x, dim=0).tolist()
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        for rank in ("2", "n"):
            function = getattr(tensor.fft, name + rank)
            assert function(x, axis=(1, 0)).tolist() == function(x, dim=(1, 0)).tolist()
    with pytest.raises(TypeError, match="axis"):
        tensor.fft.fft(x, dim=0, axis=0)


def test_the_mean_loss_of_no_samples(device_name: str) -> None:
    x = tensor.ones(0, 3, device=device_name, requires_grad=True)
    y = tensor.ones(0, 3, device=device_name)
    for smoothing in (0.0, 0.1):
        assert _is_nan(functional.cross_entropy(x, y, label_smoothing=smoothing))
        assert functional.cross_entropy(x, y, reduction="sum", label_smoothing=smoothing).item() == 0
    functional.cross_entropy(x, y).backward()
    assert x.grad.shape == (0, 3)
    for shape in ((2, 3, 0), (2, 0)):
        empty = tensor.ones(shape, device=device_name)
        assert _is_nan(functional.cross_entropy(empty, empty))
    with pytest.raises(RuntimeError, match="must not be empty"):
        lengths = tensor.ones(0, dtype=tensor.int64)
        functional.ctc_loss(tensor.ones(4, 0, 3), tensor.ones(0, 2, dtype=tensor.int64), lengths, lengths)


def test_a_histogram_has_a_hundred_bins() -> None:
    hist, edges = tensor.histogram(tensor.arange(5.0))
    assert (hist.shape, edges.shape) == ((100,), (101,))
    assert hist.sum().item() == 5
    assert tensor.arange(5.0).histogram(range=(0.0, 2.0)).hist.sum().item() == 3


def test_orders_and_dimensions_that_are_enormous(device_name: str) -> None:
    x = tensor.tensor([0.5, -0.5, 3.0], device=device_name)
    for order in (2**63 - 1, 2**40 + 1, 2**24 + 1):
        assert x.clone().polygamma_(order)[0].item() == math.inf
        assert tensor.polygamma(order - 1, x)[0].item() == -math.inf
    with pytest.raises(ValueError, match="64 bits"):
        tensor.polygamma(2**63, x)
    for dimension in (2**40, 2**63):
        with pytest.raises(RuntimeError, match="at most"):
            tensor.mvlgamma(x, dimension)


def test_a_multivariate_gamma_function_of_many_dimensions() -> None:
    # More terms than are computed at once.
    x = tensor.tensor([30000.0, 40000.0], dtype=tensor.float64)
    terms = tensor.arange(20000, dtype=tensor.float64) / 2
    expected = 20000 * 19999 / 4 * math.log(math.pi) + tensor.lgamma(x.unsqueeze(1) - terms).sum(1)
    np.testing.assert_allclose(array_of(tensor.mvlgamma(x, 20000)), array_of(expected), rtol=1e-12)


def test_more_results_than_memory_holds() -> None:
    x = tensor.arange(6.0)
    for sections in (2**40, 2**63 - 1, tensor.tensor(2**40)):
        with pytest.raises(RuntimeError, match="more tensors than memory"):
            tensor.tensor_split(x, sections)
    assert len(tensor.tensor_split(x, 1000)) == 1000
    for n, r, more in ((50, 25, False), (6, 2**40, True), (6, 2**62, True), (2**20, 2, False)):
        with pytest.raises(RuntimeError, match="more than memory"):
            tensor.combinations(tensor.arange(n), r, with_replacement=more)
    # More than there are elements: none.
    assert tensor.combinations(x, 2**40).shape == (0, 2**40)
    assert tensor.combinations(x, 6, with_replacement=True).shape == (462, 6)


def test_polynomials_of_enormous_orders(device_name: str) -> None:
    x = tensor.tensor([0.5, 3.0], device=device_name)
    # Too large for double precision after some steps, which ends the recurrence.
    for polynomial in (tensor.special.hermite_polynomial_h, tensor.special.hermite_polynomial_he):
        assert tensor.isnan(polynomial(x, 2**20)).all()
    for order in (2**40, math.inf):
        orders = tensor.full((2,), order, device=device_name)
        if device_name == "cuda" or order == math.inf:
            assert tensor.isnan(tensor.special.legendre_polynomial_p(x, orders)).all()
        else:
            with pytest.raises(RuntimeError, match="orders are at most"):
                tensor.special.legendre_polynomial_p(x, orders)
    assert tensor.special.chebyshev_polynomial_t(
        x, tensor.tensor(-math.inf, device=device_name)
    ).tolist() == [0, 0]
    result = tensor.special.chebyshev_polynomial_t(x[:1], 1000)
    assert result.item() == pytest.approx(math.cos(1000 * math.acos(0.5)), rel=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "m.add(x, 1, out=o)",
        "m.sum(x, 0, out=o)",
        "m.mm(x, x, out=o)",
        "m.softmax(x, 0, out=o)",
        "m.cat([x, x], out=o)",
        "m.zeros(2, 2, out=o)",
        "m.nan_to_num(x, out=o)",
    ],
)
def test_outputs_with_elements_of_another_shape_warn(text: str, device_name: str) -> None:
    x = tensor.ones(2, 2, device=device_name)
    with pytest.warns(
        UserWarning, match=r"resized since it had shape \[7\], .* output shape \[\d.*out.resize_"
    ) as caught:
        expressions.value(text, tensor, device_name, x=x, o=tensor.empty(7, device=device_name))
    # The line of the program, which is a text here.
    assert caught[0].filename == "<string>"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        empty = tensor.empty(0, device=device_name)
        result = expressions.value(text, tensor, device_name, x=x, o=empty)
    assert result is empty


@pytest.mark.parametrize(
    "text",
    [
        "m.add(x, row, out=x)",
        "m.eq(row, x, out=x)",
        "m.atan2(x, row, out=x)",
        "m.lerp(x, row, 0.5, out=x)",
        "m.addcmul(row, row, x, out=x)",
        "m.clamp(x, row, out=x)",
    ],
)
def test_an_operand_is_not_resized_as_the_output(text: str, device_name: str) -> None:
    """It would have no elements to read where it had none before."""
    x, row = tensor.ones(3, 1, device=device_name), tensor.ones(1, 4, device=device_name)
    with pytest.raises(
        RuntimeError, match=r"output with shape \[3, 1\] doesn't match the broadcast shape \[3, 4\]"
    ):
        eval(text, {"m": tensor, "x": x, "row": row})
    assert x.tolist() == [[1.0]] * 3
