"""Values combined with what index tensors choose, against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
from nvrtc_kernels import accumulation, dtypes, indexing

from .device_arrays import DeviceArray, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.indexing import Selection

UFUNCS: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def accumulate(
    device: drv.Device,
    reducer: str,
    selection: Selection,
    target: DeviceArray,
    values: DeviceArray | None,
    *indices: DeviceArray,
    deterministic: bool = False,
) -> np.ndarray:
    operand = None if values is None else values.operand
    plan = accumulation.plan(device, "index_put", reducer, selection, operand, deterministic=deterministic)
    run(device, plan, target, 0 if values is None else values, *indices)
    return target.numpy_array()


def expected(reducer: str, array: np.ndarray, places: Any, values: np.ndarray) -> np.ndarray:
    """``array`` after it, computed in double precision, or in the array's integers."""
    wide = array.dtype
    if array.dtype.kind not in "biuc":
        wide = np.dtype(np.float64)
    result = array.astype(wide)
    UFUNCS[reducer].at(result, places, values.astype(wide))
    return result.astype(array.dtype)


def numbers(shape: Sequence[int], dtype: Any, low: int = -3, high: int = 4, seed: int = 0) -> np.ndarray:
    """Small integers, which every type adds and multiplies exactly."""
    kind = np.dtype(dtype)
    found = np.random.default_rng(seed).integers(0 if kind.kind in "bu" else low, high, shape)
    return (found * (1 + 1j) if kind.kind == "c" else found).astype(kind)


#: Complex numbers have no extremes; only sums and products of floating point numbers depend on the order.
CASES = [
    pytest.param(
        reducer, kind, ordered, id=f"{reducer}-{kind.name}-{'deterministic' if ordered else 'atomic'}"
    )
    for reducer in UFUNCS
    for kind in dtypes.ALL
    for ordered in (False, True)
    if not (kind.is_complex and reducer in ("amax", "amin"))
    if not ordered or (reducer in ("sum", "prod") and (kind.is_floating_point or kind.is_complex))
]


@pytest.mark.parametrize(("reducer", "dtype", "deterministic"), CASES)
@pytest.mark.sampled(4)
def test_every_type(device: drv.Device, reducer: str, dtype: dtypes.dtype, deterministic: bool) -> None:
    array, values = numbers((5, 6), dtype.numpy), numbers((9, 6), dtype.numpy, seed=1)
    if reducer == "prod" and dtype.name != "bool":
        values[values == 0] = 1
    rows = np.array([3, 0, -1, 3, 3, -5, 1, 3, 0], np.int32)
    target, source, index = (DeviceArray(device, each) for each in (array, values, rows))
    selection = indexing.advanced(target.layout, [index.layout])
    result = accumulate(device, reducer, selection, target, source, index, deterministic=deterministic)
    np.testing.assert_array_equal(result, expected(reducer, array, rows, values))


FIRST = np.array([[1, -1, 0], [1, 2, 1]])
SECOND = np.array([0, 3, -5])
THIRD = np.array([[4], [1]])


@pytest.mark.parametrize("deterministic", [False, True], ids=["atomic", "deterministic"])
@pytest.mark.parametrize(
    ("indices", "of"),
    [
        ((FIRST,), {}),
        ((FIRST, SECOND), {"order": (3, 1, 0, 2)}),
        ((None, SECOND, THIRD), {}),
        ((None, None, FIRST), {"order": (2, 0, 1, 3), "gap": 1, "lead": 1}),
        ((FIRST, None, THIRD, None), {"order": (1, 3, 2, 0)}),
    ],
    ids=["rows", "pairs", "inner", "columns", "apart"],
)
@pytest.mark.sampled(4)
def test_any_number_of_index_tensors(
    device: drv.Device, indices: Any, of: dict[str, Any], deterministic: bool
) -> None:
    array = numbers((3, 5, 6, 4), np.float32)
    places = tuple(slice(None) if each is None else each for each in indices)
    values = numbers(array[places].shape, np.float32, seed=1)
    tensors = [None if each is None else DeviceArray(device, each) for each in indices]
    target = DeviceArray(device, array, **of)
    source = DeviceArray(device, values, order=range(values.ndim)[::-1])
    selection = indexing.advanced(target.layout, [None if each is None else each.layout for each in tensors])
    given = [each for each in tensors if each is not None]
    result = accumulate(device, "sum", selection, target, source, *given, deterministic=deterministic)
    np.testing.assert_array_equal(result, expected("sum", array, places, values))


