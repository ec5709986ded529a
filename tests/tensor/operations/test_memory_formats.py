"""Operations on images and volumes keep the order of their input's elements, channels last among them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from nn import functional
from tensor.autograd import gradgradcheck
from tests.tensor.comparison import array_of

if TYPE_CHECKING:
    from collections.abc import Callable

M = Any
F = Any
IMAGE, VOLUME = (2, 4, 6, 8), (2, 4, 6, 6, 8)


def ones(m: M, x: Any, *shape: int) -> Any:
    return m.ones(shape, dtype=x.dtype, device=x.device)


def halves(m: M, x: Any, count: int) -> Any:
    return m.full((2, 4, count), 0.5, dtype=x.dtype, device=x.device)


def ordered(m: M, x: Any) -> Any:
    return x.contiguous(memory_format=m.channels_last if x.dim() == 4 else m.channels_last_3d)


#: Of a library, its ``functional`` and an image or volume.
IMAGES: dict[str, Callable[[M, F, Any], Any]] = {
    "conv2d": lambda m, f, x: f.conv2d(x, ones(m, x, 3, 4, 3, 3), ones(m, x, 3)),
    "conv2d of pixels": lambda m, f, x: f.conv2d(x, ones(m, x, 3, 4, 1, 1)),
    "conv2d of each channel": lambda m, f, x: f.conv2d(x, ones(m, x, 4, 1, 3, 3), groups=4),
    "conv2d with options": lambda m, f, x: f.conv2d(x, ones(m, x, 4, 4, 3, 3), None, 2, 2, 2),
    "conv2d to one channel": lambda m, f, x: f.conv2d(x, ones(m, x, 1, 4, 3, 3)),
    "conv2d, the weight": lambda m, f, x: f.conv2d(x.contiguous(), ordered(m, ones(m, x, 3, 4, 3, 3))),
    "conv_transpose2d": lambda m, f, x: f.conv_transpose2d(x, ones(m, x, 4, 3, 3, 3)),
    "max_pool2d": lambda m, f, x: f.max_pool2d(x, 2, return_indices=True),
    "avg_pool2d": lambda m, f, x: f.avg_pool2d(x, 2),
    "lp_pool2d": lambda m, f, x: f.lp_pool2d(x, 2, 2),
    "adaptive_avg_pool2d": lambda m, f, x: f.adaptive_avg_pool2d(x, (2, 3)),
    "adaptive_avg_pool2d, whole": lambda m, f, x: f.adaptive_avg_pool2d(x, 1),
    "adaptive_max_pool2d": lambda m, f, x: f.adaptive_max_pool2d(x, (2, 3), return_indices=True),
    "fractional_max_pool2d": lambda m, f, x: f.fractional_max_pool2d(
        x, 2, 3, _random_samples=halves(m, x, 2)
    ),
    "max_unpool2d": lambda m, f, x: f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2),
    "nearest": lambda m, f, x: f.interpolate(x, scale_factor=2),
    "nearest-exact": lambda m, f, x: f.interpolate(x, scale_factor=2, mode="nearest-exact"),
    "bilinear": lambda m, f, x: f.interpolate(x, scale_factor=2, mode="bilinear"),
    "bicubic": lambda m, f, x: f.interpolate(x, scale_factor=2, mode="bicubic"),
    "bilinear, smooth": lambda m, f, x: f.interpolate(x, (3, 3), mode="bilinear", antialias=True),
    "bicubic, smooth": lambda m, f, x: f.interpolate(x, (3, 3), mode="bicubic", antialias=True),
    "area": lambda m, f, x: f.interpolate(x, (3, 3), mode="area"),
    "cat": lambda m, f, x: m.cat([x, x], 1),
    "cat of items": lambda m, f, x: m.cat([x, x]),
    "cat of several": lambda m, f, x: m.cat([x, x.contiguous()], 1),
    "cat of one": lambda m, f, x: m.cat([x], 2),
    "cat of two dtypes": lambda m, f, x: m.cat([x, x.to(m.float64)], 1),
    "cat with an empty one": lambda m, f, x: m.cat([ones(m, x, 0), x], 1),
    "stack": lambda m, f, x: m.stack([x, x], 1),
    "stack behind": lambda m, f, x: m.stack([x, x], -1),
    "batch_norm": lambda m, f, x: f.batch_norm(x, None, None, training=True),
    "group_norm": lambda m, f, x: f.group_norm(x, 2),
    "rms_norm": lambda m, f, x: f.rms_norm(x, (8,)),
    "layer_norm": lambda m, f, x: f.layer_norm(x, (8,)),
    "instance_norm": lambda m, f, x: f.instance_norm(x),
    "local_response_norm": lambda m, f, x: f.local_response_norm(x, 2),
    "pixel_shuffle": lambda m, f, x: f.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda m, f, x: f.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda m, f, x: f.channel_shuffle(x, 2),
    "pad": lambda m, f, x: f.pad(x, (1, 1, 1, 1), value=3.0),
    "pad, reflect": lambda m, f, x: f.pad(x, (1, 1, 1, 1), mode="reflect"),
    "pad, replicate": lambda m, f, x: f.pad(x, (1, 1, 1, 1), mode="replicate"),
    "pad, circular": lambda m, f, x: f.pad(x, (1, 1, 1, 1), mode="circular"),
    "roll": lambda m, f, x: x.roll(1, 2),
    "relu": lambda m, f, x: f.relu(x),
    "softmax": lambda m, f, x: x.softmax(1),
}
VOLUMES: dict[str, Callable[[M, F, Any], Any]] = {
    "conv3d": lambda m, f, x: f.conv3d(x, ones(m, x, 3, 4, 3, 3, 3)),
    "conv3d, the weight": lambda m, f, x: f.conv3d(x.contiguous(), ordered(m, ones(m, x, 3, 4, 3, 3, 3))),
    "conv_transpose3d": lambda m, f, x: f.conv_transpose3d(x, ones(m, x, 4, 3, 3, 3, 3)),
    "max_pool3d": lambda m, f, x: f.max_pool3d(x, 2, return_indices=True),
    "avg_pool3d": lambda m, f, x: f.avg_pool3d(x, 2),
    "adaptive_avg_pool3d": lambda m, f, x: f.adaptive_avg_pool3d(x, 2),
    "adaptive_avg_pool3d, whole": lambda m, f, x: f.adaptive_avg_pool3d(x, 1),
    "adaptive_max_pool3d": lambda m, f, x: f.adaptive_max_pool3d(x, 2),
    "max_unpool3d": lambda m, f, x: f.max_unpool3d(*f.max_pool3d(x, 2, return_indices=True), 2),
    "nearest in 3d": lambda m, f, x: f.interpolate(x, scale_factor=2),
    "trilinear": lambda m, f, x: f.interpolate(x, scale_factor=2, mode="trilinear"),
    "area in 3d": lambda m, f, x: f.interpolate(x, (3, 3, 3), mode="area"),
    "cat of volumes": lambda m, f, x: m.cat([x, x], 1),
    "group_norm of volumes": lambda m, f, x: f.group_norm(x, 2),
    "pad in 3d": lambda m, f, x: f.pad(x, (1,) * 6),
    "pad in 3d, reflect": lambda m, f, x: f.pad(x, (1,) * 6, mode="reflect"),
    "pad in 3d, replicate": lambda m, f, x: f.pad(x, (1,) * 6, mode="replicate"),
    "pad in 3d, circular": lambda m, f, x: f.pad(x, (1,) * 6, mode="circular"),
}
RANDOM: dict[str, Callable[[M, F, Any], Any]] = {
    "dropout": lambda m, f, x: f.dropout(x, 0.5),
    "dropout2d": lambda m, f, x: f.dropout2d(x, 0.5),
    "alpha_dropout": lambda m, f, x: f.alpha_dropout(x, 0.5, True),
}
CASES = IMAGES | VOLUMES | RANDOM
#: Gradients of these are row-major, whereas in PyTorch they have the order of the input.
OTHER_GRADIENTS = {
    name
    for name in CASES
    if name.startswith(
        ("group_norm", "rms_norm", "max_unpool", "pixel_", "channel_", "pad, re", "pad in 3d, re")
    )
}
#: On devices PyTorch has kernels for row-major order alone.
ROWS_ON_DEVICES = {"group_norm", "group_norm of volumes", "rms_norm", "roll"}


def argument(m: M, name: str, dtype: str = "float32", device: str = "cpu", shape: Any = None) -> Any:
    shape = shape or (VOLUME if name in VOLUMES else IMAGE)
    values = np.arange(prod(shape), dtype=dtype).reshape(shape) / 97 - 1
    x = m.from_numpy(np.ascontiguousarray(values)).to(device)
    return ordered(m, x).requires_grad_()


def results(output: Any) -> list[Any]:
    return list(output) if isinstance(output, (tuple, list)) else [output]


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore")
def test_strides_are_pytorchs(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")

    def strides(m: M, f: F) -> list[Any]:
        x = argument(m, name, dtype)
        outputs = results(CASES[name](m, f, x))
        shown = [tuple(each.stride()) for each in outputs]
        if name not in OTHER_GRADIENTS:
            gradient = m.ones_like(outputs[0])
            (gradient,) = m.autograd.grad(outputs[0], x, gradient)
            shown.append(tuple(gradient.stride()))
        return shown

    assert strides(tensor, functional) == strides(torch, torch.nn.functional)


@pytest.mark.parity
@pytest.mark.parametrize("shape", [(2, 1, 6, 8), (1, 4, 6, 8), (2, 4, 1, 1), (1, 1, 6, 8), (2, 4, 1, 8)])
def test_sizes_of_one(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")

    def strides(m: M, f: F) -> list[Any]:
        x = argument(m, "", shape=shape)
        outputs = [
            f.conv2d(x, ones(m, x, 3, shape[1], 1, 1)),
            f.max_pool2d(x, 1),
            f.avg_pool2d(x, 1),
            f.interpolate(x, scale_factor=2),
            f.pad(x, (1, 1)),
            m.cat([x, x], 1),
        ]
        return [tuple(each.stride()) for each in outputs]

    assert strides(tensor, functional) == strides(torch, torch.nn.functional)


@pytest.mark.parametrize("name", {**IMAGES, **VOLUMES})
@pytest.mark.sampled(4)
def test_values_are_those_of_rows(name: str, device_name: str) -> None:
    x = argument(tensor, name, device=device_name)
    rows = x.detach().contiguous().requires_grad_()
    outputs, expected = (results(CASES[name](tensor, functional, each)) for each in (x, rows))
    for actual, other in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(array_of(actual), array_of(other), rtol=1e-6, atol=1e-6)
    gradients = []
    for output, source in ((outputs[0], x), (expected[0], rows)):
        weight = tensor.arange(output.numel(), device=device_name).view(output.shape).to(output.dtype)
        gradients.append(array_of(tensor.autograd.grad((output * weight).sum(), source)[0]))
    np.testing.assert_allclose(*gradients, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(4)
def test_devices_order_elements_as_the_cpu_does(name: str, device_name: str) -> None:
    outputs, expected = (
        results(CASES[name](tensor, functional, argument(tensor, name, device=device)))
        for device in (device_name, "cpu")
    )
    if name in ROWS_ON_DEVICES and device_name != "cpu":
        assert outputs[0].is_contiguous()
        return
    assert [each.stride() for each in outputs] == [each.stride() for each in expected]


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["bfloat16", "int64", "complex64", "complex128"])
@pytest.mark.parametrize("rank", [2, 3])
def test_dtypes_of_convolutions(rank: int, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    if (rank, dtype) == (3, "bfloat16") and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("where oneDNN has no bfloat16 for the processor, PyTorch's results are row-major")

    def strides(m: M, f: F) -> list[Any]:
        x = ordered(m, m.ones((2, 4, *[4] * rank), dtype=getattr(m, dtype)))
        weight = ones(m, x, 4, 4, *[3] * rank)
        names = f"conv{rank}d", f"conv_transpose{rank}d"
        return [tuple(getattr(f, name)(x, weight).stride()) for name in names]

    assert strides(tensor, functional) == strides(torch, torch.nn.functional)


def test_convolutions_of_float64_are_row_major_on_devices(device_name: str) -> None:
    x = argument(tensor, "conv2d", "float64", device_name)
    result = IMAGES["conv2d"](tensor, functional, x)
    assert result.is_contiguous() is (device_name != "cpu")


@pytest.mark.parametrize("name", ["conv2d with options", "max_pool2d", "avg_pool2d", "bilinear", "stack"])
def test_second_derivatives(name: str) -> None:
    x = argument(tensor, name, "float64", shape=(1, 4, 4, 6))

    def function(x: Any) -> Any:
        return results(CASES[name](tensor, functional, ordered(tensor, x)))[0]

    assert gradgradcheck(function, (x,))


def test_dropout_drops_the_same_elements_in_any_order(device_name: str) -> None:
    x = argument(tensor, "dropout", device=device_name)
    drawn = []
    for each in (x, x.contiguous(), x.detach().transpose(0, 1)[:, :1]):
        tensor.manual_seed(3)
        drawn.append(functional.dropout(each, 0.5))
    assert array_of(drawn[0]).tolist() == array_of(drawn[1]).tolist()
    assert drawn[2].stride() == tensor.empty_like(x.detach().transpose(0, 1)[:, :1]).stride()
