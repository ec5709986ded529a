"""Scans along any dimension of any layout, and compaction, against NumPy."""

from __future__ import annotations

import shutil
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

import drv
from nvrtc_kernels import dtypes, program, scan
from tests.thinning import thinned

from .device_arrays import DeviceArray, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REAL = [each for each in dtypes.ALL if not each.is_complex]
SUMS = {"cumsum": np.cumsum, "cumprod": np.cumprod}


def scanned(
    device: drv.Device, operation: str, array: np.ndarray, dim: int, output: Any = None, **layout: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    argument = DeviceArray(device, array, **layout)
    layout.pop("stretch", None)
    out = DeviceArray(device, np.zeros(array.shape, output or array.dtype), **layout)
    best = operation in ("cummax", "cummin")
    devices = DeviceArray(device, np.zeros(array.shape, np.int64), **layout) if best else None
    plan = scan.plan(
        device,
        operation,
        dim,
        array.shape,
        out.operand,
        argument.operand,
        devices.strides if devices else None,
    )
    run(device, plan, out, argument, *([devices] if devices else []))
    return out.numpy_array(), devices.numpy_array() if devices else None


def best_so_far(
    array: np.ndarray, dim: int, better: Callable[[Any, Any], bool]
) -> tuple[np.ndarray, np.ndarray]:
    """The last of the best elements up to each; a NaN is better than a number."""
    values, devices = np.moveaxis(array.copy(), dim, 0), np.moveaxis(np.zeros(array.shape, np.int64), dim, 0)
    for line in np.ndindex(values.shape[1:]):
        column, at = values[(slice(None), *line)], 0
        result = []
        for i, x in enumerate(column):
            if x != x or (column[at] == column[at] and not better(column[at], x)):
                at = i
            result.append(at)
        devices[(slice(None), *line)] = result
        values[(slice(None), *line)] = column[result]
    return np.moveaxis(values, 0, dim), np.moveaxis(devices, 0, dim)


def small_numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 3, shape).astype(dtype)


@pytest.mark.parametrize(
    "length", [1, 2, 3, 4, 5, 16, 17, 31, 33, 128, 129, 512, 513, 1024, 1025, 4097, 9000]
)
@pytest.mark.sampled(4)
def test_lengths_around_the_sizes_of_teams_and_tiles(device: drv.Device, length: int) -> None:
    array = small_numbers((3, length), np.int32)
    result, _ = scanned(device, "cumsum", array, 1)
    assert (result == np.cumsum(array, 1)).all()


@pytest.mark.parametrize(
    ("shape", "dim"), [((5, 40), 0), (((9000, 9)), 0), ((70, 300), 0), ((3, 17, 11), 1), ((2, 3, 4, 5), 0), ((4, 1, 3), 1), ((), 0)]
)  # fmt: skip
def test_any_dimension(device: drv.Device, shape: tuple[int, ...], dim: int) -> None:
    array = small_numbers(shape, np.int64)
    result, _ = scanned(device, "cumsum", array, dim)
    assert (result == np.cumsum(array, dim).reshape(shape)).all()


def test_many_columns_take_a_thread_each(device: drv.Device) -> None:
    array = small_numbers((20, 70000), np.int8)
    result, _ = scanned(device, "cumsum", array, 0)
    assert (result == np.cumsum(array, 0, dtype=np.int8)).all()


@pytest.mark.parametrize(
    "layout",
    [
        {"order": (1, 0, 2)},
        {"order": (2, 1, 0)},
        {"gap": 1},
        {"lead": 1},
        {"lead": 3, "order": (0, 2, 1)},
        {"stretch": (0,)},
        {"stretch": (1,)},
        {"stretch": (2,)},
    ],
)
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.sampled(4)
def test_any_strides(device: drv.Device, layout: dict[str, Any], dim: int) -> None:
    array = small_numbers((9, 20, 13), np.int16)
    for axis in layout.get("stretch", ()):
        array = np.broadcast_to(array.take([0], axis), array.shape)
    result, _ = scanned(device, "cumsum", array, dim, **layout)
    assert (result == np.cumsum(array, dim, dtype=np.int16)).all()
    values, devices = scanned(device, "cummax", array, dim, **layout)
    expected = best_so_far(array, dim, np.greater)
    assert (values == expected[0]).all()
    assert (devices == expected[1]).all()


