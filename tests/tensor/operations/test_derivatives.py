"""First and second derivatives of every pointwise operation: against differences, against PyTorch, on a device."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tensor
from nvrtc_kernels import dtypes
from nvrtc_kernels.dtypes import dtype
from tensor.autograd import gradcheck, gradgradcheck
from tests.tensor.comparison import array_of, torch_dtype

from .operands import call, mask, on, operands
from .samples import SAMPLES, Sample

_TESTED = [sample for sample in SAMPLES if "f" in sample.kinds and sample.differentiable]
_COMPLEX = [sample for sample in _TESTED if "c" in sample.kinds]
_CASES = [(sample, dtypes.float64) for sample in _TESTED] + [
    (sample, dtypes.complex128) for sample in _COMPLEX
]
_NAMES = [f"{sample}-{kind.category.name.lower()}" for sample, kind in _CASES]

# Against differences


@pytest.mark.parametrize(("sample", "kind"), _CASES, ids=_NAMES)
@pytest.mark.sampled(4)
def test_derivatives_are_limits_of_differences(sample: Sample, kind: dtype) -> None:
    leaves = [on("cpu", x) for x in operands(sample, kind, (3,))]
    leaves = [x if x.dtype is dtypes.bool_ else x.requires_grad_() for x in leaves]
    assert gradcheck(lambda *given: call(sample, list(given)), leaves)
    assert gradgradcheck(lambda *given: call(sample, list(given)), leaves, atol=1e-4)


# Against PyTorch

#: Where derivatives jump, or have poles.
_KINKS = [-3.0, -2.5, -1, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 6]
#: First derivatives that PyTorch gives where there are none: outside of the domain, and at poles.
_NOT_FIRST = {"acosh", "digamma", "lgamma", "mvlgamma"}
#: Second derivatives that are right here, and NaN or missing there.
_NOT_SECOND = {
    *_NOT_FIRST,
    "abs",
    "sgn",
    "logit",
    "logit-eps",
    "sinc",
    "copysign",
    "hardsigmoid",
}


def _weights(count: int, shape: Any, kind: Any, start: float) -> Any:
    return np.cos(start + np.arange(count)).reshape(shape).astype(kind)


def _gradients(library: Any, function: Any, arrays: list[Any], sample: Sample, second: bool) -> list[Any]:
    """First derivatives for the operands and, with ``second``, second ones for them and the gradient."""
    given = [library.from_numpy(np.array(x)) for x in arrays]
    leaves = [x.requires_grad_() for x in given if x.dtype not in (tensor.bool, getattr(library, "bool"))]  # noqa: B009
    result = function(*given, **sample.arguments)

    def weight(x: Any, start: float) -> Any:
        kind = np.complex128 if str(x.dtype).endswith("complex128") else np.float64
        return library.from_numpy(_weights(x.numel(), tuple(x.shape), kind, start))

    incoming = weight(result, 0).requires_grad_()
    found = list(library.autograd.grad(result, leaves, incoming, create_graph=second))
    if second:
        wanting = [x for x in found if x.requires_grad]
        found += library.autograd.grad(
            wanting, [*leaves, incoming], [weight(x, 1) for x in wanting], allow_unused=True
        )
    # A clone has elements also where PyTorch keeps only that all are zero.
    return [0.0 if x is None else array_of(x.clone()) for x in found]


def _twin(sample: Sample) -> Any:
    torch = pytest.importorskip("torch")
    places = (torch, torch.nn.functional, torch.special)
    return torch, next(found for place in places if (found := getattr(place, sample.name, None)) is not None)


def _assert_gradients_alike(sample: Sample, arrays: list[Any], first: bool, second: bool) -> None:
    torch, twin = _twin(sample)
    found = _gradients(tensor, sample.function, arrays, sample, second)
    expected = _gradients(torch, twin, arrays, sample, second)
    for position, (a, b) in enumerate(zip(found, expected, strict=True)):
        if first or position >= sample.operands:
            np.testing.assert_allclose(a, b, 1e-7, 1e-10, err_msg=f"{sample}: gradient {position}")


@pytest.mark.parity
@pytest.mark.parametrize(("sample", "kind"), _CASES, ids=_NAMES)
def test_gradients_are_pytorchs(sample: Sample, kind: dtype) -> None:
    if sample.name == "nan_to_num" and kind.is_complex:
        pytest.skip("PyTorch has no derivative of it")
    second = str(sample) not in _NOT_SECOND - _NOT_FIRST
    _assert_gradients_alike(sample, operands(sample, kind, (5,)), True, second)


@pytest.mark.parity
@pytest.mark.parametrize("sample", _TESTED, ids=str)
def test_gradients_at_kinks_are_pytorchs(sample: Sample) -> None:
    if str(sample) in _NOT_FIRST:
        pytest.skip("there is none outside of the domain")
    numbers = np.array(_KINKS)[[0, 3, 5, 6, 9, 11]] if sample.operands == 3 else np.array(_KINKS)
    arrays = [x.reshape(-1) for x in np.meshgrid(*[numbers] * sample.operands)]
    if sample.condition:
        arrays.insert(0, mask(arrays[0].shape))
    # Second derivatives of powers of 0 are compared below.
    second = str(sample) not in _NOT_SECOND
    with np.errstate(all="ignore"):
        _assert_gradients_alike(sample, arrays, True, second)


# On a device


@pytest.mark.parametrize("device_name", ["cuda"], indirect=True)
@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        case
        for case in _CASES
        if case[1] is dtypes.float64 or case[0].name in {"div", "sqrt", "rsqrt", "sigmoid", "tanh"}
    ],
    ids=lambda given: str(given),
)
def test_gradients_on_a_device(sample: Sample, kind: dtype, device_name: str) -> None:
    """In single precision on a device as in double precision on the CPU."""
    arrays = [
        x if x.dtype == bool else x.astype("f4" if x.dtype == "f8" else "c8")
        for x in operands(sample, kind, (3,))
    ]

    def gradients(device: str, wide: bool) -> list[Any]:
        given = [on(device, x) for x in arrays]
        if wide:
            given = [x if x.dtype is dtypes.bool_ else x.to(kind) for x in given]
        leaves = [x.requires_grad_() for x in given if x.dtype is not dtypes.bool_]
        result = call(sample, given)
        incoming = tensor.ones_like(result).requires_grad_()
        first = tensor.autograd.grad(result, leaves, incoming, create_graph=True)
        wanting = [x for x in first if x.requires_grad]
        second = tensor.autograd.grad(
            wanting, [*leaves, incoming], [tensor.ones_like(x) for x in wanting], allow_unused=True
        )
        assert all(x.device == result.device for x in (*first, *[x for x in second if x is not None]))
        return [0.0 if x is None else x.detach().cpu().numpy() for x in (*first, *second)]

    for found, expected in zip(gradients(device_name, False), gradients("cpu", True), strict=True):
        np.testing.assert_allclose(found, expected, 2e-4, 2e-5, err_msg=str(sample))


# Operands that differ

_MIXED = [
    ("m.add(x, y, alpha=2)", (2, 1), (3,)),
    ("m.mul(x, y)", (2, 3), ()),
    ("m.div(x, y)", (), (2, 2)),
    ("m.pow(x, y)", (3,), (2, 1)),
    ("m.atan2(x, y)", (2, 1, 3), (4, 1)),
    ("m.maximum(x, y)", (2, 3), (1, 3)),
    ("m.where(x > 1, x, y)", (2, 3), (3,)),
    ("m.clamp(x, y, y + 1)", (2, 3), (2, 1)),
    ("m.addcmul(x, y, y.sin(), value=0.5)", (2, 1), (3,)),
    ("x - 2.5 * y ** 2 / 3", (2,), (3, 1)),
    ("2 ** x + y", (2,), (2,)),
    ("(x > 1) * y", (2,), (2,)),
]


@pytest.mark.parity
@pytest.mark.parametrize(("expression", "first", "second"), _MIXED)
@pytest.mark.parametrize("kinds", [("float32", "float64"), ("float16", "float32"), ("float64", "complex64")])
def test_gradients_have_the_shape_and_type_of_their_operands(
    expression: str, first: Any, second: Any, kinds: tuple[str, str]
) -> None:
    torch = pytest.importorskip("torch")
    if "where" in expression and "complex64" in kinds:
        pytest.skip("PyTorch fails in the backward pass")
    outcomes = []
    rng = np.random.default_rng(1)
    arrays = [rng.uniform(0.5, 2, shape) for shape in (first, second)]
    for library in (tensor, torch):
        given = [
            library.from_numpy(np.array(x)).to(getattr(library, kind)).requires_grad_()
            for x, kind in zip(arrays, kinds, strict=True)
        ]
        try:
            result = eval(expression, {"m": library, "x": given[0], "y": given[1]})
        except RuntimeError as error:
            outcomes.append(error)
            continue
        result.backward(library.ones_like(result))
        outcomes.append([x.grad for x in given])
    found, expected = outcomes
    if isinstance(expected, Exception):
        assert isinstance(found, Exception)
        return
    for x, shape, a, b in zip(kinds, (first, second), found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is None:
            continue
        assert tuple(a.shape) == shape
        assert torch_dtype(a.dtype) is b.dtype is getattr(torch, x)
        np.testing.assert_allclose(array_of(a), array_of(b), 2e-3, 1e-3)


# Nodes


@pytest.mark.parity
@pytest.mark.parametrize("sample", _TESTED, ids=str)
def test_nodes_have_pytorchs_names(sample: Sample) -> None:
    if str(sample) in {"conj", "conj_physical-real", "floor_divide", "positive", "rsub", "softsign", "ndtr"}:
        pytest.skip("gives the operand itself, is made of other operations, or has no derivative there")
    torch, twin = _twin(sample)
    names = []
    for library, function in ((tensor, sample.function), (torch, twin)):
        given = [library.from_numpy(np.array(x)) for x in operands(sample, dtypes.float64, (2,))]
        given = [x.requires_grad_() if x.dtype in (tensor.float64, torch.float64) else x for x in given]
        names.append(function(*given, **sample.arguments).grad_fn.name())
    assert names[0] == names[1]


@pytest.mark.parity
@pytest.mark.parametrize(
    "expression",
    [
        "x + 1",
        "1 - x",
        "x * 2",
        "x / 2",
        "x % 2",
        "x % y",
        "m.fmod(x, 2)",
        "x ** 2",
        "x ** y",
        "2 ** x",
        "m.clamp(x, min=y)",
        "m.clamp_min(x, y)",
        "m.clamp_max(x, 1)",
        "m.lerp(x, y, y)",
        "m.xlogy(2, y)",
        "m.xlogy(x, 2)",
        "m.copysign(x, 1)",
        "m.float_power(2, x)",
        "m.prelu(x, y[:1])",
        "m.complex(x, y).conj()",
        "m.complex(x, y).conj_physical()",
        "m.complex(x, y).abs()",
        "x.clone().exp_()",
        "x.clone().add_(y)",
        "x.clone().clamp_(0, 1)",
        "x.clone().eq_(y)",
        "x.clone().lt_(1)",
        "-x",
    ],
)
def test_nodes_of_overloads_have_pytorchs_names(expression: str) -> None:
    torch = pytest.importorskip("torch")
    names = []
    for library in (tensor, torch):
        x, y = (library.ones(2, requires_grad=True) for _ in range(2))
        names.append(eval(expression, {"m": library, "x": x, "y": y}).grad_fn.name())
    assert names[0] == names[1]


def test_derivatives_that_are_not_there_are_errors() -> None:
    x = tensor.ones(2, requires_grad=True)
    for kind in (tensor.float32, tensor.float16):
        result = tensor.heaviside(x.to(kind), tensor.zeros(2, dtype=kind))
        with pytest.raises(NotImplementedError, match="heaviside"):
            result.sum().backward()


# In place

_IN_PLACE = [sample for sample in _TESTED if sample.in_place]


@pytest.mark.parametrize("sample", _IN_PLACE, ids=str)
def test_in_place_forms_have_the_same_gradients(sample: Sample) -> None:
    arrays = operands(sample, dtypes.float64, (4,))

    def gradients(in_place: bool) -> list[Any]:
        leaves = [on("cpu", x).requires_grad_() for x in arrays]
        given = [leaves[0] * 1, *leaves[1:]]
        if not in_place:
            result = call(sample, given)
        elif "inplace" in inspect.signature(sample.function).parameters:
            result = call(sample, given, inplace=True)
        else:
            result = getattr(given[0], f"{sample.name}_")(*given[1:], **sample.arguments)
        assert (result is given[0]) == in_place
        first = tensor.autograd.grad(result.sin().sum(), leaves, create_graph=True)
        wanting = [x.sin().sum() for x in first if x.requires_grad]
        again = tensor.autograd.grad(wanting, leaves, allow_unused=True) if wanting else []
        return [0.0 if x is None else x.detach().numpy() for x in (*first, *again)]

    for found, expected in zip(gradients(True), gradients(False), strict=True):
        np.testing.assert_allclose(found, expected, 1e-12, 1e-14, err_msg=str(sample))


@pytest.mark.parametrize("sample", _IN_PLACE, ids=str)
def test_leaves_that_require_a_gradient_are_not_written_in_place(sample: Sample) -> None:
    given = [on("cpu", x) for x in operands(sample, dtypes.float64, (4,))]
    before = given[0].clone()
    given[0].requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        if "inplace" in inspect.signature(sample.function).parameters:
            call(sample, given, inplace=True)
        else:
            getattr(given[0], f"{sample.name}_")(*given[1:], **sample.arguments)
    assert tensor.equal(given[0].detach(), before)
    assert given[0]._version == 0


@pytest.mark.parametrize("square", [tensor.square, lambda x: x**2], ids=["square", "pow"])
def test_the_third_derivative_of_a_square_is_zero(square: Any, device_name: str) -> None:
    x = tensor.tensor([1.0, -2.0, 0.0], dtype=tensor.float64, device=device_name, requires_grad=True)
    first = tensor.autograd.grad(square(x).sum(), x, create_graph=True)[0]
    second = tensor.autograd.grad(first.sum(), x, create_graph=True)[0]
    third = tensor.autograd.grad(second.sum(), x)[0]
    assert [each.tolist() for each in (first, second, third)] == [[2, -4, 0], [2, 2, 2], [0, 0, 0]]
