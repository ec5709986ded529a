"""Sorts and selections against NumPy's stable sort."""

from __future__ import annotations

import shutil
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

import drv
from nvrtc_kernels import dtypes, program, selection, sort
from tests.thinning import thinned

from .device_arrays import DeviceArray, run

if TYPE_CHECKING:
    from pathlib import Path

    from nvrtc_kernels.plans import Plan

REAL = [each for each in dtypes.ALL if not each.is_complex]


def numbers(shape: tuple[int, ...], kind: dtypes.dtype, seed: int = 0) -> np.ndarray:
    """Numbers of every size, with many ties, and for floating types what is no number."""
    rng = np.random.default_rng(seed)
    if kind.is_floating_point:
        array = np.round(rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 3, shape), 1).astype(
            kind.numpy
        )
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], kind.numpy)
        return np.where(rng.random(shape) < 0.2, rng.choice(special, shape), array)
    bits = rng.integers(0, 1 << (8 * kind.itemsize - 1), shape, np.uint64, endpoint=True)
    wide = bits * np.uint64(2) + rng.integers(0, 2, shape, np.uint64)
    array = wide.astype(kind.numpy)
    return np.where(rng.random(shape) < 0.3, np.ones((), kind.numpy), array)


def ranks(array: np.ndarray, *, descending: bool = False) -> np.ndarray:
    """Places of the elements of each row in sorted order; equal elements keep theirs."""
    wide = array.astype(np.float64) if array.dtype.kind in "fV" else array.astype(np.int64)
    nan = wide != wide
    _, key = np.unique(np.where(nan, 0, wide), return_inverse=True)
    key = np.where(nan, key.size, key.reshape(array.shape))
    return np.argsort(-key if descending else key, axis=-1, kind="stable")


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def check_sort(device: drv.Device, array: np.ndarray, *, descending: bool = False, lead: int = 0) -> None:
    argument = DeviceArray(device, array, lead=lead)
    values = DeviceArray(device, np.zeros_like(array), lead=lead)
    indices = DeviceArray(device, np.zeros(array.shape, np.int64))
    plan = sort.plan(device, *array.shape, argument.dtype, descending=descending)
    run(device, plan, values, indices, argument)
    expected = ranks(array, descending=descending)
    assert (indices.numpy_array() == expected).all()
    assert same_bits(values.numpy_array(), np.take_along_axis(array, expected, -1))
    assert same_bits(argument.numpy_array(), array)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 31, 32, 33, 64, 65, 500, 1023, 1024, 1025, 2047, 2048])
@pytest.mark.sampled(4)
def test_short_rows(device: drv.Device, n: int) -> None:
    check_sort(device, numbers((3, n), dtypes.float32, n))


@pytest.mark.parametrize("n", [2049, 4095, 4096, 4097, 8193])
@pytest.mark.sampled(4)
def test_long_rows(device: drv.Device, n: int) -> None:
    check_sort(device, numbers((3, n), dtypes.int16, n))


@pytest.mark.parametrize(
    ("kind", "n", "descending"),
    thinned(
        product(REAL, (150, 2500), (False, True)),
        # Short and long rows have kernels of their own: each type has both, and both orders.
        lambda kind, n, descending: descending == (n == 150) or kind is dtypes.float32,
        lambda kind, n, descending: f"{kind.name} {n} {descending}",
    ),
)
@pytest.mark.sampled(4)
def test_every_type(device: drv.Device, kind: dtypes.dtype, n: int, descending: bool) -> None:
    check_sort(device, numbers((2, n), kind), descending=descending)


def test_many_rows(device: drv.Device) -> None:
    check_sort(device, numbers((3000, 7), dtypes.float32))
    check_sort(device, numbers((301, 60), dtypes.uint8), lead=1)


def test_a_long_row(device: drv.Device) -> None:
    check_sort(device, numbers((1, 100_000), dtypes.float16))