@pytest.mark.parametrize(
    ("operation", "dtype"),
    thinned(
        product(("cumsum", "cumprod"), dtypes.ALL),
        lambda operation, dtype: (
            operation == "cumsum" or dtype in (dtypes.bool_, dtypes.int32, dtypes.bfloat16, dtypes.complex64)
        ),
        lambda operation, dtype: f"{operation} {dtype.name}",
    ),
)
@pytest.mark.sampled(6)
def test_sums_and_products_of_every_type(device: drv.Device, operation: str, dtype: dtypes.dtype) -> None:
    array = small_numbers((3, 70), np.int8) + (operation == "cumprod")
    array[:, 8:] = 1
    array = array.astype(dtype.numpy)
    if dtype.is_complex:
        array[:, 3] *= 1 + 2j
    result, _ = scanned(device, operation, array, 1)
    if dtype is dtypes.bool_:
        expected = SUMS[operation](array, 1).astype(bool)
    elif dtype.is_floating_point:
        expected = SUMS[operation](array.astype(np.float64), 1).astype(dtype.numpy)
    else:
        expected = SUMS[operation](array, 1, dtype=dtype.numpy)
    assert (result == expected).all()


@pytest.mark.parametrize(
    ("given", "output"),
    [
        (np.bool_, np.int64),
        (np.uint8, np.int64),
        (np.int8, np.float16),
        (np.float32, np.uint8),
        (np.float64, np.float32),
        (ml_dtypes.bfloat16, np.float32),
        (np.float32, np.complex64),
        (np.float16, np.bool_),
    ],
)
def test_elements_are_converted_before_they_are_added(device: drv.Device, given: Any, output: Any) -> None:
    array = (small_numbers((2, 40), np.float32) * 0.75).astype(given)
    result, _ = scanned(device, "cumsum", array, 1, output)
    assert result.dtype == output
    total = np.cumsum(array.astype(output).astype(np.complex128), 1)
    expected = (total if result.dtype.kind == "c" else total.real).astype(output)
    assert (result == expected).all()


def test_integers_wrap_around(device: drv.Device) -> None:
    array = np.array([2**31 - 1, 1, -(2**31), -1, 7], np.int32)
    assert (scanned(device, "cumsum", array, 0)[0] == np.cumsum(array, dtype=np.int32)).all()
    assert (scanned(device, "cumprod", array, 0)[0] == np.cumprod(array, dtype=np.int32)).all()


def test_half_precision_accumulates_in_float(device: drv.Device) -> None:
    array = np.ones(5000, np.float16)
    result, _ = scanned(device, "cumsum", array, 0)
    assert (result == np.arange(1, 5001, dtype=np.float32).astype(np.float16)).all()


