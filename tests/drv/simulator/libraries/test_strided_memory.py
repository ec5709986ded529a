"""Strided arrays in simulated memory: the right elements, and no byte beside them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from drv.simulator.faults import DeviceFault
from drv.simulator.libraries.strided_memory import load, store

BASE = 4096


class RecordingMemory:
    """Bytes from ``BASE`` on; remembers which were touched."""

    def __init__(self, nbytes: int) -> None:
        self.data = np.random.default_rng(0).integers(0, 256, nbytes).astype(np.uint8)
        self.touched = np.zeros(nbytes, bool)
        self.calls = 0

    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        return self.read_rows(address, 1, nbytes, nbytes)[0]

    def read_rows(self, address: int, rows: int, row_bytes: int, pitch: int) -> NDArray[np.uint8]:
        self.calls += 1
        start = address - BASE
        assert start >= 0
        assert start + (rows - 1) * pitch + row_bytes <= self.data.size
        as_strided(self.touched[start:], (rows, row_bytes), (pitch, 1))[...] = True
        return as_strided(self.data[start:], (rows, row_bytes), (pitch, 1))

    write = read
    write_rows = read_rows


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    if draw(st.booleans()):
        strides = tuple(draw(st.integers(0, 20)) for _ in range(rank))
    else:
        # As a view of a padded array, in some order of the axes.
        order = draw(st.permutations(range(rank)))
        steps, step = [0] * rank, draw(st.integers(1, 2))
        for axis in order:
            steps[axis] = step
            step *= shape[axis] + draw(st.integers(0, 1))
        strides = tuple(steps)
    return shape, strides, draw(st.sampled_from([1, 2, 4, 8, 16]))


def element_offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    return [
        sum(i * step for i, step in zip(index, strides, strict=True)) for index in product(*map(range, shape))
    ]


_DTYPES: dict[int, Any] = {1: np.int8, 2: np.uint16, 4: np.int32, 8: np.uint64, 16: np.complex128}


@settings(max_examples=300, deadline=None)
@given(layout=layouts())
def test_elements_and_only_they_are_touched(layout: tuple[tuple[int, ...], tuple[int, ...], int]) -> None:
    shape, strides, itemsize = layout
    dtype = np.dtype(_DTYPES[itemsize])
    offsets = element_offsets(shape, strides)
    memory = RecordingMemory((max(offsets) + 1) * itemsize)
    expected = memory.data.view(np.dtype((np.void, itemsize)))[offsets].tobytes()
    values = load(memory, BASE, dtype, shape, strides)  # type: ignore[arg-type]
    assert values.shape == shape
    assert values.tobytes() == expected
    touched = np.zeros(memory.touched.size // itemsize, bool)
    touched[offsets] = True
    np.testing.assert_array_equal(
        memory.touched.reshape(-1, itemsize), np.broadcast_to(touched[:, None], (len(touched), itemsize))
    )

    memory.touched[:] = False
    before = memory.data.copy()
    fresh = np.arange(len(offsets), dtype=np.int64).reshape(shape)
    store(memory, BASE, fresh.astype(dtype), strides)  # type: ignore[arg-type]
    elements, old = (raw.view(dtype) for raw in (memory.data, before))
    assert np.array_equal(memory.touched.reshape(-1, itemsize).all(axis=1), touched)
    assert elements[~touched].tobytes() == old[~touched].tobytes()
    if len(set(offsets)) == len(offsets):
        assert elements[offsets].tobytes() == fresh.astype(dtype).tobytes()


@pytest.mark.parametrize(
    ("shape", "strides", "calls"),
    [
        ((5, 6), (1, 5), 1),
        ((5, 6), (1, 9), 1),
        ((4, 5, 6), (54, 1, 9), 1),
        ((4, 5, 6), (30, 1, 5), 1),
        ((4, 5, 6), (0, 1, 9), 1),
        ((4, 5, 6), (60, 1, 9), 4),
        ((7, 8), (1, 7), 1),
        ((3, 7), (1, 3), 1),
    ],
)
def test_few_accesses(shape: tuple[int, ...], strides: tuple[int, ...], calls: int) -> None:
    memory = RecordingMemory(4 * (max(element_offsets(shape, strides)) + 1))
    load(memory, BASE, np.dtype(np.float32), shape, strides)  # type: ignore[arg-type]
    assert memory.calls == calls


def test_nothing_is_touched_for_no_elements() -> None:
    memory = RecordingMemory(1)
    assert load(memory, 3, np.dtype(np.float64), (0, 4), (1, 7)).shape == (0, 4)  # type: ignore[arg-type]
    store(memory, 3, np.empty((2, 0)), (1, 2))  # type: ignore[arg-type]
    assert memory.calls == 0


def test_misaligned_elements_are_a_fault() -> None:
    memory = RecordingMemory(64)
    with pytest.raises(
        DeviceFault, match="read of float64 elements at 0x1004, which is no multiple of 8 bytes"
    ):
        load(memory, BASE + 4, np.dtype(np.float64), (2,), (1,))  # type: ignore[arg-type]
    with pytest.raises(DeviceFault, match="write of float32"):
        store(memory, BASE + 2, np.zeros(2, np.float32), (1,))  # type: ignore[arg-type]
