"""Calls that PyTorch refuses, and unusual ones that it does not: the same here, with the same classes of errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn.functional as functional
import tensor
from tests.pytorch import torch
from tests.tensor.comparison import array_of, assert_same_elements

X = "m.tensor([[1.0, 5.0, 2.0], [7.0, 3.0, 4.0]], **on)"
BOOLS = "m.tensor([True, False], **on)"
TWO = "m.tensor(2.0, **on)"

REFUSED: dict[str, tuple[type[Exception], str]] = {
    # Arguments of another form of the function
    f"{X}.max(keepdim=True)": (TypeError, "amax"),
    f"m.min({X}, keepdim=True)": (TypeError, "'keepdim' goes with 'dim'"),
    f"{X}.max({X}, keepdim=True)": (TypeError, "'keepdim' goes with one tensor"),
    f"{X}.min(0, other={X})": (TypeError, "'dim' goes with one tensor"),
    f"{X}.median(keepdim=True)": (TypeError, "'keepdim' goes with 'dim'"),
    f"{X}.nanmedian(keepdim=True)": (TypeError, "'keepdim' goes with 'dim'"),
    f"{X}.prod(keepdim=True)": (TypeError, "'keepdim' goes with 'dim'"),
    # One tensor where several are meant
    **{
        f"m.{name}({X})": (TypeError, "must be tuple of Tensors, not Tensor")
        for name in (
            *("cat", "concat", "concatenate", "stack", "hstack", "vstack", "row_stack", "dstack"),
            *("column_stack", "linalg.multi_dot"),
        )
    },
    f"m.cat(iter([{X}]))": (TypeError, "must be tuple of Tensors, not list_iterator"),
    f"m.stack({{0: {X}}})": (TypeError, "must be tuple of Tensors, not dict"),
    # dtypes
    f"m.argmax({BOOLS})": (RuntimeError, "bool"),
    f"{BOOLS}.argmin(0)": (RuntimeError, "bool"),
    f"{BOOLS} ** {BOOLS}": (NotImplementedError, "bool"),
    f"m.clamp({BOOLS}, min=True)": (NotImplementedError, "bool"),
    f"m.clamp({BOOLS}, {BOOLS}, {BOOLS})": (NotImplementedError, "bool"),
    f"m.clamp_max({BOOLS}, True)": (NotImplementedError, "bool"),
    f"m.nansum({BOOLS} * 1j)": (RuntimeError, "complex"),
    # Dimensions
    **{
        f"m.fft.{name}({TWO})": (IndexError, "no dimensions")
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "rfft2", "hfft2", "ihfft2")
    },
    f"m.fft.fftn({TWO}, dim=0)": (IndexError, "no dimensions"),
    # Results written to tensors of other dtypes
    **{
        text.format("m.zeros(0, dtype=m.float64, **on)"): (RuntimeError, "dtype")
        for text in (
            f"f.softplus({X}, out={{}})",
            f"f.logsigmoid({X}, out={{}})",
            f"f.gelu({X}, out={{}})",
            f"f.linear({X}, {X}, out={{}})",
            f"f.avg_pool2d({X}[None], 2, out={{}})",
            f"f.avg_pool3d({X}[None, None], (1, 2, 2), out={{}})",
            f"m.slice_scatter({X}, {X}[:, :2], 1, 0, 2, out={{}})",
        )
    },
    f"m.narrow({X}, 1, m.tensor(True, **on), 1)": (RuntimeError, "0-dim integral"),
    f"m.narrow({X}, 1, m.tensor([1], **on), 1)": (RuntimeError, "0-dim integral"),
    f"m.narrow({X}, 1, {TWO}, 1)": (RuntimeError, "0-dim integral"),
    f"f.embedding(m.tensor([0], **on), {TWO})": (RuntimeError, "must be 2-D"),
    f"f.adaptive_avg_pool2d({X}, (2, 2))": (ValueError, "should be at least 3"),
    f"f.adaptive_max_pool3d({X}[None], (2, 2, 2))": (ValueError, "should be at least 4"),
    f"f.adaptive_avg_pool2d({X}, 2)": (RuntimeError, "adaptive_avg_pool2d"),
    f"f.multi_margin_loss({X}, m.tensor([0, 1], **on), weight={X}[0, :2])": (RuntimeError, "weight size"),
    f"f.multi_margin_loss({X}, m.tensor([0, 1], **on), weight={X})": (ValueError, "one-dimensional"),
    # Values
    f"f.batch_norm({X}, None, None, training=True, eps=0)": (ValueError, "must be positive during training"),
    f"f.batch_norm({X}, {X}[0], {X}[0], eps=-1.0)": (ValueError, "must be non-negative"),
    f"m.quantile({X}, 0.5, interpolation='cubic')": (RuntimeError, "interpolation must be one of"),
    f"m.nanquantile({X}, 0.5, interpolation='')": (RuntimeError, "interpolation must be one of"),
    f"m.quantile({X}, 1.5)": (RuntimeError, r"range \[0, 1\]"),
    f"m.quantile({X}, m.tensor([0.5, float('nan')], **on))": (RuntimeError, r"range \[0, 1\]"),
    f"m.quantile({X}, '0.5')": (TypeError, "must be float or Tensor, not str"),
    f"m.quantile({X}, [0.5])": (TypeError, "must be float or Tensor, not list"),
}

TAKEN = (
    f"{BOOLS} ** True",
    f"{BOOLS} ** False",
    f"{BOOLS}.pow_(False)",
    f"m.pow({BOOLS}, True, out=m.empty(0, dtype=m.bool, **on))",
    "m.nansum(m.tensor([1, 2], **on), dtype=m.complex64)",
    "m.nansum(m.tensor([[1, 2]], **on), 0, True, dtype=m.complex128)",
    f"m.nansum({BOOLS})",
    f"m.nansum({BOOLS}, dtype=m.int32)",
    f"m.clamp({BOOLS}, min=m.tensor(True, **on))",
    f"m.clamp({BOOLS}, max=m.tensor([[True], [False]], **on))",
    f"m.clamp_min({BOOLS}, m.tensor([False, True], **on))",
    f"{BOOLS}.clamp_max_(m.tensor(False, **on))",
    f"m.narrow({X}, 1, m.tensor(1, dtype=m.int8, **on), 2)",
    f"m.quantile({TWO}, m.tensor([0.2, 0.5], **on), keepdim=True)",
    f"m.nanquantile({TWO}, m.tensor([0.2, 0.5], **on), 0, True)",
    f"m.quantile({X}, m.tensor([], **on), 1)",
    f"m.quantile({X}, m.tensor([], **on), keepdim=True)",
    f"m.gradient({X}, spacing=None)",
    f"m.linalg.vander({TWO}, N=2)",
    f"f.feature_alpha_dropout({X}[0], training=False)",
    "f.pad(m.zeros(0, 2, 4, 4, **on), (1, 1, 1, 1), mode='reflect')",
    f"f.multi_margin_loss({TWO}, m.tensor(0, **on))",
    f"f.multilabel_margin_loss({TWO}, m.tensor(0, **on), reduction='none')",
    f"f.multi_margin_loss({TWO}, m.tensor([0], **on), reduction='none')",
    f"f.multi_margin_loss({X}[0], m.tensor([1], **on), reduction='none')",
    f"f.multi_margin_loss({X}[0], m.tensor(1, **on), reduction='none')",
    # Indices of nothing, of any shape
    f"m.gather({X}, 0, m.zeros(0, **on).long())",
    f"m.gather({X}, 1, m.zeros(0, 4, 2, **on).long())",
    f"m.gather({X}, -1, m.zeros(0, **on).long(), out=m.zeros(3, **on))",
    f"m.scatter({X}, 0, m.zeros(0, **on).long(), {X}[0])",
    f"m.scatter({X}, 0, m.zeros(0, **on).long(), 1.0)",
    f"m.scatter_add({X}, 1, m.zeros(2, 0, 2, **on).long(), {X})",
    f"m.scatter_reduce({X}, 1, m.zeros(0, **on).long(), {X}[0], 'prod')",
    f"{X}.scatter_(0, m.zeros(0, 3, **on).long(), {X})",
    *(
        f"m.{name}(m.tensor({row}, **on), {q}, interpolation='{how}')"
        for name in ("quantile", "nanquantile")
        for row in ("[3.0, 0.0, 1.0, 2.0]", "[1.0, 0.0]", "[4.0, float('nan'), 1.0]", "[1.0, float('inf')]")
        for q in (0.5, 1, "m.tensor([0.3, 0.9, 0.5], **on)")
        for how in ("linear", "lower", "higher", "midpoint", "nearest")
    ),
)


def _result(text: str, module: Any, f: Any, **on: str) -> Any:
    return eval(text, {"m": module, "f": f, "on": on})


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str, device_name: str) -> None:
    error, message = REFUSED[text]
    with pytest.raises(error, match=message):
        _result(text, tensor, functional, device=device_name)


@pytest.mark.parity
@pytest.mark.parametrize("text", REFUSED)
def test_refused_by_pytorch(text: str) -> None:
    with pytest.raises(REFUSED[text][0]):
        _result(text, torch, torch.nn.functional)


@pytest.mark.parity
@pytest.mark.parametrize("text", TAKEN)
def test_taken(text: str, device_name: str) -> None:
    result = _result(text, tensor, functional, device=device_name)
    expected = _result(text, torch, torch.nn.functional)
    for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (result, expected)), strict=True):
        assert str(one.dtype).split(".")[1] == str(other.dtype).split(".")[1]
        assert tuple(one.shape) == tuple(other.shape)
        assert_same_elements(array_of(one), array_of(other))


_WRITTEN = (
    "f.softplus(x, 2.0, **to)",
    "f.logsigmoid(x, **to)",
    "f.gelu(x, **to)",
    "f.gelu(x, approximate='tanh', **to)",
    "f.linear(x, x, **to)",
    "f.linear(x.view(2, 1, 3), x, x[:, 0], **to)",
    "f.linear(x, x[0], **to)",
    "f.linear(x.t().contiguous().t(), x, **to)",
    "f.avg_pool2d(x[None], 2, 1, **to)",
    "f.avg_pool3d(x[None, None], (1, 2, 2), **to)",
    "x.slice_scatter(x[:, :2], 1, 1, **to)",
)


@pytest.mark.parametrize("text", _WRITTEN)
def test_results_are_written_to_tensors(text: str, device_name: str) -> None:
    x = tensor.tensor([[1.0, 5.0, 2.0], [7.0, 3.0, 4.0]], device=device_name)
    names = {"f": functional, "x": x}
    expected = eval(text, names | {"to": {}})
    for out in (tensor.zeros_like(expected), tensor.empty(0, device=device_name)):
        assert eval(text, names | {"to": {"out": out}}) is out
        assert out.shape == expected.shape
        assert out.tolist() == expected.tolist()
    x.requires_grad_()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        eval(text, names | {"to": {"out": out}})


def test_what_is_not_used_has_a_gradient_of_zeros(device_name: str) -> None:
    on = {"device": device_name, "requires_grad": True}
    x, nothing = tensor.ones(2, 3, **on), tensor.ones(0, **on)
    tensor.cat([nothing, x, nothing, x], 1).sum().backward()
    assert x.grad is not None
    assert nothing.grad is not None
    assert nothing.grad.shape == (0,)
    assert x.grad.tolist() == [[2] * 3] * 2
    result = tensor.cat([nothing, x.detach()])
    assert result.requires_grad
    assert tensor.autograd.grad(tensor.cat([nothing, nothing]).sum(), nothing)[0].shape == (0,)
    index = tensor.zeros(0, dtype=tensor.int64, device=device_name)
    for result in (x.gather(1, index), x.scatter(0, index, x[0])):
        assert result.requires_grad
        (gradient,) = tensor.autograd.grad(result.sum(), x)
        assert gradient.tolist() == [[float(bool(result.numel()))] * 3] * 2


def test_residuals_of_least_squares_are_differentiable(device_name: str) -> None:
    on = {"device": device_name, "dtype": tensor.float64, "requires_grad": True}
    a, b = (
        tensor.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.5]], **on),
        tensor.tensor([[1.0], [2.0], [4.0]], **on),
    )
    residuals = tensor.linalg.lstsq(a, b, driver="gels").residuals
    (gradient,) = tensor.autograd.grad(residuals.sum(), b)
    # Of the squared distance only the difference itself counts: the solution is where its slope is 0.
    expected = 2 * (b - a @ tensor.linalg.lstsq(a, b).solution)
    assert tensor.allclose(gradient, expected)
    none = tensor.linalg.lstsq(a[:2], b[:2], driver="gels").residuals
    assert none.shape == (0,)
    assert none.requires_grad
    assert tensor.autograd.grad(none.sum(), b)[0].tolist() == [[0.0]] * 3


def test_gradients_of_the_next_number(device_name: str) -> None:
    for dtype in (tensor.float32, tensor.bfloat16):
        on = {"device": device_name, "dtype": dtype, "requires_grad": True}
        x, y = tensor.tensor([1.0, 2.0, 3.0], **on), tensor.tensor([2.0, 2.0, 1.0], **on)
        gradients = tensor.autograd.grad(tensor.nextafter(x, y), (x, y), tensor.tensor([5.0, 6.0, 7.0]).to(x))
        # PyTorch's, which is 0 where the number stays.
        assert [each.tolist() for each in gradients] == [[5, 0, 7], [0, 0, 0]]


def test_local_responses_of_integers(device_name: str) -> None:
    x = tensor.arange(6, device=device_name).view(1, 3, 2)
    result = functional.local_response_norm(x, 2, alpha=1.0, beta=1.0)
    # The means of squares of a channel and the one before, rounded down, and 1.
    expected = np.array([[0, 1], [2, 3], [4, 5]]) / (np.array([[0, 0], [2, 5], [10, 17]]) + 1)
    np.testing.assert_allclose(result.cpu().numpy()[0], expected, rtol=1e-6)


def test_powers_of_bools(device_name: str) -> None:
    x = tensor.tensor([True, False], device=device_name)
    assert (x**True).tolist() == [True, False]
    assert (x**False).tolist() == [True, True]
    assert x.pow_(False).tolist() == [True, True]


def test_limits_of_bools(device_name: str) -> None:
    x = tensor.tensor([True, False], device=device_name)
    yes, no = tensor.tensor(True, device=device_name), tensor.tensor(False, device=device_name)
    assert x.clamp(min=yes).tolist() == x.clamp_min(yes).tolist() == [True, True]
    assert x.clamp(max=no).tolist() == x.clamp_max(no).tolist() == [False, False]


def test_sums_of_integers_as_complex_numbers(device_name: str) -> None:
    x = tensor.tensor([[1, 2], [3, 4]], device=device_name)
    result = x.nansum(1, dtype=tensor.complex64)
    assert result.dtype is tensor.complex64
    assert result.tolist() == [3, 7]


def test_root_mean_squares_of_complex_numbers(device_name: str) -> None:
    values = np.array([[1 + 2j, 3 - 1j], [0.5j, 2]], np.complex64)
    x = tensor.tensor(values, device=device_name)
    scales = 1 / np.sqrt((values**2).mean(1, keepdims=True) + 0.1)
    result = functional.rms_norm(x, (2,), eps=0.1)
    assert result.dtype is tensor.complex64
    np.testing.assert_allclose(result.cpu().numpy(), values * scales, rtol=1e-5)
    weight = tensor.tensor([1j, 2.0], device=device_name)
    result = functional.rms_norm(x, (2,), weight, 0.1)
    np.testing.assert_allclose(result.cpu().numpy(), values * scales * [1j, 2], rtol=1e-5)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        functional.rms_norm(x, (3,))


def test_the_nearest_rank_is_the_even_one_half_way(device_name: str) -> None:
    for name in ("quantile", "nanquantile"):
        for size, rank in ((2, 0), (4, 2), (6, 2)):
            x = tensor.arange(float(size), device=device_name)
            assert getattr(x, name)(0.5, interpolation="nearest").item() == rank
            q = tensor.tensor([0.5], device=device_name)
            assert getattr(x, name)(q, interpolation="nearest").tolist() == [rank]


def test_ranks_are_those_of_the_dtype(device_name: str) -> None:
    """0.3 * 10 is 3 in single precision, and a little more in double."""
    x = tensor.arange(11.0, device=device_name)
    q = tensor.tensor([0.3], device=device_name)
    assert x.quantile(q, interpolation="higher").tolist() == [3]


@pytest.mark.parametrize("how", ["linear", "nearest", "midpoint"])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_gradients_of_shares(name: str, how: str, device_name: str) -> None:
    x = tensor.tensor([[4.0, 1.0, 2.0], [0.0, 8.0, float("nan")]], device=device_name)
    for q in ([0.25, 1.0], 0.25):
        shares = tensor.tensor(q, requires_grad=True, device=device_name)
        result = getattr(x, name)(shares, 1, interpolation=how)
        assert result.shape == ((2, 2) if isinstance(q, list) else (2,))
        plain = getattr(x, name)(shares.detach(), 1, interpolation=how)
        np.testing.assert_array_equal(result.detach().cpu().numpy(), plain.cpu().numpy())
        if how != "linear":
            assert not result.requires_grad
            continue
        result.sum().backward()
        # The slope between the two neighbours of a rank, times one less than there are elements.
        slope = (2 - 1) * 2 + ((8 - 0) * 1 if name == "nanquantile" else 0)
        assert shares.grad is not None
        assert shares.grad.tolist() == ([slope, 0] if isinstance(q, list) else slope)