@pytest.mark.parametrize("deterministic", [False, True], ids=["atomic", "deterministic"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_along_a_dimension(device: drv.Device, dim: int, deterministic: bool) -> None:
    array, slices = numbers((4, 5, 6), np.float64), np.array([3, 0, 3, 3, 1])
    values = numbers(
        [5 if axis == dim else size for axis, size in enumerate(array.shape)], np.float64, seed=1
    )
    target, source = DeviceArray(device, array, order=(2, 0, 1)), DeviceArray(device, values)
    index = DeviceArray(device, slices, gap=1)
    selection = indexing.along(target.layout, dim, index.layout)
    result = accumulate(device, "sum", selection, target, source, index, deterministic=deterministic)
    places = (*(slice(None),) * dim, slices)
    np.testing.assert_array_equal(result, expected("sum", array, places, values))


@pytest.mark.parametrize("deterministic", [False, True], ids=["atomic", "deterministic"])
@pytest.mark.parametrize(("dim", "of"), [(0, {"order": (1, 0), "gap": 1}), (1, {})])
def test_an_index_for_every_element(
    device: drv.Device, dim: int, of: dict[str, Any], deterministic: bool
) -> None:
    array, chosen = numbers((4, 5), np.float32), np.random.default_rng(2).integers(0, 4, (3, 5))
    values = numbers(chosen.shape, np.float32, seed=1)
    target, source, index = (
        DeviceArray(device, array, **of),
        DeviceArray(device, values),
        DeviceArray(device, chosen),
    )
    selection = indexing.elementwise(target.layout, dim, index.layout)
    result = accumulate(device, "sum", selection, target, source, index, deterministic=deterministic)
    grid = np.ogrid[:3, :5]
    places = (grid[0], chosen) if dim else (chosen, grid[1])
    np.testing.assert_array_equal(result, expected("sum", array, places, values))


@pytest.mark.parametrize("deterministic", [False, True], ids=["atomic", "deterministic"])
def test_row_major_places(device: drv.Device, deterministic: bool) -> None:
    array, chosen = numbers((3, 4), np.float32), np.array([[0, -1, 7], [7, 11, 5]])
    values = numbers(chosen.shape, np.float32, seed=1)
    target, source, index = (DeviceArray(device, each, order=(1, 0)) for each in (array, values, chosen))
    selection = indexing.flat(target.layout, index.layout)
    result = accumulate(device, "sum", selection, target, source, index, deterministic=deterministic)
    np.testing.assert_array_equal(
        result, expected("sum", array, np.unravel_index(chosen % 12, (3, 4)), values)
    )


@pytest.mark.parametrize("rows", [1, 300, 40000], ids=lambda each: f"{each} rows")
def test_segments_across_chunks(device: drv.Device, rows: int) -> None:
    """Lists of 2500 positions become lists of 158, of 10, and one chunk."""
    array, values = numbers((rows, 3), np.float32), numbers((2500, 3), np.float32, seed=1)
    chosen = np.random.default_rng(3).integers(0, rows, 2500)
    chosen[:200] = rows - 1
    target, source, index = (DeviceArray(device, each) for each in (array, values, chosen))
    selection = indexing.along(target.layout, 0, index.layout)
    result = accumulate(device, "sum", selection, target, source, index, deterministic=True)
    np.testing.assert_array_equal(result, expected("sum", array, chosen, values))


@pytest.mark.parametrize(
    "lengths", [[31, 1], [32], [32, 32], [33, 31], [1, 64, 1], [64, 5], [40, 24, 32, 96, 1]]
)
def test_segments_that_end_where_chunks_do(device: drv.Device, lengths: list[int]) -> None:
    chosen = np.repeat(np.arange(len(lengths)), lengths)
    values = numbers(chosen.shape, np.float64, seed=1)
    array = numbers((len(lengths),), np.float64)
    target, source, index = (DeviceArray(device, each) for each in (array, values, chosen))
    selection = indexing.along(target.layout, 0, index.layout)
    result = accumulate(device, "sum", selection, target, source, index, deterministic=True)
    np.testing.assert_array_equal(result, expected("sum", array, chosen, values))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_the_same_in_every_run(device: drv.Device, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    values, chosen = rng.standard_normal((700, 2)).astype(dtype), rng.integers(0, 3, 700)
    source, index = DeviceArray(device, values), DeviceArray(device, chosen)
    results = []
    for _ in range(2):
        target = DeviceArray(device, np.zeros((3, 2), dtype))
        selection = indexing.along(target.layout, 0, index.layout)
        results.append(accumulate(device, "sum", selection, target, source, index, deterministic=True))
    assert results[0].tobytes() == results[1].tobytes()
    exact = np.zeros((3, 2), np.complex128)
    np.add.at(exact, chosen, values.astype(np.complex128))
    np.testing.assert_allclose(
        results[0].astype(np.complex128), exact, rtol=1e-3 if dtype is np.float16 else 1e-6, atol=1e-5
    )


def test_half_precision_is_rounded_once(device: drv.Device) -> None:
    for dtype, total in ((dtypes.float16, 3000), (dtypes.bfloat16, 3008)):
        target, source = (
            DeviceArray(device, each.astype(dtype.numpy)) for each in (np.zeros(1), np.ones(3000))
        )
        index = DeviceArray(device, np.zeros(3000, np.int64))
        selection = indexing.along(target.layout, 0, index.layout)
        assert accumulate(device, "sum", selection, target, source, index, deterministic=True) == total


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda each: each.name)
@pytest.mark.sampled(4)
def test_counts(device: drv.Device, dtype: dtypes.dtype) -> None:
    chosen = np.array([0, 2, 2, -1, 2])
    index, target = DeviceArray(device, chosen), DeviceArray(device, np.ones((4, 3), dtype.numpy))
    selection = indexing.advanced(target.layout, [index.layout])
    result = accumulate(device, "count", selection, target, None, index)
    np.testing.assert_array_equal(result, np.array([[2], [1], [4], [2]]).astype(dtype.numpy).repeat(3, 1))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.complex128])
