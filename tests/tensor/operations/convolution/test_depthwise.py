"""Convolutions with filters for each channel, in strips: against float64, at odd addresses, every time the same."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import drv
import tensor
from nvrtc_kernels import depthwise
from nvrtc_kernels.convolution import Windows
from tensor.operations.convolution import convolution
from tests.thinning import thinned

#: Relative to the largest element.
ERRORS = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-12}
#: Items, channels, height, width, kernel, filters of a channel, options.
CASES: dict[str, tuple[tuple[int, ...], tuple[int, int], int, dict[str, Any]]] = {
    "3x3": ((2, 3, 9, 16), (3, 3), 1, {"padding": 1}),
    "stride": ((2, 3, 9, 16), (3, 3), 1, {"stride": 2, "padding": 1}),
    "odd width": ((1, 4, 7, 7), (5, 3), 1, {"padding": (2, 1)}),
    "filters": ((2, 2, 14, 12), (3, 3), 2, {}),
    "dilation": ((1, 2, 16, 16), (3, 2), 1, {"padding": (2, 1), "dilation": (2, 3)}),
    "large": ((1, 2, 12, 8), (7, 7), 1, {"padding": 3}),
    "more padding than kernel": ((1, 2, 8, 8), (3, 3), 1, {"padding": 3}),
    "single elements": ((1, 3, 6, 8), (1, 1), 1, {"padding": 1}),
    "steps of three": ((1, 2, 12, 24), (2, 3), 3, {"stride": (1, 3), "padding": (0, 1)}),
}


def _check(name: str, dtype: str, shift: int = 0) -> list[tensor.Tensor]:
    shape, kernel, filters, options = CASES[name]
    channels, generator = shape[1], tensor.Generator().manual_seed(5)
    sizes: list[tuple[int, ...]] = [shape, (channels * filters, 1, *kernel), (channels * filters,)]
    operands = [tensor.randn(size, generator=generator).to(getattr(tensor, dtype)) for size in sizes]
    exact = [each.double().requires_grad_() for each in operands]
    expected = convolution.conv2d(*exact, groups=channels, **options)
    memory = tensor.empty(operands[0].numel() + shift, dtype=operands[0].dtype, device="cuda")
    image = memory[shift:].view(shape).copy_(operands[0])
    on_device = [each.requires_grad_() for each in (image, operands[1].cuda(), operands[2].cuda())]
    result = convolution.conv2d(*on_device, groups=channels, **options)
    grad = tensor.randn(result.shape, generator=generator).to(result.dtype)
    computed = [result, *tensor.autograd.grad(result, on_device, grad.cuda())]
    references = [expected, *tensor.autograd.grad(expected, exact, grad.double())]
    for one, other in zip(computed, references, strict=True):
        largest = float(other.detach().abs().max())
        np.testing.assert_allclose(
            one.detach().cpu().double().numpy(), other.detach().numpy(), rtol=0, atol=ERRORS[dtype] * largest
        )
    return computed


def _windows(name: str) -> tuple[Windows, int, int, int]:
    (items, channels, *size), kernel, filters, options = CASES[name]

    def pair(option: str, default: int) -> tuple[int, int]:
        value = options.get(option, default)
        return value if isinstance(value, tuple) else (value, value)

    windows = Windows(
        (1, size[0], size[1]),
        (1, *kernel),
        (1, *pair("stride", 1)),
        (0, *pair("padding", 0)),
        (1, *pair("dilation", 1)),
    )
    return windows, items, channels, filters


@pytest.mark.parametrize(
    ("name", "dtype"),
    thinned(
        product(CASES, ERRORS),
        lambda name, dtype: dtype == ("bfloat16" if len(name) % 2 else "float32"),
        lambda *each: ", ".join(each),
    ),
)
def test_results_and_gradients(name: str, dtype: str) -> None:
    windows, items, channels, filters = _windows(name)
    for part in ("forward", "weight"):
        assert depthwise.takes(part, windows, items, channels, filters, getattr(tensor, dtype))
    drv.simulator.install(check="full", schedule="random")
    first, second = _check(name, dtype), _check(name, dtype)
    assert all(tensor.equal(one, other) for one, other in zip(first, second, strict=True))
    assert not drv.simulator.findings()


def test_addresses_between_words() -> None:
    drv.simulator.install(check="full", schedule="random")
    for shift in (1, 2):
        _check("3x3", "float32", shift)
    assert not drv.simulator.findings()


def test_what_goes_another_way() -> None:
    windows, items, channels, _ = _windows("3x3")
    assert not depthwise.takes("forward", windows, items, channels, 1, tensor.complex64)
    assert not depthwise.takes("input", windows, items, channels, 2, tensor.float32)
    assert not depthwise.takes("input", _windows("stride")[0], items, channels, 1, tensor.float32)
    volume = Windows((4, 9, 16), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1))
    assert not depthwise.takes("forward", volume, items, channels, 1, tensor.float32)
