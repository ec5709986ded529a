"""Places in sorted sequences, counts in bins, and runs of equal elements, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drv
from nvrtc_kernels import counting, dtypes, search, unique

from .device_arrays import DeviceArray, run

REAL = [each for each in dtypes.ALL if not each.is_complex]
INTEGERS = [each for each in REAL if each.category is dtypes.Category.INTEGER]


def places(
    device: drv.Device,
    sequence: np.ndarray,
    values: np.ndarray,
    sorter: np.ndarray | None = None,
    **options: Any,
) -> np.ndarray:
    output = np.dtype(options.pop("output", np.int64))
    rows, n = values.shape
    out = DeviceArray(device, np.full(values.shape, -1, output))
    plan = search.plan(
        device, rows, n, sequence.shape[-1], dtypes.from_numpy(values.dtype),
        output=dtypes.from_numpy(output), shared=sequence.ndim == 1, **options,
    )  # fmt: skip
    operands = [DeviceArray(device, each) for each in (values, sequence)]
    operands += [] if sorter is None else [DeviceArray(device, sorter)]
    run(device, plan, out, *operands)
    return out.numpy_array()


@pytest.mark.parametrize("kind", REAL, ids=lambda each: each.name)
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.sampled(4)
def test_places_of_every_type(device: drv.Device, kind: dtypes.dtype, right: bool) -> None:
    rng = np.random.default_rng(1)
    sequence = np.sort(rng.integers(0, 50, 77).astype(kind.numpy))
    values = rng.integers(0, 60, (3, 40)).astype(kind.numpy)
    result = places(device, sequence, values, right=right)
    wide = np.float64
    assert (
        result == np.searchsorted(sequence.astype(wide), values.astype(wide), "right" if right else "left")
    ).all()


@pytest.mark.parametrize("m", [0, 1, 2, 3, 1000])
@pytest.mark.parametrize("output", [np.int32, np.int64])
def test_a_sequence_for_each_row(device: drv.Device, m: int, output: Any) -> None:
    rng = np.random.default_rng(2)
    sequence, values = rng.standard_normal((4, m)), rng.standard_normal((4, 90))
    order = np.argsort(sequence, -1)
    expected = [np.searchsorted(s[o], v) for s, o, v in zip(sequence, order, values, strict=True)]
    result = places(device, sequence, values, order, output=output)
    assert result.dtype == output
    assert (result == expected).all()
    assert (places(device, np.sort(sequence, -1), values, output=output) == expected).all()


@pytest.mark.parity
@pytest.mark.parametrize("right", [False, True])
def test_places_of_nan_and_infinity_agree_with_pytorch(device: drv.Device, right: bool) -> None:
    torch = pytest.importorskip("torch")
    sequence = np.array([-np.inf, -0.0, 0.0, 1, np.inf, np.nan, np.nan])
    values = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 2]])
    expected = torch.searchsorted(torch.from_numpy(sequence), torch.from_numpy(values), right=right)
    assert (places(device, sequence, values, right=right) == expected.numpy()).all()


def test_what_cannot_be_searched(device: drv.Device) -> None:
    with pytest.raises(ValueError, match="no order"):
        search.plan(device, 1, 1, 1, dtypes.complex64)
    with pytest.raises(ValueError, match="int32 or int64"):
        search.plan(device, 1, 1, 1, dtypes.float32, output=dtypes.int16)
    with pytest.raises(ValueError, match="is no int32"):
        search.plan(device, 1, 1, 1 << 31, dtypes.float32, output=dtypes.int32)
    search.plan(device, 0, 5, 3, dtypes.float32).run(device.default_stream.handle, 0, 0, 0, 0)


@pytest.mark.parametrize("bins", [100, 5000])
@pytest.mark.parametrize("kind", INTEGERS, ids=lambda each: each.name)
@pytest.mark.sampled(4)
def test_bincount(device: drv.Device, kind: dtypes.dtype, bins: int) -> None:
    array = np.random.default_rng(3).integers(0, 100, (30, 40)).astype(kind.numpy)
    for layout in ({}, {"order": (1, 0), "gap": 1}):
        argument, out = DeviceArray(device, array, **layout), DeviceArray(device, np.full(bins, -1, np.int64))
        run(device, counting.bincount(device, array.shape, argument.operand, bins), out, argument)
        assert (out.numpy_array() == np.bincount(array.ravel(), minlength=bins)).all()


def test_bincount_of_other_values(device: drv.Device) -> None:
    array = np.array([0, 3, 4, 5, 1 << 40, -1, -(1 << 50), 3])
    argument = DeviceArray(device, array)
    for bins in (5, 5000):
        out = DeviceArray(device, np.full(bins, -1, np.int64))
        run(
            device, counting.bincount(device, array.shape, argument.operand, bins, others=True), out, argument
        )
        expected = np.bincount(np.where((array < 0) | (array >= bins), bins - 1, array), minlength=bins)
        assert (out.numpy_array() == expected).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bincount_with_weights(device: drv.Device, dtype: Any) -> None:
    rng = np.random.default_rng(4)
    array, weights = rng.integers(0, 9, (20, 15)), rng.integers(0, 9, (20, 15)).astype(dtype)
    argument, heavy = DeviceArray(device, array, order=(1, 0)), DeviceArray(device, weights)
    out = DeviceArray(device, np.zeros(9, dtype))
    run(
        device,
        counting.bincount(device, array.shape, argument.operand, 9, heavy.operand),
        out,
        argument,
        heavy,
    )
    assert (out.numpy_array() == np.bincount(array.ravel(), weights.ravel())).all()


def test_a_value_without_a_bin_is_a_fault() -> None:
    with drv.simulator.installed():
        device = drv.Device(0)
        argument, out = DeviceArray(device, np.array([1, 5, 2])), DeviceArray(device, np.zeros(5, np.int64))
        with pytest.raises(drv.DeviceAssertError):
            run(device, counting.bincount(device, (3,), argument.operand, 5), out, argument)


@pytest.mark.parametrize("kind", REAL[1:], ids=lambda each: each.name)
@pytest.mark.parametrize("bins", [8, 6000])
@pytest.mark.sampled(4)
def test_histc(device: drv.Device, kind: dtypes.dtype, bins: int) -> None:
    array = np.random.default_rng(5).integers(0, 100, (40, 21)).astype(kind.numpy)
    if kind.is_floating_point:
        array[3, :3] = np.nan, np.inf, -np.inf
    argument, out = DeviceArray(device, array, order=(1, 0)), DeviceArray(device, np.full(bins, -1, np.int64))
    low, high = 16.0, 80.0
    plan = counting.histc(device, array.shape, argument.operand, bins)
    plan.run(device.default_stream.handle, 0, out.address, argument.address, low, high)
    device.synchronize()
    inside = array.astype(np.float64)
    expected, _ = np.histogram(inside[(inside >= low) & (inside <= high)], bins, (low, high))
    assert (out.numpy_array() == expected).all()


@pytest.mark.parametrize(
    ("low", "high", "bins"),
    [
        (-4, 4, 64),
        (0.1, 0.7, 100),
        (-1e-3, 2.5e7, 4096),
        (0, float(np.float32(2 - 2**-23)), 33),
        (1e-30, 3e-30, 7),
    ],
)
@pytest.mark.parametrize("lead", [0, 1])
def test_elements_at_the_edges_of_bins(
    device: drv.Device, low: float, high: float, bins: int, lead: int
) -> None:
    """As single precision divides, whatever the width: elements on both sides of each edge, in rows that begin anywhere."""
    single = np.float32
    low, high = single(low), single(high)
    edges = (low + np.arange(bins + 1, dtype=np.float64) * (float(high) - float(low)) / bins).astype(single)
    near = [edges]
    for towards in (-np.inf, np.inf):
        for _ in range(3):
            near.append(np.nextafter(near[-1] if len(near) % 4 else edges, single(towards)))
    array = np.concatenate([*near, np.random.default_rng(1).uniform(low, high, 5000).astype(single)])
    argument, out = DeviceArray(device, array, lead=lead), DeviceArray(device, np.full(bins, -1, np.int64))
    plan = counting.histc(device, array.shape, argument.operand, bins)
    plan.run(device.default_stream.handle, 0, out.address, argument.address, float(low), float(high))
    device.synchronize()
    inside = array[(array >= low) & (array <= high)]
    bin_of = ((inside - low) * single(bins) / (high - low)).astype(np.int64)
    expected = np.bincount(np.minimum(bin_of, bins - 1), minlength=bins)
    assert (out.numpy_array() == expected).all()


@pytest.mark.simulator_only
@pytest.mark.parametrize("bins", [3, 300, 4096, 5000])
def test_copies_of_bins_under_every_schedule(bins: int) -> None:
    array = np.random.default_rng(bins).integers(0, bins, 9001).astype(np.int32)
    array[::3] = bins - 1
    for schedule in ("eager", "random"):
        with drv.simulator.installed(check="full", schedule=schedule, seed=1):
            device = drv.Device(0)
            argument, out = DeviceArray(device, array), DeviceArray(device, np.full(bins, -1, np.int64))
            run(device, counting.bincount(device, array.shape, argument.operand, bins), out, argument)
            assert (out.numpy_array() == np.bincount(array, minlength=bins)).all()
            assert not list(drv.simulator.findings())


def test_no_elements_leave_empty_bins(device: drv.Device) -> None:
    out = DeviceArray(device, np.full(7, -1, np.int64))
    run(device, counting.bincount(device, (0,), ((1,), dtypes.int64), 7), out, 0)
    assert (out.numpy_array() == 0).all()
    plan = counting.histc(device, (3, 0), ((1, 1), dtypes.float32), 7)
    plan.run(device.default_stream.handle, 0, out.address, 0, 0.0, 1.0)
    assert (out.numpy_array() == 0).all()
    counting.bincount(device, (0,), ((1,), dtypes.int64), 0).run(device.default_stream.handle, 0, 0, 0)


def test_what_cannot_be_counted(device: drv.Device) -> None:
    with pytest.raises(ValueError, match="counts integers"):
        counting.bincount(device, (3,), ((1,), dtypes.float32), 3)
    with pytest.raises(ValueError, match="float32 or float64"):
        counting.bincount(device, (3,), ((1,), dtypes.int32), 3, ((1,), dtypes.int32))
    with pytest.raises(ValueError, match="no order"):
        counting.histc(device, (3,), ((1,), dtypes.complex64), 3)
    with pytest.raises(ValueError, match="at least 1"):
        counting.histc(device, (3,), ((1,), dtypes.float32), 0)


def check_unique(device: drv.Device, array: np.ndarray) -> None:
    """Runs of ``array``, with places from a shuffled order as a sort would give them."""
    n = array.size
    shuffled = np.random.default_rng(6).permutation(n)
    wide = array.astype(np.float64)
    begins = np.ones(n, bool)
    begins[1:] = wide[1:] != wide[:-1]
    expected, runs = np.flatnonzero(begins), np.cumsum(begins) - 1
    argument, order = DeviceArray(device, array), DeviceArray(device, shuffled)
    number, values = DeviceArray(device, np.zeros(1, np.int64)), DeviceArray(device, np.zeros_like(array))
    inverse, counts = (DeviceArray(device, np.full(n, -1, np.int64)) for _ in range(2))
    run(
        device,
        unique.plan(device, n, argument.dtype, counts=True),
        number,
        values,
        argument,
        inverse,
        order,
        counts,
    )
    (result,) = number.numpy_array()
    assert result == expected.size
    np.testing.assert_array_equal(values.numpy_array()[:result].astype(np.float64), wide[expected])
    assert (inverse.numpy_array()[shuffled] == runs).all()
    assert (counts.numpy_array()[:result] == np.diff(expected, append=n)).all()
    run(device, unique.plan(device, n, argument.dtype), number, values, argument, inverse)
    assert (inverse.numpy_array() == runs).all()


@pytest.mark.parametrize("kind", REAL, ids=lambda each: each.name)
@pytest.mark.sampled(4)
def test_unique_of_every_type(device: drv.Device, kind: dtypes.dtype) -> None:
    array = np.sort(np.random.default_rng(7).integers(0, 100, 700)).astype(kind.numpy)
    if kind.is_floating_point:
        array[:5] = [-0.0, 0.0, 0.0, -0.0, 0.0]
        array[-3:] = np.nan
    check_unique(device, array)


@pytest.mark.parametrize("n", [0, 1, 2, 255, 256, 257, 1024, 1025, 40_000])
@pytest.mark.sampled(4)
def test_unique_around_the_sizes_of_chunks(device: drv.Device, n: int) -> None:
    check_unique(device, np.arange(n) // 3)
    check_unique(device, np.zeros(n, np.int32))


def test_complex_numbers_have_no_unique_elements(device: drv.Device) -> None:
    with pytest.raises(ValueError, match="no order"):
        unique.plan(device, 3, dtypes.complex64)
