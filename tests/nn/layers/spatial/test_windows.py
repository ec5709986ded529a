"""Layers that go over signals, images and volumes in windows: as PyTorch's, with its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tests.nn.parity import assert_layer_like_pytorch, assert_like_pytorch

_RNG = np.random.default_rng(0)
#: Name, arguments, options, shape of the input.
LAYERS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "conv1d": ("Conv1d", (3, 4, 3), {"padding": 1}, (2, 3, 9)),
    "conv2d": ("Conv2d", (4, 6, (3, 2)), {"stride": 2, "groups": 2, "bias": False}, (2, 4, 7, 8)),
    "conv2d same": ("Conv2d", (3, 4, 3), {"padding": "same", "dilation": 2}, (2, 3, 7, 8)),
    "conv2d reflect": ("Conv2d", (3, 4, 3), {"padding": 1, "padding_mode": "reflect"}, (2, 3, 5, 6)),
    "conv2d circular": ("Conv2d", (3, 4, 4), {"padding": "same", "padding_mode": "circular"}, (2, 3, 5, 6)),
    "conv3d": ("Conv3d", (2, 3, 2), {}, (1, 2, 4, 5, 3)),
    "transposed": (
        "ConvTranspose2d",
        (3, 4, 3),
        {"stride": 2, "padding": 1, "output_padding": 1},
        (2, 3, 4, 5),
    ),
    "transposed1d": ("ConvTranspose1d", (4, 6, 3), {"groups": 2}, (2, 4, 5)),
    "transposed3d": ("ConvTranspose3d", (2, 3, 2), {}, (1, 2, 3, 3, 3)),
    "max1d": ("MaxPool1d", (2,), {}, (2, 3, 9)),
    "max2d": ("MaxPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, (2, 3, 7, 8)),
    "max3d": ("MaxPool3d", (2,), {}, (1, 2, 4, 5, 6)),
    "avg1d": ("AvgPool1d", (2,), {}, (2, 3, 9)),
    "avg2d": ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, (2, 3, 7, 8)),
    "avg3d": ("AvgPool3d", (2,), {}, (1, 2, 4, 5, 6)),
    "adaptive": ("AdaptiveAvgPool2d", ((2, None),), {}, (2, 3, 7, 8)),
    "adaptive max": ("AdaptiveMaxPool2d", (2,), {}, (2, 3, 7, 8)),
    "adaptive1d": ("AdaptiveAvgPool1d", (4,), {}, (2, 3, 7)),
    "zeros": ("ZeroPad2d", ((1, 2, 0, -1),), {}, (2, 3, 4, 5)),
    "constant": ("ConstantPad1d", (2, 3.5), {}, (2, 3, 4)),
    "reflection": ("ReflectionPad2d", ((1, 2, 2, 0),), {}, (2, 3, 4, 5)),
    "reflection3d": ("ReflectionPad3d", (1,), {}, (1, 2, 3, 3, 4)),
    "replication": ("ReplicationPad1d", ((3, 5),), {}, (2, 3, 4)),
    "circular": ("CircularPad2d", ((1, 2, 2, 0),), {}, (2, 3, 4, 5)),
}


@pytest.mark.parity
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.sampled(3)
def test_against_pytorch(name: str, device_name: str) -> None:
    layer, arguments, options, shape = LAYERS[name]
    assert_layer_like_pytorch(layer, arguments, options, shape, device_name)


def test_output_size_of_a_transposed_convolution() -> None:
    layer = nn.ConvTranspose2d(1, 1, 3, stride=2)
    x = tensor.ones(1, 1, 3, 3)
    assert layer(x, output_size=(8, 7)).shape == (1, 1, 8, 7)
    with pytest.raises(ValueError, match="valid sizes range from 7 to 8"):
        layer(x, output_size=(9, 7))
    with pytest.raises(ValueError, match="must have 2 or 4 elements"):
        layer(x, output_size=(9, 7, 7))


def test_initial_values_are_bounded() -> None:
    layer = nn.Conv2d(4, 8, 3)
    bound = 1 / (4 * 9) ** 0.5
    assert layer.weight.abs().max().item() <= bound
    assert layer.bias.abs().max().item() <= bound
    assert layer.weight.std().item() > bound / 3


def test_indices_of_maxima() -> None:
    values, devices = nn.MaxPool2d(2, return_indices=True)(tensor.arange(16.0).view(1, 1, 4, 4))
    assert values.flatten().tolist() == [5, 7, 13, 15]
    assert devices.flatten().tolist() == [5, 7, 13, 15]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "in_channels must be divisible by groups"),
        (lambda: nn.Conv2d(4, 3, 3, groups=2), "out_channels must be divisible by groups"),
        (lambda: nn.Conv2d(4, 4, 3, groups=0), "groups must be a positive integer"),
        (lambda: nn.Conv2d(3, 4, 3, padding="some"), "Invalid padding string 'some'"),
        (lambda: nn.Conv2d(3, 4, 3, padding_mode="some"), "padding_mode must be one of"),
        (lambda: nn.Conv2d(3, 4, 3, padding="same", stride=2), "not supported for strided"),
        (lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect"), 'Only "zeros" padding mode'),
    ],
)
def test_wrong_layers(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("pad", "mode", "error", "message"),
    [
        ((1,), "constant", RuntimeError, "divisible by 2"),
        ((1,) * 10, "constant", RuntimeError, "two times the input dimension"),
        ((-5, -5), "constant", RuntimeError, "negative output size"),
        ((4, 0), "reflect", RuntimeError, "should be less than"),
        ((5, 0), "circular", RuntimeError, "should be at most"),
        ((1, 1), "some", NotImplementedError, "Unrecognised padding mode some"),
        ((1, 1, 1, 1, 1, 1), "reflect", NotImplementedError, "Only 2D, 3D, 4D, 5D"),
    ],
)
def test_wrong_padding(pad: Any, mode: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        nn.functional.pad(tensor.ones(2, 3, 4), pad, mode)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_second_derivatives_of_padding(mode: str) -> None:
    x = tensor.from_numpy(_RNG.standard_normal((1, 2, 3))).requires_grad_()

    def call(x: Any) -> Any:
        return nn.functional.pad(x, (2, 1), mode) ** 2

    assert tensor.autograd.gradcheck(call, (x,))
    assert tensor.autograd.gradgradcheck(call, (x,))


@pytest.mark.parity
def test_norms_and_random_windows() -> None:
    assert_like_pytorch(lambda _, layers: repr(layers.LPPool1d(2, 3)))
    assert_like_pytorch(lambda _, layers: repr(layers.FractionalMaxPool2d(2, output_ratio=0.5)))
    for options in ({}, {"output_size": 2, "output_ratio": 0.5}, {"output_ratio": 1.5}):
        assert_like_pytorch(lambda _, layers, options=options: layers.FractionalMaxPool3d(2, **options))

    def program(library: Any, layers: Any) -> Any:
        x = library.arange(36.0).view(1, 1, 6, 6)
        share = library.tensor([[[0.3, 0.6]]])
        random = layers.FractionalMaxPool2d(2, (3, 4), return_indices=True, _random_samples=share)
        return layers.LPPool2d(2, 2)(x).round(), random(x), list(random.state_dict())

    assert_like_pytorch(program)


@pytest.mark.parity
def test_unpooling() -> None:
    def program(library: Any, layers: Any) -> Any:
        pool, unpool = layers.MaxPool2d(2, 2, return_indices=True), layers.MaxUnpool2d(2, stride=2)
        x = library.arange(20.0).view(1, 1, 4, 5)
        values, devices = pool(x)
        return repr(unpool), unpool(values, devices), unpool(values, devices, output_size=x.size())

    assert_like_pytorch(program)
    assert_like_pytorch(
        lambda _, layers: [repr(layers.MaxUnpool1d(3)), repr(layers.MaxUnpool3d((2, 1, 1), 2, 1))]
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("max_pool2d", (2,)),
        ("max_pool1d", (3, 2, 1)),
        ("adaptive_max_pool2d", (2,)),
        ("adaptive_max_pool3d", ((1, 2, 2),)),
    ],
)
def test_maxima_with_indices(name: str, arguments: tuple[Any, ...]) -> None:
    def program(library: Any, layers: Any) -> Any:
        x = library.arange(24.0).view(
            (1, 4, 6) if "1d" in name else (1, 1, 4, 6) if "2d" in name else (1, 2, 3, 4)
        )
        return getattr(layers.functional, f"{name}_with_indices")(x, *arguments)

    assert_like_pytorch(program)


@pytest.mark.parametrize(("name", "rank"), [("CircularPad1d", 1), ("CircularPad2d", 2), ("CircularPad3d", 3)])
def test_circular_padding_asks_for_its_dimensions(name: str, rank: int) -> None:
    layer = getattr(nn, name)(1)
    for dims in (rank + 1, rank + 2):
        assert layer(tensor.ones((2,) * dims)).shape == (*(2,) * (dims - rank), *(4,) * rank)
    for dims in (rank, rank + 3):
        with pytest.raises(ValueError, match=f"expected {rank + 1}D or {rank + 2}D input"):
            layer(tensor.ones((2,) * dims))
