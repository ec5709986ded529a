"""Softmax, cross entropy and their gradients of rows of any length and start, against NumPy in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
from nvrtc_kernels import dtypes, losses, softmax
from tests.thinning import thinned

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Iterator

FLOATING = (dtypes.float32, dtypes.bfloat16, dtypes.float16, dtypes.float64)
#: Relative error by which a result is rounded, and that of what is computed before: float32 for half precision.
ROUNDING = {dtypes.float64: 2**-53, dtypes.float32: 2**-24, dtypes.float16: 2**-11, dtypes.bfloat16: 2**-8}
COMPUTE = {dtypes.float64: 1e-14, dtypes.float32: 2e-6, dtypes.float16: 3e-6, dtypes.bfloat16: 3e-6}
#: Least number whose relative error that is: half precision has fewer digits below.
SMALLEST = {dtypes.float64: 0.0, dtypes.float32: 1e-37, dtypes.float16: 2.0**-14, dtypes.bfloat16: 1e-37}


@pytest.fixture(params=["eager", "random"])
def scheduled_device(request: pytest.FixtureRequest) -> Iterator[drv.Device]:
    """A simulated device, with every access checked."""
    if request.config.getoption("--gpu"):
        yield drv.Device(0)
        return
    with drv.simulator.installed(check="full", schedule=request.param, seed=3):
        yield drv.Device(0)
        assert not list(drv.simulator.findings())


def logits(rows: int, n: int, dtype: dtypes.dtype) -> np.ndarray:
    return (4 * np.random.default_rng(n).standard_normal((rows, n))).astype(dtype.numpy)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def reference(x: np.ndarray, *, log: bool) -> np.ndarray:
    with np.errstate(all="ignore"):
        away = wide(x) - wide(x).max(1, keepdims=True)
        total = np.exp(away).sum(1, keepdims=True)
        return away - np.log(total) if log else np.exp(away) / total


def assert_near(result: np.ndarray, expected: np.ndarray, dtype: dtypes.dtype, scale: Any = 0) -> None:
    bound = ROUNDING[dtype] * np.abs(expected) + COMPUTE[dtype] * (np.abs(expected) + scale)
    bound += SMALLEST[dtype] * ROUNDING[dtype] * 2
    assert (np.abs(wide(result) - expected) <= bound).all()


def launched(device: drv.Device, run: Any, out: DeviceArray, *arguments: Any) -> np.ndarray:
    run(device.default_stream.handle, out.address, *(each.address for each in arguments))
    device.synchronize()
    return out.numpy_array()


@pytest.mark.parametrize("log", [False, True], ids=["softmax", "log_softmax"])
@pytest.mark.parametrize(
    ("n", "leads", "dtype"),
    thinned(
        [
            (*rows, dtype)
            for rows in ((1001, (0, 0)), (20011, (0, 0)), (32768, (0, 0)), (20011, (1, 2)))
            for dtype in FLOATING
        ],
        lambda n, leads, dtype: dtype is dtypes.float32 or (n, leads) == (20011, (0, 0)),
        lambda n, leads, dtype: f"{n} from {leads} {dtype.name}",
    ),
)
@pytest.mark.sampled(6)
def test_rows(
    scheduled_device: drv.Device, n: int, leads: tuple[int, int], log: bool, dtype: dtypes.dtype
) -> None:
    device, x = scheduled_device, logits(3, n, dtype)
    source, out = DeviceArray(device, x, lead=leads[0]), DeviceArray(device, np.zeros_like(x), lead=leads[1])
    run = softmax.plan(device, (3, n, 1), dtype, dtype, log=log)
    expected = reference(x, log=log)
    result = launched(device, run, out, source)
    assert_near(result, expected, dtype, scale=log)

    grad = np.random.default_rng(1).standard_normal((3, n)).astype(dtype.numpy)
    grads, results = DeviceArray(device, grad, lead=leads[1]), DeviceArray(device, result, lead=leads[0])
    run = softmax.plan_backward(device, (3, n, 1), dtype, dtype, dtype, log=log)
    g, y = wide(grad), wide(result)
    if log:
        total, size = g.sum(1, keepdims=True), np.exp(y) * np.abs(g).sum(1, keepdims=True)
        expected = g - np.exp(y) * total
    else:
        total, size = (g * y).sum(1, keepdims=True), y * np.abs(g * y).sum(1, keepdims=True)
        expected = (g - total) * y
    into = DeviceArray(device, np.zeros_like(grad), lead=leads[0])
    assert_near(launched(device, run, into, grads, results), expected, dtype, scale=size + np.abs(g * y))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16], ids=lambda each: each.name)
@pytest.mark.parametrize("n", [40, 20011])
def test_rows_of_infinities_and_nan(device: drv.Device, n: int, dtype: dtypes.dtype) -> None:
    x = logits(6, n, dtype)
    x[0] = -np.inf
    x[1, 1:] = -np.inf
    x[2, n // 2] = np.inf
    x[3, n - 1] = np.nan
    x[4, : n - 3] = -np.inf
    for log in (False, True):
        source, out = DeviceArray(device, x), DeviceArray(device, np.zeros_like(x))
        result = launched(device, softmax.plan(device, (6, n, 1), dtype, dtype, log=log), out, source)
        expected = reference(x, log=log)
        assert (np.isnan(wide(result)) == np.isnan(expected)).all()
        finite = np.isfinite(expected)
        assert (wide(result)[~finite & ~np.isnan(expected)] == -np.inf).all()
        assert_near(result[finite], expected[finite], dtype, scale=log)


@pytest.mark.parametrize(
    ("classes", "lead", "dtype"),
    thinned(
        [
            (*rows, dtype)
            for rows in ((3, 0), (10, 1), (1024, 0), (1025, 0), (5003, 1), (20011, 0))
            for dtype in FLOATING
        ],
        lambda classes, lead, dtype: dtype is dtypes.float32 or classes in (10, 20011),
        lambda classes, lead, dtype: f"{classes} from {lead} {dtype.name}",
    ),
)
@pytest.mark.parametrize("smooth", [False, True], ids=["plain", "smoothed"])
@pytest.mark.sampled(8)
def test_cross_entropy(
    scheduled_device: drv.Device, classes: int, lead: int, smooth: bool, dtype: dtypes.dtype
) -> None:
    device, lines, smoothing = scheduled_device, 5, 0.25 if smooth else 0.0
    x, compute = logits(lines, classes, dtype), losses.statistics_type(dtype)
    target = np.random.default_rng(0).integers(0, classes, lines)
    target[3] = -100
    sizes = losses.Classes(lines, classes, 1, -100)
    source, targets = DeviceArray(device, x, lead=lead), DeviceArray(device, target)
    loss, weighs = (DeviceArray(device, np.zeros(lines, compute.numpy)) for _ in range(2))
    cached = DeviceArray(device, np.zeros((2, lines), compute.numpy))
    run = losses.plan_cross_entropy(device, sizes, dtype, None, smooth=smooth)
    stream = device.default_stream.handle
    run(stream, smoothing, source.address, targets.address, 0, loss.address, weighs.address, cached.address)
    device.synchronize()
    logs = reference(x, log=True)
    at = np.where(target < 0, 0, target)
    plain = -np.take_along_axis(logs, at[:, None], 1)[:, 0]
    expected = (1 - smoothing) * plain - smoothing * logs.mean(1)
    expected[target < 0] = 0
    # Losses have the compute dtype, whatever the logits have.
    tolerance = 1e-13 if compute is dtypes.float64 else 2e-5
    np.testing.assert_allclose(loss.numpy_array(), expected, tolerance, tolerance)
    np.testing.assert_array_equal(weighs.numpy_array(), target >= 0)

    grad = DeviceArray(device, np.array([2.5], compute.numpy))
    into = DeviceArray(device, np.zeros_like(x), lead=1 - lead)
    run = losses.plan_cross_entropy_backward(device, sizes, compute, dtype, None, smooth=smooth, each=False)
    run(
        stream,
        smoothing,
        grad.address,
        0,
        source.address,
        targets.address,
        0,
        0,
        cached.address,
        into.address,
    )
    device.synchronize()
    gradient = np.exp(logs) - smoothing / classes
    gradient[np.arange(lines), at] -= 1 - smoothing
    gradient[target < 0] = 0
    scale = np.exp(logs) + smoothing / classes
    assert_near(into.numpy_array(), 2.5 * gradient, dtype, scale=2.5 * scale)


@pytest.mark.parametrize(
    ("lines", "classes", "inner"), [(13, 3, 1), (8201, 3, 1), (3, 300, 1), (301, 3, 7)], ids=str
)
def test_losses_summed_by_blocks(scheduled_device: drv.Device, lines: int, classes: int, inner: int) -> None:
    """Blocks add up the losses of their lines: a warp, a block or a thread of each line."""
    device, dtype, count = scheduled_device, dtypes.float32, lines * inner
    x = np.random.default_rng(1).standard_normal((lines, classes, inner)).astype(dtype.numpy)
    target = np.random.default_rng(0).integers(0, classes, (lines, 1, inner))
    target[2] = -100
    sizes = losses.Classes(lines, classes, inner, -100)
    parts = losses.loss_count(sizes, dtype, summed=True)
    assert parts < count or classes > 256
    source, targets = DeviceArray(device, x), DeviceArray(device, target)
    loss, weighs = (DeviceArray(device, np.full(parts, np.nan, np.float32)) for _ in range(2))
    cached = DeviceArray(device, np.zeros((2, count), np.float32))
    run = losses.plan_cross_entropy(device, sizes, dtype, None, smooth=False, summed=True)
    stream = device.default_stream.handle
    run(stream, 0.0, source.address, targets.address, 0, loss.address, weighs.address, cached.address)
    device.synchronize()
    exact = x.astype(np.float64)
    logs = exact - np.log(np.exp(exact).sum(1, keepdims=True))
    plain = -np.take_along_axis(logs, np.where(target < 0, 0, target), 1)
    expected = np.where(target < 0, 0, plain).sum()
    np.testing.assert_allclose(loss.numpy_array().astype(np.float64).sum(), expected, 1e-6)
    assert weighs.numpy_array().sum() == (target >= 0).sum()
    np.testing.assert_allclose(cached.numpy_array()[0], x.max(1).reshape(-1))
