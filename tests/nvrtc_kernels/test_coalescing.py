"""Many arrays copied and summed in one launch, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import drv
from nvrtc_kernels import coalescing, dtypes

from .device_arrays import DeviceArray

REAL = [each for each in dtypes.ALL if not each.is_complex]


def summed(
    device: drv.Device, arrays: list[list[np.ndarray]], sources: int, lead: int = 0
) -> list[np.ndarray]:
    """``arrays`` has for each result its sources."""
    dtype = dtypes.from_numpy(arrays[0][0].dtype)
    result = [DeviceArray(device, np.zeros_like(each[0]), lead=lead) for each in arrays]
    argument = [[DeviceArray(device, x, lead=lead) for x in each] for each in arrays]
    addresses = [x.address for to, each in zip(result, argument, strict=True) for x in (to, *each)]
    run = coalescing.plan(device, dtype, sources)
    run(device.default_stream.handle, addresses, [each[0].size for each in arrays])
    device.synchronize()
    return [each.numpy_array() for each in result]


@pytest.mark.parametrize("kind", REAL, ids=lambda each: each.name)
@pytest.mark.parametrize("sources", [1, 3])
@pytest.mark.sampled(4)
def test_every_type(device: drv.Device, kind: dtypes.dtype, sources: int) -> None:
    rng = np.random.default_rng(0)
    shapes = [5, 0, 700, 1]
    arrays = [[rng.integers(0, 40, n).astype(kind.numpy) for _ in range(sources)] for n in shapes]
    for result, each in zip(summed(device, arrays, sources), arrays, strict=True):
        expected = np.sum(np.stack(each).astype(np.float64), 0).astype(kind.numpy)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("lead", [0, 1])
def test_full_chunks_and_more_tensors_than_a_launch_takes(device: drv.Device, lead: int) -> None:
    rng = np.random.default_rng(1)
    sizes = [4096, 4099, *[3] * 250, 8192]
    arrays = [[rng.standard_normal(n).astype(np.float32) for _ in range(2)] for n in sizes]
    for result, (a, b) in zip(summed(device, arrays, 2, lead), arrays, strict=True):
        np.testing.assert_array_equal(result, a + b)


def test_half_precision_is_rounded_once(device: drv.Device) -> None:
    parts = [np.array([2048], np.float16), np.array([1], np.float16), np.array([1], np.float16)]
    assert summed(device, [parts], 3)[0] == 2050


def test_bits_are_copied(device: drv.Device) -> None:
    odd = np.array([0x7C01, 0xFE12, 0x8000], np.uint16).view(np.float16)
    (result,) = summed(device, [[odd]], 1)
    np.testing.assert_array_equal(result.view(np.uint16), odd.view(np.uint16))


def test_number_of_sources(device: drv.Device) -> None:
    for sources in (0, coalescing.MAX_SOURCES + 1):
        with pytest.raises(ValueError, match=f"1 to 16 sources, not {sources}"):
            coalescing.plan(device, dtypes.float32, sources)


@pytest.mark.parametrize("lead", [0, 1])
@pytest.mark.parametrize(
    ("target", "source"),
    [
        (dtypes.bfloat16, dtypes.float32),
        (dtypes.float16, dtypes.float32),
        (dtypes.float32, dtypes.bfloat16),
        (dtypes.float32, dtypes.float16),
        (dtypes.float64, dtypes.float32),
    ],
    ids=lambda each: each.name,
)
@pytest.mark.sampled(4)
def test_casts(device: drv.Device, target: dtypes.dtype, source: dtypes.dtype, lead: int) -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(n).astype(source.numpy) for n in (8192, 0, 1, 8195, *[5] * 200)]
    sources = [DeviceArray(device, x, lead=lead) for x in arrays]
    targets = [DeviceArray(device, np.zeros(x.size, target.numpy), lead=lead) for x in arrays]
    addresses = [x.address for pair in zip(targets, sources, strict=True) for x in pair]
    run = coalescing.plan_casts(device, target, source)
    run(device.default_stream.handle, addresses, [x.size for x in arrays])
    device.synchronize()
    for result, x in zip(targets, arrays, strict=True):
        np.testing.assert_array_equal(result.numpy_array(), x.astype(target.numpy))
