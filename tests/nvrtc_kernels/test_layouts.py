"""Shapes and strides against NumPy's own strided arrays."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvrtc_kernels import layouts

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@st.composite
def views(draw: st.DrawFn) -> np.ndarray:
    """A view of an arange that is sliced, transposed and expanded."""
    array = np.arange(prod(shape := draw(shapes))).reshape(shape)
    for axis in range(array.ndim):
        step = draw(st.sampled_from([1, 1, 2, -1]))
        array = array[(slice(None),) * axis + (slice(None, None, step),)]
    array = array.transpose(draw(st.permutations(range(array.ndim))))
    if draw(st.booleans()):
        array = np.broadcast_to(array, (draw(st.integers(1, 3)), *array.shape))
    return array


def strides_of(array: np.ndarray) -> tuple[int, ...]:
    return tuple(stride // array.itemsize for stride in array.strides)


@given(views())
def test_contiguity_is_numpys(array: np.ndarray) -> None:
    assert layouts.is_contiguous(array.shape, strides_of(array)) == array.flags.c_contiguous


@given(shapes)
def test_contiguous_strides_are_contiguous(shape: tuple[int, ...]) -> None:
    strides = layouts.contiguous_strides(shape)
    assert layouts.is_contiguous(shape, strides)
    assert layouts.is_dense(shape, strides)


@given(views())
def test_extent_covers_exactly_the_elements_touched(array: np.ndarray) -> None:
    low, high = layouts.extent(array.shape, strides_of(array))
    if array.size == 0:
        assert (low, high) == (0, 0)
    else:
        first = array[(0,) * array.ndim]
        base = np.lib.stride_tricks.as_strided(array, (1,), (0,))
        assert base[0] == first
        start, stop = np.lib.array_utils.byte_bounds(array)
        pointer = array.__array_interface__["data"][0]
        assert (low, high) == ((start - pointer) // array.itemsize, (stop - pointer) // array.itemsize)


@given(views())
def test_collapsed_walk_visits_the_same_elements_in_the_same_order(array: np.ndarray) -> None:
    shape, (strides,) = layouts.collapse(array.shape, strides_of(array))
    assert 1 not in shape or shape == (1,)
    if array.size:
        walked = np.lib.stride_tricks.as_strided(
            array, shape, [stride * array.itemsize for stride in strides]
        )
        assert walked.ravel().tolist() == array.ravel().tolist()


def test_collapse_keeps_dimensions_that_one_operand_cannot_merge() -> None:
    assert layouts.collapse((2, 3, 4), (12, 4, 1), (12, 4, 1)) == ((24,), ((1,), (1,)))
    assert layouts.collapse((2, 3, 4), (12, 4, 1), (0, 4, 1)) == ((2, 12), ((12, 1), (0, 1)))


@given(views(), shapes)
def test_a_view_stride_shows_the_same_elements(array: np.ndarray, new: tuple[int, ...]) -> None:
    if prod(new) != array.size:
        new = (array.size,)
    strides = layouts.view_strides(array.shape, strides_of(array), new)
    if strides is not None and array.size:
        seen = np.lib.stride_tricks.as_strided(array, new, [stride * array.itemsize for stride in strides])
        assert seen.ravel().tolist() == array.ravel().tolist()
    if array.flags.c_contiguous:
        assert strides is not None


@given(st.lists(shapes, max_size=3))
def test_broadcast_is_numpys(given_shapes: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(RuntimeError, match="must match the size"):
            layouts.broadcast_shapes(*given_shapes)
        return
    assert layouts.broadcast_shapes(*given_shapes) == expected
    for shape in given_shapes:
        strides = layouts.contiguous_strides(shape)
        wide = layouts.broadcast_strides(shape, strides, expected)
        assert all(t == 0 or s == w for t, s, w in zip(wide[::-1], shape[::-1], expected[::-1], strict=False))


@pytest.mark.parametrize(
    ("shape", "count", "expected"),
    [((-1,), 6, (6,)), ((2, -1), 6, (2, 3)), ((0, 3), 0, (0, 3)), ((-1, 3), 0, (0, 3)), ((), 1, ())],
)
def test_infer_size(shape: tuple[int, ...], count: int, expected: tuple[int, ...]) -> None:
    assert layouts.infer_size(shape, count) == expected


@pytest.mark.parametrize(
    ("shape", "count", "message"),
    [
        ((-1, -1), 4, "only one dimension"),
        ((-2, 2), 4, "invalid shape dimension -2"),
        ((3, -1), 4, "is invalid for input of size 4"),
        ((5,), 4, "is invalid for input of size 4"),
        ((0, -1), 0, "ambiguous"),
        ((0, -1), 3, "is invalid for input of size 3"),
    ],
)
def test_infer_size_says_what_is_wrong(shape: tuple[int, ...], count: int, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        layouts.infer_size(shape, count)
