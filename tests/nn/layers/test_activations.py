"""Activation functions and their modules, flattening."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn import functional
from tensor.autograd import gradcheck, gradgradcheck
from tests.nn.parity import assert_like_pytorch, plain
from tests.tensor.comparison import array_of

MODULES = {
    "relu": lambda nn, **inplace: nn.ReLU(**inplace),
    "leaky_relu": lambda nn, **inplace: nn.LeakyReLU(0.2, **inplace),
    "rrelu": lambda nn, **inplace: nn.RReLU(0.1, 0.3, **inplace).eval(),
    "threshold": lambda nn, **inplace: nn.Threshold(0.3, -2.0, **inplace),
    "elu": lambda nn, **inplace: nn.ELU(0.7, **inplace),
    "celu": lambda nn, **inplace: nn.CELU(0.7, **inplace),
    "selu": lambda nn, **inplace: nn.SELU(**inplace),
    "silu": lambda nn, **inplace: nn.SiLU(**inplace),
    "mish": lambda nn, **inplace: nn.Mish(**inplace),
    "hardtanh": lambda nn, **inplace: nn.Hardtanh(-0.5, 0.75, **inplace),
    "relu6": lambda nn, **inplace: nn.ReLU6(**inplace),
    "hardsigmoid": lambda nn, **inplace: nn.Hardsigmoid(**inplace),
    "hardswish": lambda nn, **inplace: nn.Hardswish(**inplace),
}
PLAIN = {
    "prelu": lambda nn: nn.PReLU(),
    "prelu of channels": lambda nn: nn.PReLU(6, 0.1),
    "gelu": lambda nn: nn.GELU(),
    "gelu tanh": lambda nn: nn.GELU("tanh"),
    "softplus": lambda nn: nn.Softplus(2.0, 3.0),
    "sigmoid": lambda nn: nn.Sigmoid(),
    "logsigmoid": lambda nn: nn.LogSigmoid(),
    "tanh": lambda nn: nn.Tanh(),
    "softsign": lambda nn: nn.Softsign(),
    "hardshrink": lambda nn: nn.Hardshrink(0.4),
    "softshrink": lambda nn: nn.Softshrink(0.4),
    "tanhshrink": lambda nn: nn.Tanhshrink(),
    "glu": lambda nn: nn.GLU(),
    "glu dim": lambda nn: nn.GLU(0),
}
ALL = {**MODULES, **PLAIN}


def numbers(shape: tuple[int, ...] = (4, 6)) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(3).standard_normal(shape) * 2
    return values.astype(np.float32)


@pytest.mark.parity
@pytest.mark.parametrize("name", ALL)
@pytest.mark.sampled(3)
def test_values_and_gradients(device_name: str, name: str) -> None:
    torch = pytest.importorskip("torch")
    layer, reference = ALL[name](nn).to(device_name), ALL[name](torch.nn)
    assert repr(layer) == repr(reference)
    x = tensor.from_numpy(numbers()).to(device_name).requires_grad_()
    y = torch.from_numpy(numbers()).requires_grad_()
    result, expected = layer(x), reference(y)
    np.testing.assert_allclose(array_of(result), array_of(expected), rtol=2e-5, atol=1e-6)
    (result * result).sum().backward()
    (expected * expected).sum().backward()
    np.testing.assert_allclose(array_of(x.grad), array_of(y.grad), rtol=5e-5, atol=5e-6)
    for mine, theirs in zip(layer.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(array_of(mine.grad), array_of(theirs.grad), rtol=1e-4, atol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("name", MODULES)
def test_in_place(device_name: str, name: str) -> None:
    torch = pytest.importorskip("torch")
    layer, reference = MODULES[name](nn, inplace=True), MODULES[name](torch.nn, inplace=True)
    assert repr(layer) == repr(reference)
    x = tensor.from_numpy(numbers()).to(device_name)
    result = layer(x)
    assert result.data_ptr() == x.data_ptr()
    expected = MODULES[name](nn)(tensor.from_numpy(numbers()).to(device_name))
    assert x.tolist() == expected.tolist()
    # On what is recorded too.
    leaf, other = tensor.ones(3, device=device_name, requires_grad=True), torch.ones(3, requires_grad=True)
    layer(leaf * 0.6).sum().backward()
    reference(other * 0.6).sum().backward()
    np.testing.assert_allclose(array_of(leaf.grad), array_of(other.grad), rtol=1e-5)


IN_PLACE = {
    "relu_": (),
    "leaky_relu_": (0.2,),
    "elu_": (0.7,),
    "selu_": (),
    "celu_": (0.7,),
    "hardtanh_": (-0.5, 0.5),
    "threshold_": (0.1, 7.0),
    "rrelu_": (),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", IN_PLACE)
def test_functions_in_place(name: str) -> None:
    def program(lib: Any, nn: Any) -> Any:
        x = lib.tensor([-2.0, -0.25, 0.0, 0.25, 2.0])
        return getattr(nn.functional, name)(x, *IN_PLACE[name]) is x, np.float32(x.tolist()).round(5).tolist()

    assert_like_pytorch(program)


def test_derivative_of_glu() -> None:
    tensor.manual_seed(0)
    x = tensor.randn(2, 4, dtype=tensor.float64, requires_grad=True)
    assert gradcheck(functional.glu, (x,))
    assert gradgradcheck(functional.glu, (x,))
    assert gradcheck(lambda y: functional.glu(y, 0), (x,))


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["float64", "float16", "int64", "bool", "complex64"])
def test_types_of_glu(kind: str) -> None:
    def program(lib: Any, nn: Any) -> Any:
        x = lib.tensor([[1.0, -2.0, 0.5, 90.0], [0.0, 3.0, -1.0, -90.0]]).to(getattr(lib, kind))
        result = nn.functional.glu(x)
        return str(result.dtype), np.asarray(array_of(result)).astype(np.complex64).round(
            3
        ).tolist().__str__()

    assert_like_pytorch(program)


def test_random_slopes(device_name: str) -> None:
    tensor.manual_seed(0)
    layer = nn.RReLU(0.1, 0.3)
    x = tensor.full((1000,), -1.0, device=device_name, requires_grad=True)
    y = layer(x)
    slopes = -array_of(y)
    assert slopes.min() >= 0.1
    assert slopes.max() <= 0.3
    assert abs(slopes.mean() - 0.2) < 0.01
    y.sum().backward()
    np.testing.assert_allclose(array_of(x.grad), slopes, rtol=1e-6)
    assert layer(-x).tolist() == [1.0] * 1000
    assert set(layer.eval()(x).tolist()) == {np.float32(-0.2)}


REFUSED = {
    "glu odd": lambda lib, nn: nn.functional.glu(lib.ones(2, 3)),
    "glu scalar": lambda lib, nn: nn.functional.glu(lib.ones(())),
    "glu dim": lambda lib, nn: nn.functional.glu(lib.ones(2), 4),
    "softshrink": lambda lib, nn: nn.functional.softshrink(lib.ones(2), -1.0),
    "gelu": lambda lib, nn: nn.GELU("x")(lib.ones(2)),
    "prelu": lambda lib, nn: nn.PReLU(3)(lib.ones(2, 2)),
    "tanh in place": lambda lib, nn: nn.Tanh(inplace=True),
    "rrelu": lambda lib, nn: nn.functional.rrelu(lib.ones(2), 3.0, 1.0, True),
    "old names": lambda lib, nn: repr(nn.Hardtanh(min_value=-2.0, max_value=3.0)),
    "unflatten number": lambda lib, nn: nn.Unflatten(1, 3),
    "unflatten words": lambda lib, nn: nn.Unflatten(1, ("a", 3)),
    "unflatten wrong": lambda lib, nn: nn.Unflatten(1, (2, 2))(lib.ones(2, 6)),
    "flatten wrong": lambda lib, nn: nn.Flatten(3)(lib.ones(2, 6)),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    assert_like_pytorch(REFUSED[name])


def test_empty_interval() -> None:
    with pytest.raises(ValueError, match=r"max_val \(-1\) must be greater than min_val \(1\)"):
        nn.Hardtanh(1, -1)


FLATTENED = {
    "flatten": lambda nn: nn.Flatten(),
    "flatten all": lambda nn: nn.Flatten(0),
    "flatten some": lambda nn: nn.Flatten(0, 1),
    "unflatten": lambda nn: nn.Unflatten(1, (3, -1)),
    "unflatten list": lambda nn: nn.Unflatten(-1, [2, 2]),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", FLATTENED)
def test_flattening(name: str) -> None:
    def program(lib: Any, nn: Any) -> Any:
        layer = FLATTENED[name](nn)
        return repr(layer), layer(lib.arange(48).reshape(2, 6, 4))

    assert_like_pytorch(program)


@pytest.mark.parity
def test_text_of_sizes() -> None:
    torch = pytest.importorskip("torch")
    assert repr(nn.Unflatten(1, tensor.Size([2, 3]))) == plain(
        repr(torch.nn.Unflatten(1, torch.Size([2, 3])))
    )


@pytest.mark.parity
def test_weights_carry_over() -> None:
    torch = pytest.importorskip("torch")
    assert list(nn.PReLU(3).state_dict()) == list(torch.nn.PReLU(3).state_dict())
    layer = nn.PReLU(3, dtype=tensor.float64)
    layer.weight.data.zero_()
    layer.reset_parameters()
    assert layer.weight.tolist() == [0.25] * 3
    assert layer.weight.dtype is tensor.float64
