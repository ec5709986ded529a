"""Reads through index tensors against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
from nvrtc_kernels import dtypes, gathering, indexing

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.indexing import Selection


def read(
    device: drv.Device,
    operation: str,
    selection: Selection,
    source: DeviceArray,
    *indices: DeviceArray,
    **out: Any,
) -> np.ndarray:
    result = DeviceArray(device, np.zeros(selection.shape, source.numpy), **out)
    run = gathering.plan(device, operation, selection, result.strides)
    run(device.default_stream.handle, result.address, source.address, *(each.address for each in indices))
    device.synchronize()
    return result.numpy_array()


def numbers(shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
    """Different bytes in every element, as far as its type has so many values."""
    count = int(np.prod(shape))
    return np.random.default_rng(count).integers(0, 120, count).astype(dtype).reshape(shape)


def advanced(
    device: drv.Device,
    array: np.ndarray,
    indices: Sequence[np.ndarray | None],
    out: dict[str, Any] | None = None,
    **of: Any,
) -> np.ndarray:
    source = DeviceArray(device, array, **of)
    argument = [None if each is None else DeviceArray(device, each) for each in indices]
    selection = indexing.advanced(source.layout, [None if each is None else each.layout for each in argument])
    tensors = [each for each in argument if each is not None]
    return read(device, "index", selection, source, *tensors, **(out or {}))


@pytest.mark.parametrize("dtype", dtypes.EVERY, ids=lambda each: each.name)
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.sampled(4)
def test_rows_of_every_type(device: drv.Device, dtype: dtypes.dtype, index: Any) -> None:
    array = numbers((7, 12), dtype.numpy)
    rows = np.array([3, 0, -1, 3, 6, -7], index)
    assert (advanced(device, array, [rows]) == array[rows]).all()


FIRST = np.array([[1, -1, 0], [2, 2, 1]])
SECOND = np.array([0, 3, -2])
THIRD = np.array([[4], [1]])


@pytest.mark.parametrize(
    "indices",
    [
        (FIRST,),
        (None, FIRST),
        (None, None, FIRST),
        (FIRST, SECOND),
        (None, SECOND, THIRD),
        (FIRST, None, THIRD),
        (FIRST, SECOND, THIRD),
        (FIRST, None, SECOND, None),
        (None, FIRST, None, THIRD),
        (np.array(1),),
        (None, np.array(-1), SECOND),
    ],
    ids=lambda each: "-".join("whole" if i is None else "x".join(map(str, i.shape)) or "0d" for i in each),
)
@pytest.mark.parametrize("of", [{}, {"order": (3, 1, 0, 2)}, {"gap": 1, "lead": 1}, {"order": (2, 0, 1, 3)}])
@pytest.mark.sampled(4)
def test_any_number_of_index_tensors(device: drv.Device, indices: Any, of: dict[str, Any]) -> None:
    array = numbers((4, 5, 6, 5), np.int32)
    expected = array[tuple(slice(None) if each is None else each for each in indices)]
    result = advanced(device, array, indices, {"order": tuple(range(expected.ndim))[::-1]}, **of)
    assert result.shape == expected.shape
    assert (result == expected).all()
    assert (advanced(device, array, indices, **of) == expected).all()


def along(device: drv.Device, array: np.ndarray, dim: int, index: np.ndarray, **of: Any) -> np.ndarray:
    source, argument = DeviceArray(device, array, **of), DeviceArray(device, index)
    selection = indexing.along(source.layout, dim, argument.layout)
    return read(device, "index_select", selection, source, argument)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("of", [{}, {"order": (2, 0, 1)}, {"gap": 2}])
def test_slices_along_a_dimension(device: drv.Device, dim: int, of: dict[str, Any]) -> None:
    array, index = numbers((5, 6, 8)), np.array([4, 0, 0, 2], np.int32)
    assert (along(device, array, dim, index, **of) == np.take(array, index, dim)).all()


def test_many_rows(device: drv.Device) -> None:
    array, index = numbers((9, 520), np.float64), np.arange(150) * 7 % 9
    assert (along(device, array, 0, index) == array[index]).all()


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("of", [{}, {"order": (1, 0)}, {"gap": 1}])
def test_an_index_for_every_element(device: drv.Device, dim: int, of: dict[str, Any]) -> None:
    array = numbers((6, 7), np.int64)
    index = np.arange(5 * 6).reshape(5, 6) * 5 % 6
    source, argument = DeviceArray(device, array, **of), DeviceArray(device, index, order=(1, 0))
    selection = indexing.elementwise(source.layout, dim, argument.layout)
    part = array[:, :6] if dim == 0 else array[:5]
    assert (read(device, "gather", selection, source, argument) == np.take_along_axis(part, index, dim)).all()


@pytest.mark.parametrize("of", [{}, {"order": (1, 0, 2)}, {"gap": 1}])
def test_row_major_places(device: drv.Device, of: dict[str, Any]) -> None:
    array, index = numbers((3, 4, 5), np.int16), np.array([[0, -1, 17], [-60, 59, 42]])
    source, argument = DeviceArray(device, array, **of), DeviceArray(device, index)
    selection = indexing.flat(source.layout, argument.layout)
    assert (read(device, "take", selection, source, argument) == array.reshape(-1)[index]).all()


def test_without_dimensions(device: drv.Device) -> None:
    array, zero = np.array(7.0), np.array(0)
    for kind in (indexing.along, indexing.elementwise):
        source, argument = DeviceArray(device, array), DeviceArray(device, zero)
        selection = kind(source.layout, 0, argument.layout)
        assert read(device, "gather", selection, source, argument).tolist() == [7.0]
    source, argument = DeviceArray(device, array), DeviceArray(device, zero)
    assert read(device, "take", indexing.flat(source.layout, argument.layout), source, argument) == 7.0


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_nothing_chosen(device: drv.Device, shape: tuple[int, ...]) -> None:
    array, index = numbers((3, 4)), np.zeros(shape, np.int64)
    assert advanced(device, array, [index]).shape == (*shape, 4)
    assert advanced(device, np.zeros((0, 4)), [index]).shape == (*shape, 4)


def test_offsets_that_need_64_bits(device: drv.Device) -> None:
    source = DeviceArray(device, numbers((2, 4)))
    index = DeviceArray(device, np.array([0, -3, 0]))
    far = (3, 4), (1 << 32, 1), source.dtype
    result = read(device, "index", indexing.advanced(far, [index.layout]), source, index)
    assert (result == numbers((2, 4))[[0, 0, 0]]).all()
    sparse = (1, 4), (1 << 40, 1), source.dtype
    column = DeviceArray(device, np.array([3, 1]))
    for selection in (indexing.flat(sparse, column.layout), indexing.along(sparse, 1, column.layout)):
        assert (read(device, "index", selection, source, column).ravel() == numbers((2, 4))[0, [3, 1]]).all()


@pytest.mark.parametrize(("bad", "wrap"), [(5, True), (-6, True), (-1, False)])
def test_an_index_out_of_bounds(bad: int, wrap: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with drv.simulator.installed(check="full"):
        device = drv.Device(0)
        source, index = DeviceArray(device, numbers((2, 5))), DeviceArray(device, np.array([0, bad]))
        selection = indexing.along(source.layout, 1, index.layout, wrap=wrap)
        with pytest.raises(drv.DeviceAssertError, match="index_select") as raised:
            read(device, "index_select", selection, source, index)
        assert "assert" in str(raised.value)
    said = f"index_select(): index {bad} is out of bounds for dimension 1 with size 5"
    assert said in "".join(capfd.readouterr())


def test_indices_that_do_not_fit() -> None:
    array, index = ((3, 4), (4, 1), dtypes.float32), ((2,), (1,), dtypes.int64)
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 2"):
        indexing.advanced(array, [index, index, index])
    with pytest.raises(IndexError, match="could not be broadcast"):
        indexing.advanced(array, [index, ((3,), (1,), dtypes.int64)])
    with pytest.raises(TypeError, match="int32 or all int64"):
        indexing.flat(array, ((2,), (1,), dtypes.bool_))
    with pytest.raises(IndexError, match="0 or 1 dimensions"):
        indexing.along(array, 0, array[:2] + (dtypes.int64,))
    with pytest.raises(RuntimeError, match="same number of dimensions"):
        indexing.elementwise(array, 0, index)
    with pytest.raises(RuntimeError, match="does not match at dimension 1"):
        indexing.elementwise(array, 0, ((2, 5), (5, 1), dtypes.int64))
