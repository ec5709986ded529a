"""Conversions of half precision on architectures that have instructions for them, and on those that have not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

import drv
from nvrtc_kernels import accumulation, dtypes, indexing, pointwise, selection

from .device_arrays import DeviceArray, run

if TYPE_CHECKING:
    from collections.abc import Iterator

HALF = (dtypes.float16, dtypes.bfloat16)
#: Bits of the fraction, and the exponent of the smallest normal number.
FORMATS = {dtypes.float16: (10, -14), dtypes.bfloat16: (7, -126)}

pytestmark = pytest.mark.simulator_only


@pytest.fixture(params=[7.5, 8.0, 9.0])
def device(request: pytest.FixtureRequest) -> Iterator[drv.Device]:
    """A simulated device: before instructions for bfloat16, before those for pairs of them, and with all."""
    with drv.simulator.installed(check="full", capability=request.param):
        yield drv.Device(0)
        assert not list(drv.simulator.findings())


def converted(device: drv.Device, array: np.ndarray, dtype: dtypes.dtype) -> np.ndarray:
    source, out = DeviceArray(device, array), DeviceArray(device, np.zeros(array.shape, dtype.numpy))
    plan = pointwise.plan_copy(device, out.shape, out.operand, source.operand)
    plan(device.default_stream.handle, out.address, source.address)
    device.synchronize()
    return out.numpy_array()


def rounded_once(array: np.ndarray, dtype: dtypes.dtype) -> np.ndarray:
    """``array`` rounded to multiples of the last bit that a number of its size has in ``dtype``, ties to even."""
    fraction, least = FORMATS[dtype]
    exponents = np.maximum(np.frexp(array)[1] - 1, least)
    unit = np.ldexp(1.0, exponents - fraction)
    with np.errstate(over="ignore"):
        return (np.rint(array / unit) * unit).astype(dtype.numpy)


def bits(array: np.ndarray) -> np.ndarray:
    """The bits of elements, the same for every NaN."""
    return np.where(np.isnan(array.astype(np.float32)), 0x7FFF, array.view(np.uint16))


@pytest.mark.parametrize("dtype", HALF, ids=lambda each: each.name)
def test_every_number_becomes_float(device: drv.Device, dtype: dtypes.dtype) -> None:
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    result = converted(device, numbers, dtypes.float32)
    assert np.array_equal(result, numbers.astype(np.float32), equal_nan=True)
    assert (np.signbit(result) == np.signbit(numbers.astype(np.float32)))[~np.isnan(result)].all()


@pytest.mark.parametrize("dtype", HALF, ids=lambda each: each.name)
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_floats_are_rounded_once_with_ties_to_even(
    device: drv.Device, dtype: dtypes.dtype, source: type[np.floating]
) -> None:
    exact = np.arange(int(np.array(np.inf, dtype.numpy).view(np.uint16)), dtype=np.uint16)
    exact = exact.view(dtype.numpy).astype(source)
    middles = exact[1:] / 2 + exact[:-1] / 2
    # Whose first rounding, to float, would make them middles.
    near = np.concatenate([middles * (1 + each) for each in (2.0**-40, -(2.0**-40))]).astype(source)
    special = np.array(
        [0.0, np.inf, np.nan, np.finfo(source).max, np.finfo(source).tiny, 65520.0, 65519.99], source
    )
    numbers = np.concatenate([exact, middles, near, special])
    numbers = np.concatenate([numbers, -numbers])
    with np.errstate(over="ignore"):
        expected = numbers.astype(dtype.numpy)
    ordinary = np.isfinite(numbers)
    expected[ordinary] = rounded_once(numbers[ordinary].astype(np.float64), dtype)
    assert (bits(converted(device, numbers, dtype)) == bits(expected)).all()


@pytest.mark.parametrize("dtype", HALF, ids=lambda each: each.name)
@pytest.mark.parametrize("largest", [True, False])
def test_first_of_rows_with_ties_and_nan(device: drv.Device, dtype: dtypes.dtype, largest: bool) -> None:
    rng = np.random.default_rng(3)
    array = rng.integers(-20, 20, (3, 512)).astype(dtype.numpy)
    array[1, ::7] = np.nan
    array[2, ::5] = -0.0
    plan = selection.topk(device, 3, 512, 30, dtype, largest=largest)
    values = DeviceArray(device, np.zeros((3, 30), dtype.numpy))
    indices = DeviceArray(device, np.zeros((3, 30), np.int64))
    run(device, plan, values, indices, DeviceArray(device, array))
    keys = np.where(np.isnan(array.astype(np.float64)), np.inf, array.astype(np.float64))
    order = np.argsort(-keys if largest else keys, axis=-1, kind="stable")[:, :30]
    assert (indices.numpy_array() == order).all()
    assert (
        values.numpy_array().view(np.uint16) == np.take_along_axis(array, order, -1).view(np.uint16)
    ).all()


@pytest.mark.parametrize("dtype", HALF, ids=lambda each: each.name)
def test_sums_where_threads_meet(device: drv.Device, dtype: dtypes.dtype) -> None:
    """Sums of small integers are exact in any order; a zero stays as it is where its own sign is added."""
    rows = np.array([3, 0, -1, 3, 3, -5, 1, 3, 0, 2], np.int32)
    values = np.arange(10 * 33).reshape(10, 33) % 5 - 2
    array, added = np.ones((5, 33), dtype.numpy), values.astype(dtype.numpy)
    array[2], added[9] = -0.0, -0.0
    expected = array.astype(np.float64)
    np.add.at(expected, rows, added.astype(np.float64))
    target, source, index = (DeviceArray(device, each) for each in (array, added, rows))
    places = indexing.advanced(target.layout, [index.layout])
    run(device, accumulation.plan(device, "index_put", "sum", places, source.operand), target, source, index)
    assert (bits(target.numpy_array()) == bits(expected.astype(dtype.numpy))).all()


def test_integers_of_eight_bytes_go_through_float(device: drv.Device) -> None:
    # The third is more than halfway between two numbers of bfloat16, and as float it is halfway.
    numbers = np.array([0, -1, (1 << 32) + (1 << 24) + 1, 2**60, -(2**63)], np.int64)
    expected = numbers.astype(np.float32).astype(ml_dtypes.bfloat16)
    assert (bits(converted(device, numbers, dtypes.bfloat16)) == bits(expected)).all()
