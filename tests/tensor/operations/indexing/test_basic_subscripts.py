"""``x[...]`` and ``x[...] = value`` with ints, slices, ``...``, None and bools, against PyTorch."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drv
import tensor
from tests.tensor.comparison import array_of, assert_same_elements, assert_same_outcome, outcome, torch_dtype

QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
KINDS = ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]

SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=4).map(tuple)


def _slices(size: int) -> st.SearchStrategy[slice]:
    bound = st.none() | st.integers(-size - 2, size + 2) | st.sampled_from([2**62, -(2**62), 2**70])
    return st.builds(slice, bound, bound, st.none() | st.integers(1, 4) | st.sampled_from([0, -1]))


def keys(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """Keys for a tensor of ``shape``, nearly all of them good."""
    parts: list[st.SearchStrategy[Any]] = []
    for size in shape:
        at = st.integers(-size, size - 1) if size else st.integers(-1, 0)
        parts.append(st.one_of(at, at, _slices(size), _slices(size), st.integers(-size - 2, size + 1)))
    more = st.sampled_from([None, ..., True, False])

    @st.composite
    def tuples(draw: Any) -> tuple[Any, ...]:
        count = draw(st.integers(0, len(parts)))
        from_the_end = draw(st.booleans())
        chosen = [draw(part) for part in (parts[len(parts) - count :] if from_the_end else parts[:count])]
        if from_the_end:
            chosen.insert(0, ...)
        for each in draw(st.lists(more, max_size=2, unique=True)):
            if each is ... and from_the_end:
                continue
            chosen.insert(draw(st.integers(0, len(chosen))), each)
        return tuple(chosen)

    alone = [None, ..., True, False, (), 0, -1, 2**62, -(2**63)]
    return st.one_of(tuples(), tuples(), tuples(), *parts[:1], st.sampled_from(alone))


def _is_advanced(key: Any) -> bool:
    """Whether a bool makes a copy of it."""
    return any(isinstance(part, bool) for part in (key if isinstance(key, tuple) else (key,)))


def _pair(shape: tuple[int, ...], kind: str, place: str) -> tuple[Any, Any]:
    torch = pytest.importorskip("torch")
    count = prod(shape)
    return (
        tensor.arange(count, device=place).to(getattr(tensor, kind)).view(shape),
        torch.arange(count).to(getattr(torch, kind)).view(shape),
    )


def _compare(found: Any, expected: Any) -> None:
    assert torch_dtype(found.dtype) is expected.dtype
    assert tuple(found.shape) == tuple(expected.shape)
    assert_same_elements(array_of(found), array_of(expected))


def _compare_views(found: Any, expected: Any) -> None:
    _compare(found, expected)
    assert found.stride() == expected.stride()
    assert found.storage_offset() == expected.storage_offset()


@pytest.mark.parity
@settings(max_examples=200, suppress_health_check=QUIET)
@given(shape=SHAPES, data=st.data())
def test_reads(device_name: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    mine, theirs = _pair(shape, "float32", device_name)
    key = data.draw(keys(shape), label="key")
    result = outcome(lambda: mine[key])
    same = _compare if _is_advanced(key) else _compare_views
    if assert_same_outcome(result, outcome(lambda: theirs[key]), same) and not _is_advanced(key):
        assert result.untyped_storage() is mine.untyped_storage()


def _values(shape: tuple[int, ...]) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes that broadcast to ``shape``, or nearly."""
    fits = st.tuples(*(st.sampled_from([size, size, 1]) for size in shape))
    cut = st.builds(lambda full, first: full[first:], fits, st.integers(0, len(shape)))
    return st.one_of(fits, cut, fits.map(lambda full: (1, *full)), fits.map(lambda full: (2, *full)), SHAPES)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
@settings(max_examples=200, suppress_health_check=QUIET)
@given(shape=SHAPES, kind=st.sampled_from(KINDS), origin=st.sampled_from(KINDS), data=st.data())
def test_writes(
    device_name: str, shape: tuple[int, ...], kind: str, origin: str, data: st.DataObject
) -> None:
    mine, theirs = _pair(shape, kind, device_name)
    key = data.draw(keys(shape), label="key")
    part = outcome(lambda: theirs[key])
    bad_key = isinstance(part, Exception)
    inner = () if bad_key else tuple(part.shape)
    if bad_key:
        value = other = 1
    elif data.draw(st.booleans(), label="number"):
        value = other = data.draw(st.sampled_from([True, 3, -3, 2.5, 300, float("nan"), 1j, None, "1"]))
    else:
        if _is_advanced(key):
            origin = kind
        value, other = _pair(data.draw(_values(inner), label="value"), origin, "cpu")
        value = value.to(
            data.draw(st.sampled_from([device_name, "cpu"])) if not _is_advanced(key) else device_name
        )
    result = outcome(mine.__setitem__, key, value)
    assert_same_outcome(result, outcome(theirs.__setitem__, key, other), lambda *_: None)
    assert_same_elements(array_of(mine), array_of(theirs))
    assert not isinstance(result, Exception) or mine._version == 0


