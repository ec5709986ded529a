"""Normalised rows, and their gradients, of weight and of bias in one pass, against NumPy in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

import drv
from nvrtc_kernels import dtypes, normalization

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Relative error by which a result is rounded.
ROUNDING = {dtypes.float64: 2**-53, dtypes.float32: 2**-24, dtypes.float16: 2**-11, dtypes.bfloat16: 2**-8}


@pytest.fixture(params=["eager", "random"])
def scheduled_device(request: pytest.FixtureRequest) -> Iterator[drv.Device]:
    """A simulated device, with every access checked."""
    if request.config.getoption("--gpu"):
        yield drv.Device(0)
        return
    with drv.simulator.installed(check="full", schedule=request.param, seed=5):
        yield drv.Device(0)
        assert not list(drv.simulator.findings())


@pytest.mark.parametrize("center", [True, False], ids=["layer norm", "rms norm"])
@pytest.mark.parametrize("dtype", ROUNDING, ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("shape", "lead", "weighted"),
    [
        ((150, 40), 0, True),
        ((70, 384), 0, False),
        ((33, 1000), 0, True),
        ((30, 1023), 1, True),
        ((9, 4096), 0, True),
    ],
)
@pytest.mark.sampled(12)
def test_gradients_in_one_pass(
    scheduled_device: drv.Device,
    shape: tuple[int, int],
    lead: int,
    weighted: bool,
    dtype: dtypes.dtype,
    center: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Few rows for each of few teams.
    monkeypatch.setattr(normalization, "_MULTIPROCESSORS", 1)
    monkeypatch.setattr(normalization, "_ROWS_OF_TEAM", 1)
    device, (rows, n) = scheduled_device, shape
    rng = np.random.default_rng(n)
    grad, x, weight = (rng.standard_normal(size).astype(dtype.numpy) for size in (shape, shape, n))
    statistics = normalization.statistics_type(dtype)
    wide = x.astype(np.float64)
    mean = wide.mean(1) if center else np.zeros(rows)
    scale = 1 / np.sqrt(((wide - mean[:, None]) ** 2).mean(1) + 1e-5)
    mean, scale = mean.astype(statistics.numpy), scale.astype(statistics.numpy)
    plan = normalization.plan_gradients(
        device, normalization.Rows(rows, n, center=center), dtype, dtype, dtype if weighted else None, dtype
    )
    assert plan is not None
    arrays = [DeviceArray(device, each, lead=lead) for each in (grad, x, weight, mean, scale)]
    addresses = [each.address for each in arrays]
    if not weighted:
        addresses[2] = 0
    if not center:
        addresses[3] = 0
    out = DeviceArray(device, np.zeros(shape, dtype.numpy), lead=lead)
    sums = [DeviceArray(device, np.zeros(n, dtype.numpy)) for _ in range(1 + center)]
    with drv.DeviceMemory(plan.scratch_bytes, device) as scratch:
        stream = device.default_stream.handle
        plan.run(stream, scratch.address, *addresses, out.address, *(each.address for each in sums))
        device.synchronize()

    g, by = grad.astype(np.float64), scale.astype(np.float64)[:, None]
    normal = (wide - mean.astype(np.float64)[:, None]) * by
    factor = g * weight.astype(np.float64) if weighted else g
    total = factor.mean(1, keepdims=True) if center else 0
    expected = by * (factor - total - normal * (factor * normal).mean(1, keepdims=True))
    compute = 1e-13 if statistics is dtypes.float64 else 3e-6
    size = by * (np.abs(factor) + np.abs(factor).mean(1, keepdims=True) * (1 + np.abs(normal)))
    bound = ROUNDING[dtype] * np.abs(expected) + compute * size
    assert (np.abs(out.numpy_array().astype(np.float64) - expected) <= bound).all()
    for result, terms in zip(sums, (g * normal, g), strict=False):
        exact = terms.sum(0)
        bound = ROUNDING[dtype] * np.abs(exact) + compute * np.abs(terms).sum(0)
        assert (np.abs(result.numpy_array().astype(np.float64) - exact) <= bound).all()


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(("channels", "inner"), [(5, 3001), (3, 8192), (20_001, 1)])
@pytest.mark.sampled(12)
def test_long_rows_against_float64(
    scheduled_device: drv.Device, dtype: type, center: bool, channels: int, inner: int
) -> None:
    """Channels that end within packs, rows that begin anywhere, and a mean that is large against the deviation."""
    device, rng = scheduled_device, np.random.default_rng(inner)
    rows = normalization.Rows(4, channels, inner, groups=1 if inner == 1 else 2, center=center)
    x = (rng.standard_normal((4, rows.n)) + (50 if dtype is not ml_dtypes.bfloat16 else 2)).astype(dtype)
    weight, bias = (rng.standard_normal(rows.groups * channels).astype(dtype) for _ in range(2))
    element = dtypes.from_numpy(np.dtype(dtype))
    statistics = normalization.statistics_type(element).numpy
    inputs = [DeviceArray(device, each) for each in (x, weight, bias)]
    out = DeviceArray(device, np.zeros_like(x))
    mean, scale = (DeviceArray(device, np.zeros(4, statistics)) for _ in range(2))
    run = normalization.plan(device, rows, element, element)
    addresses = [each.address for each in (*inputs, out, mean, scale)]
    run(device.default_stream.handle, 1e-5, *addresses)
    device.synchronize()

    exact = x.astype(np.float64)
    average = exact.mean(1, keepdims=True) if center else np.zeros((4, 1))
    by = 1 / np.sqrt(((exact - average) ** 2).mean(1, keepdims=True) + 1e-5)
    per_channel = [
        np.repeat(each.astype(np.float64).reshape(rows.groups, channels), inner, 1)[
            np.arange(4) % rows.groups
        ]
        for each in (weight, bias)
    ]
    expected = (exact - average) * by * per_channel[0] + per_channel[1]
    error = {np.float32: 2e-5, np.float64: 1e-12}.get(dtype, 2**-7)
    np.testing.assert_allclose(out.numpy_array().astype(np.float64), expected, rtol=error, atol=error)
    np.testing.assert_allclose(scale.numpy_array(), by[:, 0], rtol=1e-5)
    if center:
        np.testing.assert_allclose(mean.numpy_array(), average[:, 0], rtol=1e-5)


def test_where_rows_are_too_few_or_too_long() -> None:
    def plan(rows: int, n: int, **options: int) -> object:
        return normalization.plan_gradients(
            None, normalization.Rows(rows, n, **options), dtypes.float32, dtypes.float32, None, dtypes.float32
        )  # type: ignore[arg-type]

    assert plan(100, 1024) is None
    assert plan(1 << 16, 1 << 15) is None
    assert plan(1 << 16, 64, inner=2) is None
    assert plan(1 << 16, 64, groups=2) is None