def test_the_last_value(device: drv.Device, dtype: Any) -> None:
    array, chosen = numbers((6, 5), dtype), np.array([4, 1, 4, 4, -6, 1])
    values = numbers((6, 5), dtype, seed=1)
    target, source, index = (DeviceArray(device, each) for each in (array, values, chosen))
    selection = indexing.advanced(target.layout, [index.layout])
    array[chosen] = values
    np.testing.assert_array_equal(accumulate(device, "last", selection, target, source, index), array)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("reducer", ["amax", "amin"])
def test_extremes_of_what_is_no_number(device: drv.Device, reducer: str, dtype: dtypes.dtype) -> None:
    array = np.array([1.0, np.nan, -np.inf, np.inf, -1.0, 5.0]).astype(dtype.numpy)
    values = np.array([np.nan, 3.0, np.inf, -np.inf, -0.0, 0.0]).astype(dtype.numpy)
    for deterministic in (False, True):
        target, source = DeviceArray(device, array), DeviceArray(device, values)
        index = DeviceArray(device, np.arange(6))
        selection = indexing.along(target.layout, 0, index.layout)
        result = accumulate(device, reducer, selection, target, source, index, deterministic=deterministic)
        np.testing.assert_array_equal(
            result.astype(float), UFUNCS[reducer](array.astype(float), values.astype(float))
        )


def test_values_of_another_type(device: drv.Device) -> None:
    chosen, values = np.array([1, 1, 0]), np.array([1.5, 2.25, -3.0], np.float32)
    source, index = DeviceArray(device, values), DeviceArray(device, chosen)
    for deterministic in (False, True):
        target = DeviceArray(device, np.zeros(2, np.float16))
        selection = indexing.along(target.layout, 0, index.layout)
        result = accumulate(device, "sum", selection, target, source, index, deterministic=deterministic)
        assert result.tolist() == [-3.0, 3.75]


