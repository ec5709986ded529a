"""Writes through index tensors against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import drv
from nvrtc_kernels import dtypes, indexing, scattering

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvrtc_kernels.indexing import Selection


def write(
    device: drv.Device,
    selection: Selection,
    target: DeviceArray,
    values: DeviceArray | complex,
    *indices: DeviceArray,
) -> np.ndarray:
    """``values`` over what is chosen of ``target``."""
    tensor = isinstance(values, DeviceArray)
    run = scattering.plan(device, "index_put", selection, values.strides if tensor else None)
    argument = values.address if tensor else values
    run(device.default_stream.handle, target.address, argument, *(each.address for each in indices))
    device.synchronize()
    return target.numpy_array()


def numbers(shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
    """Different bytes in every element, as far as its type has so many values."""
    count = int(np.prod(shape))
    return np.random.default_rng(count).integers(0, 120, count).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", dtypes.EVERY, ids=lambda each: each.name)
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.sampled(4)
def test_rows_of_every_type(device: drv.Device, dtype: dtypes.dtype, index: Any) -> None:
    array, values = numbers((7, 12), dtype.numpy), numbers((4, 12), dtype.numpy)
    rows = np.array([3, 0, -1, -5], index)
    expected = array.copy()
    expected[rows] = values
    argument = DeviceArray(device, rows)
    for layout in ({}, {"order": (1, 0)}):
        target, source = DeviceArray(device, array), DeviceArray(device, values, **layout)
        selection = indexing.advanced(target.layout, [argument.layout])
        assert (write(device, selection, target, source, argument) == expected).all()
    expected[rows] = 1
    assert (write(device, selection, target, 1, argument) == expected).all()


FIRST = np.array([[1, -1, 0], [2, 2, 1]])
SECOND = np.array([0, 3, -2])
THIRD = np.array([[4], [1]])


@pytest.mark.parametrize(
    "indices",
    [(SECOND,), (None, None, SECOND), (FIRST, SECOND), (None, SECOND, THIRD), (SECOND, None, THIRD, None)],
    ids=["rows", "columns", "pairs", "inner", "apart"],
)
@pytest.mark.parametrize("of", [{}, {"order": (3, 1, 0, 2)}, {"gap": 1, "lead": 1}])
def test_any_number_of_index_tensors(device: drv.Device, indices: Any, of: dict[str, Any]) -> None:
    array = numbers((4, 5, 6, 5), np.int32)
    devices = tuple(slice(None) if each is None else each for each in indices)
    values = -numbers(array[devices].shape, np.int32)
    expected = array.copy()
    expected[devices] = values
    tensors = [None if each is None else DeviceArray(device, each) for each in indices]
    target, source = (
        DeviceArray(device, array, **of),
        DeviceArray(device, values, order=range(values.ndim)[::-1]),
    )
    selection = indexing.advanced(target.layout, [None if each is None else each.layout for each in tensors])
    assert (write(device, selection, target, source, *filter(None, tensors)) == expected).all()
    expected[devices] = -7
    assert (write(device, selection, target, -7, *filter(None, tensors)) == expected).all()


def test_stretched_values(device: drv.Device) -> None:
    array, index = numbers((6, 8)), np.array([5, 2, 2])
    target, argument = DeviceArray(device, array), DeviceArray(device, index)
    row = DeviceArray(device, np.broadcast_to(numbers((8,)), (3, 8)), stretch=[0])
    expected = array.copy()
    expected[index] = numbers((8,))
    selection = indexing.advanced(target.layout, [argument.layout])
    assert (write(device, selection, target, row, argument) == expected).all()


@pytest.mark.parametrize("dim", [0, 1])
def test_along_a_dimension_and_for_every_element(device: drv.Device, dim: int) -> None:
    array, slices = numbers((6, 7), np.int16), np.array([5, 0, 2])
    values = numbers((6, 3) if dim else (3, 7), np.int16)
    target, argument = DeviceArray(device, array, gap=1), DeviceArray(device, slices.astype(np.int32))
    selection = indexing.along(target.layout, dim, argument.layout)
    expected = array.copy()
    expected[(slice(None), slices) if dim else slices] = values
    assert (write(device, selection, target, DeviceArray(device, values), argument) == expected).all()

    index = np.stack([np.random.default_rng(i).permutation(6)[:4] for i in range(5)], 1 - dim)
    target, argument = DeviceArray(device, array), DeviceArray(device, index, order=(1, 0))
    values = numbers(index.shape, np.int16)
    selection = indexing.elementwise(target.layout, dim, argument.layout)
    expected = array.copy()
    part = expected[:5] if dim else expected[:, :5]
    np.put_along_axis(part, index, values, dim)
    assert (write(device, selection, target, DeviceArray(device, values), argument) == expected).all()


def test_row_major_places(device: drv.Device) -> None:
    array, index, values = (
        numbers((3, 4), np.float64),
        np.array([[0, -1], [7, 5]]),
        numbers((2, 2), np.float64),
    )
    target, argument = DeviceArray(device, array, order=(1, 0)), DeviceArray(device, index)
    selection = indexing.flat(target.layout, argument.layout)
    expected = array.copy()
    np.put(expected, index, values)
    assert (write(device, selection, target, DeviceArray(device, values), argument) == expected).all()


def test_addresses_between_words(device: drv.Device) -> None:
    array, values, rows = numbers((9, 16), np.float16), numbers((2, 16), np.float16), np.array([8, 3])
    argument = DeviceArray(device, rows)
    expected = array.copy()
    expected[rows] = values
    for leads in ((1, 0), (0, 1), (4, 4)):
        target, source = (
            DeviceArray(device, each, lead=lead) for each, lead in zip((array, values), leads, strict=True)
        )
        selection = indexing.advanced(target.layout, [argument.layout])
        assert (write(device, selection, target, source, argument) == expected).all()
        assert (write(device, selection, target, 2.5, argument)[rows] == 2.5).all()


def test_many_elements(device: drv.Device) -> None:
    array, index = np.zeros((400, 90), np.uint8), np.random.default_rng(0).permutation(400)
    values = numbers((400, 90), np.uint8)
    target, argument = DeviceArray(device, array), DeviceArray(device, index)
    selection = indexing.advanced(target.layout, [argument.layout])
    result = write(device, selection, target, DeviceArray(device, values), argument)
    assert (result[index] == values).all()


def test_without_dimensions_and_without_elements(device: drv.Device) -> None:
    zero, none = DeviceArray(device, np.array(0)), DeviceArray(device, np.zeros(0, np.int64))
    for kind in (indexing.along, indexing.elementwise):
        target, value = DeviceArray(device, np.array(7.0)), DeviceArray(device, np.array([3.0]))
        assert write(device, kind(target.layout, 0, zero.layout), target, value, zero) == 3.0
        assert write(device, kind(target.layout, 0, none.layout), target, value, none) == 3.0
        assert write(device, kind(target.layout, 0, none.layout), target, 5.0, none) == 3.0


def test_offsets_that_need_64_bits(device: drv.Device) -> None:
    target, index = DeviceArray(device, np.zeros((2, 4))), DeviceArray(device, np.array([2, -3]))
    far = (1, 4), (1 << 40, 1), target.dtype
    selection = indexing.along(far, 1, index.layout, wrap=True)
    values = DeviceArray(device, np.array([[4.0, 5.0]]))
    assert write(device, selection, target, values, index).tolist() == [[0, 5, 4, 0], [0] * 4]
    assert write(device, selection, target, 6, index).tolist() == [[0, 6, 6, 0], [0] * 4]


def test_a_number_as_bytes(device: drv.Device) -> None:
    target, index = DeviceArray(device, np.zeros(4, np.complex128)), DeviceArray(device, np.array([2]))
    selection = indexing.advanced(target.layout, [index.layout])
    write(device, selection, target, np.complex128(1 + 2j).tobytes(), index)
    assert target.numpy_array()[2] == 1 + 2j


@pytest.mark.parametrize("fill", [True, False])
def test_an_index_out_of_bounds(fill: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with drv.simulator.installed(check="full"):
        device = drv.Device(0)
        target, index = DeviceArray(device, numbers((2, 5))), DeviceArray(device, np.array([0, 9]))
        selection = indexing.flat(target.layout, index.layout)
        index = DeviceArray(device, np.array([0, 10]))
        values = 1.0 if fill else DeviceArray(device, np.ones(2, np.float32))
        with pytest.raises(drv.DeviceAssertError, match=r"index_put\(\): index out of bounds"):
            write(device, selection, target, values, index)
    said = "index_put(): index 10 is out of bounds for tensor with 10 elements"
    assert said in "".join(capfd.readouterr())
