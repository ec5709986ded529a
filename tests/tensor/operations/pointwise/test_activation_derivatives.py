"""Derivatives of the first three orders of every activation function, in evaluation mode where there are two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tensor.autograd import gradcheck, gradgradcheck
from tests.tensor.comparison import array_of

#: Name in ``nn.functional``, arguments behind the input, and their names.
CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "relu": ("relu", (), {}),
    "relu6": ("relu6", (), {}),
    "leaky_relu": ("leaky_relu", (0.2,), {}),
    "threshold": ("threshold", (0.1, 0.5), {}),
    "elu": ("elu", (1.3,), {}),
    "selu": ("selu", (), {}),
    "celu": ("celu", (1.3,), {}),
    "softplus": ("softplus", (1.5,), {}),
    "softplus threshold": ("softplus", (2.0, 1.0), {}),
    "logsigmoid": ("logsigmoid", (), {}),
    "silu": ("silu", (), {}),
    "mish": ("mish", (), {}),
    "gelu": ("gelu", (), {}),
    "gelu tanh": ("gelu", (), {"approximate": "tanh"}),
    "softsign": ("softsign", (), {}),
    "hardtanh": ("hardtanh", (-0.5, 0.75), {}),
    "hardsigmoid": ("hardsigmoid", (), {}),
    "hardswish": ("hardswish", (), {}),
    "hardshrink": ("hardshrink", (0.4,), {}),
    "softshrink": ("softshrink", (0.4,), {}),
    "tanhshrink": ("tanhshrink", (), {}),
    "sigmoid": ("sigmoid", (), {}),
    "tanh": ("tanh", (), {}),
    "glu": ("glu", (), {}),
    "softmax": ("softmax", (-1,), {}),
    "log softmax": ("log_softmax", (-1,), {}),
    "softmin": ("softmin", (-1,), {}),
    "rrelu": ("rrelu", (0.1, 0.4), {}),
}
#: PyTorch has no second derivative of it.
_ONCE_IN_PYTORCH = {"hardsigmoid"}
#: Away from kinks; elements on all sides of them.
ELEMENTS = [-5.3, -2.4, -0.9, -0.3, 0.2, 0.45, 0.9, 1.6, 3.7, 6.8]


def _apply(library: Any, name: str, x: Any) -> Any:
    function, arguments, options = CASES[name]
    return getattr(library.nn.functional, function)(x, *arguments, **options)


class _Graphroot:
    """This project under PyTorch's names."""

    nn, autograd, float64 = nn, tensor.autograd, tensor.float64
    tensor = staticmethod(tensor.tensor)


def slopes(library: Any, name: str, x: Any, count: int) -> list[Any]:
    """Derivatives of orders 1 to ``count`` of the activation times the square of its input, element by element."""
    results, y = [], _apply(library, name, x)
    y = y * (x * x if y.shape == x.shape else x[..., : y.shape[-1]] * x[..., y.shape[-1] :])
    for _ in range(count):
        (y,) = library.autograd.grad(y.sum(), x, create_graph=True)
        results.append(y.detach())
    return results


@pytest.mark.parametrize("name", CASES)
def test_three_orders(name: str) -> None:
    x = tensor.tensor(ELEMENTS, dtype=tensor.float64, requires_grad=True)

    def function(x: Any) -> Any:
        return _apply(_Graphroot, name, x)

    def gradient(x: Any, direction: Any) -> Any:
        return tensor.autograd.grad(function(x), x, direction, create_graph=True)[0]

    assert gradcheck(function, (x,))
    direction = tensor.linspace(0.5, 1.5, function(x).numel(), dtype=tensor.float64, requires_grad=True)
    assert gradcheck(gradient, (x, direction))
    assert gradgradcheck(gradient, (x, direction))


@pytest.mark.parity
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", [(10,), (2, 1), (), (0,)], ids=str)
def test_orders_like_pytorch(name: str, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    if name == "glu" and shape != (10,):
        shape = (*shape, 2) if shape != (2, 1) else (2, 4)
    values = np.resize(np.array(ELEMENTS), shape)
    count = 1 if name in _ONCE_IN_PYTORCH else 4
    results = slopes(_Graphroot, name, tensor.tensor(values, requires_grad=True), count)
    expected = slopes(torch, name, torch.tensor(values, requires_grad=True), count)
    for order, (a, b) in enumerate(zip(results, expected, strict=True), 1):
        # PyTorch takes the constants of elu for the third derivative in single precision.
        np.testing.assert_allclose(array_of(a), array_of(b), rtol=2e-6, atol=1e-9, err_msg=f"order {order}")


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "hardtanh", "hardshrink", "softshrink", "threshold"])
def test_second_derivative_of_piecewise_linear_functions_is_zero(name: str) -> None:
    x = tensor.tensor(ELEMENTS, dtype=tensor.float64, requires_grad=True)
    (first,) = tensor.autograd.grad(_apply(_Graphroot, name, x).sum(), x, create_graph=True)
    (second,) = tensor.autograd.grad(first.sum(), x, create_graph=True)
    assert second.tolist() == [0.0] * len(ELEMENTS)


@pytest.mark.parity
@pytest.mark.parametrize("of_weight", [False, True], ids=["input", "weight"])
def test_orders_of_prelu_like_pytorch(of_weight: bool) -> None:
    torch = pytest.importorskip("torch")

    def program(library: Any) -> list[Any]:
        x = library.tensor(ELEMENTS, dtype=library.float64, requires_grad=True)
        weight = library.tensor([0.3], dtype=library.float64, requires_grad=True)
        y, results = library.nn.functional.prelu(x, weight), []
        for _ in range(3):
            (y,) = library.autograd.grad(y.sum(), weight if of_weight else x, create_graph=True)
            results.append(y.tolist())
            y = y * weight.exp() * x
        return results

    for a, b in zip(program(_Graphroot), program(torch), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["relu", "elu", "softplus", "silu", "mish", "gelu tanh", "hardswish", "softsign"]
)
@pytest.mark.sampled(4)
def test_orders_on_a_device(name: str, checked_device: str) -> None:
    x = tensor.tensor(ELEMENTS, dtype=tensor.float64)
    expected = slopes(_Graphroot, name, x.clone().requires_grad_(), 3)
    results = slopes(_Graphroot, name, x.to(checked_device).requires_grad_(), 3)
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(array_of(a), array_of(b), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    "name", ["elu", "softplus", "silu", "mish", "gelu", "gelu tanh", "softsign", "hardswish"]
)
def test_second_derivative_is_the_same_whether_recorded_or_not(name: str) -> None:
    for dtype, tolerance in ((tensor.float64, 1e-13), (tensor.float32, 1e-5), (tensor.float16, 6e-3)):
        x = tensor.tensor([*ELEMENTS, 0.0, 30.0, -30.0], dtype=dtype, requires_grad=True)
        (first,) = tensor.autograd.grad(_apply(_Graphroot, name, x).sum(), x, create_graph=True)
        results = [
            tensor.autograd.grad(first.sum(), x, create_graph=recorded, retain_graph=True)[0]
            for recorded in (False, True)
        ]
        assert results[1].dtype is dtype
        np.testing.assert_allclose(*map(array_of, results), rtol=tolerance, atol=tolerance)
