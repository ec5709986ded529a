"""``x[seq]`` with a sequence that is no tuple: one index tensor, or, by NumPy's old rule, a tuple of indices."""

from __future__ import annotations

import warnings
from collections import UserList, deque
from typing import Any, NamedTuple

import numpy as np
import pytest

import tensor
from tests.pytorch import torch

WARNING = "non-tuple sequence for multidimensional indexing is deprecated"

#: Keys of a tensor of shape (3, 3, 3) by the library's name for tensors.
TUPLES = (
    "[[0, 1], [1, 2]]",
    "[[0, 1]]",
    "[[0, 1], 1]",
    "[(0, 1), (1, 2), (2, 2)]",
    "[range(2)]",
    "[[]]",
    "[[[0, 1], [1, 2]]]",
    "[[[0, 1]], [1, 2]]",
    "[[True, False, True], [0, 1]]",
    "[[True, False, True], [True, False, True]]",
    "[0, slice(None, 2)]",
    "[..., [0, 2]]",
    "[[0, 1], None]",
    "[m.tensor([0, 1]), m.tensor([1, 2])]",
    "[np.array([0, 1]), [1, 2]]",
    "deque([[0, 1], [1, 2]])",
    "UserList([[0, 1], 1])",
)
INDICES = (
    "[0, 2]",
    "[]",
    "[True, False, True]",
    "[np.int64(1), 0]",
    "range(2)",
    "deque([0, 2])",
    "UserList([2, 2])",
    "[[0]] * 32",
    "np.array([[0, 1], [1, 2]])",
    "([0, 1], [1, 2])",
)


def _key(text: str, m: Any) -> Any:
    return eval(text, {"m": m, "np": np, "deque": deque, "UserList": UserList})


@pytest.mark.parametrize("text", TUPLES)
def test_tuples(text: str, device_name: str) -> None:
    x = tensor.arange(27.0, device=device_name).view(3, 3, 3)
    key = _key(text, tensor)
    with pytest.warns(UserWarning, match=WARNING) as caught:
        result = x[key]
    assert caught[0].filename == __file__
    expected = x[tuple(key)]
    assert result.shape == expected.shape
    assert result.tolist() == expected.tolist()
    y = x.clone()
    with pytest.warns(UserWarning, match=WARNING) as caught:
        y[key] = -1
    assert caught[0].filename == __file__
    x[tuple(key)] = -1
    assert y.tolist() == x.tolist()


@pytest.mark.parametrize("text", INDICES)
def test_indices_without_a_warning(text: str, device_name: str, recwarn: pytest.WarningsRecorder) -> None:
    x = tensor.arange(27.0, device=device_name).view(3, 3, 3)
    key = _key(text, tensor)
    same = key if isinstance(key, tuple) else np.array(key, dtype=None if len(key) else np.int64)
    expected = x.cpu().numpy()[same]
    assert x[key].shape == expected.shape
    assert x[key].tolist() == expected.tolist()
    assert not recwarn.list


@pytest.mark.parity
@pytest.mark.parametrize("text", TUPLES + INDICES)
def test_they_are_pytorchs(text: str, device_name: str) -> None:
    x, y = tensor.arange(27.0, device=device_name).view(3, 3, 3), torch.arange(27.0).view(3, 3, 3)
    with warnings.catch_warnings(record=True) as theirs:
        warnings.simplefilter("always")
        expected = y[_key(text, torch)]
        y[_key(text, torch)] = -1
    with warnings.catch_warnings(record=True) as ours:
        warnings.simplefilter("always")
        result = x[_key(text, tensor)]
        x[_key(text, tensor)] = -1
    assert result.tolist() == expected.tolist()
    assert x.tolist() == y.tolist()
    assert len(ours) == len(theirs)


@pytest.mark.filterwarnings("ignore:Using a non-tuple")
@pytest.mark.parametrize(("key", "message"), [([[0]] * 4, "too many indices"), (["a", "b"], "'str'")])
def test_bad_ones(key: list[Any], message: str, device_name: str) -> None:
    x = tensor.zeros(3, 3, device=device_name)
    with pytest.raises((IndexError, ValueError), match=message):
        x[key]


def test_a_named_tuple_is_a_tuple(device_name: str) -> None:
    class At(NamedTuple):
        row: int
        column: int

    x = tensor.arange(9, device=device_name).view(3, 3)
    assert x[At(1, 2)].item() == 5
    assert x[tensor.Size([2, 0])].item() == 6


def test_the_warning_of_masks_of_bytes_points_at_the_line(device_name: str) -> None:
    x = tensor.zeros(3, device=device_name)
    mask = tensor.tensor([0, 1, 0], dtype=tensor.uint8, device=device_name)
    value = tensor.tensor(1.0, device=device_name)
    with pytest.warns(UserWarning, match="please use a dtype tensor.bool") as caught:
        x[mask]
        x[mask] = 1
        x.index_put((mask,), value)
        x.index_put_((mask,), value)
        tensor.index_put(x, (mask,), value)
    assert [each.filename for each in caught] == [__file__] * 5
