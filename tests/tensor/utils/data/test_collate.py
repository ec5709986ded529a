"""Batches like PyTorch's."""

from __future__ import annotations

from collections import OrderedDict, UserDict, UserList, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

import tensor
from tensor.utils import data
from tests.tensor.comparison import assert_same, assert_same_outcome, outcome


class Point(NamedTuple):
    x: Any
    y: Any


def assert_same_nested(found: Any, expected: Any) -> None:
    torch = pytest.importorskip("torch")
    if isinstance(expected, torch.Tensor):
        assert_same(found, expected)
        return
    assert type(found) is type(expected)
    if isinstance(expected, (dict, UserDict)):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, (list, tuple, UserList)):
        assert len(found) == len(expected)
        for mine, needed in zip(found, expected, strict=True):
            assert_same_nested(mine, needed)
    elif isinstance(expected, np.ndarray):
        assert (found == expected).all()
    else:
        assert found == expected


SAMPLES = {
    "floats": [1.5, 2],
    "integers": [1, 2],
    "bools": [True, False],
    "mixed": [1, 2.5],
    "complex": [1j, 2j],
    "strings": ["a", "bc"],
    "bytes": [b"a", b"bc"],
    "tuples": [(1, 2.0), (3, 4.0)],
    "lists": [[1, 2.0], [3, 4.0]],
    "named": [Point(1, "a"), Point(2, "b")],
    "dicts": [{"a": 1, "b": (2.0, "x")}, {"b": (3.0, "y"), "a": 4}],
    "ordered": [OrderedDict(b=1, a=2), OrderedDict(b=3, a=4)],
    "default": [defaultdict(list, a=1), defaultdict(list, a=2)],
    "user dict": [UserDict(a=1), UserDict(a=2)],
    "user list": [UserList([1, 2]), UserList([3, 4])],
    "ranges": [range(2), range(2, 4)],
    "unequal": [[1, 2], [3]],
    "unequal tuples": [(1, 2), (3, 4, 5)],
    "missing key": [{"a": 1}, {"b": 2}],
    "sets": [{1}, {2}],
    "None": [None, None],
    "objects": [object(), object()],
    "empty tuples": [(), ()],
    "arrays": [np.arange(3, dtype=np.int16), np.arange(3, dtype=np.int16)],
    "unequal arrays": [np.arange(3), np.arange(4)],
    "0-dim arrays": [np.array(1.5, np.float32), np.array(2.5, np.float32)],
    "texts": [np.array(["a"]), np.array(["b"])],
    "float32": [np.float32(1.5), np.float32(2)],
    "float64": [np.float64(1.5), np.float64(2)],
    "int8": [np.int8(1), np.int8(2)],
    "numpy bools": [np.bool_(True), np.bool_(False)],
    "numpy texts": [np.str_("a"), np.str_("b")],
}


@pytest.mark.parity
@pytest.mark.parametrize("name", SAMPLES)
def test_collate(name: str) -> None:
    torch = pytest.importorskip("torch")
    expected = outcome(torch.utils.data.default_collate, SAMPLES[name])
    assert_same_outcome(outcome(data.default_collate, SAMPLES[name]), expected, assert_same_nested)


@pytest.mark.parity
@pytest.mark.parametrize("name", SAMPLES)
def test_convert(name: str) -> None:
    torch = pytest.importorskip("torch")
    expected = outcome(torch.utils.data.default_convert, SAMPLES[name])
    assert_same_outcome(outcome(data.default_convert, SAMPLES[name]), expected, assert_same_nested)


def test_empty_batch() -> None:
    with pytest.raises(IndexError):
        data.default_collate([])


def test_tensors() -> None:
    batch = data.default_collate([{"x": tensor.ones(2), "y": 1}, {"x": tensor.zeros(2), "y": 2}])
    assert batch["x"].tolist() == [[1, 1], [0, 0]]
    assert batch["y"].tolist() == [1, 2]
    with pytest.raises(RuntimeError):
        data.default_collate([tensor.ones(2), tensor.ones(3)])


def test_convert_shares_memory() -> None:
    array = np.zeros(3)
    converted = data.default_convert({"x": [array]})["x"][0]
    array[1] = 5
    assert converted.tolist() == [0, 5, 0]


def test_functions_for_types_of_ones_own() -> None:
    from tensor.utils.data.collate import collate, default_collate_fn_map

    def joined(batch: Any, *, collate_fn_map: Any) -> str:
        return "".join(batch)

    functions = {str: joined} | {
        key: value for key, value in default_collate_fn_map.items() if key is not str
    }
    result = collate([("a", 1), ("b", 2)], collate_fn_map=functions)
    assert result[0] == "ab"
    assert result[1].tolist() == [1, 2]
