"""Gradients of weights of half precision are one launch at the end of a backward pass, where they are not read before."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

import nn
import tensor
from nn import functional

if TYPE_CHECKING:
    pass


pytestmark = pytest.mark.usefixtures("schedule")


def _layers(*widths: int, bias: bool = True) -> Any:
    tensor.manual_seed(3)
    layers: list[Any] = []
    for width, out in pairwise(widths):
        layers += [nn.Linear(width, out, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers).cuda()


def _gradients(model: Any, function: Any, *arguments: Any) -> list[Any]:
    model.zero_grad()
    tensor.manual_seed(5)
    function(*arguments)
    return [x.grad for x in model.parameters()]


def _assert_same_gradients(model: Any, step: Any, x: Any) -> str:
    compiled = tensor.compile(step, fullgraph=True)
    expected = [each.clone() for each in _gradients(model, step, x)]
    for _ in range(3):
        for one, other in zip(_gradients(model, compiled, x), expected, strict=True):
            assert (one.dtype, one.stride()) == (other.dtype, other.stride())
            scale = float(other.abs().max())
            tensor.testing.assert_close(one, other, rtol=1e-2, atol=1e-2 * scale)
    model.zero_grad()
    text: str = compiled.explain(x)
    return text


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_under_autocast(bias: bool) -> None:
    model = _layers(16, 40, 24, 8, bias=bias)

    def step(x: Any) -> None:
        with tensor.autocast("cuda", dtype=tensor.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()

    x = tensor.randn(33, 16, device="cuda")
    text = _assert_same_gradients(model, step, x)
    assert text.count("3 gradients of weights") == 1, text
    _gradients(model, tensor.compile(step, fullgraph=True), x)
    # Parameters are of single precision, and so are their gradients.
    assert all(x.grad.dtype is tensor.float32 and x.grad.is_contiguous() for x in model.parameters())
    assert len({x.grad.untyped_storage().data_ptr() for x in model.parameters()}) == 3 * (1 + bias)


def test_gradients_of_half_precision_with_uneven_sizes() -> None:
    model = _layers(7, 5, 6).to(tensor.float16)

    def step(x: Any) -> None:
        model(x).sum().backward()

    text = _assert_same_gradients(model, step, tensor.randn(4, 3, 7, device="cuda", dtype=tensor.float16))
    assert "2 gradients of weights" in text, text


def test_single_precision_goes_through_cublas() -> None:
    model = _layers(7, 5, 6)
    text = _assert_same_gradients(
        model, lambda x: model(x).sum().backward(), tensor.randn(4, 7, device="cuda")
    )
    assert "gradients of weights" not in text, text


def test_a_shared_weight_adds_its_gradients_in_between() -> None:
    """The second gradient is added to the first one, and the sum is read at the end."""
    model = _layers(16, 16, 16, 16).to(tensor.bfloat16)
    model[2].weight = model[0].weight

    def step(x: Any) -> None:
        model(x).square().mean().backward()

    _assert_same_gradients(model, step, tensor.randn(10, 16, device="cuda", dtype=tensor.bfloat16))


def test_a_gradient_that_is_read_in_between_stays_where_it_is() -> None:
    x = tensor.randn(12, 16, device="cuda", dtype=tensor.bfloat16)
    first, second = (
        tensor.randn(16, 16, device="cuda", dtype=tensor.bfloat16, requires_grad=True) for _ in range(2)
    )

    def function(x: Any) -> Any:
        (one,) = tensor.autograd.grad(functional.linear(x, first).sum(), first)
        (two,) = tensor.autograd.grad(functional.linear(x, second + one.detach()).square().sum(), second)
        return one, two

    compiled = tensor.compile(function, fullgraph=True)
    for _ in range(2):
        for one, other in zip(compiled(x), function(x), strict=True):
            tensor.testing.assert_close(one, other, rtol=1e-2, atol=1e-2 * float(other.abs().max()))
    text = compiled.explain(x)
    assert "gradients of weights" not in text, text
    assert "its result is needed in between" in text, text


def test_forward_and_backward_apart() -> None:
    model = _layers(16, 24, 24, 8)
    x = tensor.randn(20, 16, device="cuda")

    def loss_of(x: Any) -> Any:
        with tensor.autocast("cuda", dtype=tensor.float16):
            return model(x).float().square().mean()

    compiled = tensor.compile(loss_of, fullgraph=True)
    expected = [each.clone() for each in _gradients(model, lambda: loss_of(x).backward())]
    for _ in range(2):
        for one, other in zip(_gradients(model, lambda: compiled(x).backward()), expected, strict=True):
            tensor.testing.assert_close(one, other, rtol=1e-2, atol=1e-2 * float(other.abs().max()))
    assert "3 gradients of weights" in compiled.explain(x)


def test_hooks_on_gradients_hear_of_them_where_they_listen() -> None:
    """A function whose backward pass has such hooks runs as it is, with a warning; one without backward() passes them on."""
    model = _layers(16, 24, 8).to(tensor.bfloat16)
    heard: list[Any] = []
    model[0].weight.register_hook(lambda grad: heard.append(grad.clone()))
    x = tensor.randn(20, 16, device="cuda", dtype=tensor.bfloat16)
    compiled = tensor.compile(lambda x: model(x).square().mean())
    for number in (1, 2):
        model.zero_grad()
        compiled(x).backward()
        assert len(heard) == number
        tensor.testing.assert_close(heard[-1], model[0].weight.grad, rtol=0, atol=0)
