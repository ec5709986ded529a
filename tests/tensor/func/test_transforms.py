"""``func.grad``, ``vjp``, ``jvp``, ``linearize``: values, nesting, what they leave alone, and errors."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tensor
from tensor.autograd import functional
from tensor.func import grad, grad_and_value, jvp, linearize, vjp

X = np.array([0.5, -1.0, 2.0])


def real(array: Any, device: str, **options: Any) -> Any:
    return tensor.tensor(array, dtype=tensor.float64, device=device, **options)


def scalar(x: Any, y: Any) -> Any:
    return (x.sin() * y * y).sum()


def test_grad_is_the_gradient(device_name: str) -> None:
    x, y = real(X, device_name), real(X + 3, device_name)
    assert grad(scalar)(x, y).allclose(x.cos() * y * y)
    by_x, by_y = grad(scalar, argnums=(0, 1))(x, y)
    assert by_x.allclose(x.cos() * y * y)
    assert by_y.allclose(2 * x.sin() * y)
    assert grad(scalar, argnums=-1)(x, y).allclose(by_y)
    found, value = grad_and_value(scalar)(x, y)
    assert found.allclose(by_x)
    assert value.allclose(scalar(x, y))


def test_grad_of_containers_and_auxiliary_results(device_name: str) -> None:
    x = real(X, device_name)

    def loss(parameters: Any, *, scale: float) -> Any:
        return (parameters["w"] ** 2 * scale).sum() + parameters["b"][0].sum(), {"twice": parameters["w"] * 2}

    found, aux = grad(loss, has_aux=True)({"w": x, "b": [x, x]}, scale=3.0)
    assert found["w"].allclose(6 * x)
    assert found["b"][0].tolist() == [1.0] * 3
    assert found["b"][1].tolist() == [0.0] * 3
    assert aux["twice"].allclose(2 * x)
    assert not aux["twice"].requires_grad
    (same, (value, _)) = grad_and_value(loss, has_aux=True)({"w": x, "b": [x, x]}, scale=3.0)
    assert same["w"].equal(found["w"])
    assert value.allclose((3 * x * x).sum() + x.sum())


def test_results_have_a_history_only_of_what_is_outside() -> None:
    x = real(X, "cpu")
    found, value = grad_and_value(lambda x: (x**3).sum())(x)
    assert not found.requires_grad
    assert not value.requires_grad
    assert not x.requires_grad
    weight = real(X, "cpu", requires_grad=True)
    # The value depends on the weight; the gradient does not.
    found, value = grad_and_value(lambda x: (x**3).sum() + weight.sum())(x)
    assert value.requires_grad
    assert not found.requires_grad
    found = grad(lambda x: (x**3 * weight).sum())(x)
    found.sum().backward()
    assert weight.grad is not None
    assert weight.grad.allclose(3 * x * x)


def test_an_outer_gradient_passes_through() -> None:
    x = real(X, "cpu", requires_grad=True)
    found = grad(lambda x: (x**3).sum())(x)
    assert x.grad is None
    found.sum().backward()
    assert x.grad is not None
    assert x.grad.allclose(6 * x)
    with tensor.no_grad():
        assert not grad(lambda x: (x**3).sum())(x).requires_grad
        output, pullback = vjp(lambda x: x**2, x)
        assert not output.requires_grad
    assert pullback(tensor.ones_like(x))[0].requires_grad


def test_modes_hold_inside_and_outside() -> None:
    x = real(X, "cpu")

    def constant_inside(x: Any) -> Any:
        with tensor.no_grad():
            constant = x**2
        return (x**2 * constant).sum()

    assert grad(constant_inside)(x).allclose(2 * x**3)
    with tensor.no_grad():
        assert grad(lambda x: (x**2).sum())(x).allclose(2 * x)
        assert not tensor.is_grad_enabled()
    with tensor.inference_mode():
        assert grad(lambda x: (x**2).sum())(x).allclose(2 * x)


def test_what_the_function_sees_is_a_leaf_that_requires_grad() -> None:
    outer = real(X, "cpu", requires_grad=True) * 1

    def seen(x: Any) -> Any:
        assert x.requires_grad
        assert x.is_leaf
        assert x.grad_fn is None
        (inner,) = tensor.autograd.grad((x**3).sum(), x, create_graph=True)
        return inner.sum()

    assert grad(seen)(outer).allclose(6 * outer)
    before = outer.tolist()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        grad(lambda x: x.add_(1).sum())(outer)
    assert outer.tolist() == before


def test_nested_levels_are_not_confused() -> None:
    x = real(2.0, "cpu")
    assert grad(lambda x: x * grad(lambda y: x + y)(x))(x).item() == 1.0
    assert grad(lambda x: x * grad(lambda y: x * y)(x))(x).item() == 4.0
    assert grad(grad(grad(lambda x: x**4)))(x).item() == 48.0

    def pushed(x: Any) -> Any:
        return x * jvp(lambda y: x * y, (x,), (tensor.ones_like(x),))[1]

    assert jvp(pushed, (x,), (real(1.0, "cpu"),))[1].item() == 4.0
    assert grad(pushed)(x).item() == 4.0
    assert jvp(lambda x: x * grad(lambda y: x * y)(x), (x,), (real(1.0, "cpu"),))[1].item() == 4.0


def test_a_variable_that_is_returned_is_the_tensor_itself() -> None:
    x = real(X, "cpu", requires_grad=True)
    output, pullback = vjp(lambda x: x, x)
    assert output.requires_grad
    output.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0] * 3
    assert pullback(real(X, "cpu"))[0].tolist() == X.tolist()
    assert jvp(lambda x: x, (real(X, "cpu"),), (real(X * 2, "cpu"),))[1].tolist() == (X * 2).tolist()


def test_vjp_multiplies_from_the_left(device_name: str) -> None:
    x, y = real(X, device_name), real(X + 3, device_name)
    (product, _), pullback = vjp(lambda x, y: (x * y, (x + y).sum()), x, y)
    assert product.allclose(x * y)
    by_x, by_y = pullback((real(X, device_name), real(10.0, device_name)))
    assert by_x.allclose(x * y + 10)
    assert by_y.allclose(x * x + 10)
    # A second call finds the graph still there.
    assert pullback((real(X, device_name), real(10.0, device_name)))[0].equal(by_x)
    assert vjp(lambda x: {"a": x * 2}, x)[1]({"a": y})[0].equal(2 * y)
    _, pullback, aux = vjp(lambda x: (x * 2, x * 3), x, has_aux=True)
    assert aux.equal(3 * x)
    assert pullback(y)[0].equal(2 * y)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sin() * x,
        lambda x: x.softmax(0),
        lambda x: x.sort().values,
        lambda x: x.cumsum(0)[1:],
        lambda x: (x.outer(x) + 3 * tensor.eye(3, dtype=x.dtype, device=x.device)).inverse(),
        lambda x: x.view(1, 3).expand(2, 3).clone().mul_(x),
        lambda x: tensor.fft.fft(x),
    ],
)
@pytest.mark.sampled(4)
def test_jvp_multiplies_from_the_right(device_name: str, function: Any) -> None:
    x, direction = real(X, device_name), real([1.0, 10.0, -3.0], device_name)
    output, tangent = jvp(function, (x,), (direction,))
    eps = 1e-6
    expected = (function(x + eps * direction) - function(x - eps * direction)) / (2 * eps)
    assert output.allclose(function(x))
    assert tangent.allclose(expected, rtol=1e-6, atol=1e-6)
    value, push = linearize(function, x)
    assert value.equal(output)
    assert push(direction).allclose(tangent)
    assert push(2 * direction).allclose(2 * tangent)
    assert not tangent.requires_grad


def test_jvp_is_that_of_functional() -> None:
    x, direction = real(X, "cpu"), real([1.0, 10.0, -3.0], "cpu")
    expected = functional.jvp(lambda x: (x.exp(), x.sum()), x, direction)
    assert [each.tolist() for each in jvp(lambda x: (x.exp(), x.sum()), (x,), (direction,))[1]] == [
        each.tolist() for each in expected[1]
    ]


def test_jvp_of_what_does_not_depend_on_the_primals() -> None:
    x = real(X, "cpu")
    output, tangent, aux = jvp(lambda x: (tensor.ones(2), x), (x,), (x,), has_aux=True)
    assert output.tolist() == [1.0, 1.0]
    assert tangent.tolist() == [0.0, 0.0]
    assert aux.equal(x)
    with pytest.raises(RuntimeError, match="strict=True"):
        jvp(lambda x: tensor.ones(2), (x,), (x,), strict=True)


def test_backward_is_refused_inside() -> None:
    x = real(2.0, "cpu")
    with pytest.raises(RuntimeError, match=r"backward\(\) called inside"):
        grad(lambda x: (x * 1).backward())(x)
    # What raised has left nothing behind.
    y = real(2.0, "cpu", requires_grad=True)
    (y * y).backward()
    assert y.grad is not None
    assert y.grad.item() == 4.0


def test_threads_have_levels_of_their_own() -> None:
    inside, leave = threading.Event(), threading.Event()

    def waits(x: Any) -> Any:
        inside.set()
        assert leave.wait(10)
        return x * x

    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(grad(waits)(real(3.0, "cpu")).item()))
    thread.start()
    assert inside.wait(10)
    y = real(2.0, "cpu", requires_grad=True)
    (y * y).backward()
    leave.set()
    thread.join()
    assert found == [6.0]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: grad(lambda x: x)(x), RuntimeError, "scalar Tensor, got tensor with 1 dims"),
        (lambda x: grad(lambda x: (x.sum(), 1))(x), RuntimeError, "to return a Tensor, got <class 'tuple'>"),
        (lambda x: grad(lambda x: x.sum())(3.0), ValueError, "must be Tensor, got <class 'float'>"),
        (lambda x: grad(lambda x: x.sum())(x.long()), RuntimeError, "floating point"),
        (lambda x: grad(scalar, argnums=2)(x, x), RuntimeError, "Got argnum=2, but only 2 positional inputs"),
        (lambda x: grad(scalar, argnums=(0, 0))(x, x), RuntimeError, r"must be unique, got \(0, 0\)"),
        (lambda x: grad(scalar, argnums="a")(x, x), RuntimeError, "int or Tuple"),  # type: ignore[arg-type]
        (lambda x: vjp(lambda x: 3, x), RuntimeError, "only tensors, got unsupported type <class 'int'>"),
        (
            lambda x: vjp(lambda x: (x, x), x)[1](x),
            RuntimeError,
            r"cotangents: \*, primal output: \(\*, \*\)",
        ),
        (lambda x: vjp(lambda x: x, x)[1](x[0]), RuntimeError, r"cotangent 0 .* shape \[3\], got shape \[\]"),
        (lambda x: jvp(lambda x: x, x, x), RuntimeError, "Expected primals to be a tuple"),
        (lambda x: jvp(lambda x: x, (x,), ()), RuntimeError, "same python structure"),
        (lambda x: jvp(lambda x: x, (), ()), RuntimeError, "at least one Tensor"),
        (lambda x: jvp(lambda x: x, (x,), (x[0],)), RuntimeError, r"of size \[3\] while .* size \[\]"),
        (lambda x: linearize(lambda x: x, x)[1](x[0]), RuntimeError, "tangent:0 with shape"),
        (lambda x: linearize(lambda x: x, x)[1](x, x), RuntimeError, "same structure"),
        (lambda x: grad(lambda x: x.sum(), has_aux=True)(x), RuntimeError, "should be a tuple"),
    ],
)
def test_errors(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(real(X, "cpu"))