def test_a_long_line_is_cut_into_chunks(device: drv.Device) -> None:
    array = np.random.default_rng(0).standard_normal(100_003).astype(np.float32)
    result, _ = scanned(device, "cumsum", array, 0)
    np.testing.assert_allclose(result, np.cumsum(array, dtype=np.float64), rtol=0, atol=2e-3)
    again, _ = scanned(device, "cumsum", array, 0, lead=1)
    assert (again == result).all()


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    "dtype",
    thinned(
        (np.float32, ml_dtypes.bfloat16, np.float64, np.int64, np.uint8, np.complex128),
        lambda dtype: dtype in (np.float32, np.uint8, np.complex128),
    ),
)
def test_long_lines_look_back_the_same_under_every_schedule(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Chunks of one tile, so that there are groups of groups.
    monkeypatch.setattr(scan, "_ONE_PASS_BLOCKS", 1 << 20)
    length = 70_001 if np.dtype(dtype).itemsize < 8 else 40_003
    array = np.random.default_rng(2).standard_normal((3, length)).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        array = np.random.default_rng(2).integers(0, 100, (3, length)).astype(dtype)
    results = []
    for schedule, seed in (("eager", 0), ("random", 1), ("random", 2)):
        with drv.simulator.installed(check="full", schedule=schedule, seed=seed):
            results.append(scanned(drv.Device(0), "cumsum", array, 1)[0])
            assert not list(drv.simulator.findings())
    assert all((each.view(np.uint8) == results[0].view(np.uint8)).all() for each in results)
    kind = np.dtype(dtype).kind
    if kind in "iu":
        np.testing.assert_array_equal(results[0], np.cumsum(array, 1, dtype=dtype))
        return
    exact = np.cumsum(array.astype(np.clongdouble if kind == "c" else np.longdouble), 1)
    rounding = {np.float32: 2e-6, ml_dtypes.bfloat16: 2**-8}.get(dtype, 1e-14)
    bound = rounding * (np.abs(exact) + np.sqrt(length))
    assert (np.abs(results[0].astype(exact.dtype) - exact) <= bound).all()


@pytest.mark.simulator_only
def test_groups_of_groups_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_ONE_PASS_BLOCKS", 1 << 20)
    length = 1024 * 1024 + 70_000
    array = np.random.default_rng(3).integers(-1000, 1000, length).astype(np.int32)
    with drv.simulator.installed(check="race"):
        result, _ = scanned(drv.Device(0), "cumsum", array, 0)
        assert not list(drv.simulator.findings())
    np.testing.assert_array_equal(result, np.cumsum(array, dtype=np.int32))


@pytest.mark.simulator_only
def test_the_race_finder_misses_the_fence_of_the_look_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "cuda"
    shutil.copytree(program.INCLUDE, sources)
    text = (sources / "scan.cuh").read_text(encoding="utf-8")
    fenced = "totals[at] = total;\n        __threadfence();\n"
    assert text.count(fenced) == 1
    (sources / "scan.cuh").write_text(text.replace(fenced, "totals[at] = total;\n"), encoding="utf-8")
    monkeypatch.setattr(program, "INCLUDE", str(sources))
    array = np.ones(20_000, np.float32)
    with (
        drv.simulator.installed(check="full"),
        pytest.raises(
            drv.DataRaceError, match=r"(?s)cumsum_chunks.*writes.*reads.*publish the data with __threadfence"
        ),
    ):
        scanned(drv.Device(0), "cumsum", array, 0)


def test_places_in_a_long_line_with_ties(device: drv.Device) -> None:
    array = np.random.default_rng(1).integers(0, 4, 30_000).astype(np.float32)
    array[0] = 9
    array[[12_345, 20_000]] = 9
    array[25_000:] = np.nan
    values, devices = scanned(device, "cummax", array, 0)
    expected = best_so_far(array, 0, np.greater)
    np.testing.assert_array_equal(values, expected[0])
    assert (devices == expected[1]).all()


@pytest.mark.parametrize(
    ("operation", "better", "dtype"),
    thinned(
        [
            (operation, better, dtype)
            for operation, better in (("cummax", np.greater), ("cummin", np.less))
            for dtype in REAL
        ],
        lambda operation, better, dtype: operation == "cummax" or dtype in (dtypes.float16, dtypes.int64),
        lambda operation, better, dtype: f"{operation} {dtype.name}",
    ),
)
@pytest.mark.sampled(100)
def test_best_of_every_type(device: drv.Device, operation: str, better: Any, dtype: dtypes.dtype) -> None:
    array = np.random.default_rng(2).integers(-60, 60, (4, 130)).astype(dtype.numpy)
    if dtype.is_floating_point:
        array[1, 50], array[2, [3, 7]], array[3, [0, 9]] = np.nan, np.inf, -np.inf
        array[0, 20:23] = [0.0, -0.0, 0.0]
    values, devices = scanned(device, operation, array, 1)
    expected = best_so_far(array, 1, better)
    np.testing.assert_array_equal(values.astype(np.float64), expected[0].astype(np.float64))
    assert (devices == expected[1]).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.sampled(4)
def test_logcumsumexp(device: drv.Device, dtype: Any) -> None:
    array = (np.random.default_rng(3).standard_normal((3, 300)) * 20).astype(dtype)
    result, _ = scanned(device, "logcumsumexp", array, 1)
    expected = np.logaddexp.accumulate(array.astype(np.float64), 1)
    tolerance = float(ml_dtypes.finfo(dtype).eps) * 4
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def test_logcumsumexp_of_infinities_and_nan(device: drv.Device) -> None:
    inf, nan = np.inf, np.nan
    array = np.array([[-inf, -inf, 1, 900, -inf, 5], [1, inf, inf, -1, -inf, nan]], np.float32)
    result, _ = scanned(device, "logcumsumexp", array, 1)
    expected = np.array([[-inf, -inf, 1, 900, 900, 900], [1, inf, inf, inf, inf, nan]], np.float32)
    np.testing.assert_array_equal(result, expected)


def test_logcumsumexp_of_complex_numbers(device: drv.Device) -> None:
    rng = np.random.default_rng(4)
    array = rng.standard_normal((2, 50)) + 1j * rng.standard_normal((2, 50))
    result, _ = scanned(device, "logcumsumexp", array, 1)
    np.testing.assert_allclose(np.exp(result), np.cumsum(np.exp(array), 1), rtol=1e-12)


def test_output_over_input(device: drv.Device) -> None:
    for shape, dim in (((3, 700), 1), ((700, 9), 0), ((20_000,), 0)):
        array = small_numbers(shape, np.int32)
        both = DeviceArray(device, array)
        run(device, scan.plan(device, "cumsum", dim, shape, both.operand, both.operand), both, both)
        assert (both.numpy_array() == np.cumsum(array, dim)).all()


def test_more_rows_than_blocks_of_a_small_grid(device: drv.Device) -> None:
    array = small_numbers((700, 70), np.int32)
    assert (scanned(device, "cumsum", array, 1)[0] == np.cumsum(array, 1)).all()


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_nothing_is_launched_for_no_elements(device: drv.Device, shape: tuple[int, ...]) -> None:
    operand = ((1,) * len(shape), dtypes.float32)
    plan = scan.plan(device, "cumsum", 0, shape, operand, operand)
    assert plan.scratch_bytes == 0
    plan.run(device.default_stream.handle, 0, 0, 0)
    device.synchronize()


@pytest.mark.parity
def test_results_agree_with_pytorch(device: drv.Device) -> None:
    torch = pytest.importorskip("torch")
    array = np.random.default_rng(5).integers(-3, 3, (5, 40)).astype(np.float32)
    array[2, 10] = array[2, 20] = np.nan
    for operation in ("cummax", "cummin"):
        values, devices = scanned(device, operation, array, 1)
        expected = getattr(torch, operation)(torch.from_numpy(array), 1)
        np.testing.assert_array_equal(values, expected.values.numpy())
        assert (devices == expected.indices.numpy()).all()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cumavg", dtypes.float32, dtypes.float32, None), "no scan 'cumavg'"),
        (("cumsum", dtypes.float32, dtypes.float32, (1,)), "has no indices"),
        (("cummax", dtypes.float32, dtypes.float32, None), "writes indices"),
        (("cummax", dtypes.complex64, dtypes.complex64, (1,)), "needs a real type"),
        (("logcumsumexp", dtypes.int32, dtypes.float32, None), "floating point or complex"),
    ],
)
def test_what_cannot_be_scanned(device: drv.Device, arguments: Any, words: str) -> None:
    operation, output, argument, indices = arguments
    with pytest.raises(ValueError, match=words):
        scan.plan(device, operation, 0, (3,), ((1,), output), ((1,), argument), indices)


