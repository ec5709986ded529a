"""``Linear``, ``Bilinear`` and their functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import functional
from tensor.autograd import gradcheck, gradgradcheck
from tests.nn.parity import assert_like_pytorch, copy_weights
from tests.tensor.comparison import array_of

pytestmark = pytest.mark.usefixtures("full_precision")

SHAPES = [(4, 3), (3,), (2, 5, 3), (0, 3), (2, 0, 3), (1, 1, 1, 3)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.sampled(4)
def test_linear(device_name: str, shape: tuple[int, ...], bias: bool) -> None:
    tensor.manual_seed(0)
    layer = nn.Linear(3, 2, bias=bias, device=device_name)
    x = tensor.randn(*shape, device=device_name, requires_grad=True)
    y = layer(x)
    w = array_of(layer.weight)
    b = array_of(layer.bias) if layer.bias is not None else 0
    np.testing.assert_allclose(array_of(y), array_of(x) @ w.T + b, rtol=1e-5, atol=1e-6)
    assert y.dtype is tensor.float32
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(array_of(x.grad), np.broadcast_to(w.sum(0), shape), rtol=1e-5)
    assert layer.weight.grad is not None
    summed = array_of(x).reshape(-1, 3).sum(0)
    np.testing.assert_allclose(array_of(layer.weight.grad), [summed] * 2, rtol=1e-5, atol=1e-5)
    if layer.bias is not None:
        assert layer.bias.grad is not None
        assert layer.bias.grad.tolist() == [float(np.prod(shape[:-1]))] * 2


FORMS = {
    "weight of one output": ((4, 3), (3,), None),
    "vectors": ((3,), (3,), None),
    "one output and a bias": ((4, 3), (3,), ()),
    "bias of one": ((4, 3), (2, 3), (1,)),
    "scalar bias": ((4, 3), (2, 3), ()),
    "scalar bias of more": ((5, 4, 3), (2, 3), ()),
    "bias of rows": ((4, 3), (2, 3), (4, 2)),
    "bias of rows of more": ((5, 4, 3), (2, 3), (4, 2)),
    "bias of one of more": ((5, 4, 3), (2, 3), (1,)),
    "vector and bias of one": ((3,), (2, 3), (1,)),
    "wrong bias": ((4, 3), (2, 3), (3,)),
    "wrong input": ((4, 2), (2, 3), (2,)),
    "wrong input of more": ((5, 4, 2), (2, 3), (2,)),
    "wrong input without bias": ((4, 2), (2, 3), None),
    "no dimension": ((), (2, 3), (2,)),
    "three dimensions of weights": ((2, 3), (2, 2, 3), None),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    def program(lib: Any, nn: Any) -> Any:
        result = [None if each is None else lib.ones(*each) for each in FORMS[name]]
        return nn.functional.linear(*result)

    assert_like_pytorch(program)


def test_other_dtypes(device_name: str) -> None:
    for dtype in (tensor.float64, tensor.float16, tensor.bfloat16):
        layer = nn.Linear(3, 2, device=device_name, dtype=dtype)
        assert layer(tensor.ones(4, 3, device=device_name, dtype=dtype)).dtype is dtype
    with pytest.raises(RuntimeError, match="dtype"):
        nn.Linear(3, 2)(tensor.ones(4, 3, dtype=tensor.float64))


def test_bilinear_is_the_sum(device_name: str) -> None:
    tensor.manual_seed(0)
    layer = nn.Bilinear(3, 4, 2, device=device_name)
    for shape in [(5,), (2, 3), (), (0,)]:
        x = tensor.randn(*shape, 3, device=device_name)
        y = tensor.randn(*shape, 4, device=device_name)
        assert layer.bias is not None
        expected = np.einsum("...i,kij,...j->...k", array_of(x), array_of(layer.weight), array_of(y))
        np.testing.assert_allclose(
            array_of(layer(x, y)), expected + array_of(layer.bias), rtol=1e-4, atol=1e-5
        )


BILINEAR_FORMS = {
    "batch": ((5, 2), (6, 3), (4, 2, 3), None),
    "first": ((5, 3), (5, 3), (4, 2, 3), None),
    "second": ((5, 2), (5, 2), (4, 2, 3), None),
    "ranks": ((5, 2), (3,), (4, 2, 3), None),
    "weight": ((5, 2), (5, 3), (2, 3), None),
    "bias": ((5, 2), (5, 3), (4, 2, 3), (3,)),
    "right": ((5, 2), (5, 3), (4, 2, 3), (4,)),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", BILINEAR_FORMS)
def test_bilinear_forms(name: str) -> None:
    def program(lib: Any, nn: Any) -> Any:
        result = [None if each is None else lib.ones(*each) for each in BILINEAR_FORMS[name]]
        return nn.functional.bilinear(*result)

    assert_like_pytorch(program)


def test_derivatives() -> None:
    tensor.manual_seed(0)

    def drawn(*shape: int) -> tensor.Tensor:
        return tensor.randn(*shape, dtype=tensor.float64, requires_grad=True)

    linear = (drawn(2, 2, 3), drawn(4, 3), drawn(4))
    bilinear = (drawn(3, 2), drawn(3, 3), drawn(2, 2, 3), drawn(2))
    assert gradcheck(functional.linear, linear)
    assert gradgradcheck(functional.linear, linear)
    assert gradcheck(functional.bilinear, bilinear)
    assert gradgradcheck(functional.bilinear, bilinear)


@pytest.mark.parity
@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.Linear(3, 4),
        lambda nn: nn.Linear(3, 4, bias=False),
        lambda nn: nn.Bilinear(3, 3, 4),
        lambda nn: nn.Bilinear(3, 3, 4, False),
    ],
)
def test_weights_carry_over(make: Any) -> None:
    torch = pytest.importorskip("torch")
    layer, reference = make(nn), make(torch.nn)
    assert repr(layer) == repr(reference)
    copy_weights(layer, reference)
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    count = 1 if isinstance(layer, nn.Linear) else 2
    result = layer(*[tensor.from_numpy(x)] * count)
    expected = reference(*[torch.from_numpy(x)] * count)
    np.testing.assert_allclose(array_of(result), array_of(expected), rtol=1e-5, atol=1e-6)


def test_initial_values() -> None:
    tensor.manual_seed(0)
    layer = nn.Linear(64, 50)
    bound = 1 / 8
    for values in (layer.weight, layer.bias):
        assert values is not None
        assert values.abs().max().item() <= bound
        assert values.abs().max().item() > 0.9 * bound
    state = tensor.get_rng_state()
    layer.reset_parameters()
    weight = layer.weight.tolist()
    tensor.set_rng_state(state)
    assert tensor.empty(50, 64).uniform_(-bound, bound).tolist() == weight


MADE = {
    "no outputs": lambda lib, nn: nn.Linear(3, 0).weight,
    "no inputs": lambda lib, nn: repr(nn.Linear(0, 3)),
    "negative": lambda lib, nn: nn.Linear(3, -1),
    "bilinear of nothing": lambda lib, nn: nn.Bilinear(0, 2, 3),
    "identity": lambda lib, nn: [nn.Identity(3, a=4)(5), repr(nn.Identity(1))],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", MADE)
def test_making(name: str) -> None:
    assert_like_pytorch(MADE[name])
