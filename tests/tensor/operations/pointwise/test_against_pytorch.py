"""Pointwise operations give what PyTorch gives: types, strides, promotion, errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tensor
from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import dtype
from tests.pytorch import torch
from tests.tensor.comparison import array_of, outcome, torch_dtype
from tests.tensor.operations.operands import operands
from tests.tensor.operations.samples import SAMPLES, Sample

pytestmark = pytest.mark.parity

#: Layouts of operands made of arrays with shape (4, 5).
_LAYOUTS: dict[str, Any] = {
    "contiguous": lambda _, x: x,
    "transposed": lambda _, x: x.t(),
    "stretched": lambda i, x: x[:1].expand(4, 5) if i == 0 else x,
    "sliced": lambda _, x: x[::2, 1::2],
    "0-dim": lambda _, x: x[1, 1],
    "empty": lambda _, x: x[:0],
    "mixed": lambda i, x: x.t() if i == 0 else x[:1, :4] if i == 1 else x[0, 0],
}
#: What takes more types than in PyTorch: its functions are defined for them, its kernels are not there.
_MORE_TYPES = {
    "hypot",
    "ldexp",
    "erfcx",
    "ndtri",
    "log_ndtr",
    "zeta",
    "spherical_bessel_j0",
    *(name for name in dir(tensor.special) if "bessel" in name or "polynomial" in name),
}
#: What keeps the order of dimensions where PyTorch forgets it.
_OTHER_STRIDES = {"mvlgamma", "angle", "logsigmoid", "conj"}
#: What PyTorch gives to eight digits only, also in double precision.
_LESS_EXACT = {"bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"}


def _twin(sample: Sample) -> Any:
    places = torch, torch.nn.functional, torch.special
    return next(found for place in places if (found := getattr(place, sample.name, None)) is not None)


def _ours(array: Any, kind: dtype) -> Any:
    if kind is dtypes.bfloat16:
        return tensor.from_numpy(array.astype(np.float32)).to(kind)
    return tensor.from_numpy(array.copy())


def _theirs(array: Any, kind: dtype) -> Any:
    if kind is dtypes.bfloat16:
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(array.copy())


def _has_complex_half(error: Any) -> bool:
    """Whether PyTorch's result is of a type that is not here, or would be."""
    return "ComplexHalf" in str(error) or getattr(error, "dtype", None) is torch.complex32


def _assert_alike(found: Any, expected: Any, sample: Sample, what: Any) -> bool:
    """Assert that two outcomes are of one type, or errors of one class; whether they are results."""
    if isinstance(expected, Exception):
        assert isinstance(found, Exception), f"{what}: {found} where PyTorch raises {expected!r}"
        # NotImplementedError is a RuntimeError, and PyTorch is not firm about which of the two it is.
        pair = (type(found), type(expected))
        assert pair[0] is pair[1] or all(issubclass(each, RuntimeError) for each in pair), (
            f"{what}: {found!r} where PyTorch raises {expected!r}"
        )
        return False
    assert not isinstance(found, Exception), f"{what}: {found!r} where PyTorch gives {expected}"
    assert torch_dtype(found.dtype) is expected.dtype, f"{what}: {found.dtype} instead of {expected.dtype}"
    assert tuple(found.shape) == tuple(expected.shape), what
    return True


def _assert_near(found: Any, expected: Any, sample: Sample, what: Any) -> None:
    """Assert that elements are equal up to roundings: how exact they are is tested elsewhere."""
    a, b = array_of(found), array_of(expected)
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b, err_msg=str(what))
        return
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    limit = tensor.finfo(found.dtype).eps * (100 if found.dtype.itemsize > 2 else 4)
    if sample.name in _LESS_EXACT:
        limit = max(limit, 1e-5)
    np.testing.assert_allclose(a.astype(wide), b.astype(wide), limit, limit, err_msg=str(what))


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
@pytest.mark.sampled(3)
def test_types_and_strides(sample: Sample) -> None:
    twin = _twin(sample)
    for kind in dtypes.ALL:
        arrays = operands(sample, kind, (4, 5))
        types = [dtypes.bool_, *[kind] * sample.operands] if sample.condition else [kind] * sample.operands
        for name, arrange in _LAYOUTS.items():
            ours = [arrange(i, _ours(x, t)) for i, (x, t) in enumerate(zip(arrays, types, strict=True))]
            theirs = [arrange(i, _theirs(x, t)) for i, (x, t) in enumerate(zip(arrays, types, strict=True))]
            found = outcome(sample.function, *ours, **sample.arguments)
            expected = outcome(twin, *theirs, **sample.arguments)
            what = f"{sample} of {kind!r}, {name}"
            if sample.name in _MORE_TYPES and isinstance(expected, NotImplementedError):
                break
            if not _assert_alike(found, expected, sample, what):
                break
            if sample.name not in _OTHER_STRIDES:
                assert found.stride() == expected.stride(), what
            _assert_near(found, expected, sample, what)


