"""Rare arguments, on both devices: what PyTorch gives, or an error of the same class."""

from __future__ import annotations

from typing import Any

import pytest

import tensor
from nn import functional
from tests.pytorch import torch
from tests.tensor.comparison import array_of
from tests.tensor.expressions import assert_expression

pytestmark = pytest.mark.parity

_MASK = "m.tensor([True, False, True, False], **on)"
_FIRST = "m.tensor([0], **on)"

#: Numbers that a dtype cannot hold, and those that it can.
_NUMBERS = [
    f"m.arange(4, dtype=m.{dtype}, **on).{call}"
    for dtype in ("int64", "uint8", "float32", "float16")
    for value in (
        "1 + 2j",
        "1 + 0j",
        "1.5",
        "-3",
        "300",
        "1e30",
        "nan",
        "inf",
        "m.tensor(1 + 2j)",
        "m.tensor(1 + 0j)",
    )
    for call in (f"masked_fill({_MASK}, {value})", f"index_fill(0, {_FIRST}, {value})", f"fill_({value})")
    # PyTorch copies a tensor's real part, with a warning.
    if not ("fill_(m.tensor" in call and "masked" not in call)
] + [
    f"m.arange(4, **on).masked_fill_({_MASK}, 1 + 2j)",
    f"m.arange(4.0, **on).scatter(0, {_FIRST}, 1 + 2j)",
    f"m.arange(4.0, **on).index_add(0, {_FIRST}, m.ones(1, **on), alpha=1j)",
    f"m.arange(4.0, **on).index_add_(0, {_FIRST}, m.ones(1, **on), alpha=2.5)",
    f"m.zeros(2, 2, dtype=m.int64, **on).index_add(0, {_FIRST}, m.ones(1, 2, dtype=m.int64, **on), alpha=2.5)",
    "m.full((2,), 1 + 2j, dtype=m.int64, **on)",
    "m.where(m.tensor([True, False], **on), m.tensor([1, 2], **on), 1 + 2j)",
    "m.arange(4, **on).clamp(1 + 2j)",
    f"m.ones(4, dtype=m.bool, **on).masked_fill({_MASK}, 1j)",
]

#: One element for a mask, of another dtype than the tensor that is written.
_MASKED = [
    f"(lambda x: (x.__setitem__({key}, {value}), x)[1])(m.arange(6.0, **on){shape})"
    for key, shape in (
        ("x > 3", ""),
        ("(x > 3,)", ""),
        ("x[:, 0] > 3", ".reshape(3, 2)"),
        ("(0, x[0] > 0)", ".reshape(3, 2)"),
        ("(slice(None), x[0] > 0)", ".reshape(3, 2)"),
        ("(x[:, 0] > 3, x[0] > 0)", ".reshape(3, 2)"),
        ("m.tensor([0], **on)", ""),
    )
    for value in (
        "m.tensor([1])",
        "m.tensor([[1]])",
        "m.tensor(1)",
        "m.tensor([1, 2], **on)",
        "m.tensor([1j])",
    )
    # One element of a CUDA tensor is not broadcast from the CPU by an index.
    if not (key.startswith(("m.tensor", "(x[:, 0]")) and value != "m.tensor([1, 2], **on)")
] + [
    f"m.arange(6.0, **on).index_put{form}((m.arange(6.0, **on) > 3,), {value}{more})"
    for form in ("", "_")
    for value in ("m.tensor([1])", "m.tensor(1)", "m.tensor([1, 2], **on)")
    for more in ("", ", accumulate=True")
]

_POWERS_OF_ZERO = [
    f"m.view_as_real(m.zeros(2, dtype=m.{dtype}, **on) ** {exponent}).abs()"
    for dtype in ("complex64", "complex128")
    for exponent in (
        "(1 + 1j)",
        "(1 - 1j)",
        "2",
        "2.5",
        "3",
        "0.5",
        "0",
        "-1",
        "-2",
        "-0.5",
        "(-1 + 1j)",
        "1j",
    )
]

