"""Convolutions of 3 x 3 windows on the CPU by Winograd's transforms, with native loops and with NumPy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tensor
from drv.host import machine_code
from drv.host.threads import set_thread_count, thread_count
from nn import functional
from nvrtc_kernels import host_loops
from nvrtc_kernels.convolution import Geometry, Windows
from nvrtc_kernels.host_loops.transposition import copy_transposed
from tensor.core.devices.state import cpu
from tensor.operations.convolution import convolution_on_host, winograd_on_host

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Items, channels, filters, height, width and padding; the last is cut into rows of tiles.
_SHAPES = {
    "even": (4, 32, 48, 16, 16, 1),
    "odd": (7, 24, 31, 9, 11, 1),
    "without padding": (9, 25, 24, 8, 7, 0),
    "more padding": (4, 24, 24, 5, 12, 2),
    "small": (64, 40, 32, 2, 1, 1),
    "large": (1, 64, 64, 90, 130, 1),
}


@pytest.fixture(params=["auto", "off"])
def loops(request: pytest.FixtureRequest) -> Iterator[str]:
    """Native loops, and NumPy alone."""
    if request.param != "off" and not machine_code.available():
        pytest.skip("llvmlite is not installed")
    cpu.plans.clear()
    former = host_loops.mode()
    host_loops.set_mode(request.param)
    yield request.param
    host_loops.set_mode(former)
    cpu.plans.clear()


def _random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _gradients(x: Any, weight: Any, grad: Any, padding: int) -> list[Any]:
    """The convolution, and the gradients of both operands, as float64."""
    operands = [tensor.from_numpy(each).requires_grad_() for each in (x, weight)]
    result = functional.conv2d(*operands, padding=padding)
    result.backward(tensor.from_numpy(grad))
    return [each.detach().double().numpy() for each in (result, *(each.grad for each in operands))]


@pytest.mark.parametrize("shape", _SHAPES.values(), ids=_SHAPES)
def test_convolutions_and_gradients_are_those_of_float64(
    loops: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    items, channels, filters, height, width, padding = shape
    windows = Windows((1, height, width), (1, 3, 3), (1, 1, 1), (0, padding, padding), (1, 1, 1))
    assert winograd_on_host.fits(Geometry(windows, items, channels, filters, 1), np.dtype(np.float32))
    x, weight = _random(items, channels, height, width), _random(filters, channels, 3, 3)
    grad = _random(items, filters, *windows.out[1:])
    actual = _gradients(x, weight, grad, padding)
    # float64 has products of copied windows.
    exact = _gradients(x.astype(np.float64), weight.astype(np.float64), grad.astype(np.float64), padding)
    with monkeypatch.context() as patch:
        patch.setattr(convolution_on_host.winograd, "fits", lambda *_: False)
        cpu.plans.clear()
        plain = _gradients(x, weight, grad, padding)
    cpu.plans.clear()
    for ours, without, expected in zip(actual, plain, exact, strict=True):
        scale = np.abs(expected).max()
        # As near as plain sums are, to a small factor.
        assert np.abs(ours - expected).max() <= max(4 * np.abs(without - expected).max(), 2e-7 * scale)
        assert np.abs(ours - expected).max() <= 3e-6 * scale


def test_small_whole_numbers_are_exact(loops: str) -> None:
    random = np.random.default_rng(0)
    x, weight, grad = (
        random.integers(-8, 9, shape).astype(np.float32)
        for shape in ((4, 32, 13, 10), (24, 32, 3, 3), (4, 24, 13, 10))
    )
    actual = _gradients(x, weight, grad, 1)
    exact = _gradients(x.astype(np.float64), weight.astype(np.float64), grad.astype(np.float64), 1)
    for ours, expected in zip(actual, exact, strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_results_do_not_depend_on_threads(loops: str) -> None:
    x, weight, grad = _random(8, 32, 40, 40), _random(32, 32, 3, 3), _random(8, 32, 40, 40)
    before = thread_count()
    results = []
    try:
        for count in (1, 3):
            set_thread_count(count)
            results.append(_gradients(x, weight, grad, 1))
    finally:
        set_thread_count(before)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_infinite_element_reaches_the_results_that_see_it_and_no_others(loops: str) -> None:
    x, weight = _random(1, 24, 20, 20), _random(24, 24, 3, 3)
    expected = functional.conv2d(tensor.from_numpy(x), tensor.from_numpy(weight), padding=1).numpy()
    x[0, 3, 6, 9] = np.inf
    actual = functional.conv2d(tensor.from_numpy(x), tensor.from_numpy(weight), padding=1).numpy()
    seen = np.zeros((20, 20), bool)
    seen[5:8, 8:11] = True
    assert not np.isfinite(actual[..., seen]).any()
    np.testing.assert_array_equal(actual[..., ~seen], expected[..., ~seen])


@pytest.mark.parametrize("shape", [(3, 5, 64, 32), (2, 7, 61, 35), (1, 1, 3, 9000), (1, 1, 9000, 3)])
@pytest.mark.parametrize("far", [False, True], ids=["source", "result"])
def test_transposed_copies(loops: str, shape: tuple[int, ...], far: bool) -> None:
    items, planes, rows, columns = shape
    source, out = _random(*shape), np.zeros((items, planes, columns, rows), np.float32)
    # Rows that are far apart, as those of channels are.
    if far:
        out = np.zeros((items, columns, planes, rows), np.float32).swapaxes(1, 2)
    else:
        source = _random(items, rows, planes, columns).swapaxes(1, 2)
    copy_transposed(source, out)
    np.testing.assert_array_equal(out, source.swapaxes(2, 3))