# Promotion

_SEVERAL = [sample for sample in SAMPLES if sample.operands > 1]
#: Numbers as operands. Comparisons of unsigned integers with negative ones are right here, and not in PyTorch.
_NUMBERS = (True, 3, 2.5, 1 + 2j)


def _small(kind: dtype, dimensions: int, module: Any) -> Any:
    numbers: Any = [1, 2] if dimensions else 1
    if module is tensor:
        return tensor.tensor(numbers).to(kind)
    return torch.tensor(numbers).to(torch_dtype(kind))


def _compare(sample: Sample, function: Any, twin: Any, make: Any, what: Any) -> None:
    """Compare outcomes on operands that ``make(module)`` gives."""
    expected = outcome(twin, *make(torch), **sample.arguments)
    if _has_complex_half(expected) or (
        sample.name in _MORE_TYPES and isinstance(expected, NotImplementedError)
    ):
        return
    found = outcome(function, *make(tensor), **sample.arguments)
    if _assert_alike(found, expected, sample, f"{sample} of {what}"):
        _assert_near(found, expected, sample, f"{sample} of {what}")


@pytest.mark.parametrize("sample", _SEVERAL, ids=str)
@pytest.mark.sampled(3)
def test_promotion_of_tensors(sample: Sample) -> None:
    for first, second in itertools.product(dtypes.ALL, dtypes.ALL):
        for ranks in ((1, 1), (1, 0), (0, 1)):

            def make(module: Any, first: Any = first, second: Any = second, ranks: Any = ranks) -> list[Any]:
                given = [_small(first, ranks[0], module), _small(second, ranks[1], module)]
                given += [_small(first, 1, module)] * (sample.operands - 2)
                return [_small(dtypes.bool_, 1, module), *given] if sample.condition else given

            _compare(sample, sample.function, _twin(sample), make, (first, second, ranks))


@pytest.mark.parametrize("sample", [each for each in _SEVERAL if each.operands == 2], ids=str)
def test_promotion_of_numbers(sample: Sample) -> None:
    for kind, number, reflected in itertools.product(dtypes.ALL, _NUMBERS, (False, True)):
        if sample.name == "pow" and kind is dtypes.bool_:
            continue  # PyTorch takes True and False as exponents, and copies

        def make(
            module: Any, kind: Any = kind, number: Any = number, reflected: Any = reflected
        ) -> list[Any]:
            given = [_small(kind, 1, module), number]
            given = given[::-1] if reflected else given
            return [_small(dtypes.bool_, 1, module), *given] if sample.condition else given

        _compare(sample, sample.function, _twin(sample), make, (kind, number, reflected))


@pytest.mark.parametrize("sample", [each for each in SAMPLES if each.in_place], ids=str)
@pytest.mark.sampled(3)
def test_types_in_place(sample: Sample) -> None:
    method, twin = (getattr(each, f"{sample.name}_", None) for each in (tensor.Tensor, torch.Tensor))
    if twin is None:
        pytest.skip("is no method")
    assert method is not None
    for first, second in itertools.product(dtypes.ALL, dtypes.ALL if sample.operands > 1 else (None,)):

        def make(module: Any, first: Any = first, second: Any = second) -> list[Any]:
            given = [_small(first, 1, module)]
            given += [_small(second, 1, module)] if second else []
            return given + [_small(first, 1, module)] * (sample.operands - 2)

        _compare(sample, method, twin, make, (first, second))