_VALUES = [
    "m.take_along_dim(m.arange(6.0, **on).reshape(2, 3), m.tensor([[-3], [2]], **on), dim=1)",
    "m.take_along_dim(m.arange(6.0, **on).reshape(2, 3), m.tensor([[-1]], **on), 0)",
    *(
        f"m.{name}(m.zeros({shape}, dtype=m.{dtype}, **on){more})"
        for name in ("unique", "unique_consecutive")
        for shape, dtype in (("0", "float32"), ("0, 3", "int64"), ("0", "bool"))
        for more in ("", ", return_inverse=True, return_counts=True", ", dim=0")
    ),
    "m.unique(m.zeros(0, 3, **on), dim=1)",
    "m.unique(m.zeros((), **on), dim=0)",
    "m.normal(m.zeros(2, **on), m.tensor([1.0, -1.0], **on))",
    "m.normal(0.0, m.tensor([1.0, nan], **on))",
    "m.nan_to_num(m.tensor([1j, 2], **on), out=m.empty(0, dtype=m.complex64, **on))",
    "m.nan_to_num(m.tensor([1j, 2], **on), out=m.empty(2, dtype=m.float32, **on))",
    "m.lcm(m.tensor([14340, -4], dtype=m.int16, **on), m.tensor([24585, 6], dtype=m.int16, **on))",
    "m.histogram(m.arange(5.0)).hist",
    "m.histogram(m.arange(5.0), range=(0, 2.0), weight=m.arange(5.0)).bin_edges",
    "m.mvlgamma(m.tensor([5.0], **on), 2**40)",
    *(
        f"m.{name}(m.tensor([[2, 0], [3, 4]], dtype=m.{dtype}, **on), dim={dim}{more})"
        for name in ("any", "all")
        for dtype in ("int64", "uint8", "bool", "float32")
        for dim in ("()", "[]", "(0, 1)", "None")
        for more in ("", ", keepdim=True")
        if (dim, more) != ("None", ", keepdim=True")
    ),
    *(
        f"m.{name}(m.tensor([[2.0, 1.0]], **on), dim=(){more})"
        for name in (
            "sum",
            "nansum",
            "mean",
            "nanmean",
            "var",
            "std",
            "amax",
            "amin",
            "norm",
            "linalg.vector_norm",
        )
        for more in ("", ", keepdim=True")
    ),
    "m.count_nonzero(m.tensor([[2.0, 0.0]], **on), dim=())",
]

_FFT = [
    *(f"m.fft.{name}(m.arange(5.0, **on).reshape(1, 5), axis={axis})" for name in ("fft", "ifft", "rfft", "ihfft") for axis in (0, 1)),
    *(f"m.fft.{name}(m.arange(6.0, **on).reshape(2, 3) + 0j, axis=1)" for name in ("irfft", "hfft")),
    *(f"m.fft.{name}(m.arange(6.0, **on).reshape(2, 3), axis=(1, 0))" for name in ("fft2", "ifft2", "fftn", "ifftn", "rfft2", "rfftn", "ihfft2", "ihfftn")),
    *(f"m.fft.{name}(m.arange(6.0, **on).reshape(2, 3) + 0j, axis=(1, 0))" for name in ("irfft2", "irfftn", "hfft2", "hfftn")),
    *(f"m.fft.{name}(m.arange(6.0, **on).reshape(2, 3), axis=1)" for name in ("fftshift", "ifftshift")),
    "m.fft.fft(m.arange(4.0, **on), axis=0, dim=0)",
    "m.fft.fftn(m.ones(2, 2, **on), axes=(0,))",
]  # fmt: skip

