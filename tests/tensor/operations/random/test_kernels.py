"""Random numbers of the kernels against those of the CPU, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
from nvrtc_kernels import dtypes, random
from nvrtc_kernels.layouts import contiguous_strides
from tensor.operations.random import distributions

SEED, CALL = 0x123456789ABCDEF0, 3
FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
CONTINUOUS = {
    "uniform": (-1.5, 3.0),
    "normal": (0.25, 2.0),
    "log_normal": (0.5, 1.5),
    "exponential": (0.7, 0.0),
    "cauchy": (0.1, 2.0),
    "geometric": (float(np.log1p(-0.2)), 0.0),
}


def filled(
    device: drv.Device,
    dtype: dtypes.dtype,
    shape: tuple[int, ...],
    distribution: str,
    first: float,
    second: float = 0,
    strides: tuple[int, ...] | None = None,
    offset: int = 0,
    elements: int | None = None,
) -> np.ndarray[Any, Any]:
    """All memory around the target, which starts as bytes of 0xCC."""
    elements = int(np.prod(shape)) + offset if elements is None else elements
    host = np.full(elements * dtype.itemsize, 0xCC, np.uint8)
    memory = drv.DeviceMemory(max(host.nbytes, 1), device)
    stream = device.default_stream
    drv.copy_to_device(memory, host)
    run = random.plan(device, shape, contiguous_strides(shape) if strides is None else strides, dtype)
    address = memory.address + offset * dtype.itemsize
    run(stream.handle, address, distribution, SEED, CALL, first, second)
    stream.synchronize()
    drv.copy_to_host(host, memory)
    return host.view(dtype.numpy)


def assert_same_bits(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    assert found.dtype == expected.dtype
    dtype = f"u{found.dtype.itemsize}"
    np.testing.assert_array_equal(found.view(dtype), expected.view(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize("distribution", CONTINUOUS)
@pytest.mark.sampled(4)
def test_continuous(device: drv.Device, distribution: str, dtype: dtypes.dtype) -> None:
    first, second = CONTINUOUS[distribution]
    result = filled(device, dtype, (5003,), distribution, first, second)
    expected = distributions.numbers(distribution, dtype.numpy, 5003, SEED, CALL, first, second)
    assert_same_bits(result, expected)
    assert len(np.unique(expected.astype(np.float64))) > 10


@pytest.mark.parametrize("dtype", dtypes.ALL[:10], ids=repr)
@pytest.mark.parametrize(("extent", "low"), [(7, -3), (1 << 32, 5), ((1 << 33) + 1, -9), (0, -(1 << 63))])
def test_integers(device: drv.Device, dtype: dtypes.dtype, extent: int, low: int) -> None:
    if dtype in (dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16) and extent != 7:
        pytest.skip("the range does not fit the type")
    if dtype is dtypes.float16 and extent != 7:
        pytest.skip("the range does not fit the type")
    result = filled(device, dtype, (517,), "random", extent, low)
    assert_same_bits(result, distributions.numbers("random", dtype.numpy, 517, SEED, CALL, extent, low))


@pytest.mark.parametrize("dtype", dtypes.ALL[:10], ids=repr)
def test_bernoulli(device: drv.Device, dtype: dtypes.dtype) -> None:
    limit = distributions.threshold(0.3)
    result = filled(device, dtype, (1001,), "bernoulli", limit)
    assert_same_bits(result, distributions.numbers("bernoulli", dtype.numpy, 1001, SEED, CALL, limit))
    assert 200 < result.astype(np.float64).sum() < 400


@pytest.mark.parametrize("dtype", (dtypes.uint8, dtypes.int64), ids=repr)
def test_geometric_integers(device: drv.Device, dtype: dtypes.dtype) -> None:
    first = float(np.log1p(-1e-3))
    result = filled(device, dtype, (1001,), "geometric", first)
    assert_same_bits(result, distributions.numbers("geometric", dtype.numpy, 1001, SEED, CALL, first))


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", (dtypes.float16, dtypes.float32), ids=repr)
def test_unaligned_targets_leave_their_neighbours(
    device: drv.Device, dtype: dtypes.dtype, offset: int
) -> None:
    result = filled(device, dtype, (30,), "normal", 0.0, 1.0, offset=offset, elements=40)
    assert_same_bits(
        result[offset : offset + 30],
        distributions.numbers("normal", dtype.numpy, 30, SEED, CALL, 0.0, 1.0),
    )
    assert (np.concatenate([result[:offset], result[offset + 30 :]]).view(np.uint8) == 0xCC).all()


def test_numbers_do_not_depend_on_strides(device: drv.Device) -> None:
    shape, strides = (4, 5, 3), (40, 1, 10)
    result = filled(device, dtypes.float32, shape, "uniform", 0.0, 1.0, strides, offset=2, elements=160)
    view = np.lib.stride_tricks.as_strided(result[2:], shape, tuple(4 * s for s in strides))
    expected = distributions.numbers("uniform", np.dtype(np.float32), 60, SEED, CALL, 0.0, 1.0)
    assert_same_bits(view.ravel(), expected)
    assert (result.view(np.uint32) == 0xCCCCCCCC).sum() == 100


def test_nothing_to_fill(device: drv.Device) -> None:
    run = random.plan(device, (3, 0), (0, 1), dtypes.float32)
    run(device.default_stream.handle, 0, "normal", 1, 1, 0.0, 1.0)
    device.synchronize()


@pytest.mark.parametrize("probability_dtype", FLOATS, ids=repr)
def test_bernoulli_of_broadcast_probabilities(device: drv.Device, probability_dtype: dtypes.dtype) -> None:
    p = np.linspace(0, 1, 9).astype(probability_dtype.numpy)
    argument, out = drv.DeviceMemory(p.nbytes, device), drv.DeviceMemory(4 * 9 * 50, device)
    drv.copy_to_device(argument, p.view(np.uint8))
    random.fill_bernoulli(
        device, device.default_stream.handle, out.address, (50, 9), (9, 1), dtypes.float32,
        argument.address, (9,), (1,), probability_dtype, SEED, CALL,
    )  # fmt: skip
    device.synchronize()
    result = np.empty((50, 9), np.float32)
    drv.copy_to_host(result, out)
    limits = np.broadcast_to(distributions.threshold(p), (50, 9)).ravel()
    expected = distributions.numbers("bernoulli", result.dtype, 450, SEED, CALL, limits)
    assert_same_bits(result.ravel(), expected)
    assert result[:, 0].sum() == 0
    assert result[:, -1].sum() == 50


@pytest.mark.parametrize("p", [-0.1, 1.1, np.nan])
def test_a_probability_outside_its_range_fails(device: drv.Device, p: float) -> None:
    if not device.runtime.simulated:
        pytest.skip("a failed assertion ends a GPU's context")
    argument, out = drv.DeviceMemory(4, device), drv.DeviceMemory(4, device)
    drv.copy_to_device(argument, np.float32([p]).view(np.uint8))
    with pytest.raises(drv.DeviceAssertError):
        random.fill_bernoulli(
            device, device.default_stream.handle, out.address, (1,), (1,), dtypes.float32,
            argument.address, (1,), (1,), dtypes.float32, SEED, CALL,
        )  # fmt: skip
        device.synchronize()


def test_streams_do_not_matter(device: drv.Device) -> None:
    streams = [drv.Stream(device) for _ in range(3)]
    memory = [drv.DeviceMemory(4000, device) for _ in streams]
    run = random.plan(device, (1000,), (1,), dtypes.float32)
    for call, (stream, block) in enumerate(zip(streams, memory, strict=True)):
        run(stream.handle, block.address, "normal", SEED, call, 0.0, 1.0)
    device.synchronize()
    for call, block in enumerate(memory):
        result = np.empty(1000, np.float32)
        drv.copy_to_host(result, block)
        assert_same_bits(result, distributions.numbers("normal", result.dtype, 1000, SEED, call, 0.0, 1.0))