# Errors


@pytest.mark.parametrize(
    "expression",
    [
        "m.add(x, '1')",
        "m.add(x, None)",
        "m.add('1', x)",
        "m.exp(1.0)",
        "m.exp([1.0])",
        "m.exp(x, out=1)",
        "m.maximum(x, 1)",
        "m.addcmul(x, x, 1)",
        "m.lerp(x, 1.0, 0.5)",
        "m.eq(1, x)",
        "m.fmod(2.0, x)",
        "m.where(1, x, x)",
        "m.where(x, x, x)",
        "m.where(x > 0, x, '1')",
        "m.clamp(x)",
        "m.clamp(x, 'a')",
        "m.add(x, m.ones(3))",
        "x.add_(m.ones(4, 2))",
        "x.add_(m.ones(3))",
        "x[0].add_(x)",
        "m.ones(2, dtype=m.int64).add_(1.5)",
        "m.ones(2, dtype=m.int64).div_(2)",
        "m.ones(2, dtype=m.bool).add_(1)",
        "m.ones(2).add_(1j)",
        "m.ones(2, dtype=m.int64).exp_()",
        "m.add(x, 1, alpha=1j)",
        "m.add(m.ones(2, dtype=m.int64), 1, alpha=1.5)",
        "m.ones(2, dtype=m.bool) - m.ones(2, dtype=m.bool)",
        "-m.ones(2, dtype=m.bool)",
        "+m.ones(2, dtype=m.bool)",
        "~x",
        "x & 1",
        "x << 1",
        "x + '1'",
        "x @ 1",
        "x ** '1'",
        "m.ones(2, dtype=m.complex64) < 1",
        "m.ones(2, dtype=m.complex64).abs_()",
        "m.ones(2, dtype=m.complex64).floor()",
        "m.ones(2, dtype=m.int64) // 0",
        "m.ones(2, dtype=m.int64) % 0",
        "m.fmod(m.ones(2, dtype=m.int64), 0)",
        "m.ones(2, dtype=m.int64) ** -1",
        "m.ones(2, dtype=m.uint8) ** 300",
        "m.div(x, 2, rounding_mode='up')",
        "m.ones(2, dtype=m.uint8).clamp(max=300)",
        "m.where(m.ones(1, dtype=m.bool), m.ones(1, dtype=m.uint8), 300)",
        "m.ones(2, dtype=m.int64) + 2**70",
        "m.polygamma(-1, x)",
        "m.lerp(x, x.double(), 0.5)",
        "m.isclose(x, x.double())",
        "m.isclose(x, x, rtol=-1.0)",
        "m.heaviside(x, x.double())",
        "m.heaviside(x, 1.0)",
        "m.polar(x, x.double())",
        "m.complex(x, x.double())",
        "m.addcdiv(*[m.ones(2, dtype=m.int64)] * 3)",
        "m.ones(2, 3).expand(4, 2, 3).add_(1)",
        "m.ones(3).as_strided((3, 2), (1, 1)).mul_(2)",
        "(lambda y: y[1:].add_(y[:-1]))(m.ones(4))",
        "(lambda y: m.add(y[1:], 1, out=y[:-1]))(m.ones(4))",
        "m.exp(m.ones(2, requires_grad=True), out=m.ones(2))",
        "m.exp(m.ones(2), out=m.ones(2, requires_grad=True))",
        "m.exp(m.ones(2), out=m.ones(2, dtype=m.int64))",
        "m.celu(x, 0.0)",
        "m.prelu(x, m.ones(4))",
        "m.relu(x > 0)",
    ],
)
def test_errors(expression: str) -> None:
    """What is an error in PyTorch is one of the same class here, and leaves operands as they were."""
    x, y = tensor.tensor([[1.0, -2.0]]), torch.tensor([[1.0, -2.0]])
    expected = outcome(eval, expression, {"m": torch, "x": y})
    assert isinstance(expected, Exception), f"PyTorch gives {expected}"
    found = outcome(eval, expression, {"m": tensor, "x": x})
    _assert_alike(found, expected, SAMPLES[0], expression)
    assert len(str(found)) > 20
    assert x.tolist() == [[1.0, -2.0]]
    assert x._version == 0