_DTYPES = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64")
_OUTPUTS = [
    f"m.{call.format(x=f'm.tensor([[1, 2], [3, 4]], dtype=m.{dtype}, **on)', out=f'out=m.empty(0, dtype=m.{out}, **on)')}"
    for call in (
        "sum({x}, 0, {out})",
        "sum({x}, 0, dtype=m.float64, {out})",
        "prod({x}, 0, {out})",
        "prod({x}, 0, dtype=m.float64, {out})",
        "mean({x}, {out})",
        "mean({x}, 0, dtype=m.float64, {out})",
        "nanmean({x}, 0, {out})",
        "nansum({x}, 0, {out})",
        "cumsum({x}, 0, {out})",
        "cumprod({x}, 0, {out})",
        "cumsum({x}, 0, dtype=m.float64, {out})",
        "any({x}, 0, {out})",
        "diff({x}, {out})",
        "max({x}, {out})",
        "min({x}, {out})",
        "amax({x}, 0, {out})",
        "logcumsumexp({x}, 0, {out})",
    )
    for dtype in ("float32", "int32", "bool", "complex64", "float16")
    for out in _DTYPES
]
_FRACTIONS = [
    f"m.{name}(m.tensor([[1.5, 2.75], [3.5, 300.6]], dtype=m.{dtype}, **on), 0, out=m.empty(0, dtype=m.{out}, **on))"
    for name in ("sum", "prod", "cumsum", "cumprod")
    for dtype in ("float32", "float16")
    for out in ("uint8", "int32", "float64")
]


def _assert_near(found: Any, expected: Any) -> None:
    """The last digits of half precision and of transforms are other libraries'."""
    results = found if isinstance(expected, (tuple, list)) else (found,)
    for one, other in zip(
        results, expected if isinstance(expected, (tuple, list)) else (expected,), strict=True
    ):
        assert str(one.dtype).split(".")[1] == str(other.dtype).split(".")[1]
        assert one.shape == other.shape
        wide = torch.complex128 if other.dtype.is_complex else torch.float64
        torch.testing.assert_close(
            torch.from_numpy(array_of(one)).to(wide), other.to(wide), rtol=1e-3, atol=1e-6, equal_nan=True
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "texts", [_NUMBERS, _MASKED, _POWERS_OF_ZERO, _VALUES, _FFT, _OUTPUTS, _FRACTIONS],
    ids=["numbers", "masked", "powers of zero", "values", "fft", "outputs", "fractions"],
)  # fmt: skip
def test_expressions(texts: list[str], device_name: str) -> None:
    wrong = {}
    for text in texts:
        try:
            assert_expression(text, device_name, _assert_near)
        except AssertionError as error:
            wrong[text] = str(error).split("\n")[0]
    assert not wrong, "\n".join(f"{text}: {error}" for text, error in wrong.items())


#: Of no samples; the multi-margin losses of PyTorch leave these sums unset.
_LOSSES = [
    ("mse_loss", ""), ("l1_loss", ""), ("smooth_l1_loss", ""), ("huber_loss", ""), ("kl_div", ""),
    ("binary_cross_entropy", ""), ("binary_cross_entropy_with_logits", ""), ("poisson_nll_loss", ""),
    ("soft_margin_loss", ""), ("hinge_embedding_loss", ""), ("multilabel_soft_margin_loss", ""),
    ("cross_entropy", ""), ("cross_entropy", ", label_smoothing=0.1"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_no_samples(reduction: str, device_name: str) -> None:
    for name, more in _LOSSES:
        for shape in ("0, 3", "2, 0", "2, 3, 0"):
            text = f"f.{name}(m.ones({shape}, **on), m.ones({shape}, **on), reduction={reduction!r}{more})"
            result = _outcome(text, tensor, functional, device_name)
            expected = _outcome(text, torch, torch.nn.functional, "cpu")
            if isinstance(expected, Exception):
                assert isinstance(result, Exception), f"{text}: {result} where PyTorch raises {expected!r}"
            else:
                assert not isinstance(result, Exception), f"{text}: {result!r}"
                _assert_near(result, expected)


def test_rows_by_indices_that_are_no_integers(device_name: str) -> None:
    for more in ("", ", max_norm=1.0"):
        for indices in ("[0.0, 9.0]", "[True]"):
            text = f"f.embedding(m.tensor({indices}, **on), m.ones(3, 2, **on){more})"
            result = _outcome(text, tensor, functional, device_name)
            assert type(result) is type(_outcome(text, torch, torch.nn.functional, "cpu")) is RuntimeError


def _outcome(text: str, library: Any, functions: Any, device: str) -> Any:
    try:
        return eval(text, {"m": library, "f": functions, "on": {"device": device}})
    except Exception as error:
        return error