@pytest.mark.parametrize("n", [40, 3000])
def test_equal_elements_keep_their_order(device: drv.Device, n: int) -> None:
    for descending in (False, True):
        check_sort(device, np.zeros((2, n), np.float32), descending=descending)
        check_sort(device, np.full((2, n), np.nan, np.float32), descending=descending)


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [(dtypes.float32, (2, 30_000)), (dtypes.bfloat16, (1, 50_000)), (dtypes.int64, (3, 5000))],
)
@pytest.mark.parametrize(
    "tiles",
    # Of all sizes.
    [(8, "random", 1), (16, "eager", 0), (16, "random", 2), (32, "eager", 1), (32, "random", 3)],
    ids=lambda tiles: " ".join(map(str, tiles)),
)
@pytest.mark.sampled(3)
def test_tiles_look_back_the_same_under_every_schedule(
    dtype: dtypes.dtype,
    shape: tuple[int, int],
    tiles: tuple[int, str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items, schedule, seed = tiles
    monkeypatch.setattr(sort, "_LONGER", ((items, 0),))
    with drv.simulator.installed(check="full", schedule=schedule, seed=seed):
        check_sort(drv.Device(0), numbers(shape, dtype, 6), descending=seed == 1)
        assert not list(drv.simulator.findings())


@pytest.mark.simulator_only
@pytest.mark.parametrize("kind", [dtypes.float32, dtypes.float16, dtypes.uint8])
@pytest.mark.parametrize("n", [40_000, 5 * 8192])
@pytest.mark.parametrize("items", [8, 16, 32])
# A multiprocessor of the second has too little shared memory for the longest tiles.
@pytest.mark.parametrize("model", ["h100", "t4"])
@pytest.mark.sampled(4)
def test_tiles_of_every_size_are_sorted(
    kind: dtypes.dtype, n: int, items: int, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sort, "_LONGER", ((items, 0),))
    with drv.simulator.installed(model=model):
        check_sort(drv.Device(0), numbers((2, n), kind, 3), descending=items == 16)


@pytest.mark.simulator_only
def test_the_race_finder_misses_the_atomic_word_of_the_look_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "cuda"
    shutil.copytree(program.INCLUDE, sources)
    text = (sources / "sort.cuh").read_text(encoding="utf-8")
    published = "atomicExch(words + static_cast<long long>(tile) * radix, state | count);"
    assert text.count(published) == 1
    plain = "words[static_cast<long long>(tile) * radix] = state | count;"
    (sources / "sort.cuh").write_text(text.replace(published, plain), encoding="utf-8")
    monkeypatch.setattr(program, "INCLUDE", str(sources))
    with drv.simulator.installed(check="full"), pytest.raises(drv.DataRaceError, match=r"radix_pass"):
        check_sort(drv.Device(0), numbers((1, 20_000), dtypes.int16, 8))


@pytest.mark.simulator_only
def test_a_long_row_is_read_and_written_once_for_each_digit(device: drv.Device) -> None:
    array = numbers((1, 1 << 16), dtypes.float32, 7)
    with drv.simulator.timed() as timing:
        check_sort(device, array)
    names = [each.name for each in timing.operations if each.category == "kernel"]
    assert names == [
        "radix_clear", "radix_histograms_of_4", "radix_pass_first", "radix_pass_middle", "radix_pass_middle", "radix_pass_last",
    ]  # fmt: skip


@pytest.mark.parametrize("n", [40, 3000])
def test_zeros_keep_their_signs_and_nans_their_bits(device: drv.Device, n: int) -> None:
    array = np.zeros((1, n), np.float32)
    array[0, 1::3] = -0.0
    array.view(np.uint32)[0, 2::3] = 0xFFC00000 + np.arange(n)[2::3]
    check_sort(device, array)


@pytest.mark.parametrize("array", [np.arange(5000), np.arange(5000)[::-1], np.arange(5000) // 100 % 2])
def test_rows_with_a_pattern(device: drv.Device, array: np.ndarray) -> None:
    check_sort(device, array[None].astype(np.int32))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 3000)])
def test_nothing_is_launched_for_no_elements(device: drv.Device, shape: tuple[int, int]) -> None:
    plan = sort.plan(device, *shape, dtypes.float32)
    assert plan.scratch_bytes == 0
    plan.run(device.default_stream.handle, 0, 0, 0, 0)
    device.synchronize()


def test_what_cannot_be_sorted(device: drv.Device) -> None:
    with pytest.raises(ValueError, match=r"no order; tensor\.complex64 was given"):
        sort.plan(device, 1, 3, dtypes.complex64)
    with pytest.raises(ValueError, match="were given; sort parts of it"):
        sort.plan(device, 1, 1 << 32, dtypes.int8)
    # Where bytes are counted, a block's step of 8192 from before the end on must not come round to the beginning.
    with pytest.raises(ValueError, match=f"up to {(1 << 32) - 1 - 8192} elements"):
        sort.plan(device, 1, (1 << 32) - 8192, dtypes.uint8)
    sort.plan(device, 1, (1 << 32) - 1 - 8192, dtypes.uint8)


@pytest.mark.parity
@pytest.mark.parametrize("n", [50, 2100])
def test_results_agree_with_pytorch(device: drv.Device, n: int) -> None:
    torch = pytest.importorskip("torch")
    array = numbers((2, n), dtypes.float32, 9)
    for descending in (False, True):
        expected = torch.sort(torch.from_numpy(array), stable=True, descending=descending).indices
        assert (ranks(array, descending=descending) == expected.numpy()).all()
        check_sort(device, array, descending=descending)


def selected(device: drv.Device, plan: Plan, array: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    argument = DeviceArray(device, array)
    values = DeviceArray(device, np.zeros((len(array), k), array.dtype))
    indices = DeviceArray(device, np.zeros((len(array), k), np.int64))
    run(device, plan, values, indices, argument)
    devices = indices.numpy_array()
    assert same_bits(values.numpy_array(), np.take_along_axis(array, devices, -1))
    return values.numpy_array(), devices


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(
    ("n", "k"), [(1, 1), (50, 7), (2048, 2048), (2049, 1), (5000, 40), (5000, 5000), (9000, 2500)]
)
@pytest.mark.sampled(4)
def test_topk(device: drv.Device, n: int, k: int, largest: bool) -> None:
    array = numbers((2, n), dtypes.float32, n)
    plan = selection.topk(device, 2, n, k, dtypes.float32, largest=largest)
    _, devices = selected(device, plan, array, k)
    assert (devices == ranks(array, descending=largest)[:, :k]).all()


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("n", [256, 257, 1000, 1026, 2048])
@pytest.mark.parametrize("k", [1, 9, 32])
@pytest.mark.sampled(30)
def test_the_first_few_of_rows(device: drv.Device, n: int, k: int, largest: bool) -> None:
    """A warp has a row: numbers in order, few that are different, and what is no number."""
    for dtype in (dtypes.float32, dtypes.bfloat16, dtypes.float16, dtypes.uint8):
        numbers_of = np.random.default_rng(n + k)
        few = numbers_of.integers(0, 3, n).astype(dtype.numpy)
        ordered = (np.arange(n) * (-1 if largest else 1) % 250).astype(dtype.numpy)
        special = numbers((1, n), dtype, 5)[0]
        if dtype.is_floating_point:
            special[::3], special[1::30], special[2::70], special[3::3] = 0.0, np.nan, -np.inf, -0.0
        array = np.stack([few, ordered, special, ordered[::-1], np.zeros_like(few)])
        plan = selection.topk(device, len(array), n, k, dtype, largest=largest)
        assert not plan.scratch_bytes
        _, devices = selected(device, plan, array, k)
        assert (devices == ranks(array, descending=largest)[:, :k]).all()


def test_the_first_few_of_rows_at_an_odd_address(device: drv.Device) -> None:
    array = numbers((3, 512), dtypes.float32, 4)
    memory = DeviceArray(device, np.concatenate([np.zeros(1, np.float32), array.reshape(-1)]))
    values = DeviceArray(device, np.zeros((3, 4), np.float32))
    indices = DeviceArray(device, np.zeros((3, 4), np.int64))
    plan = selection.topk(device, 3, 512, 4, dtypes.float32)
    plan.run(device.default_stream.handle, 0, values.address, indices.address, memory.address + 4)
    device.synchronize()
    assert (indices.numpy_array() == ranks(array, descending=True)[:, :4]).all()


@pytest.mark.parametrize("kind", REAL, ids=lambda each: each.name)
@pytest.mark.parametrize("n", [300, 4500])
@pytest.mark.sampled(100)
def test_topk_of_every_type(device: drv.Device, kind: dtypes.dtype, n: int) -> None:
    array = numbers((2, n), kind, 3)
    _, devices = selected(device, selection.topk(device, 2, n, 30, kind), array, 30)
    assert (devices == ranks(array, descending=True)[:, :30]).all()


def test_topk_of_a_long_row_and_of_many(device: drv.Device) -> None:
    for shape in ((1, 100_000), (150, 2100), (900, 12)):
        array = numbers(shape, dtypes.float16)
        _, devices = selected(device, selection.topk(device, *shape, 5, dtypes.float16), array, 5)
        assert (devices == ranks(array, descending=True)[:, :5]).all()


@pytest.mark.parametrize(
    ("kind", "n", "k"),
    thinned(
        [
            (kind, *sizes)
            for kind in REAL
            for sizes in ((200, 1), (200, 71), (3000, 1), (3000, 1500), (3000, 3000))
        ],
        lambda kind, n, k: k in (71, 1500) or kind is dtypes.float32,
        lambda kind, n, k: f"{kind.name} {k} of {n}",
    ),
)
@pytest.mark.sampled(4)
def test_kth_smallest(device: drv.Device, kind: dtypes.dtype, n: int, k: int) -> None:
    array = numbers((3, n), kind, k)
    _, devices = selected(device, selection.kth(device, 3, n, k, kind), array, 1)
    expected = np.take_along_axis(array, ranks(array)[:, k - 1 : k], -1)
    result = np.take_along_axis(array, devices, -1)
    assert ((result == expected) | ((result != result) & (expected != expected))).all()


@pytest.mark.parametrize("n", [1, 2, 49, 50, 2048, 2049, 6000])
@pytest.mark.parametrize("skip_nan", [False, True])
@pytest.mark.sampled(4)
def test_median(device: drv.Device, n: int, skip_nan: bool) -> None:
    array = np.random.default_rng(n).standard_normal((4, n)).astype(np.float32)
    array[1, n // 2] = np.nan
    array[2, ::3] = np.nan
    array[3] = np.nan
    values, devices = selected(
        device, selection.median(device, 4, n, dtypes.float32, skip_nan=skip_nan), array, 1
    )
    for row, value, device_name in zip(array, values[:, 0], devices[:, 0], strict=True):
        rest = np.sort(row[row == row])
        if rest.size == 0 or (rest.size < n and not skip_nan):
            assert value != value
            assert device_name == np.flatnonzero(row != row)[0]
        else:
            assert value == rest[(rest.size - 1) // 2]


@pytest.mark.parametrize("n", [80, 2100])
def test_median_of_integers(device: drv.Device, n: int) -> None:
    array = np.full((2, n), -1, np.int32)
    array[1, : n // 2 - 1] = np.arange(n // 2 - 1)
    values, _ = selected(device, selection.median(device, 2, n, dtypes.int32), array, 1)
    assert (values[:, 0] == np.sort(array)[:, (n - 1) // 2]).all()


def test_what_cannot_be_selected(device: drv.Device) -> None:
    with pytest.raises(ValueError, match="from 0 to the 3 elements of a row, 4 was given"):
        selection.topk(device, 1, 3, 4, dtypes.int8)
    with pytest.raises(ValueError, match="from 1 to the 3 elements of a row, 0 was given"):
        selection.kth(device, 1, 3, 0, dtypes.int8)
    with pytest.raises(ValueError, match="no median"):
        selection.median(device, 1, 0, dtypes.int8)
    with pytest.raises(ValueError, match="no order"):
        selection.topk(device, 1, 3, 1, dtypes.complex128)
    selection.topk(device, 5, 3, 0, dtypes.int8).run(device.default_stream.handle, 0, 0, 0, 0)
    selection.kth(device, 0, 3, 1, dtypes.int8).run(device.default_stream.handle, 0, 0, 0, 0)


@pytest.mark.simulator_only
@pytest.mark.parametrize(
    ("kind", "below", "rounds"),
    [(np.int32, 200, 1), (np.int32, 50304, 2), (np.int64, 70000, 3), (np.int16, 300, 2)],
)
def test_small_integers_take_fewer_rounds(device: drv.Device, kind: type, below: int, rounds: int) -> None:
    x = np.random.default_rng(0).integers(0, below, 5000).astype(kind)
    plan = sort.plan(device, 1, x.size, dtypes.from_numpy(np.dtype(kind)), below=below)
    source, values = DeviceArray(device, x), DeviceArray(device, np.zeros_like(x))
    indices, scratch = (
        DeviceArray(device, np.zeros(x.size, np.int64)),
        drv.DeviceMemory(max(plan.scratch_bytes, 1)),
    )
    with drv.simulator.timed(results=False) as timing:
        plan.run(
            device.default_stream.handle, scratch.address, values.address, indices.address, source.address
        )
        device.synchronize()
    assert sum(each.name.startswith("radix_pass") for each in timing.operations) == rounds
    np.testing.assert_array_equal(indices.numpy_array(), np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(values.numpy_array(), np.sort(x))