def test_stretched_values(device: drv.Device) -> None:
    array, chosen = numbers((4, 6), np.float32), np.array([1, 1, 3])
    row = np.broadcast_to(numbers((6,), np.float32, seed=1), (3, 6))
    source, index = DeviceArray(device, row, stretch=[0]), DeviceArray(device, chosen)
    for deterministic in (False, True):
        target = DeviceArray(device, array)
        selection = indexing.advanced(target.layout, [index.layout])
        result = accumulate(device, "sum", selection, target, source, index, deterministic=deterministic)
        np.testing.assert_array_equal(result, expected("sum", array, chosen, row))


@pytest.mark.parametrize("deterministic", [False, True], ids=["atomic", "deterministic"])
def test_without_dimensions_and_without_elements(device: drv.Device, deterministic: bool) -> None:
    zero, none = DeviceArray(device, np.array(0)), DeviceArray(device, np.zeros(0, np.int64))
    for kind in (indexing.along, indexing.elementwise):
        target, value = DeviceArray(device, np.array(7.0)), DeviceArray(device, np.array([3.0]))
        selection = kind(target.layout, 0, zero.layout)
        assert accumulate(device, "sum", selection, target, value, zero, deterministic=deterministic) == 10
        selection = kind(target.layout, 0, none.layout)
        assert accumulate(device, "sum", selection, target, value, none, deterministic=deterministic) == 10


@pytest.mark.parametrize("deterministic", [False, True], ids=["atomic", "deterministic"])
def test_offsets_that_need_64_bits(device: drv.Device, deterministic: bool) -> None:
    values, chosen = np.arange(1.0, 71.0).reshape(1, 70), np.arange(70) % 3
    source, index = DeviceArray(device, values), DeviceArray(device, chosen)
    target = DeviceArray(device, np.zeros((2, 4)))
    selection = indexing.along(((1, 4), (1 << 40, 1), target.dtype), 1, index.layout)
    result = accumulate(device, "sum", selection, target, source, index, deterministic=deterministic)
    np.testing.assert_array_equal(result[0, :3], [values[0, first::3].sum() for first in range(3)])


def test_keys_that_need_64_bits(device: drv.Device) -> None:
    """A tensor of 2**34 elements, of which three are there."""
    target, source = (
        DeviceArray(device, np.zeros(3, np.float32)),
        DeviceArray(device, np.arange(1, 5, dtype=np.float32)),
    )
    index = DeviceArray(device, np.array([1, 0, 2, 1]))
    selection = indexing.flat(((1 << 34,), (1,), target.dtype), index.layout)
    assert accumulate(device, "sum", selection, target, source, index, deterministic=True).tolist() == [
        2,
        5,
        3,
    ]
    assert accumulate(device, "sum", selection, target, source, index).tolist() == [4, 10, 6]


@pytest.mark.parametrize("deterministic", [False, True], ids=["atomic", "deterministic"])
@pytest.mark.parametrize("bad", [4, -1])
def test_an_index_out_of_bounds(bad: int, deterministic: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with drv.simulator.installed(check="full"):
        device = drv.Device(0)
        target, source = (DeviceArray(device, np.zeros(shape, np.float32)) for shape in ((4, 2), (3, 2)))
        index = DeviceArray(device, np.array([0, bad, 1]))
        selection = indexing.along(target.layout, 0, index.layout)
        with pytest.raises(drv.DeviceAssertError, match=r"index_put\(\): index out of bounds"):
            accumulate(device, "sum", selection, target, source, index, deterministic=deterministic)
    said = f"index_put(): index {bad} is out of bounds for dimension 0 with size 4"
    assert said in "".join(capfd.readouterr())


def test_what_there_is_not(device: drv.Device) -> None:
    selection = indexing.flat(((4,), (1,), dtypes.complex64), ((2,), (1,), dtypes.int64))
    with pytest.raises(ValueError, match="one of sum, prod, amax, amin, count, last, 'mean' was given"):
        accumulation.plan(device, "scatter_reduce", "mean", selection, ((1,), dtypes.complex64))
    with pytest.raises(TypeError, match="complex numbers .* have no order"):
        accumulation.plan(device, "scatter_reduce", "amax", selection, ((1,), dtypes.complex64))
    with pytest.raises(ValueError, match="'count' has no values"):
        accumulation.plan(device, "scatter_reduce", "count", selection, ((1,), dtypes.complex64))