def compacted(device: drv.Device, array: np.ndarray, **layout: Any) -> np.ndarray:
    argument = DeviceArray(device, array, **layout)
    plan = scan.plan_compact(device, array.shape, argument.strides, argument.dtype)
    number = DeviceArray(device, np.full(1, -1, np.int64))
    indices = DeviceArray(device, np.full(prod(array.shape), -1, np.int64))
    run(device, plan, number, indices, argument)
    (count,), devices = number.numpy_array(), indices.numpy_array()
    assert (devices[count:] == -1).all()
    return devices[:count]


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 2047, 2048, 2049, 4097, 30_000])
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_places_of_true_elements(device: drv.Device, size: int, share: float) -> None:
    array = np.random.default_rng(6).random(size) < share
    assert (compacted(device, array) == np.flatnonzero(array)).all()
    assert (compacted(device, array, lead=1) == np.flatnonzero(array)).all()


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda each: each.name)
@pytest.mark.sampled(4)
def test_places_of_nonzero_elements_of_every_type(device: drv.Device, dtype: dtypes.dtype) -> None:
    array = small_numbers((50, 3), dtype.numpy)
    if dtype.is_floating_point:
        array[3], array[4] = np.nan, -0.0
    if dtype.is_complex:
        array[5] = 1j
    assert (compacted(device, array) == np.flatnonzero(array)).all()


@pytest.mark.parametrize("layout", [{"order": (2, 0, 1)}, {"gap": 2}, {"stretch": (1,)}])
def test_places_are_row_major_whatever_the_strides(device: drv.Device, layout: dict[str, Any]) -> None:
    array = small_numbers((20, 30, 7), np.int32)
    for axis in layout.get("stretch", ()):
        array = np.broadcast_to(array.take([0], axis), array.shape)
    assert (compacted(device, array, **layout) == np.flatnonzero(array)).all()


def test_places_in_a_single_element(device: drv.Device) -> None:
    assert compacted(device, np.array(True)).tolist() == [0]
    assert compacted(device, np.array(0.0)).tolist() == []


def check_any_scan(device: drv.Device, shape: tuple[int, ...], dim: int, **layout: Any) -> None:
    array = small_numbers(shape, np.int32, seed=dim)
    assert (scanned(device, "cumsum", array, dim, **layout)[0] == np.cumsum(array, dim)).all()
    values, devices = scanned(device, "cummin", array, dim, **layout)
    expected = best_so_far(array, dim, np.less)
    assert (values == expected[0]).all()
    assert (devices == expected[1]).all()
    assert (compacted(device, array, **layout) == np.flatnonzero(array)).all()


@pytest.mark.simulator_only
@pytest.mark.parametrize("multiprocessors", [1, 3, 20])
def test_devices_of_other_sizes(multiprocessors: int) -> None:
    with drv.simulator.installed(check="full", multiprocessors=multiprocessors):
        for shape, dim in (((9000,), 0), ((3, 5000), 1), ((700, 40), 0), ((12, 30, 9), 1)):
            check_any_scan(drv.Device(0), shape, dim)
        assert not list(drv.simulator.findings())


def test_offsets_of_64_bits(device: drv.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_SMALL", 1)
    for shape, dim in (((9000,), 0), ((3, 50), 1), ((700, 40), 0), ((12, 30, 9), 1)):
        check_any_scan(device, shape, dim, gap=1)
