"""Moves and triangles against NumPy: every size of words, orders of dimensions, and wide offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nvrtc_kernels import dtypes, rearrangement

from .device_arrays import DeviceArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    import drv

#: How two arrays of three dimensions lie in memory.
LAYOUTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "contiguous": ({}, {}),
    "turned": ({"order": (2, 1, 0)}, {"order": (2, 1, 0)}),
    "one turned": ({}, {"order": (0, 2, 1)}),
    "gaps": ({"gap": 1}, {}),
    "unaligned": ({"lead": 1}, {}),
    "source unaligned": ({}, {"lead": 3}),
    "stretched": ({}, {"stretch": (1,)}),
}


def numbers(shape: Sequence[int], kind: Any = np.uint8) -> np.ndarray:
    count = int(np.prod(shape))
    return np.random.default_rng(count).integers(1, 120, count).astype(kind).reshape(shape)


def move(
    device: drv.Device, array: np.ndarray, layout: str = "contiguous", **moves: Sequence[int]
) -> np.ndarray:
    to, origin = LAYOUTS[layout]
    source = DeviceArray(device, array, **origin)
    result = DeviceArray(device, np.zeros_like(array), **to)
    run = rearrangement.plan_move(
        device, "move", array.shape, source.dtype, result.strides, source.strides, **moves
    )
    run(device.default_stream.handle, result.address, source.address)
    device.synchronize()
    return result.numpy_array()


def band(
    device: drv.Device, array: np.ndarray, diagonal: int, upper: bool, layout: str = "contiguous"
) -> np.ndarray:
    to, origin = LAYOUTS[layout]
    source = DeviceArray(device, array, **origin)
    result = DeviceArray(device, np.ones_like(array), **to)
    run = rearrangement.plan_band(
        device, "band", array.shape, source.dtype, result.strides, source.strides, diagonal, upper=upper
    )
    run(device.default_stream.handle, result.address, source.address)
    device.synchronize()
    return result.numpy_array()


def same_along_the_second(array: np.ndarray, layout: str) -> np.ndarray:
    return np.broadcast_to(array[:, :1], array.shape) if layout == "stretched" else array


@pytest.mark.parametrize("layout", LAYOUTS)
def test_flips(device: drv.Device, layout: str) -> None:
    array = same_along_the_second(numbers((3, 4, 16)), layout)
    for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2), ()):
        np.testing.assert_array_equal(move(device, array, layout, flipped=axes), np.flip(array, axes))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rolls(device: drv.Device, layout: str) -> None:
    array = same_along_the_second(numbers((3, 4, 16)), layout)
    for shifts in ((0, 0, 8), (0, 0, 5), (1, 0, 0), (0, 3, 4), (2, 1, 15), (-1, 9, 0), (0, 0, 0)):
        expected = np.roll(array, shifts, (0, 1, 2))
        np.testing.assert_array_equal(move(device, array, layout, shifts=shifts), expected)


def test_a_dimension_may_be_flipped_while_another_rolls(device: drv.Device) -> None:
    array = numbers((3, 4, 16))
    expected = np.roll(np.flip(array, 2), (1, 2), (0, 1))
    np.testing.assert_array_equal(move(device, array, flipped=(2,), shifts=(1, 2, 0)), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_triangles(device: drv.Device, layout: str) -> None:
    array = same_along_the_second(numbers((2, 6, 16)), layout)
    for diagonal in (0, 3, -2, 15, 16, -6, 1 << 40, -(1 << 40)):
        at = max(min(diagonal, 20), -20)
        np.testing.assert_array_equal(band(device, array, diagonal, False, layout), np.tril(array, at))
        np.testing.assert_array_equal(band(device, array, diagonal, True, layout), np.triu(array, at))


@pytest.mark.parametrize("dtype", dtypes.EVERY, ids=lambda each: each.name)
def test_every_type(device: drv.Device, dtype: dtypes.dtype) -> None:
    array = numbers((2, 5, 16), dtype.numpy)
    assert (move(device, array, flipped=(1, 2)) == np.flip(array, (1, 2))).all()
    assert (move(device, array, shifts=(0, 2, 8)) == np.roll(array, (2, 8), (1, 2))).all()
    assert (band(device, array, 2, False) == np.tril(array, 2)).all()


def test_numbers_of_64_bits(device: drv.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rearrangement, "_SMALL", 0)
    array = numbers((3, 4, 16), np.float32)
    for layout in ("contiguous", "one turned"):
        np.testing.assert_array_equal(move(device, array, layout, flipped=(0, 2)), np.flip(array, (0, 2)))
        np.testing.assert_array_equal(
            move(device, array, layout, shifts=(1, 0, 4)), np.roll(array, (1, 4), (0, 2))
        )
        np.testing.assert_array_equal(band(device, array, 1, False, layout), np.tril(array, 1))
        np.testing.assert_array_equal(band(device, array, -1, True, layout), np.triu(array, -1))


def test_several_words_of_a_thread(device: drv.Device) -> None:
    array = numbers((9, 129, 131), np.int16)
    np.testing.assert_array_equal(move(device, array, flipped=(1,)), np.flip(array, 1))
    np.testing.assert_array_equal(band(device, array, 5, False), np.tril(array, 5))


def test_nothing_and_one_element(device: drv.Device) -> None:
    for shape in ((2, 0, 3), (1, 1, 1)):
        array = numbers(shape)
        np.testing.assert_array_equal(move(device, array, flipped=(0, 1, 2)), array)
        np.testing.assert_array_equal(band(device, array, 0, True), array)
        np.testing.assert_array_equal(band(device, array, -1, False), array * 0)