@pytest.mark.parametrize(
    "at", [1, -2, np.int64(1), np.int8(-2), tensor.tensor(1), tensor.tensor(1, dtype=tensor.uint8)]
)
def test_what_counts_as_an_int(device_name: str, at: Any) -> None:
    x = tensor.arange(9, device=device_name).view(3, 3)
    if isinstance(at, tensor.Tensor) and at.dtype is tensor.uint8:
        # Of a byte tensor PyTorch makes a mask.
        assert x[at].shape == (1, 3, 3)
        return
    assert x[at].tolist() == [3, 4, 5]
    assert x[at, at].item() == 4
    assert x[:at].tolist() == x[:1].tolist()
    x[at] = 0
    assert x.tolist() == [[0, 1, 2], [0, 0, 0], [6, 7, 8]]


@pytest.mark.parity
@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (2, IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
        ((0, -4), IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
        ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
        ((0, None, slice(None), 0), IndexError, "too many indices for tensor of dimension 2"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (slice(None, None, 0), ValueError, "zero"),
        (1.0, IndexError, r"only integers, slices .* are valid indices \(got float\)"),
        (slice(0.5, None), TypeError, "integers|indices"),
        (slice("a", None), TypeError, "integers|indices"),
        (2**62, IndexError, "out of bounds"),
        ((0, 2**62), IndexError, "out of bounds"),
    ],
)
def test_errors(device_name: str, key: Any, error: type[Exception], message: str) -> None:
    mine, theirs = _pair((2, 3), "int64", device_name)
    with pytest.raises(error, match=message):
        mine[key]
    with pytest.raises(error, match=message):
        mine[key] = 1
    with pytest.raises(error):
        theirs[key]
    assert mine._version == 0
    assert mine.tolist() == theirs.tolist()


def test_a_tensor_without_dimensions(device_name: str) -> None:
    x = tensor.tensor(5, device=device_name)
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        x[0]
    with pytest.raises(IndexError):
        x[:]
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        list(x)
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
        len(x)
    assert x[...].shape == x[()].shape == ()
    assert x[None].shape == (1,)
    x[...] = 7
    assert x.item() == 7
    x[()] = 8
    assert x.item() == 8


def test_steps_beyond_the_end(device_name: str) -> None:
    x = tensor.arange(6, device=device_name).view(3, 2)
    for step in (5, 2**60, 2**62):
        assert x[1::step].tolist() == [[2, 3]]
    x[:: 2**62, 1] = 9
    assert x.tolist() == [[0, 9], [2, 3], [4, 5]]


def test_iteration_gives_views(device_name: str) -> None:
    x = tensor.arange(6, device=device_name).view(3, 2)
    for number, row in enumerate(x):
        row.fill_(number)
    assert x.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert len(x) == 3
    first, *rest = x
    assert (first.storage_offset(), len(rest)) == (0, 2)


def test_augmented_assignment_to_a_part(device_name: str) -> None:
    x = tensor.arange(6, device=device_name).view(2, 3)
    x[0] += 10
    x[:, 1] *= 2
    x[1, 2] -= 5
    assert x.tolist() == [[10, 22, 12], [3, 8, 0]]


def test_values_from_other_devices(two_devices: tuple[drv.Device, drv.Device]) -> None:
    x = tensor.zeros(2, 3, device="cuda:0")
    x[0] = tensor.tensor([1, 2, 3])
    x[1] = tensor.tensor([4.5, 5, 6], dtype=tensor.float64, device="cuda:1")
    assert x.tolist() == [[1, 2, 3], [4.5, 5, 6]]
    host = tensor.zeros(3, dtype=tensor.int32)
    host[1:] = x[1, :2]
    assert host.tolist() == [0, 4, 5]
    host[...] = tensor.tensor(7.9, device="cuda:1")
    assert host.tolist() == [7, 7, 7]


@pytest.mark.parity
def test_a_part_onto_itself_shifted(device_name: str) -> None:
    """PyTorch refuses what depends on the order of elements."""
    torch = pytest.importorskip("torch")
    mine, theirs = tensor.arange(6, device=device_name), torch.arange(6)
    for target, source in [(slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))]:
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
            theirs[target] = theirs[source]
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
            mine[target] = mine[source]
    mine[:3] = mine[3:]
    mine[:] = mine[:]
    assert mine.tolist() == [3, 4, 5, 3, 4, 5]
